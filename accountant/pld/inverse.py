"""From bounds of δ at ε to bounds of ε at δ."""

from __future__ import annotations

import math
from collections.abc import Callable

from affidavit.accountant.rounding import ULP

__all__ = ["EXACT", "inverse"]

NEAR = 1e-14
"""First step outwards from a root, relative."""
FIRST, NEARBY, LARGER, OUTWARDS, CLOSE = 1e-6, 1.1, 4.0, 8.0, 0.05
"""Where to begin, by what factors to go on, and how well the lower side is found, relative to the bracket."""
EXACT = 4.0 * ULP
LEAST, TINY, TURNS = 1e-323, 1e-290, 200


def inverse(
    sides: Callable[[float], tuple[float, float]],
    delta: float,
    *,
    furthest: float,
    near: float = 0.0,
    close: float = EXACT,
) -> tuple[float, float]:
    """(lower, upper) of the least ε >= 0 whose δ is at most ``delta``, from the ``sides`` of δ(ε), which falls.

    An ε where the upper side is at most ``delta`` is an upper one, whatever rounding did elsewhere; one where the
    lower side is above it is a lower one, sought near the upper one, which is inf if there is none up to ``furthest``.
    Either may be off by ``close``, relative, on its own side. ``near`` is a guess of both, 0 for none.
    """

    def excess(epsilon: float) -> float:
        upper = sides(epsilon)[1]
        return math.log(max(upper, LEAST) / (delta or LEAST)) if upper >= 0.0 else math.inf

    if excess(0.0) <= 0.0:
        return 0.0, 0.0
    low, high, larger = 0.0, min(near or FIRST, furthest), NEARBY if near else LARGER
    while excess(high) > 0.0 and high < furthest:
        low, high, larger = high, min(larger * high, furthest), min(larger * larger, LARGER)
    above, last = math.inf, high
    if excess(high) <= 0.0:
        while low == 0.0 and high > TINY:
            low, high = (high / larger, high) if excess(high / larger) > 0.0 else (0.0, high / larger)
            larger = min(larger * larger, LARGER)
        above = _root(excess, low, high, close)
        step = max(NEAR * above, TINY)
        while excess(above) > 0.0:
            above, step = min(above + step, high), 2.0 * step
        last = above
    below, step, shrunk = last, max(NEAR, close) * last, LARGER
    while not sides(below)[0] > delta:
        if below < TINY:
            return 0.0, above
        last, below, step = below, max(below - step, below / shrunk), OUTWARDS * step
        shrunk = min(shrunk * shrunk, 1e150) if 2.0 * below < last else shrunk
    while last - below > max(CLOSE * (above - below) if above < math.inf else 0.0, close * below):
        middle = 0.5 * (last + below)
        if not below < middle < last:
            break
        last, below = (last, middle) if sides(middle)[0] > delta else (middle, below)
    return below, above


def _root(excess: Callable[[float], float], low: float, high: float, close: float) -> float:
    """Just beyond where ``excess``, above 0 at ``low`` and not at ``high``, changes its sign."""
    left, right = excess(low), excess(high)
    for turn in range(TURNS):
        if high - low <= close * high:
            break
        middle = 0.5 * (low + high) if turn % 3 == 2 else high - right * (high - low) / (right - left)
        middle = min(max(middle, low + ULP * high), high - ULP * high)
        found = excess(middle)
        if found > 0.0:
            low, left = middle, found
        else:
            high, right = middle, found
    return high
