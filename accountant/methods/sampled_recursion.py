"""The adaptive recursion for exponential mechanisms on Poisson samples, one direction, from both sides.

One use of bounded range η is dominated by a two-point mechanism for some t in [0, η] (see ``recursion``): with
u = e^t and E = e^η its likelihood ratio y is u or u/E, with Q-probabilities Q₁ = (1/u − 1/E)/(1 − 1/E) and 1 − Q₁.
Run on a Poisson sample of rate q, the record's presence makes the ratio m = 1 − q + q y. What is maximised over t is
the mean of a convex function of y, of mean 1 under Q, so two points remain the worst case and, with α = e^ε,

    forward    (mixture, Q):   H_k(α) = max over t of  E_Q[m H_{k−1}(α/m)],
    backward   (Q, mixture):   H_k(α) = max over t of  E_Q[H_{k−1}(α m)],

H_0(α) = (1 − α)₊ and δ(ε) is the larger of both H_T(e^ε): which of the neighbours holds the record is settled once.
Two tokens and suitable logits attain any t, so both are exact.

H_k is kept at lattice points e^{ih}. [1, E] is cut at the u for which the near argument (y = u) or the far one
(y = u/E) is on the lattice; the cuts are the same for every lattice point α.

Upper side. Between two cuts let H lie below its chord a + bα over the lattice points that enclose the argument (one
cell, or several: H is convex). The objective is then C + A/u + Bu with B <= 0, since the Q-probabilities and their
products with y are of this form. It falls if A >= 0 and is concave if not, so that its largest value is at √(A/B), cut
off at the ends. Left of the window stands the smaller of the chord from H(0) = 1 and a moment bound (``sampled_use``),
right of it the smaller of the last value and a moment bound.

Lower side. u is one of the cuts, 1 − α stands left of the window and 0 right of it: the value of an explicit
strategy. Its slope S = −α dH/dα is carried along, and between lattice points the larger of the two neighbours' tangents
is taken (the value of a strategy is convex in α). The best cut is looked for anew after every few uses, and tells the
upper side where its pieces must be narrow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from affidavit.accountant.methods.sampled_use import SampledUse

if TYPE_CHECKING:
    from numpy import float64, int64, intp
    from numpy.typing import NDArray

    Array = NDArray[float64]

__all__ = ["OneMore", "Window", "compose"]

BLOCK = 600
"""Lattice points with one layout of pieces."""
MOST_USES_BETWEEN = 64
"""The best cut is looked for anew after this many uses, and after an eighth of those done."""
STRIDE = 8
"""Cuts that are tried everywhere: each so many."""
SPARE = 3
"""Cuts beyond the best ones of a block up to which pieces are narrow."""
WIDEST = 0.4
"""Largest product of a piece's width in nats and 1 + the slope of ln H: beyond, H is far from its chords."""
ROUNDING = 2.0**-46
"""Of one use, times 1 − 1/E, which its sums are divided by: of the chords' intercepts, which are about H/h at most."""
ON_LATTICE = 1e-11
"""An argument this near to a lattice point, in cells, is on it: ``ROUNDING`` covers the difference."""


class Window(NamedTuple):
    """Lattice points ``low[k]`` to ``high[k]``, ``spacing`` apart, for k = 0 … T uses still to come.

    ``slope`` is about −d ln δ/dε at the answer.
    """

    spacing: float
    low: NDArray[int64]
    high: NDArray[int64]
    slope: float

    @property
    def points(self) -> int:
        """Of all uses together."""
        return int((self.high - self.low + 1).sum())


class _Cuts(NamedTuple):
    """u at the cuts, and per cut: weights of the two looks, their cells relative to the point, and places inside."""

    u: Array
    weights: Array
    cells: NDArray[int64]
    inside: Array


class _Looks(NamedTuple):
    """For each piece: the lattice points, relative to the point, between which a chord stands for one argument."""

    low: NDArray[int64]
    width: NDArray[int64]
    scale: Array
    """α over the lower of the two, one row a piece."""


class _Pieces(NamedTuple):
    """Intervals of u that cover [1, E], one row each."""

    start: Array
    end: Array
    near: _Looks
    far: _Looks


