r"""What a plan costs in each filter's unit, from above, in balls.

Rényi: ρ(α) bounds the divergence of order α in both directions; adaptive composition adds it (Mironov 2017,
proposition 1). Per leaf: Gaussian α/(2σ²), also the discrete one with its shift in whole steps (Canonne, Kamath,
Steinke 2020, proposition 5); Laplace as Mironov 2017, table II; pure by randomised response; ``zcdp`` αρ.
Bounded range η: the worst pair has losses t and t − η (Dong, Durfee, Rogers 2020). With x = e^{−t}, a = e^{−η},
b = e^{−αη} its moment is x^{−α}(x(1−b) − (a−b))/(1−a), which rises up to x* = α(a−b)/((α−1)(1−b)) and falls
from there, so its value at x*, (a−b)/((α−1)(1−a)) x*^{−α}, bounds it for every t. At most η, and at most αη²/8
(Cesar, Rogers 2021, lemma 3.4).

Samples, at whole orders: Poisson with Gaussians by the binomial sum Σ C(α,k)(1−q)^{α−k}q^k e^{k(k−1)/(2σ²)}
(Mironov, Talwar, Zhang 2019, section 3.3, which is the larger direction by theorem 5); Poisson with anything by Zhu,
Wang 2019, theorem 5, with its factor 3; without replacement by Wang, Balle, Kasiviswanathan 2019, theorem 9, under
substitution, and as Poisson under add-remove. In a part, or beside a sample from a population of another size, how
many records there are is not public, and leaving is becoming null: zero-out, which has no cost here. (α−1)ρ(α) is
convex in α and 0 at 1: between whole orders the chord. ρ on the sample bounds ρ through it (quasi-convexity). A sample
inside a sample, a ``parallel`` in one, and what ``rdp`` refuses has no cost here.

Parallel parts: the costliest; under substitution, where a record may move, the two costliest together.

zCDP: Σρ; GDP: Σμ², where ε-DP is μ-GDP for Φ(μ/2) = e^ε/(1+e^ε): both trade-off curves meet on the diagonal at
1/(1+e^ε) = Φ(−μ/2), and a convex curve lies under its chords (Dong, Roth, Su 2022, define both curves).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

from flint import arb, fmpz

from affidavit.accountant import decimals, nodes
from affidavit.accountant.filters.costs import ORDERS, Costs, RenyiPoint
from affidavit.accountant.nodes import Plan, outermost, unrolled, walk
from affidavit.accountant.plan import core
from affidavit.accountant.validate import Relation
from affidavit.accountant.verifier.balls import Ball, ball, precision, up
from affidavit.accountant.verifier.noises import NEARLY_WHOLE

__all__ = ["costs_of"]

_T = TypeVar("_T")


class _NoTheorem(Exception):
    """Nothing here bounds this node in the unit that was asked for."""


def costs_of(plan: Plan, *, relation: Relation) -> Costs:
    """The plan's costs, each rounded up to 12 digits."""
    tree = core(plan)
    populations = {node.population for node in outermost(tree, nodes.WithoutReplacement)}
    seen: Relation = "zero-out" if relation == "add-remove" and len(populations) > 1 else relation
    with precision():
        points = _known(lambda: tuple(RenyiPoint(one, _decimal(_renyi(tree, seen, Fraction(one)))) for one in ORDERS))
        zcdp = _known(lambda: _added(tree, relation, _concentrated))
        square = _known(lambda: _added(tree, relation, _gaussian_square))
        gdp = None if square is None else _decimal(ball(square).sqrt())
    return Costs(points or (), None if zcdp is None else decimals.round_up(zcdp), gdp)


def _known(cost: Callable[[], _T]) -> _T | None:
    try:
        return cost()
    except _NoTheorem:
        return None


def _decimal(value: Ball) -> Decimal:
    return decimals.round_up(max(_finite(value), 0.0))


def _finite(value: Ball) -> float:
    above = up(value)
    if not math.isfinite(above):
        raise _NoTheorem
    return above


