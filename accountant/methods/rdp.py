r"""Rényi differential privacy: ρ(α) of every node that has one, added up, converted at the best order.

ρ(α) bounds the Rényi divergence of order α > 1 between the outputs on neighbours, in both orders;
adaptive composition adds it (Mironov 2017, proposition 1). Sources:

- leaves: ``leaves``;
- Poisson-sampled Gaussian: (1/(α−1)) ln E_Q[(1 − q + q e^{(2x−1)/(2σ²)})^α] at every real α, the larger direction
  (Mironov, Talwar, Zhang 2019, theorem 5);
- Poisson, anything else: Zhu, Wang 2019, theorem 5, with its factor 3, at whole orders;
- without replacement: under substitution and zero-out Wang, Balle, Kasiviswanathan 2019, theorem 9, at whole
  orders (three laws, each two of them as far apart as the substitution curve says); under add-remove the pair
  (γP + (1−γ)Q, Q) is that of Poisson sampling at rate γ = m/n with the substitution curve (``pld.subsample``), so the
  Poisson rules apply;
- Poisson under substitution: the same theorem 9 where ``absent`` is stated, with the larger of both curves;
- any sample of rate γ: E e^{(α−1)L} is jointly convex, so (α−1) ρ(α) <= ln(1 − γ + γ e^{(α−1)ρ}) with the ρ of the
  records that the sample holds on one side only; attained under substitution where samples without the place are
  disjoint from the others.

Between whole orders (α−1) ρ(α) is convex, so the chord is an upper bound; ρ on the sample is one
too (quasi-convexity). Conversion at any α > 1 (Canonne, Kamath, Steinke 2020, proposition 12; Balle et
al. 2020, theorem 21), so the search over α is no part of the proof:

    δ = e^{(α−1)(ρ(α) − ε)}/(α−1) · (1 − 1/α)^α,    ε = ρ(α) + ln((α−1)/α) − ln(δ α)/(α−1).

An upper side only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from affidavit.accountant import nodes
from affidavit.accountant.cases.case import Case
from affidavit.accountant.cases.nodes import Moved, OneOf
from affidavit.accountant.leaves import Renyi, facts
from affidavit.accountant.methods import subsampled_renyi as sampled
from affidavit.accountant.methods.base import Bracket, Target, least
from affidavit.accountant.rounding import POWER
from affidavit.accountant.validate import Relation

__all__ = ["RenyiMethod", "RenyiProfile", "rdp"]

LOG_ORDERS = (math.log(1e-4), math.log(1e9))
"""Range of ln(α − 1) that is searched."""
GRID = 64
WHOLE = tuple(math.log(k) for k in range(1, 33))
"""Of the first whole orders, where bounds of samples have kinks."""


class _NoBoundError(ValueError):
    """Why a node has no Rényi bound, in a few words."""


def rdp(plan: nodes.Plan, relation: Relation) -> Renyi:
    """ρ(α) of ``plan`` for orders α >= 1 (order 1, the Kullback-Leibler divergence, is bounded from just above).

    Raises ``ValueError``, with the reason, where a node has no Rényi bound under ``relation``.
    """
    curve = _curve(plan, relation)
    return lambda order: curve(max(order, 1.0 + 1e-6))


@lru_cache(maxsize=512)
def _curve(plan: nodes.Plan, relation: Relation) -> Renyi:
    match plan:
        case nodes.Compose() | nodes.Repeat():
            curves = [(_curve(one, relation), count) for one, count in nodes.unrolled(plan)]
            return lambda order: math.fsum(count * curve(order) for curve, count in curves)
        case OneOf(options=options):
            each = [_curve(option, relation) for option in options]
            return lambda order: max(curve(order) for curve in each)
        case Moved(node=sample):
            return _curve(sample, plan.relation)
        case nodes.Poisson(rate=rate, of=of, absent=absent):
            if any(isinstance(node, nodes.WithoutReplacement) for node in nodes.walk(of)):
                raise _NoBoundError("no theorem for sampling without replacement inside a Poisson sample")
            if relation == "substitution":
                return _sampled(rate, of, relation, others=None if absent is None else _curve(absent, "zero-out"))
            return _sampled(rate, of, relation, poisson=True)
        case nodes.WithoutReplacement(sample=sample, of=of):
            if any(node.population != sample for node in nodes.outermost(of, nodes.WithoutReplacement)):
                raise _NoBoundError("an inner sample without replacement must be drawn from the outer sample")
            inner = _curve(of, "substitution")
            return _sampled(plan.rate, of, "substitution", poisson=relation == "add-remove", others=inner)
    return _leaf(plan)


def _sampled(
    rate: float, of: nodes.Plan, relation: Relation, *, poisson: bool = False, others: Renyi | None = None
) -> Renyi:
    """``of`` on a sample, its cost stated for ``relation``; ``poisson`` picks the pair (γP + (1−γ)Q, Q).

    ``others``: how far samples without the place are from those with it; None where nothing is known of that.
    """
    inner = _curve(of, relation)
    if rate == 0.0:
        return lambda _: 0.0
    if rate == 1.0:
        return inner
    square = _gaussian_square(of)
    if poisson and square is not None:
        if square == 0.0:
            return lambda _: 0.0
        if not math.isfinite(square):
            return lambda _: math.inf
        sigma = 1.0 / math.sqrt(square)
        return _cached(lambda order: min(sampled.poisson_gaussian(order, sigma=sigma, rate=rate), inner(order)))
    convex = sampled.jointly_convex(inner, rate=rate)
    if poisson:
        whole = sampled.poisson_any(inner, rate=rate)
    elif others is not None:
        largest = inner if others is inner else lambda order: max(inner(order), others(order))
        whole = sampled.fixed_size_any(largest, rate=rate)
    else:
        return _cached(convex)
    return _cached(lambda order: min(sampled.between_whole_orders(whole, order), convex(order)))


def _cached(curve: Renyi) -> Renyi:
    return lru_cache(maxsize=4096)(curve)


def _gaussian_square(plan: nodes.Plan) -> float | None:
    """Σ 1/σ² if ``plan`` is Gaussian leaves only: their composition is one Gaussian."""
    squares: list[float] = []
    for leaf, count in nodes.unrolled(plan):
        if not isinstance(leaf, nodes.Gaussian):
            return None
        squares.append(count / leaf.noise_multiplier / leaf.noise_multiplier if leaf.noise_multiplier else math.inf)
    return math.fsum(squares)


def _leaf(leaf: nodes.Plan) -> Renyi:
    if not isinstance(leaf, nodes.Leaf):
        raise _NoBoundError(f"no Rényi bound for {leaf.kind}")
    if (renyi := facts(leaf).renyi) is None:
        raise _NoBoundError(f"an {leaf.kind} guarantee has no Rényi bound")
    return renyi


def _least(terms: Callable[[float], tuple[float, ...]], orders: tuple[float, float], rounding: float) -> float:
    """The least sum of ``terms`` over ln(α − 1), rounding charged: a grid, then golden section around its best."""

    def value(log_over: float) -> float:
        parts = terms(log_over)
        total = sum(parts) + rounding * sum(map(abs, parts))
        return math.inf if math.isnan(total) else total  # of infinities that cancel nothing is known

    low, high = orders
    grid = [low + (high - low) * i / GRID for i in range(GRID + 1)]
    values = [value(x) for x in grid]
    best = min(range(len(grid)), key=values.__getitem__)
    around = least(value, grid[max(best - 1, 0)], grid[min(best + 1, GRID)], rounds=48)
    return min(values[best], around, *map(value, WHOLE))


class RenyiProfile:
    """The best order's conversion of ρ(α): an upper side. ``orders``: the range of ln(α − 1) that is searched.

    ``rounding``: of each term, relative; a ρ(α) that is a product has less of it.
    """

    rounding = POWER

    def __init__(self, curve: Renyi, *, orders: tuple[float, float] = LOG_ORDERS) -> None:
        self._curve, self._orders = curve, orders

    def epsilon(self, delta: float) -> Bracket:
        """The least over orders; +inf where no order gives one."""
        if delta >= 1.0:
            return Bracket(0.0, 0.0)
        if delta <= 0.0:
            # Only a bounded divergence at every order helps: the limit at infinity.
            limit = self._curve(1e300)
            return Bracket(0.0, limit * (1.0 + POWER) if limit < 1e200 else math.inf)
        log_delta = math.log(delta)

        def terms(log_over: float) -> tuple[float, ...]:
            over = math.exp(log_over)
            gain = math.log1p(math.exp(-log_over))
            return self._curve(1.0 + over), -gain, -log_delta / over, -math.log1p(over) / over

        return Bracket(0.0, max(0.0, _least(terms, self._orders, self.rounding)))

    def delta(self, epsilon: float) -> Bracket:
        """The least over orders; at most 1."""

        def terms(log_over: float) -> tuple[float, ...]:
            over = math.exp(log_over)
            gain = over * math.log1p(math.exp(-log_over))
            return over * self._curve(1.0 + over), -over * epsilon, -gain, -math.log1p(over)

        return Bracket(0.0, math.exp(min(_least(terms, self._orders, self.rounding), 0.0)))


class RenyiMethod:
    """Everything with a Rényi bound, sampled mechanisms included."""

    name = "rdp"
    exact = False

    def why_not(self, case: Case, relation: Relation) -> str:
        try:
            rdp(_as_plan(case), relation)
        except _NoBoundError as reason:
            return str(reason)
        return ""

    def profile(self, case: Case, relation: Relation, _target: Target) -> RenyiProfile:
        return RenyiProfile(rdp(_as_plan(case), relation))


def _as_plan(case: Case) -> nodes.Plan:
    return nodes.Compose(tuple(nodes.Repeat(count, node) for node, count in case.nodes()))
