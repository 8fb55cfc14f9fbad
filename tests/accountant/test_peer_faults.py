"""Faults seen in published accountants, by kind: the right value, and the same kind of input by property.

The right values come from ``tests/references/peer_faults.json`` (mpmath closed forms, exact sums and rigorous
brackets; each row says how), read by the fault's number.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.bound import bound
from affidavit.accountant.calibrate import calibrate
from affidavit.accountant.errors import PlanError
from affidavit.accountant.methods.rdp import rdp
from affidavit.accountant.plan import parse_plan
from support.references import fault

ADD = "add-remove"


def gaussian(sigma: float) -> dict:
    return {"kind": "gaussian", "noise_multiplier": sigma}


def repeat(count: int, of: dict) -> dict:
    return {"kind": "repeat", "count": count, "of": of}


def poisson(rate: float, of: dict) -> dict:
    return {"kind": "subsample", "scheme": "poisson", "rate": rate, "of": of}


def pure(epsilon: float) -> dict:
    return {"kind": "pure", "epsilon": epsilon}


@pytest.mark.parametrize(
    ("number", "plan", "delta"),
    [
        ("U01", repeat(100, pure(10)), 1e-5),
        ("U02", repeat(20, pure(2)), 1e-5),
        ("U03", repeat(20, {"kind": "approximate", "epsilon": 2, "delta": 1e-9}), 1e-5),
        ("U04", repeat(25, gaussian(1.0)), 1e-5),
        ("U05", gaussian(1.0), 1e-5),
        ("F18", repeat(100, pure(0.1)), 1e-5),
        ("U18", repeat(50, poisson(0.2, gaussian(3.0))), 1 / 48000),
        ("U17", repeat(1000, poisson(1e-3, gaussian(0.5))), 1e-5),
        ("U19", poisson(0.01, gaussian(1.0)), 1e-5),
        ("U24", repeat(100, poisson(0.08, gaussian(1.0))), 1e-5),
        ("F01", repeat(10_000, poisson(0.00033, gaussian(4.0))), 1.1e-18),
        ("F02", repeat(10, poisson(0.2, gaussian(1.0))), 1e-5),
        ("F03", repeat(100, poisson(0.1, gaussian(0.5))), 1e-5),
        ("F12", gaussian(1000.0), 1e-5),
        ("F23", repeat(1_000_000, gaussian(1000.0)), 1e-5),
        ("F14", gaussian(0.001), 1e-5),
    ],
)
def test_upper_sides_that_were_too_small_or_failed(number: str, plan: dict, delta: float) -> None:
    right = fault(number)
    found = bound(plan, relation=ADD, delta=delta)
    assert found.epsilon_upper >= right["right_lower"]
    assert found.epsilon_lower <= right["right_upper"]
    assert found.epsilon_upper - found.epsilon_lower <= 1e-3 * found.epsilon_upper


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 20.0), st.integers(1, 300), st.floats(-12.0, -1.0))
def test_pure_composition_is_between_its_limits(epsilon: float, count: int, exponent: float) -> None:
    """The kind of U01 to U03: never negative, never below what the largest loss alone costs, never above kε."""
    delta = 10.0**exponent
    found = bound(repeat(count, pure(epsilon)), relation=ADD, delta=delta)
    top = count * -math.log1p(math.exp(-epsilon))  # ln of the mass at the largest loss, k ε
    if top > math.log(delta):
        assert found.epsilon_upper >= count * epsilon + math.log1p(-delta / math.exp(top)) - 1e-9
    assert 0.0 <= found.epsilon_lower <= found.epsilon_upper <= count * epsilon * (1 + 1e-12)


@pytest.mark.parametrize(("number", "sigma", "epsilon"), [("U08", 100.0, 0.03), ("U09", 1.0, 20.0), ("F17", 1.0, 0.0)])
def test_tails_that_drowned_in_round_off(number: str, sigma: float, epsilon: float) -> None:
    right = fault(number)
    found = bound(gaussian(sigma), relation=ADD, epsilon=epsilon)
    assert found.delta_lower <= right["right_lower"]
    assert found.delta_upper >= right["right_upper"]
    assert found.delta_upper <= right["right_upper"] * (1 + 1e-6)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.05, 50.0), st.floats(0.0, 30.0), st.floats(0.01, 5.0))
def test_delta_falls_with_epsilon(sigma: float, epsilon: float, step: float) -> None:
    """The kind of U09."""
    here, further = (bound(gaussian(sigma), relation=ADD, epsilon=e) for e in (epsilon, epsilon + step))
    assert further.delta_lower <= here.delta_upper


@pytest.mark.parametrize(
    ("number", "plan", "epsilon", "delta"),
    [
        ("U06", gaussian(1.0), 1.0, 1e-15),
        ("U07", gaussian(1.0), 1.0, 1e-30),
        ("U20", gaussian(1.0), 10.0, 1e-5),
        ("U25", gaussian(1.0), 1.0, 1e-6),
        ("F15", gaussian(1.0), 0.01, 1e-5),
        ("F16", gaussian(1.0), 710.0, 1e-6),
        ("F26", poisson(0.01, gaussian(1.0)), 1.0, 1e-6),
    ],
)
def test_calibrators_that_undershot_or_overflowed(number: str, plan: dict, epsilon: float, delta: float) -> None:
    found = calibrate(plan, relation=ADD, epsilon=epsilon, delta=delta)
    smallest = fault(number)["right_lower"]
    assert smallest <= found.value <= smallest * 1.001


def test_a_doubled_sensitivity_is_the_users_multiplier_halved() -> None:
    """U10, U11: sensitivity 2 at σ = 1 is multiplier 0.5, sampled whole or not at all."""
    whole = {"kind": "subsample", "scheme": "without-replacement", "population": 1000, "sample": 1000}
    for plan in (gaussian(0.5), {**whole, "of": gaussian(0.5)}):
        found = bound(plan, relation="substitution", delta=1e-5)
        assert found.epsilon_lower <= fault("U11")["right_upper"] <= found.epsilon_upper


def test_both_directions_count() -> None:
    """U15: randomised response ln 3, Poisson 1/2, twice, δ = 0.2: 0.3716 by adding, 0.2288 by removing."""
    plan = repeat(2, poisson(0.5, pure(math.log(3.0))))
    found = bound(plan, relation=ADD, delta=0.2)
    assert found.epsilon_lower <= fault("U15")["right_upper"] <= found.epsilon_upper * (1 + 1e-11)
    laplace = repeat(2, poisson(0.5, {"kind": "laplace", "noise_multiplier": 2.0}))
    found = bound(laplace, relation=ADD, epsilon=0.06)  # U16
    assert found.delta_upper >= fault("U16")["right_lower"]
    assert found.delta_lower <= fault("U16")["right_upper"]


def test_fixed_size_samples_are_not_poisson_samples() -> None:
    """U13: [8.59931, 8.657] without replacement where Poisson's accountant says 0.47 for the same noise."""
    sample = {"kind": "subsample", "scheme": "without-replacement", "population": 10_000, "sample": 10}
    fixed = bound(repeat(1000, {**sample, "of": gaussian(0.4)}), relation=ADD, delta=1e-6)
    assert fault("U13")["right_lower"] <= fixed.epsilon_upper <= 8.65675  # its bracket for this pair
    assert bound(repeat(1000, poisson(1e-3, gaussian(0.8))), relation=ADD, delta=1e-6).epsilon_upper <= 0.4735


