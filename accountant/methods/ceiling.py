"""What a case costs at most, at a glance: enough to see that another one costs more.

- Losses of some mechanisms are at most Σ ε_i, whatever came before, and the moments of the loss of the others are
  bounded by their zCDP, one after another; so δ(ε) is at most what the zCDP conversion says at ε − Σ ε_i. Every split
  into the two is a bound; those of the largest ε are pure ones first.
- What is (ε_i, δ_i)-DP may fail with probability δ_i, and is ε_i-DP otherwise (Kairouz, Oh and Viswanath 2015): that
  adds at most Σ δ_i to δ.
- One use on a sample is (ln(1 + γ(e^ε − 1)), γδ)-DP where it is (ε, δ)-DP for what changes in the sample (Balle, Barthe
  and Gaboardi 2018, theorems 8 and 9); not so on a Poisson sample in which a record is replaced.
"""

from __future__ import annotations

import math

from affidavit.accountant.cases.case import Case
from affidavit.accountant.cases.choices import rho_of
from affidavit.accountant.methods.pure import pure_epsilon
from affidavit.accountant.methods.zcdp import ZcdpProfile
from affidavit.accountant.nodes import Plan, Poisson, WithoutReplacement, unrolled
from affidavit.accountant.plan import Approximate, Pure
from affidavit.accountant.rounding import POWER
from affidavit.accountant.validate import Relation

__all__ = ["costs_at_most"]

LARGEST = 1e300
LEAST_RHO = 1e-290
"""Below it a sum of ρ may have lost what float64 cannot hold: nothing is said."""
Uses = list[tuple[Plan, int]]


def costs_at_most(case: Case, relation: Relation, *, epsilon: float, delta: float) -> bool:
    """Whether δ(``epsilon``) <= ``delta`` shows at a glance."""
    return _shows([(node, count) for node, count in case.nodes() if count], relation, epsilon, delta)


def _shows(uses: Uses, relation: Relation, epsilon: float, delta: float) -> bool:
    match uses:
        case [(Poisson(rate=rate, of=of), 1)] if relation != "substitution" and rate > 0.0:
            return _shows(list(unrolled(of)), relation, _inner(epsilon, rate), delta / rate * (1.0 - POWER))
        case [(WithoutReplacement(rate=rate, of=of), 1)] if rate > 0.0:
            return _shows(list(unrolled(of)), "substitution", _inner(epsilon, rate), delta / rate * (1.0 - POWER))
    return _split(uses, relation, epsilon, delta)


def _inner(epsilon: float, rate: float) -> float:
    """The ε on the sample."""
    if epsilon > 30.0:
        return (epsilon - math.log(rate)) * (1.0 - POWER)
    return math.log1p(min(math.expm1(epsilon) / rate, LARGEST)) * (1.0 - POWER)


def _split(uses: Uses, relation: Relation, epsilon: float, delta: float) -> bool:
    if failing := math.fsum(node.delta * count for node, count in uses if isinstance(node, Approximate)):
        delta -= (failing + delta) * POWER + failing
    if delta < 0.0:
        return False
    costs = [_costs(node, count, relation) for node, count in uses]
    costs.sort(key=lambda cost: (cost[0] == math.inf, cost[1] < math.inf, -cost[2]))
    left = epsilon * (1.0 - POWER)
    for i in range(len(costs) + 1):
        if not left >= 0.0:
            return False
        rho = math.fsum(rho for _, rho, _ in costs[i:])
        if i == len(costs) or (LEAST_RHO < rho < math.inf and ZcdpProfile(rho).delta(left).upper <= delta):
            return True
        left -= costs[i][0] * (1.0 + POWER) if i < len(costs) else 0.0
    return False


def _costs(node: Plan, count: int, relation: Relation) -> tuple[float, float, float]:
    """The largest loss of all uses, their ρ, and the largest loss of one; infinite where there is none; no failures."""
    if isinstance(node, Approximate):
        node = Pure(node.epsilon)
    most, rho = pure_epsilon(Case(((node, count),)), relation).upper, rho_of(node)
    return most, math.inf if rho is None else rho * count * (1.0 + POWER), most / count
