"""A plan's costs once more, for the gate: by definition where that is short, in mpmath, sharing no arithmetic.

Divergences of leaves are sums or integrals over the worst pair's own outcomes, at 40 digits behind what cancels: for
bounded range the losses t, t − η are searched for the worst t (the moment is unimodal in e^{−t}, see ``spend``);
Laplace noise is integrated over its three pieces. Samples use the same theorems as ``spend``, whose statements fix what
is summed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

from mpmath import mp, mpf

from affidavit.accountant import nodes
from affidavit.accountant.digits import alone
from affidavit.accountant.filters.costs import Costs
from affidavit.accountant.nodes import Plan, outermost, unrolled, walk
from affidavit.accountant.plan import core
from affidavit.accountant.validate import Relation

__all__ = ["understated"]

_LOST = mpf("1e-25")
"""More than 40 digits lose relatively, and less than a certificate's 12 digits show."""

_Leaf = Callable[[Plan], Any]


class _NoTheorem(Exception):
    """Nothing here bounds this node in the unit that was asked for."""


def understated(plan: Plan, costs: Costs, *, relation: Relation) -> str:
    """The first stated cost that is below what is found here; empty where each holds."""
    tree = core(plan)
    padded = len({node.population for node in outermost(tree, nodes.WithoutReplacement)}) > 1
    with alone, mp.workdps(_digits(tree)):
        for point in costs.renyi:
            if not _covers(point.rho, partial(_renyi, tree, _inside(relation) if padded else relation, point.order)):
                return f"Rényi divergence of order {point.order}"
        if costs.zcdp is not None and not _covers(costs.zcdp, lambda: _sum(tree, relation, _rho)):
            return "zCDP"
        if costs.gdp is not None and not _covers(costs.gdp, lambda: mp.sqrt(_sum(tree, relation, _square))):
            return "GDP"
    return ""


def _digits(tree: Plan) -> int:
    """40 behind those that cancel: a moment differs from 1 by the squares of a loss and of the rate it is met with."""
    values = (getattr(node, field.name) for node in walk(tree) for field in fields(node))
    sizes = (abs(math.log10(value)) for value in values if isinstance(value, (int, float)) and value > 0)
    return 40 + 4 * math.ceil(max(sizes, default=0.0))


def _covers(stated: Decimal, cost: Callable[[], Any]) -> bool:
    try:
        return bool(mpf(str(stated)) >= cost() * (1 - _LOST))
    except (_NoTheorem, OverflowError, ZeroDivisionError):
        return False


def _inside(relation: Relation) -> Relation:
    """Where the number of records is not public, those that are missing are null."""
    return "zero-out" if relation == "add-remove" else relation


@lru_cache(maxsize=8192)
def _renyi(plan: Plan, relation: Relation, order: Decimal) -> Any:
    match plan:
        case nodes.Poisson(rate=rate, of=of):
            if relation == "substitution" and 0 < rate < 1:
                raise _NoTheorem
            return _on_sample(mpf(rate), of, relation, order, swapped=False)
        case nodes.WithoutReplacement(population=population, sample=sample, of=of):
            if relation == "zero-out" and 0 < sample < population:
                raise _NoTheorem
            rate = mpf(sample) / population if population else mpf(0)
            return _on_sample(rate, of, "substitution", order, swapped=relation != "add-remove")
        case nodes.Parallel():
            return _tree(plan, relation, lambda part: _renyi(part, _inside(relation), order))
        case nodes.Compose() | nodes.Repeat():
            return _tree(plan, relation, lambda part: _renyi(part, relation, order))
    return _divergence(plan, mpf(str(order)))


def _tree(plan: Plan, relation: Relation, part: _Leaf) -> Any:
    match plan:
        case nodes.Compose(parts=parts):
            return mp.fsum(part(one) for one in parts)
        case nodes.Repeat(count=count, of=of):
            return count * part(of) if count else mpf(0)
        case nodes.Parallel(parts=parts, membership=membership):
            found = sorted((part(one) for one in parts), reverse=True)
            moving = relation == "substitution" and membership == "moving"
            return mp.fsum(found[: 2 if moving else 1])
    return part(plan)


def _divergence(leaf: Plan, order: Any) -> Any:
    match leaf:
        case nodes.Exponential(range=eta):
            return _worst_range(mpf(eta), order) if eta > 0 else mpf(0)
        case nodes.Laplace(noise_multiplier=scale) if scale > 0:
            # P around 0, Q around 1: both tails and the stretch between, where the loss is linear.
            shift = 1 / mpf(scale)
            low = mp.exp((order - 1) * shift) / 2
            high = mp.exp(-order * shift) / 2
            slope = 1 - 2 * order
            between = (mp.exp((order - 1) * shift) - mp.exp(-order * shift)) / (-2 * slope)
            return mp.log(low + between + high) / (order - 1)
        case nodes.Pure(epsilon=epsilon) | nodes.Approximate(epsilon=epsilon, delta=0.0):
            odds = mp.exp(mpf(epsilon))
            p, q = odds / (1 + odds), 1 / (1 + odds)
            return mp.log(p**order * q ** (1 - order) + q**order * p ** (1 - order)) / (order - 1)
    return order * _rho(leaf)


