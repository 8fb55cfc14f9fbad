"""Leaf kinds that mechanisms add: one-use costs in core leaves, no second meaning, no late arrival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from affidavit.accountant import plan as plans
from affidavit.accountant import validate
from affidavit.accountant.bound import bound, profile_points
from affidavit.accountant.plan import (
    Compose,
    Exponential,
    Gaussian,
    Leaf,
    Parallel,
    Plan,
    Poisson,
    Pure,
    Repeat,
    WithoutReplacement,
    core,
    parse_plan,
    register_leaf,
    to_dict,
)
from affidavit.accountant.verifier import recompute


@dataclass(frozen=True, slots=True)
class Survey(Leaf):
    """A made-up mechanism: a noisy count, then a choice."""

    noise_multiplier: float
    range: float
    kind: ClassVar[str] = "survey"


def survey_costs(leaf: Survey) -> Plan:
    return Compose((Gaussian(leaf.noise_multiplier), Exponential(leaf.range)))


@pytest.fixture
def open_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry of this test's own, not yet frozen."""
    monkeypatch.setattr(plans, "_LEAVES", dict(plans._LEAVES))
    monkeypatch.setattr(plans, "_frozen", False)


@pytest.fixture
def survey(open_registry: None) -> Survey:
    register_leaf(Survey, {"noise_multiplier": validate.real, "range": validate.real}, costs=survey_costs)
    return Survey(4.0, 0.25)


def test_every_entry_point_charges_what_the_kind_registered(survey: Survey) -> None:
    node, spelled = Repeat(5, survey), Repeat(5, survey_costs(survey))
    asked = {"relation": "zero-out", "delta": 1e-5}
    ours, theirs = bound(node, **asked), bound(spelled, **asked)
    assert (ours.epsilon_lower, ours.epsilon_upper) == (theirs.epsilon_lower, theirs.epsilon_upper)
    assert recompute(node, **asked) == recompute(spelled, **asked)
    assert recompute(node, **asked) == recompute(spelled, **asked)
    points = {"relation": "zero-out", "delta": 1e-5, "epsilons": (0.5, 1.0)}
    assert profile_points(node, **points) == profile_points(spelled, **points)


def test_core_reaches_every_node(survey: Survey) -> None:
    cost = survey_costs(survey)
    tree = Compose(
        (
            Repeat(2, survey),
            Poisson(0.5, survey, absent=survey),
            WithoutReplacement(10, 2, survey),
            Parallel((survey, Pure(1.0)), moves=(survey, Pure(0.5))),
        )
    )
    assert core(tree) == Compose(
        (
            Repeat(2, cost),
            Poisson(0.5, cost, absent=cost),
            WithoutReplacement(10, 2, cost),
            Parallel((cost, Pure(1.0)), moves=(cost, Pure(0.5))),
        )
    )
    assert core(core(tree)) == core(tree)
    assert parse_plan(to_dict(tree)) == tree


def test_a_cost_that_is_no_plan_is_refused(open_registry: None) -> None:
    register_leaf(
        Survey,
        {"noise_multiplier": validate.real, "range": validate.real},
        costs=lambda leaf: Gaussian(-leaf.noise_multiplier),
    )
    with pytest.raises(plans.PlanError, match="noise_multiplier"):
        bound(Survey(1.0, 1.0), relation="zero-out", delta=1e-5)


def test_a_kind_is_registered_once_and_never_after_the_freeze(survey: Survey) -> None:
    checks = {"noise_multiplier": validate.real, "range": validate.real}
    with pytest.raises(ValueError, match="registered already"):
        register_leaf(type(survey), checks, costs=survey_costs)
    plans.freeze_leaves()

    @dataclass(frozen=True, slots=True)
    class Late(Leaf):
        kind: ClassVar[str] = "late"

    with pytest.raises(ValueError, match="frozen"):
        register_leaf(Late, {})
    assert bound(survey, relation="zero-out", delta=1e-5).epsilon_upper > 0.0
