r"""Everything with a dominating pair, sampled or not: which pair each use has, by scheme, relation and what it runs.

The two directions of a pair of data sets are composed apart (``front``) and the larger δ is taken at the end.

What runs on one sample is one pair: in closed form where it is one mechanism, beside a few pure ones at most, else
its loss distribution on a lattice (``computed``), which may have samples in it again.

Substitution under sampling without replacement: the upper side composes the ``Combined`` curve, the lower side
the ``Mixed`` pair (all other records equal to the new one), so the bracket holds a gap of
the theory, not of arithmetic. So is it with an exponential mechanism on the sample (``envelope``; several are one pair,
that of the most that they cost together, ``blocks``), and with one that is only known to be concentrated: all
that is so on one sample is one pair of Σρ (Bun, Steinke 2016, Lemma 2.3), that of the conversion's chords (``zcdp``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from flint import ctx

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Approximate, Exponential, Laplace, Pure
from affidavit.accountant.verifier.balls import Ball, ball, precision
from affidavit.accountant.verifier.blocks import BLOCK, exponential_blocks, pair_of
from affidavit.accountant.verifier.cases import Case, Either, Fixed, Sampled, Steps, Use, by_range, rho_of
from affidavit.accountant.verifier.ceiling import likely_cost
from affidavit.accountant.verifier.computed import DISJOINT, IDLE, computed
from affidavit.accountant.verifier.envelope import ExponentialPair
from affidavit.accountant.verifier.exponential_use import LEAST_RANGE
from affidavit.accountant.verifier.finite_losses import chunked, losses_of, most_atoms
from affidavit.accountant.verifier.front import Direction, Front
from affidavit.accountant.verifier.largest import Largest
from affidavit.accountant.verifier.memoryless import two_losses
from affidavit.accountant.verifier.noises import NOISES
from affidavit.accountant.verifier.pairs import (
    Beside,
    Combined,
    Diluted,
    Finite,
    GaussianPair,
    Mixed,
    Pair,
    PresentOrAbsent,
    Reversed,
    plain,
)
from affidavit.accountant.verifier.product import Atoms, TwoValued, two_point_product
from affidavit.accountant.verifier.replaced import PureCost, replaced_pairs
from affidavit.accountant.verifier.zcdp import zcdp_curve, zcdp_top

__all__ = ["concentrated_pair", "expected_delta", "fronts", "largest_pair", "sampled_pairs", "words_of_samples"]

GUARD_BITS = 72
"""Bits beyond the smallest mass that matters: room for lattice differences and for the transform."""
LARGE, MOST = 20, 10_000
"""Losses above it take more bits."""
SHARE = 1.0 / 16.0
"""Of what is negligible, what a lattice on the samples may cut off."""
LARGEST_RANGE = 10
"""Of exponential mechanisms that are composed on a sample by what they cost at most together."""
FEW_LOSSES = 16
"""Losses of pure mechanisms beside another one that are kept apart on a sample."""
MOST_LOSSES = 20_000
"""Of what exponential mechanisms on a sample may be, kept apart."""


def _single_pure(case: Case) -> Ball | None:
    """ε if the case is one use of a pure mechanism."""
    match case:
        case Case(first=Fixed(mu_squared=0, rho=0, uses=((Pure(epsilon=epsilon), 1),)), steps=(), blatant=False):
            return ball(epsilon)
    return None


def _direction(case: Case, *, forward: bool, lattice: bool, negligible: float) -> Direction:
    """All that runs; what is only known to be concentrated, or of a range, by the pair that dominates it."""
    fixed = case.fixed
    upper: list[tuple[Pair, int]] = []
    lower: list[tuple[Pair, int]] = []
    binomials: list[TwoValued] = []
    plain: list[tuple[Pure | Approximate, int]] = []
    for use, count in fixed.uses:
        match use:
            case Pure() | Approximate():
                plain.append((use, count))
            case Sampled() if _is_mixture(use) and (epsilon := _single_pure(use.of)) is not None:
                losses = two_losses(2 * epsilon, ball(use.rate), epsilon, removed=forward != use.mirrored)
                binomials.append(TwoValued(*losses, count))
            case _:
                above, below = _pairs(use, forward=forward, negligible=negligible / count)
                upper.append((above, count))
                if below is not None:
                    lower.append((below, count))
    if case.steps:
        upper += _above(case.steps, negligible)
        halves = _halves(case.steps)
        lower += [(Finite(_product(halves)), 1)] if losses_of(halves) <= MOST_LOSSES else chunked(halves)
    if fixed.rho:
        upper.append((concentrated_pair(fixed.rho, negligible), 1))
        lower.append((GaussianPair(ball(2 * fixed.rho).sqrt()), 1))
    if losses_of(plain) > most_atoms(gaussian=fixed.mu_squared > 0, lattice=lattice or bool(upper)):
        stairs = list(chunked(plain))
        upper, lower, plain = [*upper, *stairs], [*lower, *stairs], []
    mu = ball(fixed.mu_squared).sqrt() if fixed.mu_squared else None
    if mu is not None and (upper or lattice):
        gaussian = GaussianPair(mu)
        upper.append((gaussian, 1))
        lower.append((gaussian, 1))
    same = [id(pair) for pair, _ in upper] == [id(pair) for pair, _ in lower]
    pairs = tuple(upper)
    return Direction(mu, pairs, pairs if same else tuple(lower), tuple(binomials), tuple(plain))


def _in_blocks(steps: Steps) -> bool:
    """Whether there are several, and ``blocks`` do for them."""
    uses = by_range(steps)
    return uses.total() > 1 and min(uses) >= LEAST_RANGE and max(uses) <= LARGEST_RANGE and rho_of(steps) <= MOST


@lru_cache(maxsize=16)
def concentrated_pair(rho: Fraction, negligible: float) -> Pair:
    """Everything that is ρ-zCDP as a whole: the curve of any of it, and its mirror image, lie below the conversion.

    So they are below the chords of both sides, also below the one between the two points that it touches both at. What
    else runs there is composed with it: its outcomes may be drawn from its own pairs first, and given them the rest is
    ρ-zCDP.
    """
    return pair_of(zcdp_curve(rho, zcdp_top(float(rho), negligible)))


@lru_cache(maxsize=16)
def _above(steps: Steps, negligible: float) -> tuple[tuple[Pair, int], ...]:
    """All of them as one pair, whatever else runs between them: that of their largest curve (``blocks``)."""
    if not _in_blocks(steps):
        return tuple((ExponentialPair(ball(spread)), count) for spread, count in steps)
    cost = float(rho_of(steps))
    return ((pair_of(exponential_blocks(steps, negligible, math.sqrt(max(1.0, -math.log(negligible)) / cost))), 1),)


def words_of_samples(fixed: Fixed) -> tuple[str, ...]:
    """How exponential mechanisms that run together on its samples are composed."""
    found: list[str] = []
    for use, _ in fixed.uses:
        match use:
            case Sampled(of=of, absent=absent):
                for case in (of,) if absent is None else (of, absent):
                    if case.steps and _in_blocks(case.steps):
                        long = max(by_range(case.steps).values()) > BLOCK
                        how = "blocks" if long else "adaptive composition"
                        found.append(f"{how} of exponential mechanisms on a sample")
                    found += words_of_samples(case.fixed)
            case Either(of=kinds):
                found += [words for kind in kinds for words in words_of_samples(kind)]
    return tuple(dict.fromkeys(found))


def _halves(steps: Steps) -> list[tuple[Pure, int]]:
    """What they may be: randomised response is an exponential mechanism."""
    halves = [(float(spread / 2), spread, count) for spread, count in by_range(steps).items()]
    return [
        (Pure(half if 2 * Fraction(half) <= spread else math.nextafter(half, 0.0)), count)
        for half, spread, count in halves
    ]


def fronts(fixed: Fixed, *, negligible: float) -> tuple[Front, Front]:
    """Both directions; ``negligible`` is a mass that may be cut off."""
    bits, case = int(GUARD_BITS - math.log2(negligible)) + _further_bits(fixed), Case(first=fixed)
    with precision(bits):
        forward, backward = (
            _direction(case, forward=forward, lattice=False, negligible=negligible) for forward in (True, False)
        )
    return Front(forward, negligible, bits), Front(backward, negligible, bits)


def _further_bits(fixed: Fixed) -> int:
    """For losses so large that e^loss is beyond the precision."""
    met = [use for use, _ in fixed.uses]
    met += [use for one in met if isinstance(one, Either) for kind in one.of for use, _ in kind.uses]
    samples = [use for use in met if isinstance(use, Sampled)]
    largest = max(map(_loss_on_sample, samples), default=0)
    laplace = (leaf for use in samples for leaf, _ in use.of.fixed.uses if isinstance(leaf, Laplace))
    if largest > MOST or any(leaf.noise_multiplier * MOST < 1.0 for leaf in laplace):
        raise NotSupported(
            f"mechanisms that lose more than {MOST:,} on a sample, in certified arithmetic",
            hint=f"State {MOST:,} at most, such as `epsilon = 1000`, or `noise_multiplier = 0.001` of a laplace leaf.",
        )
    return max(0, int(2 * (largest - LARGE) / math.log(2)))


def _loss_on_sample(use: Sampled) -> Fraction:
    """About the largest loss of the mechanisms of bounded loss on a sample."""
    sizes = Fraction(0)
    for case in [use.of] if use.absent is None else [use.of, use.absent]:
        sizes += 0 if _in_blocks(case.steps) else sum((spread * n for spread, n in case.steps), Fraction(0))
        for leaf, n in case.fixed.uses:
            match leaf:
                case Pure(epsilon=epsilon) | Approximate(epsilon=epsilon):
                    sizes += n * Fraction(epsilon)
                case Sampled():
                    sizes += n * _loss_on_sample(leaf)
    return sizes


def expected_delta(fixed: Fixed, epsilon: float) -> float:
    """About the δ at ε of everything that needs a lattice; 1 if nothing does."""
    negligible = 1e-30
    while True:
        logs = [front.log_tail(epsilon) for front in fronts(fixed, negligible=negligible) if front.direction.upper]
        log = max(logs, default=0.0)
        if log > math.log(negligible) + 30 or negligible < 1e-250:
            return math.exp(max(log, -600.0))
        negligible = max(negligible**2, 1e-300)


def _pairs(use: Use, *, forward: bool, negligible: float) -> tuple[Pair, Pair | None]:
    """(upper, lower) pair of one use; one object where it is attained, None where no loss is known below."""
    match use:
        case Pure() | Approximate():
            pair: Pair = Finite(_product([(use, 1)]))
            return pair, pair
        case Exponential(range=spread):
            return ExponentialPair(ball(spread)), None
        case Sampled():
            return sampled_pairs(use, forward=forward, negligible=negligible)
        case Either(of=kinds):
            return largest_pair(kinds, forward=forward, negligible=negligible), None
        case _:
            return NOISES[type(use)].pairs(use, ctx.prec)


def largest_pair(kinds: Sequence[Fixed], *, forward: bool, negligible: float) -> Pair:
    """Of one use of any of these, each a single mechanism with a pair."""
    pairs = tuple(
        _pairs(kind.uses[0][0], forward=forward, negligible=negligible)[0]
        if kind.uses
        else GaussianPair(ball(kind.mu_squared).sqrt())
        for kind in kinds
    )
    return pairs[0] if len(pairs) == 1 else Largest(pairs)


def _is_mixture(use: Sampled) -> bool:
    """Whether one of the two laws is that on the sample without the record."""
    return use.relation == "add-remove" or (use.scheme == "poisson" and use.relation == "zero-out")


def sampled_pairs(use: Sampled, *, forward: bool, negligible: float) -> tuple[Pair, Pair]:
    """(upper, lower) pair of one sampled use in one direction; one object where the bracket can close.

    ``negligible``: a mass that may be cut off where it has to be computed.
    """
    toward, rate = forward != use.mirrored, ball(use.rate)
    if use.absent is not None:
        return _present_or_absent(use, use.absent, toward=toward, negligible=negligible)
    inner, attained = _on_sample(use.of, forward=toward, negligible=negligible)
    if attained is DISJOINT and not _is_mixture(use):  # three laws without a common outcome
        taken = Diluted(attained, rate)
        return taken, taken
    mixture = Mixed if toward else Reversed
    mixed: Pair = mixture(attained, rate)
    if use.scheme == "poisson" and use.relation == "substitution":
        diluted = Diluted(attained, rate)
        return (diluted, diluted) if inner is attained else (Diluted(inner, rate), diluted)
    if use.scheme == "poisson":
        return (mixed, mixed) if inner is attained else (mixture(inner, rate), mixed)
    if inner.directed:  # either of two records may be the one that is displaced
        other, _ = _on_sample(use.of, forward=not toward, negligible=negligible)
        inner = Largest((inner, other))
    if use.relation == "add-remove":
        return (mixed, mixed) if inner is attained else (mixture(inner, rate), mixed)
    return Combined(inner, rate), mixed


def _on_sample(case: Case, *, forward: bool, negligible: float) -> tuple[Pair, Pair]:
    """(upper, lower) pair of all that runs on one sample; the same object where it is exact."""
    found = _found_on_sample(case, True, negligible, ctx.prec)
    if forward or not any(pair.directed for pair in found):
        return found
    return _found_on_sample(case, False, negligible, ctx.prec)


@lru_cache(maxsize=64)
def _found_on_sample(case: Case, forward: bool, negligible: float, bits: int) -> tuple[Pair, Pair]:
    fixed, beyond = case.fixed, case.fixed.rho > MOST
    if case.blatant or beyond:
        return DISJOINT, IDLE if beyond and not case.blatant else DISJOINT
    leaves = [(use, count) for use, count in fixed.uses if isinstance(use, (Pure, Approximate))]
    if len(leaves) == len(fixed.uses) and not fixed.rho and not case.steps:
        exact = plain(ball(fixed.mu_squared).sqrt() if fixed.mu_squared else None, _product(leaves))
        return exact, exact
    cut = negligible * SHARE
    direction = _direction(case, forward=forward, lattice=True, negligible=cut)
    match direction:
        case Direction(upper=((above, 1),), lower=lower, binomials=(), plain=beside) if len(lower) < 2:
            below = lower[0][0] if lower else IDLE
            if not beside:
                return above, below
            atoms = _product(beside)
            if len(atoms.losses) <= FEW_LOSSES or isinstance(above, ExponentialPair):
                one = Beside(atoms, above)
                return one, one if below is above else Beside(atoms, below)
    return computed(Front(direction, cut, bits))


def _product(leaves: Sequence[tuple[Pure | Approximate, int]]) -> Atoms:
    return two_point_product(leaves, budget=1e-300)


def _present_or_absent(use: Sampled, absent: Case, *, toward: bool, negligible: float) -> tuple[Pair, Pair]:
    """Poisson sampling under substitution with both costs on the sample stated.

    Advanced joint convexity holds with the larger of both curves on the sample; what replacing costs holds by itself,
    and is taken where taking the record away may cost far more. Below, the new record is no record at all, where the
    costlier of the two statements allows it.
    """
    replaced, presence = PureCost.of(use.of), PureCost.of(absent)
    if replaced is not None and presence is not None:
        return replaced_pairs(replaced, presence, use.rate, forward=toward)
    rate, mixture = ball(use.rate), Mixed if toward else Reversed
    larger, smaller = use.of.gaussian, absent.gaussian
    if larger is not None and smaller is not None:
        replacing, gone = (GaussianPair(ball(mu_squared).sqrt()) for mu_squared in (larger, smaller))
        if smaller > larger:  # then what replacing costs holds by itself
            return Diluted(replacing, rate), mixture(replacing, rate)
        above = Combined(gone, rate) if smaller == larger else PresentOrAbsent(replacing, gone, rate)
        return above, mixture(gone, rate)
    ways = (toward, not toward)
    both = [[_on_sample(of, forward=way, negligible=negligible) for way in ways] for of in (use.of, absent)]
    curves = [Largest(tuple(pair for pair, _ in one)) if one[0][0].directed else one[0][0] for one in both]
    cheaper = both[1] if use.of.covers(absent) else both[0] if absent.covers(use.of) else None
    below = IDLE if cheaper is None or cheaper[0][1].directed else mixture(cheaper[0][1], rate)
    if float(use.rate) * likely_cost(absent)[1] > likely_cost(use.of)[1]:
        return Diluted(curves[0], rate), below
    return Combined(Largest(tuple(curves)), rate), below
