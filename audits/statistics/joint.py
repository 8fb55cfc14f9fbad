"""The exact joint test of two rates: does (FPR, TPR) lie in the region that a claim allows?

X ~ Bin(n₁, t) hits and Y ~ Bin(n₀, x) false alarms, independent, one score a run. The null is {t ≤ g(x)} for a
concave g (``boundaries``). Two Clopper-Pearson limits in a union bound waste most of α; here the chance of the whole
rejection region is computed, and its largest value over the null is α (Barnard 1945; Boschloo 1970; Lloyd 2008).

**Ordering.** The likelihood ratio: D(X, Y) = min over the null of n₁ KL(X/n₁ ‖ t) + n₀ KL(Y/n₀ ‖ x). The minimum has
t ≤ X/n₁ and x ≥ Y/n₀ (else move it there: the null is closed under smaller t and larger x), so D rises with X and
falls with Y: a rejection region {D ≥ d} is {X ≥ k(Y)} with k non-decreasing. How exactly D was computed is
immaterial to validity: whatever k is, the chance of the region is exact.

**The worst of the null.** P(X ≥ k(Y)) rises with t and falls with x. So its supremum is on the boundary, and for x in a
cell [a, b] it is at most its value at (a, g(b)): cells are halved until this is at most α, or some point of the
boundary is found to exceed it. Sums leave out no mass: what lies beyond the summed window is added.

**A lower bound** for a family of nested nulls (ε at a fixed δ; μ of Gaussian noise). Order outcomes by T, the largest
parameter at which D is still at least a constant c; then {T ≥ T(observed)} is one region R, and the bound is the
largest parameter whose worst chance of R is at most α: Buehler (1957), the best bound for the ordering; Lloyd and
Kabaila 2003 on orderings. The null grows with the parameter and R does not move, so the search is monotone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.audits.statistics.boundaries import Boundary, GaussianBoundary, TradeoffCurve, of_curve
from affidavit.audits.statistics.clopper_pearson import Counts, level

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rates = NDArray[np.float64]

__all__ = [
    "JointTest",
    "Region",
    "critical_region",
    "distance",
    "distance_at_least",
    "epsilon_lower",
    "largest_chance_is_at_most",
    "mu_lower",
    "one_point",
    "outcome",
    "perfect_distance",
    "violation_test",
]

_KNOTS = 400
_ACROSS = 65
_BLOCKS = 30.0
_SHRINK = 0.5
"""Half a miss and half a false alarm are added where outcomes are ordered: rare events, else overrated, would set d."""
_ROUNDING = 1e-8
"""Of binomial probabilities by log-gamma functions, relative; they are taken larger by it."""
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Reject when there are at least ``needed[Y]`` hits with Y false alarms; ``radius`` is the d that made it."""

    members: int
    non_members: int
    radius: float
    needed: NDArray[np.int64] = field(repr=False)

    def rejects(self, counts: Counts) -> bool:
        """Whether these counts are in it."""
        return counts.true_positives >= int(self.needed[counts.false_positives])

    def chance(self, true_positive_rate: float, false_positive_rate: float) -> float:
        """Of rejecting, at these rates."""
        import numpy as np

        return float(_chances(self, np.asarray([false_positive_rate]), np.asarray([true_positive_rate]))[0])


@dataclass(frozen=True, slots=True)
class JointTest:
    """The outcome, with the worst point of what the counts leave possible.

    All rates within the test's distance of the observed ones: (``false_positive_upper``, ``true_positive_lower``) are
    those that lie deepest in the claim's direction, and the claim allows ``true_positive_allowed`` there.
    """

    violated: bool
    false_positive_upper: float
    true_positive_lower: float
    true_positive_allowed: float

    @property
    def excess(self) -> float:
        """By how much the worst point is above what is allowed: positive where the claim is refuted."""
        return self.true_positive_lower - self.true_positive_allowed


def violation_test(counts: Counts, curve: TradeoffCurve, *, alpha: float) -> JointTest:
    """Hold counts of independent runs against a whole certified curve at level ``alpha``: all of its (ε, δ) at once."""
    boundary = of_curve(curve)
    region = critical_region(boundary, members=counts.members, non_members=counts.non_members, alpha=alpha)
    return outcome(counts, boundary, radius=region.radius, violated=region.rejects(counts))


