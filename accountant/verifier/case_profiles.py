"""Which method a case gets."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, reduce
from itertools import cycle
from typing import Literal

import numpy as np

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Approximate, Laplace, Pure
from affidavit.accountant.verifier.adaptive import (
    AdaptiveCurve,
    Side,
    adaptive_curve,
    cost_in_seconds,
    spacing,
)
from affidavit.accountant.verifier.balls import ball, precision
from affidavit.accountant.verifier.blocks import exponential_blocks
from affidavit.accountant.verifier.cases import Case, Fixed, Steps, Use, by_range, rho_of
from affidavit.accountant.verifier.ceiling import stated
from affidavit.accountant.verifier.envelope import ExponentialPair
from affidavit.accountant.verifier.exponential_samples import exponential_samples
from affidavit.accountant.verifier.exponential_use import LEAST_RANGE, Lines
from affidavit.accountant.verifier.failure import failure, is_unbounded
from affidavit.accountant.verifier.finite_losses import losses_of, most_atoms
from affidavit.accountant.verifier.front import Front
from affidavit.accountant.verifier.gaussian_samples import gaussian_samples
from affidavit.accountant.verifier.lattice_profiles import sampled_profile
from affidavit.accountant.verifier.memoryless import METHOD, MOST_USES, Kind, estimate, memoryless_profile
from affidavit.accountant.verifier.mixture import (
    Kept,
    LossMasses,
    MixtureProfile,
    NoSteps,
    begun,
    gaussian_masses,
    two_point_masses,
)
from affidavit.accountant.verifier.product import ProductProfile, two_point_product
from affidavit.accountant.verifier.profile import (
    LOUD,
    TAIL,
    Best,
    Blatant,
    OneSide,
    Profile,
    Target,
    worst,
)
from affidavit.accountant.verifier.sampled import fronts
from affidavit.accountant.verifier.single import SingleProfile
from affidavit.accountant.verifier.zcdp import zcdp_curve, zcdp_top

__all__ = ["profile_of"]

BITS = 256
CELLS = (96, 80, 64, 56, 48, 40, 32, 28, 24, 20, 16, 12, 8, 6)
ENOUGH, LOUD_ENOUGH, FINER = 40, 16, 2.5
"""Cells to a range for a relative width of about 5e-4 to 8e-4 (it falls with their square), for less than 1e-2, where
all of it costs more than ``LOUD``; times these for 1e-4."""
QUICK, AFFORDABLE = 0.5, 2.0
"""Seconds: more than ``ENOUGH`` cells if they fit the first, up to ``ENOUGH`` if they fit the second."""
WEAK = 1e-4
"""Share of the cost that exponential mechanisms have, below which pure ones in their place cost hardly more."""
LARGEST_IN_BLOCKS = 28
"""Of larger ranges moments are as sharp as blocks, which need ever more places, and pure ones of few."""
LARGEST_RANGE = 690
"""Larger ranges leave float64: such a mechanism counts as pure."""
SECONDS_PER_TAIL = 3e-5
"""Of what runs after all steps, at one lattice point."""
FRONT_WIDTH = 4e-4
"""Relative bracket width of lattices in front of exponential steps."""
SHARED = 16.0
"""What recursions leave out is a power of it, so that cases that differ by what runs beside them share theirs."""
UNRESOLVED = 0.4
"""Of the places that a lattice may have at most."""
START_TERMS, START_BITS = 2_000_000, 96
MANY_STEPS, MANY_BESIDE = 250, 600
"""Exponential steps from which on blocks of them are as sharp as the recursion over all of them; the second where
others run between or after them, which blocks have in front."""
SHORTEST_RUN = 100
"""Steps of one range from which on a block of them is nearly as sharp; of several, in proportion to their cost."""
LEAST_TILT = 1e-6
NEGLIGIBLE_COST, GATHERED = Fraction(1, 1_000), 700
"""Of a range's steps, of the sum of squared ranges: a lower side does without them. Cells of what is summed there."""
SHIFTS, FINE = (0.0, 0.25, 0.5, 0.75), 1e-4
"""Of all losses, in ranges; none where the range is so little of ε."""


