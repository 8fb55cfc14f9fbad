"""Gaussian mechanisms: closed form, exact under adaptive composition.

Theorem (Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2019, Corollary 3.3): one Gaussian of
noise multiplier σ is μ = 1/σ Gaussian-DP, uses compose to μ² = Σ 1/σ_i², and

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ),

attained by a pair of datasets one sensitivity apart. The pair is its own mirror image, so both
directions are the same. Valid for the relation for which the multiplier is stated.

Evaluation: with Mills' ratio M(x) = Φ(−x)/φ(x) and φ(−μ/2 − ε/μ) e^ε = φ(μ/2 − ε/μ),
δ = φ(a)(M(−a) − M(−a + μ)), a = μ/2 − ε/μ, which keeps relative accuracy in the tail. The
float64 error grows like (1 + |a|)/μ units of round-off, and like (1 + (−a)₊) times that of a, which is
the difference of two large numbers where μ is large; both are charged on each side. Below
μ = 1e-8 the upper side is μ φ(a)/(1 + a²), from |M′(x)| <= 1/(1 + x²), and the lower side 0.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from affidavit.accountant.cases.scenario import Scenario
from affidavit.accountant.methods.base import Interval, Target, smallest_epsilon
from affidavit.accountant.plan import Gaussian
from affidavit.accountant.validate import Relation

__all__ = ["GaussianMethod", "GaussianProfile", "gaussian_delta", "total_mu"]

RELATIVE_ERROR = 1e-11
CANCELLATION = 3e-15
UNIT = 2.0**-53
SMALLEST_MU, LARGE_MU, LOG_ERROR = 1e-8, 1e6, 1e-12
MILLS_SWITCH = -5.0
ROOT_HALF = math.sqrt(0.5)
FARTHEST_T = 40.0
"""A t at which Φ is 1 in float64."""
FARTHEST = 1e6
"""Standard deviations beyond which the density is 0 in float64, many times over."""


def gaussian_delta(epsilon: ArrayLike, *, mu: float) -> NDArray[np.float64]:
    """δ(ε) of μ-Gaussian-DP, to about 12 digits; any real ε (or array), μ >= 0 (inf allowed)."""
    from scipy.special import erfcx, log_ndtr, ndtr

    epsilon = np.asarray(epsilon, dtype=float)
    if mu == 0.0:
        nothing: NDArray[np.float64] = np.maximum(0.0, -np.expm1(np.minimum(epsilon, 1.0)))
        return nothing
    if math.isinf(mu):
        return np.ones_like(epsilon)
    with np.errstate(over="ignore", invalid="ignore"):  # an infinite a: 0 or 1, whatever the other branch says
        a = mu / 2.0 - epsilon / mu
        tail = np.clip(a, -FARTHEST, -MILLS_SWITCH)
        density = 0.5 * np.exp(-0.5 * tail * tail)
        mills = density * (erfcx(-tail * ROOT_HALF) - erfcx((mu - tail) * ROOT_HALF))
        body = ndtr(a) - np.exp(np.minimum(epsilon + log_ndtr(a - mu), 0.0))
    result: NDArray[np.float64] = np.clip(np.where(-a > MILLS_SWITCH, mills, body), 0.0, 1.0)
    return result


def total_mu(scenario: Scenario) -> float:
    """μ of the scenario's Gaussian leaves together; inf if one has no noise."""
    total = 0.0
    for node, count in scenario.fixed:
        if isinstance(node, Gaussian):
            if node.noise_multiplier == 0.0:
                return math.inf
            total += count / node.noise_multiplier / node.noise_multiplier
    return math.sqrt(total)


class GaussianProfile:
    """Profile of μ-Gaussian-DP."""

    def __init__(self, mu: float) -> None:
        self.mu = mu

    def delta(self, epsilon: float) -> Interval:
        """Closed form, widened by its float64 error."""
        value = float(gaussian_delta(epsilon, mu=self.mu))
        if self.mu == 0.0 or math.isinf(self.mu):
            return Interval(value, value)
        a = self.mu / 2.0 - epsilon / self.mu
        if 0.0 < self.mu < SMALLEST_MU and a <= 0.0:
            return Interval(0.0, 1.01 * self.mu * math.exp(-0.5 * a * a) / math.sqrt(2.0 * math.pi) / (1.0 + a * a))
        of_place = 4.0 * UNIT * (self.mu + abs(epsilon) / self.mu) * (1.0 + max(0.0, -a))
        error = RELATIVE_ERROR + CANCELLATION * (1.0 + abs(a)) / self.mu + of_place
        return Interval(max(0.0, value * (1.0 - error)), min(1.0, value * (1.0 + error)))

    def epsilon(self, delta: float) -> Interval:
        """Bisection on the closed form; each end on its safe side."""
        if math.isinf(self.mu):
            return Interval(math.inf, math.inf)
        if self.mu > LARGE_MU:
            return _far(self.mu, delta)
        start = self.mu * self.mu / 2.0 + self.mu
        upper = smallest_epsilon(lambda e: self.delta(e).upper, delta, start=start).upper
        lower = smallest_epsilon(lambda e: self.delta(e).lower, delta, start=start).lower
        return Interval(min(lower, upper), upper)


def _far(mu: float, delta: float) -> Interval:
    """ε where μ is so large that ε/μ has no digits left: ε = μ²/2 − tμ, Φ(t) − φ(t)/(μ − t) < δ(ε) < Φ(t).

    The second term is e^ε Φ(t − μ), at most φ(t)/(μ − t) by Mills' ratio. Logarithms are good to ``LOG_ERROR``.
    """
    from scipy.special import log_ndtr, ndtri

    log, middle = math.log(delta), float(ndtri(delta))
    below = above = middle
    step = 2.0 / mu + LOG_ERROR
    while float(log_ndtr(above)) + LOG_ERROR * (1.0 - log) > log:  # Φ(t) <= δ: no more than δ is lost there
        above, step = middle - step, 2.0 * step
    step = 2.0 / mu + LOG_ERROR
    lower = 0.0
    while below < FARTHEST_T:
        most = float(log_ndtr(below))
        second = math.exp(-0.5 * below * below - most) / math.sqrt(2.0 * math.pi) / (mu - below)
        if second < 0.5 and most + math.log1p(-second * (1.0 + LOG_ERROR)) - LOG_ERROR * (1.0 - log) > log:
            lower = mu * (0.5 * mu - below) * (1.0 - 8.0 * UNIT)
            break
        below, step = middle + step, 2.0 * step
    return Interval(lower, mu * (0.5 * mu - above) * (1.0 + 8.0 * UNIT))


class GaussianMethod:
    """All leaves Gaussian."""

    name = "gaussian"
    exact = True

    def why_not(self, scenario: Scenario, _relation: Relation) -> str:
        if scenario.exponentials or any(not isinstance(node, Gaussian) for node, _ in scenario.fixed):
            return "needs every mechanism to be an unsampled Gaussian"
        return ""

    def profile(self, scenario: Scenario, _relation: Relation, _target: Target) -> GaussianProfile:
        return GaussianProfile(total_mu(scenario))
