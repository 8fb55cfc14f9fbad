"""Exact binomial limits of one rate.

Clopper and Pearson (1934). A rate's one-sided limit at level β is wrong with probability at
most β, for every n. **One score per independent run**: scores of many records against one release are not
independent, and pooling them gives false violations. For two rates held against a claim there is ``joint``: two
of these limits in a union bound are valid as well, and need about twice as many runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from affidavit.accountant.errors import UsageError

__all__ = ["Counts", "level", "rate_interval", "rate_lower", "rate_upper"]


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


def level(alpha: float) -> float:
    """``alpha`` itself. Raises ``UsageError`` where it is no level."""
    if not 0.0 < alpha < 1.0:
        raise UsageError(f"alpha is {alpha!r}", hint="For example `alpha = 0.05`, an error probability inside (0, 1)")
    return alpha


def rate_lower(successes: int, trials: int, *, alpha: float) -> float:
    """One-sided lower limit of a binomial rate at level ``alpha``: Beta⁻¹(α; k, n − k + 1)."""
    from scipy.special import betaincinv

    level(alpha)
    return 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, alpha))


def rate_upper(successes: int, trials: int, *, alpha: float) -> float:
    """One-sided upper limit of a binomial rate at level ``alpha``: Beta⁻¹(1 − α; k + 1, n − k).

    Taken through the complement, 1 − Beta⁻¹(α; n − k, k + 1), which keeps its digits when α is tiny.
    """
    return 1.0 - rate_lower(trials - successes, trials, alpha=alpha)


def rate_interval(successes: int, trials: int, *, alpha: float) -> tuple[float, float]:
    """Two-sided Clopper–Pearson interval at level ``alpha``."""
    return rate_lower(successes, trials, alpha=alpha / 2), rate_upper(successes, trials, alpha=alpha / 2)
