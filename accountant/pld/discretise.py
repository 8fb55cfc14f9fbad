r"""From a curve to masses on a uniform loss grid, from above and from below, both O(h²).

Grid points l_i = origin + i h, a_i = e^{l_i}; H is the profile as a function of α, p_i the P-mass
at l_i; the discretised profile Σ p_i (1 − α/a_i)₊ is piecewise linear in α with kinks at the a_i.

**Upper** (connect the dots; Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022): equal to H at the
a_i, above it between, since H is convex. In masses: the mass (P_i, Q_i) of (l_i, l_{i+1}] is split
between its ends so that both totals stay; the right end gets (P_i − e^{l_i} Q_i)/(1 − e^{−h}).
Mass above the grid goes to +inf, mass below it to l_0: both raise losses.

**Lower**: with m_i in [l_i, l_{i+1}], about its midpoint, and ℓ_i the tangent of H at e^{m_i} (value and
slope are tails), take v_i = min(ℓ_{i−1}(a_i), ℓ_i(a_i)). The chord from v_i to v_{i+1} is under ℓ_i, so
under H. In masses, with bins (m_{i−1}, m_i] around l_i and D_i = P_i − a_i Q_i = ℓ_{i−1}(a_i) − ℓ_i(a_i):
g_i = (−D_i)₊ and g'_i = (D_i)₊ are what v_i falls short of ℓ_i and ℓ_{i−1}, the chord's slope is
−Q(L > m_i) + (g_i − g'_{i+1})/(a_{i+1} − a_i), and the P-mass at kink i is

    p_i = P_i − D_i + (g_i − g'_{i+1})/(e^h − 1) − (g_{i−1} − g'_i)/(1 − e^{−h}).

Left of J the curve follows 1 − α Q(L > −inf) (bin J holds all finite mass at or below m_J), right of K it follows 0
(bin K holds all above m_{K−1}); J and K are the outermost indices for which these lines meet the
tangents from below. So the total P-mass stays 1 (a grid of positive losses only extends its first
chord to the left instead, and loses the mass below). Where kinks come out negative (edges, atoms
off the grid) the convex minorant is taken, which is lower still.

Steps wider than ``COARSE`` (losses in the thousands and more) round down instead, O(h).

Rounding: masses are differences of tails or of heads, whichever is smaller, never second
differences; a tail's relative rounding error is at most ``rounding`` (charged by the composer,
once a step), and the error of a split or a gap, relative to the tail and not to the bin, is added
to the side that is safe.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from affidavit.accountant.pld.curve import Array, Curve, Logs
from affidavit.accountant.rounding import ULP

__all__ = ["LEAST", "Masses", "Side", "bins", "discretise_lower", "discretise_upper", "less", "loss_rounding", "parted"]

Side = Literal["upper", "lower"]

LEAST = 1e-300
"""Smaller masses have lost digits, or all of themselves, to underflow: what is charged for each instead."""
COARSE = 4.0
"""Widest step for the tangent construction."""


@dataclass(frozen=True, slots=True)
class Masses:
    """P-masses at ``origin`` + i ``step``, ``infinity`` at +inf.

    ``rounding`` bounds the relative error of every tail sum of the masses.
    """

    origin: float
    step: float
    masses: Array
    infinity: float
    rounding: float

    @property
    def losses(self) -> Array:
        """The grid."""
        return self.origin + self.step * np.arange(self.masses.size, dtype=np.float64)


def discretise_upper(curve: Curve, *, origin: float, step: float, points: int) -> Masses:
    """Masses whose profile is at least the curve's, on ``points`` >= 1 grid points."""
    # Discretised on a grid above this one by less than ``loss_rounding``, so that an atom that
    # rounding put just above a point counts as on it; the composer shifts ε back.
    grid = origin + step * np.arange(points, dtype=np.float64)
    grid += loss_rounding(grid)
    logs = curve.logs(grid)
    infinity = curve.infinity
    if logs.p_tail[-1] > -math.inf:
        infinity = max(math.exp(float(logs.p_tail[-1])), infinity) * (1.0 + 64.0 * ULP) + LEAST
    result = np.zeros(points)
    result[0] = math.exp(float(logs.p_head[0]))
    if points > 1:
        p, scaled, error = bins(logs, grid[:-1], curve.accuracy)
        right = (p - scaled + error) / -math.expm1(-step)
        if curve.convex:
            right = np.clip(right, 0.0, np.maximum(p, 0.0))
        result[:-1] += p - right
        result[1:] += right
        _make_convex(result, step, side="upper")
    return Masses(origin, step, np.maximum(result, 0.0), min(infinity, 1.0), _rounding(logs) + curve.accuracy)


