"""Poisson samples under substitution of pure mechanisms: the exact curve, against brute force."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from affidavit.accountant.bound import bound
from affidavit.accountant.plan import (
    Approximate,
    Compose,
    Exponential,
    Gaussian,
    Parallel,
    Plan,
    Poisson,
    Pure,
    Repeat,
    WithoutReplacement,
)
from affidavit.accountant.verifier import Recomputed, recompute

Triple = tuple[np.ndarray, np.ndarray, np.ndarray]
"""The outputs without the place, with the old record, with the new one."""

COSTS = [(1.0, 2.0), (1.0, 3.0), (1.0, 1.7), (1.0, 1.3), (1.0, 1.0), (1.0, 0.4), (0.05, 0.08), (3.0, 4.0), (3.0, 5.8)]
"""ε of taking the record away, ε of replacing it: every case of the theorem."""


def plan_of(absent: float, replaced: float, rate: float, count: int = 1) -> Plan:
    return Repeat(count, Poisson(rate, Pure(replaced), absent=Pure(absent)))


def asked(plan: Plan, **question: float) -> Recomputed:
    return recompute(plan, relation="substitution", **question)


def stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(0.0, p - math.exp(epsilon) * q).sum())


def sampled(triple: Triple, rate: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Outputs of ``count`` uses for both data sets."""
    x, old, new = triple
    p, q = np.ones(1), np.ones(1)
    for _ in range(count):
        p = np.multiply.outer(p, (1 - rate) * x + rate * old).ravel()
        q = np.multiply.outer(q, (1 - rate) * x + rate * new).ravel()
    return p, q


def close(p: np.ndarray, q: np.ndarray, epsilon: float) -> bool:
    slack = 1.0 + 1e-12
    return bool(np.all(p <= math.exp(epsilon) * q * slack) and np.all(q <= math.exp(epsilon) * p * slack))


def best_mechanism(absent: float, replaced: float, rate: float, epsilon: float) -> float:
    """The largest hockey-stick of any mechanism, by linear programming: two outcomes are enough for one ε."""
    e, r, alpha = math.exp(absent), math.exp(replaced), math.exp(epsilon)
    # Variables: x, old, new of the first outcome, then of the second.
    cone = np.array([[1, -e, 0], [-e, 1, 0], [1, 0, -e], [-e, 0, 1], [0, 1, -r], [0, -r, 1]])
    bounds = np.block([[cone, np.zeros_like(cone)], [np.zeros_like(cone), cone]])
    gain = np.array([(1 - rate) * (1 - alpha), rate, -rate * alpha, 0, 0, 0])
    found = linprog(-gain, A_ub=bounds, b_ub=np.zeros(12), A_eq=np.hstack([np.eye(3)] * 2), b_eq=np.ones(3))
    return max(0.0, -found.fun)


@pytest.mark.parametrize(("absent", "replaced"), COSTS)
@pytest.mark.parametrize("rate", [0.02, 0.6])
def test_one_use_is_the_best_mechanism_and_no_more(absent: float, replaced: float, rate: float) -> None:
    largest = asked(plan_of(absent, replaced, rate), delta=0.0).epsilon_upper
    for share in (0.0, 0.3, 0.8, 0.99):
        exact = best_mechanism(absent, replaced, rate, share * largest)
        found = asked(plan_of(absent, replaced, rate), epsilon=share * largest)
        assert found.delta_lower <= exact + 1e-9
        assert found.delta_upper == pytest.approx(exact, abs=1e-9)
        assert found.delta_lower == pytest.approx(found.delta_upper, rel=1e-9, abs=1e-15)
    assert best_mechanism(absent, replaced, rate, largest * (1 + 1e-9)) == pytest.approx(0.0, abs=1e-9)


def readings(absent: float, replaced: float) -> Triple:
    """Three outcomes, the third the first read backwards: the largest loss, and as much of it as there is room for."""
    e, r = math.exp(absent), math.exp(min(replaced, 2 * absent))
    x = (e - 1) / (e * e + e * e / r - 2)
    old = np.array([e * x, 1 - e * x - e * x / r, e * x / r])
    return np.array([x, 1 - 2 * x, x]), old, old[::-1]


