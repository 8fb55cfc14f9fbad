"""The adaptive recursion for exponential mechanisms, on a logarithmic lattice, from both sides.

Setting (Dong, Durfee and Rogers 2020; Lemma 1 of Dwork and Rothblum's hockey-stick form): one use
of bounded range η is dominated by a two-point mechanism with losses t and t − η for some t in
[0, η]: with u = e^t and E = e^η, P(loss = t) = p = (E − u)/(E − 1). The adversary picks t at each
step. With α = e^ε and H_k(α) the largest δ that the last k uses can reach,

    H_0(α) = (1 − α)₊,     H_k(α) = max over t of  p H_{k−1}(α/u) + (1 − p) H_{k−1}(α E/u),

and δ(ε) = H_T(e^ε). It is attained: two tokens and suitable logits realise any t. Each H_k is
convex and decreasing in α with H_k(0) = 1 and H_k(α) >= 1 − α. One step in closed form, where both
sides start: H_1(α) = (√E − √α)²/(E − 1) for 1/E <= α <= E.

On a Poisson sample that may tell whether it holds a record, which is replaced by another, a use sees it with chance q
and loses nothing else: H_k is 1 − q of H_{k−1} and q of the above (``thin``). That is reached, as the laws of a sample
without a record may have no outcome in common with the others (docs/theory/semantics.md).

H_k is kept on the lattice points of a ``Corridor``, which leaves out what the answer hardly depends on: that decides
how narrow the result is, never whether it is valid. With nothing
else beside the exponential uses, H_k(1/α) = 1 − 1/α + H_k(α)/α (P and Q may be exchanged), so the corridor begins at
α = 1, and the mirror continues it, exactly.

Upper side. H_{k−1} is replaced by its chords between lattice points, and the maximum over *all* t is bounded in closed
form (``chords``). Elsewhere the corridor is continued by one more chord: from (0, 1), and to the last point looked at,
where H_{k−1} is at most the less of the last value and a moment bound: for any λ > 0,

    H_k(α) <= E_P[(1 − α e^{−L})₊] <= e^{λ(λ+1)ρ_k} α^{−λ} λ^λ / (1 + λ)^{1+λ},

because (1 − 1/y)₊ <= y^λ λ^λ/(1+λ)^{1+λ} for y > 0 (the conversion of Canonne, Kamath and Steinke 2020), and because
the k last uses are ρ_k-zCDP, ρ_k = Σ η²/8 (Cesar and Rogers 2021, Lemma 3.4; Bun and Steinke 2016, Lemma 2.3).

Lower side. t is restricted to breakpoints of the lattice, 1 − α is taken left of the corridor and 0 right of it:
the value of an explicit strategy. Its slope is carried along: S = −α dH/dα obeys the same recursion, so
between lattice points the tangents lie below (a strategy's δ is convex in α). The strategy is looked for anew after
every few steps only: it changes slowly, and a stale one is a strategy as well.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from affidavit.accountant.methods.chords import Use, prepare
from affidavit.accountant.methods.discrete import DiscreteProfile, chord_profile, tangent_profile
from affidavit.accountant.methods.sampled_use import SampledUse

if TYPE_CHECKING:
    from numpy import float64, int64, intp
    from numpy.typing import NDArray

    from affidavit.accountant.methods.pair_profiles import Last

    Array = NDArray[float64]

__all__ = ["Corridor", "Runs", "lower_profile", "planes_of", "upper_profile", "whole"]

OFTEN, MOST_STEPS_BETWEEN = 8, 64
"""The best t is looked for anew after a share of the steps since the range has changed, and after so many at least."""


Runs = Sequence[tuple[float, int]]
"""(range, uses) in the order of execution. Of equal arguments a corridor is one object: recursions are kept by it."""

MOMENT_ROUNDING = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class Corridor:
    """Lattice points ``first`` to ``high[k]``, at spacing ``spacing``, for k = 0 … T uses still to come.

    ``concentrated[k]`` is ρ_k of the exponential uses; ``alone`` says that nothing else runs after them, so that the
    moment bound holds, and ``first`` is 0. ``thin``: one use, of which all are alike, that may not see the record.
    """

    spacing: float
    first: int
    high: NDArray[int64]
    concentrated: Array
    alone: bool
    thin: SampledUse | None = None

    @property
    def taken(self) -> float:
        """The chance that a use sees the record."""
        return 1.0 if self.thin is None else self.thin.taken

    @property
    def points(self) -> int:
        """Lattice points of all steps together: what the recursion's time is proportional to."""
        return int((self.high - self.first + 1).sum())

    def tail(self, k: int, x: float) -> tuple[float, float]:
        """(c, λ) with H_k(e^y) <= e^{c − λ y} for every y, good near ``x``; λ = 0 if nothing is known."""
        if self.thin is not None:
            return self.thin.tail().at(k, x)
        rho = float(self.concentrated[k]) * (1.0 + 1e-12)
        if not self.alone or rho <= 0.0 or x <= rho:
            return 0.0, 0.0
        # A value of λ near the best one; any λ > 0 is valid.
        rate = (x - rho) / (2.0 * rho)
        terms = rate * (rate + 1.0) * rho, rate * math.log(rate), -(1.0 + rate) * math.log1p(rate)
        return sum(terms) + MOMENT_ROUNDING * (1.0 + sum(map(abs, terms))), rate


