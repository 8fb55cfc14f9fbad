"""From a falling curve to the ε at which it meets δ: both endpoints are verified."""

from __future__ import annotations

import math
from collections.abc import Callable

from affidavit.accountant.verifier.balls import Ball, down, up

__all__ = ["Sides", "crossing", "first_below"]

Sides = tuple[float, float]
"""(lower, upper)."""

LARGEST = 1.7976931348623157e308
RELATIVE_WIDTH = 1e-12
COARSE_WIDTH = 1e-7
"""For lattice curves, which are themselves at least a hundred times wider."""
SMALLEST_WIDTH = 1e-14


def _log(value: Ball) -> float:
    return float(value.log()) if value > 0 else -math.inf


def crossing(curve: Callable[[float], Ball], target: Ball, *, start: float) -> Sides:
    """Enclose inf{ε >= 0 : curve(ε) <= target} for a non-increasing curve with values in balls.

    The lower end is a float at which the curve is *provably* above the target (or 0), the upper
    end one at which it is provably at most the target (or inf): nothing rests on the search
    itself. ``start`` is a first guess > 0 and only affects the time.
    """
    if curve(0.0) <= target:
        return 0.0, 0.0
    low, high = 0.0, start
    low_log, high_log = _log(curve(0.0)), 0.0
    goal = _log(target)
    while True:
        value = curve(high)
        if value <= target:
            high_log = _log(value)
            break
        if value > target:
            low, low_log = high, _log(value)
        if high >= LARGEST / 2:
            return low, math.inf
        high *= 2.0
    stuck = 0
    while high - low > max(RELATIVE_WIDTH * high, SMALLEST_WIDTH):
        middle = low + (high - low) / 2
        if stuck % 3 != 2 and math.isfinite(high_log) and low_log > high_log:
            # Regula falsi on log δ, leaning to the side of the end that moved less recently.
            middle = low + (high - low) * (low_log - goal) / (low_log - high_log)
            lean = max(RELATIVE_WIDTH * high, SMALLEST_WIDTH) / 3
            middle += lean if stuck % 3 == 0 else -lean
            if not low < middle < high:
                middle = low + (high - low) / 2
        if middle in (low, high):
            break
        value = curve(middle)
        if value <= target:
            high, high_log = middle, _log(value)
        elif value > target:
            low, low_log = middle, _log(value)
        else:
            break
        stuck += 1
    return low, high


def first_below(curve: Callable[[float], float], target: float, *, low: float, high: float, safe: str) -> float:
    """A float where a computed bound crosses the target, on the side that is safe.

    ``safe="upper"``: ``curve`` bounds δ from above; returns an ε with curve(ε) <= target, or inf
    if even ``high`` does not reach it. ``safe="lower"``: it bounds δ from below; returns an ε with
    curve(ε) > target, or 0. The curve need not be monotone for that to hold: the returned point
    itself was evaluated.
    """
    if curve(low) <= target:
        return low if safe == "upper" else 0.0
    if curve(high) > target:
        return math.inf if safe == "upper" else high
    while high - low > max(COARSE_WIDTH * high, SMALLEST_WIDTH):
        middle = low + (high - low) / 2
        if middle in (low, high):
            break
        if curve(middle) <= target:
            high = middle
        else:
            low = middle
    return high if safe == "upper" else low


def clipped(value: Ball) -> Sides:
    """The ball as (lower, upper) floats, cut to [0, 1]."""
    return min(1.0, max(0.0, down(value))), min(1.0, max(0.0, up(value)))
