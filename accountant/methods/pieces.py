"""One more use on a Poisson sample, from above: the largest value on each piece of the choices.

With u = e^t, E = e^η and a rate q the objective of ``recursion`` is a mean over two ratios, u of Q-probability
Q₁ = (1/u − 1/E)/(1 − 1/E) and u/E. [1, E] is cut at some of the u of ``cuts``. Between two of them let H lie below its
chord a + bα over the lattice points that enclose the argument (one cell, or several: H is convex). The objective is
then C + A/u + Bu with B <= 0, since the Q-probabilities and their products with the ratios are of this form. It falls
if A >= 0 and is concave if not, so that its largest value is at √(A/B), cut off at the ends.

The pieces are narrow where the strategy's best cuts are, and wider the further they are from there.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from affidavit.accountant.methods.cuts import Cuts
from affidavit.accountant.methods.sampled_use import SampledUse
from affidavit.accountant.rounding import NEAR_LATTICE, ONE_USE

__all__ = ["Pieces"]

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

BLOCK = 600
"""Lattice points with one layout of pieces."""
SPARE = 3
"""Cuts beyond the best ones of a block up to which pieces are narrow."""
WIDEST = 0.4
"""Largest product of a piece's width in nats and 1 + the slope of ln H: beyond, H is far from its chords."""


class _Looks(NamedTuple):
    """For each piece: the lattice points, relative to the point, between which a chord stands for one argument."""

    low: Indices
    width: Indices
    scale: Array
    """α over the lower of the two, one row a piece."""


class _Layout(NamedTuple):
    """Intervals of u that cover [1, E], one row each."""

    start: Array
    end: Array
    near: _Looks
    far: _Looks


class Pieces:
    """Of one use on a lattice; ``slope`` is about −d ln H/dε where it matters."""

    def __init__(self, cuts: Cuts, *, slope: float) -> None:
        self._cuts = cuts
        self._widest = WIDEST / (1.0 + slope)
        self._layouts: dict[tuple[int, int], _Layout] = {}
        self.rounding = ONE_USE * min(1.0 / cuts.spacing, 1.0 + slope) / -math.expm1(-cuts.use.eta)
        """Of values of ``upper``, relatively; included in them."""

    def upper(self, values: Array, choice: Indices) -> Array:
        """Above one more use at each point but the margins, about whose best cuts the pieces are narrow."""
        cuts, points = self._cuts, len(choice)
        result = np.empty(points)
        blocks = max(1, round(points / BLOCK))
        edges = [points * i // blocks for i in range(blocks + 1)]
        layouts = [self._layout(int(choice[a:b].min()), int(choice[a:b].max())) for a, b in pairwise(edges)]
        chords = _Chords.of(values, cuts.spacing, max(int(look.width.max()) for part in layouts for look in part[2:]))
        for (start, end), layout in zip(pairwise(edges), layouts, strict=True):
            looks = [chords.at(look, start + cuts.margin, end - start) for look in (layout.near, layout.far)]
            result[start:end] = _largest(cuts.use, layout, *looks).max(axis=0)
        # Ten products of intercepts and slopes, all below twice the intercepts to the right; arguments beside cells.
        h, most = cuts.spacing, np.maximum.accumulate(chords.intercept[1, ::-1])[::-1][:points]
        slack = np.minimum(values[:points] / h, most * (1.0 + NEAR_LATTICE / ONE_USE * h))
        return result + slack * (ONE_USE / -math.expm1(-cuts.use.eta))

    def _layout(self, first: int, last: int) -> _Layout:
        """Narrow pieces about cuts ``first`` to ``last``; beyond, one is half as wide as it is away."""
        if (first, last) not in self._layouts:
            end = len(self._cuts.times) - 1
            at = list(range(max(0, first - SPARE), min(end, last + SPARE) + 1))
            while at[0] > 0:
                at.insert(0, self._next(at[0], -max(1, (first - at[0]) // 2)))
            while at[-1] < end:
                at.append(self._next(at[-1], max(1, (at[-1] - last) // 2)))
            self._layouts[first, last] = self._between(np.array(at))
        return self._layouts[first, last]

    def _between(self, chosen: Indices) -> _Layout:
        """The pieces between these cuts."""
        cuts, looks = self._cuts, []
        u = np.exp(cuts.times[chosen])[:, None]
        for cell, place in zip(cuts.cells[:, chosen], cuts.inside[:, chosen], strict=True):
            above = cell + (place > 0.0)
            low = np.minimum(cell[:-1], cell[1:])
            width = np.maximum(np.maximum(above[:-1], above[1:]) - low, 1)
            looks.append(_Looks(low, width, np.exp(-low * cuts.spacing)[:, None]))
        return _Layout(u[:-1], u[1:], looks[0], looks[1])

    def _next(self, cut: int, step: int) -> int:
        """The cut ``step`` further, or so far that an argument moves by ``_widest``; one at least."""
        end = min(max(cut + step, 0), len(self._cuts.times) - 1)
        while abs(end - cut) > 1 and self._travel(cut, end) > self._widest:
            end = cut + (end - cut) // 2 if step > 0 else cut - (cut - end) // 2
        return end

    def _travel(self, one: int, other: int) -> float:
        """How far the arguments move between two cuts, in nats, the longer way."""
        cuts = self._cuts
        places = cuts.cells[:, [one, other]] * cuts.spacing + cuts.inside[:, [one, other]]
        return float(abs(places[:, 1] - places[:, 0]).max())


class _Chords(NamedTuple):
    """H <= intercept + slope α/α_i right of each lattice point α_i, one row a width of the chord."""

    intercept: Array
    slope: Array

    @classmethod
    def of(cls, values: Array, spacing: float, widest: int) -> _Chords:
        intercept, slope = np.zeros((2, widest + 1, len(values)))
        for width in range(1, widest + 1):
            fall = (values[:-width] - values[width:]) / math.expm1(width * spacing)
            intercept[width, :-width] = values[:-width] + fall
            slope[width, :-width] = -fall
        return cls(intercept, slope)

    def at(self, look: _Looks, start: int, points: int) -> tuple[Array, Array]:
        """Intercepts and slopes, the latter a unit of α, of ``points`` points from ``start``: one row a piece."""
        rows = look.width * self.slope.shape[1] + (start + look.low)
        intercept, slope = (sliding_window_view(part.ravel(), points)[rows] for part in self)
        slope *= look.scale
        return intercept, slope


def _largest(use: SampledUse, layout: _Layout, near: tuple[Array, Array], far: tuple[Array, Array]) -> Array:
    """The largest C + A/u + Bu on each piece."""
    forward = use.direction == "forward"
    (p1, r1), (p2, r2) = (look if forward else look[::-1] for look in (near, far))
    q, bottom = use.rate, math.exp(-use.eta)
    gap = p1 - p2
    inverse = (1.0 - q) * gap + r1 - r2
    linear = -q * bottom * gap
    constant = (q - (1.0 - q) * bottom) * p1 - bottom * r1 + (1.0 - q - q * bottom) * p2 + r2
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # cut off at once
        at = np.sqrt(np.maximum(inverse / np.minimum(linear, -1e-300), 0.0))
    np.clip(at, layout.start, layout.end, out=at)
    linear *= at
    inverse /= at
    constant += linear
    constant += inverse
    constant /= -math.expm1(-use.eta)
    return constant