def _worst_range(eta: Any, order: Any) -> Any:
    """The largest over t in [0, η] of the divergence of losses t and t − η."""
    one, power = mp.exp(-eta), mp.exp(-order * eta)

    def log_moment(t: Any) -> Any:
        q = (mp.exp(-t) - one) / (1 - one)
        return mp.log(q + (1 - q) * power) + order * t

    low, high = mpf(0), eta
    ratio = (mp.sqrt(5) - 1) / 2
    for _ in range(3 * mp.dps // 2):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if log_moment(left) > log_moment(right) else (left, high)
    return log_moment((low + high) / 2) / (order - 1)


def _on_sample(rate: Any, of: Plan, relation: Relation, order: Decimal, *, swapped: bool) -> Any:
    if any(isinstance(node, (nodes.Poisson, nodes.WithoutReplacement, nodes.Parallel)) for node in walk(of)):
        raise _NoTheorem
    if rate == 0:
        return mpf(0)
    inner = _renyi(of, relation, order)
    if rate == 1:
        return inner
    moment = _moments(rate, of, relation, swapped=swapped)
    below = int(order)
    logs = [mp.log(moment(n)) if n >= 2 else mpf(0) for n in (below, below + (below != order))]
    part = mpf(str(order)) - below
    return min(inner, ((1 - part) * logs[0] + part * logs[1]) / (mpf(str(order)) - 1))


def _moments(rate: Any, of: Plan, relation: Relation, *, swapped: bool) -> Callable[[int], Any]:
    """Whole order to the moment e^{(α−1)ρ(α)}: Mironov et al. 2019; Zhu, Wang 2019; Wang et al. 2019."""
    square = None if swapped else _gaussians(of)

    def through(k: int) -> Any:
        if square is not None:
            return mp.exp(k * (k - 1) * square / 2)
        return mp.exp((k - 1) * _renyi(of, relation, Decimal(k))) if k >= 2 else mpf(1)

    def whole(order: int) -> Any:
        if swapped:
            second = through(2)
            first = mp.binomial(order, 2) * rate**2 * min(4 * (second - 1), 2 * second)
            rest = (2 * mp.binomial(order, k) * rate**k * through(k) for k in range(3, order + 1))
            return 1 + first + mp.fsum(rest)
        spread = 1 if square is not None else 3
        return mp.fsum(
            (spread if k >= 3 else 1) * mp.binomial(order, k) * (1 - rate) ** (order - k) * rate**k * through(k)
            for k in range(order + 1)
        )

    return whole


def _gaussians(plan: Plan) -> Any:
    """Σ 1/σ² of Gaussian leaves alone; None where there is anything else."""
    total = mpf(0)
    for leaf, count in unrolled(plan):
        if not isinstance(leaf, nodes.Gaussian) or leaf.noise_multiplier == 0:
            return None
        total += count * mpf(leaf.noise_multiplier) ** -2
    return total


def _sum(plan: Plan, relation: Relation, leaf: _Leaf) -> Any:
    match plan:
        case nodes.Compose() | nodes.Repeat() | nodes.Parallel():
            return _tree(plan, relation, lambda part: _sum(part, relation, leaf))
        case nodes.Poisson() | nodes.WithoutReplacement():
            raise _NoTheorem
    return leaf(plan)


def _rho(leaf: Plan) -> Any:
    match leaf:
        case nodes.Gaussian(noise_multiplier=sigma) if sigma > 0:
            return mpf(sigma) ** -2 / 2
        case nodes.DiscreteGaussian(noise_multiplier=sigma, granularity=granularity) if sigma > 0:
            step = mpf(granularity)
            whole = mp.nint(1 / step)
            near = whole > 0 and abs(1 - whole * step) <= mpf("1e-9")  # a grid written in decimals
            return ((1 if near else mp.ceil(1 / step) * step) / mpf(sigma)) ** 2 / 2
        case nodes.Exponential(range=eta):
            return mpf(eta) ** 2 / 8
        case nodes.ZeroConcentrated(rho=rho):
            return mpf(rho)
    return _pure(leaf) ** 2 / 2


def _square(leaf: Plan) -> Any:
    match leaf:
        case nodes.Gaussian(noise_multiplier=sigma) if sigma > 0:
            return mpf(sigma) ** -2
    # Φ(−μ/2) = 1/(1 + e^ε), that is erfc(x) = 2/(1 + e^ε) at x = μ/√8, which is about √ε where that is large.
    odds, near = mp.exp(_pure(leaf)), mp.sqrt(_pure(leaf))
    return 8 * mp.findroot(lambda x: mp.log(mp.erfc(x) * (1 + odds) / 2), (near, 2 * near)) ** 2 if near else mpf(0)


def _pure(leaf: Plan) -> Any:
    match leaf:
        case nodes.Pure(epsilon=epsilon) | nodes.Approximate(epsilon=epsilon, delta=0.0):
            return mpf(epsilon)
        case nodes.Laplace(noise_multiplier=scale) if scale > 0:
            return 1 / mpf(scale)
        case nodes.Exponential(range=eta):
            return mpf(eta)
    raise _NoTheorem
