"""Profiles of mechanisms that have one dominating pair each, as vectorised functions of ε.

Gaussians merge into one; pure and approximate leaves are two-point; their mixture is exact: with
L the two-point loss, δ(ε) = 1 − κ + κ E_P[δ_Gauss(ε − L)], κ = Π(1 − δ_i). Everything else
(Laplace, sampled mechanisms, very many two-point values) is composed by the PLD engine, one direction
a profile. The slope S = −dδ/dε = e^ε Q(L > ε), which the adaptive recursion carries, is exact likewise.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.cases.scenario import Scenario
from affidavit.accountant.methods.base import Interval, Target, smallest_epsilon
from affidavit.accountant.methods.gaussian import CANCELLATION, RELATIVE_ERROR, UNIT, gaussian_delta, total_mu
from affidavit.accountant.methods.optimal import log_kept, pure_costs, support_size, two_point_losses
from affidavit.accountant.plan import Approximate, Gaussian, Pure
from affidavit.accountant.validate import Relation

if TYPE_CHECKING:
    from affidavit.accountant.pld.curve import OneStep
    from affidavit.accountant.pld.nested import Law

    Parts = tuple[tuple[OneStep, int], ...]

__all__ = ["ComposedProfile", "FixedProfile", "MixtureMethod", "MixtureProfile", "fixed_gap", "fixed_profile"]

Array = NDArray[np.float64]

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
        self.mu = total_mu(scenario)
        rest = Scenario(fixed=tuple((n, c) for n, c in scenario.fixed if not isinstance(n, Gaussian)))
        costs = pure_costs(rest) or []
        log = log_kept(costs)
        self.kept, self.revealed = math.exp(log), -math.expm1(log)
        losses, logs, error = two_point_losses(costs)
        self._atoms = losses
        self._masses = np.exp(logs)
        slack = 40.0 * (CANCELLATION / self.mu + 8.0 * UNIT * self.mu) if 0.0 < self.mu < math.inf else 0.0
        self._error = error + RELATIVE_ERROR + slack

    def _mean(self, epsilon: Array) -> Array:
        with np.errstate(over="ignore"):
            grid = np.subtract.outer(np.asarray(epsilon, dtype=float), self._atoms)
        return self.revealed + self.kept * (gaussian_delta(grid, mu=self.mu) @ self._masses)

    def upper(self, epsilon: Array) -> Array:
        return np.minimum(1.0, self._mean(epsilon) * (1.0 + self._error))

    def lower(self, epsilon: Array) -> Array:
        return self._mean(epsilon) * (1.0 - self._error)

    def lower_slope(self, epsilon: Array) -> Array:
        """e^ε Q(L > ε), with e^ε Q = E over atoms of e^{ε − l} Q_Gauss(L > ε − l)."""
        from scipy.special import log_ndtr

        grid = np.subtract.outer(np.asarray(epsilon, dtype=float), self._atoms)
        if self.mu == 0.0:
            slopes = np.where(grid < 0.0, np.exp(np.minimum(grid, 0.0)), 0.0)
        else:
            slopes = np.exp(grid + log_ndtr(-self.mu / 2.0 - grid / self.mu))
        return (1.0 - self._error) * self.kept * (slopes @ self._masses)

    def delta(self, epsilon: float) -> Interval:
        at = np.array([epsilon])
        return Interval(float(self.lower(at)[0]), float(self.upper(at)[0]))

    def epsilon(self, delta: float) -> Interval:
        if math.isinf(self.mu):
            return Interval(math.inf, math.inf)
        start = self.mu * self.mu / 2.0 + self.mu + float(self._atoms.max())
        upper, lower = math.inf, math.inf
        if self.revealed * (1.0 + self._error) < delta:
            upper = smallest_epsilon(lambda e: self.delta(e).upper, delta, start=start, relative=1e-11).upper
        if self.revealed * (1.0 - self._error) < delta:
            lower = smallest_epsilon(lambda e: self.delta(e).lower, delta, start=start, relative=1e-11).lower
        return Interval(min(lower, upper), upper)


class ComposedProfile:
    """Anything with dominating pairs, in one direction, as the PLD engine composes it.

    With masses p_i at losses l_i, δ(ε) = p_∞ + Σ_{l_i > ε} p_i (1 − e^{ε − l_i}): two sums from the right, all of
    positive terms, so that each is known to ``_ROUNDING`` of P(L > ε).
    """

    _ROUNDING = 1e-11

    def __init__(
        self, scenario: Scenario, relation: Relation, target: Target, *, direction: Literal["forward", "backward"]
    ) -> None:
        from affidavit.accountant.pld.steps import one_step

        parts = tuple((one_step(node, relation, explicit=True), count) for node, count in scenario.fixed)
        small = math.log(max(target.delta or 1e-12, 1e-280)) - 15.0
        self.symmetric = all(step.symmetric for step, _ in parts)
        self._upper, self._lower = _both_sums(parts, direction, small)

    def upper(self, epsilon: Array) -> Array:
        above, scaled = self._upper.at(epsilon)
        return np.minimum(1.0, self._upper.infinite + above * (1.0 + self._ROUNDING) - scaled)

    def lower(self, epsilon: Array) -> Array:
        above, scaled = self._lower.at(epsilon)
        return np.maximum(0.0, self._lower.infinite + above * (1.0 - self._ROUNDING) - scaled)

    def lower_slope(self, epsilon: Array) -> Array:
        return self._lower.at(epsilon)[1]


class _Sums:
    """Σ_{l_i > ε} p_i and Σ_{l_i > ε} p_i e^{ε − l_i} for arrays of ε."""

    def __init__(self, law: Law) -> None:
        self.infinite = law.infinity
        self._losses = law.losses
        self._above = np.append(np.cumsum(law.masses[::-1])[::-1], 0.0)
        # Each sum in units of its own first term, so that nothing under- or overflows. The losses are evenly spaced:
        # sums of 1, 2, 4, ... terms.
        weight = math.exp(-(law.losses[-1] - law.losses[0]) / max(law.losses.size - 1, 1))
        scaled, terms = law.masses.copy(), 1
        while terms < scaled.size and weight > 0.0:
            scaled[:-terms] += weight * scaled[terms:]
            terms, weight = 2 * terms, weight * weight
        self._scaled = np.append(scaled, 0.0)

    def at(self, epsilon: Array) -> tuple[Array, Array]:
        """Both sums."""
        first = np.searchsorted(self._losses, epsilon, side="right")
        nearest = self._losses[np.minimum(first, self._losses.size - 1)]
        return self._above[first], self._scaled[first] * np.exp(np.minimum(epsilon - nearest, 0.0))


@lru_cache(maxsize=4)
def _both_sums(parts: Parts, direction: Literal["forward", "backward"], log_nothing: float) -> tuple[_Sums, _Sums]:
    """Of the upper and of the lower side."""
    from affidavit.accountant.pld.engine import composed_losses

    upper, lower = (
        _Sums(composed_losses(parts, direction=direction, side=side, log_nothing=log_nothing))
        for side in ("upper", "lower")
    )
    return upper, lower


class LargerProfile:
    """Both directions of a composition: the larger upper side everywhere, the lower side of the one that costs more."""

    def __init__(self, one: FixedProfile, other: FixedProfile, *, near: float) -> None:
        self._both = one, other
        at = np.array([near])
        self._lower = max(self._both, key=lambda direction: float(direction.lower(at)[0]))

    def upper(self, epsilon: Array) -> Array:
        one, other = (direction.upper(epsilon) for direction in self._both)
        return np.maximum(one, other)

    def lower(self, epsilon: Array) -> Array:
        """Of one direction: a mean over what runs beside it must be over one pair of data sets."""
        return self._lower.lower(epsilon)

    def lower_slope(self, epsilon: Array) -> Array:
        return self._lower.lower_slope(epsilon)


def fixed_gap(scenario: Scenario, relation: Relation) -> str:
    """Empty if the mechanisms with a dominating pair have a profile, else why not."""
    from affidavit.accountant.methods.pld import pair_gap

    alone = Scenario(fixed=scenario.fixed)
    return "" if not MixtureMethod().why_not(alone, relation) else pair_gap(alone, relation)


def fixed_profile(scenario: Scenario, relation: Relation, target: Target, *, near: float) -> FixedProfile:
    """The profile of the mechanisms with a dominating pair, sharp near ε = ``near``."""
    alone = Scenario(fixed=scenario.fixed)
    if not MixtureMethod().why_not(alone, relation):
        return MixtureProfile(alone)
    forward = ComposedProfile(alone, relation, target, direction="forward")
    if forward.symmetric:
        return forward
    return LargerProfile(forward, ComposedProfile(alone, relation, target, direction="backward"), near=near)


class MixtureMethod:
    """Gaussian, pure and approximate leaves together, few enough values."""

    name = "mixture"
    exact = True

    def why_not(self, scenario: Scenario, _relation: Relation) -> str:
        if scenario.exponentials or any(not isinstance(n, (Gaussian, Pure, Approximate)) for n, _ in scenario.fixed):
            return "needs gaussian, pure and approximate leaves only, unsampled"
        two_point = [(n.epsilon, 0.0, c) for n, c in scenario.fixed if isinstance(n, (Pure, Approximate))]
        if support_size(two_point) > MAX_ATOMS:
            return f"more than {MAX_ATOMS} sums of two-point losses"
        return ""

    def profile(self, scenario: Scenario, _relation: Relation, _target: Target) -> MixtureProfile:
        return MixtureProfile(scenario)
