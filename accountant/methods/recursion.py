"""The adaptive recursion for exponential mechanisms, on Poisson samples or not, on a lattice, from both sides.

Setting (Dong, Durfee and Rogers 2020; Lemma 1 of Dwork and Rothblum's hockey-stick form): one use of bounded range η is
dominated by a two-point mechanism with losses t and t − η for some t in [0, η]: with u = e^t and E = e^η the likelihood
ratio y is u or u/E, with Q-probabilities Q₁ = (1/u − 1/E)/(1 − 1/E) and 1 − Q₁. The adversary picks t before each use.
On a Poisson sample of rate q the record's presence makes the ratio m = 1 − q + q y; q = 1 is no sample. What is
maximised over t is the mean of a convex function of y, of mean 1 under Q, so two points remain the worst case. With
α = e^ε and H_k(α) the largest δ that the last k uses can reach, H_0(α) = (1 − α)₊,

    forward    (mixture, Q):   H_k(α) = max over t of  E_Q[m H_{k−1}(α/m)],
    backward   (Q, mixture):   H_k(α) = max over t of  E_Q[H_{k−1}(α m)],

and δ(ε) is the larger of both H_T(e^ε): which of the neighbours holds the record is settled once. Both are attained:
two tokens and suitable logits realise any t. Without a sample they are one. Each H_k is convex and decreasing in α with
H_k(0) = 1 and H_k(α) >= 1 − α.

On a Poisson sample that may tell whether it holds a record, which is replaced by another, a use sees it with chance
``taken`` and loses nothing else: H_k is 1 − ``taken`` of H_{k−1} and ``taken`` of what a use without a sample makes of
it. That is reached, as the laws of a sample without a record may have no outcome in common with the others
(docs/theory/semantics.md).

H_k is kept on the lattice points of a ``Window``, which leaves out what the answer hardly depends on: that decides how
narrow the result is, never whether it is valid. With nothing else beside uses without a sample,
H_k(1/α) = 1 − 1/α + H_k(α)/α (P and Q may be exchanged): such a window may begin at α = 1, and the mirror continues it,
exactly.

One step without a sample is known in closed form, where both sides start: H_1(α) = (√E − √α)²/(E − 1) for
1/E <= α <= E.

Upper side. H_{k−1} is replaced by its chords between lattice points, and the maximum over *all* t is bounded in closed
form (``chords``; on samples ``pieces``). Left of the window stands the smaller of the chord from H(0) = 1 and a moment
bound, right of it the smaller of the last value and a moment bound (``sampled_use``).

Lower side. t is one of the ``cuts``, 1 − α is taken left of the window and 0 right of it: the value of an explicit
strategy. Its slope is carried along: S = −α dH/dα obeys the same recursion, so between lattice points the tangents lie
below. The strategy is looked for anew after every few steps only: it changes slowly, and a stale one is a strategy as
well. It also tells ``pieces`` where to be narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.methods.chords import prepare
from affidavit.accountant.methods.cuts import cuts_of
from affidavit.accountant.methods.discrete import DiscreteProfile, chord_profile, tangent_profile
from affidavit.accountant.methods.pieces import Pieces
from affidavit.accountant.methods.sampled_use import RATES, Moments, Runs, SampledUse

if TYPE_CHECKING:
    from affidavit.accountant.methods.pair_profiles import Last

__all__ = ["Curves", "OneMore", "Window", "compose", "whole"]

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

OFTEN, MOST_USES_BETWEEN = 8, 64
"""The best t is looked for anew after a share of the uses since the range has changed, and after so many at least; from
scratch only that often at first."""


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """Lattice points ``low[k]`` to ``high[k]``, ``spacing`` apart, for k = 0 … T uses still to come.

    ``mirrored``: it begins at α = 1, and the mirror continues it. ``slope`` is about −d ln δ/dε at the answer.
    Recursions are kept by it: of equal arguments a window should be one object.
    """

    spacing: float
    low: Indices
    high: Indices
    mirrored: bool = False
    slope: float = 0.0

    @property
    def points(self) -> int:
        """Lattice points of all steps together: what the recursion's time is proportional to."""
        return int((self.high - self.low + 1).sum())


