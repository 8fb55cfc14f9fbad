"""Plan files: exact errors, stable spelling, round trips."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.accountant.errors import PlanError
from affidavit.accountant.plan import (
    Compose,
    Exponential,
    Gaussian,
    Leaf,
    Parallel,
    Repeat,
    canonical_json,
    leaves,
    parse_envelope,
    parse_plan,
    register_leaf,
    to_dict,
)

_rates = st.just(0.0) | st.floats(min_value=1e-100, max_value=1.0)
_numbers = st.just(0.0) | st.floats(min_value=1e-100, max_value=1e6)
_leaf_dicts = st.one_of(
    st.builds(lambda x: {"kind": "gaussian", "noise_multiplier": x}, _numbers),
    st.builds(lambda x: {"kind": "laplace", "noise_multiplier": x}, _numbers),
    st.builds(lambda x: {"kind": "pure", "epsilon": x}, _numbers),
    st.builds(lambda x, d: {"kind": "approximate", "epsilon": x, "delta": d}, _numbers, st.floats(0.0, 1.0)),
    st.builds(lambda x: {"kind": "exponential", "range": x}, _numbers),
    st.builds(lambda x: {"kind": "zcdp", "rho": x}, _numbers),
)
plan_dicts = st.recursive(
    _leaf_dicts,
    lambda inner: st.one_of(
        st.builds(lambda parts: {"kind": "compose", "parts": parts}, st.lists(inner, max_size=3)),
        st.builds(lambda n, of: {"kind": "repeat", "count": n, "of": of}, st.integers(0, 9), inner),
        st.builds(lambda parts: {"kind": "parallel", "parts": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda q, of: {"kind": "subsample", "scheme": "poisson", "rate": q, "of": of}, _rates, inner),
    ),
    max_leaves=6,
)


@given(plan_dicts)
def test_round_trip(plan: dict) -> None:
    parsed = parse_plan(plan)
    assert parse_plan(to_dict(parsed)) == parsed
    assert parse_plan(json.loads(canonical_json(parsed))) == parsed


GAUSSIAN = {"kind": "gaussian", "noise_multiplier": 1.0}


@pytest.mark.parametrize(
    ("plan", "path", "allowed"),
    [
        ({"kind": "gaussian", "noise_multiplier": -1.0}, "plan.noise_multiplier", ">= 0"),
        ({"kind": "gaussian", "noise_multiplier": float("nan")}, "plan.noise_multiplier", ">= 0"),
        ({"kind": "gaussian", "noise_multiplier": float("inf")}, "plan.noise_multiplier", "finite"),
        ({"kind": "gaussian", "noise_multiplier": True}, "plan.noise_multiplier", "number"),
        ({"kind": "gaussian", "noise_multiplier": "1"}, "plan.noise_multiplier", "number"),
        ({"kind": "gaussian", "noise_multiplier": 10**400}, "plan.noise_multiplier", "number"),
        ({"kind": "gaussian"}, "plan.noise_multiplier", "noise_multiplier"),
        ({"kind": "gaussian", "noise_multiplier": 1, "sigma": 2}, "plan.sigma", "noise_multiplier"),
        ({"kind": "gausian", "noise_multiplier": 1}, "plan.kind", "gaussian"),
        ({"noise_multiplier": 1}, "plan.kind", "gaussian"),
        ({"kind": "repeat", "count": 2.5, "of": GAUSSIAN}, "plan.count", "whole"),
        ({"kind": "repeat", "count": -1, "of": GAUSSIAN}, "plan.count", ">= 0"),
        ({"kind": "repeat", "count": 1, "of": 3}, "plan.of", "kind"),
        ({"kind": "compose", "parts": GAUSSIAN}, "plan.parts", "list"),
        ({"kind": "compose", "parts": [GAUSSIAN, {"kind": "pure", "epsilon": -1}]}, "plan.parts[1].epsilon", ">= 0"),
        ({"kind": "parallel", "parts": []}, "plan.parts", "a list of plan nodes"),
        ({"kind": "parallel", "parts": [GAUSSIAN], "membership": "loose"}, "plan.membership", "fixed"),
        ({"kind": "parallel", "parts": [GAUSSIAN], "moves": []}, "plan.moves", "one plan a part"),
        ({"kind": "subsample", "rate": 0.1, "of": GAUSSIAN}, "plan.scheme", "poisson"),
        ({"kind": "subsample", "scheme": "poisson", "rate": 1.5, "of": GAUSSIAN}, "plan.rate", "[0, 1]"),
        (
            {"kind": "subsample", "scheme": "without-replacement", "population": 10, "sample": 11, "of": GAUSSIAN},
            "plan.sample",
            "<= 10",
        ),
        ({"kind": "approximate", "epsilon": 1, "delta": 1.01}, "plan.delta", "[0, 1]"),
        ({"kind": "discrete-gaussian", "noise_multiplier": 1, "granularity": 0}, "plan.granularity", ">= 1e-100"),
    ],
)
def test_errors_name_the_path_and_what_is_allowed(plan: dict, path: str, allowed: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse_plan(plan)
    assert caught.value.path == path
    assert allowed in caught.value.allowed
    assert path in str(caught.value)


def test_deep_nesting_is_refused_not_crashed_on() -> None:
    plan: dict = GAUSSIAN
    for _ in range(5000):
        plan = {"kind": "repeat", "count": 1, "of": plan}
    with pytest.raises(PlanError, match="deeply"):
        parse_plan(plan)


@pytest.mark.parametrize("relation", [None, "add", 1, ["add-remove"]])
def test_the_relation_is_never_defaulted(relation: object) -> None:
    with pytest.raises(PlanError, match="add-remove"):
        parse_envelope({"relation": relation, "plan": GAUSSIAN})


def test_unknown_envelope_key() -> None:
    with pytest.raises(PlanError, match="unknown key"):
        parse_envelope({"relation": "add-remove", "plan": GAUSSIAN, "epsilon": 1})


def test_leaves_are_walked_in_declared_order_with_their_uses() -> None:
    plan = Compose((Repeat(3, Gaussian(1.0)), Parallel((Exponential(0.5), Repeat(2, Exponential(0.25))))))
    assert list(leaves(plan)) == [
        ("plan.parts[0].of", Gaussian(1.0), 3),
        ("plan.parts[1].parts[0]", Exponential(0.5), 1),
        ("plan.parts[1].parts[1].of", Exponential(0.25), 2),
    ]


def test_a_published_kind_is_never_redefined() -> None:
    class Other(Leaf):
        kind = "gaussian"

    with pytest.raises(ValueError, match="registered already"):
        register_leaf(Other, {})
