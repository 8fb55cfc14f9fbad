"""Calibration returns the safe side, close to the smallest valid value."""

from __future__ import annotations

import math
from typing import Any

import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.calibrate import Domain, calibrate, solvable_paths, solve
from affidavit.accountant.errors import NoValueFits, PlanError
from affidavit.accountant.plan import parse_plan, with_value
from affidavit.accountant.settle import settle
from affidavit.accountant.validate import Relation

ONE = {"kind": "gaussian", "noise_multiplier": 1.0}


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [  # smallest valid noise multiplier, mpmath bisection on the closed form
        (1.0, 1e-15, 7.487009467986596),
        (1.0, 1e-30, 11.083102948976993),
        (10.0, 1e-5, 0.4998886197090085),
        (0.01, 1e-5, 243.78543767567803),
        (710.0, 1e-6, 0.030072763840382103),
        (1.0, 1e-6, 4.224678889326835),
    ],
)
def test_smallest_gaussian(epsilon: float, delta: float, sigma: float) -> None:
    found = calibrate(ONE, relation="add-remove", epsilon=epsilon, delta=delta, tolerance=1e-8)
    assert sigma <= found.value <= sigma * (1 + 1e-7)
    assert found.epsilon_upper <= epsilon


@pytest.mark.parametrize("path", ["plan.of.range", "plan.count"])
def test_exponential_plan(path: str) -> None:
    plan = {"kind": "repeat", "count": 20, "of": {"kind": "exponential", "range": 0.5}}
    found = calibrate(plan, relation="zero-out", epsilon=2.0, delta=1e-5, path=path, tolerance=1e-3)
    assert found.epsilon_upper <= 2.0
    assert found.neighbour is not None
    if path == "plan.count":
        assert found.neighbour == found.value + 1
        checked = {**plan, "count": int(found.value) + 1}
        assert bound(checked, relation="zero-out", delta=1e-5).epsilon_upper > 2.0
    else:
        assert found.epsilon_upper >= 2.0 * (1 - 1e-3)


def test_direction_is_found_not_assumed() -> None:
    """A cost that grows with the value, one that falls, and one where the start already fits."""
    for cost, expected in [(lambda x: x, 2.0), (lambda x: 4.0 / x, 2.0), (lambda x: x**3, 2.0 ** (1 / 3))]:
        for start in (0.01, 1.0, 50.0):
            found = solve(cost, epsilon=2.0, start=start, domain=Domain(1e-6, 1e6), name="x", tolerance=1e-9)
            assert found.epsilon_upper <= 2.0
            assert found.value == pytest.approx(expected, rel=1e-6)


def test_no_value_fits_says_how_close_one_can_come() -> None:
    plan = {"kind": "compose", "parts": [ONE, {"kind": "pure", "epsilon": 3.0}]}
    with pytest.raises(NoValueFits) as caught:
        calibrate(plan, relation="add-remove", epsilon=1.0, delta=1e-5, path="plan.parts[0].noise_multiplier")
    assert caught.value.best_epsilon == pytest.approx(3.0, rel=1e-3)
    assert caught.value.exit_code == 2


def test_everything_fits_returns_the_costliest_value_seen() -> None:
    found = solve(lambda x: 0.1 * x, epsilon=5.0, start=1.0, domain=Domain(0.5, 10.0), name="x")
    assert found.value == 10.0
    assert found.neighbour is None


@pytest.mark.parametrize("path", ["plan.nothing", "plan.parts[9].range", "noise", "plan.kind"])
def test_a_path_that_does_not_exist(path: str) -> None:
    with pytest.raises(PlanError) as caught:
        calibrate(ONE, relation="add-remove", epsilon=1.0, delta=1e-5, path=path)
    assert "plan.noise_multiplier" in caught.value.allowed


def test_the_parameter_is_guessed_only_when_there_is_one() -> None:
    two = {"kind": "compose", "parts": [ONE, ONE]}
    with pytest.raises(PlanError, match="not clear"):
        calibrate(two, relation="add-remove", epsilon=1.0, delta=1e-5)
    assert solvable_paths(two) == ("plan.parts[0].noise_multiplier", "plan.parts[1].noise_multiplier")


