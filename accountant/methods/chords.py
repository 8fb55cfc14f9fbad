"""One use of an exponential mechanism on a lattice: the highest chord of a range.

With u = e^t, E = e^η and v = α/u, the objective P(t) H(α/u) + (1 − P(t)) H(αE/u) is the value at α of the chord of H
between v and Ev. So the use turns H into

    max over v in [α/E, α] of  (the chord of H from v to Ev) at α.

H is convex, so its chords between lattice points, together a polyline f, lie above it, and the chords of f above those
of H. Range η = (M + θ) h on a lattice of spacing h. Cut the axis at the *breakpoints*, where v or Ev is on the lattice:
v = nh, and (n + 1 − θ)h too if θ > 0. In a *cell* between two of them both ends of the chord move on straight lines.
With v = v_0 s, s in [1, R], and e^t = α/v_0 the chord's value at α is

    F(s) = F(1) + a e^t (1 − 1/s) − b (s − 1),

    a = (R z_0 − z_1)/((R − 1)(E − 1)),    b = (E (f(v_0) − f(v_1)) − (f(Ev_0) − f(Ev_1)))/((R − 1)(E − 1)),

z = f(v) − f(Ev) at the ends. Let ρ = e^t a/b. For a, b >= 0, F is concave; it falls all the way if ρ < 1, rises all
the way if ρ > R², and otherwise has its peak in the cell, of height F(1) + b (√ρ − 1)² <= F(1) + b (ρ − 1)²/4. So a
cell has a peak only for lattice points α with t in [ln b/a, ln b/a + 2 ln R]: two at most, but for the ends.

**All t at once.** From any v walk uphill, cell by cell. The walk ends in a cell with a peak, or at an end of [α/E, α],
where the value is f(α), or at a breakpoint between a rising and a falling cell. The last is possible for no α if a/b
right of the breakpoint is at least a/b left of it divided by R, as it is where f bends up. Breakpoints where that
fails, and the ends of cells with b < 0, are looked at for every α. So the largest of these few values bounds the
objective for *all* t, whatever f is. (A cell looked at where it has no peak does no harm: with ρ kept in [1, R²], the
value is one of F, the bonus being a share R too large at most.)

Rounding, in units of 2^-53 E/(E − 1) f(α/E), the largest value met. The walk crosses 2M + 3 cells at most. In each, F
is off by 12 units for the rounding of a, b and the values between lattice points or beyond the window, and by 32 for
``CHORD``: where f is straight but for its rounding, a and b count as 0, and the cell falls if left of α = 1 and rises
if right of it. On which side of 1 and R² is ρ is decided by a logarithm, 4 + 4η units. The values themselves: 8 units
for F(1), 3 (R + 1) R² for the peak. ``rounding`` is the sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.rounding import ALIGNED, CHORD, UNIT

__all__ = ["Chords", "prepare"]

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

TINY = 1e-300
"""Floor of b, where the chords have no bend."""


class Place(NamedTuple):
    """A plane, and lattice points to the right: plane 0 is the lattice, the others lie within its cells."""

    plane: int
    move: int


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """The cells from one kind of breakpoint to the next, one for each lattice point n.

    ``starts`` and ``ends`` say where v and Ev are found at the two ends, ``offset`` how far to the right of n the start
    is. For the lattice point j points to the right of n, ``growth[j + 1]`` is e^t at the start (0 where the cell is not
    wholly on its left), and ``chance[j + 1]`` the weight of v, for j from −1 to ``reach``, the last one for which the
    cell is in [α/E, α].
    """

    starts: tuple[Place, Place]
    ends: tuple[Place, Place]
    ratio: float
    offset: float
    reach: int
    growth: Array
    chance: Array


class Peaks(NamedTuple):
    """The cells of one kind: F(1) from ``far`` and ``drop``, a/b, b up to a factor, the first j with the peak + 1."""

    far: Array
    drop: Array
    rise: Array
    bend: Array
    first: Indices
    suspect: Indices
    """Cells that bend down by more than rounding."""


@dataclass(frozen=True, slots=True, eq=False)
class Chords:
    """One range on one lattice.

    f is looked at on the lattice and, if the range is no multiple of the spacing, on two more *planes* of points, which
    lie ``inside`` nats to the right of it: θh and (1 − θ)h.
    """

    spacing: float
    cells: int
    inside: tuple[float, ...]
    span: float
    rounding: float
    """Of the bound, relatively; included in it."""
    kinds: tuple[Kind, ...]

    @property
    def margin(self) -> int:
        """Lattice points that a use looks at beyond the ones it is wanted at."""
        return self.cells + 2

    def _peaks(self, planes: Array, kind: Kind, zero: int) -> Peaks:
        """Where the chords of one kind of cell are highest; point ``zero`` of the planes is α = 1."""
        count = planes.shape[1] - self.cells - 2
        starts = [planes[plane, move : move + count] for plane, move in kind.starts]
        ends = [planes[plane, move : move + count] for plane, move in kind.ends]
        drop = starts[0] - starts[1]
        rise, bend = kind.ratio * drop, ends[1] - starts[1]
        rise -= ends[0] - ends[1]
        falls = ends[0] - starts[0]
        falls *= self.span + 1.0
        bend -= falls
        noise = np.multiply(starts[0], CHORD, out=falls)
        zero = min(max(0, zero), count)
        rise[:zero] -= noise[:zero]
        rise[zero:] += noise[zero:]
        noise *= self.span + 1.0
        bend += noise
        suspect = np.flatnonzero(bend < 0.0) if bend.min() < 0.0 else np.empty(0, dtype=np.intp)
        noise *= 2.0
        bend -= noise
        np.maximum(bend, TINY, out=bend)
        with np.errstate(over="ignore"):  # cut off at once
            rise /= bend
        np.minimum(np.maximum(rise, TINY, out=rise), kind.ratio, out=rise)
        first = np.log(rise)
        first *= -1.0 / self.spacing
        first += 1.0 + kind.offset / self.spacing
        np.minimum(np.ceil(first, out=first), kind.reach, out=first)
        return Peaks(starts[1], drop, rise, bend, first.astype(np.intp), suspect)

    def upper(self, values: Array, zero: int) -> Array:
        """The bound over all t at every lattice point but the margins; point ``zero`` is α = 1."""
        planes = self._planes(values)
        found: Array = planes[0].copy()
        every = [self._peaks(planes, kind, zero) for kind in self.kinds]
        for kind, peaks in zip(self.kinds, every, strict=True):
            look, bend = peaks.first, peaks.bend * (0.25 / ((kind.ratio - 1.0) * self.span))
            at = look + np.arange(-1, len(look) - 1)
            for _ in range(2):
                value = kind.growth.take(look)
                value *= peaks.rise
                np.minimum(np.maximum(value, 1.0, out=value), kind.ratio**2, out=value)
                value -= 1.0
                value *= value
                value *= bend
                line = kind.chance.take(look)
                line *= peaks.drop
                line += peaks.far
                value += line
                np.maximum.at(found, at, value)
                look += 1
                at += 1
        self._ridges(found, every)
        margin, points = self.margin, len(found) - 2 * self.margin
        bound: Array = found[margin : margin + points]
        start = margin - self.cells - len(self.inside) // 2
        bound += self.rounding * planes[0, start : start + points]
        return bound

    def _ridges(self, found: Array, every: list[Peaks]) -> None:
        """Look at the breakpoints between a rising and a falling cell, and about cells that bend down."""
        if self.cells == 0:
            return
        for this, (kind, peaks) in enumerate(zip(self.kinds, every, strict=True)):
            before, earlier = self.kinds[this - 1], every[this - 1]
            skip = 1 if this == 0 else 0
            left = earlier.rise[: len(earlier.rise) - skip]
            ridge = np.flatnonzero(peaks.rise[skip:] * before.ratio < left)
            ridge += skip
            if len(peaks.suspect) or len(earlier.suspect):
                ridge = np.union1d(ridge, np.concatenate((peaks.suspect, earlier.suspect + skip)))
            for n in ridge[ridge < len(peaks.far)].tolist():
                value = peaks.far[n] + kind.chance[1:] * peaks.drop[n]
                reached = found[n : n + len(value)]
                np.maximum(reached, value, out=reached)

    def _planes(self, values: Array) -> Array:
        """f at the lattice points, and at the two places within cells."""
        planes = np.empty((1 + len(self.inside), len(values)))
        planes[0] = values
        for plane, inside in zip(planes[1:], self.inside, strict=True):
            share = math.expm1(inside) / math.expm1(self.spacing)
            plane[:-1] = (1.0 - share) * values[:-1] + share * values[1:]
            plane[-1] = values[-1]
        return planes


@lru_cache(maxsize=1024)
def prepare(eta: float, spacing: float) -> Chords:
    """The cells of range ``eta`` on a lattice."""
    exact = eta / spacing
    cells = round(exact)
    split = abs(exact - cells) > ALIGNED * exact
    cells = math.floor(exact) if split else cells
    theta = eta - cells * spacing
    rest = spacing - theta
    if split:
        one, two = (Place(0, 0), Place(1, cells)), (Place(2, 0), Place(0, cells + 1))
        kinds = [_kind(eta, spacing, two, (Place(0, 1), Place(1, cells + 1)), offset=rest, width=theta)]
        if cells > 0:
            kinds.insert(0, _kind(eta, spacing, one, two, offset=0.0, width=rest))
    else:
        ends = (Place(0, 0), Place(0, cells)), (Place(0, 1), Place(0, cells + 1))
        kinds = [_kind(eta, spacing, *ends, offset=0.0, width=spacing)]
    span, ratio = math.expm1(eta), math.exp(spacing)
    units = (2 * cells + 3) * (48.0 + 4.0 * eta) + 8.0 + 3.0 * (ratio + 1.0) * ratio * ratio
    rounding = UNIT * (1.0 + 1.0 / span) * units
    return Chords(spacing, cells, (theta, rest) if split else (), span, rounding, tuple(kinds))


def _kind(
    eta: float, spacing: float, starts: tuple[Place, Place], ends: tuple[Place, Place], *, offset: float, width: float
) -> Kind:
    reach = starts[1].move
    t = np.minimum(np.arange(-1, reach + 1) * spacing - offset, eta)
    inside = np.arange(-1, reach + 1) > 0
    chance = np.where(inside, np.exp(t) * np.expm1(eta - t) / math.expm1(eta), 1.0)
    return Kind(starts, ends, math.exp(width), offset, reach, np.where(inside, np.exp(t), 0.0), chance)
