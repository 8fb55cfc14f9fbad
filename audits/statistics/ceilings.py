"""Ceilings: the lower bound that a perfect attack would have reached with as much data.

An audit whose ceiling is at or below the certified ε could not have shown a violation. With
α = .05 and δ = 0, 50 runs a side can never speak against ε = 2.6 or more.
"""

from __future__ import annotations

import math

from affidavit.audits.statistics.clopper_pearson import Counts, epsilon_lower
from affidavit.audits.statistics.one_run import one_run_epsilon_lower

__all__ = ["coins_needed", "one_run_ceiling", "per_run_ceiling", "runs_needed"]


def per_run_ceiling(*, members: int, non_members: int, alpha: float, delta: float = 0.0) -> float:
    """Clopper–Pearson ceiling: every member's run detected, no false alarm."""
    return epsilon_lower(Counts(members, members, 0, non_members), delta=delta, alpha=alpha)


def one_run_ceiling(*, records: int, alpha: float, delta: float = 0.0) -> float:
    """One-run ceiling: every coin guessed, and guessed right."""
    return one_run_epsilon_lower(records=records, guesses=records, correct=records, delta=delta, alpha=alpha)


def coins_needed(epsilon: float, *, alpha: float) -> int:
    """About how many coins a one-run audit needs before a perfect attack exceeds ``epsilon`` (δ = 0).

    All m guesses right has probability q^m with q = 1/(1 + e^−ε): m > ln α / ln q.
    """
    return math.floor(math.log(alpha) / -math.log1p(math.exp(-epsilon))) + 1


def runs_needed(epsilon: float, *, alpha: float, delta: float = 0.0, maximum: int = 10**9) -> int | None:
    """The smallest number of runs a side whose ceiling exceeds ``epsilon``; None beyond ``maximum``.

    The hint of an UNDERPOWERED verdict.
    """

    def powered(runs: int) -> bool:
        return per_run_ceiling(members=runs, non_members=runs, alpha=alpha, delta=delta) > epsilon

    high = 1
    while not powered(high):
        high *= 2
        if high > maximum:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if powered(middle) else (middle, high)
    return high
