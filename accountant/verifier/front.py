"""One direction of all that has dominating pairs, on its way to a loss distribution on one lattice.

Each pair becomes a lattice distribution from above and from below (``lattice``), whose places are put just below its
heavy losses; then they are summed (``convolve``). Two-valued losses (pure mechanisms, also Poisson-sampled ones) stay
outside the sum, as exact binomials.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb

from affidavit.accountant.plan import Approximate, Pure
from affidavit.accountant.verifier.balls import Array, Ball, ball, precision, up
from affidavit.accountant.verifier.convolve import (
    GROWN,
    Composed,
    TooLong,
    Uses,
    compose,
    log_tail_bound,
    losses,
    window_of,
)
from affidavit.accountant.verifier.envelope import ExponentialPair
from affidavit.accountant.verifier.finite_losses import losses_of
from affidavit.accountant.verifier.lattice import LEAST, LatticeMasses, anchors, from_above, from_below, on_grid, reach
from affidavit.accountant.verifier.mixture import NOTHING, Kept, LossMasses, two_point_masses
from affidavit.accountant.verifier.noises import DiscretePair
from affidavit.accountant.verifier.pairs import (
    Beside,
    Finite,
    GaussianPair,
    LaplacePair,
    Mixed,
    OnSample,
    Pair,
    Reversed,
)
from affidavit.accountant.verifier.product import Atoms, ProductProfile, TwoValued, two_point_product
from affidavit.accountant.verifier.replaced import ReplacedPair
from affidavit.accountant.verifier.single import SingleProfile

__all__ = ["Direction", "Front", "reached"]


COARSE_CELLS, MOST_COARSE = 600, 8
MAX_SIZE, MAX_TAILS = 1 << 16, 20_000
"""Places of a transform, fewer of more than 128 bits, and lattice points at which tails are evaluated for one side."""
STEP_BITS, HALVED = 34, 3
MANY = 16
"""Uses of which all span so much more than one that fewer places for one are enough."""
CELL_BITS = 128
"""Of a sampled Gaussian's masses, beside those that the rate and differences lose."""
FEW_BESIDE = 64
"""Losses at which the closed form of one use is evaluated."""
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


@dataclass(frozen=True, slots=True)
class Grid:
    """A lattice spacing; ``unit`` is the discrete Gaussian, if any, whose losses lie ``parts`` places apart on it."""

    step: Ball
    unit: DiscretePair | None = None
    parts: int = 1


def reached(pair: Pair) -> bool:
    """Whether each point of one use's curve is reached by some pair of data sets, if not all by one.

    So it is for one pure mechanism under substitution (``replaced``), and for one exponential mechanism on a sample: a
    mixture's curve at one point is that of the pair on the sample at another, where some t reaches the envelope.
    """
    match pair:
        case ReplacedPair(reached=every_point):
            return every_point
        case Mixed(on_sample=ExponentialPair()) | Reversed(on_sample=ExponentialPair()):
            return True
    return False


