"""Ceilings: the lower bound that an attack would have reached with as much data, had it never been wrong.

An audit whose ceiling is at or below the certified ε could not have shown a violation. With
α = .05 and δ = 0, 50 runs a side can never speak against ε = 2.6 or more. A ceiling is of an attack, not of the
data: one that says "in" or nothing can be right about those that are in, half of the coins, and no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from affidavit.audits.statistics.boundaries import Boundary, GaussianBoundary, TradeoffCurve, of_curve
from affidavit.audits.statistics.divergence import perfect_distance
from affidavit.audits.statistics.joint import one_point
from affidavit.audits.statistics.one_run import one_run_refutes

__all__ = [
    "coins_needed",
    "gaussian_ceiling",
    "per_run_ceiling",
    "perfect_attack_violates",
    "runs_needed",
]


def per_run_ceiling(*, members: int, non_members: int, alpha: float, delta: float = 0.0) -> float:
    """``joint.epsilon_lower`` of every member's run detected and no false alarm.

    No outcome is ordered above it: its region is itself alone, of probability max g(x)^n₁ (1 − x)^n₀ under the null.
    For δ = 0 and n a side that is logit(α^(1/2n)).
    """
    return _perfect(lambda epsilon: one_point(epsilon, delta), members, non_members, alpha)


def gaussian_ceiling(*, members: int, non_members: int, alpha: float) -> float:
    """``joint.mu_lower`` of the same."""
    return _perfect(GaussianBoundary, members, non_members, alpha)


def perfect_attack_violates(curve: TradeoffCurve, *, members: int, non_members: int, alpha: float) -> bool:
    """Whether an attack that is always right would refute the curve: else the test is underpowered."""
    return math.exp(-perfect_distance(of_curve(curve), members=members, non_members=non_members)) <= alpha


def _perfect(family: Callable[[float], Boundary], members: int, non_members: int, alpha: float) -> float:
    def proved(parameter: float) -> bool:
        return math.exp(-perfect_distance(family(parameter), members=members, non_members=non_members)) <= alpha

    if not proved(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while proved(high):
        low, high = high, 2.0 * high
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if proved(middle) else (low, middle)
    return low


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
