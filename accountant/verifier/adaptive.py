"""Exact adaptive composition of bounded-range (exponential) mechanisms, from both sides.

Theorem (Dong, Durfee, Rogers 2020, Lemma 3.3 and Section 5; docs/theory/exponential.md). The worst single use
of a mechanism of bounded range η has, for some t in [0, η], two losses: t with P-mass p_t = (E - u)/(E - 1) and t - η
with the rest, where u = e^t and E = e^η. An adversary who picks t before each step, knowing what came
before, makes the hockey-stick H_k(α) after k steps obey
    H_0(α) = max(0, 1 - α),   H_k(α) = max over t of p_t H_{k-1}(α e^{-t}) + (1 - p_t) H_{k-1}(α e^{η-t}),
and δ(ε) = H_T(e^ε). One step in closed form: H_1(α) = (√E - √α)²/(E - 1) for 1 <= α <= E, with t = (log α + η)/2;
the recursion starts there. Attained: two tokens and suitable logits realise any t. Unequal ranges: the
operator of the *last* step in time is applied first. The family is closed under exchanging P and Q,
so H_k(α) = 1 - α + α H_k(1/α), and only α >= 1 is stored, on the lattice α_i = e^{ih}.

Upper side. H_k is convex in α, so its chords lie above it: a function that is at least H_k on the
lattice is, chord by chord, at least H_k everywhere. Cut [0, η] where α e^{-t} or α e^{η-t} crosses the
lattice. On such a piece put s = e^{t - t_0} in [1, r]; both chords are straight in 1/s, so the objective is
    F(s) = F(1) + a (1 - 1/s) - b (s - 1)
for numbers a, b. With g = F(r) - F(1) and β = b (r - 1)², its largest value is at an end, or, if
-β < r g and g < β, it is F(1) + (√a - √b)², and (√a - √b)² <= (a - b)²/(4b) = (r g + β)²/(4β). Cutting g off
at β and r g + β at 0 only enlarges that outside the two conditions, so it needs no case distinction. With
z = H(α e^{-t}) - H(α e^{η-t}) at the ends, β = r (r - 1) e^{t_0} (z_1 - z_0/r)/(E - 1). The largest value over all
pieces is the new H_k(α). Beyond the last lattice point H is at most its value there.

Lower side. Any fixed choice of the t's and of a set S of outcomes gives H >= P(S) - α Q(S) for *all* α.
Each lattice point carries one such line (A = P(S), W = α_i Q(S)); a step combines two of them with the
weights p_t and 1 - p_t, t on a breakpoint. Choices are taken where the upper side
found its maximum; a bad one costs width, never validity. Beyond the lattice: the line 0.

Rounding. Weights are float64 enclosures, rounded outwards, of balls. F(1) and F(r) are sums of
products of non-negative floats: a relative 2^-50 covers their error. The bonus (r g + β)²/(4β) changes by at most
r (r + 1)/2 times an error of g, itself at most 4 H 2^-53, and by at most (r + 1)² times one of β, at most
4 r (r - 1) E/(E - 1) H 2^-53, where H is its value at α e^{-η}, the largest met; as r <= 1.2 (h <= 1/8) both
together stay below 2^-48 (1 + (r - 1) E/(E - 1)) H, which is added. So is 1e-300, for underflow. The lower side
moves A down and W up by a relative 2^-50 a step. NumPy's exp and expm1, used off the lattice only, are trusted
to a relative 2^-40; they are good to 2^-51.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from affidavit.accountant.verifier.balls import Array, Ball, ball, down, down_array, precision, up, up_array
from affidavit.accountant.verifier.branches import Steps

__all__ = [
    "AdaptiveCurve",
    "Lines",
    "Start",
    "adaptive_curve",
    "cost_in_seconds",
    "lattice_points",
    "one_step",
    "spacing",
]

STEP = 2.0**-50
SLACK = 2.0**-48
LIBM = 2.0**-40
FLOOR = 1e-300
MOST_PARTS = 2_000
"""Lattice points to a range beyond which none is looked for that suits the other ranges."""
BLOCK, COARSE = 512, 8
"""Lattice points looked at together; breakpoints to a coarse piece."""
SECONDS_PER_CELL = 1.8e-8
"""Measured on one core: time of one (lattice point, piece, step)."""


class Lines(NamedTuple):
    """One line A - W α/α_i below the curve for each lattice point: ``inside`` (A) and ``weight`` (W)."""

    inside: Array
    weight: Array


@dataclass(frozen=True, slots=True)
class Start:
    """The curve that the recursion starts from, on ``lattice_points`` points, when it is not H_0.

    It stands for mechanisms that run after every step; ``upper`` bounds it from above.
    """

    upper: Array
    lines: Lines


@dataclass(frozen=True, slots=True)
class AdaptiveCurve:
    """Two-sided H(e^x) at any x; lattice point i is x = i * spacing, i = 0 ... len - 1."""

    spacing: float
    upper_values: Array
    lines: Lines

    @property
    def top(self) -> float:
        """The last lattice point (rounded)."""
        return self.spacing * (len(self.upper_values) - 1)

    def upper(self, x: Array) -> Array:
        """At least H(e^x); x of any sign."""
        far = np.abs(x)
        last = len(self.upper_values) - 1
        # Rounded down, so that x is at or to the right of its cell's left end.
        position = np.minimum(far / self.spacing * (1 - STEP), float(last))
        cell = np.minimum(position.astype(np.int64), last - 1)
        inside = np.minimum(far, self.top) - cell * self.spacing
        share = np.expm1(-inside) / math.expm1(-self.spacing) * np.exp(np.minimum(inside - self.spacing, 0.0))
        share = np.clip(share, 0.0, 1.0)
        left, right = self.upper_values[cell], self.upper_values[cell + 1]
        # x is known to 3 x 2^-53 relative, so the share to STEP (cell + 2)(1 + spacing).
        value = left - share * (left - right) + left * (LIBM + STEP * (1 + self.spacing) * (cell + 2))
        mirrored = (np.exp(-far) * value - np.expm1(-far)) * (1 + LIBM)
        raised: Array = np.where(x >= 0, value, mirrored) * (1 + STEP) + FLOOR
        return raised

    def lower(self, x: Array) -> Array:
        """At most H(e^x), by the better of the lines of the two nearest lattice points."""
        far = np.abs(x)
        last = len(self.lines.inside) - 1
        cell = np.minimum(far / self.spacing, float(last)).astype(np.int64)
        best = np.zeros_like(far)
        for index in (cell, np.minimum(cell + 1, last)):
            offset = far - index * self.spacing + STEP * far
            lost = self.lines.weight[index] * np.exp(np.minimum(offset, 700.0)) * (1 + LIBM)
            best = np.maximum(best, np.where(offset < 700.0, self.lines.inside[index] - lost, 0.0))
        best = np.maximum(best * (1 - STEP) - FLOOR, 0.0)
        mirrored = (np.exp(-far) * best - np.expm1(-far)) * (1 - LIBM)
        return np.where(x >= 0, best, np.maximum(mirrored, 0.0))


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Constants of the pieces between some breakpoints of t; the last four arrays are columns, one row a piece."""

    chance: Array
    other: Array
    ratio: Array
    bend_end: Array
    bend_start: Array

    def between(self, first: int, last: int) -> _Pieces:
        """Those between breakpoints ``first`` and ``last``."""
        points, gaps = slice(first, last + 1), slice(first, last)
        return _Pieces(
            self.chance[points], self.other[points], self.ratio[gaps], self.bend_end[gaps], self.bend_start[gaps]
        )


