"""Optimal composition of pure and approximate DP (Kairouz, Oh and Viswanath 2015).

Theorem (KOV 2015, Theorems 3.3 and 3.5 with their dominating pair): every (ε, δ)-DP mechanism is a
post-processing of: with probability δ reveal the data, else randomised response with losses
±ε. Hence adaptive compositions have the exact profile

    δ(x) = 1 − Π(1 − δ_i) + Π(1 − δ_i) E_P[(1 − e^{x − L})₊],   L = Σ ±ε_i,  P(+) = e^ε/(1 + e^ε).

Equal ε_i give a binomial L; unequal ones a product, enumerated while its support is small.
The pair is its own mirror image. For leaves of which more is known (exponential, Laplace) the
same number is an upper side only. Any relation: the leaf's ε is stated for it.

Evaluation: all terms are positive; probabilities come from log-gamma, whose error in the
largest exponent is charged (relative 1e-15 per unit of exponent, doubled).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.cases.case import OneOf
from affidavit.accountant.cases.scenario import Scenario
from affidavit.accountant.leaves import facts
from affidavit.accountant.methods.base import Interval, Target, certain_delta
from affidavit.accountant.plan import Approximate, Leaf, Plan, Pure
from affidavit.accountant.validate import Relation

__all__ = ["OptimalMethod", "TwoPointProfile", "pure_costs", "two_point_losses"]

MAX_SUPPORT = 2_000_000
MAX_EXACT_USES = 64


def pure_cost(node: Plan) -> tuple[float, float] | None:
    """(ε, δ) of one use where the node states or implies it, else None."""
    match node:
        case Leaf():
            return facts(node).stated
        case OneOf(options=options):
            costs = [cost for option in options if (cost := pure_cost(option)) is not None]
            return (max(e for e, _ in costs), max(d for _, d in costs)) if len(costs) == len(options) else None
        case _:
            return None


def pure_costs(scenario: Scenario) -> list[tuple[float, float, int]] | None:
    """(ε, δ, uses) of every mechanism, or None if one has no such guarantee."""
    known = [(pure_cost(node), count) for node, count in scenario.nodes()]
    costs = [(*cost, count) for cost, count in known if cost is not None]
    return costs if len(costs) == len(known) else None


def support_size(costs: list[tuple[float, float, int]]) -> int:
    """Number of distinct loss sums of the two-point product."""
    return math.prod(count + 1 for count in _by_epsilon(costs).values())


def _by_epsilon(costs: list[tuple[float, float, int]]) -> dict[float, int]:
    counts: dict[float, int] = {}
    for epsilon, _, count in costs:
        counts[epsilon] = counts.get(epsilon, 0) + count
    return counts


def two_point_losses(costs: list[tuple[float, float, int]]) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """(losses, log-probabilities under P, relative error) of the randomised-response product."""
    from scipy.special import gammaln

    losses = np.zeros(1)
    logs = np.zeros(1)
    error = 1e-13
    for epsilon, count in sorted(_by_epsilon(costs).items()):
        if epsilon == 0.0 or count == 0:
            continue
        k = np.arange(count + 1, dtype=float)
        log_down = -math.log1p(math.exp(epsilon)) if epsilon < 700.0 else -epsilon
        log_up = -math.log1p(math.exp(-epsilon))
        log_choose = gammaln(count + 1.0) - gammaln(k + 1.0) - gammaln(count - k + 1.0)
        log_p = log_choose + k * log_up + (count - k) * log_down
        losses = np.add.outer(losses, (2.0 * k - count) * epsilon).ravel()
        logs = np.add.outer(logs, log_p).ravel()
        magnitude = float(gammaln(count + 1.0)) + count * abs(log_down)
        error += 4e-16 * magnitude
    return losses, logs, error


def log_kept(costs: list[tuple[float, float, int]]) -> float:
    """ln Π(1 − δ_i)."""
    return sum(count * (math.log1p(-delta) if delta < 1.0 else -math.inf) for _, delta, count in costs if count)


class TwoPointProfile:
    """Profile of a composition of (ε_i, δ_i) pairs; ``exact`` if nothing better is known of them."""

    def __init__(self, costs: list[tuple[float, float, int]], *, exact: bool) -> None:
        self.exact = exact
        self.revealed = -math.expm1(log_kept(costs))
        self._costs = costs
        self.infinite = any(math.isinf(epsilon) for epsilon, _, count in costs if count)
        if self.infinite:
            return
        losses, logs, self.error = two_point_losses(costs)
        order = np.argsort(losses)
        self._losses = losses[order]
        self._widest = math.fsum(epsilon * count for epsilon, _, count in costs)
        # One rounding for each product and each sum of at most len(costs) terms, none above the widest loss.
        self._loss_error = 2.3e-16 * (len(costs) + 1) * self._widest
        self._mass = np.exp(logs[order])

    def delta(self, epsilon: float) -> Interval:
        """Sum over the losses above ``epsilon``."""
        if self.infinite:
            return Interval(0.0, 1.0)
        above = int(np.searchsorted(self._losses, epsilon, side="right"))
        shortfall = -np.expm1(epsilon - self._losses[above:])
        value = float(np.sum(self._mass[above:] * shortfall))
        # Each loss is off by at most ``reach``: so is every shortfall, and a loss that far below ε may lie above it.
        reach = self._loss_error + 4e-16 * (abs(epsilon) + 1.0)
        near = int(np.searchsorted(self._losses, epsilon - reach, side="left"))
        slack = reach * float(np.sum(self._mass[near:]))
        kept = 1.0 - self.revealed
        upper = min(1.0, self.revealed * (1.0 + 1e-13) + kept * (value * (1.0 + self.error) + slack))
        lower = self.revealed * (1.0 - 1e-13) + kept * (value * (1.0 - self.error) - slack)
        return Interval(max(0.0, lower) if self.exact else certain_delta(epsilon), upper)

    def epsilon(self, delta: float) -> Interval:
        """Where each side falls to ``delta``; infinite if more than that is revealed."""
        from affidavit.accountant.pld.inverse import inverse

        if self.infinite or self.revealed * (1.0 - 1e-13) > delta:
            return Interval(math.inf if self.exact and not self.infinite else 0.0, math.inf)
        largest = math.nextafter(self._widest, math.inf) * (1.0 + 1e-15)
        lower, upper = inverse(self.delta, delta, furthest=2.0 * largest, near=0.5 * largest)
        if self.revealed * (1.0 + 1e-13) > delta:
            # At exactly what is revealed, nothing else may be: the largest loss.
            upper = largest if self._reveals_at_most(delta) else math.inf
        elif upper > self._widest * (1.0 + 1e-15):
            upper = largest
        return Interval(min(lower, upper) if self.exact else 0.0, upper)

    def _reveals_at_most(self, delta: float) -> bool:
        """Whether 1 − Π(1 − δ_i) <= ``delta``, in exact arithmetic; False for more uses than are worth it."""
        uses = [(Fraction(cost), count) for _, cost, count in self._costs if cost > 0.0 and count]
        if sum(count for _, count in uses) > MAX_EXACT_USES:
            return False
        return 1 - math.prod(((1 - cost) ** count for cost, count in uses), start=Fraction(1)) <= Fraction(delta)


class OptimalMethod:
    """All leaves with an (ε, δ) guarantee, unsampled."""

    name = "optimal"
    exact = True

    def why_not(self, scenario: Scenario, _relation: Relation) -> str:
        costs = pure_costs(scenario)
        if costs is None:
            return "needs an (epsilon, delta) guarantee of every mechanism"
        if support_size(costs) > MAX_SUPPORT:
            return f"the product of unequal epsilons has more than {MAX_SUPPORT} values"
        return ""

    def profile(self, scenario: Scenario, _relation: Relation, _target: Target) -> TwoPointProfile:
        """Exact for pure and approximate leaves; an upper side where more is known."""
        costs = pure_costs(scenario) or []
        exact = all(isinstance(node, (Pure, Approximate)) for node, _ in scenario.nodes())
        return TwoPointProfile(costs, exact=exact)