def _two_point(fixed: Fixed) -> list[tuple[Pure | Approximate, int]]:
    return [(use, count) for use, count in fixed.uses if isinstance(use, (Pure, Approximate))]


def _rho(fixed: Fixed, steps: Steps) -> float:
    """About how much zCDP all of it is: sizes lattices, never a bound."""
    exact = fixed.rho + fixed.mu_squared / 2 + rho_of(steps)
    try:
        return float(exact) + sum(count * float(use.epsilon) ** 2 / 2 for use, count in _two_point(fixed))
    except OverflowError:
        return math.inf


def _product(fixed: Fixed, tail: float) -> ProductProfile:
    with precision(BITS):
        mu = ball(fixed.mu_squared).sqrt() if fixed.mu_squared else None
        atoms = two_point_product(_two_point(fixed), budget=tail)
    method = "Gaussian closed form" + ("" if atoms.trivial else " x two-point product")
    return ProductProfile(mu, atoms, method if mu is not None else "optimal composition (two-point product)", BITS)


def _on_lattice(fixed: Fixed) -> bool:
    """Whether there is no exact product."""
    most = most_atoms(gaussian=fixed.mu_squared > 0, lattice=False)
    return len(_two_point(fixed)) < len(fixed.uses) or losses_of(_two_point(fixed)) > most


@lru_cache(maxsize=8)
def _masses(fixed: Fixed, tail: float, keep: Kept, about: float) -> tuple[LossMasses | None, ...]:
    """The loss distribution of fixed pairs, in each direction where the two differ; as fine as ``about`` asks."""
    if fixed.empty:
        return (None,)
    if _on_lattice(fixed):
        forward, backward = fronts(fixed, negligible=tail)
        found = (forward, backward) if forward.directed else (forward,)
        closed = [front.closed_form() for front in found]
        return tuple(
            front.masses(_front_spacing(front, about), keep=keep) if form is None else _times_gaussian(form, tail, keep)
            for front, form in zip(found, closed, strict=True)
        )
    return (_times_gaussian(_product(fixed, tail), tail, keep),)


def _front_spacing(front: Front, about: float) -> float:
    """Where even the finest lattice would not tell apart what a rare sample takes, one that does not try to."""
    step = front.spacing(FRONT_WIDTH, about=about)
    far = front.tails(step) > UNRESOLVED
    return front.spacing(FRONT_WIDTH / 8, resolve=False, about=about) if far else step


def _about(case: Case, target: Target) -> float:
    """What ε is likely to be at least, as a power of two; 0: not known. It sizes lattices, never a bound.

    What is known to be enough, or what exponential mechanisms cost with Gaussians: others beside them cost little, or
    more than that.
    """
    if target.delta is None:
        return 0.0
    kinds = [Kind(spread, Fraction(1), count) for spread, count in by_range(case.steps).items()]
    near = estimate(kinds, target, beside=_rho(case.fixed, ())).epsilon if kinds else 0.0
    known = max(near, target.enough)
    return math.ldexp(1.0, math.frexp(known)[1] - 1) if 0.0 < known < math.inf else 0.0


def _times_gaussian(product: ProductProfile, tail: float, keep: Kept) -> LossMasses:
    points = two_point_masses(product.atoms, keep=keep)
    return points if product.mu is None else gaussian_masses(product.mu, budget=tail).times(points)