@dataclass(frozen=True, slots=True, eq=False)
class _Lattice:
    """A use on a lattice."""

    use: SampledUse
    spacing: float
    cuts: _Cuts
    margin: int
    widest: float
    layouts: dict[tuple[int, int], _Pieces] = field(default_factory=dict)

    def pieces(self, first: int, last: int) -> _Pieces:
        """Narrow ones about cuts ``first`` to ``last``."""
        key = first, last
        if key not in self.layouts:
            self.layouts[key] = self._lay_out(first, last)
        return self.layouts[key]

    def _lay_out(self, first: int, last: int) -> _Pieces:
        """Beyond, a piece is half as wide as it is away, up to ``widest`` nats."""
        import numpy as np

        end = len(self.cuts.u) - 1
        low, high = max(0, first - SPARE), min(end, last + SPARE)
        at = list(range(low, high + 1))
        while at[0] > 0:
            at.insert(0, self._next(at[0], -max(1, (first - at[0]) // 2)))
        while at[-1] < end:
            at.append(self._next(at[-1], max(1, (at[-1] - last) // 2)))
        cuts = np.array(at)
        u = self.cuts.u[cuts][:, None]
        looks = []
        for cell, place in zip(self.cuts.cells[:, cuts], self.cuts.inside[:, cuts], strict=True):
            above = cell + (place > 0.0)
            low = np.minimum(cell[:-1], cell[1:])
            width = np.maximum(np.maximum(above[:-1], above[1:]) - low, 1)
            looks.append(_Looks(low, width, np.exp(-low * self.spacing)[:, None]))
        return _Pieces(u[:-1], u[1:], looks[0], looks[1])

    def _next(self, cut: int, step: int) -> int:
        """The cut ``step`` further, or so far that an argument moves by ``widest``; one at least."""
        u = self.cuts.u
        end = min(max(cut + step, 0), len(u) - 1)
        while abs(end - cut) > 1 and self._travel(cut, end) > self.widest:
            end = cut + (end - cut) // 2 if step > 0 else cut - (cut - end) // 2
        return end

    def _travel(self, one: int, other: int) -> float:
        """How far the arguments move between two cuts, in nats, the longer way."""
        cells, inside = self.cuts.cells[:, [one, other]], self.cuts.inside[:, [one, other]]
        places = cells * self.spacing + inside
        return float(abs(places[:, 1] - places[:, 0]).max())


@lru_cache(maxsize=64)
def _lattice(use: SampledUse, spacing: float, widest: float) -> _Lattice:
    import numpy as np

    top, rate = math.exp(use.eta), use.rate
    down, up = use.swing
    near = 1.0 + np.expm1(spacing * np.arange(1.0, up / spacing)) / rate
    far = top * (1.0 + np.expm1(-spacing * np.arange(1.0, down / spacing)) / rate)
    inner = np.unique(np.concatenate((near, far)))
    u = np.concatenate(([1.0], inner[(inner > 1.0) & (inner < top)], [top]))
    chance, log_near, log_far = use.pair(u)
    forward = use.direction == "forward"
    moves = np.stack((log_near, log_far)) * (-1.0 if forward else 1.0) / spacing
    rounded = np.round(moves)
    on = np.abs(moves - rounded) <= ON_LATTICE
    cells = np.where(on, rounded, np.floor(moves))
    inside = np.where(on, 0.0, moves - cells) * spacing
    weights = np.stack((chance, 1.0 - chance))
    if forward:
        weights = weights * np.exp(np.stack((log_near, log_far)))
    margin = int(max(down, up) / spacing) + 3
    return _Lattice(use, spacing, _Cuts(u, weights, cells.astype(np.int64), inside), margin, widest)


def compose(use: SampledUse, window: Window) -> tuple[Array, Array, Array, Array]:
    """ln α at the last lattice points, the upper side there, and the lower side's values and slopes."""
    import numpy as np

    lattice, h, tail = _lattice(use, window.spacing, WIDEST / (1.0 + window.slope)), window.spacing, use.tail()
    x = np.arange(window.low[0], window.high[0] + 1) * h
    upper = -np.expm1(np.minimum(x, 0.0))
    lines = np.stack((upper, np.where(x < 0.0, np.exp(np.minimum(x, 0.0)), 0.0)))
    choice, chosen = np.zeros(0, dtype=np.int64), 0
    for k in range(1, len(window.low)):
        before, low = int(window.low[k - 1]), int(window.low[k])
        points = int(window.high[k]) - low + 1
        old = _extended(lines, before, low - lattice.margin, points + 2 * lattice.margin, h)
        if k - chosen >= min(MOST_USES_BETWEEN, max(1, k // 8)):
            looked, looked_low, chosen = _best(lattice, old, points), low, k
        # The best t depends on x and k about by x/k.
        same = ((np.arange(low, low + points) * (chosen / k)).astype(np.int64) - looked_low).clip(0, len(looked) - 1)
        choice = looked[same]
        lines = _strategy(lattice, old, choice)
        ends = (tail.at(k - 1, at * h) for at in (before, before + len(upper)))
        ext = _covered(upper, before, low - lattice.margin, points + 2 * lattice.margin, h, *ends)
        upper = _bounded(lattice, ext, choice)
    return np.arange(window.low[-1], window.high[-1] + 1) * h, upper, lines[0], lines[1]


class OneMore:
    """One use more of a function known on a lattice, from above."""

    def __init__(self, use: SampledUse, spacing: float, *, slope: float) -> None:
        self._lattice = _lattice(use, spacing, WIDEST / (1.0 + slope))
        self.spacing = spacing
        self.last = len(self._lattice.cuts.u) - 1
        """The last cut."""
        self.margin = self._lattice.margin
        """Points further than the last that is asked for at which the function must be known."""
        self.rounding = ROUNDING * min(1.0 / spacing, 1.0 + slope) / -math.expm1(-use.eta)

    def upper(self, lines: Array) -> Array:
        """The upper side at each point but ``margin`` at either end, from values and slopes; rounding included."""
        return _bounded(self._lattice, lines[0], _best(self._lattice, lines, lines.shape[1] - 2 * self.margin))

    def best(self, lines: Array, point: int) -> int:
        """The best cut at one point, counted without the margin."""
        import numpy as np

        cuts = self._lattice.cuts
        every, at = np.arange(len(cuts.u)), np.full(len(cuts.u), point + self.margin)
        looks = (weights * _look(self._lattice, lines, side, at, every)[0] for side, weights in enumerate(cuts.weights))
        return int(np.argmax(sum(looks)))

    def nearest(self, u: float) -> int:
        """The cut nearest to a value of u."""
        import numpy as np

        return int(np.argmin(np.abs(self._lattice.cuts.u - u)))

    def law(self, cut: int) -> tuple[int, Array]:
        """First place and P-masses of the losses at one cut; those between two places go to both, means kept."""
        import numpy as np

        cuts, h = self._lattice.cuts, self._lattice.spacing
        places = -cuts.cells[:, cut]
        share = np.expm1(cuts.inside[:, cut]) / math.expm1(h)
        first, weights = min(int(places.min()) - 1, 0), cuts.weights[:, cut] * self._lattice.use.taken
        masses = np.zeros(max(int(places.max()), 0) - first + 1)
        masses[-first] = 1.0 - self._lattice.use.taken
        np.add.at(masses, places - first, weights * (1.0 - share))
        np.add.at(masses, places - first - 1, weights * share)
        return first, masses


def _extended(lines: Array, before: int, low: int, length: int, h: float) -> Array:
    """The lower side's values and slopes on a window of ``length`` points from ``low``: releasing nothing outside."""
    import numpy as np

    x = np.arange(low, low + length) * h
    left = np.exp(np.minimum(x, 0.0))
    result = np.where((np.arange(low, low + length) < before) & (x < 0.0), np.stack((1.0 - left, left)), 0.0)
    first, last = max(low, before), min(low + length, before + lines.shape[1])
    if last > first:
        result[:, first - low : last - low] = lines[:, first - before : last - before]
    return result


def _covered(
    values: Array, before: int, low: int, length: int, h: float, left: tuple[float, float], right: tuple[float, float]
) -> Array:
    """The upper side on a window of ``length`` points from ``low``; (c, λ) of a moment bound at either end."""
    import numpy as np

    x = np.arange(low, low + length)
    first, last = min(max(before - low, 0), length), min(max(before + len(values) - low, 0), length)
    result = np.empty(length)
    result[first:last] = values[low + first - before : low + last - before]
    chord = 1.0 + (values[0] - 1.0) * np.exp((x[:first] - before) * h)
    result[:first] = np.minimum(chord, np.exp(np.minimum(left[0] - left[1] * h * x[:first], 0.0)))
    result[last:] = np.minimum(values[-1], np.exp(np.minimum(right[0] - right[1] * h * x[last:], 0.0)))
    return result


def _look(
    lattice: _Lattice, old: Array, side: int, at: NDArray[intp], cut: NDArray[int64] | int
) -> tuple[Array, Array]:
    """Value and slope of the larger tangent at one argument of the points ``at``, at cut(s) ``cut``."""
    import numpy as np

    h = lattice.spacing
    index = at + lattice.cuts.cells[side][cut]
    place = lattice.cuts.inside[side][cut]
    left, left_slope = old[0][index], old[1][index]
    right, right_slope = old[0][index + 1], old[1][index + 1]
    one, other = left - left_slope * np.expm1(place), right - right_slope * np.expm1(place - h)
    nearer = one >= other
    slope = np.where(nearer, left_slope * np.exp(place), right_slope * np.exp(place - h))
    return np.where(nearer, one, other), slope


def _best(lattice: _Lattice, old: Array, points: int) -> NDArray[int64]:
    """A good cut at each point: the best of every ``STRIDE``-th one, then of its neighbours."""
    import numpy as np

    at = np.arange(lattice.margin, lattice.margin + points)
    last = len(lattice.cuts.u) - 1
    best, value = np.zeros(points, dtype=np.int64), np.full(points, -1.0)

    def offer(cut: NDArray[int64] | int) -> None:
        here = sum(
            weights[cut] * _look(lattice, old, side, at, cut)[0] for side, weights in enumerate(lattice.cuts.weights)
        )
        np.copyto(best, cut, where=here > value)
        np.maximum(value, here, out=value)

    for cut in range(0, last + 1, STRIDE):
        offer(cut)
    step = STRIDE // 2
    while step:
        middle = best.copy()
        offer(np.maximum(middle - step, 0))
        offer(np.minimum(middle + step, last))
        step //= 2
    return best


def _strategy(lattice: _Lattice, old: Array, choice: NDArray[int64]) -> Array:
    """Value and slope of one more use at the chosen cuts."""
    import numpy as np

    at = np.arange(lattice.margin, lattice.margin + len(choice))
    result = np.zeros((2, len(choice)))
    for side, weights in enumerate(lattice.cuts.weights):
        value, slope = _look(lattice, old, side, at, choice)
        result[0] += weights[choice] * value
        result[1] += weights[choice] * slope
    return result


def _bounded(lattice: _Lattice, ext: Array, choice: NDArray[int64]) -> Array:
    """The upper side of one more use."""
    import numpy as np

    points = len(choice)
    result = np.empty(points)
    blocks = max(1, round(points / BLOCK))
    edges = [points * i // blocks for i in range(blocks + 1)]
    layouts = [lattice.pieces(int(choice[a:b].min()), int(choice[a:b].max())) for a, b in pairwise(edges)]
    chords = _Chords.of(ext, lattice.spacing, max(int(look.width.max()) for part in layouts for look in part[2:]))
    for (start, end), pieces in zip(pairwise(edges), layouts, strict=True):
        looks = [chords.at(look, start + lattice.margin, end - start) for look in (pieces.near, pieces.far)]
        result[start:end] = _largest(lattice.use, pieces, *looks).max(axis=0)
    # Ten products of intercepts and slopes, all below twice the intercepts to the right, and arguments beside cells.
    h, most = lattice.spacing, np.maximum.accumulate(chords.intercept[1, ::-1])[::-1][:points]
    slack = np.minimum(ext[:points] / h, most * (1.0 + ON_LATTICE / ROUNDING * h))
    return np.minimum(result + slack * (ROUNDING / -math.expm1(-lattice.use.eta)), 1.0)


class _Chords(NamedTuple):
    """H <= intercept + slope α/α_i right of each lattice point α_i, one row a width of the chord."""

    intercept: Array
    slope: Array

    @classmethod
    def of(cls, ext: Array, spacing: float, widest: int) -> _Chords:
        import numpy as np

        intercept, slope = np.zeros((widest + 1, len(ext))), np.zeros((widest + 1, len(ext)))
        for width in range(1, widest + 1):
            fall = (ext[:-width] - ext[width:]) / math.expm1(width * spacing)
            intercept[width, :-width] = ext[:-width] + fall
            slope[width, :-width] = -fall
        return cls(intercept, slope)

    def at(self, look: _Looks, start: int, points: int) -> tuple[Array, Array]:
        """Intercepts and slopes, the latter a unit of α, of ``points`` points from ``start``: one row a piece."""
        from numpy.lib.stride_tricks import sliding_window_view

        rows = look.width * self.slope.shape[1] + (start + look.low)
        intercept, slope = (sliding_window_view(part.ravel(), points)[rows] for part in self)
        slope *= look.scale
        return intercept, slope


def _largest(use: SampledUse, pieces: _Pieces, near: tuple[Array, Array], far: tuple[Array, Array]) -> Array:
    """The largest C + A/u + Bu on each piece."""
    import numpy as np

    forward = use.direction == "forward"
    (p1, r1), (p2, r2) = (look if forward else look[::-1] for look in (near, far))
    q, bottom = use.rate, math.exp(-use.eta)
    gap = p1 - p2
    inverse = (1.0 - q) * gap + r1 - r2
    linear = -q * bottom * gap
    constant = (q - (1.0 - q) * bottom) * p1 - bottom * r1 + (1.0 - q - q * bottom) * p2 + r2
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # cut off at once
        at = np.sqrt(np.maximum(inverse / np.minimum(linear, -1e-300), 0.0))
    np.clip(at, pieces.start, pieces.end, out=at)
    linear *= at
    inverse /= at
    constant += linear
    constant += inverse
    constant /= -math.expm1(-use.eta)
    return constant