@pytest.mark.parametrize("turned", [False, True])
def test_what_the_rest_of_the_plan_costs_is_found_out_after_few_values(turned: bool) -> None:
    """3 + 1/x (or 3 + x): no x costs less than 3, and the walk must not creep to the domain's end to learn it."""
    asked: list[float] = []

    def cost(value: float) -> float:
        asked.append(value)
        return 3.0 + (value if turned else 1.0 / value)

    with pytest.raises(NoValueFits) as caught:
        solve(cost, epsilon=2.0, start=1.0, domain=Domain(1e-12, 1e12), name="x")
    assert caught.value.best_epsilon == pytest.approx(3.0, rel=1e-9)
    assert len(asked) <= 8


def test_a_target_just_above_what_the_rest_costs_is_still_found() -> None:
    found = solve(lambda x: 3.0 + 1.0 / x, epsilon=3.001, start=1.0, domain=Domain(1e-12, 1e12), name="x")
    assert found.epsilon_upper <= 3.001
    assert found.value == pytest.approx(1000.0, rel=0.5)


def test_a_cost_that_rises_again_is_not_given_up() -> None:
    """Least at 64, where it is 2; both ends of the domain cost far more."""
    found = solve(
        lambda x: 2.0 + abs(math.log2(x / 64.0)) / 8.0, epsilon=2.2, start=1.0, domain=Domain(1e-6, 1e6), name="x"
    )
    assert found.epsilon_upper <= 2.2


def test_a_value_that_the_domain_does_not_allow_is_no_end_of_the_search() -> None:
    """Beyond 50 a value is refused: that says nothing about 40, which fits."""
    found = solve(
        lambda x: 3.0 + 1.0 / x if x <= 50.0 else math.inf, epsilon=3.03, start=4.0, domain=Domain(1.0, 1e6), name="x"
    )
    assert found.epsilon_upper <= 3.03


def test_the_last_value_that_may_be_taken_is_found_though_a_doubling_leads_beyond_it() -> None:
    found = solve(
        lambda x: 400.0 / x if x <= 120.0 else math.inf,
        epsilon=3.5,
        start=70.0,
        domain=Domain(1, 1e6, integer=True),
        name="x",
    )
    assert found.value == 115.0


def test_a_target_of_nothing_is_met_by_the_least_noise_that_does() -> None:
    """ε = 0 at δ = 1e-5: 2 Φ(1/2σ) − 1 = δ, σ = 1/(δ √(2π)) = 39,894.228; any larger value has ε = 0 too."""
    found = calibrate({"kind": "gaussian", "noise_multiplier": 1.0}, relation="add-remove", epsilon=0.0, delta=1e-5)
    assert found.epsilon_upper == 0.0
    assert found.value == pytest.approx(39_894.228, rel=1e-6)


@pytest.mark.parametrize(("name", "end"), [("noise_multiplier", 1e-12), ("rate", 1.0), ("count", 1e12)])
def test_where_every_value_fits_it_is_the_costliest(name: str, end: float) -> None:
    """At δ = 1 nothing costs anything; 1.0 was called the smallest noise."""
    gaussian = {"kind": "gaussian", "noise_multiplier": 1.0}
    plan = {
        "noise_multiplier": gaussian,
        "rate": {"kind": "subsample", "scheme": "poisson", "rate": 0.1, "of": gaussian},
        "count": {"kind": "repeat", "count": 3, "of": gaussian},
    }[name]
    found = calibrate(plan, relation="add-remove", epsilon=1.0, delta=1.0, path=f"plan.{name}")
    assert (found.value, found.neighbour) == (end, None)


@pytest.mark.parametrize(
    ("plan", "path", "relation", "epsilon", "delta"),
    [
        (
            {
                "kind": "compose",
                "parts": [{"kind": "exponential", "range": 1.0}, {"kind": "gaussian", "noise_multiplier": 30.0}],
            },
            "plan.parts[0].range",
            "substitution",
            0.1239,
            7.319e-5,
        ),
        (
            {"kind": "repeat", "count": 65, "of": {"kind": "laplace", "noise_multiplier": 1.0}},
            "plan.of.noise_multiplier",
            "add-remove",
            4.278,
            9.647e-5,
        ),
    ],
)
def test_what_is_found_is_settled_within_the_target(
    plan: dict[str, Any], path: str, relation: Relation, epsilon: float, delta: float
) -> None:
    """The issuing engine's own bound was searched with: settled, the two cost 4e-4 and 5e-6 more than asked."""
    found = calibrate(plan, relation=relation, epsilon=epsilon, delta=delta, path=path)
    stated = settle(with_value(parse_plan(plan), path, found.value), relation=relation, delta=delta)
    assert epsilon * (1 - 2e-3) <= stated.epsilon_upper == found.epsilon_upper <= epsilon
