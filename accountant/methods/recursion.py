"""The adaptive recursion for exponential mechanisms, on a logarithmic grid, from both sides.

Setting (Dong, Durfee and Rogers 2020; Lemma 1 of Dwork and Rothblum's hockey-stick form): one use
of bounded range η is dominated by a two-point mechanism with losses t and t − η for some t in
[0, η]: with u = e^t and E = e^η, P(loss = t) = p = (E − u)/(E − 1). The adversary picks t at each
step. With α = e^ε and H_k(α) the largest δ that the last k uses can reach,

    H_0(α) = (1 − α)₊,     H_k(α) = max over t of  p H_{k−1}(α/u) + (1 − p) H_{k−1}(α E/u),

and δ(ε) = H_T(e^ε). It is attained: two tokens and suitable logits realise any t. Each H_k is
convex and decreasing in α with H_k(0) = 1 and H_k(α) >= 1 − α.

Upper side. H_{k−1} is replaced by its chords between grid points x_i = ln α_i (spacing h = η/m),
by the chord from (0, 1) left of the grid, and by its last value right of it: all lie above. For t
in one grid cell both arguments stay in one cell each, at the same relative place
w = (e^{(j+1)h}/u − 1)/(e^h − 1), and the value is p(u) × linear + (1 − p(u)) × linear =
c₀ − c₁ u − c₂/u, concave in u with its maximum at u² = c₂/c₁, clipped to the cell. So the maximum
over *all* t is taken in closed form. The sum is evaluated in the positive form, without
cancellation; u only needs to be near the maximum, where the value is flat.

Lower side. t is restricted to the grid, the grid is evaluated exactly, 1 − α is taken left of it
and 0 right of it: the value of an explicit strategy. Its slope is carried along: S = −α dH/dα obeys
the same recursion, so between grid points the tangents lie below (a strategy's δ is convex in α).

Unequal ranges: each is rounded to a multiple of h, up for the upper and down for the lower side
(a mechanism of range η is one of range η′ >= η).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from affidavit.accountant.methods.discrete import DiscreteProfile

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

__all__ = ["Last", "Window", "lower_profile", "upper_profile"]


class Window(NamedTuple):
    """The final grid: spacing and ends in nats, ``left`` < 0 < ``right``. Truncation is charged."""

    spacing: float
    left: float
    right: float


class Last(Protocol):
    """What runs after all exponential steps (H_0), as in ``fixed.FixedProfile``."""

    def upper(self, epsilon: Array) -> Array:
        """At or above δ."""
        ...

    def lower(self, epsilon: Array) -> Array:
        """At or below δ."""
        ...

    def lower_slope(self, epsilon: Array) -> Array:
        """−dδ/dε of the lower side."""
        ...


def upper_profile(runs: Sequence[tuple[float, int]], window: Window, *, last: Last | None = None) -> DiscreteProfile:
    """Profile above the adaptive composition of ``runs`` = (range, uses) in order, then ``last``."""
    import numpy as np

    spacing = window.spacing
    low, values = 0, np.zeros(1)
    for stage in _stages(runs, window, round_up=True, bounded=last is None):
        low, (values,) = _fit(stage, low, spacing, (values,), (_above,))
        if stage.first and last is not None:
            values = last.upper(_points(low, values, spacing))
        step = _UpperStep(len(values), stage.cells, spacing)
        for _ in range(stage.uses):
            values = step(values)
    return _chord_profile(_points(low, values, spacing), values)


def lower_profile(runs: Sequence[tuple[float, int]], window: Window, *, last: Last | None = None) -> DiscreteProfile:
    """Profile of an explicit strategy for ``runs`` then ``last``; below the adaptive composition."""
    import numpy as np

    spacing = window.spacing
    low, values, slopes = 0, np.zeros(1), np.zeros(1)
    for stage in _stages(runs, window, round_up=False, bounded=last is None):
        low, (values, slopes) = _fit(stage, low, spacing, (values, slopes), (_below, _below_slope))
        x = _points(low, values, spacing)
        if stage.first and last is not None:
            values, slopes = last.lower(x), last.lower_slope(x)
        if stage.cells > 1:
            step = _LowerStep(x, stage.cells, spacing)
            for _ in range(stage.uses):
                values, slopes = step(values, slopes)
    return _tangent_profile(_points(low, values, spacing), values, slopes)


def _points(low: int, values: Array, spacing: float) -> Array:
    import numpy as np

    points: Array = np.arange(low, low + len(values), dtype=np.float64) * spacing
    return points


class _Stage(NamedTuple):
    """Consecutive uses of one range (``cells`` spacings) on the grid points ``low`` to ``high``."""

    first: bool
    uses: int
    cells: int
    low: int
    high: int


def _stages(runs: Sequence[tuple[float, int]], window: Window, *, round_up: bool, bounded: bool) -> Iterator[_Stage]:
    """The uses from the last to the first, grouped so that grids grow with what the uses reach."""
    spacing = window.spacing
    done, reach = 0, 0.0
    for eta, uses in reversed(runs):
        exact = eta / spacing
        cells = max(1, math.ceil(exact * (1.0 - 1e-12))) if round_up else math.floor(exact * (1.0 + 1e-12))
        left_over = uses
        while left_over:
            now = min(left_over, max(4, done))
            reach += now * cells * spacing
            left, right = window.left, window.right
            if bounded:
                left, right = max(left, -reach - spacing), min(right, reach + spacing)
            yield _Stage(done == 0, now, cells, math.floor(left / spacing), math.ceil(right / spacing))
            done += now
            left_over -= now


Extension = Callable[["Array", "tuple[float, Array]", "Array"], "tuple[Array, Array]"]
"""(points left of the grid, (first point, values on it), points right) -> values left and right."""


def _above(left: Array, known: tuple[float, Array], right: Array) -> tuple[Array, Array]:
    """The chord from (0, 1) on the left, the last value on the right: above every profile."""
    import numpy as np

    start, values = known
    return 1.0 + (values[0] - 1.0) * np.exp(left - start), np.full(len(right), values[-1])


def _below(left: Array, known: tuple[float, Array], right: Array) -> tuple[Array, Array]:
    """1 − α on the left, 0 on the right: below every profile."""
    import numpy as np

    del known
    return -np.expm1(left), np.zeros(len(right))


def _below_slope(left: Array, known: tuple[float, Array], right: Array) -> tuple[Array, Array]:
    """−α d/dα of ``_below``."""
    import numpy as np

    del known
    return np.exp(left), np.zeros(len(right))


def _fit(
    stage: _Stage, low: int, spacing: float, arrays: tuple[Array, ...], extensions: tuple[Extension, ...]
) -> tuple[int, tuple[Array, ...]]:
    """Widen grid functions, whose first point is number ``low``, to the stage's grid."""
    import numpy as np

    high = low + len(arrays[0]) - 1
    left: Array = np.arange(min(stage.low, low), low, dtype=np.float64) * spacing
    right: Array = np.arange(high + 1, max(stage.high, high) + 1, dtype=np.float64) * spacing
    widened = []
    for array, extend in zip(arrays, extensions, strict=True):
        before, after = extend(left, (low * spacing, array), right)
        widened.append(np.concatenate((before, array, after)))
    return low - len(left), tuple(widened)


