"""Optimal composition of pure and approximate DP (Kairouz, Oh and Viswanath 2015).

Theorem (KOV 2015, Theorems 3.3 and 3.5 with their dominating pair): every (ε, δ)-DP mechanism is a
post-processing of: with probability δ reveal the data, else randomised response with losses
±ε. Hence adaptive compositions have the exact profile

    δ(x) = 1 − Π(1 − δ_i) + Π(1 − δ_i) E_P[(1 − e^{x − L})₊],   L = Σ ±ε_i,  P(+) = e^ε/(1 + e^ε).

Equal ε_i give a binomial L; unequal ones a product, enumerated while its support is small.
The pair is its own mirror image. For leaves of which more is known (exponential, Laplace) the
same number is an upper side only. Any relation: the leaf's ε is stated for it.

Evaluation: ``pld.atomic``; all terms are positive.
"""

from __future__ import annotations

import math
from fractions import Fraction

from affidavit.accountant.cases.case import Case
from affidavit.accountant.cases.nodes import OneOf
from affidavit.accountant.leaves import facts
from affidavit.accountant.methods.base import Bracket, Target, certain_delta
from affidavit.accountant.plan import Approximate, Leaf, Plan, Pure
from affidavit.accountant.validate import Relation

__all__ = ["OptimalMethod", "TwoPointProfile", "pure_cost", "pure_costs"]

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


def pure_costs(case: Case) -> list[tuple[float, float, int]] | None:
    """(ε, δ, uses) of every mechanism, or None if one has no such guarantee."""
    known = [(pure_cost(node), count) for node, count in case.nodes()]
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


class TwoPointProfile:
    """Profile of a composition of (ε_i, δ_i) pairs; ``exact`` if nothing better is known of them."""

    def __init__(self, costs: list[tuple[float, float, int]], *, exact: bool) -> None:
        from affidavit.accountant.pld.atomic import product, pure
        from affidavit.accountant.pld.curve import ever

        self.exact = exact
        self.revealed = ever((delta, count) for _, delta, count in costs)
        self._costs = costs
        losing = [(epsilon, count) for epsilon, count in sorted(_by_epsilon(costs).items()) if epsilon and count]
        self.infinite = any(math.isinf(epsilon) for epsilon, _ in losing)
        self._law = None if self.infinite else product([(pure(one), n) for one, n in losing], most=MAX_SUPPORT)

    def delta(self, epsilon: float) -> Bracket:
        """What is revealed, and of the rest the losses above ``epsilon``."""
        if self._law is None:
            return Bracket(0.0, 1.0)
        (low, high), kept = self._law.delta(epsilon), 1.0 - self.revealed
        upper = min(1.0, self.revealed * (1.0 + 1e-13) + kept * high * (1.0 + 1e-13))
        lower = self.revealed * (1.0 - 1e-13) + kept * low * (1.0 - 1e-13)
        return Bracket(lower if self.exact else certain_delta(epsilon), upper)

    def epsilon(self, delta: float) -> Bracket:
        """Where each side falls to ``delta``; infinite if more than that is revealed."""
        from affidavit.accountant.pld.inverse import inverse

        if self._law is None or self.revealed * (1.0 - 1e-13) > delta:
            return Bracket(0.0 if self.infinite or not self.exact else math.inf, math.inf)
        largest = self._law.high
        lower, upper = inverse(self.delta, delta, furthest=2.0 * largest, near=0.5 * largest)
        upper = min(upper, largest)
        if self.revealed * (1.0 + 1e-13) > delta:
            # At exactly what is revealed, nothing else may be: the largest loss.
            upper = largest if self._reveals_at_most(delta) else math.inf
        return Bracket(min(lower, upper) if self.exact else 0.0, upper)

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

    def why_not(self, case: Case, _relation: Relation) -> str:
        costs = pure_costs(case)
        if costs is None:
            return "needs an (epsilon, delta) guarantee of every mechanism"
        if support_size(costs) > MAX_SUPPORT:
            return f"the product of unequal epsilons has more than {MAX_SUPPORT} values"
        return ""

    def profile(self, case: Case, _relation: Relation, _target: Target) -> TwoPointProfile:
        """Exact for pure and approximate leaves; an upper side where more is known."""
        costs = pure_costs(case) or []
        exact = all(isinstance(node, (Pure, Approximate)) for node, _ in case.nodes())
        return TwoPointProfile(costs, exact=exact)
