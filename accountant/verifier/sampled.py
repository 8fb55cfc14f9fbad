r"""Everything with a dominating pair, sampled or not, composed on one lattice.

Each leaf becomes a pair (``pairs``), each pair a lattice distribution from above and from below
(``lattice``), whose places are put just below its heavy losses; then they are summed (``convolve``). The two directions
of a pair of data sets are composed apart and the larger δ is taken at the end. Two-valued losses (pure mechanisms, also
Poisson-sampled ones) stay outside the sum, as exact binomials.

Substitution under sampling without replacement: the upper side composes the ``Combined`` curve, the lower side
the ``Mixed`` pair (all other records equal to the new one), so the bracket holds a gap of
the theory, not of arithmetic. So is it with an exponential mechanism on the sample (``envelope``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np
from flint import arb, ctx

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Approximate, DiscreteGaussian, Laplace, Pure
from affidavit.accountant.verifier.balls import Array, Ball, ball, precision
from affidavit.accountant.verifier.branches import Branch, Either, Fixed, Sampled
from affidavit.accountant.verifier.convolve import Composed, TooLong, Uses, compose, log_tail_bound, losses, window_of
from affidavit.accountant.verifier.discrete import DiscretePair, discrete_pairs
from affidavit.accountant.verifier.finite_losses import chunked, losses_of, most_atoms
from affidavit.accountant.verifier.largest import Largest, largest_pair
from affidavit.accountant.verifier.lattice import LEAST, LatticeMasses, anchors, from_above, from_below, on_grid, reach
from affidavit.accountant.verifier.mixture import LossMasses, two_point_masses
from affidavit.accountant.verifier.on_sample import reached, sampled_pairs
from affidavit.accountant.verifier.pairs import GaussianPair, LaplacePair, Mixed, Pair, Reversed
from affidavit.accountant.verifier.product import Atoms, ProductProfile, TwoValued, two_point_product
from affidavit.accountant.verifier.replaced import ReplacedPair
from affidavit.accountant.verifier.single import SingleProfile

__all__ = ["Front", "Kept", "expected_delta", "fronts"]

Kept = Literal["both", "upper", "lower"]

GUARD_BITS = 72
"""Bits beyond the smallest mass that matters: room for lattice differences and for the transform."""
COARSE_CELLS, MOST_COARSE = 600, 8
MAX_SIZE, MAX_TAILS = 1 << 16, 20_000
"""Places of a transform, fewer of more than 128 bits, and lattice points at which tails are evaluated for one side."""
STEP_BITS, HALVED = 34, 3
LARGE, MOST = 20, 10_000
"""Losses above it take more bits."""
LATTICE_BELOW_ZERO = 1.2
"""Cells between a mixture's smallest loss and 0: without a lattice point there its bulk has no place below."""


@dataclass(frozen=True, slots=True)
class Direction:
    """All uses seen in one direction of the pair of data sets.

    ``upper`` and ``lower`` list (pair, count); they differ where the tight upper pair is not attained.
    ``binomials`` are the two-valued ones, ``mu`` the unsampled Gaussians; a lattice has those in it already.
    """

    mu: Ball | None
    upper: tuple[tuple[Pair, int], ...]
    lower: tuple[tuple[Pair, int], ...]
    binomials: tuple[TwoValued, ...]
    plain: tuple[tuple[Pure | Approximate, int], ...]


def _single_pure(branch: Branch) -> Ball | None:
    """ε if the branch is one use of a pure mechanism."""
    match branch:
        case Branch(first=Fixed(mu_squared=0, rho=0, uses=((Pure(epsilon=epsilon), 1),)), steps=(), blatant=False):
            return ball(epsilon)
    return None


def _two_valued(epsilon: Ball, rate: Ball, count: int, *, forward: bool) -> TwoValued:
    """A pure mechanism under mixture sampling: ``Mixed`` (forward) or ``Reversed``."""
    high = (1 - rate + rate * epsilon.exp()).log()
    low = (1 - rate + rate * (-epsilon).exp()).log()
    chance = 1 / (1 + (-epsilon).exp())
    if forward:
        return TwoValued(high, low, rate * chance + (1 - rate) * (1 - chance), count)
    return TwoValued(-low, -high, chance, count)


