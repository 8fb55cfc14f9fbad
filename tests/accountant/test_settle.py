"""Shown, signed and verified are one number: what both engines confirm."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from affidavit.accountant import settle as module
from affidavit.accountant.bound import bound
from affidavit.accountant.errors import DisagreementError, UsageError
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
    ZeroConcentrated,
)
from affidavit.accountant.settle import settle
from affidavit.accountant.tradeoff import privacy_curve
from affidavit.accountant.validate import Relation
from affidavit.accountant.verifier import check_claim, recompute

E1, E3 = Exponential(1.0), Exponential(3.0)
PLANS: list[tuple[Plan, Relation]] = [
    (Poisson(1 / 6, E3), "zero-out"),
    (Repeat(8, Poisson(1 / 6, E3)), "zero-out"),
    (Repeat(12, Poisson(0.05, E1)), "add-remove"),
    (Repeat(8, WithoutReplacement(60, 10, E1)), "add-remove"),
    (Repeat(8, WithoutReplacement(60, 10, E1)), "substitution"),
    (Repeat(8, WithoutReplacement(60, 10, E1)), "zero-out"),
    (Repeat(8, Poisson(0.1, E1)), "substitution"),
    (Repeat(4, Poisson(0.1, E3, absent=Exponential(1.5))), "substitution"),
    (Compose((Repeat(4, Poisson(0.1, E1)), Pure(0.3), Gaussian(2.0))), "zero-out"),
    (Repeat(2, Poisson(0.1, Compose((E1, Approximate(0.2, 1e-6))))), "zero-out"),
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


@pytest.mark.parametrize(("plan", "relation"), PLANS)
def test_what_is_settled_is_confirmed(plan: Plan, relation: Relation) -> None:
    """By the verifier, and by what is shown; a number below what a mechanism reaches is refuted."""
    settled = settle(plan, relation=relation, delta=1e-4)
    assert check_claim(plan, relation=relation, epsilon=settled.epsilon_upper, delta=1e-4).answer == "holds"
    assert settled.epsilon_upper >= settled.recomputed.epsilon_upper
    shown = bound(plan, relation=relation, delta=1e-4)
    assert shown.epsilon_lower <= settled.epsilon_upper
    below = 0.99 * settled.recomputed.epsilon_lower
    assert check_claim(plan, relation=relation, epsilon=below, delta=1e-4).answer == "does not hold"


@pytest.mark.parametrize(("plan", "relation"), PLANS)
def test_a_settled_delta_is_confirmed_and_says_the_same(plan: Plan, relation: Relation) -> None:
    """By both engines; at the settled ε it is about the δ that this was asked at, and nowhere below what is reached."""
    epsilon = settle(plan, relation=relation, delta=1e-4).epsilon_upper
    settled = settle(plan, relation=relation, epsilon=epsilon)
    alone, again = bound(plan, relation=relation, epsilon=epsilon), recompute(plan, relation=relation, epsilon=epsilon)
    assert settled.delta_upper >= again.delta_upper
    assert settled.delta_lower >= max(alone.delta_lower, again.delta_lower) * (1.0 - 1e-12)
    assert settled.delta_lower <= 1e-4 * (1.0 + 1e-9)
    assert settled.delta_upper <= 1e-4 * 1.05
    assert settled.epsilon_upper == epsilon


@pytest.mark.parametrize(
    "plan", [Repeat(8, Poisson(0.1, Gaussian(1.0))), Compose((Repeat(40, E1), Gaussian(3.0))), Repeat(3, Pure(0.2))]
)
def test_a_curve_is_what_both_engines_confirm(plan: Plan) -> None:
    """So its risk limits are those of a certificate for the plan."""
    claim = settle(plan, relation="zero-out", delta=1e-5)
    curve = privacy_curve(plan, relation="zero-out", delta=1e-5)
    for epsilon, delta in curve.points[::12]:
        assert check_claim(plan, relation="zero-out", epsilon=epsilon, delta=delta).answer == "holds"
        assert delta >= bound(plan, relation="zero-out", epsilon=epsilon).delta_lower
    assert dict(curve.points)[claim.epsilon_upper] <= 1e-5


def test_one_of_the_two_is_asked_for() -> None:
    for asked in ({}, {"delta": 1e-5, "epsilon": 1.0}):
        with pytest.raises(UsageError, match="either delta or epsilon"):
            settle(Gaussian(1.0), relation="add-remove", **asked)
    assert settle(Gaussian(0.0), relation="add-remove", epsilon=1.0).delta_upper == 1.0
    assert settle(Repeat(4, Pure(0.5)), relation="add-remove", epsilon=2.0).delta_upper == 0.0


def test_costs_of_different_kinds_cost_no_more_than_one_of_them() -> None:
    both = settle(Poisson(0.1, Pure(1.0), absent=Gaussian(1.0)), relation="substitution", delta=1e-3)
    assert (
        0.0 < both.epsilon_upper <= settle(Poisson(0.1, Pure(1.0)), relation="substitution", delta=1e-3).epsilon_upper
    )


def test_costs_too_small_to_tell() -> None:
    plan = Repeat(3, Poisson(0.1, Pure(1e-20), absent=Pure(1e-20)))
    again = recompute(plan, relation="substitution", delta=1e-12)
    assert again.epsilon_lower == 0.0
    assert again.epsilon_upper <= 1e-9


def test_exact_numbers_are_settled_exactly() -> None:
    assert settle(Repeat(4, Pure(0.5)), relation="add-remove", delta=0.0).epsilon_upper == 2.0
    assert settle(Gaussian(1.0), relation="add-remove", delta=1.0).epsilon_upper == 0.0
    assert settle(Gaussian(0.0), relation="add-remove", delta=0.5).epsilon_upper == math.inf


@pytest.mark.parametrize("side", ["issued", "recomputed"])
def test_engines_that_contradict_each_other_settle_nothing(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of the two is wrong."""
    plan = Repeat(3, Gaussian(1.25))
    name, engine = ("bound", bound) if side == "issued" else ("recompute", recompute)

    def halved(*given: object, **named: object) -> object:
        found = engine(*given, **named)  # type: ignore[operator]
        return replace(found, epsilon_lower=found.epsilon_lower / 2, epsilon_upper=found.epsilon_upper / 2)

    monkeypatch.setattr(module, name, halved)
    module._settled.cache_clear()
    with pytest.raises(DisagreementError, match="contradict"):
        settle(plan, relation="add-remove", delta=1e-5)
    module._settled.cache_clear()


