"""One use of an exponential mechanism, also on a fresh sample, from both sides, on a lattice.

With E = e^η and u in [1, E] the likelihood ratios are u with Q-mass (E/u - 1)/(E - 1) and u/E with the rest
(``adaptive``), m = 1 - q + qy on a sample of rate q; q = 1 is no sample.

Upper side. [1, E] is cut at the u whose near ratio 1 - q + qu is a power of e^h (for q = 1 also where the far one is);
there the near argument is on the lattice, and the far one gets the chord of its cell, which lies above a convex
function. Between two cuts both
functions lie below the chords between their values at the cuts. Both are straight in 1/s, s = u/u_0 in [1, r], so the
objective becomes F(1) + a(1 - 1/s) - b(s - 1). With g = F(r) - F(1) and β = b(r - 1)² its largest value is at an end,
or, if -β < rg and g < β, it is F(1) + (√a - √b)², and (√a - √b)² <= (a - b)²/(4b) = (rg + β)²/(4β). Cutting g off at β
and rg + β at 0 only enlarges that outside the two conditions. Here β = (r - 1)/(E - 1) times the rise of M
over the piece, M = w z - E w' z' for the near value z and the far one z', w = m and w' = m' where the record is
removed, 1 where it is added (the slope in u of the weights times the chords, collected).

Lower side. Any fixed choice of the u's and of a set S of outcomes gives a value of at least P(S) - αQ(S) for *all* α.
Each lattice point carries one such line (A = P(S), W = α_i Q(S)); a use combines the lines of the near argument and of
the lattice point nearest to the far one, u one of the cuts near the upper side's best: a bad one costs width, never
validity. Beyond the lattice: the line 0.

Rounding. Weights are float64 enclosures, rounded outwards, of balls; an interpolated value and an objective are sums
of non-negative floats, which 2^-50 covers. g is off by at most 2^-50 Z and β by 2^-50 (r - 1)/(E - 1) (w + E w') Z, Z
the largest value met; the bonus changes by at most r(r + 1)/2 times the one and (r + 1)²/4 times the other. Both are
added; so is 1e-300, for underflow. The lower side moves A down and W up by a relative 2^-50 a use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from affidavit.accountant.verifier.balls import Array, Ball, ball, down, down_array, up, up_array
from affidavit.accountant.verifier.rounding import FLOOR, LIBM, STEP

__all__ = [
    "LEAST_RANGE",
    "Indices",
    "Lines",
    "Way",
    "extended_by",
    "lowered",
    "raised",
    "ways_of",
]

LEAST_RANGE = 1e-8
"""Smaller ranges are not resolved in float64: such a mechanism counts as pure."""
BLOCK, COARSE = 1024, 6
"""Lattice points looked at together; cuts to a coarse piece."""
TRIED = (0, -1, 1, -2, 2)
"""Cuts beside the best one that the lower side tries."""

Indices = NDArray[np.intp]


class Lines(NamedTuple):
    """One line A - W α/α_i below the curve for each lattice point: ``inside`` (A) and ``weight`` (W)."""

    inside: Array
    weight: Array


class _Looks(NamedTuple):
    """Where the argument lies, one entry a cut: between lattice points ``at`` and ``at`` + 1, relative to the point.

    ``share`` of the way to the second (rounded down); ``nearest`` is the nearest lattice point, ``drift`` the argument
    over it (rounded up).
    """

    at: Indices
    share: Array
    nearest: Indices
    drift: Array


class _Pieces(NamedTuple):
    """Between some cuts (``rows``): columns for the cuts, and for the gaps between them."""

    rows: Indices
    chance: Array
    other: Array
    pull: Array
    push: Array
    ratio: Array
    bend: Array
    slack: float


@dataclass(frozen=True, slots=True)
class Way:
    """One use in one direction on one lattice."""

    near: _Looks
    far: _Looks
    fine: _Pieces
    coarse: _Pieces
    chance_down: Array
    other_down: Array

    @property
    def reach(self) -> tuple[int, int]:
        """How many lattice points to the left and to the right the arguments may lie."""
        places = np.concatenate([self.near.at, self.far.at, self.near.nearest, self.far.nearest])
        return max(0, -int(places.min())), max(0, int(places.max()) + 1)


def _looks(places: list[Ball], step: Ball) -> _Looks:
    """``places`` in lattice cells."""
    at = [int(place.lower().floor().unique_fmpz()) for place in places]
    rise = step.expm1()
    share = [down(((place - left) * step).expm1() / rise) for place, left in zip(places, at, strict=True)]
    nearest = [round(float(place)) for place in places]
    drift = [up(((place - point) * step).exp()) for place, point in zip(places, nearest, strict=True)]
    return _Looks(np.array(at), np.clip(share, 0.0, 1.0), np.array(nearest), np.array(drift))


def _between(
    rows: Indices, u: list[Ball], weights: list[tuple[Ball, Ball]], masses: list[tuple[Ball, Ball]], top: Ball
) -> _Pieces:
    kept = [u[row] for row in rows]
    ratio = [after / before for before, after in pairwise(kept)]
    bend = [(r - 1) / (top - 1) for r in ratio]
    pull, push = (up_array([ends[i] for ends in (weights[row] for row in rows)]) for i in (0, 1))
    push = push * up(top) * (1 + STEP)
    r, b = up_array(ratio), up_array(bend)
    heights = pull + push
    both = np.maximum(heights[1:], heights[:-1])
    slack = STEP * float(np.max(r * (r + 1) / 2 + (r + 1) ** 2 / 4 * b * both)) * 1.01
    chance, other = (up_array([masses[row][i] for row in rows]) for i in (0, 1))
    return _Pieces(rows, chance[:, None], other[:, None], pull[:, None], push[:, None], r[:, None], b[:, None], slack)


def ways_of(spread: Fraction, rate: Fraction, step: Fraction) -> tuple[Way, ...]:
    """The record removed, and added; without a sample they are one."""
    h, eta, q = ball(step), ball(spread), ball(rate)
    top = eta.exp()
    if rate == 1:
        whole = spread / step
        cuts = sorted({cut for j in range(math.floor(whole) + 1) for cut in (Fraction(j), whole - j)})
        near, far = [ball(cut) for cut in cuts], [ball(cut - whole) for cut in cuts]
        u = [(place * h).exp() for place in near]
    else:
        last = (1 + q * eta.expm1()).log() / h
        near = [ball(j) for j in range(int(last.lower().floor().unique_fmpz()) + 1)]
        if float(last - near[-1]) < 1e-9:
            near = near[:-1]
        u = [*(1 + (place * h).expm1() / q for place in near), top]
        near, far = [*near, last], [*((1 + q * (v / top - 1)).log() / h for v in u[:-1]), ball(0)]
    chances = [((top / v - 1) / (top - 1), (top - top / v) / (top - 1)) for v in u]
    chances[0], chances[-1] = (ball(1), ball(0)), (ball(0), ball(1))
    m = [(1 + q * (v - 1), 1 + q * (v / top - 1)) for v in u]
    ones = [(ball(1), ball(1))] * len(u)
    fine = np.arange(len(u))
    coarse = np.unique([*range(0, len(u), COARSE), len(u) - 1])
    made = []
    for sign, weights in ((-1, m), (1, ones))[: 1 if rate == 1 else 2]:
        masses = [(a * w, b * v) for (a, b), (w, v) in zip(chances, weights, strict=True)]
        made.append(
            Way(
                _looks([sign * place for place in near], h),
                _looks([sign * place for place in far], h),
                _between(fine, u, weights, masses, top),
                _between(coarse, u, weights, masses, top),
                np.maximum(down_array([a for a, _ in masses]), 0.0),
                np.maximum(down_array([b for _, b in masses]), 0.0),
            )
        )
    return tuple(made)


def _values(windows: Array, margin: int, looks: _Looks, rows: Indices) -> Array:
    """At least the function at the arguments of some cuts, one row a cut; a view where it can be one."""
    left, share = margin + looks.at[rows], looks.share[rows]
    found = _at(windows, left)
    between = np.flatnonzero(share > 0.0)
    if len(between) == len(rows):
        fall = found - _at(windows, left + 1)
        fall *= share[:, None]
        found = found * (1 + STEP)
        found -= fall
    elif len(between):
        some = windows[left[between]]
        found = found.copy()
        found[between] = some * (1 + STEP) - share[between][:, None] * (some - windows[left[between] + 1])
    return found


def _at(windows: Array, places: Indices) -> Array:
    """These rows."""
    turn = int(places[1] - places[0])
    if abs(turn) == 1 and (np.diff(places) == turn).all():
        low, high = sorted((int(places[0]), int(places[-1])))
        return windows[low : high + 1][::turn]
    return windows[places]


def _bounds(near: Array, far: Array, pieces: _Pieces, first: int, last: int) -> tuple[Array, Array]:
    """The objective at the cuts ``first`` to ``last`` of ``pieces``, and a bound over each piece between them."""
    cuts, gaps = slice(first, last + 1), slice(first, last)
    values = pieces.chance[cuts] * near
    values += pieces.other[cuts] * far
    rise = pieces.pull[cuts] * near
    rise -= pieces.push[cuts] * far
    beta = rise[1:] - rise[:-1]
    beta *= pieces.bend[gaps]
    np.maximum(beta, FLOOR, out=beta)
    swing = values[1:] - values[:-1]
    np.minimum(swing, beta, out=swing)
    swing *= pieces.ratio[gaps]
    swing += beta
    np.maximum(swing, 0.0, out=swing)
    bounds = np.divide(swing, beta, out=beta)
    bounds *= swing
    bounds *= 0.25
    bounds += values[:-1]
    return values, bounds


def raised(extended: Array, width: int, margin: int, way: Way) -> tuple[Array, Indices]:
    """The upper side after one use, and the best cut, at every lattice point; coarse pieces first (``adaptive``)."""
    peak, best = np.empty(width), np.empty(width, dtype=np.intp)
    left = way.reach[0]
    for i in range(0, width, BLOCK):
        size = min(BLOCK, width - i)
        windows = sliding_window_view(extended[i : i + size + 2 * margin], size)
        largest = windows[margin - left]
        rows = way.coarse.rows
        near, far = _values(windows, margin, way.near, rows), _values(windows, margin, way.far, rows)
        values, bounds = _bounds(near, far, way.coarse, 0, len(rows) - 1)
        reached = values.max(axis=0)
        kept = np.flatnonzero((bounds * (1 + LIBM) + largest * (LIBM + way.coarse.slack) > reached).any(axis=1))
        first, last = int(rows[kept[0]]), int(rows[kept[-1] + 1])
        rows = np.arange(first, last + 1)
        near, far = _values(windows, margin, way.near, rows), _values(windows, margin, way.far, rows)
        values, bounds = _bounds(near, far, way.fine, first, last)
        peak[i : i + size] = np.maximum(bounds.max(axis=0), values[-1]) + way.fine.slack * largest
        best[i : i + size] = values.argmax(axis=0) + first
    return peak * (1 + STEP) + FLOOR, best


def lowered(lines: Lines, best: Indices, margin: int, way: Way) -> Lines:
    """The lines after one use, u at the best of the cuts tried."""
    place = np.arange(len(best)) + margin
    inside, weight = np.zeros(len(best)), np.full(len(best), FLOOR)
    for beside in TRIED if way.far.share.any() else TRIED[:1]:
        cut = np.clip(best + beside, 0, len(way.chance_down) - 1)
        one, two = place + way.near.nearest[cut], place + way.far.nearest[cut]
        a = way.chance_down[cut] * lines.inside[one] + way.other_down[cut] * lines.inside[two]
        w = way.fine.chance[cut, 0] * lines.weight[one] * way.near.drift[cut]
        w += way.fine.other[cut, 0] * lines.weight[two] * way.far.drift[cut]
        better = a - w > inside - weight
        inside, weight = np.where(better, a, inside), np.where(better, w, weight)
    return Lines(np.maximum(inside * (1 - STEP), 0.0), weight * (1 + STEP) + FLOOR)


def extended_by(right: Array, left: Array, margin: int, beyond: float) -> Array:
    """Values on lattice points -margin .. last + margin."""
    return np.concatenate([left[margin:0:-1], right, np.full(margin, beyond)])