def alone(absent: float, replaced: float) -> Triple:
    """The new record contributes nothing."""
    chance = 1 / (1 + math.exp(-min(absent, replaced)))
    nothing = np.array([1 - chance, chance])
    return nothing, nothing[::-1], nothing


def epsilon_of(p: np.ndarray, q: np.ndarray, delta: float) -> float:
    low, high = 0.0, 100.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if max(stick(p, q, middle), stick(q, p, middle)) > delta else (low, middle)
    return high


@pytest.mark.parametrize(("absent", "replaced"), COSTS)
def test_composed_uses_lie_between_what_mechanisms_reach(absent: float, replaced: float) -> None:
    rate, delta, count = 0.3, 1e-3, 3
    found = asked(plan_of(absent, replaced, rate, count), delta=delta)
    reached = []
    for triple in (readings(absent, replaced), alone(absent, replaced)):
        x, old, new = triple
        assert close(old, x, absent)
        assert close(new, x, absent)
        assert close(old, new, replaced)
        reached.append(epsilon_of(*sampled(triple, rate, count), delta))
    assert max(reached) <= found.epsilon_upper * (1 + 1e-9)
    assert found.epsilon_lower <= max(reached) * (1 + 1e-9)
    assert found.epsilon_lower >= 0.75 * max(reached)
    if replaced >= 2 * absent:
        assert found.epsilon_lower == pytest.approx(max(reached), rel=1e-4)
        assert found.epsilon_upper == pytest.approx(max(reached), rel=1e-4)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), rate=st.floats(0.05, 0.95), outcomes=st.integers(2, 6))
def test_no_random_mechanism_costs_more(seed: int, rate: float, outcomes: int) -> None:
    """Any three laws have costs; a plan that states them is never below what the laws really reveal."""
    draw = np.random.default_rng(seed)
    x, old, new = (law / law.sum() for law in np.exp(draw.normal(0.0, 0.7, (3, outcomes))))

    def cost(p: np.ndarray, q: np.ndarray) -> float:
        return float(np.abs(np.log(p / q)).max()) * (1 + 1e-12)

    plan = plan_of(max(cost(old, x), cost(new, x)), cost(old, new), rate)
    p, q = sampled((x, old, new), rate, 1)
    for epsilon in (0.0, 0.2, 0.7):
        assert asked(plan, epsilon=epsilon).delta_upper >= max(stick(p, q, epsilon), stick(q, p, epsilon)) - 1e-12


@pytest.mark.parametrize(("absent", "replaced"), COSTS[1:7:2])
def test_both_costs_together_say_more_than_either(absent: float, replaced: float) -> None:
    """Below the float engine's joint convexity, below replacing alone, at least a record that comes or goes."""
    plan = plan_of(absent, replaced, 0.1, 6)
    found = asked(plan, delta=1e-4)
    assert found.epsilon_upper <= bound(plan, relation="substitution", delta=1e-4).epsilon_upper * (1 + 1e-3)
    assert found.epsilon_upper < asked(Repeat(6, Poisson(0.1, Pure(replaced))), delta=1e-4).epsilon_lower
    smaller = Repeat(6, Poisson(0.1, Pure(min(absent, replaced))))
    assert found.epsilon_upper >= recompute(smaller, relation="zero-out", delta=1e-4).epsilon_lower


def test_a_record_that_is_as_far_from_another_as_from_nothing_is_sampled_without_replacement() -> None:
    """With k = h the theorem's curve is that of sampling without replacement."""
    found = asked(plan_of(1.0, 1.0, 0.25, 4), delta=1e-3)
    other = asked(Repeat(4, WithoutReplacement(40, 10, Pure(1.0))), delta=1e-3)
    assert found.epsilon_upper == pytest.approx(other.epsilon_upper, rel=1e-4)