@lru_cache(maxsize=32)
def whole(runs: Runs, spacing: float, *, width: float, mirrored: bool) -> Window:
    """−``width`` … ``width`` at every step; if ``mirrored``, from 0 to what the uses can reach."""
    steps = np.repeat([use.eta for use, _ in reversed(runs)], [uses for _, uses in reversed(runs)])
    reach = np.concatenate(([0.0], np.cumsum(steps))) if mirrored else np.full(len(steps) + 1, width)
    low = 0 if mirrored else int(np.floor(-width / spacing)) - 1
    high = np.maximum(np.ceil(np.minimum(width, reach) / spacing).astype(np.int64) + 1, low + 1)  # two points at least
    return Window(spacing, np.full(len(high), low), high, mirrored)


class OneMore:
    """One use more of a function known on a lattice; ``slope`` as in ``Window``."""

    def __init__(self, use: SampledUse, spacing: float, *, slope: float = 0.0) -> None:
        self._use = use
        self.spacing = spacing
        self.cuts = cuts_of(use, spacing)
        self._above = Pieces(self.cuts, slope=slope) if use.rate < 1.0 else prepare(use.eta, spacing)
        self.rounding = self._above.rounding
        """Of the upper side, relatively; included in it."""

    def upper(self, values: Array, first: int, choice: Indices) -> Array:
        """Above it at each point but the margins, from values above at points from ``first`` and the best cuts."""
        margin = self.cuts.margin
        if isinstance(self._above, Pieces):
            above = self._above.upper(values, choice)
        else:
            beyond = margin - self._above.margin
            above = self._above.upper(values[beyond : len(values) - beyond], -first - beyond)
        if (taken := self._use.taken) < 1.0:
            above = taken * above + (1.0 - taken) * values[margin : len(values) - margin]
        least: Array = np.minimum(above, 1.0)
        return least  # coarse lattices of large ranges are far above


@lru_cache(maxsize=64)
def _one_more(use: SampledUse, spacing: float, slope: float) -> OneMore:
    return OneMore(use, spacing, slope=slope)


class Curves(NamedTuple):
    """ln α at the last lattice points, the upper side there, and the lower side's values and slopes."""

    x: Array
    upper: Array
    lines: Array

    def above(self) -> DiscreteProfile:
        """Above the adaptive composition."""
        return chord_profile(self.x, self.upper)

    def below(self) -> DiscreteProfile:
        """Of an explicit strategy; below the adaptive composition."""
        return tangent_profile(self.x, *self.lines)


