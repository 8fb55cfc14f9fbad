"""Sampled pure and approximate mechanisms: finite bounds, curves that reach δ = 0, against brute force."""

from __future__ import annotations

import itertools
import math

import pytest

from affidavit.accountant.plan import Approximate, Compose, Exponential, Plan, Poisson, Pure, Repeat, WithoutReplacement
from affidavit.accountant.tradeoff import epsilon_grid
from affidavit.accountant.verifier import recompute, recomputed_curve

Outcomes = list[tuple[float, float]]
"""(P-mass, Q-mass) of each outcome."""


def two_point(epsilon: float, delta: float = 0.0) -> Outcomes:
    """The pair of Kairouz, Oh and Viswanath 2015, Theorem 3.2."""
    high = (1.0 - delta) / (1.0 + math.exp(-epsilon))
    low = 1.0 - delta - high
    return [(delta, 0.0), (high, low), (low, high), (0.0, delta)]


def product(*pairs: Outcomes) -> Outcomes:
    return [(math.prod(p for p, _ in choice), math.prod(q for _, q in choice)) for choice in itertools.product(*pairs)]


def sampled(pair: Outcomes, rate: float) -> Outcomes:
    return [(rate * p + (1.0 - rate) * q, q) for p, q in pair]


def epsilon_of(pair: Outcomes, delta: float) -> float:
    """The larger ε of both directions, by bisection on Σ (p − e^ε q)₊."""

    def exceeds(epsilon: float) -> bool:
        both = (pair, [(q, p) for p, q in pair])
        return any(sum(max(0.0, p - math.exp(epsilon) * q) for p, q in side) > delta for side in both)

    low, high = 0.0, 50.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    return high


@pytest.mark.parametrize("count", [1, 2, 3])
def test_poisson_samples_of_a_composition_with_a_failure(count: int) -> None:
    """The losses are bounded and a failure is not: the tail bound must see the rounding of empty places."""
    plan = Repeat(count, Poisson(1 / 6, Compose((Pure(1.0), Approximate(1.5, 1e-4)))))
    once = sampled(product(two_point(1.0), two_point(1.5, 1e-4)), 1 / 6)
    exact = epsilon_of(product(*[once] * count), 1e-2)
    found = recompute(plan, relation="zero-out", delta=1e-2)
    assert found.epsilon_lower <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-9) <= found.epsilon_upper <= exact * 1.001
    assert found.epsilon_lower >= exact * 0.998


@pytest.mark.parametrize(("epsilon", "rate"), [(0.3, 0.02), (2.0, 0.5), (10.0, 0.5)])
def test_a_failure_beside_bounded_losses_leaves_a_narrow_bracket(epsilon: float, rate: float) -> None:
    leaf = Approximate(epsilon, 1e-6)
    exact = epsilon_of(product(*[sampled(two_point(epsilon, 1e-6), rate)] * 4), 1e-3)
    found = recompute(Repeat(4, Poisson(rate, leaf)), relation="add-remove", delta=1e-3)
    assert found.epsilon_lower <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-9) <= found.epsilon_upper <= exact * 1.002
    assert found.epsilon_lower >= exact * 0.995


@pytest.mark.parametrize(
    "plan",
    [
        Repeat(2, WithoutReplacement(48, 8, Pure(1.5))),
        Repeat(2, Poisson(0.25, Compose((Pure(0.2), Pure(0.7))))),
        WithoutReplacement(10, 5, Pure(3.0)),
    ],
)
def test_the_curve_of_a_sampled_pure_mechanism_reaches_nothing(plan: Plan) -> None:
    """Past the largest loss δ is 0: no lattice can be fitted to it, and the curve must still come."""
    largest = recompute(plan, relation="zero-out", delta=0.0).epsilon_upper
    points = sorted({*epsilon_grid(largest), 0.9 * largest, largest, 1.5 * largest})
    curve = recomputed_curve(plan, relation="zero-out", points=points)
    assert [point for point, _ in curve] == points
    deltas = [delta for _, delta in curve]
    assert all(a >= b for a, b in itertools.pairwise(deltas))
    point, delta = curve[len(curve) // 2]
    assert delta >= recompute(plan, relation="zero-out", epsilon=point).delta_lower > 0.0
    assert deltas[-1] <= 1e-12
    assert deltas[0] > 1e-3


def test_a_delta_below_what_the_recursion_resolves_costs_the_largest_loss() -> None:
    found = recompute(Repeat(2, Exponential(1e-9)), relation="zero-out", delta=1e-60)
    assert found.epsilon_lower <= 2e-9 <= found.epsilon_upper <= 2e-9 * (1 + 1e-12)
