"""The choices of t on a lattice that an explicit strategy makes, and what they make of lines below a function.

Of all t in [0, η] the *cuts* are those at which the near or the far argument of a use (``recursion``) is on the
lattice; they are the same for every lattice point α. Where an argument lies between two lattice points, the larger of
their two tangents is taken: the value of a strategy is convex in α.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.methods.sampled_use import SampledUse
from affidavit.accountant.rounding import ALIGNED, NEAR_LATTICE

__all__ = ["Cuts", "cuts_of"]

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

STRIDE = 8
"""Cuts that are tried everywhere on samples: each so many."""


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """``times`` t, in rising order, and for the near and the far look at each its weight and place.

    A place is a lattice point, ``cells`` from α, and ``inside`` nats to the right of it. ``moved`` holds what a tangent
    changes by up to there: e^{inside} − 1 and e^{inside}, and both from the next lattice point; None where all
    arguments are on the lattice.
    """

    use: SampledUse
    spacing: float
    times: Array
    weights: Array
    cells: Indices
    inside: Array
    moved: Array | None
    margin: int
    """Points further than the last that is asked for at which a function must be known."""

    def best(self, lines: Array, near: Indices | None = None) -> Indices:
        """A good cut at each point but the margins: of those ``near`` some, else the best of all; on samples of every
        ``STRIDE``-th one, then of its neighbours.
        """
        at = np.arange(lines.shape[1] - 2 * self.margin)
        last = len(self.times) - 1
        best, value = np.zeros(len(at), dtype=np.int64), np.full(len(at), -1.0)

        def offer(cut: Indices | int) -> None:
            here = self._value(lines, at, cut)
            np.copyto(best, cut, where=here > value)
            np.maximum(value, here, out=value)

        stride = STRIDE if self.use.rate < 1.0 else 1
        if near is None:
            for cut in range(0, last + 1, stride):
                offer(cut)
        else:
            stride = STRIDE
            offer(near)
        while stride := stride // 2:
            middle = best.copy()
            offer(np.maximum(middle - stride, 0))
            offer(np.minimum(middle + stride, last))
        return best

    def best_at(self, lines: Array, point: int) -> int:
        """The best cut at one point, counted without the margin."""
        every = np.arange(len(self.times))
        return int(self._value(lines, np.full(len(every), point), every).argmax())

    def strategy(self, lines: Array, choice: Indices) -> Array:
        """Value and slope of one more use at the chosen cuts."""
        at = np.arange(self.margin, self.margin + len(choice))
        found = np.zeros((2, len(choice)))
        for side, weights in enumerate(self.weights):
            found += weights.take(choice) * self._look(lines, side, at + self.cells[side].take(choice), choice)
        if (taken := self.use.taken) < 1.0:
            found = taken * found + (1.0 - taken) * lines[:, self.margin : self.margin + len(choice)]
        return found

    def law(self, cut: int) -> tuple[int, Array]:
        """First place and P-masses of the losses at one cut; those between two places go to both, means kept."""
        places = -self.cells[:, cut]
        share = np.expm1(self.inside[:, cut]) / math.expm1(self.spacing)
        first, weights = min(int(places.min()) - 1, 0), self.weights[:, cut] * self.use.taken
        masses = np.zeros(max(int(places.max()), 0) - first + 1)
        masses[-first] = 1.0 - self.use.taken
        np.add.at(masses, places - first, weights * (1.0 - share))
        np.add.at(masses, places - first - 1, weights * share)
        return first, masses

    def _look(self, lines: Array, side: int, index: Indices, choice: Indices) -> Array:
        """Value and slope of the larger tangent at one argument."""
        left: Array = lines.take(index, axis=1)
        if self.moved is None:
            return left
        right = lines.take(index + 1, axis=1)
        rise, scale, fall, shrink = self.moved[:, side].take(choice, axis=1)
        left[0] -= left[1] * rise
        left[1] *= scale
        right[0] -= right[1] * fall
        right[1] *= shrink
        return np.where(left[0] >= right[0], left, right)

    def _value(self, lines: Array, at: Indices, cut: Indices | int) -> Array:
        """The values alone, of the points ``at``, counted without the margin; those of one cut are all points'."""

        def pick(row: Array, place: Indices | int) -> Array:
            return row.take(at + place) if isinstance(cut, np.ndarray) else row[place : place + len(at)]

        def look(side: int) -> Array:
            place = self.margin + self.cells[side, cut]
            value: Array = pick(lines[0], place)
            if self.moved is not None:
                rise, _, fall, _ = self.moved[:, side, cut]
                other = pick(lines[0], place + 1) - pick(lines[1], place + 1) * fall
                value = np.maximum(value - pick(lines[1], place) * rise, other)
            return value

        near, far = self.weights[:, cut]
        found: Array = near * look(0) + far * look(1)
        return found


@lru_cache(maxsize=64)
def cuts_of(use: SampledUse, spacing: float) -> Cuts:
    """Of a use on a lattice."""
    down, up = use.swing
    near, far = (sign * spacing * np.arange(1.0, end / spacing) for sign, end in ((1.0, up), (-1.0, down)))
    if use.rate < 1.0:
        with np.errstate(over="ignore"):  # a t beyond all
            near, far = (np.log1p(np.expm1(log_ratio) / use.rate) for log_ratio in (near, far))
    inner = np.sort(np.concatenate((near, use.eta + far)))
    inner = inner[(inner > ALIGNED * use.eta) & (inner < (1.0 - ALIGNED) * use.eta)]
    inner = inner[np.diff(inner, prepend=0.0) > ALIGNED * use.eta]  # near and far at once
    times = np.concatenate(([0.0], inner, [use.eta]))
    chance, log_near, log_far = use.pair(times)
    forward = use.direction == "forward"
    moves = np.stack((log_near, log_far)) * (-1.0 if forward else 1.0) / spacing
    rounded = np.round(moves)
    on = np.abs(moves - rounded) <= (NEAR_LATTICE if use.rate < 1.0 else ALIGNED * use.eta / spacing)
    cells = np.where(on, rounded, np.floor(moves))
    inside = np.where(on, 0.0, moves - cells) * spacing
    weights = np.stack((chance, 1.0 - chance))
    if forward:
        weights *= np.exp(np.stack((log_near, log_far)))
    beyond = inside - spacing
    moved = None if on.all() else np.stack((np.expm1(inside), np.exp(inside), np.expm1(beyond), np.exp(beyond)))
    return Cuts(use, spacing, times, weights, cells.astype(np.int64), inside, moved, int(max(down, up) / spacing) + 3)