sizes = st.floats(math.log(0.05), math.log(4.0)).map(math.exp)
leaves = st.one_of(sizes.map(Pure), sizes.map(Exponential))


def check_both(of: Plan, absent: Plan, rate: float, count: int, delta: float) -> None:
    """Two engines that share nothing enclose one number; count n is n composes."""
    use = Poisson(rate, of, absent=absent)
    plan = Repeat(count, use)
    issued = bound(plan, relation="substitution", delta=delta)
    again = recompute(plan, relation="substitution", delta=delta)
    assert issued.epsilon_lower <= again.epsilon_upper * (1 + 1e-9) + 1e-9
    assert again.epsilon_lower <= issued.epsilon_upper * (1 + 1e-9) + 1e-9
    composed = recompute(Compose((use,) * count), relation="substitution", delta=delta)
    assert composed.epsilon_upper == pytest.approx(again.epsilon_upper, rel=1e-9, abs=1e-12)


drawn = {"of": leaves, "absent": leaves, "rate": st.floats(0.01, 0.9), "delta": st.sampled_from([1e-2, 1e-4, 1e-8])}


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(**drawn, count=st.integers(1, 4))
def test_both_engines_agree(of: Plan, absent: Plan, rate: float, count: int, delta: float) -> None:
    check_both(of, absent, rate, count, delta)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(**drawn, count=st.integers(1, 60))
def test_both_engines_agree_on_many_plans(of: Plan, absent: Plan, rate: float, count: int, delta: float) -> None:
    check_both(of, absent, rate, count, delta)


@pytest.mark.parametrize("rate", [0.0386, 0.744])
@pytest.mark.parametrize("uses", [300, 1_060])
def test_samples_of_weak_choices_are_settled_narrowly(rate: float, uses: int) -> None:
    """By the recursion, and in blocks; the envelope of one use says 15 % more."""
    found = settle(Repeat(uses, Poisson(rate, Exponential(0.0119))), relation="zero-out", delta=1e-6)
    assert found.epsilon_lower >= (1.0 - 2e-3) * found.epsilon_upper


@pytest.mark.parametrize(
    "of", [Pure(1.0), Gaussian(1.0), Gaussian(0.0), ZeroConcentrated(1.0), Exponential(1.0)], ids=str
)
@pytest.mark.parametrize("absent", [Pure(0.0), Compose(()), Repeat(3, ZeroConcentrated(0.0))], ids=str)
def test_where_no_record_shows_on_a_sample_none_can_be_told_from_another(of: Plan, absent: Plan) -> None:
    """Both are what the sample is without them. A lower side of .68 was said of pure(1) at δ = .1."""
    sample = Poisson(0.5, of, absent)
    for delta in (0.0, 0.1):
        assert settle(sample, relation="substitution", delta=delta).epsilon_upper == 0.0
    beside = settle(Compose((Gaussian(2.0), sample)), relation="substitution", delta=1e-3)
    alone = settle(Gaussian(2.0), relation="substitution", delta=1e-3)
    assert beside.epsilon_upper == pytest.approx(alone.epsilon_upper)
