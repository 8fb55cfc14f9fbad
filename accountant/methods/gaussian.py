"""Gaussian mechanisms: closed form, exact under adaptive composition.

Theorem (Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2019, Corollary 3.3): one Gaussian of
noise multiplier σ is μ = 1/σ Gaussian-DP, uses compose to μ² = Σ 1/σ_i², and

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ),

attained by a pair of datasets one sensitivity apart. The pair is its own mirror image, so both
directions are the same. Valid for the relation for which the multiplier is stated. How it is
evaluated, and what rounding is charged: ``pld.gaussian``; the engine merges the uses, and inverts.
"""

from __future__ import annotations

from affidavit.accountant.cases.case import Case
from affidavit.accountant.methods.base import Target
from affidavit.accountant.methods.pld import PldProfile
from affidavit.accountant.plan import Gaussian
from affidavit.accountant.validate import Relation

__all__ = ["GaussianMethod"]


class GaussianMethod:
    """All leaves Gaussian."""

    name = "gaussian"
    exact = True

    def why_not(self, case: Case, _relation: Relation) -> str:
        if case.exponentials or any(not isinstance(node, Gaussian) for node, _ in case.fixed):
            return "needs every mechanism to be an unsampled Gaussian"
        return ""

    def profile(self, case: Case, relation: Relation, target: Target) -> PldProfile:
        return PldProfile(case, relation, target)