@lru_cache(maxsize=32)
def whole(runs: Runs, spacing: float, *, width: float, bounded: bool, thin: SampledUse | None = None) -> Corridor:
    """The same window −``width`` … ``width`` at every step; if ``bounded``, from 0 to what the uses can reach."""
    import numpy as np

    steps = np.repeat([eta for eta, _ in reversed(runs)], [uses for _, uses in reversed(runs)])
    rho, reach = (np.concatenate(([0.0], np.cumsum(each))) for each in (steps * steps / 8.0, steps))
    first = 0 if bounded else math.floor(-width / spacing) - 1
    ends = np.minimum(width, reach) if bounded else np.full(len(rho), width)
    high = np.maximum(np.ceil(ends / spacing).astype(np.int64) + 1, first + 1)  # two points at least
    return Corridor(spacing, first, high, rho, bounded, thin)


@lru_cache(maxsize=16)
def upper_profile(runs: Runs, corridor: Corridor, *, last: Last | None = None) -> DiscreteProfile:
    """Profile above the adaptive composition of ``runs`` = (range, uses) in order, then ``last``."""
    if last is None:
        done, values = 1, _one_use(runs[-1][0], _points(corridor, 1), corridor.taken)[0]
    else:
        done, values = 0, last.upper(_points(corridor, 0))
    side = _UpperSide(runs, corridor)
    side.put(done, values)
    for move in _moves(runs, corridor, done):
        side.step(move)
    return chord_profile(*side.end())


@lru_cache(maxsize=16)
def lower_profile(runs: Runs, corridor: Corridor, *, last: Last | None = None) -> DiscreteProfile:
    """Profile of an explicit strategy for ``runs`` then ``last``; below the adaptive composition."""
    import numpy as np

    if last is None:
        done, lines = 1, np.stack(_one_use(runs[-1][0], _points(corridor, 1), corridor.taken))
    else:
        x = _points(corridor, 0)
        done, lines = 0, np.stack((last.lower(x), last.lower_slope(x)))
    side = _LowerSide(runs, corridor)
    side.put(done, lines)
    for move in _moves(runs, corridor, done):
        side.step(move)
    return tangent_profile(*side.end())


def _points(corridor: Corridor, k: int) -> Array:
    """ln α of the lattice points with k uses still to come."""
    import numpy as np

    points: Array = np.arange(corridor.first, corridor.high[k] + 1, dtype=np.float64) * corridor.spacing
    return points


def _nothing(x: Array) -> tuple[Array, Array]:
    """H_0 and −α dH_0/dα."""
    import numpy as np

    left = np.minimum(x, 0.0)
    return -np.expm1(left), np.where(x < 0.0, np.exp(left), 0.0)


def _one_use(eta: float, x: Array, taken: float) -> tuple[Array, Array]:
    """H_1 and −α dH_1/dα, x >= 0, where H_0 is 0."""
    import numpy as np

    inside = np.minimum(x, eta)
    gap, scale = np.expm1((eta - inside) / 2.0), taken / math.expm1(eta)
    return np.exp(inside) * gap * gap * scale, np.exp(inside) * gap * scale


