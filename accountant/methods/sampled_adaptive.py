"""Exact adaptive composition of an exponential mechanism on fresh Poisson samples (``recursion``).

The grid covers the losses that matter for the answer. Under the tilt θ that makes its mean ε the composed loss walks
to ε by steps of mean ε/T and variance s², so with k uses to come it lies about kε/T, within a few s √(k(T − k)/T).
That decides how narrow the bracket is, never whether it is valid.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from affidavit.accountant.cases.case import Case
from affidavit.accountant.methods.base import EPSILON_FLOOR, Bracket, Target
from affidavit.accountant.methods.recursion import Window, compose
from affidavit.accountant.methods.sampled_use import Direction, SampledUse, estimate
from affidavit.accountant.methods.sides import Sides
from affidavit.accountant.plan import Exponential, Plan, Poisson, WithoutReplacement
from affidavit.accountant.rounding import STATED
from affidavit.accountant.validate import Relation

__all__ = ["Sample", "SampledAdaptiveProfile", "sampled_gap"]

COARSEST, WHOLE = 0.3, 0.15
"""The first spacing, in units of s; that of the whole curve."""
MAX_WORK, WHOLE_WORK = 1e8, 1e7
"""Lattice points of all uses together times cells that a use reaches across, some 0.04 µs each; for a whole curve."""
DEPTH = 14.0
"""ln of how much smaller than the answer may be what the window leaves out."""
RESERVE = 2e-3
"""How far, relatively, ε may be beyond a bracket that was found."""
LEAST_DEVIATION = 0.02
"""Of one use's loss, relative to its swing: what the grid is scaled by where the tilted law is nearly certain."""
CONTRADICTION = 1e-8
"""Sides further apart, the wrong way round, are a fault of this code."""
ROUNDS = 5
FEW_USES, MOST_USES, LARGEST_RANGE = 400, 2000, 60.0
"""Uses from which on blocks take a fifth of the time (``few_uses``); beyond the others the grid would be too coarse."""
LEAST = 1e-10
"""Least rate × range², a use (``Sample.is_weak``)."""


def few_uses(eta: float) -> float:
    """Up to so many uses of range ``eta`` the recursion serves; blocks of few uses of large ranges are loose."""
    return min(MOST_USES, FEW_USES * max(1.0, eta * eta))


class Sample(NamedTuple):
    """An exponential mechanism of range ``eta`` on samples: see ``SampledUse``."""

    eta: float
    rate: float
    taken: float

    @classmethod
    def of(cls, node: Plan, relation: Relation) -> Sample | None:
        """None for what is none, and where only the envelope of the pairs is known."""
        match node:
            case Poisson(rate=rate, of=Exponential(range=eta)) if relation != "substitution":
                return cls(eta, rate, 1.0)
            case Poisson(rate=rate, of=Exponential(range=eta), absent=None) if rate > 0.0:
                return cls(eta, 1.0, rate)
            case WithoutReplacement(population=population, sample=sample, of=Exponential(range=eta)):
                return cls(eta, sample / population, 1.0) if relation == "add-remove" else None
        return None

    @classmethod
    def alone(cls, case: Case, relation: Relation) -> tuple[Sample, int] | None:
        """With its uses, if it is all there is."""
        if len(case.fixed) != 1 or case.exponentials:
            return None
        ((node, uses),) = case.fixed
        found = cls.of(node, relation)
        return None if found is None else (found, uses)

    @property
    def ways(self) -> tuple[SampledUse, ...]:
        """One use, in both directions where they differ."""
        ways: tuple[Direction, ...] = ("forward", "backward") if self.rate < 1.0 else ("forward",)
        return tuple(SampledUse(self.eta, self.rate, way, self.taken) for way in ways)

    def is_weak(self, uses: int) -> bool:
        """Whether rounding in a recursion over ``uses`` is no longer small beside what they do."""
        return self.rate * self.taken * self.eta**2 < LEAST * uses


def sampled_gap(sample: Sample, uses: int) -> str:
    """Empty if the recursion on samples serves, else why not."""
    if sample.eta > LARGEST_RANGE or uses > few_uses(sample.eta) or sample.is_weak(uses):
        return "too many, too strong or too weak uses for the recursion on samples"
    return ""


class _Estimate(NamedTuple):
    """About where the answer lies."""

    epsilon: float
    slope: float
    """−d ln δ/dε."""
    deviation: float
    """Of one use's loss on the way there."""
    reserve: float
    """How far ε may be from there, relatively."""


def _recurse(use: SampledUse, window: Window) -> Sides:
    uses = len(window.low) - 1
    found = compose(((use, uses),), window)
    return Sides(found.below(), found.above(), uses * use.reach[1])


def _work(use: SampledUse, window: Window) -> float:
    return window.points * sum(use.swing) / window.spacing


