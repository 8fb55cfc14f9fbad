"""The exact joint test of two rates: does (FPR, TPR) lie in the region that a claim allows?

X ~ Bin(n₁, t) hits and Y ~ Bin(n₀, x) false alarms, independent, one score a run. The null is {t ≤ g(x)} for a
concave g (``boundaries``). Two Clopper-Pearson limits in a union bound waste most of α; here the chance of the whole
rejection region is computed, and its largest value over the null is α (Barnard 1945; Boschloo 1970; Lloyd 2008).

**Ordering.** The likelihood ratio: D(X, Y) of ``divergence``, so a rejection region {D ≥ d} is {X ≥ k(Y)} with k
non-decreasing, and its largest chance under the null is exact (``rejection``). How exactly D was computed is immaterial
to validity: whatever k is, the chance of the region is.

**How good that is.** No valid test of a composite null has more power against an alternative than the most powerful
test of one of its points (Neyman and Pearson), randomised. Against the point that leaves it least, at power .95 and
α = .05, any test needs at least the first, this one the second, two Clopper-Pearson limits the third number of trials a
side: 43, 45, 83 (μ = 1; the rates are those of μ = 2 at its middle), 37, 41, 66 (ε = 1 against 2, at the corner), 193,
233, 312 (ε = 4 against 6, δ = 1e-5). So this test saves 1.8, 1.6 and 1.3 times, and none saves more than 1.9, 1.8 and
1.6: another ordering, or a union over points of the curve, could gain 5, 10 and 17 % at most.

**A lower bound** for a family of nested nulls (ε at a fixed δ; μ of Gaussian noise). Order outcomes by T, the largest
parameter at which D is still at least a constant c; then {T ≥ T(observed)} is one region R, and the bound is the
largest parameter whose worst chance of R is at most α: Buehler (1957), the best bound for the ordering; Lloyd and
Kabaila 2003 on orderings. The null grows with the parameter and R does not move, so the search is monotone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.audits.statistics.boundaries import Boundary, GaussianBoundary, TradeoffCurve, of_curve
from affidavit.audits.statistics.clopper_pearson import Counts, level
from affidavit.audits.statistics.divergence import coin_divergence, inverse_divergence, perfect_distance, rates_beyond
from affidavit.audits.statistics.rejection import ROUNDING, Region, largest_chance_found, largest_chance_is_at_most

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rates = NDArray[np.float64]

__all__ = [
    "JointTest",
    "critical_region",
    "epsilon_lower",
    "mu_lower",
    "one_point",
    "outcome",
    "violation_test",
]

_KNOTS = 400
_ACROSS = 65
_BLOCKS = 30.0
_SHRINK = 0.5
"""Half a miss and half a false alarm are added where outcomes are ordered: rare events, else overrated, would set d."""


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
    rates = rates_beyond(np.asarray([alarm]), radius / counts.non_members, across=513)[0]
    left = radius - counts.non_members * coin_divergence(np.asarray(alarm), rates)
    left[0] = max(0.0, left[0])  # the observed rate itself, but for rounding
    rates, left = rates[left >= 0.0], left[left >= 0.0]
    low = 1.0 - inverse_divergence(np.full_like(rates, 1.0 - hit), left / counts.members, below=True)
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
    if math.exp(-most) > alpha * (1.0 - ROUNDING):
        return _only(0, radius=most, **sides)

    target = alpha * (1.0 - _slack(members, non_members))

    def above(radius: float) -> bool:
        return (
            largest_chance_found(_region(boundary, radius=radius, **sides), boundary, negligible=1e-3 * alpha) > target
        )

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
    rates = rates_beyond(alarms, radius / non_members, across=_ACROSS)
    left = radius - non_members * coin_divergence(alarms[:, None], rates)
    reached = np.where(
        left >= 0.0, inverse_divergence(boundary.allowed(rates), np.maximum(left, 0.0) / members, below=False), -np.inf
    )
    return np.asarray(np.maximum.accumulate(reached.max(axis=1)))


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
        return largest_chance_found(region, family(parameter), negligible=1e-3 * alpha) <= target

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
