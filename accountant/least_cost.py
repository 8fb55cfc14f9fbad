"""The cheapest mixture that does what is needed: a small linear program, by an interior point.

Both engines look for laws by it of which any choice is valid (``methods.one_law``, ``verifier.surrogate``): a poor
answer costs width. It lies in the middle of all that are as good, so that ties are not decided by rounding.

Source: Mehrotra 1992, "On the implementation of a primal-dual interior point method".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

__all__ = ["cheapest_shares"]

ROUNDS, CLOSE = 30, 1e-8
"""Steps at most; the mean product of a variable and its multiplier that is near enough to 0."""
NEARLY = 0.995
"""Of the way to where the first variable would be 0."""
PRICE = 1e2
"""Of a unit of what is missing, in units of the largest cost."""


def cheapest_shares(effects: Array, needs: Array, costs: Array) -> Array:
    """Shares of sum 1, at least 0, with Σ share × effect >= need for every need, at about the least Σ share × cost.

    ``effects`` has a row for each choice, a column for each need. Where no shares will do, as little is missing as may.
    """
    import numpy as np

    some = np.column_stack([effects.T, np.ones(len(needs))])  # the last variable is what is missing
    cost = np.append(costs / np.max(np.abs(costs)), PRICE)
    total = np.append(np.ones(len(costs)), 0.0)
    # All alike, and so much more that nothing is missing; multipliers that no cost exceeds.
    x, y = total / len(costs), np.full(len(needs), 1.0 / len(needs))
    x[-1] = 1.0 + max(0.0, float(np.max(needs - some @ x)))
    s, v = some @ x - needs, float(np.min(cost - y @ some)) - 1.0
    z = cost - y @ some - v * total
    best, least = x, math.inf

    def longest(ends: tuple[tuple[Array, Array], ...]) -> float:
        return min(1.0, *(NEARLY / float(np.max(-step / at, initial=NEARLY)) for at, step in ends))

    with np.errstate(all="ignore"):  # what rounding spoils is not the least
        for _ in range(ROUNDS):
            missing, short, left = needs - some @ x + s, cost - y @ some - v * total - z, 1.0 - float(total @ x)
            mean = float(x @ z + s @ y) / (len(x) + len(s))
            if mean < least:
                best, least = x, mean
            if mean < CLOSE:
                break
            weights = y / s
            try:
                inverse = np.linalg.inv((some.T * weights) @ some + np.diag(z / x))
            except np.linalg.LinAlgError:  # rounding has the last word
                break
            across = inverse @ total
            dx, dz, ds, dy = np.zeros_like(x), np.zeros_like(z), np.zeros_like(s), np.zeros_like(y)
            aim = dv = 0.0
            for _ in range(2):  # towards the answer; then, as that shows how far, nearer to the middle
                xz, sy = aim - x * z - dx * dz, aim - s * y - ds * dy
                ahead = inverse @ (((sy + y * missing) / s) @ some + xz / x - short)
                dv = (left - float(total @ ahead)) / float(total @ across)
                dx = ahead + dv * across
                ds, dz = some @ dx - missing, (xz - z * dx) / x
                dy = (sy - y * ds) / s
                primal, dual = longest(((x, dx), (s, ds))), longest(((y, dy), (z, dz)))
                reached = float((x + primal * dx) @ (z + dual * dz) + (s + primal * ds) @ (y + dual * dy))
                aim = mean * (reached / (len(x) + len(s)) / mean) ** 3
            x, s = x + primal * dx, s + primal * ds
            y, z, v = y + dual * dy, z + dual * dz, v + dual * dv
    shares = np.maximum(best[:-1], 0.0)
    result: Array = shares / shares.sum()
    return result
