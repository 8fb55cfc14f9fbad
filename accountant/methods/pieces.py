"""One use of an exponential mechanism on a lattice: the pieces of t on which its best choice is bounded.

Range η = (M + θ) h on a lattice of spacing h. Cut [0, η] at the *breakpoints*, where α e^{−t} or α e^{η−t} crosses
the lattice: t = jh, and (j + θ)h too if θ > 0. The values at the two arguments are then lattice values,
or values of chords at a fixed place within a cell.

Between any two breakpoints t_0 < t_1, not only neighbouring ones, replace H (convex in α) by its chords
between the two ends of each argument: they lie above. With s = e^{t − t_0} in [1, R], R = e^{t_1 − t_0}, the objective
P(t) H(α/u) + (1 − P(t)) H(αE/u) becomes

    F(s) = F(1) + a (1 − 1/s) − b (s − 1),

concave. Let g = F(R) − F(1) and β = b (R − 1)² = R (R − 1) e^{t_0}/(E − 1) · (z_1 − z_0/R), with
z = H(α/u) − H(αE/u) at the ends. Its maximum is at an end, or, if −β < R g and g < β, it is
F(1) + (√a − √b)² <= F(1) + (R g + β)²/(4β) as a >= b then. Cutting g off at β and R g + β at 0 only enlarges that
outside the two conditions. So the largest F(1) + (R g + β)²/(4β) over the pieces, and the last F(R), bound the
objective for *all* t.

Rounding. F(1) and F(R) are sums of products of non-negative numbers. The bonus (R g + β)²/(4β) changes by at most
R (R + 1)/2 times an error of g, itself at most 4 H 2^-53, and by at most (R + 1)² times one of β, at most
4 R (R − 1) E/(E − 1) H 2^-53, where H is its value at α e^{−η}, the largest met. ``slack`` times it is added.

A piece is dear, and a wide one at a distance from the best t is as good as many: near its maximum the objective falls
like the square of the distance to it, and the chords over a piece add at most a quarter of the square of its width, in
the same units. So pieces are one cell wide where the best t may be, and grow with the distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from numpy import float64, intp
    from numpy.typing import NDArray

    Array = NDArray[float64]
    Indices = NDArray[intp]

__all__ = ["Layout", "Use", "prepare", "upper_bound"]

WIDTHS = (2, 5, 10)
"""Widths in cells of the pieces next to the ones of one cell; the others are the widest."""
ALIGNED = 1e-14
"""A range this near, relatively, to a multiple of h is taken as one; the rounding charged to both sides covers it."""
WIDEST = 0.4
"""Largest product of a wide piece's width in nats and 1 + the slope of ln H: beyond, H is not nearly a parabola."""
LOOKED_AT_ONCE = 1 << 21
"""Values at breakpoints that are held at once where the best one is looked for."""
TINY = 1e-300
"""Floor of β, where the chords have no bend."""


class Layout(NamedTuple):
    """Breakpoints that end the pieces, and the constants of the pieces, one row each."""

    rows: Indices
    chance: Array
    ratio: Array
    bend_end: Array
    bend_start: Array


