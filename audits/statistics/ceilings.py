"""Ceilings: the lower bound that an attack would have reached with as much data, had it never been wrong.

An audit whose ceiling is at or below the certified ε could not have shown a violation. With
α = .05 and δ = 0, 50 runs a side can never speak against ε = 2.6 or more. A ceiling is of an attack, not of the
data: one that says "in" or nothing can be right about those that are in, half of the coins, and no more.
"""

from __future__ import annotations

import math

from affidavit.audits.statistics.clopper_pearson import Counts, epsilon_lower
from affidavit.audits.statistics.one_run import one_run_epsilon_lower, one_run_refutes

__all__ = ["coins_needed", "one_run_ceiling", "per_run_ceiling", "runs_needed"]


def per_run_ceiling(*, members: int, non_members: int, alpha: float, delta: float = 0.0) -> float:
    """Clopper–Pearson ceiling: every member's run detected, no false alarm."""
    return epsilon_lower(Counts(members, members, 0, non_members), delta=delta, alpha=alpha)


def one_run_ceiling(
    *, records: int, alpha: float, delta: float = 0.0, guesses: int | None = None, guesses_fixed: bool = True
) -> float:
    """One-run ceiling: ``guesses`` of the coins guessed (default: all of them), every one of them right."""
    told = records if guesses is None else guesses
    return one_run_epsilon_lower(
        records=records, guesses=told, correct=told, delta=delta, alpha=alpha, guesses_fixed=guesses_fixed
    )


def coins_needed(epsilon: float, *, alpha: float, delta: float = 0.0, share: float = 1.0) -> int | None:
    """How many coins a one-run audit needs before an attack that is right about ``share`` of them exceeds ``epsilon``.

    For any number of guesses. Without δ, r right guesses of r have probability q^r with q = 1/(1 + e^−ε), so that
    r > ln α / ln q; with it more are needed, and more are no remedy for ever, as m coins may reveal m δ of them.
    None where up to 16 times as many as without δ would not do.
    """

    def enough(coins: int) -> bool:
        told = math.floor(share * coins)
        return one_run_refutes(epsilon, records=coins, guesses=told, correct=told, delta=delta, alpha=alpha)

    least = math.log(alpha) / -math.log1p(math.exp(-epsilon)) / share
    numbers = [math.ceil(least * 1.25**step) + math.ceil(1.0 / share) for step in range(14)]
    high = next((coins for coins in numbers if enough(coins)), None)
    if high is None:
        return None
    low = 0 if high == numbers[0] else numbers[numbers.index(high) - 1]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


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
