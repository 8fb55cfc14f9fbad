"""Exact adaptive composition of exponential mechanisms, alone or beside others.

The recursion and its proof are in ``recursion``. Mechanisms with one dominating pair and loss L:

- run first: they are the outermost expectation, δ(ε) = E_P[H_T(e^{ε − L})];
- run last: they are the innermost profile, H_0 = δ of the fixed part;
- run in between: the first form is an upper side (E[sup] >= sup E, THEORY 3), the second a lower
  side (the strategy that ignores the fixed outputs), and both are valid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from affidavit.accountant.methods.base import EPSILON_FLOOR, Interval, Target, certain_delta, smallest_epsilon
from affidavit.accountant.methods.discrete import DiscreteProfile, mixed_delta
from affidavit.accountant.methods.fixed import FixedProfile, MixtureMethod
from affidavit.accountant.methods.recursion import Window, lower_profile, upper_profile
from affidavit.accountant.methods.zcdp import ZcdpProfile
from affidavit.accountant.scenario import Scenario
from affidavit.accountant.validate import Relation

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

__all__ = ["AdaptiveMethod", "AdaptiveProfile"]

LEAST_CELLS, MOST_CELLS = 8, 256
MAX_WORK = 3e8
MAX_RANGE = 60.0
STALLED = 0.8
"""A refinement that leaves more than this share of the width has met another limit."""
ROUNDING = 1e-10

_FIXED = MixtureMethod()


def tail_bound(scenario: Scenario) -> ZcdpProfile:
    """The zCDP profile of the exponential part, for choosing where the grid ends."""
    return ZcdpProfile(sum(eta * eta / 8.0 * uses for eta, uses in scenario.exponentials))


def _even(cells: float) -> int:
    """An even number of cells near ``cells``, so that t = η/2 lies on the grid."""
    return min(MOST_CELLS, max(LEAST_CELLS, 2 * math.ceil(cells / 2.0)))


class AdaptiveProfile:
    """Both sides of the adaptive profile, refined until ``target`` is met."""

    def __init__(self, scenario: Scenario, relation: Relation, target: Target) -> None:
        self._runs = scenario.exponentials
        self._order = scenario.order
        self._fixed: FixedProfile | None = None
        if scenario.fixed:
            self._fixed = _FIXED.profile(Scenario(fixed=scenario.fixed), relation, target)
        self._largest = max(eta for eta, _ in self._runs)
        self._total = sum(eta * uses for eta, uses in self._runs)
        self._left, self._right = self._reach(tail_bound(scenario), target)
        # The relative width goes like 1/cells², with a constant below 0.85 (measured, T = 10 to 5000).
        self._cells = _even(math.sqrt(0.85 / target.tolerance))
        while self._cells > LEAST_CELLS and self._work() > MAX_WORK:
            self._cells = _even(self._cells * 0.7)
        self._upper = self._lower = DiscreteProfile.nothing()
        self._recurse()
        width, before = self._width(target), math.inf
        while width > target.tolerance and width < STALLED * before and self._cells < MOST_CELLS:
            if self._work() * 2.0 > MAX_WORK:
                break
            self._cells = _even(self._cells * 1.4)
            self._recurse()
            width, before = self._width(target), width

    def _reach(self, tail: ZcdpProfile, target: Target) -> tuple[float, float]:
        """Where the grid may end: the mass beyond is far below the δ asked for."""
        if target.delta is not None:
            small = max(target.delta, 1e-290) * 1e-3
        else:
            small = max(tail.delta(max(0.0, target.epsilon or 0.0)).upper, 1e-280) * 1e-6
        right = tail.epsilon(small).upper
        # Left of −x the profile differs from 1 − α by e^{−x} δ(x).
        left = smallest_epsilon(lambda x: math.exp(-x) * tail.delta(x).upper, small, relative=0.01).upper
        if self._fixed is not None and self._order != "fixed-first":
            return right + 50.0, right + 50.0
        return min(self._total, left), min(self._total, right)

    def _work(self) -> float:
        points = (self._left + self._right) / self._largest * self._cells + 500.0
        return points * sum(uses * max(1.0, self._cells * eta / self._largest) for eta, uses in self._runs)

    def _recurse(self) -> None:
        spacing = self._largest / self._cells
        window = Window(spacing, -self._left - spacing, self._right + spacing)
        innermost = self._fixed if self._order != "fixed-first" else None
        self._lower = lower_profile(self._runs, window, last=innermost)
        self._upper = upper_profile(self._runs, window, last=innermost if self._order == "fixed-last" else None)

    def _width(self, target: Target) -> float:
        """Relative width of the bracket at ``target``; 0 below the absolute floor on ε."""
        if target.delta is not None:
            found = self.epsilon(target.delta)
            if found.upper - found.lower <= EPSILON_FLOOR:
                return 0.0
        else:
            found = self.delta(target.epsilon or 0.0)
        return (found.upper - found.lower) / found.upper if found.upper > 0.0 else 0.0

    def delta(self, epsilon: float) -> Interval:
        """Both sides at ``epsilon``."""
        first = self._fixed if self._order == "fixed-first" else None
        lower = self._mixed(self._lower, epsilon, first.lower if first else None)
        outermost = self._fixed if self._order != "fixed-last" else None
        upper = self._mixed(self._upper, epsilon, outermost.upper if outermost else None)
        certain = certain_delta(epsilon)
        return Interval(max(certain, lower * (1.0 - ROUNDING)), max(certain, min(1.0, upper * (1.0 + ROUNDING))))

    @staticmethod
    def _mixed(
        profile: DiscreteProfile, epsilon: float, other: Callable[[NDArray[float64]], NDArray[float64]] | None
    ) -> float:
        return profile.delta(epsilon) if other is None else mixed_delta(profile, other, epsilon)

    def epsilon(self, delta: float) -> Interval:
        """Both sides by bisection, each safe."""
        start = max(self._right, 1e-9)
        upper = smallest_epsilon(lambda e: self.delta(e).upper, delta, start=start, relative=1e-10).upper
        lower = smallest_epsilon(lambda e: self.delta(e).lower, delta, start=start, relative=1e-10).lower
        if self._fixed is None:
            upper = min(upper, self._total * (1.0 + 1e-15))
        return Interval(min(lower, upper), upper)


class AdaptiveMethod:
    """Exponential mechanisms, with gaussian, pure and approximate ones beside them."""

    name = "adaptive"
    exact = True

    def why_not(self, scenario: Scenario, relation: Relation) -> str:
        """Applies when there is an exponential leaf and the work is bearable."""
        if not scenario.exponentials:
            return "needs an exponential leaf"
        largest = max(eta for eta, _ in scenario.exponentials)
        if largest > MAX_RANGE:
            return f"a range above {MAX_RANGE:g} is no better than pure DP"
        uses = sum(count for _, count in scenario.exponentials)
        points = min(2.0 * tail_bound(scenario).epsilon(1e-9).upper / largest, 2.0 * uses) * LEAST_CELLS
        if uses * points * LEAST_CELLS > MAX_WORK:
            return "too many uses for the recursion"
        return _FIXED.why_not(Scenario(fixed=scenario.fixed), relation) if scenario.fixed else ""

    def profile(self, scenario: Scenario, relation: Relation, target: Target) -> AdaptiveProfile:
        """The recursion, refined near ``target``."""
        return AdaptiveProfile(scenario, relation, target)
