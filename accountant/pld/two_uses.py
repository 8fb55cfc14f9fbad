r"""Two uses: the losses of one merged over uneven bins, the profile of the other by its closed form.

δ(ε) = Σ p_i δ₂(ε − l_i) + P₁(L = ∞) for a law of losses l_i with masses p_i. Few losses (pure and approximate
mechanisms, multiplied out) are summed exactly. Else, with the masses (P, Q) of a bin (l, r]:

- **lower**: the bin as one outcome, a post-processing, of loss ln(P/Q);
- **upper**: split between its ends with both totals kept, which spreads the likelihood ratio as far as the bin allows.
  What lies above the last bin counts as infinite, what lies below the first as its left end.

A bin's part of δ is P δ₂(ε − ln(P/Q)), which rises in P and falls in Q: so rounding is charged by more P and less Q
above, and the reverse below. Bins are divided where the two sides differ most at the target, so the scales of the two
uses may be as far apart as they like; both sides converge like the square of the bins' widths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from affidavit.accountant.pld.atomic import Atomic, product
from affidavit.accountant.pld.curve import Array, Curve
from affidavit.accountant.pld.discretise import LEAST, bins, loss_rounding
from affidavit.accountant.pld.grid import CurveParts
from affidavit.accountant.pld.inverse import EXACT, inverse
from affidavit.accountant.pld.saddle import find_saddle, sketch
from affidavit.accountant.rounding import ULP

__all__ = ["two_uses"]

ROUNDS, MOST_BINS = 12, 2**13
MOST_ATOMS = {1: MOST_BINS, 2: 4}
"""Sums of few losses, by how many uses have others."""
NEGLIGIBLE, LEAST_LOG = -35.0, -690.0
"""ln of what may lie outside the bins, relative to δ; and at least, for an ε whose δ is not known."""
FURTHEST = 1e300
INTO, SHARE, WORTH = 4, 0.05, 0.5
"""Pieces of a bin that is divided; what share of the two sides' difference need not be looked at; what a round must
make of the width, else rounding keeps it."""


def two_uses(
    parts: CurveParts, *, delta: float | None, epsilon: float | None, tolerance: float, enough: float
) -> tuple[float, float] | None:
    """(lower, upper) of ε at ``delta`` or of δ at ``epsilon``; None for other ``parts``, or if no upper side is found.

    As wide as ``tolerance``, relative, or at most ``enough``.
    """
    atoms = tuple((curve, count) for curve, count in parts if isinstance(curve, Atomic) and curve.polygon)
    rest = [curve for curve, count in parts if (curve, count) not in atoms for _ in range(min(count, 3))]
    if not all(curve.convex for curve in rest) or all(curve.polygon for curve in rest):
        return None
    few = product(atoms)
    if few is None or few.losses.size > MOST_ATOMS.get(len(rest), 0):
        return None
    if len(rest) == 1:
        return _answer(_Sum.exact(few, rest[0]), delta, epsilon, close=EXACT)
    log_nothing = LEAST_LOG if delta is None else max(math.log(delta) + NEGLIGIBLE, LEAST_LOG)
    reaches = [sketch(curve).reach(log_low=log_nothing, log_tail=log_nothing) for curve in rest]
    if reaches[1][1] - reaches[1][0] < reaches[0][1] - reaches[0][0]:  # the narrower one takes fewer bins
        rest, reaches = rest[::-1], reaches[::-1]
    bottom, top = reaches[0]
    known = sketch(rest[0]).edges
    top += loss_rounding(np.array([bottom, top]))
    edges = np.unique(np.concatenate(([bottom], known[(known > bottom) & (known < top)], [top])))
    beside, best, width = _Sum.exact(few, rest[1]), (0.0, math.inf), 1.0
    rough = find_saddle([(sketch(curve), count) for curve, count in parts], epsilon=epsilon, delta=delta)[0]
    for _ in range(ROUNDS):
        merged = _Sum.merged(rest[0], beside, edges)
        near = best[1] if math.isfinite(best[1]) else rough.epsilon
        found = _answer(merged, delta, epsilon, close=SHARE * SHARE * max(tolerance, width), near=near)
        before, best = best, (max(best[0], found[0]), min(best[1], found[1]))
        if (
            best[1] <= enough
            or best[1] - best[0] <= tolerance * best[1]
            or not math.isfinite(best[1])
            or best[1] - best[0] > WORTH * (before[1] - before[0])
        ):
            break
        width = (best[1] - best[0]) / best[1]
        gaps = merged.gaps(best[1] if epsilon is None else epsilon)
        order = np.argsort(gaps)
        wide = order[np.cumsum(gaps[order]) > SHARE * float(gaps.sum())]
        shares = np.arange(1, INTO) / INTO
        added = (edges[wide, None] + shares * (edges[wide + 1] - edges[wide])[:, None]).ravel()
        edges = np.union1d(edges, added)
        if edges.size > MOST_BINS:
            break
    return best if math.isfinite(best[1]) else None


def _answer(
    one: _Sum, delta: float | None, epsilon: float | None, *, close: float, near: float = 0.0
) -> tuple[float, float]:
    if epsilon is not None:
        return one.delta(epsilon)
    return inverse(one.delta, delta or 0.0, furthest=min(one.highest, FURTHEST), near=near, close=close)


@dataclass(frozen=True, slots=True)
class _Sum:
    """δ of ``other`` beside a law from either side: ``low`` and ``high`` hold losses and masses.

    ``moved``: what rounding may have moved the losses by, beyond the rounding of what is computed with them here.
    """

    other: Curve | _Sum
    low: tuple[Array, Array]
    high: tuple[Array, Array]
    infinity: tuple[float, float]
    split: tuple[Array, Array]
    highest: float
    moved: float = 0.0

    @classmethod
    def exact(cls, law: Atomic, other: Curve) -> _Sum:
        """The losses of ``law`` as they are."""
        masses = np.exp(law.log_p)
        error = masses * (law.accuracy + 4.0 * ULP * (2.0 + np.abs(law.log_p)))
        infinity = law.infinity * (1.0 - 1e-14), law.infinity * (1.0 + 1e-14)
        low, high = (law.losses, masses - error), (law.losses, masses + error)
        return cls(other, low, high, infinity, (masses, masses), _beyond(law.high, other.high), law.moved)

    @classmethod
    def merged(cls, curve: Curve, other: _Sum, edges: Array) -> _Sum:
        """The losses of ``curve`` merged over the bins between ``edges``."""
        logs = curve.logs(edges)
        p, scaled, error = bins(logs, edges[:-1], curve.accuracy)
        width, rounding = np.diff(edges), 1e-12 + curve.accuracy
        fewer, most = np.maximum(p - error, 0.0), np.maximum(p, 0.0) + error
        with np.errstate(divide="ignore"):
            ratio = np.log(fewer) - np.log(np.where(fewer > 0.0, np.maximum(scaled, 0.0) + error, 1.0))
        gain = np.clip(ratio, 0.0, width)
        right = np.clip((p - scaled + error) / -np.expm1(-width), 0.0, most)
        left = most - right
        masses = np.append(left, 0.0)
        masses[1:] += right
        masses[0] += math.exp(float(logs.p_head[0])) * (1.0 + rounding)
        beyond = max(math.exp(float(logs.p_tail[-1])), curve.infinity) * (1.0 + rounding)
        infinity = curve.infinity * (1.0 - 1e-14), beyond + LEAST * edges.size
        # All below the first bin is one outcome.
        lowest = min(float(edges[0]), float(logs.p_head[0] - logs.q_head[0])) if logs.p_head[0] > -math.inf else 0.0
        losses = np.append(lowest - 2.0 * rounding, edges[:-1] + gain)
        fewer = np.append(math.exp(float(logs.p_head[0])) * (1.0 - rounding), fewer)
        return cls(other, (losses, fewer), (edges, masses), infinity, (left, right), _beyond(curve.high, other.highest))

    def delta(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) δ at ``epsilon`` >= 0."""
        at = np.array([epsilon])
        return float(self._delta(at, 0)[0]), float(self._delta(at, 1)[0])

    def gaps(self, epsilon: float) -> Array:
        """By how much the sides of each bin differ."""
        each = self._other(epsilon - self.high[0], 1)
        upper = self.split[0] * each[:-1] + self.split[1] * each[1:]
        return np.maximum(upper - self._terms(np.array([epsilon]), 0)[0, 1:], 0.0)

    def _delta(self, epsilon: Array, side: int) -> Array:
        """One side at several ε: 0 the lower, 1 the upper one."""
        rounding = (2 * side - 1) * ULP * (8.0 + self.high[0].size)
        found: Array = np.minimum(1.0, self.infinity[side] + self._terms(epsilon, side).sum(axis=1) * (1.0 + rounding))
        return found

    def _other(self, epsilon: Array, side: int) -> Array:
        other = self.other
        return other._delta(epsilon, side) if isinstance(other, _Sum) else other.deltas(epsilon)[side]

    def _terms(self, epsilon: Array, side: int) -> Array:
        losses, masses = self.high if side else self.low
        rounding = self.moved + 4.0 * ULP * np.add.outer(np.abs(epsilon), np.abs(losses))
        at = np.subtract.outer(epsilon, losses) + (-rounding if side else rounding)
        terms: Array = masses * self._other(at.ravel(), side).reshape(at.shape)
        return terms


def _beyond(one: float, other: float) -> float:
    """Where no loss is above, whatever rounding does."""
    return one + other + 64.0 * ULP * (abs(one) + abs(other))