def _direction(fixed: Fixed, *, forward: bool, lattice: bool) -> Direction:
    upper: list[tuple[Pair, int]] = []
    lower: list[tuple[Pair, int]] = []
    binomials: list[TwoValued] = []
    plain: list[tuple[Pure | Approximate, int]] = []
    for use, count in fixed.uses:
        match use:
            case Pure() | Approximate():
                plain.append((use, count))
            case Laplace(noise_multiplier=scale):
                pair = LaplacePair(ball(1 / Fraction(scale)))
                upper.append((pair, count))
                lower.append((pair, count))
            case Sampled():
                epsilon = _single_pure(use.of)
                mixture = use.relation == "add-remove" or (use.scheme == "poisson" and use.relation == "zero-out")
                if epsilon is not None and mixture:
                    toward = forward != use.mirrored
                    binomials.append(_two_valued(epsilon, ball(use.rate), count, forward=toward))
                    continue
                above, below = sampled_pairs(use, forward=forward)
                upper.append((above, count))
                lower.append((below, count))
            case Either(of=kinds):
                upper.append((largest_pair(kinds, forward=forward), count))
            case DiscreteGaussian():
                discrete, beneath = discrete_pairs(use, ctx.prec)
                upper.append((discrete, count))
                if beneath is not None:
                    lower.append((beneath, count))
    if losses_of(plain) > most_atoms(gaussian=fixed.mu_squared > 0, lattice=lattice or bool(upper)):
        stairs = list(chunked(plain))
        upper, lower, plain = [*upper, *stairs], [*lower, *stairs], []
    mu = ball(fixed.mu_squared).sqrt() if fixed.mu_squared else None
    if mu is not None and (upper or lattice):
        gaussian = GaussianPair(ball(fixed.mu_squared).sqrt())
        upper.append((gaussian, 1))
        lower.append((gaussian, 1))
    same = [id(pair) for pair, _ in upper] == [id(pair) for pair, _ in lower]
    pairs = tuple(upper)
    return Direction(mu, pairs, pairs if same else tuple(lower), tuple(binomials), tuple(plain))


@dataclass(frozen=True, slots=True)
class Grid:
    """A lattice spacing; ``unit`` is the discrete Gaussian, if any, whose losses lie ``parts`` places apart on it."""

    step: Ball
    unit: DiscretePair | None = None
    parts: int = 1


def fronts(fixed: Fixed, *, negligible: float, lattice: bool = False) -> tuple[Front, Front]:
    """Both directions; ``negligible`` is a mass that may be cut off. ``lattice``: one is needed for others anyway."""
    bits = int(GUARD_BITS - math.log2(negligible)) + _further_bits(fixed)
    with precision(bits):
        forward, backward = (_direction(fixed, forward=forward, lattice=lattice) for forward in (True, False))
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
    for branch in [use.of] if use.absent is None else [use.of, use.absent]:
        sizes += sum((spread * n for spread, n in branch.steps), Fraction(0))
        for leaf, n in branch.fixed.uses:
            sizes += n * Fraction(leaf.epsilon) if isinstance(leaf, (Pure, Approximate)) else 0
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


