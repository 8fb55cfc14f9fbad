"""Exact binomial limits, and the ε they prove.

Clopper and Pearson (1934). A rate's one-sided limit at level β is wrong with probability at
most β, for every n. The ε bound uses two of them, at α/2 each, so by the union bound it
exceeds the true ε with probability at most α. **One score per independent run**: scores of
many records against one release are not independent, and pooling them gives false violations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from affidavit.accountant.errors import UsageError

__all__ = ["Counts", "RateLimits", "epsilon_lower", "rate_interval", "rate_limits", "rate_lower", "rate_upper"]


@dataclass(frozen=True, slots=True)
class Counts:
    """How often the attack said "member": ``true_positives`` of ``members`` runs with the record in the data,
    ``false_positives`` of ``non_members`` runs without it."""

    true_positives: int
    members: int
    false_positives: int
    non_members: int

    def __post_init__(self) -> None:
        for hits, trials in ((self.true_positives, self.members), (self.false_positives, self.non_members)):
            if trials < 1 or not 0 <= hits <= trials:
                raise UsageError(
                    f"{hits} positives of {trials} runs",
                    hint="No more positives than runs, at least one each: `members = 10` and `non_members = 10`.",
                )


@dataclass(frozen=True, slots=True)
class RateLimits:
    """TPR at least ``true_positive_rate_lower`` and FPR at most ``false_positive_rate_upper``, jointly at 1 − α."""

    true_positive_rate_lower: float
    false_positive_rate_upper: float


def _level(alpha: float) -> float:
    if not 0.0 < alpha < 1.0:
        raise UsageError(f"alpha is {alpha!r}", hint="For example `alpha = 0.05`, an error probability inside (0, 1)")
    return alpha


def rate_lower(successes: int, trials: int, *, alpha: float) -> float:
    """One-sided lower limit of a binomial rate at level ``alpha``: Beta⁻¹(α; k, n − k + 1)."""
    from scipy.special import betaincinv

    _level(alpha)
    return 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, alpha))


def rate_upper(successes: int, trials: int, *, alpha: float) -> float:
    """One-sided upper limit of a binomial rate at level ``alpha``: Beta⁻¹(1 − α; k + 1, n − k).

    Taken through the complement, 1 − Beta⁻¹(α; n − k, k + 1), which keeps its digits when α is tiny.
    """
    return 1.0 - rate_lower(trials - successes, trials, alpha=alpha)


def rate_interval(successes: int, trials: int, *, alpha: float) -> tuple[float, float]:
    """Two-sided Clopper–Pearson interval at level ``alpha``."""
    return rate_lower(successes, trials, alpha=alpha / 2), rate_upper(successes, trials, alpha=alpha / 2)


def rate_limits(counts: Counts, *, alpha: float) -> RateLimits:
    """Both rates' limits, α/2 each."""
    return RateLimits(
        true_positive_rate_lower=rate_lower(counts.true_positives, counts.members, alpha=alpha / 2),
        false_positive_rate_upper=rate_upper(counts.false_positives, counts.non_members, alpha=alpha / 2),
    )


def epsilon_lower(counts: Counts, *, delta: float, alpha: float) -> float:
    """The ε that these counts prove at confidence 1 − ``alpha``, for the given ``delta``.

    (ε, δ)-DP requires TPR ≤ e^ε FPR + δ and 1 − FPR ≤ e^ε (1 − TPR) + δ (Kairouz, Oh and
    Viswanath 2015, Theorem 2.1), hence, with both limits of ``rate_limits``,

        ε ≥ max(0, ln((TPR₋ − δ)/FPR₊), ln((1 − FPR₊ − δ)/(1 − TPR₋))).

    Valid for whichever relation the two sides of the runs realise. Finite: FPR₊ > 0 always.
    """
    limits = rate_limits(counts, alpha=alpha)
    tpr, fpr = limits.true_positive_rate_lower, limits.false_positive_rate_upper
    best = 0.0
    for larger, smaller in ((tpr - delta, fpr), (1.0 - fpr - delta, 1.0 - tpr)):
        if larger > smaller > 0.0:
            best = max(best, math.log(larger / smaller))
    return best
