"""δ = 0: pure differential privacy, where the worst-case losses add up exactly.

ε at δ = 0 is the largest loss. It is Σ ε_i for pure, exponential and Laplace mechanisms (each
attains its ε, the exponential in the limit t → η), and infinite for Gaussian noise, whose loss
is unbounded, and for what admits it (ρ-zCDP). Under sampling at rate γ the largest loss of an ε-DP mechanism is
ln(1 + γ(e^ε − 1)) (Balle, Barthe and Gaboardi 2018, Theorems 8 to 10), sampled uses adding up;
Poisson sampling under substitution is charged without amplification here.
"""

from __future__ import annotations

import math
from fractions import Fraction

from affidavit.accountant import decimals, nodes
from affidavit.accountant.cases.case import Moved, OneOf
from affidavit.accountant.cases.scenario import Scenario
from affidavit.accountant.methods.base import Interval
from affidavit.accountant.validate import Relation

__all__ = ["pure_epsilon"]

UNBOUNDED = (math.inf, math.inf)


def amplified(epsilon: float, rate: float) -> float:
    """ln(1 + rate (e^ε − 1)) without overflow."""
    if rate <= 0.0:
        return 0.0
    if epsilon > 30.0:
        return max(0.0, epsilon + math.log(rate + (1.0 - rate) * math.exp(-epsilon)))
    return math.log1p(rate * math.expm1(epsilon))


def _largest_loss(node: nodes.Plan, relation: Relation) -> tuple[Fraction | float, Fraction | float]:
    """(lower, upper) of the largest loss of one use; exact where the node states it."""
    match node:
        case nodes.Pure(epsilon=epsilon):
            return Fraction(epsilon), Fraction(epsilon)
        case nodes.Exponential(range=eta):
            return Fraction(eta), Fraction(eta)
        case nodes.Laplace(noise_multiplier=scale):
            return (1 / Fraction(scale), 1 / Fraction(scale)) if scale > 0.0 else UNBOUNDED
        case nodes.Approximate(epsilon=epsilon, delta=delta):
            return UNBOUNDED if delta > 0.0 else (Fraction(epsilon), Fraction(epsilon))
        case nodes.DiscreteGaussian(is_coarse=True):
            return Fraction(0), math.inf
        case nodes.Gaussian() | nodes.DiscreteGaussian():
            return UNBOUNDED
        case nodes.ZeroConcentrated(rho=rho):  # admits the Gaussian of equal ρ
            return UNBOUNDED if rho > 0.0 else (Fraction(0), Fraction(0))
        case OneOf(options=options):
            return Fraction(0), max(_largest_loss(option, relation)[1] for option in options)
        case nodes.Compose(parts=parts):
            pairs = [_largest_loss(part, relation) for part in parts]
            return sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
        case nodes.Repeat(count=count, of=of):
            one = _largest_loss(of, relation)
            return (count * one[0], count * one[1]) if count else (Fraction(0), Fraction(0))
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
            both_costs = isinstance(moved, nodes.Poisson) and moved.absent is not None
            return _largest_loss(moved, "substitution" if both_costs else "zero-out")
        case nodes.Poisson(rate=rate, of=of):
            return _sampled(_largest_loss(of, relation), rate)
        case nodes.WithoutReplacement(population=population, sample=sample, of=of):
            return _sampled(_largest_loss(of, "substitution"), sample / population if population else 0.0)
        case _:
            return Fraction(0), math.inf


def _sampled(one: tuple[Fraction | float, Fraction | float], rate: float) -> tuple[Fraction | float, Fraction | float]:
    if rate <= 0.0:
        return Fraction(0), Fraction(0)
    if one[1] == math.inf:
        return (math.inf if one[0] == math.inf else Fraction(0)), math.inf
    return Fraction(0), amplified(float(one[1]), rate) * (1.0 + 1e-14)


def _replaced(replaced: float, absent: float, rate: float) -> tuple[Fraction | float, Fraction | float]:
    """ln (1 − q + q e^a)/(1 − q + q e^{a−r}), r <= 2a: the largest loss of both costs (``pld.replaced``)."""
    if absent <= 0.0 or not 0.0 < rate < 1.0:
        return _sampled((Fraction(replaced), Fraction(replaced)), 1.0 if rate > 0.0 else 0.0)
    old, new = amplified(absent, rate), math.log1p(rate * math.expm1(absent - min(replaced, 2.0 * absent)))
    return Fraction(0), max(0.0, old - new) + 1e-14 * (old + abs(new))


def pure_epsilon(scenario: Scenario, relation: Relation) -> Interval:
    """ε at δ = 0, summed exactly over the scenario and rounded outward."""
    lower: Fraction | float = Fraction(0)
    upper: Fraction | float = Fraction(0)
    for node, count in scenario.nodes():
        if count:
            one = _largest_loss(node, relation)
            lower += count * one[0]
            upper += count * one[1]
    return Interval(decimals.float_at_most(lower), decimals.float_at_least(upper))
