"""Privacy curves and trade-off curves.

A certified upper profile is a list of points (ε_i, δ_i) such that the mechanism is (ε_i, δ_i)-DP
for each i, in both directions of the neighbouring pair. Any test of "record in" against "record
out" with false-positive rate x then has false-negative rate at least

    f(x) = max over i of  max(0, 1 − δ_i − e^{ε_i} x, e^{−ε_i} (1 − δ_i − x))

(Wasserman and Zhou 2010, Theorem 2.4; Kairouz, Oh and Viswanath 2015, Theorem 2.1; Dong, Roth and
Su 2019, Proposition 2.5). f is convex, and valid for all x at once since each point is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from affidavit.accountant.bound import profile_points
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Plan
from affidavit.accountant.rounding import LAST_DIGITS
from affidavit.accountant.settle import known
from affidavit.accountant.show import Facts, Shown, upper
from affidavit.accountant.validate import Relation
from affidavit.accountant.verifier import recomputed_curve

__all__ = ["PrivacyCurve", "privacy_curve"]

POINTS = 49
TOLERANCE = 1e-3
"""Of the issuing engine's profile: relative, on δ at the grid's end."""


@dataclass(frozen=True, slots=True, repr=False)
class PrivacyCurve(Shown):
    """Points (epsilon, delta_upper), ε increasing; each is a valid (ε, δ) guarantee."""

    points: tuple[tuple[float, float], ...]

    def facts(self) -> Facts:
        """Its two ends, and about ten of its points."""
        if not self.points:
            return Facts("no points: nothing is known")
        (first, most), (last, least) = self.points[0], self.points[-1]
        ends = f"δ <= {upper(most)} at ε = {first:.6g} to δ <= {upper(least)} at ε = {last:.6g}"
        line = f"{len(self.points)} points, from {ends}"
        some = self.points[:: max(1, len(self.points) // 10)]
        return Facts(line, ("ε", "δ at most"), tuple((upper(epsilon), upper(delta)) for epsilon, delta in some))

    def false_negative_rate(self, false_positive_rate: float) -> float:
        """f(x): no test at this false-positive rate has a smaller false-negative rate."""
        x = false_positive_rate
        best = 0.0
        for epsilon, delta in self.points:
            most = _most_true_positives(epsilon, delta, x)
            best = max(
                best,
                1.0 - most - LAST_DIGITS,
                math.exp(-epsilon) * (1.0 - delta - x - LAST_DIGITS) * (1.0 - LAST_DIGITS),
            )
        return best

    def true_positive_rate(self, false_positive_rate: float) -> float:
        """1 − f(x): the certified limit on any attack's true-positive rate."""
        return min((_most_true_positives(*point, false_positive_rate) for point in self.points), default=1.0)


def _above(value: float) -> float:
    """What a few roundings made of it, and more."""
    return math.nextafter(value * (1.0 + LAST_DIGITS), math.inf)


def _most_true_positives(epsilon: float, delta: float, x: float) -> float:
    """min(1, e^ε x + δ, 1 − e^{−ε} (1 − δ − x)) from above: sums of positive terms, whose digits small rates keep."""
    if epsilon == delta == 0.0:
        return x
    steep = (math.exp(epsilon) * x if epsilon < 700.0 else 1.0) + delta if x > 0.0 else delta
    return min(1.0, _above(min(steep, math.exp(-epsilon) * (delta + x) - math.expm1(-epsilon))))


def epsilon_grid(epsilon_upper: float) -> tuple[float, ...]:
    """ε values from 0 to beyond ``epsilon_upper``, denser near 0, with ``epsilon_upper`` among them."""
    if not math.isfinite(epsilon_upper):
        return (0.0,)
    top = max(epsilon_upper, 1e-3)
    inner = [top * (i / (POINTS - 1)) ** 1.5 for i in range(POINTS)]
    return (*inner[:-1], top, *(top * s for s in (1.1, 1.25, 1.5)))


def privacy_curve(plan: Plan | Mapping[str, Any], *, relation: Relation, delta: float) -> PrivacyCurve:
    """Upper profile of ``plan`` on a grid of ε chosen around its settled ε at ``delta``; each point by both engines.

    From the settled ε on nowhere above ``delta``, as that was computed with more care; that point alone where the
    verifier knows it and no profile (δ forgives all that it has no formula for). Where the verifier has no formula,
    what the issuing engine says alone. Errors as in ``settle.known``.
    """
    claim, gap = known(plan, relation=relation, delta=delta)
    grid = epsilon_grid(claim.epsilon_upper)
    issued = profile_points(plan, relation=relation, delta=claim.delta_upper, epsilons=grid, tolerance=TOLERANCE)
    try:
        verified = {} if gap else dict(recomputed_curve(claim.plan, relation=relation, points=grid))
    except NotSupported:
        return PrivacyCurve(((claim.epsilon_upper, claim.delta_upper),))
    settled = {point: max(each, verified.get(point, 0.0)) for point, each in issued}
    beyond = {point: min(each, claim.delta_upper) for point, each in settled.items() if point >= claim.epsilon_upper}
    return PrivacyCurve(tuple((settled | beyond).items()))