def discretise_lower(curve: Curve, *, origin: float, step: float, points: int) -> Masses:
    """Masses whose profile is at most the curve's, on ``points`` >= 2 grid points."""
    grid = origin + step * np.arange(points, dtype=np.float64)
    if step > COARSE:
        return _rounded_down(curve, grid, step)
    logs = curve.logs(_between(curve, grid, step))
    infinity = curve.infinity
    # The masses at ±inf stay where they are: what follows is about the finite losses.
    logs = logs._replace(p_tail=less(logs.p_tail, infinity), q_head=less(logs.q_head, curve.bottom))
    first, last = _ends(logs, grid)
    if last <= first or grid[last] < 0.0:
        return _one_loss(curve, step, logs)
    inner = Logs(*(part[first:last] for part in logs))
    at = grid[first : last + 1]
    p, scaled, error = bins(inner, at[1:-1], curve.accuracy)
    # Left of the first kink: the line 1 − α if losses can be negative there, else the first chord.
    closed = at[0] <= 0.0
    head, head_scaled = (_exp(inner.p_head[0]), _exp(at[0] + inner.q_head[0])) if closed else (0.0, 0.0)
    p, scaled = np.append(head, p), np.append(head_scaled, scaled)
    error = np.append(8.0 * ULP * (head + head_scaled) if head != head_scaled else 0.0, error)
    if not closed and p.size > 1:
        error[0] = max(p[1] - scaled[1], 0.0) + error[1]
    # Where rounding may leave v_i below 0, K is the point before: v there is not negative, and so not below the chord.
    values = np.exp(inner.p_tail) - np.exp(np.minimum(at[:-1] + inner.q_tail, 700.0))
    lost = np.flatnonzero(values < np.maximum(scaled - p, 0.0) + error)
    if lost.size > 0:
        kept = int(lost[0]) - 1
        if kept < 1 or at[kept] < 0.0:
            return _one_loss(curve, step, logs)
        inner, at = Logs(*(part[:kept] for part in inner)), at[: kept + 1]
        p, scaled, error = p[:kept], scaled[:kept], error[:kept]
    tail = _exp(inner.p_tail[-1])
    tail_scaled = min(_exp(at[-1] + inner.q_tail[-1]), tail)
    p, scaled, error = np.append(p, tail), np.append(scaled, tail_scaled), np.append(error, 0.0)
    gap = p - scaled
    below = np.maximum(-gap, 0.0) + error
    above = np.maximum(gap, 0.0) + error
    above[0] = below[-1] = 0.0
    if not closed:
        below[0] = above[1]
    result = p - gap
    lift = (below[:-1] - above[1:]) / math.expm1(step)
    result[:-1] += lift
    result[1:] -= lift * math.exp(step)
    _make_convex(result, step, side="lower")
    result = np.maximum(result, 0.0)
    # A large lift (a grid that ends inside the curve) is taken from one mass and added to the next.
    tails = np.cumsum(result[::-1])[::-1]
    shares = np.abs(lift) * math.exp(step) / np.maximum(tails[:-1], 1e-300)
    rounding = _rounding(logs) + curve.accuracy + 2.0 * ULP * float(shares.max(initial=0.0))
    return Masses(float(at[0]), step, result, infinity, rounding)


