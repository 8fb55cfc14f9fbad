"""Gaussian mechanisms: closed form, exact under adaptive composition.

Theorem (Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2019, Corollary 3.3): one Gaussian of
noise multiplier σ is μ = 1/σ Gaussian-DP, uses compose to μ² = Σ 1/σ_i², and

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ),

attained by a pair of datasets one sensitivity apart. The pair is its own mirror image, so both
directions are the same. Valid for the relation for which the multiplier is stated. How it is
evaluated, and what rounding is charged: ``pld.gaussian``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from affidavit.accountant.cases.scenario import Scenario
from affidavit.accountant.methods.base import Interval, Target
from affidavit.accountant.plan import Gaussian
from affidavit.accountant.validate import Relation

if TYPE_CHECKING:
    from affidavit.accountant.pld.gaussian import Gaussian as Pair

__all__ = ["GaussianMethod", "GaussianProfile"]

FIRST, FURTHEST = 40.0, 1e300
"""Standard deviations from which on δ is 1 in float64, and beyond which no ε is sought."""
UNITS = 2.0**-50


def _total_mu(scenario: Scenario) -> float:
    """μ of the scenario's Gaussian leaves together; inf if one has no noise."""
    noise = [(node.noise_multiplier, count) for node, count in scenario.fixed if isinstance(node, Gaussian)]
    return math.sqrt(math.fsum(count / sigma / sigma if sigma > 0.0 else math.inf for sigma, count in noise))


class GaussianProfile:
    """Profile of μ-Gaussian-DP, ``mu`` > 0."""

    def __init__(self, mu: float) -> None:
        self.mu = mu

    def delta(self, epsilon: float) -> Interval:
        """The closed form, widened by its float64 error."""
        if self.mu == math.inf:
            return Interval(1.0, 1.0)
        return Interval(*_pair(self.mu).delta(epsilon))

    def epsilon(self, delta: float) -> Interval:
        """The closed form, inverted; each end on its safe side.

        In a = ε/μ − μ/2, from 0 or, where that is higher, from where δ is 1 in float64: so ε keeps its digits however
        large μ is.
        """
        import numpy as np

        from affidavit.accountant.pld.inverse import inverse

        if self.mu == math.inf:
            return Interval(math.inf, math.inf)
        first, pair = -min(FIRST, 0.5 * self.mu), _pair(self.mu)

        def sides(beyond: float) -> tuple[float, float]:
            lower, upper = pair.beyond(np.array([first + beyond]))
            return float(lower[0]), float(upper[0])

        lower, upper = (self.mu * (0.5 * self.mu + first + end) for end in inverse(sides, delta, furthest=FURTHEST))
        return Interval(lower * (1.0 - UNITS), upper * (1.0 + UNITS))


def _pair(mu: float) -> Pair:
    from affidavit.accountant.pld.gaussian import Gaussian as Pair

    return Pair(mu)


class GaussianMethod:
    """All leaves Gaussian."""

    name = "gaussian"
    exact = True

    def why_not(self, scenario: Scenario, _relation: Relation) -> str:
        if scenario.exponentials or any(not isinstance(node, Gaussian) for node, _ in scenario.fixed):
            return "needs every mechanism to be an unsampled Gaussian"
        return ""

    def profile(self, scenario: Scenario, _relation: Relation, _target: Target) -> GaussianProfile:
        return GaussianProfile(_total_mu(scenario))