def _lattice(case: Case, tail: float) -> Fraction | None:
    """The finest affordable spacing, or None. The less of the cost the steps are, the fewer cells are enough."""
    steps, after = case.steps, case.between.plus(case.last)
    top = zcdp_top(_rho(Fixed(), steps), tail)
    end = 0.0 if after.empty or _on_lattice(after) else zcdp_top(_rho(after, steps), tail)
    whole = _rho(case.fixed, steps)
    most = LOUD_ENOUGH if zcdp_top(whole, 0.5) > 2.0 * LOUD else ENOUGH
    enough = most * math.sqrt(_rho(Fixed(), steps) / whole) if 0.0 < whole < math.inf else most
    for cells in CELLS:
        if cells > FINER * enough and cells > CELLS[-1]:
            continue
        step = spacing(steps, cells)
        seconds = cost_in_seconds(steps, step, max(top, end)) + SECONDS_PER_TAIL * end / float(step)
        if seconds <= (QUICK if cells > enough else AFFORDABLE):
            return step
    return None


def _start(last: Fixed, step: Fraction, top: float, tail: float) -> Side | None:
    """The recursion's start: ``last``, after all steps; None if it is empty, costs too much, or is not symmetric."""
    if last.empty or _on_lattice(last):
        return None
    product, points = _product(last, tail), math.ceil(top / float(step)) + 1
    if product.mu is not None and points * len(product.atoms.losses) > START_TERMS:
        return None
    bits = min(BITS, START_BITS - math.floor(math.log2(tail)))
    inside, weight, upper = begun(product, step, points, bits)
    return Side(np.minimum.accumulate(np.clip(upper, 0.0, 1.0)), Lines(inside, weight))


@lru_cache(maxsize=4)
def _ended(steps: Steps, step: Fraction, last: Fixed, tail: float) -> tuple[AdaptiveCurve, bool]:
    """The curve of all steps followed by ``last``, and whether ``last`` is really in it."""
    top = zcdp_top(_rho(last, steps), tail)
    start = _start(last, step, top, tail) if cost_in_seconds(steps, step, top) <= 2 * AFFORDABLE else None
    small = SHARED ** math.floor(math.log(tail, SHARED))
    return adaptive_curve(steps, step, negligible=small, start=start), start is not None or last.empty


def _adaptive(case: Case, target: Target) -> Profile | None:
    """Exponential steps between fixed pairs; None when no lattice is affordable.

    Above, what runs between the steps is moved before them; below, after them, as far as its pairs are symmetric.
    """
    steps, after = case.steps, case.between.plus(case.last)
    tail = target.tail(_rho(case.fixed, steps))
    step = _lattice(case, tail)
    if step is None:
        return None
    curve, ended = _ended(steps, step, Fixed() if case.interleaved else case.last, tail)
    front = case.first.plus(case.between) if ended and not case.interleaved else case.fixed
    moved = not ended or not case.between.empty or (case.interleaved and not case.last.empty)
    about = _about(case, target)
    masses = _masses(front, tail, "upper" if moved and target.keep == "both" else target.keep, about)
    below, others = curve, masses
    if moved and target.keep != "upper":
        below, _ = _ended(steps, step, replace(after, uses=tuple(_two_point(after))), tail)
        others = _masses(case.first, tail, "lower", about)
    method = f"exact adaptive composition of exponential mechanisms{'' if case.fixed.empty else ' with fixed pairs'}"
    pairs = zip(masses, cycle(others), strict=False)
    found = worst([MixtureProfile(curve, one, below, other, method) for one, other in pairs])
    if target.keep != "both":
        found = OneSide(found, target.keep)
    if target.keep == "upper" or not _on_lattice(after):
        return found
    # Pairs that are not symmetric cannot start the recursion; a strategy without memory can wait for them.
    return Best((found, _without_memory(case, target, tail)))


def zcdp_profile(case: Case, target: Target) -> Profile:
    """Upper side from moments of the zCDP leaves and steps; fixed pairs in front."""
    rho, steps = case.fixed.rho, tuple(sorted(by_range(case.steps).items()))
    rest = replace(case.fixed, rho=Fraction(0))
    tail = target.tail(_rho(case.fixed, steps))
    most = float(sum(spread * count for spread, count in steps))
    top = min(zcdp_top(float(rho + rho_of(steps)), tail), zcdp_top(float(rho), tail) + most)
    curve = zcdp_curve(rho, max(top, float(target.epsilon or 0.0)), steps)
    found = _masses(rest, tail, "upper", _about(case, target))
    method = "moments of zCDP and exponential mechanisms" if steps else "zCDP conversion"
    return OneSide(worst([MixtureProfile(curve, masses, curve, None, method) for masses in found]), "upper")


