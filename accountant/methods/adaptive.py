"""Exact adaptive composition of exponential mechanisms, alone or beside others.

The recursion and its proof are in ``recursion``. Beside it,
mechanisms with one dominating pair and loss L:

- run first: they are the outermost expectation, δ(ε) = E_P[H_T(e^{ε − L})]. H_T is the curve of a pair (convex in α,
  H_T(0) = 1, H_T >= 1 − α), so this is a composition of pairs, which the PLD engine makes. The recursion is the same
  whatever runs first, and is not made again for the next such case;
- run last: they are the innermost profile, H_0 = δ of the fixed part;
- run in between: the first form is an upper side (E[sup] >= sup E, docs/theory/exponential.md), the second a lower
  side (the strategy that ignores the fixed outputs), and both are valid.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

from affidavit.accountant.cases.case import Case
from affidavit.accountant.cases.choices import likely_size, mean_loss
from affidavit.accountant.methods.base import (
    EPSILON_FLOOR,
    LEAST_RANGE,
    LOUD,
    LOUD_WIDTH,
    Bracket,
    Profile,
    Target,
)
from affidavit.accountant.methods.discrete import curve_above, curve_below
from affidavit.accountant.methods.pair_profiles import Last
from affidavit.accountant.methods.pld import log_nothing, pair_gap, step_of
from affidavit.accountant.methods.recursion import Window, compose, whole
from affidavit.accountant.methods.sampled_adaptive import Sample, SampledAdaptiveProfile, sampled_gap
from affidavit.accountant.methods.sampled_use import Moments, SampledUse, estimate
from affidavit.accountant.methods.sides import Composed, Sides
from affidavit.accountant.methods.zcdp import ZcdpProfile
from affidavit.accountant.validate import Relation

if TYPE_CHECKING:
    from affidavit.accountant.methods.pair_profiles import Parts
    from affidavit.accountant.pld.curve import Curve

__all__ = ["AdaptiveMethod", "AdaptiveProfile", "recursion_points", "typical_range"]

LEAST_CELLS, MOST_CELLS = 8, 256
MAX_POINTS = 4e6
"""Lattice points of all steps together, some 0.3 µs each."""
MAX_RANGE = 60.0
WIDTH = 1.5
"""Bracket on the sum of ρ times cells², relative (measured below 1.55, T = 10 to 5000): the chords add up to η²/m²."""
STALLED, CHEAP = 0.8, 3e5
"""A refinement of more than so many points that leaves more than this share of the width has met another limit."""
LOOK = 0.02
"""How well a width is known by which a grid is judged, in units of the tolerance."""
LEAST_REACH, FURTHEST, REACHES = 1e-6, 1e4, 96
"""Losses, from the first to the second, that are tried as the reach of a profile."""
NOTHING = 1e-6
"""Of what may be left out elsewhere."""
SHARE = 0.2
"""Of the tolerance, what the engine may leave open on either side."""


def _even(cells: float) -> int:
    """An even number of cells near ``cells``, so that t = η/2 lies on the lattice."""
    return min(MOST_CELLS, max(LEAST_CELLS, 2 * math.ceil(cells / 2.0)))


class _Grid(NamedTuple):
    """Where the lower and the upper side are kept."""

    below: Window
    above: Window

    @property
    def points(self) -> int:
        """Lattice points of all steps together, of the side that has more."""
        return max(self.below.points, self.above.points)


def _reach(fixed: Last, small: float) -> float:
    """The loss beyond which δ hardly falls any more. On the other side it is 1 − α from there on: P and Q exchanged."""
    losses = np.geomspace(LEAST_REACH, FURTHEST, REACHES)
    values = fixed.lower(losses)
    return float(losses[np.count_nonzero(values > values[-1] + small)])


class AdaptiveProfile:
    """Both sides of the adaptive profile, refined until ``target`` is met.

    ``taken``: of exponential mechanisms of one range alone, the chance that a use sees the record.
    """

    def __init__(self, case: Case, relation: Relation, target: Target, *, taken: float = 1.0) -> None:
        self._case = case
        self._runs = tuple((SampledUse(eta, 1.0, "forward", taken), uses) for eta, uses in case.exponentials)
        self._order = case.order
        self._target = target
        self._others: Parts = ()
        self._last: Last | None = None
        self._total = sum(eta * uses for eta, uses in case.exponentials)
        self._estimate = estimate(self._runs, delta=target.delta, epsilon=target.epsilon or 0.0)
        loud = target.delta is not None and self._estimate.epsilon > LOUD
        self._tolerance = max(target.tolerance, LOUD_WIDTH) if loud else target.tolerance
        if case.fixed:
            deep, tilt = log_nothing(target, case.uses), self._estimate.slope
            self._others = tuple((step_of(node, relation, deep=deep, tilt=tilt), count) for node, count in case.fixed)
            if self._order != "fixed-first":
                self._last = Last(self._others, target, near=self._estimate.epsilon)
        if self._last is None and self._runs[0][1] == len(self._runs) == 1:
            from affidavit.accountant.pld.bounded_range import BoundedRange

            # The envelope of one use is reached by what has seen all else.
            envelope = BoundedRange(self._total)
            self._sides = self._beside(envelope, envelope)
        else:
            self._sides = self._refined()

    def _window(self, cells: int) -> _Grid:
        """The mass beyond the ends is far below the δ asked for.

        What runs before all exponential uses is no part of the recursion, which then reaches as far as they do; what
        runs after them reaches as far as its own profile, and they from there.
        """
        target, tail = self._target, Moments.of(self._runs)
        if target.delta is not None:
            small = max(target.delta, 1e-290) * 1e-3
        else:
            small = max(tail.delta(max(0.0, target.epsilon or 0.0)), 1e-280) * 1e-6
        width = tail.epsilon(small)
        spacing = self._spacing(cells)
        below = above = whole(self._runs, spacing, width=width, mirrored=True)
        if self._last is not None:
            back = min(width, self._total, -math.log(small))  # P(all losses <= −y) <= e^{−y}
            width = _reach(self._last, small * NOTHING) + min(width, self._total) + back
            steps = 1 + sum(uses for _, uses in self._runs)
            width = min(width, self._spacing(LEAST_CELLS) * MAX_POINTS / (2.0 * steps))
            below = whole(self._runs, spacing, width=width, mirrored=False)
            above = below if self._order == "fixed-last" else above
        return _Grid(below, above)

    def _spacing(self, cells: int) -> float:
        """About ``cells`` lattice spacings to the root of the mean square range; the costliest range is a multiple."""
        cost: dict[float, float] = {}
        for eta, uses in self._case.exponentials:
            cost[eta] = cost.get(eta, 0.0) + eta * eta * uses
        common, typical = max(cost, key=lambda eta: cost[eta]), typical_range(self._case)
        return common / (2 * math.ceil(cells * common / typical / 2.0 - 1e-6))

    def _first_cells(self) -> int:
        """The cells a range that should do: see ``WIDTH``; ρ moves ε by (ε + ρ)/2 a unit of ln ρ."""
        rho = sum(eta * eta / 8.0 * uses for eta, uses in self._case.exponentials)
        target, epsilon = self._target, self._estimate.epsilon
        effect = 0.5 * (1.0 + min(1.0, rho / max(epsilon, 1e-300)))
        if self._others:
            beside = math.fsum(mean_loss(node) * count for node, count in self._case.fixed)
            effect = 0.5 * rho / (rho + beside)
        elif target.delta is None:
            epsilon = max(target.epsilon or 0.0, 0.0)
            effect = max(0.5, (epsilon * epsilon - rho * rho) / (4.0 * rho))
        return _even(math.sqrt(WIDTH * effect / self._tolerance))

    def _refined(self) -> Sides:
        """Both sides, with more cells until the target is met or the work is too much."""
        cells = self._first_cells()
        if self._others and self._window(2 * cells).points <= CHEAP:  # then the engine takes longer
            cells = _even(2 * cells)
        while cells > LEAST_CELLS and self._window(cells).points > MAX_POINTS:
            cells = _even(cells * 0.8 - 1.0)
        sides, width, before = None, math.inf, math.inf
        while sides is None or width > self._tolerance:
            found = self._window(cells)
            stalled = width > STALLED * before and (found.points > CHEAP or self._order == "mixed")
            if sides is not None and (stalled or found.points > MAX_POINTS):
                break
            sides = self._recurse(found)
            width, before = self._width(sides), width
            if cells == MOST_CELLS:
                break
            most = 2.0 if found.points <= CHEAP else 1.4
            cells = _even(cells * min(most, max(1.1, 1.05 * math.sqrt(width / self._tolerance))))
        return sides

    def _recurse(self, grid: _Grid) -> Sides:
        apart = grid.below is not grid.above  # in between: the strategy ignores the others, which then run last
        found = compose(self._runs, grid.below, last=self._last, above=not apart)
        lower = found.below()
        upper = (compose(self._runs, grid.above, below=False) if apart else found).above()
        if not self._others or self._order == "fixed-last":
            return Sides(lower, upper, math.inf if self._others else self._total)
        beside = self._beside(curve_below(lower), curve_above(upper, grid.above.spacing))
        return beside if self._order == "fixed-first" else Sides(lower, beside.upper)

    def _beside(self, below: Curve, above: Curve) -> Sides:
        """With what runs before the exponential mechanisms, whose curves are given."""
        share = SHARE * self._tolerance
        lower = Composed.of(self._others, below, is_upper=False, tolerance=share)
        upper = Composed.of(self._others, above, is_upper=True, tolerance=share)
        return Sides(lower, upper)

    def _width(self, sides: Sides) -> float:
        """Relative width of the bracket at the target; 0 below the absolute floor on ε."""
        target = self._target
        if target.delta is not None:
            found = sides.epsilon(target.delta, near=self._estimate.epsilon, close=LOOK * self._tolerance)
            if found.upper - found.lower <= EPSILON_FLOOR:
                return 0.0
        else:
            found = sides.delta(target.epsilon or 0.0)
        return (found.upper - found.lower) / found.upper if 0.0 < found.upper < math.inf else 0.0

    def delta(self, epsilon: float) -> Bracket:
        """Both sides at ``epsilon``."""
        return self._sides.delta(epsilon)

    def epsilon(self, delta: float) -> Bracket:
        """Both sides at ``delta``."""
        found = self._sides.epsilon(delta, near=self._estimate.epsilon)
        upper = min(found.upper, self._sides.most * (1.0 + 1e-15))
        return Bracket(min(found.lower, upper), upper)


class AdaptiveMethod:
    """Exponential mechanisms, alone or beside others; one of them alone on samples."""

    name = "adaptive"
    exact = True

    def why_not(self, case: Case, relation: Relation) -> str:
        """Applies when there is an exponential leaf and the work is bearable."""
        if not case.exponentials:
            found = Sample.alone(case, relation)
            if found is None:
                return "needs an exponential leaf"
            return sampled_gap(*found) if found[0].taken == 1.0 else _thin_gap(*found)
        if case.order == "any":
            return "exponential mechanisms of unlike ranges in any order: no recursion"
        largest = max(eta for eta, _ in case.exponentials)
        if largest > MAX_RANGE:
            return f"a range above {MAX_RANGE:g} is no better than pure DP"
        if min(eta for eta, _ in case.exponentials) < LEAST_RANGE:
            return f"a range below {LEAST_RANGE:g}: a lattice of its losses is beyond float64"
        if recursion_points(case) > MAX_POINTS:
            return "too many uses for the recursion"
        return pair_gap(Case(fixed=case.fixed), relation) if case.fixed else ""

    def profile(self, case: Case, relation: Relation, target: Target) -> Profile:
        """The recursion, refined near ``target``."""
        if not case.exponentials:
            sample, uses = cast("tuple[Sample, int]", Sample.alone(case, relation))
            if sample.taken == 1.0:
                return SampledAdaptiveProfile(sample, uses, target)
            return AdaptiveProfile(_thin(sample, uses), relation, target, taken=sample.taken)
        return AdaptiveProfile(case, relation, target)


def _thin(sample: Sample, uses: int) -> Case:
    return Case(exponentials=((sample.eta, uses),))


def _thin_gap(sample: Sample, uses: int) -> str:
    """Of exponential mechanisms on Poisson samples that tell by themselves whether they hold a record."""
    if uses == 1:
        return "one use: its envelope is reached at each ε"
    if not LEAST_RANGE <= sample.eta <= MAX_RANGE or recursion_points(_thin(sample, uses)) > MAX_POINTS:
        return "too many, too strong or too weak uses for the recursion"
    return ""


def typical_range(case: Case) -> float:
    """The root of the mean square."""
    squares = sum(eta * eta * count for eta, count in case.exponentials)
    return math.sqrt(squares / sum(count for _, count in case.exponentials))


def recursion_points(case: Case) -> float:
    """About how many lattice points the coarsest recursion has, in units of work."""
    uses = sum(count for _, count in case.exponentials)
    squares = sum(eta * eta * count for eta, count in case.exponentials)
    typical = typical_range(case)  # ``AdaptiveProfile`` takes its spacing from it
    width = 2.0 * (ZcdpProfile(squares / 8.0).epsilon(1e-9).upper if case.fixed else math.sqrt(squares))
    ranges = min(width / typical, 2.0 * uses)
    if case.fixed and case.order != "fixed-first":
        beside = ZcdpProfile(math.fsum(count * likely_size(node) for node, count in case.fixed))
        reach = min(FURTHEST, beside.epsilon(1e-12).upper)
        ranges = 2.0 * (min(width, 2.0 * typical * uses) + reach) / typical  # as in ``_window``
    return uses * (ranges * LEAST_CELLS + 2.0)
