"""The adaptive recursion for exponential mechanisms, on a logarithmic lattice, from both sides.

Setting (Dong, Durfee and Rogers 2020; Lemma 1 of Dwork and Rothblum's hockey-stick form): one use
of bounded range η is dominated by a two-point mechanism with losses t and t − η for some t in
[0, η]: with u = e^t and E = e^η, P(loss = t) = p = (E − u)/(E − 1). The adversary picks t at each
step. With α = e^ε and H_k(α) the largest δ that the last k uses can reach,

    H_0(α) = (1 − α)₊,     H_k(α) = max over t of  p H_{k−1}(α/u) + (1 − p) H_{k−1}(α E/u),

and δ(ε) = H_T(e^ε). It is attained: two tokens and suitable logits realise any t. Each H_k is
convex and decreasing in α with H_k(0) = 1 and H_k(α) >= 1 − α. One step in closed form, where both
sides start: H_1(α) = (√E − √α)²/(E − 1) for 1/E <= α <= E.

H_k is kept on the lattice points of a ``Corridor``, which leaves out what the answer hardly depends on.

Upper side. H_{k−1} is replaced by its chords between lattice points, and the maximum over *all* t is bounded in closed
form, piece by piece (``pieces``). Left of the corridor stands the smaller of the chord from (0, 1) and a moment
bound, right of it the last value: all lie above H_{k−1}.

Lower side. t is restricted to breakpoints of the lattice, 1 − α is taken left of the corridor and 0 right of it:
the value of an explicit strategy. Its slope is carried along: S = −α dH/dα obeys the same recursion, so
between lattice points the tangents lie below (a strategy's δ is convex in α). The strategy is looked for anew after
every few steps only: it changes slowly, and a stale one is a strategy as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from affidavit.accountant.methods.corridor import Corridor, Runs
from affidavit.accountant.methods.discrete import DiscreteProfile
from affidavit.accountant.methods.pieces import Use, prepare, upper_bound

if TYPE_CHECKING:
    from numpy import float64, intp
    from numpy.typing import NDArray

    Array = NDArray[float64]

__all__ = ["Last", "OneUse", "lower_profile", "upper_profile"]

BLOCK = 700
"""Lattice points with one layout of pieces."""
MOST_STEPS_BETWEEN = 64
"""The best t is looked for anew after this many steps, and an eighth of those since the range has changed."""


SLOW, EVERY = 3, (0, 2**31)
"""Cells by which the best t moves, at most, until it is looked for again; all breakpoints."""
UNEVEN = 8
"""Before so many uses the objective may have several maxima in t: all pieces are of one cell."""


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


def upper_profile(runs: Runs, corridor: Corridor, *, last: Last | None = None) -> DiscreteProfile:
    """Profile above the adaptive composition of ``runs`` = (range, uses) in order, then ``last``."""
    if last is None:
        done, values = 1, _one_use(runs[-1][0], _points(corridor, 1))[0]
    else:
        done, values = 0, last.upper(_points(corridor, 0))
    step = _UpperStep(corridor)
    for move in _moves(runs, corridor, done):
        values = step(values, move)
    return _chord_profile(_points(corridor, len(corridor.low) - 1), values)


def lower_profile(runs: Runs, corridor: Corridor, *, last: Last | None = None) -> DiscreteProfile:
    """Profile of an explicit strategy for ``runs`` then ``last``; below the adaptive composition."""
    import numpy as np

    if last is None:
        done, lines = 1, np.stack(_one_use(runs[-1][0], _points(corridor, 1)))
    else:
        x = _points(corridor, 0)
        done, lines = 0, np.stack((last.lower(x), last.lower_slope(x)))
    step = _LowerStep(corridor)
    for move in _moves(runs, corridor, done):
        lines = step(lines, move)
    return _tangent_profile(_points(corridor, len(corridor.low) - 1), lines[0], lines[1])


def _points(corridor: Corridor, k: int) -> Array:
    """ln α of the lattice points with k uses still to come."""
    import numpy as np

    points: Array = np.arange(corridor.low[k], corridor.high[k] + 1, dtype=np.float64) * corridor.spacing
    return points


def _nothing(x: Array) -> tuple[Array, Array]:
    """H_0 and −α dH_0/dα."""
    import numpy as np

    return np.maximum(0.0, -np.expm1(x)), np.where(x < 0.0, np.exp(np.minimum(x, 0.0)), 0.0)


def _one_use(eta: float, x: Array) -> tuple[Array, Array]:
    """H_1 and −α dH_1/dα."""
    import numpy as np

    inside = np.clip(x, -eta, eta)
    gap = np.expm1((eta - inside) / 2.0)
    scale = 1.0 / math.expm1(eta)
    before = x < -eta
    values = np.where(before, -np.expm1(np.minimum(x, 0.0)), np.exp(inside) * gap * gap * scale)
    return values, np.where(before, np.exp(np.minimum(x, 0.0)), np.exp(inside) * gap * scale)


class OneUse(NamedTuple):
    """The profile of a single use, in closed form."""

    eta: float

    def delta(self, epsilon: float) -> float:
        """H_1(e^ε)."""
        import numpy as np

        return float(_one_use(self.eta, np.array([epsilon]))[0][0])


class _Move(NamedTuple):
    """From k − 1 uses still to come to k."""

    k: int
    use: Use
    fresh: bool
    """The best t is to be looked for anew."""
    low: int
    points: int
    before: int
    """The lattice point at which the functions of k − 1 begin."""
    rho: float
    """ρ_k."""


def _moves(runs: Runs, corridor: Corridor, done: int) -> Iterator[_Move]:
    """The uses from the last to the first, without the ``done`` last ones."""
    rho = corridor.concentrated
    k = looked = 0
    for eta, uses in reversed(runs):
        use = prepare(eta, corridor.spacing, corridor.slope)
        for since in range(uses):
            k += 1
            if k > done:
                fresh = k - looked >= min(MOST_STEPS_BETWEEN, max(1, since // 8))
                looked = k if fresh else looked
                low = int(corridor.low[k])
                points = int(corridor.high[k]) - low + 1
                yield _Move(k, use, fresh, low, points, int(corridor.low[k - 1]), float(rho[k]))


def _fit(known: Array, before: int, low: int, points: int) -> tuple[int, Array, int]:
    """(points missing on the left, what is known, points missing on the right) of a window from ``low``."""
    first = min(max(low, before), low + points)
    last = max(first, min(low + points, before + len(known)))
    return first - low, known[first - before : last - before], low + points - last


def _around(best: NDArray[intp], use: Use, k: int) -> tuple[int, int]:
    """The breakpoints among which the best ones will be a few uses later."""
    reserve = SLOW * use.unit if k > UNEVEN else len(use.times)
    return int(best.min()) - reserve, int(best.max()) + reserve


class _UpperStep:
    """One use on the upper side."""

    def __init__(self, corridor: Corridor) -> None:
        self._corridor = corridor
        self._ranges: list[tuple[int, int]] = []
        self._use: Use | None = None
        self._among = EVERY

    def __call__(self, values: Array, move: _Move) -> Array:
        import numpy as np

        use, points = move.use, move.points
        planes = self._planes(values, move)
        width = -(-points // max(1, round(points / BLOCK)))
        starts = [min(start, points - width) for start in range(0, points, width)]
        if move.fresh or len(starts) != len(self._ranges):
            self._ranges = self._look(planes, move, width, starts)
        result = np.empty(points)
        for start, best in zip(starts, self._ranges, strict=True):
            layout = use.layout(*best)
            near, far = use.looks(planes, width, use.margin + start, layout.rows)
            result[start : start + width] = upper_bound(near, far, layout, use.slack)
        return result

    def _planes(self, values: Array, move: _Move) -> Array:
        """H_{k−1} about the new window, and at the two places within cells."""
        import numpy as np

        use, h = move.use, self._corridor.spacing
        low = move.low - use.margin
        missing, known, beyond = _fit(values, move.before, low, move.points + 2 * use.margin)
        planes = np.empty((1 + len(use.inside), move.points + 2 * use.margin))
        ext = planes[0]
        if missing:
            x = np.arange(low, low + missing) * h
            constant, rate = self._corridor.tail(move.k - 1, move.before * h)
            chord = 1.0 + (values[0] - 1.0) * np.exp(x - move.before * h)
            ext[:missing] = np.minimum(chord, np.exp(np.minimum(constant - rate * x, 0.0)))
        ext[missing : len(ext) - beyond] = known
        if beyond:
            end = low + len(ext) - beyond
            constant, rate = self._corridor.tail(move.k - 1, end * h)
            x = np.arange(end, end + beyond) * h
            ext[len(ext) - beyond :] = np.minimum(values[-1], np.exp(np.minimum(constant - rate * x, 0.0)))
        for plane, inside in enumerate(use.inside, start=1):
            share = math.expm1(inside) / math.expm1(h)
            planes[plane, :-1] = (1.0 - share) * ext[:-1] + share * ext[1:]
            planes[plane, -1] = ext[-1]
        return planes

    def _look(self, planes: Array, move: _Move, width: int, starts: list[int]) -> list[tuple[int, int]]:
        """The least and the largest best breakpoint of each block."""
        use = move.use
        if move.k <= UNEVEN:
            return [(0, len(use.times) - 1)] * len(starts)
        best = use.best(planes, move.points, use.margin, self._among if self._use is use else EVERY)
        self._use, self._among = use, _around(best, use, move.k)
        # At a cut end the continuation, not the mechanism, decides.
        cut = use.cells // 2 if move.points > 4 * use.cells else 0
        best = best[cut : len(best) - cut]
        ranges = []
        for start in starts:
            part = best[max(0, start - cut) : max(1, start + width - cut)]
            ranges.append((int(part.min()), int(part.max())))
        return ranges


class _LowerStep:
    """One use on the lower side: a value and a slope at each lattice point."""

    def __init__(self, corridor: Corridor) -> None:
        self._corridor = corridor
        self._choice: NDArray[intp] | None = None
        self._chosen: _Move
        self._use: Use | None = None
        self._among = EVERY

    def __call__(self, lines: Array, move: _Move) -> Array:
        import numpy as np

        use, points = move.use, move.points
        planes = self._planes(lines, move)
        if move.fresh or self._choice is None:
            found = use.best(planes[0], points, use.margin, self._among if self._use is use else EVERY)
            self._choice, self._chosen, self._use = found, move, use
            self._among = _around(found, use, move.k)
        at = np.arange(points)
        # The best t depends on x and k by about x/ρ_k.
        same = ((at + move.low) * (self._chosen.rho / move.rho)).astype(np.intp) - self._chosen.low
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
        return result

    def _planes(self, lines: Array, move: _Move) -> Array:
        """Values and slopes of H_{k−1} about the new window: (2, planes, points)."""
        import numpy as np

        use, h = move.use, self._corridor.spacing
        low, length = move.low - use.margin, move.points + 2 * use.margin
        planes = np.empty((2, 1 + len(use.inside), length))
        missing, _, beyond = _fit(lines[0], move.before, low, length)
        outside = _nothing(np.arange(low, low + missing, dtype=np.float64) * h)
        for side, values, before in zip(planes[:, 0], lines, outside, strict=True):
            side[:missing] = before
            side[missing : length - beyond] = _fit(values, move.before, low, length)[1]
            side[length - beyond :] = 0.0
        values, slopes = planes
        for plane, inside in enumerate(use.inside, start=1):
            # The tangent of the nearer lattice point.
            nearer = 0 if inside <= h / 2.0 else 1
            offset = inside - nearer * h
            value, slope = (np.roll(side[0], -nearer) for side in (values, slopes))
            values[plane] = value - slope * math.expm1(offset)
            slopes[plane] = slope * math.exp(offset)
            if nearer:
                values[plane, -1] = slopes[plane, -1] = 0.0
        return planes


def _chord_profile(x: Array, values: Array) -> DiscreteProfile:
    """The chords of the convex minorant, the one to (0, 1) on the left and the constant on the right, as losses.

    The values bound a convex function from above, so their convex minorant does; they need not be convex themselves.
    """
    import numpy as np

    kept: list[tuple[float, float, float]] = []  # x, value, and α × slope of the chord that ends there
    masses: list[float] = []  # α × change of slope at each kept point but the last
    for point, value in zip(x.tolist(), values.tolist(), strict=True):
        arriving = value - 1.0
        while kept:
            before, height, steepness = kept[-1]
            leaving = (value - height) / math.expm1(min(point - before, 700.0))
            if leaving > steepness:
                masses.append(leaving - steepness)
                arriving = (value - height) / -math.expm1(before - point)
                break
            kept.pop()
            if masses:
                masses.pop()
        kept.append((point, value, arriving))
    masses.append(-kept[-1][2])
    losses = np.array([point for point, _, _ in kept])
    return DiscreteProfile(losses, np.maximum(0.0, np.array(masses)), kept[-1][1])


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
