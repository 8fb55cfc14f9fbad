"""Calibration returns the safe side, close to the smallest valid value."""

from __future__ import annotations

import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.calibrate import Domain, calibrate, solvable_paths, solve
from affidavit.accountant.errors import NoValueFits, PlanError

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
