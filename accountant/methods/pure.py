"""δ = 0: pure differential privacy, where the worst-case losses add up exactly.

ε at δ = 0 is the largest loss. It is Σ ε_i for pure, exponential and Laplace mechanisms (each
attains its ε, the exponential in the limit t → η), and infinite for Gaussian noise, whose loss
is unbounded, and for what admits it (ρ-zCDP). Under sampling at rate γ the largest loss of an ε-DP mechanism is
ln(1 + γ(e^ε − 1)) (Balle, Barthe and Gaboardi 2018, Theorems 8 to 10), sampled uses adding up;
Poisson sampling under substitution is charged without amplification here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from affidavit.accountant import decimals, nodes
from affidavit.accountant.cases.case import Case
from affidavit.accountant.cases.nodes import Moved, OneOf
from affidavit.accountant.leaves import NONE, Loss, facts
from affidavit.accountant.methods.base import Bracket
from affidavit.accountant.rounding import STATED
from affidavit.accountant.validate import Relation

__all__ = ["pure_epsilon"]


def amplified(epsilon: float, rate: float) -> float:
    """ln(1 + rate (e^ε − 1)) without overflow."""
    if rate <= 0.0:
        return 0.0
    if epsilon > 30.0:
        return max(0.0, epsilon + math.log(rate + (1.0 - rate) * math.exp(-epsilon)))
    return math.log1p(rate * math.expm1(epsilon))


def _largest_loss(node: nodes.Plan, relation: Relation) -> Loss:
    """(lower, upper) of the largest loss of one use; exact where the node states it."""
    match node:
        case nodes.Leaf():
            return facts(node).largest
        case OneOf(options=options):
            return Fraction(0), max(_largest_loss(option, relation)[1] for option in options)
        case nodes.Compose() | nodes.Repeat():
            return _total(nodes.unrolled(node), relation)
        case nodes.Poisson(rate=rate, of=nodes.Pure(epsilon=replaced), absent=nodes.Pure(epsilon=gone)) if (
            relation == "substitution"
        ):
            return _replaced(replaced, gone, rate)
        case nodes.Poisson(rate=rate, of=of, absent=absent) if relation == "substitution":
            change = _largest_loss(of, relation)
            if absent is None:
                return _sampled(change, 1.0 if rate > 0.0 else 0.0)
            both = _sampled(max(change, _largest_loss(absent, "zero-out"), key=lambda sides: sides[1]), rate)
            return both[0], min(both[1], change[1])
        case Moved(node=moved):
            return _largest_loss(moved, node.relation)
        case nodes.Poisson(rate=rate, of=of):
            return _sampled(_largest_loss(of, relation), rate)
        case nodes.WithoutReplacement(of=of):
            return _sampled(_largest_loss(of, "substitution"), node.rate)
        case _:
            return Fraction(0), math.inf


def _sampled(one: Loss, rate: float) -> Loss:
    if rate <= 0.0:
        return NONE
    if one[1] == math.inf:
        return (math.inf if one[0] == math.inf else Fraction(0)), math.inf
    return Fraction(0), amplified(float(one[1]), rate) * (1.0 + STATED)


def _replaced(replaced: float, absent: float, rate: float) -> Loss:
    """ln (1 − q + q e^a)/(1 − q + q e^{a−r}), r <= 2a: the largest loss of both costs (``pld.replaced``)."""
    if absent <= 0.0 or not 0.0 < rate < 1.0:
        return _sampled((Fraction(replaced), Fraction(replaced)), 1.0 if rate > 0.0 else 0.0)
    old, new = amplified(absent, rate), math.log1p(rate * math.expm1(absent - min(replaced, 2.0 * absent)))
    return Fraction(0), max(0.0, old - new) + STATED * (old + abs(new))


def pure_epsilon(case: Case, relation: Relation) -> Bracket:
    """ε at δ = 0, summed exactly over the case and rounded outward."""
    lower, upper = _total(case.nodes(), relation)
    return Bracket(decimals.float_at_most(lower), decimals.float_at_least(upper))


def _total(uses: Iterable[tuple[nodes.Plan, int]], relation: Relation) -> Loss:
    lower, upper = NONE
    for node, count in uses:
        if count:
            one = _largest_loss(node, relation)
            lower, upper = lower + count * one[0], upper + count * one[1]
    return lower, upper