def test_renyi_divergence_of_bounded_range() -> None:
    """U22: at α = 2 and η = 2, between the exponential mechanism's 0.8676 and η²/8 α = 1."""
    value = rdp(parse_plan({"kind": "exponential", "range": 2.0}), ADD)(2.0)
    assert fault("U22")["right_lower"] <= value <= fault("U22")["right_upper"] + 1e-9


@pytest.mark.parametrize(
    ("plan", "delta", "epsilon"),
    [
        pytest.param(poisson(1e-3, gaussian(100.0)), 1e-5, 0.0, id="F06"),
        pytest.param(repeat(0, poisson(0.1, gaussian(1.0))), 1e-5, 0.0, id="F07"),
        pytest.param(poisson(1.0, gaussian(1.0)), 1e-5, 4.3771780956812245, id="F08"),
        pytest.param(poisson(0.0, gaussian(1.0)), 1e-5, 0.0, id="F09"),
        pytest.param(poisson(0.00105, gaussian(1.0)), 1e-3, 0.0, id="F11"),
        pytest.param(gaussian(0.0), 1e-5, math.inf, id="F05"),
        pytest.param(gaussian(1.0), 0.0, math.inf, id="F28-zero"),
        pytest.param(gaussian(1.0), 1.0, 0.0, id="F28-one"),
        pytest.param(gaussian(1.0), 1e-30, 11.743883025231737, id="F13"),
    ],
)
def test_edges(plan: dict, delta: float, epsilon: float) -> None:
    found = bound(plan, relation=ADD, delta=delta)
    assert found.epsilon_lower <= epsilon <= found.epsilon_upper
    assert found.epsilon_upper == pytest.approx(epsilon, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("sigma", [math.nan, -1.0, math.inf, True, "1"])
def test_noise_that_is_no_number(sigma: object) -> None:
    """U26, U27."""
    with pytest.raises(PlanError, match="noise_multiplier"):
        bound({"kind": "gaussian", "noise_multiplier": sigma}, relation=ADD, delta=1e-5)


@pytest.mark.parametrize("delta", [math.nan, -0.1, 2.0, True])
def test_delta_out_of_range(delta: float) -> None:
    """U26, F28."""
    with pytest.raises(PlanError, match="delta"):
        bound(gaussian(1.0), relation=ADD, delta=delta)


def test_very_small_noise_under_sampling_ends() -> None:
    """F04: σ = 0.1, q = 0.01, T = 1000: others overflow or hang."""
    found = bound(repeat(1000, poisson(0.01, gaussian(0.1))), relation=ADD, delta=1e-5)
    assert 0.0 < found.epsilon_lower <= found.epsilon_upper < math.inf
