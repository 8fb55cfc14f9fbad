"""Absurd sizes: refused at the border by the field's name, or bracketed by both engines; never a crash, never NaN."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.errors import NotSupported, PlanError
from affidavit.accountant.plan import Gaussian, parse_plan
from affidavit.accountant.validate import LEAST, MOST, underflow, written
from affidavit.accountant.verifier import recompute

Node = dict[str, Any]

FIELDS = {
    "gaussian": "noise_multiplier",
    "laplace": "noise_multiplier",
    "pure": "epsilon",
    "approximate": "epsilon",
    "exponential": "range",
    "zcdp": "rho",
    "discrete-gaussian": "noise_multiplier",
}
OTHERS: dict[str, Node] = {"approximate": {"delta": 1e-7}, "discrete-gaussian": {"granularity": 0.25}}


def _leaf(kind: str, value: float) -> Node:
    return {"kind": kind, **OTHERS.get(kind, {}), FIELDS[kind]: value}


def _poisson(rate: float, of: Node) -> Node:
    return {"kind": "subsample", "scheme": "poisson", "rate": rate, "of": of}


def _repeat(count: int, of: Node) -> Node:
    return {"kind": "repeat", "count": count, "of": of}


@pytest.mark.parametrize("value", [5e-324, 1e-310, 1e-160, 0.9 * LEAST, 1.1 * MOST, 1e160, 1.7e308])
@pytest.mark.parametrize("kind", FIELDS)
def test_a_size_beyond_what_is_computed_with_is_refused_by_name(kind: str, value: float) -> None:
    with pytest.raises(PlanError, match=rf"plan\.of\.of\.{FIELDS[kind]}: .* is beyond .*1e-100 and <= 1e\+100"):
        parse_plan(_repeat(3, _poisson(0.1, _leaf(kind, value))))


@pytest.mark.parametrize("kind", FIELDS)
def test_zero_keeps_its_meaning(kind: str) -> None:
    assert getattr(parse_plan(_leaf(kind, 0.0)), FIELDS[kind]) == 0.0


def test_other_fields_have_their_limits_too() -> None:
    grid = {"kind": "discrete-gaussian", "noise_multiplier": 1.0, "granularity": 1e300}
    people = {"kind": "subsample", "scheme": "without-replacement", "population": 10**101, "sample": 1}
    for plan in (grid, {**grid, "granularity": 0.0}, _poisson(5e-324, _leaf("pure", 1.0)), {**people, "of": grid}):
        with pytest.raises(PlanError):
            parse_plan(plan)


def test_nodes_made_in_a_program_are_checked_as_well() -> None:
    with pytest.raises(PlanError, match="noise_multiplier"):
        bound(Gaussian(1e-320), relation="add-remove", delta=1e-5)


def _around(leaf: Node) -> dict[str, Node]:
    gaussian = {"kind": "gaussian", "noise_multiplier": 1.0}
    return {
        "alone": leaf,
        "uses": _repeat(10**12, leaf),
        "sampled": _repeat(20, _poisson(0.01, leaf)),
        "parallel": {"kind": "parallel", "parts": [leaf, gaussian]},
        "beside": _repeat(3, {"kind": "compose", "parts": [leaf, gaussian]}),
    }


@pytest.mark.parametrize("kind", ["gaussian", "pure", "approximate", "exponential", "zcdp"])
@pytest.mark.parametrize("value", [LEAST, 1e-12, 1e12, MOST])
def test_sizes_at_the_limits_are_bracketed_by_the_issuing_engine(kind: str, value: float) -> None:
    for name, plan in _around(_leaf(kind, value)).items():
        found = bound(plan, relation="add-remove", delta=1e-5)
        assert 0.0 <= found.epsilon_lower <= found.epsilon_upper, name
        found = bound(plan, relation="add-remove", epsilon=1.0)
        assert 0.0 <= found.delta_lower <= found.delta_upper <= 1.0, name


@pytest.mark.parametrize("kind", ["gaussian", "pure", "approximate", "exponential", "zcdp"])
@pytest.mark.parametrize("value", [LEAST, MOST])
def test_sizes_at_the_limits_are_bracketed_by_the_verifier(kind: str, value: float) -> None:
    for name in ("alone", "parallel"):
        found = recompute(_around(_leaf(kind, value))[name], relation="add-remove", delta=1e-5)
        assert 0.0 <= found.epsilon_lower <= found.epsilon_upper, name


@pytest.mark.parametrize("kind", ["pure", "laplace"])
def test_a_large_loss_on_a_sample_is_refused_by_the_verifier(kind: str) -> None:
    of = _leaf(kind, 1e12 if kind == "pure" else 1e-12)
    with pytest.raises(NotSupported, match="lose more than 10,000 on a sample"):
        recompute(_repeat(20, _poisson(0.01, of)), relation="add-remove", delta=1e-5)


@pytest.mark.parametrize("epsilon", [1e20, 1e100, 1.7e308])
def test_delta_at_an_epsilon_far_beyond_all_losses(epsilon: float) -> None:
    """What is left is what approximate mechanisms fail with, 1e-7."""
    exponentials = _repeat(1_000, _leaf("exponential", 0.7))
    for engine in (bound, recompute):
        assert engine(exponentials, relation="add-remove", epsilon=epsilon).delta_upper == 0.0
        both = {"kind": "compose", "parts": [exponentials, _leaf("approximate", 0.7)]}
        found = engine(both, relation="add-remove", epsilon=epsilon)
        assert found.delta_lower <= 1e-7 <= found.delta_upper
        if epsilon < 1e200:  # beyond, an upper side of 1 is no fault
            assert found.delta_upper == pytest.approx(1e-7, rel=1e-9)


@pytest.mark.parametrize("sigma", [9e-7, 1e-12, 1e-20, 1e-100])
@pytest.mark.parametrize("delta", [1e-300, 1e-5, 0.5, 0.9])
def test_gaussians_of_very_little_noise_have_a_lower_side(sigma: float, delta: float) -> None:
    """δ(μ²/2 − tμ) is Φ(t) − φ(t) M(b), b = μ − t, and Mills' ratio M(b) within 1/b³ below 1/b: in 400 digits."""
    found = bound({"kind": "gaussian", "noise_multiplier": sigma}, relation="add-remove", delta=delta)
    with mpmath.workdps(400):
        mu = 1 / mpmath.mpf(sigma)
        low, high = (mu / 2 - mpmath.mpf(side) / mu for side in (found.epsilon_lower, found.epsilon_upper))
        mills = 1 / (mu - high) - 1 / (mu - high) ** 3
        assert mpmath.ncdf(low) - mpmath.npdf(low) / (mu - low) > delta
        assert mpmath.ncdf(high) - mpmath.npdf(high) * mills <= delta
    assert found.epsilon_upper - found.epsilon_lower <= 1e-11 * found.epsilon_upper


