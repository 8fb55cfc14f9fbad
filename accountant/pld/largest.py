"""The largest of several curves, which is the curve of a pair again.

A maximum of convex functions is convex, and 1 at α = 0 and at least (1 − α)₊ as each of them is: so some pair has it
(Zhu, Dong and Wang 2022), and it dominates what each of them dominates. Where a curve is the largest,
its tails are the pair's: −Q(L > l) is a slope of the maximum there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.pld.curve import Array, Curve, Logs
from affidavit.accountant.rounding import SAME

__all__ = ["Largest", "Least"]


class Largest(Curve):
    """An upper side; see the module."""

    def __init__(self, curves: tuple[Curve, ...]) -> None:
        self.curves = curves
        self.low, self.high = min(curve.low for curve in curves), max(curve.high for curve in curves)
        self.infinity = max(curve.infinity for curve in curves)
        self.convex = all(curve.convex for curve in curves)
        self.accuracy = SAME + max(curve.accuracy for curve in curves)

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
        chosen = self._chosen(np.nan_to_num(np.array(heights), nan=0.0))[np.newaxis]
        return Logs(*(np.take_along_axis(np.array([one[i] for one in each]), chosen, axis=0)[0] for i in range(4)))

    def _chosen(self, heights: Array) -> NDArray[np.intp]:
        chosen: NDArray[np.intp] = heights.argmax(axis=0)
        return chosen


class Least(Largest):
    """The smallest of several upper bounds of one profile, all symmetric; its convex minorant counts."""

    symmetric = True

    def __init__(self, curves: tuple[Curve, ...]) -> None:
        super().__init__(curves)
        self.infinity = self.bottom = min(curve.infinity for curve in curves)
        self.atoms = tuple(sorted({atom for curve in curves for atom in curve.atoms}))
        self.convex = False

    def _chosen(self, heights: Array) -> NDArray[np.intp]:
        chosen: NDArray[np.intp] = heights.argmin(axis=0)
        return chosen
