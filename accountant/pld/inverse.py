"""From bounds of δ at ε to bounds of ε at δ."""

from __future__ import annotations

import math
from collections.abc import Callable

from affidavit.accountant.pld.curve import ROUNDING

__all__ = ["inverse"]

NEAR = 1e-14
"""First step outwards from a root, relative."""
FIRST, LARGER = 1e-6, 4.0
LEAST = 1e-323


def inverse(
    sides: Callable[[float], tuple[float, float]], delta: float, *, furthest: float, near: float = FIRST
) -> tuple[float, float]:
    """(lower, upper) of the least ε >= 0 whose δ is at most ``delta`` > 0, from the ``sides`` of δ(ε), which falls.

    An ε where the upper side is at most ``delta`` is an upper one, whatever rounding did elsewhere; one where the
    lower side is above it is a lower one, sought near the upper one. (0, inf) if there is none up to ``furthest``.
    """
    from scipy.optimize import brentq

    def excess(epsilon: float) -> float:
        return math.log(max(sides(epsilon)[1], LEAST) / delta)

    if excess(0.0) <= 0.0:
        return 0.0, 0.0
    low, high = 0.0, min(near, furthest)
    while excess(high) > 0.0:
        if high >= furthest:
            return 0.0, math.inf
        low, high = high, min(LARGER * high, furthest)
    while low == 0.0 and high > LEAST * LARGER:
        low, high = (high / LARGER, high) if excess(high / LARGER) > 0.0 else (0.0, high / LARGER)
    above = float(brentq(excess, low, high, xtol=1e-300, rtol=4.0 * ROUNDING))
    step = NEAR * above
    while excess(above) > 0.0:
        above, step = min(above + step, high), 2.0 * step
    below, step = above, NEAR * above
    while below > 0.0 and sides(below)[0] <= delta:
        below, step = below - step, 2.0 * step
    return max(0.0, below), above
