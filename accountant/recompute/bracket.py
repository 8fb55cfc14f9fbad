"""Two-sided values and the search that turns a profile into ε."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

__all__ = ["Bracket", "Profile", "epsilon_bracket", "rounded_down", "rounded_up"]

_HALVINGS = 200
_RELATIVE = 1e-13


class Bracket(NamedTuple):
    """``lower <= value <= upper``."""

    lower: float
    upper: float


class Profile(Protocol):
    """δ(ε) of one composition, from both sides."""

    def delta(self, epsilon: float) -> Bracket:
        """Bracket of δ at ``epsilon`` (any real number)."""
        ...


def rounded_up(value: float) -> float:
    """The next float above a value that is correct to half a unit in the last place."""
    return math.nextafter(value, math.inf) if math.isfinite(value) else value


def rounded_down(value: float) -> float:
    """The next float below; never below zero."""
    return max(0.0, math.nextafter(value, -math.inf)) if math.isfinite(value) else value


def epsilon_bracket(profile: Profile, delta: float, *, start: float) -> Bracket:
    """Bracket of the smallest ε >= 0 with δ(ε) <= ``delta``, given 0 < ``delta`` < 1.

    The upper end satisfies δ_upper <= ``delta``; at the lower end δ_lower > ``delta`` (or it is 0).
    """
    return Bracket(_last(profile, delta, start, side=0), _first(profile, delta, start))


def _grow(holds_at_zero: bool, start: float) -> tuple[float, float]:
    return (0.0, 0.0) if holds_at_zero else (0.0, max(start, 1e-12))


def _first(profile: Profile, delta: float, start: float) -> float:
    """A value at which the upper side is at most ``delta``, next to one at which it is not."""
    low, high = _grow(profile.delta(0.0).upper <= delta, start)
    while high > low and profile.delta(high).upper > delta:
        low, high = high, 2.0 * high
        if high > 1e9:
            return math.inf
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if high - low <= _RELATIVE * high or middle in (low, high):
            break
        low, high = (low, middle) if profile.delta(middle).upper <= delta else (middle, high)
    return high


def _last(profile: Profile, delta: float, start: float, *, side: int) -> float:
    """A value at which the lower side exceeds ``delta``, next to one at which it does not."""
    low, high = _grow(profile.delta(0.0)[side] <= delta, start)
    while high > low and profile.delta(high)[side] > delta:
        low, high = high, 2.0 * high
        if high > 1e9:
            return high / 2.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if high - low <= _RELATIVE * high or middle in (low, high):
            break
        low, high = (middle, high) if profile.delta(middle)[side] > delta else (low, middle)
    return low