def outcome(counts: Counts, boundary: Boundary, *, radius: float, violated: bool, shrink: float = _SHRINK) -> JointTest:
    """A test of this radius, with the point of its region that is nearest to the claim."""
    import numpy as np

    hit = counts.true_positives / (counts.members + shrink)
    alarm = (counts.false_positives + shrink) / (counts.non_members + shrink)
    rates = _beyond(np.asarray([alarm]), radius / counts.non_members, across=513)[0]
    left = radius - counts.non_members * _divergence(np.asarray(alarm), rates)
    left[0] = max(0.0, left[0])  # the observed rate itself, but for rounding
    rates, left = rates[left >= 0.0], left[left >= 0.0]
    low = 1.0 - _inverse(np.full_like(rates, 1.0 - hit), left / counts.members, below=True)
    allowed = boundary.allowed(rates)
    at = int(np.argmin(low - allowed))
    return JointTest(violated, float(rates[at]), float(low[at]), float(allowed[at]))


@lru_cache(maxsize=512)
def critical_region(boundary: Boundary, *, members: int, non_members: int, alpha: float) -> Region:
    """The largest region of the ordering whose worst chance under the null is at most ``alpha``, nearly.

    Empty (no count is enough) where even a perfect attack is not that unlikely.
    """
    from scipy.special import ndtri

    level(alpha)
    sides = {"members": members, "non_members": non_members}
    most = perfect_distance(boundary, **sides)
    if math.exp(-most) > alpha * (1.0 - _ROUNDING):
        return _only(0, radius=most, **sides)

    target = alpha * (1.0 - _slack(members, non_members))

    def above(radius: float) -> bool:
        return _worst(_region(boundary, radius=radius, **sides), boundary, negligible=1e-3 * alpha) > target

    low = 0.4 * float(ndtri(1.0 - min(alpha, 0.3))) ** 2
    high = 1.0 - math.log(alpha)
    while high < most and above(high):
        low, high = high, 1.5 * high
    high = min(high, most)
    while high - low > 0.005 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if above(middle) else (low, middle)
    while high < most:
        region = _region(boundary, radius=high, **sides)
        if int(region.needed[0]) > members:
            break
        if largest_chance_is_at_most(alpha, region, boundary):
            return region
        high *= 1.01
    return _only(1, radius=most, **sides)


def _slack(members: int, non_members: int) -> float:
    """Which share of α is left unused, so that the search over the null ends soon: more cells for more runs."""
    return 0.05 if max(members, non_members) <= 5_000 else 0.1


def _only(outcomes: int, *, members: int, non_members: int, radius: float) -> Region:
    """The perfect outcome alone, or nothing."""
    import numpy as np

    needed = np.full(non_members + 1, members + 1, dtype=np.int64)
    needed[:outcomes] = members
    return Region(members, non_members, radius, needed)


def distance(boundary: Boundary, hits: Rates, alarms: Rates, *, members: float, non_members: float) -> Rates:
    """D at observed rates, 0 inside the null; to some four digits, for choosing among attacks."""
    import numpy as np

    share = np.linspace(0.0, 1.0, 257) ** 2
    start = np.arcsin(np.sqrt(alarms))[:, None]
    rates = np.sin(start + share * (0.5 * np.pi - start)) ** 2
    allowed = np.minimum(boundary.allowed(rates), hits[:, None])
    far = members * _divergence(hits[:, None], allowed) + non_members * _divergence(alarms[:, None], rates)
    return np.asarray(far.min(axis=1))


def distance_at_least(boundary: Boundary, counts: Counts) -> float:
    """D of these counts, from below: over cells [a, b] of x, with g(b) and a."""
    import numpy as np

    hit, alarm = counts.true_positives / counts.members, counts.false_positives / counts.non_members
    best = math.inf

    def far(allowed_at: Rates, rates: Rates) -> Rates:
        hits = counts.members * _divergence(np.asarray(hit), np.minimum(boundary.allowed(allowed_at), hit))
        return np.asarray(hits + counts.non_members * _divergence(np.asarray(alarm), rates))

    angles = np.linspace(math.asin(math.sqrt(alarm)), 0.5 * math.pi, 513)
    low, high = (np.clip(np.sin(each) ** 2, alarm, 1.0) for each in (angles[:-1], angles[1:]))
    for _ in range(12):
        below = far(high, low)
        unclear = below < float(far(low, low).min()) * (1.0 - 1e-6)
        if not unclear.any():
            break
        settled = float(below[~unclear].min(initial=math.inf))
        parts = np.linspace(low[unclear], high[unclear], 5)
        low, high = parts[:-1].ravel(), parts[1:].ravel()
        best = min(best, settled)
    return min(best, float(far(high, low).min()))


