"""Profiles of mechanisms that have one dominating pair each, as vectorised functions of ε.

Gaussians merge into one; pure and approximate leaves are two-point; their mixture is exact: with
L the two-point loss, δ(ε) = 1 − κ + κ E_P[δ_Gauss(ε − L)], κ = Π(1 − δ_i). Everything else
(Laplace, sampled mechanisms, very many two-point values) goes through the PLD engine. The slope
S = −dδ/dε = e^ε Q(L > ε), which the adaptive recursion carries, is exact likewise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

from affidavit.accountant.methods.base import Interval, Target, smallest_epsilon
from affidavit.accountant.methods.gaussian import CANCELLATION, RELATIVE_ERROR, gaussian_delta, total_mu
from affidavit.accountant.methods.optimal import pure_costs, support_size, two_point_losses
from affidavit.accountant.plan import Approximate, Gaussian, Pure
from affidavit.accountant.scenario import Scenario
from affidavit.accountant.validate import Relation

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

__all__ = ["FixedProfile", "MixtureMethod", "MixtureProfile"]

MAX_ATOMS = 1000


class FixedProfile(Protocol):
    """δ as a function of an array of ε, from both sides, and the slope of the lower side."""

    def upper(self, epsilon: Array) -> Array:
        """At or above δ(ε)."""
        ...

    def lower(self, epsilon: Array) -> Array:
        """At or below δ(ε)."""
        ...

    def lower_slope(self, epsilon: Array) -> Array:
        """−d lower/dε: a supporting slope of the lower side as a function of e^ε, times e^ε."""
        ...


class MixtureProfile:
    """One Gaussian and a two-point product, independent; either may be absent."""

    def __init__(self, scenario: Scenario) -> None:
        import numpy as np

        self.mu = total_mu(scenario)
        rest = Scenario(fixed=tuple((n, c) for n, c in scenario.fixed if not isinstance(n, Gaussian)))
        costs = pure_costs(rest) or []
        log_kept = sum(count * (math.log1p(-delta) if delta < 1.0 else -math.inf) for _, delta, count in costs if count)
        self.kept = math.exp(log_kept)
        self.revealed = -math.expm1(log_kept)
        losses, logs, error = two_point_losses(costs)
        self._atoms = losses
        self._masses = np.exp(logs)
        slack = CANCELLATION * 40.0 / self.mu if 0.0 < self.mu < math.inf else 0.0
        self._error = error + RELATIVE_ERROR + slack

    def _mean(self, epsilon: Array) -> Array:
        import numpy as np

        grid = np.subtract.outer(np.asarray(epsilon, dtype=float), self._atoms)
        result: Array = self.revealed + self.kept * (gaussian_delta(grid, mu=self.mu) @ self._masses)
        return result

    def upper(self, epsilon: Array) -> Array:
        """Closed form, error added."""
        import numpy as np

        return np.minimum(1.0, self._mean(epsilon) * (1.0 + self._error))

    def lower(self, epsilon: Array) -> Array:
        """Closed form, error taken off."""
        return self._mean(epsilon) * (1.0 - self._error)

    def lower_slope(self, epsilon: Array) -> Array:
        """e^ε Q(L > ε), with e^ε Q = E over atoms of e^{ε − l} Q_Gauss(L > ε − l)."""
        import numpy as np
        from scipy.special import log_ndtr

        grid = np.subtract.outer(np.asarray(epsilon, dtype=float), self._atoms)
        if self.mu == 0.0:
            slopes = np.where(grid < 0.0, np.exp(np.minimum(grid, 0.0)), 0.0)
        else:
            slopes = np.exp(grid + log_ndtr(-self.mu / 2.0 - grid / self.mu))
        result: Array = (1.0 - self._error) * self.kept * (slopes @ self._masses)
        return result

    def delta(self, epsilon: float) -> Interval:
        """Both sides at one ε."""
        import numpy as np

        at = np.array([epsilon])
        return Interval(float(self.lower(at)[0]), float(self.upper(at)[0]))

    def epsilon(self, delta: float) -> Interval:
        """Bisection on each side."""
        if math.isinf(self.mu):
            return Interval(math.inf, math.inf)
        start = self.mu * self.mu / 2.0 + self.mu + float(self._atoms.max())
        upper, lower = math.inf, math.inf
        if self.revealed * (1.0 + self._error) < delta:
            upper = smallest_epsilon(lambda e: self.delta(e).upper, delta, start=start, relative=1e-11).upper
        if self.revealed * (1.0 - self._error) < delta:
            lower = smallest_epsilon(lambda e: self.delta(e).lower, delta, start=start, relative=1e-11).lower
        return Interval(min(lower, upper), upper)


class MixtureMethod:
    """Gaussian, pure and approximate leaves together, few enough values."""

    name = "mixture"
    exact = True

    def why_not(self, scenario: Scenario, relation: Relation) -> str:
        """Applies to unsampled gaussian, pure and approximate leaves."""
        del relation
        if scenario.exponentials or any(not isinstance(n, (Gaussian, Pure, Approximate)) for n, _ in scenario.fixed):
            return "needs gaussian, pure and approximate leaves only, unsampled"
        two_point = [(n.epsilon, 0.0, c) for n, c in scenario.fixed if isinstance(n, (Pure, Approximate))]
        if support_size(two_point) > MAX_ATOMS:
            return f"more than {MAX_ATOMS} sums of two-point losses"
        return ""

    def profile(self, scenario: Scenario, relation: Relation, target: Target) -> MixtureProfile:
        """The exact mixture."""
        del relation, target
        return MixtureProfile(scenario)
