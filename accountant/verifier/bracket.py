"""Two-sided values, and the search that turns a profile into ε."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from affidavit.accountant.verifier.balls import Ball, down, up

__all__ = ["Bracket", "Falling", "Profile", "clipped", "epsilon_bracket"]

RELATIVE, MOST_TURNS = 1e-13, 400
LARGEST = 1.7e308
"""No ε is looked for beyond it."""


class Bracket(NamedTuple):
    """``lower <= value <= upper``."""

    lower: float
    upper: float


class Profile(Protocol):
    """(lower, upper) δ of one composition at any real ε."""

    def delta(self, epsilon: float) -> Bracket: ...


@dataclass(frozen=True, slots=True)
class Falling:
    """A profile whose upper side may rise beyond where it is sharp: from ``at`` on, δ is at most ``most``, as there."""

    profile: Profile
    at: float
    most: float

    @staticmethod
    def of(profile: Profile, at: float) -> Falling:
        return Falling(profile, at, profile.delta(at)[1])

    def delta(self, epsilon: float) -> Bracket:
        lower, upper = self.profile.delta(epsilon)
        return Bracket(lower, min(upper, self.most) if epsilon >= self.at else upper)


def clipped(value: Ball) -> Bracket:
    """The ball, cut to [0, 1]."""
    return Bracket(min(1.0, max(0.0, down(value))), min(1.0, max(0.0, up(value))))


@np.errstate(over="ignore", invalid="ignore")  # far from the answer
def epsilon_bracket(profile: Profile, delta: float, *, start: float = 1.0) -> Bracket:
    """Bracket of the smallest ε >= 0 with δ(ε) <= ``delta``, given 0 < ``delta`` < 1; ``start`` affects the time only.

    At the upper end δ_upper <= ``delta`` (or it is inf), at the lower one δ_lower > ``delta`` (or it is 0): both were
    evaluated, so nothing rests on the search, nor on the sides being monotone. A profile may be sharp near the answer
    only, so the lower end is looked for from the upper one.
    """
    sides = cache(profile.delta)

    def above(epsilon: float) -> float:
        return min(1.0, sides(epsilon)[1])  # in this order NaN is 1, and 0 below

    def side(epsilon: float) -> float:
        return max(0.0, sides(epsilon)[0])

    upper = _ends(above, delta, start)[1]

    if upper == math.inf:
        lower, beyond = _ends(side, delta, start)
        return Bracket(beyond if beyond == math.inf else lower, upper)
    high, gap = upper, RELATIVE * upper
    while (low := high - gap) > 0.0:
        value = side(low)
        if value > delta:
            return Bracket(_narrowed(side, delta, (low, value), (high, side(high)))[0], upper)
        high, gap = low, 16.0 * gap
    value = side(0.0)
    return Bracket(_narrowed(side, delta, (0.0, value), (high, side(high)))[0] if value > delta else 0.0, upper)


_Point: TypeAlias = tuple[float, float]
"""ε and δ there."""


def _ends(side: Callable[[float], float], delta: float, start: float) -> tuple[float, float]:
    """Two values of ε, next to each other: one above ``delta`` (or 0) and one not above (or inf)."""
    low, high, growth = (0.0, side(0.0)), max(start, 1e-12), 2.0
    if low[1] <= delta:
        return 0.0, 0.0
    while (value := side(high)) > delta:
        if high == LARGEST:
            return high, math.inf
        low, high, growth = (high, value), min(high * growth, LARGEST), 2.0 * growth
    return _narrowed(side, delta, low, (high, value))


def _narrowed(side: Callable[[float], float], delta: float, low: _Point, high: _Point) -> tuple[float, float]:
    """The same between two such values: where ln δ would be straight, now to this and now to that side, and halves."""
    for turn in range(MOST_TURNS):
        width = high[0] - low[0]
        if width <= RELATIVE * high[0]:
            break
        middle = low[0] + 0.5 * width
        if turn % 3 < 2 and low[1] > high[1] > 0.0:
            fall = math.log(low[1]) - math.log(high[1])
            lean = RELATIVE * high[0] / 3.0 * (1 - 2 * (turn % 3))
            straight = low[0] + width * (math.log(low[1]) - math.log(delta)) / fall + lean if fall > 0.0 else middle
            middle = straight if low[0] < straight < high[0] else middle
        if middle in (low[0], high[0]):
            break
        value = side(middle)
        low, high = (low, (middle, value)) if value <= delta else ((middle, value), high)
    return low[0], high[0]