class SampledAdaptiveProfile:
    """Both sides, both directions, refined about each question."""

    def __init__(self, sample: Sample, uses: int, target: Target) -> None:
        self._uses = uses
        self._directions = sample.ways
        self._target = target
        self._everywhere: tuple[Sides, ...] = ()

    def delta(self, epsilon: float) -> Bracket:
        """Larger direction at ``epsilon``; a point of the curve, less sharp, where the target is another."""
        if epsilon == self._target.epsilon:
            return self._larger(self._target)
        self._everywhere = self._everywhere or tuple(_recurse(use, self._whole(use)) for use in self._directions)
        lower, upper = zip(*(sides.delta(epsilon) for sides in self._everywhere), strict=True)
        return Bracket(max(lower), max(upper))

    def windows(self, share: float) -> list[tuple[SampledUse, Window]]:
        """Forward and backward, good at every ε; spaced by about ``share`` deviations of one use's loss."""
        return [(use, self._whole(use, share=share)) for use in self._directions]

    def epsilon(self, delta: float) -> Bracket:
        """Larger direction at ``delta``."""
        return self._larger(replace(self._target, delta=delta, epsilon=None))

    def _larger(self, target: Target) -> Bracket:
        found = Bracket(0.0, 0.0)
        for use in self._directions:
            other = self._refined(use, target, found.lower)
            found = Bracket(max(found.lower, other.lower), max(found.upper, other.upper))
        return found

    def _refined(self, use: SampledUse, target: Target, enough: float) -> Bracket:
        """The bracket of one direction; an upper side below ``enough`` is narrow enough."""
        near = self._estimate(use, target)
        spacing = COARSEST * near.deviation
        found = Bracket(0.0, 1.0 if target.delta is None else self._uses * use.reach[1] * (1.0 + STATED))
        for number in range(ROUNDS):
            window = self._window(use, near, spacing)
            if (work := _work(use, window)) > MAX_WORK:
                spacing *= (work / MAX_WORK) ** (1.0 / 3.0)
                window = self._window(use, near, spacing)
            sides = _recurse(use, window)
            if target.delta is None:
                new, floor = sides.delta(target.epsilon or 0.0), 0.0
            else:
                new, floor = sides.epsilon(target.delta, near=near.epsilon), EPSILON_FLOOR
            found = Bracket(max(found.lower, new.lower), min(found.upper, new.upper))
            if found.lower > found.upper * (1.0 + CONTRADICTION):
                raise ArithmeticError(f"the recursion's sides contradict each other: {found}")
            if math.isinf(new.upper):
                near = near._replace(epsilon=max(1.5 * near.epsilon, found.lower))
                continue
            width, goal = found.upper - found.lower, max(target.tolerance * found.lower, floor)
            if width <= goal or found.upper <= enough or (number and work > MAX_WORK):
                break
            spacing *= max(0.1, 0.9 * math.sqrt(goal / width))
            if target.delta is not None:
                middle = 0.5 * (found.lower + found.upper)
                near = near._replace(epsilon=middle, reserve=0.6 * width / middle + RESERVE)
        return Bracket(min(found), found.upper)

    def _whole(self, use: SampledUse, *, share: float = WHOLE) -> Window:
        """Good for all ε up to where δ is negligible."""
        near = self._estimate(use, Target(delta=1e-3 * min(self._target.delta or 1e-9, 1e-9)))
        down, up = use.reach
        left = np.arange(self._uses + 1.0)
        spacing = share * near.deviation
        while True:
            lowest = np.maximum(-near.epsilon, -left * down) / spacing - 2.0
            highest = np.minimum(near.epsilon, left * up) / spacing + 2.0
            ends = np.floor(lowest).astype(np.int64), np.ceil(highest).astype(np.int64)
            window = Window(spacing, *ends, slope=near.slope)
            if (work := _work(use, window)) <= WHOLE_WORK:
                return window
            spacing *= 1.02 * (work / WHOLE_WORK) ** (1.0 / 3.0)

    def _estimate(self, use: SampledUse, target: Target) -> _Estimate:
        near = estimate(((use, self._uses),), delta=target.delta, epsilon=target.epsilon or 0.0)
        deviation = max(math.sqrt(near.variance / self._uses), LEAST_DEVIATION * sum(use.swing))
        reserve = 0.0 if target.delta is None else 0.02 + 0.6 / math.sqrt(self._uses)
        return _Estimate(near.epsilon if reserve else target.epsilon or 0.0, near.slope, deviation, reserve)

    def _window(self, use: SampledUse, near: _Estimate, spacing: float) -> Window:
        total = self._uses
        left = np.arange(total + 1.0)
        done = total - left
        down, up = use.reach
        spread = math.sqrt(2.0 * (DEPTH - math.log(self._target.tolerance))) * near.deviation
        middle = near.epsilon * left / total
        reserve = near.reserve * near.epsilon + 1e-6
        # The rare large loss of a small sample is no normal deviation: one in reserve.
        width = spread * np.sqrt(left * done / total) + np.where(done > 0.0, np.minimum(left, 1.0) * max(down, up), 0.0)
        lowest = np.maximum(middle - width - reserve * left / total, -left * down) - spacing
        highest = np.minimum(middle + width + reserve * left / total, left * up) + spacing
        low = np.floor(lowest / spacing).astype(np.int64)
        high = np.maximum(np.ceil(highest / spacing).astype(np.int64), low + 1)
        # H_0 has its kink at α = 1.
        low[0], high[0] = min(int(low[0]), -2), max(int(high[0]), 2)
        return Window(spacing, low, high, slope=near.slope)