@pytest.mark.parametrize(("absent", "replaced"), COSTS)
def test_the_largest_loss(absent: float, replaced: float) -> None:
    rate, e, r = 0.1, math.exp(absent), math.exp(min(replaced, 2 * absent))
    exact = 3 * math.log((1 - rate + rate * e) / (1 - rate + rate * e / r))
    found = asked(plan_of(absent, replaced, rate, 3), delta=0.0)
    assert found.epsilon_lower <= exact * (1 + 1e-12)
    assert found.epsilon_lower == pytest.approx(exact, rel=1e-12)
    assert found.epsilon_upper == pytest.approx(exact, rel=1e-12)


def test_the_number_of_the_theory_page() -> None:
    """docs/theory/sampling.md: report noisy max at ε = 1 a token, twenty tokens."""
    found = asked(plan_of(0.5, 1.0, 1 / 30, 20), delta=4e-4)
    assert found.epsilon_upper == pytest.approx(0.320047, abs=1e-6)
    assert found.epsilon_lower == pytest.approx(0.320047, abs=1e-6)


def test_costs_that_grow_cost_more() -> None:
    for parameters in (
        [(absent, 2.0, 0.1) for absent in (0.3, 0.8, 1.2, 2.0, 5.0)],
        [(1.0, replaced, 0.1) for replaced in (0.3, 1.0, 1.5, 2.0, 4.0)],
        [(1.0, 1.6, rate) for rate in (0.01, 0.1, 0.5, 0.9)],
    ):
        found = [asked(plan_of(*each), delta=1e-3).epsilon_upper for each in parameters]
        assert all(a <= b * (1 + 1e-6) for a, b in pairwise(found))


def test_count_is_composition_whatever_runs_beside() -> None:
    use = Poisson(0.2, Pure(1.5), absent=Pure(1.0))
    beside = (Gaussian(2.0), Pure(0.1), Approximate(0.2, 1e-6))
    one = asked(Compose((Repeat(3, use), *beside)), delta=1e-3)
    other = asked(Compose((use, beside[0], use, beside[1], use, beside[2])), delta=1e-3)
    assert one.epsilon_upper == pytest.approx(other.epsilon_upper, rel=1e-6)
    moved = asked(Parallel((Repeat(3, use),) * 2, moves=(Repeat(2, use),) * 2), delta=1e-3)
    assert moved.epsilon_upper == pytest.approx(asked(Repeat(4, use), delta=1e-3).epsilon_upper, rel=1e-3)


def test_several_on_a_sample_count_as_one_of_their_sum() -> None:
    several = Poisson(0.1, Compose((Pure(0.6), Exponential(0.9))), absent=Compose((Exponential(0.5), Pure(0.25))))
    found, sum_of = asked(Repeat(5, several), delta=1e-4), asked(plan_of(0.75, 1.5, 0.1, 5), delta=1e-4)
    assert found.epsilon_upper == pytest.approx(sum_of.epsilon_upper, rel=1e-3)
    assert found.epsilon_lower < sum_of.epsilon_lower
    assert found.epsilon_lower > 0.0


def test_nothing_to_replace_costs_nothing() -> None:
    assert asked(plan_of(1.0, 0.0, 0.1, 3), delta=1e-9).epsilon_upper == 0.0


@pytest.mark.parametrize("size", [1e-99, 1e-9, 100.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-12])
def test_extreme_costs(size: float, delta: float) -> None:
    for plan in (plan_of(size, 1.5 * size, 0.1, 2), Repeat(2, Poisson(0.1, Pure(size)))):
        found = asked(plan, delta=delta)
        assert 0.0 <= found.epsilon_lower <= found.epsilon_upper <= 2 * 1.5 * size * (1 + 1e-12)
        if size >= 100.0 and delta < 1e-6:
            # The largest loss of both uses is likelier than δ.
            assert found.epsilon_lower >= 0.95 * asked(plan, delta=0.0).epsilon_upper