class _UpperStep:
    """One use on the upper side; buffers are kept between uses."""

    def __init__(self, points: int, cells: int, spacing: float) -> None:
        import numpy as np

        self.points, self.cells, self.spacing = points, cells, spacing
        self.pad = cells + 1
        eta = cells * spacing
        self.left_scale = np.exp(-spacing * np.arange(self.pad, 0, -1))
        self.inverse = 1.0 / math.expm1(spacing)
        self.ends = [math.exp(j * spacing) for j in range(cells + 1)]
        self.top = math.exp(eta)
        self.root = math.exp(eta / 2.0)
        self.span = math.expm1(eta)
        self.extended = np.empty(points + 2 * self.pad)
        self.buffers = [np.empty(points) for _ in range(4)]

    def __call__(self, values: Array) -> Array:
        import numpy as np

        n, m, pad = self.points, self.cells, self.pad
        ext = self.extended
        ext[:pad] = 1.0 + (values[0] - 1.0) * self.left_scale
        ext[pad : pad + n] = values
        ext[pad + n :] = values[-1]
        rise = np.diff(ext)  # <= 0; rise[c] belongs to the cell [c, c + 1]
        slope = rise * self.inverse
        intercept = ext[:-1] - slope
        best = np.zeros(n)
        u, near, far, weight = self.buffers
        for j in range(m):
            one = pad - j - 1
            two = one + m
            a, b = slice(one, one + n), slice(two, two + n)
            # u² = c₂/c₁ with c₂ = slope₂ α − slope₁ α and c₁ = (intercept₁ − intercept₂)/E
            np.multiply(slope[b], self.ends[j + 1] / self.top, out=u)
            u -= slope[a] * self.ends[j + 1]
            np.subtract(intercept[a], intercept[b], out=near)
            np.maximum(near, 1e-200, out=near)
            np.maximum(u, 0.0, out=u)
            u /= near
            np.sqrt(u, out=u)
            u *= self.root
            np.clip(u, self.ends[j], self.ends[j + 1], out=u)
            np.divide(self.ends[j + 1], u, out=weight)
            weight -= 1.0
            weight *= self.inverse
            np.multiply(rise[a], weight, out=near)
            near += ext[a]
            np.multiply(rise[b], weight, out=far)
            far += ext[b]
            near -= far
            np.subtract(self.top, u, out=u)
            u /= self.span
            near *= u
            near += far
            np.maximum(best, near, out=best)
        return best


