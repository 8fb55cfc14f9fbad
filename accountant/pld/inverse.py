"""From bounds of δ at ε to bounds of ε at δ."""

from __future__ import annotations

import math
from collections.abc import Callable

from affidavit.accountant.pld.curve import ROUNDING

__all__ = ["inverse"]

NEAR = 1e-14
"""First step outwards from a root, relative."""
FIRST, LARGER, CLOSE = 1e-6, 4.0, 0.05
"""Where to begin, by what factor to go on, and how well the lower side is found, relative to the bracket."""
LEAST, TINY = 1e-323, 1e-290


def inverse(
    sides: Callable[[float], tuple[float, float]], delta: float, *, furthest: float, near: float = FIRST
) -> tuple[float, float]:
    """(lower, upper) of the least ε >= 0 whose δ is at most ``delta`` > 0, from the ``sides`` of δ(ε), which falls.

    An ε where the upper side is at most ``delta`` is an upper one, whatever rounding did elsewhere; one where the
    lower side is above it is a lower one, sought near the upper one, which is inf if there is none up to ``furthest``.
    """
    from scipy.optimize import brentq

    def excess(epsilon: float) -> float:
        return math.log(max(sides(epsilon)[1], LEAST) / delta)

    if excess(0.0) <= 0.0:
        return 0.0, 0.0
    low, high = 0.0, min(near, furthest)
    while excess(high) > 0.0 and high < furthest:
        low, high = high, min(LARGER * high, furthest)
    above, last = math.inf, high
    if excess(high) <= 0.0:
        while low == 0.0 and high > TINY:
            low, high = (high / LARGER, high) if excess(high / LARGER) > 0.0 else (0.0, high / LARGER)
        above = float(brentq(excess, low, high, xtol=1e-3 * TINY, rtol=4.0 * ROUNDING))
        step = max(NEAR * above, TINY)
        while excess(above) > 0.0:
            above, step = min(above + step, high), 2.0 * step
        last = above
    below, step, shrunk = last, NEAR * last, LARGER
    while sides(below)[0] <= delta:
        if below < TINY:
            return 0.0, above
        last, below, step = below, max(below - step, below / shrunk), 2.0 * step
        shrunk = min(shrunk * shrunk, 1e150) if 2.0 * below < last else shrunk
    while last - below > CLOSE * (above - below):
        middle = 0.5 * (last + below)
        last, below = (middle, below) if sides(middle)[0] <= delta else (last, middle)
    return below, above