@dataclass(frozen=True, slots=True, eq=False)
class Use:
    """The breakpoints of one range, in rising order.

    At breakpoint q, H is looked at twice, near (α/u) and far (αE/u), each at (plane, lattice points to the right).
    Plane 0 is the lattice itself; planes 1 and 2 lie ``inside`` nats to the right of it: θh and (1 − θ)h.
    """

    spacing: float
    cells: int
    inside: tuple[float, ...]
    span: float
    widest: float
    times: Array
    chance: Array
    slack: float
    near: tuple[Indices, Indices]
    far: tuple[Indices, Indices]
    layouts: dict[tuple[int, int], Layout] = field(default_factory=dict, repr=False)

    @property
    def margin(self) -> int:
        """Lattice points that a use looks at beyond the ones it is wanted at."""
        return self.cells + 2

    @property
    def unit(self) -> int:
        """Breakpoints a cell."""
        return 2 if self.inside else 1

    def layout(self, first: int, last: int) -> Layout:
        """Pieces of one cell about breakpoints ``first`` to ``last``, wider ones elsewhere."""
        key = first, last
        if key not in self.layouts:
            self.layouts[key] = self._lay_out(first, last)
        return self.layouts[key]

    def _lay_out(self, first: int, last: int) -> Layout:
        import numpy as np

        end = len(self.times) - 1
        low, high = max(0, first - self.unit), min(end, last + self.unit)
        rows = list(range(low, high + 1))
        widest = self.unit * max(1, math.floor(self.widest / self.spacing))
        widths = chain((width * self.unit for width in WIDTHS), repeat(widest))
        for width in (min(width, widest) for width in widths):
            if low > 0:
                rows.insert(0, low := max(0, low - width))
            if high < end:
                rows.append(high := min(end, high + width))
            if (low, high) == (0, end):
                break
        index = np.array(rows, dtype=np.intp)
        times = self.times[index]
        ratio = np.exp(np.diff(times))
        bend = np.expm1(np.diff(times)) * np.exp(times[:-1]) / self.span
        return Layout(index, self.chance[index][:, None], ratio[:, None], (bend * ratio)[:, None], bend[:, None])

    def looks(self, planes: Array, width: int, start: int, rows: Indices) -> tuple[Array, Array]:
        """The functions on ``planes`` at both arguments: one row a breakpoint, ``width`` points from ``start``."""
        import numpy as np

        length = planes.shape[1]
        windows: Array = np.ndarray((planes.size - width + 1, width), buffer=planes, strides=(8, 8))
        near, far = (windows[plane[rows] * length + (start + move[rows])] for plane, move in (self.near, self.far))
        return near, far

    def best(self, planes: Array, width: int, start: int, among: tuple[int, int]) -> Indices:
        """The best breakpoint at each of ``width`` lattice points from ``start``; those from ``among`` to ``among``."""
        import numpy as np

        rows = np.arange(max(0, among[0]), min(among[1], len(self.times) - 1) + 1)
        found = np.empty(width, dtype=np.intp)
        block = max(1, LOOKED_AT_ONCE // len(rows))
        for first in range(0, width, block):
            last = min(width, first + block)
            near, far = self.looks(planes, last - first, start + first, rows)
            near -= far
            near *= self.chance[rows, None]
            near += far
            found[first:last] = near.argmax(axis=0) + rows[0]
        return found


def upper_bound(near: Array, far: Array, layout: Layout, slack: float) -> Array:
    """The bound over all t, from the values at the layout's breakpoints; both arrays are overwritten."""
    import numpy as np

    rounding = slack * near[-1]
    between, values = near, far
    between -= far
    values += layout.chance * between
    bend = layout.bend_end * between[1:]
    bend -= layout.bend_start * between[:-1]
    np.maximum(bend, TINY, out=bend)
    swing = np.subtract(values[1:], values[:-1], out=between[1:])
    np.minimum(swing, bend, out=swing)
    swing *= layout.ratio
    swing += bend
    np.maximum(swing, 0.0, out=swing)
    swing *= swing
    swing /= bend
    swing *= 0.25
    swing += values[:-1]
    bound: Array = np.maximum(swing.max(axis=0), values[-1])
    bound += rounding
    return bound


@lru_cache(maxsize=1024)
def prepare(eta: float, spacing: float, slope: float) -> Use:
    """The breakpoints of range ``eta`` on a lattice, for functions that fall like e^{−slope x}."""
    import numpy as np

    exact = eta / spacing
    cells = round(exact)
    split = abs(exact - cells) > ALIGNED * exact
    cells = math.floor(exact) if split else cells
    whole = np.arange(cells + 1)
    theta = eta - cells * spacing
    places: tuple[float, ...] = ()
    starts: Array = np.arange(cells + 1, dtype=np.float64) * spacing
    times: Array
    if split:
        times = np.stack([starts, starts + theta], axis=1).ravel()
        zero, places = np.zeros_like(whole), (theta, spacing - theta)
        near = _interleave(zero, zero + 2), _interleave(-whole, -whole - 1)
        far = _interleave(zero + 1, zero), _interleave(cells - whole, cells - whole)
    else:
        times = starts
        near, far = (np.zeros_like(whole), -whole), (np.zeros_like(whole), cells - whole)
    times[-1] = eta
    span = math.expm1(eta)
    chance = np.exp(times) * np.expm1(eta - times) / span
    widest = min(WIDEST / (1.0 + slope), eta)
    ratio = math.exp(max(spacing, widest))
    slack = 2.0**-51 * (ratio * (ratio + 1.0) + (ratio + 1.0) ** 2 * ratio * (ratio - 1.0) * (1.0 + 1.0 / span))
    return Use(spacing, cells, places, span, widest, times, chance, slack, near, far)


def _interleave(even: Indices, odd: Indices) -> Indices:
    import numpy as np

    return np.stack([even, odd], axis=1).ravel()