def _pure_steps(case: Case, share: int) -> Case:
    """The steps replaced by pure mechanisms of ε = range/share."""
    uses: Counter[Use] = Counter()
    for spread, count in case.steps:
        # Rounded to the safe side of each use: outwards for share 1 (upper), inwards for 2 (lower).
        epsilon = float(spread / share)
        if share == 1 and Fraction(epsilon) < spread:
            epsilon = math.nextafter(epsilon, math.inf)
        if share == 2 and Fraction(epsilon) * 2 > spread:
            epsilon = math.nextafter(epsilon, 0.0)
        uses[Pure(epsilon)] += count
    return Case(first=case.fixed.plus(Fixed(uses=tuple(sorted(uses.items(), key=repr)))))


def _in_blocks(case: Case, target: Target) -> Profile:
    """Very many steps: blocks of them above, everything else in front; below a strategy without memory."""
    tail = target.tail(rho := _rho(case.fixed, case.steps))
    sides: list[Profile] = [] if target.keep == "upper" else [_without_memory(case, target, tail)]
    if target.keep != "lower":
        sides.append(zcdp_profile(case, target))
    blocks = max(spread for spread, _ in case.steps) <= LARGEST_IN_BLOCKS
    if target.keep != "lower" and not blocks and by_range(case.steps).total() < MANY_STEPS:
        sides.append(OneSide(profile_of(_pure_steps(case, 1), replace(target, keep="upper")), "upper"))
    if target.keep != "lower" and blocks:
        tilt = max(LEAST_TILT, math.sqrt(max(1.0, -math.log(tail / TAIL)) / rho))
        curve = exponential_blocks(case.steps, tail, tilt)
        method = "blocks of exponential mechanisms, each by its largest curve"
        masses = _masses(case.fixed, tail, "upper", _about(case, target))
        sides.append(OneSide(worst([MixtureProfile(curve, one, curve, None, method) for one in masses]), "upper"))
    return Best(tuple(sides))


