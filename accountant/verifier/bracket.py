"""Two-sided values and the search that turns a profile into ε."""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

__all__ = ["Bracket", "Profile", "epsilon_bracket", "rounded_down", "rounded_up"]

_HALVINGS = 200
_RELATIVE = 1e-13
_LARGEST = 1e9


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

    The upper end satisfies δ_upper <= ``delta``; at the lower end δ_lower > ``delta`` (or it is 0). A
    profile may be sharp near the answer only, so the lower end is looked for from the upper one.
    """
    upper = _first(profile, delta, start)
    return Bracket(_last(profile, delta, upper), upper)


def _first(profile: Profile, delta: float, start: float) -> float:
    """A value at which the upper side is at most ``delta``, next to one at which it is not."""
    if profile.delta(0.0).upper <= delta:
        return 0.0
    low, high = 0.0, max(start, 1e-12)
    while profile.delta(high).upper > delta:
        low, high = high, 2.0 * high
        if high > _LARGEST:
            return math.inf
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if high - low <= _RELATIVE * high or middle in (low, high):
            break
        low, high = (low, middle) if profile.delta(middle).upper <= delta else (middle, high)
    return high


def _last(profile: Profile, delta: float, upper: float) -> float:
    """A value at which the lower side exceeds ``delta``, next to one at which it does not."""
    high = min(upper, _LARGEST)
    gap = 4.0 * _RELATIVE * high
    low = high - gap
    while low > 0.0 and profile.delta(low).lower <= delta:
        high, gap = low, 2.0 * gap
        low = high - gap
    if low <= 0.0:
        low = 0.0
        if profile.delta(0.0).lower <= delta:
            return 0.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if high - low <= _RELATIVE * high or middle in (low, high):
            break
        low, high = (middle, high) if profile.delta(middle).lower > delta else (low, middle)
    return low