def _renyi(plan: Plan, relation: Relation, order: Fraction) -> Ball:
    match plan:
        case nodes.Compose() | nodes.Repeat():
            return ball(_composed(plan, relation, lambda part: _renyi(part, relation, order)))
        case nodes.Parallel():
            inside: Relation = "zero-out" if relation == "add-remove" else relation
            return ball(_composed(plan, relation, lambda part: Fraction(_finite(_renyi(part, inside, order)))))
        case nodes.Poisson(rate=rate, of=of):
            if relation == "substitution" and 0.0 < rate < 1.0:
                raise _NoTheorem
            return _sampled(Fraction(rate), of, relation, order, poisson=True)
        case nodes.WithoutReplacement(population=population, sample=sample, of=of):
            if relation == "zero-out" and 0 < sample < population:
                raise _NoTheorem
            part = Fraction(sample, population) if population else Fraction(0)
            return _sampled(part, of, "substitution", order, poisson=relation == "add-remove")
    return _leaf(plan, order)


def _composed(plan: Plan, relation: Relation, part: Callable[[Plan], Any]) -> Any:
    """What all parts cost together; of parallel ones, which the costliest and, where a record moves, two of them."""
    match plan:
        case nodes.Compose(parts=parts):
            return sum(map(part, parts))
        case nodes.Repeat(count=count, of=of):
            return count * part(of) if count else 0
        case nodes.Parallel(parts=parts):
            met = 2 if relation == "substitution" and plan.membership != "fixed" else 1
            return sum(sorted(map(part, parts), reverse=True)[:met])
    return part(plan)


def _leaf(leaf: Plan, order: Fraction) -> Ball:
    match leaf:
        case nodes.Exponential(range=eta):
            return _bounded_range(Fraction(eta), order)
        case nodes.Laplace(noise_multiplier=scale) if scale > 0.0:
            return _laplace(1 / Fraction(scale), order)
        case nodes.Pure(epsilon=epsilon) | nodes.Approximate(epsilon=epsilon, delta=0.0):
            return _pure(Fraction(epsilon), order)
    return ball(order * _concentrated(leaf))


def _pure(epsilon: Fraction, order: Fraction) -> Ball:
    """Both atoms of randomised response: (e^{αε} + e^{(1−α)ε})/(1 + e^ε)."""
    e, a = ball(epsilon), ball(order)
    moment = ((a * e).exp() + ((1 - a) * e).exp()) / (1 + e.exp())
    return moment.log() / (a - 1)


def _laplace(epsilon: Fraction, order: Fraction) -> Ball:
    e, a = ball(epsilon), ball(order)
    moment = (a * ((a - 1) * e).exp() + (a - 1) * (-a * e).exp()) / (2 * a - 1)
    return moment.log() / (a - 1)


def _bounded_range(eta: Fraction, order: Fraction) -> Ball:
    simple = min(eta, order * eta * eta / 8)
    if eta == 0:
        return ball(0)
    a = ball(order)
    one, power = (-ball(eta)).exp(), (-a * ball(eta)).exp()
    x = a * (one - power) / ((a - 1) * (1 - power))
    log_moment = ((one - power) / ((a - 1) * (1 - one))).log() - a * x.log()
    sharp = log_moment / (a - 1)
    return sharp if up(sharp) < simple else ball(simple)


def _sampled(rate: Fraction, of: Plan, relation: Relation, order: Fraction, *, poisson: bool) -> Ball:
    if any(isinstance(node, (nodes.Poisson, nodes.WithoutReplacement, nodes.Parallel)) for node in walk(of)):
        raise _NoTheorem
    if rate == 0:
        return ball(0)
    inner = _renyi(of, relation, order)
    if rate == 1:
        return inner
    below = math.floor(order)
    low = _whole(rate, of, relation, below, poisson=poisson) if below >= 2 else ball(0)
    if below != order:
        high = _whole(rate, of, relation, below + 1, poisson=poisson)
        low = low + ball(order - below) * (high - low)
    through = low / ball(order - 1)
    return through if through.is_finite() and up(through) < up(inner) else inner


