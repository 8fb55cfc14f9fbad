"""The largest of several curves, which is the curve of a pair again.

A maximum of convex functions is convex, and 1 at α = 0 and at least (1 − α)₊ as each of them is: so some pair has it
(Zhu, Dong and Wang 2022), and it dominates what each of them dominates. Where a curve is the largest,
its tails are the pair's: −Q(L > l) is a slope of the maximum there.
"""

from __future__ import annotations

import numpy as np

from affidavit.accountant.pld.curve import Array, Curve, Logs

__all__ = ["Largest"]

ACCURACY = 1e-12
"""Of the tails: curves that float64 cannot tell apart are taken for one another."""


class Largest(Curve):
    """An upper side; see the module."""

    __slots__ = ("accuracy", "convex", "curves", "high", "infinity", "low")

    def __init__(self, curves: tuple[Curve, ...]) -> None:
        self.curves = curves
        self.low, self.high = min(curve.low for curve in curves), max(curve.high for curve in curves)
        self.infinity = max(curve.infinity for curve in curves)
        self.convex = all(curve.convex for curve in curves)
        self.accuracy = ACCURACY + max(curve.accuracy for curve in curves)

    def logs(self, loss: Array) -> Logs:
        each = [curve.logs(loss) for curve in self.curves]
        with np.errstate(over="ignore", invalid="ignore"):
            # What δ is above (1 − α)₊: from the tails above a loss of 0, from the heads below it.
            heights = [
                np.where(
                    loss >= 0.0,
                    np.exp(one.p_tail) - np.exp(np.minimum(loss + one.q_tail, 0.0)),
                    np.exp(np.minimum(loss, 0.0) + one.q_head) - np.exp(one.p_head),
                )
                for one in each
            ]
        best = np.argmax(np.nan_to_num(np.array(heights), nan=0.0), axis=0)[np.newaxis]
        return Logs(*(np.take_along_axis(np.array([one[i] for one in each]), best, axis=0)[0] for i in range(4)))