class _LowerStep:
    """One use on the lower side: the best t on the grid, and the slope of that choice."""

    def __init__(self, x: Array, cells: int, spacing: float) -> None:
        import numpy as np

        self.points, self.cells = len(x), cells
        outside = x[0] - spacing * np.arange(cells, 0, -1)
        self.left_values = -np.expm1(outside)
        self.left_slopes = np.exp(outside)
        span = math.expm1(cells * spacing)
        # P(loss = t) = (E − u)/(E − 1) = e^t (e^{η − t} − 1)/(e^η − 1)
        self.chances = [math.exp(j * spacing) * math.expm1((cells - j) * spacing) / span for j in range(cells + 1)]

    def __call__(self, values: Array, slopes: Array) -> tuple[Array, Array]:
        import numpy as np

        n, m = self.points, self.cells
        zeros = np.zeros(m)
        ext = np.concatenate((self.left_values, values, zeros))
        ext_slopes = np.concatenate((self.left_slopes, slopes, zeros))
        best, best_slope = values, slopes  # t = 0 or t = η: nothing is learnt
        for j in range(1, m):
            p = self.chances[j]
            a, b = slice(m - j, m - j + n), slice(2 * m - j, 2 * m - j + n)
            value = p * ext[a] + (1.0 - p) * ext[b]
            better = value > best
            best = np.where(better, value, best)
            best_slope = np.where(better, p * ext_slopes[a] + (1.0 - p) * ext_slopes[b], best_slope)
        return best, best_slope


def _chord_profile(x: Array, values: Array) -> DiscreteProfile:
    """The chords, the chord to (0, 1) on the left and the constant on the right, as losses."""
    import numpy as np

    gap = math.expm1(x[1] - x[0])
    scaled = np.diff(values) / gap  # slope × α at the left end of each cell
    left = values[0] - 1.0  # slope × α₀ of the chord from (0, 1)
    # mass at x_i: α_i × (slope to the right − slope to the left)
    before = np.concatenate(([left], scaled * (gap + 1.0)))
    after = np.concatenate((scaled, [0.0]))
    masses = np.maximum(0.0, after - before)
    return DiscreteProfile(x, masses, float(values[-1]))


def _tangent_profile(x: Array, values: Array, slopes: Array) -> DiscreteProfile:
    """The upper envelope of the tangents (with 1 − α and 0) as losses: Graham's scan over lines."""
    import numpy as np

    keep = values > 0.0
    x, values, slopes = x[keep], values[keep], slopes[keep]
    # A line in α: intercept v + s, slope −s/α_i. Kept as (log of s/α_i, intercept), steepest first.
    lines: list[tuple[float, float]] = [(0.0, 1.0)]
    kinks: list[float] = []
    for xi, v, s in zip(x.tolist(), values.tolist(), slopes.tolist(), strict=True):
        if s <= 0.0:
            continue
        line = (math.log(s) - xi, min(1.0, v + s))
        while True:
            steep, intercept = lines[-1]
            if line[0] >= steep or line[1] >= intercept:
                break
            drop = intercept - line[1]
            meet = math.log(drop) - steep - math.log(-math.expm1(line[0] - steep))
            if kinks and meet <= kinks[-1]:
                lines.pop()
                kinks.pop()
                continue
            lines.append(line)
            kinks.append(meet)
            break
    steep, intercept = lines[-1]
    if intercept > 0.0:
        meet = math.log(intercept) - steep  # where the last line reaches 0
        lines.append((-math.inf, 0.0))
        kinks.append(meet)
    slopes_log = np.array([line[0] for line in lines])
    losses = np.array(kinks)
    masses = np.exp(slopes_log[:-1] + losses) * -np.expm1(slopes_log[1:] - slopes_log[:-1])
    # Rounding may leave a sum above the first intercept, 1; scale down.
    total = float(masses.sum())
    return DiscreteProfile(losses, masses / max(1.0, total), 0.0)
