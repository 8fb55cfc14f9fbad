"""Advanced composition, the full formula (Dwork, Rothblum and Vadhan 2010, Theorem III.1).

For (ε_i, δ_i)-DP mechanisms and any slack δ′ > 0, adaptively composed:

    ε = Σ ε_i (e^{ε_i} − 1) + √(2 ln(1/δ′) Σ ε_i²)    at    δ = Σ δ_i + δ′.

Proof of the heterogeneous form: each loss lies in [−ε_i, ε_i] and has conditional mean at most
ε_i (e^{ε_i} − 1), so Azuma's inequality for Σ (L_i − mean) gives the square root. Dropping the
first sum, as some papers do, is not a bound. An upper side only. Any relation.
"""

from __future__ import annotations

import math

from affidavit.accountant.cases.case import Case
from affidavit.accountant.methods.base import Bracket, Target
from affidavit.accountant.methods.optimal import pure_costs
from affidavit.accountant.rounding import FORMULA
from affidavit.accountant.validate import Relation

__all__ = ["AdvancedMethod", "AdvancedProfile"]


class AdvancedProfile:
    """The formula above for fixed (ε_i, δ_i, uses)."""

    def __init__(self, costs: list[tuple[float, float, int]]) -> None:
        self._stated_delta = sum(count * delta for _, delta, count in costs)
        used = [(epsilon, count) for epsilon, _, count in costs if count]
        self._mean = sum(count * (x * math.expm1(x) if x < 700.0 else math.inf) for x, count in used)
        self._squares = sum(count * epsilon * epsilon for epsilon, count in used)

    def epsilon(self, delta: float) -> Bracket:
        """An upper side; infinite without slack."""
        slack = delta - self._stated_delta * (1.0 + FORMULA)
        if slack <= 0.0:
            return Bracket(0.0, math.inf)
        value = self._mean + math.sqrt(2.0 * math.log(1.0 / slack) * self._squares)
        return Bracket(0.0, value * (1.0 + FORMULA))

    def delta(self, epsilon: float) -> Bracket:
        """The formula solved for δ′."""
        if not epsilon > self._mean:
            return Bracket(0.0, 1.0)
        if self._squares == 0.0:
            return Bracket(0.0, min(1.0, self._stated_delta * (1.0 + FORMULA)))
        slack = math.exp(-((epsilon - self._mean) ** 2) / (2.0 * self._squares))
        return Bracket(0.0, min(1.0, (self._stated_delta + slack) * (1.0 + 1e-10)))


class AdvancedMethod:
    """All leaves with an (ε, δ) guarantee, unsampled."""

    name = "advanced"
    exact = False

    def why_not(self, case: Case, _relation: Relation) -> str:
        return "" if pure_costs(case) is not None else "needs an (epsilon, delta) guarantee of every mechanism"

    def profile(self, case: Case, _relation: Relation, _target: Target) -> AdvancedProfile:
        return AdvancedProfile(pure_costs(case) or [])