@dataclass(frozen=True)
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
            return ProductProfile(self.direction.mu, self.atoms(), "two-point losses of a sample", self.bits)

    @property
    def attained(self) -> bool:
        """Whether the same pairs serve on both sides, so that the bracket closes as the lattice gets finer."""
        return self.direction.upper is self.direction.lower

    def single(self) -> SingleProfile | None:
        """The exact profile, when there is only one use, and few two-valued losses beside it."""
        match self.direction:
            case Direction(mu=None, upper=((above, 1),), lower=((below, 1),), binomials=binomials, plain=plain):
                if not (binomials or plain):
                    return SingleProfile(above, above if reached(above) else below, self.bits)
                if losses_of(plain) * math.prod(pair.count + 1 for pair in binomials) <= FEW_BESIDE:
                    with precision(self.bits):
                        upper = Beside(self.atoms(), above)
                        lower = upper if below is above else Beside(self.atoms(), below)
                    return SingleProfile(upper, lower, self.bits)
        return None

    @property
    def directed(self) -> bool:
        """Whether the upper pairs depend on the direction."""
        return any(pair.directed for pair, _ in self.direction.upper) or bool(self.direction.binomials)

    @property
    def largest(self) -> float:
        """No loss is above it: minus the smallest ones of the other direction."""
        uses, plain = self.direction.upper, self.direction.plain
        if self.direction.mu is not None or any(isinstance(use, Approximate) and use.delta > 0.0 for use, _ in plain):
            return math.inf
        with precision(self.bits):
            total = sum((count * ball(use.epsilon) for use, count in plain), arb(0))
            total += sum((pair.count * pair.high for pair in self.direction.binomials), arb(0))
            for pair, count in uses:
                least = pair.reverse().bottom
                if least is None or not pair.infinite.is_zero():
                    return math.inf
                total -= count * least
            return up(total)

    def spacing(self, width: float, *, resolve: bool = True, about: float = 0.0) -> float:
        """A spacing for which the bracket is about ``width`` wide, relative to ε at the mass asked for or to ``about``.

        ``resolve``: fine enough for the lower side too, which needs lattice points below a mixture's bulk.
        """
        uses = self.direction.upper
        with precision(self.bits):
            total = sum(count for _, count in uses)
            coarse = max(self.spans) / COARSE_CELLS
            parts = self._parts(Grid(arb(coarse)), upward=True)
            window, theta = window_of(parts, coarse, math.sqrt(self.negligible))
            epsilon = max(window.last * coarse, coarse, about)
            wanted = math.sqrt(6 * width * epsilon / (total * (1 + theta)))
            floors: list[float] = [
                -float((-pair.rate).log1p()) / LATTICE_BELOW_ZERO
                for pair, _ in self.direction.lower
                if isinstance(pair, (Mixed, Reversed))
            ]
            least = max(
                sum(self.spans) / MAX_TAILS,
                1.5 * (window.last - window.first) * coarse * len(uses) / self._most_places,
            )
            most = min(MOST_COARSE, 2.0 * math.sqrt(total)) * coarse
            finest = min(floors, default=math.inf) if resolve else math.inf
            return max(least, min(wanted, most, finest))

    def resolution(self, cells: int) -> float:
        """A spacing of so many places for what one use spans, fewer where many span more: their squares add up."""
        counts = [count for _, count in self.direction.upper]
        squares = sum(count * span**2 for count, span in zip(counts, self.spans, strict=True))
        return math.sqrt(squares / sum(counts)) / cells * math.cbrt(max(1.0, sum(counts) / MANY))

    def tails(self, step: float) -> float:
        """At how many lattice points tails are evaluated for one side, over ``MAX_TAILS``."""
        return sum(self.spans) / step / MAX_TAILS

    @property
    def spans(self) -> list[float]:
        """How far the losses of one use of each are apart."""
        return [high - low for low, high in self._above]

    @cached_property
    def _above(self) -> list[tuple[float, float]]:
        return self._reached(self.direction.upper)

    @cached_property
    def _below(self) -> list[tuple[float, float]]:
        return self._above if self.attained else self._reached(self.direction.lower)

    def _reached(self, uses: tuple[tuple[Pair, int], ...]) -> list[tuple[float, float]]:
        """Where the losses of one use of each are."""
        total = sum(count for _, count in uses)
        with precision(self.bits):
            return [reach(pair, self.negligible / total, LEAST / total) for pair, _ in uses]

    @property
    def _most_places(self) -> int:
        return MAX_SIZE * 128 // max(self.bits, 128)

    def log_tail(self, epsilon: float) -> float:
        """About log δ at ε, by Chernoff in floats; it fits lattices to an ε asked for."""
        uses = self.direction.upper
        with precision(self.bits):
            spans = [reach(pair, self.negligible, LEAST) for pair, _ in uses]
            coarse = max(high - low for low, high in spans) / COARSE_CELLS
            parts = self._parts(Grid(arb(coarse)), upward=True)
        return min(0.0, log_tail_bound(parts, coarse, epsilon))

    def _parts(self, grid: Grid, *, upward: bool) -> Uses:
        made: list[tuple[LatticeMasses, int]] = []
        for (pair, count), (low, high) in zip(self._uses(upward), self._above if upward else self._below, strict=True):
            if grid.unit is not None and pair is grid.unit:
                made.append((on_grid(grid.unit, grid.parts, upward=upward), count))
                continue
            fitted = pair.aligned(grid.step, upward=upward) if isinstance(pair, LaplacePair) else pair
            with precision(self._bits(pair, grid.step)):
                side = (from_above if upward else from_below)(fitted, grid.step, low, high, anchors(pair)[0])
            made.append((side, count))
        return made

    def _bits(self, pair: Pair, step: Ball) -> int:
        """Enough for masses that are known to a part of the tail there: all of a sample's are."""
        match pair:
            case OnSample(on_sample=GaussianPair() | Finite(), rate=rate):
                lost = math.ceil(-math.log2(float(rate)) - 2.0 * math.log2(min(float(step), 1.0)))
                return min(self.bits, CELL_BITS + lost)
        return self.bits

    def atoms(self) -> Atoms:
        """The two-point losses."""
        return two_point_product(self.direction.plain, budget=self.negligible, others=self.direction.binomials)

    def masses(self, spacing: float, *, keep: Kept = "both") -> LossMasses:
        """The loss distribution on a lattice of about that spacing, times the two-point losses."""
        with precision(self.bits):
            above, below = (
                NOTHING[upward] if keep == other else self._side(spacing, upward=upward)
                for upward, other in ((True, "lower"), (False, "upper"))
            )
            result = LossMasses(*above, *below)
            if self.direction.binomials or self.direction.plain:
                result = result.times(two_point_masses(self.atoms(), keep=keep))
            return result

    def _side(self, spacing: float, *, upward: bool) -> tuple[Array, Array, float]:
        """Masses, losses and the mass on +inf, on that lattice or the first coarser one that is not too long."""
        while True:
            grid = self._grid(spacing, upward=upward)
            found = self._composed(grid, upward=upward)
            if found is not None:
                return found.masses, losses(found, grid.step, upward=upward), found.infinite
            if spacing > max(self.spans):  # a coarser lattice tells nothing
                return NOTHING[upward]
            spacing *= 2

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
                    anchor -= 0.0 if upward else 4.0 * math.ulp(anchor)  # no place just above the largest loss
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
        uses, ends, most = self._uses(upward), self._above if upward else self._below, 2 * self._most_places
        long = (high - low > most / GROWN * float(grid.step) for low, high in ends)
        if any(one and count > 1 for one, (_, count) in zip(long, uses, strict=True)):
            return None  # told before anything is evaluated
        parts = self._parts(grid, upward=upward)
        if not parts:  # no pair below
            return Composed(0, 1, np.ones(1), 0.0, arb(0))
        if not all(float(part.lower[0].sum()) + part.lower[1] > 0.5 for part, _ in parts):
            return None
        exact = sum(count for pair, count in uses if pair is grid.unit)
        try:
            return compose(parts, grid.step, negligible=self.negligible, upward=upward, exact=exact, most=most)
        except TooLong:
            return None

    def _uses(self, upward: bool) -> tuple[tuple[Pair, int], ...]:
        return self.direction.upper if upward else self.direction.lower
