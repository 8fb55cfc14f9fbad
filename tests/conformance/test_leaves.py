"""What must hold of every leaf kind that the registry knows, the core's and the mechanisms' alike."""

from __future__ import annotations

import math
from typing import Any

import pytest

from affidavit import mechanisms
from affidavit.accountant.bound import bound
from affidavit.accountant.errors import NotSupported, PlanError
from affidavit.accountant.plan import core, leaf_kinds, parse_plan, to_dict
from affidavit.accountant.verifier import recompute

mechanisms.load()

EXAMPLES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # kind: (a use, a use that costs more)
    "gaussian": ({"noise_multiplier": 2.0}, {"noise_multiplier": 1.5}),
    "discrete-gaussian": (
        {"noise_multiplier": 2.0, "granularity": 0.25},
        {"noise_multiplier": 1.5, "granularity": 0.25},
    ),
    "laplace": ({"noise_multiplier": 2.0}, {"noise_multiplier": 1.5}),
    "pure": ({"epsilon": 0.5}, {"epsilon": 0.7}),
    "approximate": ({"epsilon": 0.5, "delta": 1e-7}, {"epsilon": 0.7, "delta": 1e-7}),
    "exponential": ({"range": 0.5}, {"range": 0.7}),
    "zcdp": ({"rho": 0.05}, {"rho": 0.08}),
    "bounded-range": ({"range": 0.5}, {"range": 0.7}),
    "noisy-max": ({"epsilon": 0.5}, {"epsilon": 0.7}),
    "propose-test-release": ({"epsilon": 0.5, "delta": 1e-7}, {"epsilon": 0.7, "delta": 1e-7}),
    "above-threshold": (
        {"threshold_noise_multiplier": 4.0, "query_noise_multiplier": 8.0, "positives": 2, "monotone": True},
        {"threshold_noise_multiplier": 3.0, "query_noise_multiplier": 8.0, "positives": 2, "monotone": True},
    ),
}
DELTA = 1e-5
RELATIONS = ("add-remove", "zero-out", "substitution")


def test_every_kind_has_an_example():
    assert set(EXAMPLES) == set(leaf_kinds())


@pytest.fixture(params=leaf_kinds())
def use(request) -> dict[str, Any]:
    return {"kind": request.param, **EXAMPLES[request.param][0]}


def dearer(use: dict[str, Any]) -> dict[str, Any]:
    return {"kind": use["kind"], **EXAMPLES[use["kind"]][1]}


def test_costs_are_stated_in_the_cores_own_leaves(use):
    own = {"gaussian", "discrete-gaussian", "laplace", "pure", "approximate", "exponential", "zcdp"}
    found, rest = set(), [to_dict(core(parse_plan(use)))]
    while rest:
        node = rest.pop()
        found.add(node["kind"])
        rest += [value for value in node.values() if isinstance(value, dict)]
        rest += [part for value in node.values() if isinstance(value, list) for part in value]
    assert found <= own | {"compose", "repeat"}


@pytest.mark.parametrize("relation", RELATIONS)
def test_lower_is_below_upper_and_more_uses_cost_more(use, relation):
    once, thrice = (
        bound({"kind": "repeat", "count": count, "of": use}, relation=relation, delta=DELTA) for count in (1, 3)
    )
    for found in (once, thrice):
        assert 0.0 <= found.epsilon_lower <= found.epsilon_upper < math.inf
    assert once.epsilon_upper < thrice.epsilon_upper


@pytest.mark.parametrize("count", [2, 5])
def test_count_n_is_n_composes(use, count):
    asked = {"relation": "zero-out", "delta": DELTA}
    repeated = bound({"kind": "repeat", "count": count, "of": use}, **asked)
    composed = bound({"kind": "compose", "parts": [use] * count}, **asked)
    assert repeated.epsilon_upper == pytest.approx(composed.epsilon_upper, rel=1e-9)
    assert repeated.epsilon_lower == pytest.approx(composed.epsilon_lower, rel=1e-9)


def test_less_noise_costs_more(use):
    less, more = (bound(node, relation="zero-out", delta=DELTA) for node in (use, dearer(use)))
    assert less.epsilon_upper < more.epsilon_upper


def test_a_sample_costs_less_than_the_whole(use):
    """Both schemes, where a theorem covers the kind."""
    whole = bound(use, relation="zero-out", delta=DELTA)
    for scheme in (
        {"scheme": "poisson", "rate": 0.1},
        {"scheme": "without-replacement", "population": 100, "sample": 10},
    ):
        try:
            sampled = bound({"kind": "subsample", **scheme, "of": use}, relation="zero-out", delta=DELTA)
        except NotSupported:
            continue
        assert 0.0 <= sampled.epsilon_lower <= sampled.epsilon_upper < whole.epsilon_upper


def test_three_arithmetics_agree(use):
    """Float64, outward-rounded and recomputed brackets overlap; the last where it has a second formula."""
    plan = {"kind": "repeat", "count": 3, "of": use}
    asked = {"relation": "zero-out", "delta": DELTA}
    found, certified = bound(plan, **asked), recompute(plan, **asked)
    assert certified.epsilon_upper >= found.epsilon_lower * (1.0 - 1e-9)
    assert certified.epsilon_lower <= found.epsilon_upper * (1.0 + 1e-9)
    try:
        again = recompute(plan, **asked)
    except NotSupported:
        assert use["kind"] == "discrete-gaussian"
        return
    assert again.epsilon_upper >= certified.epsilon_lower * (1.0 - 1e-9)
    assert again.epsilon_lower <= certified.epsilon_upper * (1.0 + 1e-9)


@pytest.mark.parametrize("extreme", [1e-100, 2e-94, 1e-20, 1e20, 1e100])
def test_an_extreme_parameter_is_refused_by_name_or_has_a_cost(use, extreme):
    """Multipliers of 1e-100 cost 3e100, which was refused under the path of a leaf that the plan does not have."""
    for field, good in use.items():
        if not isinstance(good, float):
            continue
        try:
            core(parse_plan({**use, field: extreme}))
        except PlanError as refused:
            assert refused.path == f"plan.{field}"  # noqa: PT017


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, True, "one", None])
def test_bad_parameters_are_refused_by_name(use, bad):
    for field, good in use.items():
        if field == "kind" or isinstance(good, bool):
            continue
        with pytest.raises(PlanError) as caught:
            bound({**use, field: bad}, relation="zero-out", delta=DELTA)
        assert caught.value.path == f"plan.{field}"