@lru_cache(maxsize=16)
def compose(runs: Runs, window: Window, *, last: Last | None = None, above: bool = True, below: bool = True) -> Curves:
    """``runs`` in order, then ``last``; a side that is not wanted says nothing."""
    h, low, high = window.spacing, window.low.tolist(), window.high.tolist()
    x = _points(low[0], high[0] + 1, h)
    follow = below or any(use.rate < 1.0 for use, _ in runs)  # pieces follow the strategy
    lines = _nothing(x)
    upper = lines[:1]
    if last is not None:
        upper = last.upper(x)[None] if above else upper
        lines = np.stack((last.lower(x), last.lower_slope(x))) if follow else lines
    choice = looked = np.zeros(0, dtype=np.int64)
    k = looked_at = looked_low = 0
    size = looked_size = 0.0  # Σ η² of the losses behind
    behind = np.zeros(len(RATES))  # its moments
    for use, uses in reversed(runs):
        one, logs = _one_more(use, h, window.slope), use.log_moments()
        for since in range(uses):
            k, size = k + 1, size + use.taken * use.eta**2
            if k == 1 and last is None and use.rate == 1.0:
                lines = _first(use, _points(low[1], high[1] + 1, h))
                upper = lines[:1]
                continue
            first, points = low[k] - one.cuts.margin, high[k] - low[k] + 1 + 2 * one.cuts.margin
            place = _Place(low[k - 1], first, points, h, window.mirrored)
            if follow:
                old = place.of_lines(lines)
                fresh = k - looked_at >= min(MOST_USES_BETWEEN, since // OFTEN)
                if since < OFTEN:
                    choice = one.cuts.best(old)
                else:
                    # The best t depends on x and k by about x over what is behind, which is one loss at least.
                    shrink = max(looked_size, use.eta**2) / max(size, use.eta**2)
                    same = (np.arange(low[k], high[k] + 1) * shrink).astype(np.int64) - looked_low
                    choice = looked[same.clip(0, len(looked) - 1)]
                    choice = one.cuts.best(old, choice) if fresh else choice
                if fresh:
                    looked, looked_at, looked_low, looked_size = choice, k, low[k], size
                lines = one.cuts.strategy(old, choice)
            if above:
                moments = None if last else Moments(behind + since * logs)
                upper = one.upper(place.of_values(upper, moments)[0], first, choice)[None]
        behind = behind + uses * logs
    first = low[-1]
    if not above:
        upper = np.ones((1, high[-1] - first + 1))
    if window.mirrored:
        first = -high[-1]
        place = _Place(low[-1], first, 2 * high[-1] + 1, h, mirrored=True)
        upper, lines = place.of_values(upper, None), place.of_lines(lines)
    return Curves(_points(first, high[-1] + 1, h), upper[0], lines)


def _points(first: int, end: int, h: float) -> Array:
    """ln α of lattice points."""
    points: Array = np.arange(first, end, dtype=np.float64) * h
    return points


def _nothing(x: Array) -> Array:
    """H_0 and −α dH_0/dα."""
    left = np.minimum(x, 0.0)
    return np.stack((-np.expm1(left), np.where(x < 0.0, np.exp(left), 0.0)))


def _first(use: SampledUse, x: Array) -> Array:
    """H_1 and −α dH_1/dα without a sample."""
    inside = np.clip(x, -use.eta, use.eta)
    gap = np.expm1((use.eta - inside) / 2.0)
    seen = np.exp(inside) * gap / math.expm1(use.eta) * np.stack((gap, np.ones_like(gap)))
    nothing = _nothing(x)
    return np.where(x < -use.eta, nothing, use.taken * seen + (1.0 - use.taken) * nothing)


class _Place(NamedTuple):
    """``points`` lattice points from ``first``, for functions that are known from the point ``known`` on."""

    known: int
    first: int
    points: int
    spacing: float
    mirrored: bool

    def of_lines(self, lines: Array) -> Array:
        """The lower side there: releasing nothing beyond what is known."""
        return self._filled(lines, _nothing, lambda _: 0.0)

    def of_values(self, values: Array, moments: Moments | None) -> Array:
        """The upper side there: the chord from H(0) = 1 and the last value, or the moments' bound if that is less."""
        begin, end = self.known * self.spacing, (self.known + values.shape[1]) * self.spacing
        first, last = float(values[0, 0]), float(values[0, -1])

        def most(x: Array, near: float) -> Array:
            constant, rate = moments.at(near) if moments else (0.0, 0.0)
            return np.exp(np.minimum(constant - rate * x, 0.0))

        def left(x: Array) -> Array:
            return np.minimum(1.0 + (first - 1.0) * np.exp(x - begin), most(x, begin))

        def right(x: Array) -> Array | float:
            return np.minimum(last, most(x, end)) if last > 0.0 else 0.0

        return self._filled(values, left, right)

    def _filled(self, rows: Array, left: Callable[[Array], Array], right: Callable[[Array], Array | float]) -> Array:
        known, first, points, h, mirrored = self
        begin, end = (min(max(at - first, 0), points) for at in (known, known + rows.shape[1]))
        found = np.empty((len(rows), points))
        found[:, begin:end] = rows[:, first + begin - known : first + end - known]
        if end < points:
            found[:, end:] = right(_points(first + end, first + points, h))
        if mirrored:
            found[:, :begin] = _mirror(found[:, 2 * begin : begin : -1], h)
        elif begin > 0:
            found[:, :begin] = left(_points(first, first + begin, h))
        return found


def _mirror(rows: Array, h: float) -> Array:
    """H(1/α) = 1 − 1/α + H(α)/α and its slope, left of α = 1, from the points right of it in falling order."""
    x = _points(-rows.shape[1], 0, h)
    if len(rows) == 2:  # H falls: a slope of the other sign is rounding, which tangents would multiply
        rows = np.stack((rows[0], np.maximum(1.0 - rows[0] - rows[1], 0.0)))
    mirrored = np.exp(x) * rows
    mirrored[0] -= np.expm1(x)
    return mirrored
