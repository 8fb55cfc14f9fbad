"""What is said at a glance is never below the truth: ceilings, certain failures, cases_of that are not composed."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.bound import bound
from affidavit.accountant.cases.case import Case, cases_of
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.methods import costliest as search
from affidavit.accountant.methods.ceiling import costs_at_most
from affidavit.accountant.methods.failure import certain_failure
from affidavit.accountant.plan import Gaussian, Poisson, parse_plan
from affidavit.accountant.settle import settle
from affidavit.accountant.verifier import recompute
from affidavit.accountant.verifier.ceiling import costs_at_most as verifier_costs_at_most
from affidavit.accountant.verifier.reading import read

Node = dict[str, Any]

numbers = st.floats(math.log(0.02), math.log(5.0)).map(math.exp)
leaves = st.one_of(
    numbers.map(lambda x: {"kind": "gaussian", "noise_multiplier": x}),
    numbers.map(lambda x: {"kind": "laplace", "noise_multiplier": x}),
    numbers.map(lambda x: {"kind": "pure", "epsilon": x}),
    numbers.map(lambda x: {"kind": "exponential", "range": x}),
    numbers.map(lambda x: {"kind": "zcdp", "rho": x}),
    numbers.map(lambda x: {"kind": "approximate", "epsilon": x, "delta": 1e-5}),
)
composed = st.lists(leaves, min_size=1, max_size=3).map(lambda parts: {"kind": "compose", "parts": parts})
plain = st.lists(leaves.filter(lambda leaf: leaf["kind"] in ("gaussian", "pure")), min_size=1, max_size=3)
sampled = st.one_of(
    st.builds(
        lambda of, rate: {
            "kind": "subsample",
            "scheme": "poisson",
            "rate": rate,
            "of": {"kind": "compose", "parts": of},
        },
        plain,
        st.floats(0.01, 0.9),
    ),
    st.builds(
        lambda of, m: {
            "kind": "subsample",
            "scheme": "without-replacement",
            "population": 20,
            "sample": m,
            "of": {"kind": "compose", "parts": of},
        },
        plain,
        st.integers(1, 19),
    ),
)
RELATIONS = st.sampled_from(["add-remove", "zero-out", "substitution"])


@settings(max_examples=40, deadline=None)
@given(plan=st.one_of(composed, sampled), relation=RELATIONS, delta=st.sampled_from([0.2, 1e-4, 1e-9]), at=numbers)
def test_a_ceiling_is_above_the_other_engine(plan: Node, relation: Any, delta: float, at: float) -> None:
    """The smallest ε at which each ceiling says yes, within 1 %, against the lower side of the other engine."""
    try:
        issued, verified = (ask(plan, relation=relation, delta=delta) for ask in (bound, recompute))
    except NotSupported:
        return
    (case,) = cases_of(parse_plan(plan), relation).upper
    (other,) = read(parse_plan(plan), relation).upper
    for point in (at, 0.99 * issued.epsilon_lower, 0.99 * verified.epsilon_lower):
        if point > 0.0 and costs_at_most(case, relation, epsilon=point, delta=delta):
            assert verified.epsilon_lower <= point * (1.0 + 1e-9)
        if point > 0.0 and verifier_costs_at_most(other, epsilon=point, delta=delta):
            assert issued.epsilon_lower <= point * (1.0 + 1e-9)


def test_a_ceiling_takes_large_losses_as_pure_and_small_ones_as_concentrated() -> None:
    plan = {
        "kind": "compose",
        "parts": [
            {"kind": "pure", "epsilon": 5.0},
            {"kind": "repeat", "count": 100, "of": {"kind": "pure", "epsilon": 0.1}},
        ],
    }
    (case,) = cases_of(parse_plan(plan), "zero-out").upper
    (other,) = read(parse_plan(plan), "zero-out").upper
    # 5 + what ρ = 0.5 costs, 5.08; all as pure ones is 15, all as ρ = 13 is 37.
    for ceiling, asked in ((costs_at_most, (case, "zero-out")), (verifier_costs_at_most, (other,))):
        assert ceiling(*asked, epsilon=10.1, delta=1e-5)
        assert not ceiling(*asked, epsilon=9.0, delta=1e-5)


def test_a_ceiling_of_one_sample_is_that_on_the_sample() -> None:
    plan = {"kind": "subsample", "scheme": "poisson", "rate": 0.1, "of": {"kind": "gaussian", "noise_multiplier": 1.0}}
    (case,) = cases_of(parse_plan(plan), "add-remove").upper
    (other,) = read(parse_plan(plan), "add-remove").upper
    for ceiling, asked in ((costs_at_most, (case, "add-remove")), (verifier_costs_at_most, (other,))):
        assert ceiling(*asked, epsilon=3.0, delta=1e-5)
        assert not ceiling(*asked, epsilon=1.0, delta=1e-5)
    # A record that is replaced in a Poisson sample is not covered by that theorem.
    (replaced,) = cases_of(parse_plan(plan), "substitution").upper
    assert not costs_at_most(replaced, "substitution", epsilon=3.0, delta=1e-5)


FAILING = {"kind": "approximate", "epsilon": 0.1, "delta": 1e-3}


@pytest.mark.parametrize("relation", ["add-remove", "zero-out", "substitution"])
@pytest.mark.parametrize("beside", [{"kind": "zcdp", "rho": 0.1}, {"kind": "exponential", "range": 0.1}])
@pytest.mark.parametrize(
    ("failing", "chance"),
    [
        (FAILING, 1e-3),
        ({"kind": "repeat", "count": 40, "of": FAILING}, 1.0 - (1.0 - 1e-3) ** 40),
        ({"kind": "subsample", "scheme": "poisson", "rate": 0.25, "of": FAILING}, 2.5e-4),
        ({"kind": "subsample", "scheme": "without-replacement", "population": 8, "sample": 2, "of": FAILING}, 2.5e-4),
    ],
)
def test_a_plan_that_fails_more_often_than_delta_costs_infinity(
    failing: Node, chance: float, beside: Node, relation: Any
) -> None:
    plan = {"kind": "compose", "parts": [failing, beside]}
    found = settle(plan, relation=relation, delta=0.99 * chance)
    assert found.epsilon_lower == found.epsilon_upper == math.inf
    assert certain_failure(cases_of(parse_plan(plan), relation).upper[0]) == pytest.approx(chance, rel=1e-9)


def test_a_failure_that_the_sample_without_the_record_denies_is_none() -> None:
    """``absent`` is pure: what the sample with the record shows, the one without it shows as well, though seldom."""
    absent = {"kind": "pure", "epsilon": 0.3}
    plan = {"kind": "subsample", "scheme": "poisson", "rate": 0.25, "of": FAILING, "absent": absent}
    (case,) = cases_of(parse_plan(plan), "substitution").upper
    assert certain_failure(case) == 0.0
    assert isinstance(case.fixed[0][0], Poisson)


def test_a_record_that_leaves_one_sample_and_enters_another_fails_in_one_direction_at_a_time() -> None:
    sample = {"kind": "subsample", "scheme": "poisson", "rate": 0.25, "of": FAILING}
    plan = {"kind": "parallel", "parts": [sample, sample], "moves": [sample, sample]}
    for delta, most in ((2.4e-4, math.inf), (2.6e-4, 1.0)):
        for ask in (bound, recompute):
            found = ask(plan, relation="substitution", delta=delta)
            assert (found.epsilon_upper == math.inf) == (most == math.inf)


def test_of_several_scenarios_only_the_costliest_is_composed_sharply(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Case, float]] = []
    known = search.best

    def best(case: Case, relation: Any, target: Any, **more: Any) -> Any:
        asked.append((case, target.tolerance))
        return known(case, relation, target, **more)

    monkeypatch.setattr(search, "best", best)
    parts = [
        {"kind": "repeat", "count": 2, "of": {"kind": "laplace", "noise_multiplier": 1.0}},
        {"kind": "repeat", "count": 3, "of": {"kind": "approximate", "epsilon": 0.5, "delta": 1e-8}},
    ]
    found = bound({"kind": "parallel", "parts": parts}, relation="add-remove", delta=1e-6, tolerance=1e-5)
    assert [tolerance for _, tolerance in asked].count(1e-5) == 1
    alone = [bound(part, relation="add-remove", delta=1e-6, tolerance=1e-5) for part in parts]
    assert found.epsilon_upper == max(one.epsilon_upper for one in alone)
    assert found.epsilon_lower == max(one.epsilon_lower for one in alone)


@pytest.mark.parametrize("sigma", [1e150, 1e162, 1e170])
def test_noise_whose_concentration_is_lost_in_float64_is_not_said_to_cost_nothing(sigma: float) -> None:
    """The ρ of σ = 1e170 is 0 in float64; its δ at ε = 0 is about .4/σ."""
    (case,) = cases_of(Gaussian(sigma), "zero-out").upper  # beyond what a plan may state
    assert not costs_at_most(case, "zero-out", epsilon=1e-3 / sigma, delta=1e-250)
