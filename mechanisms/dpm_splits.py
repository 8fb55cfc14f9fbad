r"""Where to cut a set of points in two: the scores of DPM's separators, in whole numbers.

A separator is a coordinate and the centre s of one of its intervals; it sends a point left if its coordinate
is at most s. Liebenow et al. (2024, "DPM: Clustering sensitive data through separation") rate it by how *empty*
its interval is and how *central* it lies. In units of points, with c the points in the interval, and l, r the
points on its left and right:

    score = − emptiness · c + centreness · g(min(l, r)),   g(k) = (t/q) k up to the edge k = ⌊q ñ⌋,
                                                           then slope (1 − t)/(1/2 − q)

which is theirs times ñ, except that rank is counted from the nearer side. ñ is the *released* noisy size of
the set: given what came before, a constant. Theirs divides by it, so that a change of one point becomes at
most (t/q + emptiness)/(ñ − λ) where ñ − λ is a lower bound of the size with probability 1 − δ; in points the
change is bounded whatever the size, and there is no δ to charge.

*Sensitivity.* Let w_c = centreness · max(t/q, (1 − t)/(1/2 − q)), the steepest slope.

- A point comes: c grows by 1 for one separator a coordinate, and min(l, r) grows by 0 or 1. Scores change
  by numbers in [−emptiness, w_c]: a spread of w = emptiness + w_c, however many separators there are.
- A point is replaced by another: c changes by at most 1 each way, min(l, r) by at most 1. Scores change by
  numbers in [−w, w]: a spread of 2w.
- A point leaves one set and another one enters a second: w in each, 2w together.

So ``width`` (add-remove, zero-out: w; substitution: 2w) bounds the sum of spreads over all sets of a level,
which is what one use of ``bounded-range`` asks for. Scores are integers on a grid of 2^-16 points: the
bounds hold exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import UsageError

__all__ = ["GRID", "Separators", "Weights"]

GRID = 1 << 16

Floats = NDArray[np.float64]
Scores = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Weights:
    """How separators are rated: α (``emptiness``), ``centreness``, and the latter's shape t (``height``), q (``edge``).

    The defaults are those of Liebenow et al.'s implementation.
    """

    emptiness: float = 5.0
    centreness: float = 1.0
    height: float = 0.3
    edge: float = 1.0 / 12.0

    def __post_init__(self) -> None:
        if not (self.emptiness >= 0.0 and self.centreness >= 0.0 and self.emptiness + self.centreness > 0.0):
            raise UsageError(
                "DPM's weights are not >= 0 with one of them > 0",
                hint="For example `emptiness = 5.0` and `centreness = 1.0`.",
            )
        if not (0.0 < self.edge < 0.5 and 0.0 <= self.height <= 1.0):
            raise UsageError(
                "DPM's edge is not in (0, 1/2), or its height not in [0, 1]",
                hint="For example `edge = 0.083` and `height = 0.3`.",
            )

    @property
    def occupied(self) -> int:
        """What one point in the interval costs, on the grid."""
        return round(self.emptiness * GRID)

    @property
    def slopes(self) -> tuple[int, int]:
        """What one more point on the smaller side is worth, below and above the edge, on the grid."""
        steep = self.centreness * self.height / self.edge
        shallow = self.centreness * (1.0 - self.height) / (0.5 - self.edge)
        return round(steep * GRID), round(shallow * GRID)

    @property
    def width(self) -> int:
        """w: the spread of scores that a point causes by coming or leaving, on the grid."""
        return self.occupied + max(self.slopes)

    def largest_spread(self, points: int) -> int:
        """How far apart two scores of ``points`` points can be, on the grid."""
        return self.occupied * points + max(self.slopes) * (points // 2)


@dataclass(frozen=True, slots=True)
class Separators:
    """All separators of a cube [−radius, radius]^dimensions cut into intervals of the public size ``interval``."""

    dimensions: int
    radius: float
    interval: float
    weights: Weights

    @property
    def intervals(self) -> int:
        """Intervals of one coordinate."""
        return max(1, int(np.ceil(2.0 * self.radius / self.interval)))

    @property
    def centres(self) -> Floats:
        """Where a coordinate may be cut."""
        places = np.arange(self.intervals, dtype=np.float64)
        middles: Floats = (places + 0.5) * self.interval - self.radius
        return middles

    def scores(self, points: Floats, *, size: float) -> Scores:
        """One score a separator, coordinate by coordinate; ``size`` is the set's released noisy size."""
        occupied, (steep, shallow) = self.weights.occupied, self.weights.slopes
        edge = int(max(0.0, self.weights.edge * size))
        cuts = self.centres
        result = np.empty((self.dimensions, self.intervals), dtype=np.int64)
        for axis in range(self.dimensions):
            column = np.sort(points[:, axis])
            place = np.clip(np.floor((column + self.radius) / self.interval), 0, self.intervals - 1).astype(np.int64)
            inside = np.bincount(place, minlength=self.intervals)
            left = np.searchsorted(column, cuts, side="right")
            nearer = np.minimum(left, len(column) - left)
            central = steep * np.minimum(nearer, edge) + shallow * np.maximum(nearer - edge, 0)
            result[axis] = central - occupied * inside
        return result.ravel()

    def right(self, points: Floats, separator: int) -> NDArray[np.bool_]:
        """Which points a separator sends to the right."""
        axis, place = divmod(separator, self.intervals)
        beyond: NDArray[np.bool_] = points[:, axis] > self.centres[place]
        return beyond