@dataclass(frozen=True, slots=True)
class Front:
    """One direction on its way to a loss distribution, in balls of ``bits`` bits."""

    direction: Direction
    negligible: float
    bits: int

    def closed_form(self) -> ProductProfile | None:
        """The exact profile, when there are only Gaussians and two-valued losses."""
        if self.direction.upper:
            return None
        with precision(self.bits):
            return ProductProfile(self.direction.mu, self._atoms(), "two-point losses of a sample", self.bits)

    def beside(self, parts: Sequence[tuple[Pair, int]]) -> Front:
        """An upper side of this with others."""
        upper = (*self.direction.upper, *parts)
        return replace(self, direction=replace(self.direction, upper=upper, lower=()))

    @property
    def attained(self) -> bool:
        """Whether the same pairs serve on both sides, so that the bracket closes as the lattice gets finer."""
        return self.direction.upper is self.direction.lower

    def single(self) -> SingleProfile | None:
        """The exact profile, when there is only one use."""
        match self.direction:
            case Direction(mu=None, upper=((above, 1),), lower=((below, 1),), binomials=(), plain=()):
                return SingleProfile(above, above if reached(above) else below, self.bits)
        return None

    @property
    def directed(self) -> bool:
        """Whether the upper pairs depend on the direction."""
        pairs = [pair for pair, _ in self.direction.upper]
        pairs += [one for pair in pairs if isinstance(pair, Largest) for one in pair.pairs]
        return any(isinstance(pair, (Mixed, Reversed)) for pair in pairs) or bool(self.direction.binomials)

    def spacing(self, width: float, *, resolve: bool = True) -> float:
        """A spacing for which the bracket is about ``width`` of ε wide at the mass asked for.

        ``resolve``: fine enough for the lower side too, which needs lattice points below a mixture's bulk.
        """
        uses = self.direction.upper
        with precision(self.bits):
            total = sum(count for _, count in uses)
            spans = [self._reach(pair, total) for pair, _ in uses]
            coarse = max(high - low for low, high in spans) / COARSE_CELLS
            parts = self._parts(Grid(arb(coarse)), upward=True)
            window, theta = window_of(parts, coarse, math.sqrt(self.negligible))
            epsilon = max(window.last * coarse, coarse)
            wanted = math.sqrt(6 * width * epsilon / (total * (1 + theta)))
            floors = [
                -float((-pair.rate).log1p()) / LATTICE_BELOW_ZERO
                for pair, _ in self.direction.lower
                if isinstance(pair, (Mixed, Reversed))
            ]
            least = max(
                sum(high - low for low, high in spans) / MAX_TAILS,
                1.5 * (window.last - window.first) * coarse * len(uses) / self._most_places,
            )
            return max(
                least, min([wanted, min(MOST_COARSE, 2.0 * math.sqrt(total)) * coarse, *(floors if resolve else [])])
            )

    def tails(self, step: float) -> float:
        """At how many lattice points tails are evaluated for one side, over ``MAX_TAILS``."""
        total = sum(count for _, count in self.direction.upper)
        with precision(self.bits):
            spans = [self._reach(pair, total) for pair, _ in self.direction.upper]
        return sum(high - low for low, high in spans) / step / MAX_TAILS

    def _reach(self, pair: Pair, total: int) -> tuple[float, float]:
        """Of one of so many uses."""
        return reach(pair, self.negligible / total, LEAST / total)

    @property
    def _most_places(self) -> int:
        return MAX_SIZE * 128 // max(self.bits, 128)

    def log_tail(self, epsilon: float) -> float:
        """About log δ at ε, by Chernoff in floats; it fits lattices to an ε asked for."""
        uses = self.direction.upper
        with precision(self.bits):
            spans = [self._reach(pair, 1) for pair, _ in uses]
            coarse = max(high - low for low, high in spans) / COARSE_CELLS
            parts = self._parts(Grid(arb(coarse)), upward=True)
        return min(0.0, log_tail_bound(parts, coarse, epsilon))

    def _parts(self, grid: Grid, *, upward: bool) -> Uses:
        uses = self.direction.upper if upward else self.direction.lower
        total = sum(count for _, count in uses)
        made: list[tuple[LatticeMasses, int]] = []
        for pair, count in uses:
            if grid.unit is not None and pair is grid.unit:
                made.append((on_grid(grid.unit, grid.parts, upward=upward), count))
                continue
            low, high = self._reach(pair, total)
            fitted = pair.aligned(grid.step, upward=upward) if isinstance(pair, LaplacePair) else pair
            made.append(((from_above if upward else from_below)(fitted, grid.step, low, high, anchors(pair)[0]), count))
        return made

    def _atoms(self) -> Atoms:
        return two_point_product(self.direction.plain, budget=self.negligible, others=self.direction.binomials)

    def masses(self, spacing: float, *, keep: Kept = "both") -> LossMasses:
        """The loss distribution on a lattice of about that spacing, times the two-point losses.

        A side that is not kept says nothing: all mass on +inf above, none below.
        """
        with precision(self.bits):
            result = self._lattice(spacing, keep=keep)
            if self.direction.binomials or self.direction.plain:
                result = result.times(two_point_masses(self._atoms()))
            return result

    def _widest(self) -> float:
        """How far the losses of one use are apart: a lattice that is coarser tells nothing of it."""
        total = sum(count for _, count in self.direction.upper)
        return max(high - low for low, high in (self._reach(pair, total) for pair, _ in self.direction.upper))

    def _lattice(self, spacing: float, *, keep: Kept) -> LossMasses:
        upper: tuple[Array, Array, float] = (np.zeros(1), np.zeros(1), 1.0)
        lower: tuple[Array, Array, float] = (np.zeros(1), np.zeros(1), 0.0)
        if keep != "lower":
            grid = self._grid(spacing, upward=True)
            above = self._composed(grid, upward=True)
            while above is None and spacing <= self._widest():
                spacing *= 2
                grid = self._grid(spacing, upward=True)
                above = self._composed(grid, upward=True)
            if above is not None:
                upper = above.masses, losses(above, grid.step, upward=True), above.infinite
        grid = self._grid(spacing, upward=False)
        below = self._composed(grid, upward=False) if keep != "upper" else None
        while below is None and keep != "upper" and spacing <= self._widest():
            spacing *= 2
            grid = self._grid(spacing, upward=False)
            below = self._composed(grid, upward=False)
        if below is not None:
            lower = below.masses, losses(below, grid.step, upward=False), below.infinite
        return LossMasses(*upper, *lower)

    def _grid(self, spacing: float, *, upward: bool) -> Grid:
        """A lattice of about the given spacing, with lattice points where much of the mass sits.

        With a discrete Gaussian whose losses are far apart, a fraction of their distance. Otherwise a short
        binary fraction, so that lattice losses are exact: with a Laplace leaf, one that all but divides
        its width, on the side where rounding to it is safe; with two heavy losses, one that has places just below
        both (``anchors``); with a replaced record, one just below the largest loss. The most frequent pair decides.
        """
        wanted, toward, most = spacing, 0, 0
        for pair, count in self._uses(upward):
            if isinstance(pair, DiscretePair) and pair.spacing > spacing / 4:
                parts = max(1, math.ceil(float(pair.spacing) / spacing))
                return Grid(ball(pair.spacing / parts), pair, parts)
            match pair:
                case LaplacePair(width=width):
                    anchor, up = float(width), int(upward)
                case ReplacedPair(stairs=stairs):
                    anchor, up = float(stairs.product.losses[0]), 0
                case _:
                    gap = anchors(pair)[1]
                    anchor, up = (0.0 if gap is None else float(gap)), int(isinstance(pair, Reversed))
            if anchor > spacing and count > most:
                # Many times halved, so that heavy losses stay on places that are kept (``convolve``).
                parts = math.ceil(anchor / spacing)
                unit = 1 << max(0, parts.bit_length() - HALVED)
                wanted, toward, most = anchor / (-(-parts // unit) * unit), up, count
        exponent = math.floor(math.log2(wanted)) - STEP_BITS
        return Grid(arb(math.ldexp(math.floor(math.ldexp(wanted, -exponent)) + toward, exponent)))

    def _composed(self, grid: Grid, *, upward: bool) -> Composed | None:
        """One side of the composition; None if the window is too large (or nothing is left of a lower side)."""
        parts = self._parts(grid, upward=upward)
        if not parts:  # no pair below
            return Composed(0, 1, np.ones(1), 0.0, arb(0))
        if not all(sum(part.masses, part.infinite) > 0.5 for part, _ in parts):
            return None
        most, exact = 2 * self._most_places, sum(count for pair, count in self._uses(upward) if pair is grid.unit)
        try:
            return compose(parts, grid.step, negligible=self.negligible, upward=upward, exact=exact, most=most)
        except TooLong:
            return None

    def _uses(self, upward: bool) -> tuple[tuple[Pair, int], ...]:
        return self.direction.upper if upward else self.direction.lower