class _Move(NamedTuple):
    """From k − 1 uses still to come to k."""

    k: int
    use: Use
    fresh: bool
    """The best t is to be looked for anew."""
    points: int
    rho: float
    """ρ_k."""


def _moves(runs: Runs, corridor: Corridor, done: int) -> Iterator[_Move]:
    """The uses from the last to the first, without the ``done`` last ones."""
    rho, points = corridor.concentrated.tolist(), (corridor.high - corridor.first + 1).tolist()
    k = looked = 0
    for eta, uses in reversed(runs):
        use = prepare(eta, corridor.spacing)
        for since in range(uses):
            k += 1
            if k > done:
                fresh = k - looked >= min(MOST_STEPS_BETWEEN, max(1, since // OFTEN))
                looked = k if fresh else looked
                yield _Move(k, use, fresh, points[k], rho[k])


class _Side(ABC):
    """Functions on the lattice points of the corridor, one a row, with room for what a use looks at beyond."""

    def __init__(self, runs: Runs, corridor: Corridor, rows: int) -> None:
        import numpy as np

        margin = max(prepare(eta, corridor.spacing).margin for eta, _ in runs)
        self._corridor, self._first = corridor, corridor.first
        self._origin = corridor.first - margin
        self._rows = np.zeros((rows, int(corridor.high.max()) + margin + 1 - self._origin))
        self._uses = 0

    def put(self, k: int, rows: Array) -> None:
        """The functions of k uses."""
        self._uses = k
        self._at(self._first, int(self._corridor.high[k]))[:] = rows

    def _at(self, first: int, last: int) -> Array:
        """Lattice points ``first`` to ``last``."""
        return self._rows[:, first - self._origin : last + 1 - self._origin]

    def _reach(self, move: _Move) -> Array:
        """What the use looks at, continued beyond what is known."""
        margin, known = move.use.margin, int(self._corridor.high[self._uses])
        first, last = self._first - margin, self._first + move.points - 1 + margin
        if last > known:
            self._continue_right(known, last)
        if self._corridor.alone:
            self._at(first, -1)[:] = self._mirrored(-first)
        else:
            self._continue_left(first, self._first)
        return self._at(first, last)

    def end(self) -> tuple[Array, ...]:
        """ln α and the functions of all uses, on both sides of α = 1 if they begin there."""
        import numpy as np

        first, last = self._first, int(self._corridor.high[self._uses])
        rows = self._at(first, last)
        if self._corridor.alone:
            first, rows = -last, np.hstack((self._mirrored(last), rows))
        points: Array = np.arange(first, last + 1, dtype=np.float64) * self._corridor.spacing
        return points, *rows

    @abstractmethod
    def _mirrored(self, count: int) -> Array:
        """Points −``count`` to −1, from 1 to ``count``."""

    @abstractmethod
    def _continue_left(self, first: int, known: int) -> None:
        """Fill in points ``first`` to ``known`` − 1."""

    @abstractmethod
    def _continue_right(self, known: int, last: int) -> None:
        """Fill in points ``known`` + 1 to ``last``."""


class _UpperSide(_Side):
    """Values above H_k."""

    def __init__(self, runs: Runs, corridor: Corridor) -> None:
        super().__init__(runs, corridor, 1)

    def step(self, move: _Move) -> None:
        """One use more."""
        import numpy as np

        before = self._reach(move)[0]
        above = move.use.upper(planes_of(before, move.use), move.use.margin - self._first)
        if (taken := self._corridor.taken) < 1.0:
            above = taken * above + (1.0 - taken) * before[move.use.margin : move.use.margin + move.points]
        self.put(move.k, np.minimum(above, 1.0, out=above)[None])  # coarse lattices of large ranges are far above

    def _mirrored(self, count: int) -> Array:
        """H_k(1/α) = 1 − 1/α + H_k(α)/α, from −``count`` to −1."""
        import numpy as np

        x = np.arange(-count, 0) * self._corridor.spacing
        mirrored: Array = np.exp(x) * self._at(1, count)[0, ::-1] - np.expm1(x)
        return mirrored[None]

    def _continue_left(self, first: int, known: int) -> None:
        """The chord from (0, 1)."""
        import numpy as np

        x = np.arange(first - known, 0) * self._corridor.spacing
        self._at(first, known - 1)[0] = 1.0 + (float(self._at(known, known)[0, 0]) - 1.0) * np.exp(x)

    def _continue_right(self, known: int, last: int) -> None:
        """The chord to ``last``, where the last value and the moment bound lie above H_k."""
        import numpy as np

        x, value = last * self._corridor.spacing, float(self._at(known, known)[0, 0])
        constant, rate = self._corridor.tail(self._uses, x)
        end = min(value, math.exp(min(constant - rate * x, 0.0)))
        share = np.expm1(np.arange(1, last - known + 1) * self._corridor.spacing)
        self._at(known + 1, last)[0] = value + (end - value) * (share / share[-1])


def planes_of(values: Array, use: Use) -> Array:
    """A function at the lattice points, and its chords at the two places within cells."""
    import numpy as np

    if not use.inside:
        return values[None]
    planes = np.empty((3, len(values)))
    planes[0] = values
    for plane, inside in zip(planes[1:], use.inside, strict=True):
        share = math.expm1(inside) / math.expm1(use.spacing)
        plane[:-1] = (1.0 - share) * values[:-1] + share * values[1:]
        plane[-1] = values[-1]
    return planes


class _LowerSide(_Side):
    """A value and a slope at each lattice point, of lines below H_k."""

    def __init__(self, runs: Runs, corridor: Corridor) -> None:
        super().__init__(runs, corridor, 2)
        self._choice: NDArray[intp] | None = None
        self._chosen: _Move

    def step(self, move: _Move) -> None:
        """One use more."""
        import numpy as np

        use, points = move.use, move.points
        planes = self._planes(self._reach(move), use)
        if move.fresh or self._choice is None:
            self._choice, self._chosen = use.best(planes[0]), move
        at = np.arange(points)
        # The best t depends on x and k by about x/ρ_k.
        same = ((at + self._first) * (self._chosen.rho / move.rho)).astype(np.intp) - self._first
        choice = self._choice[np.clip(same, 0, len(self._choice) - 1)]
        length = planes.shape[2]
        at += use.margin
        (near_plane, near), (far_plane, far) = use.near, use.far
        first = at + (near_plane * length + near)[choice]
        second = at + (far_plane * length + far)[choice]
        chance = use.chance[choice]
        result = np.empty((2, points))
        for side, flat in enumerate(planes.reshape(2, -1)):
            behind = flat[second]
            result[side] = chance * (flat[first] - behind) + behind
        if (taken := self._corridor.taken) < 1.0:
            result = taken * result + (1.0 - taken) * planes[:, 0, use.margin : use.margin + points]
        self.put(move.k, result)

    def _mirrored(self, count: int) -> Array:
        """H_k(1/α) = 1 − 1/α + H_k(α)/α and its slope, from −``count`` to −1."""
        import numpy as np

        x = np.arange(-count, 0) * self._corridor.spacing
        values, slopes = self._at(1, count)[:, ::-1]
        scale = np.exp(x)
        return np.stack((scale * values - np.expm1(x), scale * (1.0 - values - slopes)))

    def _continue_left(self, first: int, known: int) -> None:
        """1 − α."""
        import numpy as np

        x = np.arange(first, known, dtype=np.float64) * self._corridor.spacing
        self._at(first, known - 1)[:] = _nothing(x)

    def _continue_right(self, known: int, last: int) -> None:
        self._at(known + 1, last)[:] = 0.0

    @staticmethod
    def _planes(lines: Array, use: Use) -> Array:
        """Values and slopes of H_{k−1}: (2, planes, points)."""
        import numpy as np

        if not use.inside:
            return lines[:, None]
        planes = np.empty((2, 3, lines.shape[1]))
        planes[:, 0] = lines
        values, slopes = planes
        for plane, inside in enumerate(use.inside, start=1):
            # The tangent of the nearer lattice point.
            nearer = 0 if inside <= use.spacing / 2.0 else 1
            offset = inside - nearer * use.spacing
            value, slope = (np.roll(side[0], -nearer) for side in (values, slopes))
            values[plane] = value - slope * math.expm1(offset)
            slopes[plane] = slope * math.exp(offset)
            if nearer:
                values[plane, -1] = slopes[plane, -1] = 0.0
        return planes