def _between(curve: Curve, grid: Array, step: float) -> Array:
    """m_i: midpoints, but next to an atom at either end of the support, which is a kink of its own there."""
    between: Array = grid[:-1] + 0.5 * step
    if between.size > 1 and curve.atoms:
        near = loss_rounding(grid)
        if curve.low in curve.atoms and abs(grid[0] - curve.low) <= near:
            between[0] = max(float(grid[0]), curve.low)
        if curve.high in curve.atoms and abs(grid[-1] - curve.high) <= near:
            between[-1] = math.nextafter(min(float(grid[-1]), curve.high), -math.inf)
    return between


def _one_loss(curve: Curve, step: float, logs: Logs) -> Masses:
    """All finite losses merged, where the grid is coarser than the curve, or its rounding is."""
    merged = math.log1p(-curve.infinity) - math.log1p(-curve.bottom)
    return Masses(merged, step, np.array([1.0 - curve.infinity]), curve.infinity, _rounding(logs))


def less(log_mass: Array, mass: float) -> Array:
    """ln(e^x − mass), nothing where that is rounding."""
    if mass == 0.0:
        return log_mass
    rest = np.exp(log_mass) - mass
    with np.errstate(divide="ignore"):
        return np.where(rest > 1e-12 * mass, np.log(np.maximum(rest, 0.0)), -math.inf)


def _rounded_down(curve: Curve, grid: Array, step: float) -> Masses:
    """Losses rounded down to the grid, O(h): for steps so wide that a tangent leaves the profile at once."""
    # Bins [l_i, l_{i+1}): an atom on a point, up to rounding, stays there.
    logs = curve.logs(grid - loss_rounding(grid))
    p, _, _ = bins(logs, grid[:-1], curve.accuracy)
    last = max(math.exp(float(logs.p_tail[-1])) - curve.infinity, 0.0)
    result = np.maximum(np.concatenate((p, [last])), 0.0)
    return Masses(float(grid[0]), step, result, curve.infinity, _rounding(logs) + curve.accuracy)


def _exp(log_value: float) -> float:
    return math.exp(min(float(log_value), 700.0))


def bins(logs: Logs, at: Array, accuracy: float) -> tuple[Array, Array, Array]:
    """Bin masses P_i, e^{at_i} Q_i and a bound on the rounding of their difference.

    Bin i lies between the points i and i+1 of ``logs``; for P and for Q apart, tails or heads
    are subtracted, whichever are smaller.
    """
    p_near, p_far = parted(logs.p_tail, logs.p_head)
    q_near, q_far = parted(logs.q_tail, logs.q_head)
    p_big, p_small = np.exp(p_near), np.exp(p_far)
    q_big, q_small = np.exp(np.minimum(at + q_near, 700.0)), np.exp(np.minimum(at + q_far, 700.0))
    size_p = np.where(np.isfinite(p_near), np.abs(p_near), 0.0)
    size_q = np.where(np.isfinite(q_near), np.abs(q_near), 0.0) + np.abs(at)
    error = p_big * (4.0 * ULP * (2.0 + size_p) + accuracy) + q_big * (4.0 * ULP * (2.0 + size_q) + accuracy)
    return p_big - p_small, q_big - q_small, error


def parted(log_tail: Array, log_head: Array) -> tuple[Array, Array]:
    """(near, far) with e^near − e^far the mass of each bin."""
    use_tail = log_tail[:-1] < log_head[1:]
    return np.where(use_tail, log_tail[:-1], log_head[1:]), np.where(use_tail, log_tail[1:], log_head[:-1])


