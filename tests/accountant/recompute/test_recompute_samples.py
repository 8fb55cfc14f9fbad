"""The verifier's samples of pure and exponential mechanisms: against brute force, and against what certificates say."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from affidavit.accountant.certified import certified_bound
from affidavit.accountant.errors import NotSupported
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
from affidavit.accountant.recompute import check_claim, recompute
from affidavit.accountant.recompute.chords import SampledExponential, Seen
from affidavit.accountant.recompute.events import every_event, one_mechanism
from affidavit.accountant.validate import Relation


def stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> np.ndarray:
    return np.maximum(0.0, p - math.exp(epsilon) * q).sum(axis=-1)


def uses_of_range(eta: float) -> tuple[np.ndarray, np.ndarray]:
    """P and Q of two outcomes with losses t and t − η, for many t."""
    t = np.linspace(0.0, eta, 100_001)
    q = -np.expm1(t - eta) / (np.exp(t) - np.exp(t - eta))
    p = np.exp(t) * q
    return np.stack([p, 1 - p], axis=-1), np.stack([q, 1 - q], axis=-1)


@pytest.mark.parametrize("seen", ["removed", "added", "replaced", "diluted"])
@pytest.mark.parametrize(("eta", "rate"), [(1.0, 0.1), (3.0, 0.6)])
def test_one_sampled_exponential_use_by_trying_every_use(seen: Seen, eta: float, rate: float) -> None:
    p, q = uses_of_range(eta)
    mixture = rate * p + (1 - rate) * q
    use = SampledExponential(eta, rate, seen)
    for epsilon in (-0.6, -0.05, 0.0, 0.03, 0.1, 0.5):
        pairs = {
            "removed": stick(mixture, q, epsilon),
            "added": stick(q, mixture, epsilon),
            "replaced": stick(mixture, q, epsilon) if epsilon >= 0.0 else stick(q, mixture, epsilon),
            "diluted": rate * stick(p, q, epsilon) + (1 - rate) * max(0.0, -math.expm1(epsilon)),
        }
        found = use.delta(epsilon).upper
        assert found == pytest.approx(pairs[seen].max(), rel=1e-6, abs=1e-12)
        assert found >= pairs[seen].max() * (1 - 1e-13)
        assert found <= use.law.delta(epsilon).upper + 1e-50 <= found * (1 + 1e-4) + 1e-8


@pytest.mark.parametrize("direction", [True, False])
@pytest.mark.parametrize(
    ("absent", "replaced"), [(1.0, 2.5), (1.0, 1.7), (1.0, 1.2), (1.0, 1.0), (1.0, 0.4), (25.0, 40.0)]
)
def test_events_are_those_of_laws_that_cost_no_more(absent: float, replaced: float, direction: bool) -> None:
    """Random laws of the stated costs never reveal more than the edge; the edge's pair and the mechanism are laws."""
    rate = 0.2
    edge = every_event(replaced=replaced, absent=absent, rate=rate)
    lower = one_mechanism(replaced=replaced, absent=absent, rate=rate, removed=direction)
    for law in (edge, lower):
        assert law.masses.sum() == pytest.approx(1.0, rel=1e-13)
        assert (law.masses * np.exp(-law.losses)).sum() == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(edge.losses, -edge.losses[::-1], rtol=1e-12, atol=1e-14)
    draw = np.random.default_rng(7)
    for epsilon in (0.0, 0.1, 0.3):
        highest = edge.delta(epsilon).upper
        assert lower.delta(epsilon).lower <= highest
        for _ in range(300):
            x = draw.dirichlet(np.ones(4))
            # Powers of one tilt between the bounds, so that ratios hit both of them.
            old, new = (x * np.exp(draw.choice([-0.5, 0.5], 4) * min(absent, replaced)) for _ in range(2))
            old, new = old / old.sum(), new / new.sum()
            costs = [np.abs(np.log(a / b)).max() for a, b in ((old, x), (new, x), (old, new))]
            if max(costs[:2]) <= absent and costs[2] <= replaced:
                p, q = (1 - rate) * x + rate * old, (1 - rate) * x + rate * new
                assert stick(p, q, epsilon) <= highest + 1e-12


def test_a_change_twice_as_large_as_presence_is_reached_by_one_mechanism() -> None:
    e, rate = math.exp(0.5), 0.1
    x = np.array([1, e - 1, 1]) / (e + 1)
    old = np.array([e, (e - 1) / e, 1 / e]) / (e + 1)
    p, q = (1 - rate) * x + rate * old, (1 - rate) * x + rate * old[::-1]
    law = every_event(replaced=1.0, absent=0.5, rate=rate)
    np.testing.assert_allclose(law.masses[::-1], p, rtol=1e-13)
    np.testing.assert_allclose(law.losses[::-1], np.log(p / q), rtol=1e-12, atol=1e-14)
    alone = one_mechanism(replaced=1.0, absent=0.5, rate=rate, removed=True)
    np.testing.assert_array_equal(alone.masses, law.masses)


