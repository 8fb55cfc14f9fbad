"""A case that another one covers costs no more: what ``dominance`` and the verifier's ``Case.covers`` say."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.bound import bound
from affidavit.accountant.cases import dominance
from affidavit.accountant.cases.case import cases_of
from affidavit.accountant.cases.dominance import covers, undominated
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import parse_plan
from affidavit.accountant.verifier import recompute
from affidavit.accountant.verifier.reading import read

Node = dict[str, Any]

numbers = st.floats(math.log(0.05), math.log(5.0)).map(math.exp)
leaves = st.one_of(
    numbers.map(lambda x: {"kind": "gaussian", "noise_multiplier": x}),
    numbers.map(lambda x: {"kind": "laplace", "noise_multiplier": x}),
    numbers.map(lambda x: {"kind": "pure", "epsilon": x}),
    numbers.map(lambda x: {"kind": "approximate", "epsilon": x, "delta": 1e-9}),
    numbers.map(lambda x: {"kind": "exponential", "range": x}),
    numbers.map(lambda x: {"kind": "zcdp", "rho": x}),
)
few = st.builds(lambda x, n: {"kind": "repeat", "count": n, "of": x}, leaves, st.integers(1, 3))
composed = st.lists(few, min_size=1, max_size=3).map(lambda parts: {"kind": "compose", "parts": parts})


@settings(max_examples=300, deadline=None)
@given(one=composed, other=composed, delta=st.sampled_from([0.3, 1e-3, 1e-7]))
def test_what_is_covered_costs_no_more(one: Node, other: Node, delta: float) -> None:
    first, second = parse_plan(one), parse_plan(other)
    ((mine,), (theirs,)) = (read(plan, "zero-out").upper for plan in (first, second))
    if not covers(first, second) and not mine.covers(theirs):
        return
    above = bound(one, relation="zero-out", delta=delta).epsilon_upper
    below = bound(other, relation="zero-out", delta=delta).epsilon_lower
    assert below <= above * (1.0 + 1e-9) + 1e-9


pairs = st.lists(leaves.filter(lambda leaf: leaf["kind"] not in ("gaussian", "zcdp")), min_size=2, max_size=2)
around = st.sampled_from(
    [
        {"kind": "subsample", "scheme": "poisson", "rate": 0.4},
        {"kind": "subsample", "scheme": "without-replacement", "population": 10, "sample": 4},
        {"kind": "repeat", "count": 2},
    ]
)


@settings(max_examples=60, deadline=None)
@given(parts=pairs, outer=around, relation=st.sampled_from(["add-remove", "zero-out"]))
def test_a_choice_between_parts_costs_what_each_part_does(parts: list[Node], outer: Node, relation: Any) -> None:
    """Also on samples, where a covering part stands for all: no part by itself is above the whole, in either engine."""
    whole = {**outer, "of": {"kind": "parallel", "parts": parts}}
    try:
        above = bound(whole, relation=relation, epsilon=0.2).delta_upper
        again = recompute(whole, relation=relation, epsilon=0.2).delta_upper
    except NotSupported:
        return
    for part in parts:
        try:
            alone = bound({**outer, "of": part}, relation=relation, epsilon=0.2, explicit=True)
        except NotSupported:
            continue
        assert alone.delta_lower <= min(above, again) * (1.0 + 1e-9) + 1e-12


LEAVES: list[tuple[Node, Node]] = [
    ({"kind": "zcdp", "rho": 0.125}, {"kind": "gaussian", "noise_multiplier": 2.0}),
    ({"kind": "pure", "epsilon": 0.5}, {"kind": "laplace", "noise_multiplier": 2.0}),
    ({"kind": "approximate", "epsilon": 0.5, "delta": 1e-9}, {"kind": "laplace", "noise_multiplier": 2.0}),
    ({"kind": "approximate", "epsilon": 0.5, "delta": 1e-9}, {"kind": "pure", "epsilon": 0.5}),
]


@pytest.mark.parametrize(("dearer", "cheaper"), LEAVES, ids=lambda leaf: leaf["kind"])
def test_a_leaf_that_admits_another_covers_it(dearer: Node, cheaper: Node) -> None:
    """In both engines: a repeated choice between the two is one case, the other way about it is not."""
    plan = parse_plan({"kind": "repeat", "count": 100, "of": {"kind": "parallel", "parts": [cheaper, dearer]}})
    assert len(cases_of(plan, "zero-out").upper) == 1
    assert len(read(plan, "zero-out").upper) == 1
    name, value = next((k, v) for k, v in dearer.items() if k in ("rho", "epsilon"))
    less = {**dearer, name: value * 0.999}
    plan = parse_plan({"kind": "repeat", "count": 3, "of": {"kind": "parallel", "parts": [cheaper, less]}})
    assert len(cases_of(plan, "zero-out").upper) == 4
    assert len(read(plan, "zero-out").upper) == 4


def test_a_case_that_fails_too_often_settles_the_plan() -> None:
    """δ spent by one choice alone: ε is infinite, whatever the 67 others cost."""
    parts = [
        {"kind": "laplace", "noise_multiplier": 0.2},
        {"kind": "approximate", "epsilon": 0.06, "delta": 4.7e-7},
    ]
    plan = {"kind": "repeat", "count": 67, "of": {"kind": "parallel", "parts": parts}}
    found = bound(plan, relation="add-remove", delta=9e-7)
    again = recompute(plan, relation="add-remove", delta=9e-7)
    assert (found.epsilon_lower, found.epsilon_upper) == (math.inf, math.inf)
    assert (again.epsilon_lower, again.epsilon_upper) == (math.inf, math.inf)


def test_a_case_that_is_reached_and_bounds_nothing_does_not_settle_the_plan_alone() -> None:
    """The likeliest to fail here only counts below; the others were once skipped for it, and nothing was left above."""
    sample = {"kind": "subsample", "scheme": "without-replacement"}
    failing = {"kind": "approximate", "epsilon": 0.249, "delta": 2.25e-4}
    rare = {"kind": "subsample", "scheme": "poisson", "rate": 0.0509, "of": failing}
    other = {**sample, "population": 3793, "sample": 756, "of": {"kind": "exponential", "range": 2.77}}
    parts = [{**sample, "population": 451, "sample": 367, "of": rare}, {"kind": "repeat", "count": 7, "of": other}]
    found = bound({"kind": "parallel", "parts": parts}, relation="zero-out", delta=7.46e-9)
    assert found.epsilon_lower == found.epsilon_upper == math.inf


@settings(max_examples=200, deadline=None)
@given(st.lists(composed, max_size=12))
def test_few_comparisons_drop_what_all_would(nodes: list[Node]) -> None:
    """Counting mechanisms first leaves out comparisons, never a case: against every pair, one after the other."""
    plans = list(dict.fromkeys(map(parse_plan, nodes)))
    kept: list[Any] = []
    for plan in plans:
        if not any(covers(other, plan) for other in kept):
            kept = [other for other in kept if not covers(plan, other)] + [plan]
    assert undominated(plans) == kept


def test_hundreds_of_unlike_cases_are_hardly_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """120 ways to write 14 as a sum of three counts: 7,140 comparisons before."""
    asked = []
    compared = dominance._covers
    monkeypatch.setattr(dominance, "_covers", lambda a, b: asked.append(a) or compared(a, b))
    parts = [
        {"kind": "gaussian", "noise_multiplier": 6.6},
        {"kind": "zcdp", "rho": 0.001},
        {"kind": "pure", "epsilon": 0.2},
    ]
    node = {"kind": "repeat", "count": 14, "of": {"kind": "parallel", "parts": parts}}
    assert len(cases_of(parse_plan(node), "zero-out").upper) == 120
    assert len(asked) <= 120