def _ends(logs: Logs, grid: Array) -> tuple[int, int]:
    """J and K of the lower construction.

    Ties (a tangent that meets its line exactly at a grid point) count as met within the rounding
    of the logarithms; ``loss_rounding`` covers the difference, a shift of the losses.
    """
    # Right: ℓ_i(a_{i+1}) = P(L > m_i) − a_{i+1} Q(L > m_i), without the mass at infinity.
    alive = logs.p_tail > -math.inf
    slack = loss_rounding(grid[:-1]) + 4.0 * ULP * np.where(alive, np.abs(logs.p_tail), 0.0)
    with np.errstate(invalid="ignore"):
        positive = alive & (grid[1:] + logs.q_tail <= logs.p_tail + slack)
    last = int(np.argmin(positive)) if not positive.all() else positive.size
    if grid[0] > 0.0:
        return 0, last
    # Left: ℓ_i(α) − (1 − α) = α Q(L <= m_i) − P(L <= m_i), at both ends of the bracket.
    there = logs.p_head > -math.inf
    slack = loss_rounding(grid[:-1]) + 4.0 * ULP * np.where(there, np.abs(logs.p_head), 0.0)
    with np.errstate(invalid="ignore"):
        at_left = ~there | (grid[:-1] + logs.q_head >= logs.p_head - slack)
        at_right = ~there | (grid[1:] + logs.q_head >= logs.p_head - slack)
    # v_i < 1 − α at i where the tangent of either neighbouring bracket is below that line.
    bad = np.zeros(grid.size, dtype=bool)
    bad[:-1] |= ~at_left
    bad[1:] |= ~at_right
    wrong = np.flatnonzero(bad[: last + 1])
    if wrong.size == 0:
        return 0, last
    first = int(wrong[-1])
    return (first if first < at_left.size and at_left[first] else first + 1), last


def loss_rounding(losses: Array) -> float:
    """By how much rounding may have moved a loss of this grid, per use."""
    return 32.0 * ULP * (1.0 + float(np.max(np.abs(losses), initial=0.0)))


def _make_convex(masses: Array, step: float, *, side: Side) -> None:
    """Replace the profile by its convex minorant, in place.

    A kink with negative mass lies above the chord of its neighbours, so it is no vertex of the
    minorant; removing it splits its mass between the neighbouring kinks, both totals kept. At an
    end only rounding makes one negative: above, it counts as 0; below, the first kink's
    negative mass goes to the next one, which moves positive mass to a lower loss.
    """
    if not (masses < 0.0).any():
        return
    # So small beside the tail that ``rounding`` covers all of them together.
    tails = np.abs(np.cumsum(masses[::-1])[::-1])
    masses[np.abs(masses) <= 8.0 * ULP / masses.size * tails] = 0.0
    places = np.flatnonzero(masses)
    values = masses[places]
    masses[places] = 0.0
    # What is negative now is no vertex, whatever becomes of the others: all at once, and then one by one.
    removed, kept = np.flatnonzero(values < 0.0), np.flatnonzero(values > 0.0)
    if kept.size == 0:
        return
    after = np.searchsorted(kept, removed)
    first, last = after == 0, after == kept.size
    below, above = places[kept[np.maximum(after - 1, 0)]], places[kept[np.minimum(after, kept.size - 1)]]
    at, mass = places[removed], np.where(last | (first & (side == "upper")), 0.0, values[removed])
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(first | last, mass, mass * np.expm1((below - at) * step) / np.expm1((below - above) * step))
    places, values = places[kept], values[kept] + np.bincount(after, share, kept.size + 1)[:-1]
    values += np.bincount(after, mass - share, kept.size + 1)[1:]
    left, right = list(range(-1, values.size - 1)), list(range(1, values.size + 1))
    queue = np.flatnonzero(values < 0.0).tolist()
    while queue:
        i = queue.pop()
        mass_here, values[i] = float(values[i]), 0.0
        lo, hi = left[i], right[i]
        if mass_here >= 0.0 or hi >= values.size or (lo < 0 and side == "upper"):
            values[i] = max(mass_here, 0.0)
            continue
        part = mass_here
        if lo >= 0:
            part *= math.expm1((places[lo] - places[i]) * step) / math.expm1((places[lo] - places[hi]) * step)
            values[lo] += mass_here - part
            right[lo] = hi
        values[hi] += part
        left[hi] = lo
        queue.extend(j for j in (lo, hi) if j >= 0 and values[j] < 0.0)
    masses[places] = values


def _rounding(logs: Logs) -> float:
    """Relative error of the tail sums: of exp(ln tail) above ``LEAST``, and of each difference of two."""
    finite = logs.p_tail[np.isfinite(logs.p_tail)]
    size = float(np.max(np.abs(finite), initial=0.0))
    return 8.0 * ULP * (5.0 + min(size, 750.0)) + ULP * logs.p_tail.size