@dataclass(frozen=True, slots=True)
class _Step:
    """One range on one lattice.

    With range = (cells + θ) h, the breakpoints of t are jh (α e^{-t} on the lattice) and, if θ > 0,
    (j + θ) h (α e^{η-t} on it), in rising order. ``rows`` are the few of them that end the coarse pieces.
    ``plus`` and ``minus`` interpolate θh right and left of a point. The lower side's weights are exact
    enclosures too: ``chance_down`` and ``other_down`` from below.
    """

    cells: int
    split: bool
    nearer_next: bool
    fine: _Pieces
    rows: NDArray[np.intp]
    coarse: _Pieces
    chance_down: Array
    other_down: Array
    slack: float
    plus: float
    minus: float
    drift_plus: float
    drift_minus: float


def spacing(steps: Steps, cells: int) -> Fraction:
    """A lattice spacing that divides the most used range, about ``cells`` points to the largest.

    Of the spacings somewhat finer than needed, the one that all ranges are nearest to being multiples of.
    """
    uses: dict[Fraction, int] = {}
    for spread, count in steps:
        uses[spread] = uses.get(spread, 0) + count
    wanted = min(max(uses) / cells, min(uses) / 8, Fraction(1, 8))
    common = max(uses, key=lambda spread: uses[spread])

    def misfit(parts: int) -> float:
        return max(abs((turns := float(spread * parts / common)) - round(turns)) for spread in uses)

    fewest = math.ceil(common / wanted)
    if fewest > MOST_PARTS:
        return common / fewest
    choices = range(fewest, fewest + (fewest // 2 if len(uses) > 1 else 0) + 1)
    return common / min(choices, key=lambda parts: (round(misfit(parts), 6), parts))


def cost_in_seconds(steps: Steps, step: Fraction, top: float) -> float:
    """The recursion's predicted time."""
    points = top / float(step)
    return SECONDS_PER_CELL * sum(count * (points + float(r / step)) * float(r / step) for r, count in steps)


def _pieces(times: Sequence[Ball], eta: Ball) -> _Pieces:
    rise = eta.expm1()
    others = [t.expm1() / rise for t in times]
    others[0], others[-1] = ball(0), ball(1)
    ratios = [(after - before).exp() for before, after in pairwise(times)]
    bends = [(r - 1) * t.exp() / rise for r, t in zip(ratios, times[:-1], strict=True)]
    return _Pieces(
        chance=up_array([1 - w for w in others])[:, None],
        other=up_array(others)[:, None],
        ratio=up_array(ratios)[:, None],
        bend_end=up_array([bend * r for bend, r in zip(bends, ratios, strict=True)])[:, None],
        bend_start=up_array(bends)[:, None],
    )


def _prepare(spread: Fraction, step: Fraction) -> _Step:
    cells = math.floor(spread / step)
    offset = spread - cells * step
    h, eta, theta = ball(step), ball(spread), ball(offset)
    split = offset != 0
    starts = [ball(j * step) for j in range(cells + 1)]
    times = [t for start in starts for t in (start, start + theta)] if split else starts
    rows = np.unique([*range(0, len(times), COARSE), len(times) - 1])
    nearer_next = 2 * offset >= step
    fine = _pieces(times, eta)
    rise, grid_rise = eta.expm1(), h.expm1()
    return _Step(
        cells=cells,
        split=split,
        nearer_next=nearer_next,
        fine=fine,
        rows=rows,
        coarse=_pieces([times[row] for row in rows], eta),
        chance_down=np.maximum(down_array([1 - t.expm1() / rise for t in times]), 0.0),
        other_down=np.maximum(down_array([t.expm1() / rise for t in times]), 0.0),
        slack=SLACK * up(1 + grid_rise / (1 - (-eta).exp())),
        plus=max(0.0, down(theta.expm1() / grid_rise)),
        minus=max(0.0, down((h - theta).expm1() / grid_rise)),
        drift_plus=up((theta - h if nearer_next else theta).exp()),
        drift_minus=up((h - theta if nearer_next else -theta).exp()),
    )


def _extended(right: Array, left: Array, margin: int, beyond: float) -> Array:
    """Values on lattice points -margin .. last + margin."""
    return np.concatenate([left[margin:0:-1], right, np.full(margin, beyond)])


def _rows(extended: Array, width: int, margin: int, step: _Step) -> tuple[Array, Array]:
    """H at α e^{-t} and at α e^{η-t}, one row a breakpoint; rows are views where possible."""
    windows = sliding_window_view(extended, width)
    near = windows[margin - step.cells : margin + 1][::-1]
    far = windows[margin : margin + step.cells + 1][::-1]
    if not step.split:
        return near, far
    ends, starts = extended[1:], extended[:-1]
    above = starts * (1 + STEP)
    moved = above - step.plus * (starts - ends)  # H at lattice point + θh
    behind = above - step.minus * (starts - ends)  # H at the next lattice point - θh
    shifted = sliding_window_view(moved, width)[margin : margin + step.cells + 1][::-1]
    backed = sliding_window_view(behind, width)[margin - 1 - step.cells : margin][::-1]
    shape = (2 * (step.cells + 1), width)
    return (
        np.stack([near, backed], axis=1).reshape(shape),
        np.stack([shifted, far], axis=1).reshape(shape),
    )


def _bounds(near: Array, far: Array, pieces: _Pieces) -> tuple[Array, Array]:
    """The objective at the breakpoints, and a bound on it over each piece (its right end excepted)."""
    values = pieces.chance * near
    values += pieces.other * far
    between = near - far
    beta = pieces.bend_end * between[1:]
    beta -= pieces.bend_start * between[:-1]
    np.maximum(beta, FLOOR, out=beta)
    swing = np.minimum(values[1:] - values[:-1], beta)
    swing *= pieces.ratio
    swing += beta
    np.maximum(swing, 0.0, out=swing)
    bounds = np.divide(swing, beta, out=beta)
    bounds *= swing
    bounds *= 0.25
    bounds += values[:-1]
    return values, bounds


def _raised(near: Array, far: Array, step: _Step) -> tuple[Array, NDArray[np.intp]]:
    """The upper side after one step, and the best breakpoint, at every lattice point.

    Coarse pieces first: their chords lie above H as well, so a piece whose bound stays below a value that is
    reached cannot hold the maximum. Only the rest is looked at finely, block by block.
    """
    width = near.shape[1]
    values, bounds = _bounds(near[step.rows], far[step.rows], step.coarse)
    open_pieces = bounds * (1 + LIBM) + near[-1] * LIBM > values.max(axis=0)
    peak, best = np.empty(width), np.empty(width, dtype=np.intp)
    for i in range(0, width, BLOCK):
        block = slice(i, i + BLOCK)
        kept = np.flatnonzero(open_pieces[:, block].any(axis=1))
        first, last = int(step.rows[kept[0]]), int(step.rows[kept[-1] + 1])
        rows = slice(first, last + 1)
        values, bounds = _bounds(near[rows, block], far[rows, block], step.fine.between(first, last))
        peak[block] = np.maximum(bounds.max(axis=0), values[-1])
        best[block] = values.argmax(axis=0) + first
    return (peak + step.slack * near[-1]) * (1 + STEP) + FLOOR, best


def lattice_points(steps: Steps, step: Fraction, top: float) -> int:
    """How many lattice points cover 0 .. top and leave room for one step of any range."""
    return max(math.ceil(top / float(step)), 2 + max(math.floor(spread / step) for spread, _ in steps)) + 1


def adaptive_curve(
    steps: Steps, step: Fraction, top: float, *, negligible: float = 0.0, start: Start | None = None
) -> AdaptiveCurve:
    """The recursion over ``steps`` (in time order) on lattice points 0 .. top.

    ``negligible``: where the upper side falls below this value, the lattice is cut for the step:
    the curve is continued by its value there (above) and by 0 (below). ``start``: what runs after
    all the steps; its pair must be symmetric (as Gaussians and two-point pairs are).
    """
    points = lattice_points(steps, step, top)
    with precision():
        prepared = {spread: _prepare(spread, step) for spread, _ in steps}
        shrink = [ball(-i * step).exp() for i in range(points)]
        fall, rise = up_array(shrink), up_array([1 - value for value in shrink])
    margin = 2 + max(one.cells for one in prepared.values())
    if start is None:
        start, steps = _after_one_step(steps[-1][0], step, points), _without_last(steps)
    upper, lines = start.upper, start.lines
    for spread, count in reversed(steps):
        one = prepared[spread]
        for _ in range(count):
            # Beyond this width every value, old or new, is negligible.
            width = min(points, int(np.count_nonzero(upper > negligible)) + margin)
            mirrored = (rise + fall * upper) * (1 + STEP)
            extended = np.minimum(_extended(upper[:width], mirrored, margin, float(upper[width - 1])), 1.0)
            near, far = _rows(extended, width, margin, one)
            values, best = _raised(near, far, one)
            raised = np.minimum(np.minimum.accumulate(values), 1.0)
            upper = np.concatenate([raised, np.full(points - width, raised[-1])])
            lines = _lowered(_widened(lines, fall, margin), best, margin, one, points)
    return AdaptiveCurve(float(step), upper, lines)


def _without_last(steps: Steps) -> Steps:
    spread, count = steps[-1]
    return (*steps[:-1], (spread, count - 1)) if count > 1 else steps[:-1]


def one_step(spread: Fraction, epsilon: Ball) -> Ball:
    """H_1(e^ε) in closed form, ε >= 0."""
    gap = ((ball(spread) - epsilon) / 2).expm1().nonnegative_part()
    return epsilon.exp() * gap * gap / ball(spread).expm1()


def _after_one_step(spread: Fraction, step: Fraction, points: int) -> Start:
    """H_1 on the lattice: its values, and the lines of its best t."""
    upper, inside, weight = np.full(points, FLOOR), np.zeros(points), np.zeros(points)
    with precision():
        eta, rise = ball(spread), ball(spread).expm1()
        for i in range(min(points, math.ceil(spread / step))):
            x = ball(i * step)
            u = ((x + eta) / 2).exp()
            chance = (eta.exp() - u) / rise
            upper[i], inside[i], weight[i] = up(one_step(spread, x)), down(chance), up(chance * x.exp() / u)
    return Start(np.minimum(upper, 1.0), Lines(np.maximum(inside, 0.0), weight))


def _widened(lines: Lines, fall: Array, margin: int) -> Lines:
    """The lines of lattice points -margin .. last + margin: mirrored on the left, 0 on the right."""
    inside = (1 - lines.weight * fall * (1 + STEP)) * (1 - STEP)
    weight = (1 - lines.inside) * fall * (1 + STEP)
    return Lines(_extended(lines.inside, inside, margin, 0.0), _extended(lines.weight, weight, margin, 0.0))


def _lowered(lines: Lines, best: NDArray[np.intp], margin: int, one: _Step, points: int) -> Lines:
    """The lines after one step, t at the given breakpoints; 0 beyond the points they are given for."""
    whole, part = (best // 2, best % 2) if one.split else (best, np.zeros_like(best))
    backed = part == 1
    shifted = (part == 0) & one.split
    first = np.arange(len(best)) - whole + margin - (backed & one.nearer_next)
    second = np.arange(len(best)) - whole + margin + one.cells + (shifted & one.nearer_next)
    inside = one.chance_down[best] * lines.inside[first] + one.other_down[best] * lines.inside[second]
    weight = one.fine.chance[best, 0] * lines.weight[first] * np.where(backed, one.drift_minus, 1.0)
    weight += one.fine.other[best, 0] * lines.weight[second] * np.where(shifted, one.drift_plus, 1.0)
    padding = np.zeros(points - len(best))
    return Lines(
        np.concatenate([np.maximum(inside * (1 - STEP), 0.0), padding]),
        np.concatenate([weight * (1 + STEP) + FLOOR, padding]),
    )