E1, E3 = Exponential(1.0), Exponential(3.0)
CERTIFIED: list[tuple[Plan, Relation]] = [
    (Poisson(1 / 6, E3), "zero-out"),
    (Repeat(8, Poisson(1 / 6, E3)), "zero-out"),
    (Repeat(12, Poisson(0.05, E1)), "add-remove"),
    (Repeat(8, WithoutReplacement(60, 10, E1)), "add-remove"),
    (Repeat(8, WithoutReplacement(60, 10, E1)), "substitution"),
    (Repeat(8, WithoutReplacement(60, 10, E1)), "zero-out"),
    (Repeat(8, Poisson(0.1, E1)), "substitution"),
    (Repeat(4, Poisson(0.1, E3, absent=Exponential(1.5))), "substitution"),
    (Compose((Repeat(4, Poisson(0.1, E1)), Pure(0.3), Gaussian(2.0))), "zero-out"),
    (Repeat(15, Poisson(0.1, Pure(1.0), absent=Pure(0.5))), "substitution"),
    (Repeat(160, Poisson(0.1, Pure(1.0), absent=Pure(0.5))), "substitution"),
    (Repeat(15, Poisson(0.1, Pure(0.8), absent=Pure(0.5))), "substitution"),
    (Repeat(15, Poisson(0.1, Pure(0.3), absent=Pure(0.5))), "substitution"),
    (Parallel((Repeat(5, Poisson(0.1, Pure(1.0), absent=Pure(0.5))),) * 2), "substitution"),
    (
        Parallel(
            (Repeat(5, Poisson(0.1, Pure(1.0), absent=Pure(0.5))),) * 2,
            moves=(Repeat(5, Poisson(0.1, Pure(0.5), absent=Pure(0.5))),) * 2,
        ),
        "substitution",
    ),
]


@pytest.mark.parametrize(("plan", "relation"), CERTIFIED)
def test_what_is_certified_is_confirmed(plan: Plan, relation: Relation) -> None:
    """By the number as it is written on a certificate; and a number below what a mechanism reaches is refuted."""
    delta = 1e-4
    certified = certified_bound(plan, relation=relation, delta=delta)
    check = check_claim(plan, relation=relation, epsilon=certified.epsilon_upper * (1 + 1e-12), delta=delta)
    assert check.answer == "holds"
    again = check.recomputed
    assert certified.epsilon_lower <= again.epsilon_upper * (1 + 1e-12)
    assert again.epsilon_upper == pytest.approx(certified.epsilon_upper, rel=1e-3)
    below = 0.99 * again.epsilon_lower
    assert check_claim(plan, relation=relation, epsilon=below, delta=delta).answer == "does not hold"


def test_others_beside_an_exponential_mechanism_on_its_sample() -> None:
    plan = Repeat(2, Poisson(0.1, Compose((E1, Approximate(0.2, 1e-6)))))
    certified = certified_bound(plan, relation="zero-out", delta=1e-3)
    again = recompute(plan, relation="zero-out", delta=1e-3)
    assert again.epsilon_upper == pytest.approx(certified.epsilon_upper, rel=1e-3)
    assert again.epsilon_lower <= certified.epsilon_upper


def test_costs_of_different_kinds_are_refused() -> None:
    with pytest.raises(NotSupported, match="absent") as refusal:
        recompute(Poisson(0.1, Pure(1.0), absent=Gaussian(1.0)), relation="substitution", delta=1e-3)
    assert "Remove `--recompute`" in refusal.value.hint


def test_costs_too_small_to_tell() -> None:
    plan = Repeat(3, Poisson(0.1, Pure(1e-20), absent=Pure(1e-20)))
    again = recompute(plan, relation="substitution", delta=1e-12)
    assert again.epsilon_lower == 0.0
    assert again.epsilon_upper <= 1e-9


sizes = st.floats(math.log(0.05), math.log(4.0)).map(math.exp)
leaves = st.one_of(sizes.map(Pure), sizes.map(Exponential))


def check_both(of: Plan, absent: Plan, rate: float, count: int, delta: float) -> None:
    """Two paths that share nothing enclose one number; count n is n composes."""
    use = Poisson(rate, of, absent=absent)
    plan = Repeat(count, use)
    certified = certified_bound(plan, relation="substitution", delta=delta)
    again = recompute(plan, relation="substitution", delta=delta)
    assert certified.epsilon_lower <= again.epsilon_upper * (1 + 1e-9) + 1e-9
    assert again.epsilon_lower <= certified.epsilon_upper * (1 + 1e-9) + 1e-9
    assert again.epsilon_upper == pytest.approx(certified.epsilon_upper, rel=1e-3, abs=1e-6)
    composed = recompute(Compose((use,) * count), relation="substitution", delta=delta)
    assert composed.epsilon_upper == pytest.approx(again.epsilon_upper, rel=1e-9, abs=1e-12)


drawn = {"of": leaves, "absent": leaves, "rate": st.floats(0.01, 0.9), "delta": st.sampled_from([1e-2, 1e-4, 1e-8])}


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(**drawn, count=st.integers(1, 4))
def test_both_paths_agree(of: Plan, absent: Plan, rate: float, count: int, delta: float) -> None:
    check_both(of, absent, rate, count, delta)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(**drawn, count=st.integers(1, 60))
def test_both_paths_agree_on_many_plans(of: Plan, absent: Plan, rate: float, count: int, delta: float) -> None:
    check_both(of, absent, rate, count, delta)
