"""Poisson sampling under substitution where the cost of absence is stated (docs/theory/sampling.md, last row)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from affidavit.accountant.bound import bound
from affidavit.accountant.plan import (
    Compose,
    Exponential,
    Gaussian,
    Parallel,
    Plan,
    Poisson,
    Repeat,
    WithoutReplacement,
    core,
)
from affidavit.accountant.verifier import recompute

TREC = {1.36: 0.76, 0.95: 1.30, 0.69: 2.27, 0.51: 4.15}
"""Noise multiplier of replacing a record -> the ε of docs/theory/sampling.md (80 of 835 records, 15 steps)."""


def trec(noise: float) -> Plan:
    return Repeat(15, Poisson(80 / 835, Gaussian(noise), absent=Gaussian(noise * math.sqrt(2.0))))


@pytest.mark.parametrize(("noise", "epsilon"), TREC.items())
def test_the_published_noise_costs_what_theory_says(noise: float, epsilon: float) -> None:
    found = bound(trec(noise), relation="substitution", delta=1 / 835)
    assert found.epsilon_upper == pytest.approx(epsilon, abs=0.006)
    replaced = bound(Repeat(15, WithoutReplacement(835, 80, Gaussian(noise))), relation="substitution", delta=1 / 835)
    assert found.epsilon_upper < replaced.epsilon_upper


def explicit_delta(noise: float, rate: float, epsilon: float) -> float:
    """Hockey-stick of one step on data sets that differ in r, r': orthogonal contributions of norm 1/noise/√2.

    X = N(0, I), A = N(m e1, I), A' = N(m e2, I), m = 1/(noise √2): mixtures compared by integration over the plane.
    """
    m = 1.0 / (noise * math.sqrt(2.0))

    x = np.linspace(-8.0, 9.0, 1701)
    here, moved = norm.pdf(x), norm.pdf(x - m)
    base = (1.0 - rate) * np.outer(here, here)
    gap = base + rate * np.outer(moved, here) - math.exp(epsilon) * (base + rate * np.outer(here, moved))
    return float(np.trapezoid(np.trapezoid(np.maximum(gap, 0.0), x, axis=1), x))


@pytest.mark.parametrize("epsilon", [0.1, 0.4])
def test_one_step_is_at_least_what_real_data_sets_reach(epsilon: float) -> None:
    noise, rate = 0.8, 0.3
    node = Poisson(rate, Gaussian(noise), absent=Gaussian(noise * math.sqrt(2.0)))
    found = bound(node, relation="substitution", epsilon=epsilon)
    assert found.delta_upper >= explicit_delta(noise, rate, epsilon) - 1e-6
    assert found.delta_lower <= found.delta_upper


@pytest.mark.slow
@settings(max_examples=25)
@given(
    noise=st.floats(0.4, 3.0),
    extra=st.floats(1.0, 3.0),
    rate=st.floats(0.01, 0.9),
    count=st.integers(1, 50),
)
def test_three_paths_agree(noise: float, extra: float, rate: float, count: int) -> None:
    plan = Repeat(count, Poisson(rate, Gaussian(noise), absent=Gaussian(noise * extra)))
    asked = {"relation": "substitution", "delta": 1e-4}
    found, certified, again = bound(plan, **asked), recompute(plan, **asked), recompute(plan, **asked)
    assert found.epsilon_lower <= found.epsilon_upper
    for other in (certified, again):
        assert other.epsilon_upper >= found.epsilon_upper * (1.0 - 2e-3) - 1e-6
        assert found.epsilon_upper >= other.epsilon_lower - 1e-6
    # Nothing known of samples without the record is never cheaper, and taking it away is never dearer.
    assert found.epsilon_upper <= bound(plan.of.of, relation="substitution", delta=1e-12).epsilon_upper * count + 1e-6
    blind = bound(Repeat(count, Poisson(rate, Gaussian(noise))), **asked)
    assert found.epsilon_upper <= blind.epsilon_upper * (1.0 + 2e-3) + 1e-6


def test_three_paths_agree_on_the_published_noise() -> None:
    asked = {"relation": "substitution", "delta": 1 / 835}
    found, certified, again = (ask(trec(0.95), **asked) for ask in (bound, recompute, recompute))
    for other in (certified, again):
        assert other.epsilon_upper == pytest.approx(found.epsilon_upper, rel=2e-3)
        assert other.epsilon_lower == pytest.approx(found.epsilon_lower, rel=3e-3)


def test_absent_matters_under_substitution_only() -> None:
    stated, bare = Poisson(0.1, Gaussian(1.0), absent=Gaussian(2.0)), Poisson(0.1, Gaussian(1.0))
    for relation in ("add-remove", "zero-out"):
        one, other = (bound(node, relation=relation, delta=1e-5) for node in (stated, bare))
        assert (one.epsilon_lower, one.epsilon_upper) == (other.epsilon_lower, other.epsilon_upper)


def test_the_largest_loss_is_at_most_that_of_replacing() -> None:
    """q A + (1 − q) X against q A' + (1 − q) X: the loss of A against A', however far X is."""
    node = Poisson(0.25, Exponential(0.5), absent=Exponential(2.0))
    assert core(node) == node
    assert bound(node, relation="substitution", delta=0.0).epsilon_upper == pytest.approx(0.5)
    dearer = Poisson(0.25, Exponential(2.0), absent=Exponential(0.5))
    assert bound(dearer, relation="substitution", delta=0.0).epsilon_upper <= math.log1p(0.25 * math.expm1(2.0)) + 1e-12


def test_more_information_never_costs_more() -> None:
    """What taking a record away costs, where it costs more than replacing it, need not be known."""
    bare = Poisson(0.1, Gaussian(1.0))
    for absent in (0.2, 0.5, 0.9, 1.0, 2.0):
        stated = Poisson(0.1, Gaussian(1.0), absent=Gaussian(absent))
        for ask in (bound, recompute):
            known, unknown = (ask(node, relation="substitution", delta=1e-5) for node in (stated, bare))
            assert known.epsilon_upper <= unknown.epsilon_upper * (1 + 1e-9)
            assert known.epsilon_lower <= known.epsilon_upper


@pytest.mark.parametrize(
    "sampled", [WithoutReplacement(36, 16, Gaussian(0.8)), Poisson(0.3, Gaussian(0.8))], ids=["without", "poisson"]
)
def test_a_record_that_changes_part_costs_the_same_by_both_arithmetics(sampled: Plan) -> None:
    """Leaving a part that samples without replacement is no removal: the sample is filled from the others."""
    part = Repeat(10, sampled)
    plan = Parallel((part, part), moves=(part, part))
    asked = {"relation": "substitution", "delta": 1e-4}
    found, certified = bound(plan, **asked), recompute(plan, **asked)
    assert certified.epsilon_lower <= found.epsilon_upper
    assert found.epsilon_lower <= certified.epsilon_upper * (1.0 + 1e-9)
    assert certified.epsilon_upper == pytest.approx(found.epsilon_upper, rel=0.02)
    again = recompute(plan, **asked)
    assert again.epsilon_lower <= certified.epsilon_upper
    assert again.epsilon_upper == pytest.approx(certified.epsilon_upper, rel=1e-3)


def test_a_move_that_states_absence_is_no_removal() -> None:
    """A group that stays when one of its records moves: sampled with it, sampled without it, or not at all."""
    part = Repeat(8, Poisson(0.2, Gaussian(0.9), absent=Gaussian(0.9 * math.sqrt(2.0))))
    plan = Parallel((part, part), moves=(part, part))
    asked = {"relation": "substitution", "delta": 1e-4}
    crossing = bound(Compose((part, part)), **asked)
    for ask in (bound, recompute, recompute):
        found = ask(plan, **asked)
        assert found.epsilon_upper >= crossing.epsilon_lower * (1.0 - 1e-9)
        assert found.epsilon_upper == pytest.approx(crossing.epsilon_upper, rel=3e-3)