def _without_memory(case: Case, target: Target, tail: float) -> Profile:
    """A lower side: one choice for all steps of a range, each a pair that may run anywhere between the others.

    Ranges that are a negligible part of the cost reveal nothing, nor do a few of very many steps: that is a strategy
    too. A range's losses are one range apart, so a choice is sharper or less by where they lie; ``SHIFTS`` are tried.
    """
    fixed, uses = case.fixed, by_range(case.steps)
    cost = sum(count * spread * spread for spread, count in uses.items())
    kinds = [
        Kind(spread, Fraction(1), count)
        for spread, count in uses.items()
        if count * spread * spread > NEGLIGIBLE_COST * cost / len(uses)
    ]
    near = estimate(kinds, target, beside=_rho(fixed, ()))
    smooth = fixed.mu_squared > 0 or _on_lattice(fixed) or max(uses) < FINE * near.epsilon
    found: list[Profile] = []
    before = _masses(fixed, tail, "lower", _about(case, target))
    for shift in SHIFTS[:1] if smooth else SHIFTS:
        losses = []
        for kind, t in zip(kinds, near.choices, strict=True):
            parts, eta = 1 << (-(-kind.uses // MOST_USES) - 1).bit_length(), float(kind.range)
            choice = min(t + shift * eta / kind.uses, (1.0 - shift / 512.0) * eta)
            try:
                one = memoryless_profile(kind._replace(uses=kind.uses // parts), choice, budget=tail)
            except NotSupported:  # too many losses
                return OneSide(profile_of(_pure_steps(case, 2), replace(target, keep="lower")), "lower")
            losses.append(_power(two_point_masses(one.atoms, keep="lower").gathered(GATHERED), parts))
        for front in before:
            masses = reduce(_plus, losses if front is None else [front.gathered(GATHERED), *losses])
            found.append(MixtureProfile(NoSteps(), masses, NoSteps(), masses, METHOD))
    return OneSide(worst(found), "lower")


def _plus(one: LossMasses, other: LossMasses) -> LossMasses:
    return one.times(other).gathered(GATHERED)


def _power(one: LossMasses, count: int) -> LossMasses:
    """A power of two of them."""
    return one if count == 1 else _plus(half := _power(one, count // 2), half)


def _weak(steps: Steps, fixed: Fixed) -> bool:
    """Whether the steps are so little of the cost that it hardly matters what is said of them."""
    losses = [(float(stated(use)[0]), n) for use, n in fixed.uses if isinstance(use, (Pure, Approximate, Laplace))]
    alone = math.fsum(min(loss, loss * loss / 2) * n for loss, n in losses)
    return _rho(Fixed(), steps) < WEAK * (_rho(replace(fixed, uses=()), ()) + alone)


def profile_of(case: Case, target: Target) -> Profile:
    """The certified profile of a case.

    Raises ``NotSupported`` when no certified method covers it.
    """
    if case.blatant:
        return Blatant()
    fixed = case.fixed
    if target.delta is not None and (failed := failure(fixed)) > 0.0:
        if failed > target.delta or (failed == target.delta and is_unbounded(fixed)):
            return Blatant(f"mass above {target.delta!r} on the largest losses")
        target = replace(target, expected=max(target.delta - failed, 1e-9 * target.delta))
    if fixed.rho or (fixed.concentrated and not case.steps):
        above = (
            zcdp_profile(case, target)
            if fixed.rho
            else OneSide(sampled_profile(fixed, replace(target, keep="upper")), "upper")
        )
        if target.keep == "upper" or target.met(above):
            return above
        gaussian = case.as_gaussian
        return Best((above, OneSide(profile_of(gaussian, replace(target, keep="lower")), "lower")))
    if len(case.steps) == 1 and case.steps[0][1] == 1 and fixed.empty:
        with precision(BITS):  # each point of the envelope is reached (Dong, Durfee, Rogers 2020, Lemma 3.3)
            pair = ExponentialPair(ball(case.steps[0][0]))
        return SingleProfile(pair, pair, BITS, "closed form of one exponential mechanism")
    if case.steps:
        if target.enough > 0.0 and target.met(quick := zcdp_profile(case, target)):
            return quick
        spreads = [spread for spread, _ in case.steps]
        if _weak(case.steps, fixed) or min(spreads) < LEAST_RANGE or max(spreads) > LARGEST_RANGE:
            # Each exponential mechanism of range η is η-DP, and may be randomised response of ε = η/2.
            sides: tuple[tuple[Literal["upper", "lower"], int], ...] = ("upper", 1), ("lower", 2)
            return Best(
                tuple(
                    OneSide(profile_of(_pure_steps(case, share), replace(target, keep=side)), side)
                    for side, share in sides
                    if target.keep in {"both", side}
                )
            )
        ordered = not case.interleaved or len({spread for spread, _ in case.steps}) == 1
        uses = by_range(case.steps)
        many = MANY_STEPS if case.between.plus(case.last).empty else MANY_BESIDE
        squares = [spread * spread for spread in uses]
        uneven = SHORTEST_RUN * sum(squares) > sum(uses[spread] * spread * spread for spread in uses)
        if ordered and (uses.total() < many or uneven):
            return _adaptive(case, target) or _in_blocks(case, target)
        return _in_blocks(case, target)
    if samples := gaussian_samples(fixed, target) or exponential_samples(fixed, target):
        return samples
    if _on_lattice(fixed):
        return sampled_profile(fixed, target)
    return _product(fixed, target.tail(_rho(fixed, ())) * 1e-6)
