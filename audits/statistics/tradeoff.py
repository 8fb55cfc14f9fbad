"""Counts held against a certificate's whole trade-off curve.

A certificate bounds, for every test, the false negative rate from below by f(FPR). With
TPR ≥ TPR₋ and FPR ≤ FPR₊ jointly at confidence 1 − α, and f non-increasing,

    1 − TPR₋ < f(FPR₊)   proves that   1 − TPR < f(FPR)   for the mechanism that ran,

so the certificate is false: one test, valid for all ε at once, with α/2 on each side (Dong,
Roth and Su 2022 for the trade-off function; Clopper–Pearson for the rates). f must be a lower
bound that the certificate really makes: a curve of another family (Gaussian, say) would give
false violations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from affidavit.audits.statistics.clopper_pearson import Counts, RateLimits, rate_limits

__all__ = ["TradeoffCurve", "TradeoffTest", "perfect_attack_violates", "violation_test"]


class TradeoffCurve(Protocol):
    """What is needed of a certified curve (``affidavit.accountant.tradeoff.PrivacyCurve``)."""

    def false_negative_rate(self, false_positive_rate: float, /) -> float:
        """A lower bound on the FNR of every test with that FPR."""
        ...


@dataclass(frozen=True, slots=True)
class TradeoffTest:
    """The outcome: the limits, the largest TPR the curve admits at FPR₊, and the excess over it.

    ``excess`` is positive exactly when the certificate is refuted.
    """

    limits: RateLimits
    true_positive_rate_allowed: float

    @property
    def excess(self) -> float:
        """TPR₋ − (1 − f(FPR₊))."""
        return self.limits.true_positive_rate_lower - self.true_positive_rate_allowed

    @property
    def violated(self) -> bool:
        """Whether the curve is refuted at confidence 1 − α."""
        return self.excess > 0.0


def violation_test(counts: Counts, curve: TradeoffCurve, *, alpha: float) -> TradeoffTest:
    """Hold counts of independent runs against a certified curve at level ``alpha``."""
    limits = rate_limits(counts, alpha=alpha)
    fpr = min(1.0, max(0.0, limits.false_positive_rate_upper))
    return TradeoffTest(limits, 1.0 - curve.false_negative_rate(fpr))


def perfect_attack_violates(curve: TradeoffCurve, *, members: int, non_members: int, alpha: float) -> bool:
    """Whether an attack that is always right would refute the curve: else the test is underpowered."""
    return violation_test(Counts(members, members, 0, non_members), curve, alpha=alpha).violated