def test_a_decimal_that_float64_reads_as_zero_is_known() -> None:
    for text in ("1e-400", "0.00001e-330", "-2E-999", "\N{ARABIC-INDIC DIGIT ONE}e-400"):
        assert type(written(text)) is type(underflow(text))
    for text in ("0", "0.0", "0e-400", "1e-320", "-0.0"):
        assert type(written(text)) is float
    with pytest.raises(PlanError, match=r"plan\.epsilon: 1e-400 is not 0"):
        parse_plan({"kind": "pure", "epsilon": written("1e-400")})


@pytest.mark.parametrize("beside", ["parts", "absent", "moves"])
def test_counts_of_nested_repeats_multiply_to_what_is_computed_with(beside: str) -> None:
    leaf = _leaf("gaussian", 1.0)
    inner = _repeat(10**6, leaf)
    of: Node = {"kind": "compose", "parts": [leaf, inner]}
    if beside == "absent":
        of = {**_poisson(0.1, leaf), "absent": inner}
    elif beside == "moves":
        of = {"kind": "parallel", "parts": [leaf], "moves": [inner]}
    parse_plan(_repeat(10**6, of))
    parse_plan(_repeat(0, _repeat(10**12, leaf)))
    with pytest.raises(PlanError, match=r"plan\.count: 1000001 times .* more than 1000000000000 uses in all"):
        parse_plan(_repeat(10**6 + 1, of))
    with pytest.raises(PlanError, match=r"plan\.of\.count"):
        parse_plan(_repeat(10**12, _repeat(10**12, _repeat(10**12, leaf))))


@pytest.mark.parametrize("granularity", [1.5, 2.0, 1e9])
def test_a_grid_on_which_no_value_need_differ_has_no_lower_side_without_noise(granularity: float) -> None:
    coarse = {"kind": "discrete-gaussian", "noise_multiplier": 0.0, "granularity": granularity}
    beside = {"kind": "compose", "parts": [coarse, _leaf("gaussian", 1.0)]}
    for engine in (bound, recompute):
        found = engine(coarse, relation="add-remove", delta=1e-5)
        assert (found.epsilon_lower, found.epsilon_upper) == (0.0, math.inf)
        found = engine(beside, relation="add-remove", delta=1e-5)
        assert found.epsilon_lower == pytest.approx(4.377178, abs=1e-6)
        assert found.epsilon_upper == math.inf
        found = engine({**coarse, "granularity": 1.0}, relation="add-remove", delta=1e-5)
        assert found.epsilon_lower == math.inf


@pytest.mark.parametrize("count", [1, 3])
def test_several_cases_at_either_end_of_delta(count: int) -> None:
    """At 0 the largest losses of a part left and one entered add up, at 1 nothing is left."""
    parts = [_leaf("pure", 1.0), {"kind": "laplace", "noise_multiplier": 0.5}]
    plan = _repeat(count, {"kind": "parallel", "parts": parts})
    assert bound(plan, relation="substitution", delta=1.0).epsilon_upper == 0.0
    for delta in (0.0, 5e-324):
        found = bound(plan, relation="substitution", delta=delta)
        assert 2.99 * count < found.epsilon_lower <= 3.0 * count <= found.epsilon_upper < 3.01 * count