def _whole(rate: Fraction, of: Plan, relation: Relation, order: int, *, poisson: bool) -> Ball:
    """(α−1)ρ(α) at a whole order α >= 2.

    Of a sample of fixed size, without the theorem's terms in ρ(∞): min(4(e^{ρ(2)} − 1), 2e^{ρ(2)}) first, then
    2e^{(j−1)ρ(j)}.
    """
    q, square = ball(rate), _square(of) if poisson else None

    def inner(k: int) -> Ball:
        """E of the likelihood ratio's k-th power."""
        gaussian = None if square is None else ball(k * (k - 1)) * ball(square) / 2
        return (gaussian if gaussian is not None else (k - 1) * _renyi(of, relation, Fraction(k))).exp()

    if not poisson:
        second = inner(2)
        moment = 1 + q**2 * _choose(order, 2) * arb.min(4 * (second - 1), 2 * second)
        for k in range(3, order + 1):
            moment += 2 * q**k * _choose(order, k) * inner(k)
        return moment.log()
    spread = 1 if square is not None else 3
    moment = (1 - q) ** (order - 1) * (1 + (order - 1) * q)  # of k = 0 and 1
    for k in range(2, order + 1):
        moment += (1 if k == 2 else spread) * _choose(order, k) * (1 - q) ** (order - k) * q**k * inner(k)
    return moment.log()


def _choose(n: int, k: int) -> Ball:
    return arb(fmpz(math.comb(n, k)))


def _square(plan: Plan) -> Fraction | None:
    """Σ 1/σ² if ``plan`` is Gaussian leaves only: together one Gaussian."""
    total = Fraction(0)
    for leaf, count in unrolled(plan):
        if not isinstance(leaf, nodes.Gaussian) or leaf.noise_multiplier == 0.0:
            return None
        total += count / Fraction(leaf.noise_multiplier) ** 2
    return total


def _added(plan: Plan, relation: Relation, leaf: Callable[[Plan], Fraction]) -> Fraction:
    """The sum over ``plan`` of what each leaf costs."""
    match plan:
        case nodes.Compose() | nodes.Repeat() | nodes.Parallel():
            return Fraction(_composed(plan, relation, lambda part: _added(part, relation, leaf)))
        case nodes.Poisson() | nodes.WithoutReplacement():
            raise _NoTheorem
    return leaf(plan)


def _concentrated(leaf: Plan) -> Fraction:
    """ρ of ρ-zCDP."""
    match leaf:
        case nodes.Gaussian(noise_multiplier=sigma) if sigma > 0.0:
            return 1 / (2 * Fraction(sigma) ** 2)
        case nodes.DiscreteGaussian(noise_multiplier=sigma, granularity=granularity) if sigma > 0.0:
            steps = 1 / Fraction(granularity)
            whole = round(steps)
            shift = Fraction(1) if abs(steps - whole) <= NEARLY_WHOLE * steps else math.ceil(steps) / steps
            return (shift / Fraction(sigma)) ** 2 / 2
        case nodes.Exponential(range=eta):
            return Fraction(eta) ** 2 / 8
        case nodes.ZeroConcentrated(rho=rho):
            return Fraction(rho)
    return _pure_epsilon(leaf) ** 2 / 2


def _gaussian_square(leaf: Plan) -> Fraction:
    """μ² of μ-GDP, rounded up where it is that of ε-DP; there is none of the discrete Gaussian or of ρ-zCDP here."""
    match leaf:
        case nodes.Gaussian(noise_multiplier=sigma) if sigma > 0.0:
            return 1 / Fraction(sigma) ** 2
    epsilon = _pure_epsilon(leaf)
    if epsilon == 0:
        return Fraction(0)
    at = (2 / (1 + ball(epsilon).exp())).erfcinv()  # Φ(−μ/2) = erfc(μ/√8)/2
    return Fraction(_finite(ball(8).sqrt() * at)) ** 2


def _pure_epsilon(leaf: Plan) -> Fraction:
    match leaf:
        case nodes.Pure(epsilon=epsilon) | nodes.Approximate(epsilon=epsilon, delta=0.0):
            return Fraction(epsilon)
        case nodes.Laplace(noise_multiplier=scale) if scale > 0.0:
            return 1 / Fraction(scale)
        case nodes.Exponential(range=eta):
            return Fraction(eta)
    raise _NoTheorem