def perfect_distance(boundary: Boundary, *, members: int, non_members: int) -> float:
    """D of every member found and no false alarm, from below: that outcome has probability e^−D at most.

    −D is the largest value of n₁ ln g(x) + n₀ ln(1 − x), concave in x: bounded over cells as the region's chance is.
    """
    import numpy as np

    edges = np.concatenate([[0.0], np.geomspace(1e-12, 1.0, 4097)])
    for _ in range(4):
        with np.errstate(divide="ignore"):
            above = members * np.log(boundary.allowed(edges[1:])) + non_members * np.log1p(-edges[:-1])
        best = int(np.argmax(above))
        near = slice(max(0, best - 1), min(len(edges), best + 3))
        edges = np.unique(np.concatenate([edges, np.linspace(edges[near][0], edges[near][-1], 513)]))
    return max(0.0, -float(above[best]))


def largest_chance_is_at_most(alpha: float, region: Region, boundary: Boundary) -> bool:
    """Whether the null nowhere makes the region likelier than ``alpha``; False also where that is too close to tell."""
    import numpy as np

    angles = np.linspace(0.0, 0.5 * np.pi, 65)
    low, high, small = angles[:-1], angles[1:], 1e-3 * alpha
    while low.size:
        from_, to = np.sin(low) ** 2, np.sin(high) ** 2
        unclear = _chances(region, from_, boundary.allowed(to), negligible=small) > alpha
        low, high, to = low[unclear], high[unclear], to[unclear]
        if low.size and bool((_chances(region, to, boundary.allowed(to), negligible=small) > alpha).any()):
            return False
        if low.size and float((high - low).min()) < 1e-9:
            return False
        parts = np.linspace(low, high, 5)
        low, high = parts[:-1].ravel(), parts[1:].ravel()
    return True


def _worst(region: Region, boundary: Boundary, *, negligible: float) -> float:
    """The largest chance that was found under the null: a guide, from below."""
    import numpy as np

    low, high, best = 0.0, 0.5 * np.pi, 0.0
    for across in (97, 25, 25):
        angles = np.linspace(low, high, across)
        rates = np.sin(angles) ** 2
        found = _chances(region, rates, boundary.allowed(rates), negligible=negligible)
        at = int(np.argmax(found))
        best = max(best, float(found[at]))
        low, high = angles[max(0, at - 1)], angles[min(across - 1, at + 1)]
    return best


def _chances(region: Region, false_positive: Rates, true_positive: Rates, *, negligible: float = 1e-15) -> Rates:
    """P(X ≥ k(Y)) at every pair of rates, from above; by ``negligible`` at most where that saves work."""
    import numpy as np

    found = np.empty(len(false_positive))
    widths = 2 * _reach(region.non_members, false_positive) + 1
    order = np.argsort(widths)
    start = 0
    while start < len(order):
        stop = min(len(order), start + max(1, _CHUNK // int(widths[order[-1]])))
        chosen = order[start:stop]
        found[chosen] = _chunk(region, false_positive[chosen], true_positive[chosen], negligible)
        start = stop
    return found


def _reach(trials: int, rates: Rates) -> NDArray[np.int64]:
    import numpy as np

    return np.minimum(trials, np.ceil(8.5 * np.sqrt(trials * rates * (1.0 - rates)) + 20.0)).astype(np.int64)


def _chunk(region: Region, false_positive: Rates, true_positive: Rates, negligible: float) -> Rates:
    """Numbers of false alarms are taken in blocks of a share of their spread, with what the least of them needs."""
    import numpy as np
    from scipy.special import bdtr, bdtrc, xlog1py, xlogy

    n, m = region.non_members, region.members
    block = max(1, int(math.sqrt(n * float((false_positive * (1.0 - false_positive)).max())) / 40.0))
    blocks = -(-min(n + 1, 2 * int(_reach(n, false_positive).max()) + 1) // block)
    width = blocks * block
    first = np.clip(np.floor(n * false_positive).astype(np.int64) - width // 2, 0, max(0, n + 1 - width))
    alarms = first[:, None] + np.arange(width)
    there = alarms <= n
    alarms = np.minimum(alarms, n)
    x = false_positive[:, None]
    weights = np.where(there, np.exp(_ways(n)[alarms] + xlogy(alarms, x) + xlog1py(n - alarms, -x)), 0.0)
    weights = weights.reshape(len(first), blocks, block).sum(axis=2)
    needed = region.needed[alarms[:, ::block]]
    counted = (weights > negligible / blocks) & (needed >= 1) & (needed <= m)
    reached = np.where(needed > m, 0.0, 1.0)
    rates = np.broadcast_to(true_positive[:, None], needed.shape)
    reached[counted] = bdtrc(needed[counted] - 1.0, m, rates[counted])
    last = first + width - 1
    beyond = np.where(first > 0, bdtr(np.maximum(first - 1.0, 0.0), n, false_positive), 0.0)
    beyond = beyond + np.where(last < n, bdtrc(np.minimum(last, n - 1.0), n, false_positive), 0.0)
    return np.asarray((weights * reached).sum(axis=1) * (1.0 + _ROUNDING) + beyond)


@lru_cache(maxsize=64)
def _ways(trials: int) -> Rates:
    """ln of the binomial coefficients."""
    import numpy as np
    from scipy.special import gammaln

    of = np.arange(trials + 1.0)
    return np.asarray(gammaln(trials + 1.0) - gammaln(of + 1.0) - gammaln(trials - of + 1.0))


def _region(boundary: Boundary, *, radius: float, members: int, non_members: int) -> Region:
    """{D ≥ radius}, its edge interpolated between some numbers of false alarms."""
    import numpy as np

    knots = _knots(non_members)
    edge = _edge(boundary, knots, radius=radius, members=members, non_members=non_members)
    between = np.interp(np.arange(non_members + 1), knots, edge)
    needed = np.ceil((members + _SHRINK) * between - 1e-9).astype(np.int64)
    return Region(members, non_members, radius, np.minimum(needed, members + 1))


@lru_cache(maxsize=64)
def _knots(trials: int) -> NDArray[np.int64]:
    import numpy as np

    angles = np.linspace(0.0, 0.5 * np.pi, _KNOTS)
    return np.unique(np.concatenate([np.round(trials * np.sin(angles) ** 2).astype(np.int64), [0, trials]]))


def _edge(boundary: Boundary, counts: NDArray[np.int64], *, radius: float, members: int, non_members: int) -> Rates:
    """For each number of false alarms the rate of hits at which D is ``radius``; 2 where no rate is enough."""
    import numpy as np

    alarms = np.asarray((counts + _SHRINK) / (non_members + _SHRINK), dtype=np.float64)
    rates = _beyond(alarms, radius / non_members, across=_ACROSS)
    left = radius - non_members * _divergence(alarms[:, None], rates)
    reached = np.where(
        left >= 0.0, _inverse(boundary.allowed(rates), np.maximum(left, 0.0) / members, below=False), -np.inf
    )
    return np.asarray(np.maximum.accumulate(reached.max(axis=1)))


def _beyond(alarms: Rates, divergence: float, *, across: int) -> Rates:
    """A row of rates above each of ``alarms``, to where the divergence is surely that large: KL(p ‖ x) ≥ Δθ²."""
    import numpy as np

    start = np.arcsin(np.sqrt(alarms))[:, None]
    shares = np.linspace(0.0, 1.0, across)
    return np.asarray(np.sin(np.minimum(0.5 * np.pi, start + math.sqrt(divergence) * shares)) ** 2)


def _divergence(first: Rates, second: Rates) -> Rates:
    """KL of two coins."""
    import numpy as np
    from scipy.special import rel_entr

    return np.asarray(rel_entr(first, second) + rel_entr(1.0 - first, 1.0 - second))


def _inverse(rates: Rates, divergence: Rates, *, below: bool) -> Rates:
    """The p ≥ t with KL(p ‖ t) = r (2 where there is none); ``below``: with KL(t ‖ p) = r (at most 1)."""
    import numpy as np
    from scipy.special import logit

    low, high = rates.copy(), np.ones_like(rates)
    if below:
        for _ in range(48):
            middle = 0.5 * (low + high)
            near = _divergence(rates, middle) < divergence
            low, high = np.where(near, middle, low), np.where(near, high, middle)
        return high
    t = np.clip(rates, 1e-300, 1.0 - 1e-16)
    p = np.sin(np.minimum(np.arcsin(np.sqrt(t)) + np.sqrt(0.5 * divergence), 0.5 * np.pi)) ** 2
    for _ in range(12):
        p = np.clip(p, t, 1.0 - 1e-16)
        slope = logit(p) - logit(t)
        step = np.divide(_divergence(p, t) - divergence, slope, out=np.zeros_like(p), where=slope > 1e-12)
        p = p - step
    p = np.clip(p, t, 1.0)
    return np.asarray(np.where(rates >= 1.0, 2.0, np.where(-np.log(t) < divergence, 2.0, p)))


def one_point(epsilon: float, delta: float) -> Boundary:
    """What one (ε, δ) allows."""
    return of_curve(PrivacyCurve(((epsilon, delta),)))


def epsilon_lower(counts: Counts, *, delta: float, alpha: float) -> float:
    """The ε that these counts prove at confidence 1 − ``alpha``, for the given ``delta`` and any mechanism."""
    return _lower(counts, delta, alpha)


def mu_lower(counts: Counts, *, alpha: float) -> float:
    """The μ that these counts prove of a mechanism whose curve is Gaussian (Nasr et al. 2023, by a joint test).

    For a mechanism with another curve it says nothing about ε.
    """
    return _lower(counts, None, alpha)


def _constant(alpha: float) -> float:
    from scipy.special import ndtri

    level(alpha)
    return 0.5 * float(ndtri(1.0 - min(alpha, 0.4))) ** 2


def _ordered(counts: Counts, family: Callable[[float], Boundary], *, radius: float) -> float:
    """The largest parameter at which the counts are in the region of ``radius``; −1 where they are at none."""
    import numpy as np

    knots = _knots(counts.non_members)
    after = int(np.searchsorted(knots, counts.false_positives))
    near = knots[max(0, after - 1) : after + 1]
    sides = {"members": counts.members, "non_members": counts.non_members}

    def inside(parameter: float) -> bool:
        edge = _edge(family(parameter), near, radius=radius, **sides)
        between = float(np.interp(counts.false_positives, near, edge))
        return counts.true_positives >= math.ceil((counts.members + _SHRINK) * between - 1e-9)

    if not inside(0.0):
        return -1.0
    low, high = 0.0, 1.0
    while inside(high):
        low, high = high, 2.0 * high
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if inside(middle) else (low, middle)
    return low


@lru_cache(maxsize=4096)
def _lower(counts: Counts, delta: float | None, alpha: float) -> float:
    def family(parameter: float) -> Boundary:
        return GaussianBoundary(parameter) if delta is None else one_point(parameter, delta)

    radius = _constant(alpha)
    sides = {"members": counts.members, "non_members": counts.non_members}
    observed = _ordered(counts, family, radius=radius)
    if observed <= 0.0:
        return 0.0
    # a little lower than observed, so that rounding makes the region larger
    region = _region(family(observed * (1.0 - 1e-6)), radius=radius, **sides)

    target = alpha * (1.0 - _slack(**sides))

    def likely(parameter: float) -> bool:
        return _worst(region, family(parameter), negligible=1e-3 * alpha) <= target

    if not likely(0.0):
        return 0.0
    low, high, step = 0.0, observed, 0.05 * observed
    while likely(high):
        low, high = high, high + step
        step *= 2.0
    if low == 0.0 and likely(0.9 * observed):
        low = 0.9 * observed
    while high - low > 1e-3 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if likely(middle) else (low, middle)
    for _ in range(40):
        if largest_chance_is_at_most(alpha, region, family(low)):
            return low
        low *= 0.995
    return 0.0
