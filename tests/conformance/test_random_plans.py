"""Random plans: what must hold of every plan, whatever it is made of."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from affidavit.accountant import decimals
from affidavit.accountant.attestation.statement import Claim
from affidavit.accountant.bound import Bound, bound
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.settle import settle
from affidavit.accountant.verifier import check_claim

Node = dict[str, Any]


def _log_uniform(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log(low), math.log(high)).map(math.exp)


gaussians = _log_uniform(0.3, 50.0).map(lambda s: {"kind": "gaussian", "noise_multiplier": s})
laplaces = _log_uniform(0.2, 50.0).map(lambda s: {"kind": "laplace", "noise_multiplier": s})
pures = _log_uniform(1e-3, 5.0).map(lambda e: {"kind": "pure", "epsilon": e})
approximates = st.builds(
    lambda e, d: {"kind": "approximate", "epsilon": e, "delta": d}, _log_uniform(1e-3, 5.0), _log_uniform(1e-12, 1e-3)
)
exponentials = _log_uniform(1e-3, 3.0).map(lambda e: {"kind": "exponential", "range": e})
concentrated = _log_uniform(1e-4, 2.0).map(lambda r: {"kind": "zcdp", "rho": r})
with_pair = st.one_of(gaussians, laplaces, pures)


@st.composite
def samples(draw: st.DrawFn) -> Node:
    of = draw(with_pair)
    if draw(st.booleans()):
        node = {"kind": "subsample", "scheme": "poisson", "rate": draw(_log_uniform(1e-3, 1.0)), "of": of}
        return {**node, "absent": draw(pures)} if of["kind"] == "pure" and draw(st.booleans()) else node
    population = draw(st.integers(2, 5000))
    sample = draw(st.integers(1, population))
    return {"kind": "subsample", "scheme": "without-replacement", "population": population, "sample": sample, "of": of}


def _inner(of: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.one_of(
        st.builds(lambda n, x: {"kind": "repeat", "count": n, "of": x}, st.integers(0, 60), of),
        st.builds(lambda parts: {"kind": "compose", "parts": parts}, st.lists(of, min_size=1, max_size=3)),
        st.builds(lambda parts: {"kind": "parallel", "parts": parts}, st.lists(of, min_size=1, max_size=2)),
    )


anything = st.recursive(st.one_of(with_pair, approximates, exponentials, concentrated, samples()), _inner, max_leaves=3)
single_pair = st.one_of(with_pair, samples())
relations = st.sampled_from(["add-remove", "zero-out", "substitution"])
deltas = _log_uniform(1e-30, 0.1)

# Shrinking a failure takes minutes here; the example that failed is printed and replayed as it is.
unshrunk = (Phase.explicit, Phase.reuse, Phase.generate)
quick = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), phases=unshrunk)
thorough = settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck), phases=unshrunk)


def bounded(plan: Node, relation: str, *, delta: float | None = None, **question: float) -> Bound:
    """The bound, or a rejected example where no theorem covers the plan."""
    try:
        return bound(plan, relation=relation, delta=delta, **question)  # type: ignore[arg-type]
    except NotSupported:
        assume(False)
        raise


def check_sides(plan: Node, relation: str, delta: float) -> None:
    """No NaN, lower <= upper, and the answer to the inverse question agrees."""
    found = bounded(plan, relation, delta=delta)
    assert not math.isnan(found.epsilon_lower)
    assert not math.isnan(found.epsilon_upper)
    assert 0.0 <= found.epsilon_lower <= found.epsilon_upper
    if math.isfinite(found.epsilon_upper) and found.epsilon_upper < 600.0:
        back = bounded(plan, relation, epsilon=found.epsilon_upper)
        assert 0.0 <= back.delta_lower <= back.delta_upper <= 1.0
        assert back.delta_lower <= delta * (1.0 + 1e-9)


def check_repeat(plan: Node, relation: str, delta: float, count: int) -> None:
    """Count n is n composes."""
    repeated = bounded({"kind": "repeat", "count": count, "of": plan}, relation, delta=delta)
    composed = bounded({"kind": "compose", "parts": [plan] * count}, relation, delta=delta)
    assert composed.epsilon_lower <= repeated.epsilon_upper * (1 + 1e-12) + 1e-12
    assert repeated.epsilon_lower <= composed.epsilon_upper * (1 + 1e-12) + 1e-12


def check_monotony(plan: Node, relation: str, delta: float, factor: float) -> None:
    """One more use never costs less, a larger δ never more."""
    once = bounded(plan, relation, delta=delta)
    twice = bounded({"kind": "compose", "parts": [plan, plan]}, relation, delta=delta)
    assert once.epsilon_lower <= twice.epsilon_upper * (1 + 1e-12) + 1e-12
    loose = bounded(plan, relation, delta=min(0.9, delta * factor))
    assert loose.epsilon_lower <= once.epsilon_upper * (1 + 1e-12) + 1e-12


def check_renyi(node: Node, relation: str, count: int, delta: float) -> None:
    """Numerical composition is at most a Rényi bound, up to the tolerance asked for; neither contradicts the other.

    But for sampling without replacement under substitution and zero-out, where the curve that dominates is
    reached by no pair of data sets and ``bound`` takes whichever theorem says less.
    """
    plan = {"kind": "repeat", "count": count, "of": node}
    try:
        renyi = bound(plan, relation=relation, delta=delta, method="rdp")
    except NotSupported:
        assume(False)
        raise
    best = bounded(plan, relation, delta=delta)
    assert best.epsilon_upper <= renyi.epsilon_upper * (1 + 1e-3) + 1e-6
    reached = bounded(plan, relation, delta=delta, explicit=True)
    assert reached.epsilon_lower <= renyi.epsilon_upper * (1 + 1e-9) + 1e-9


def check_methods(plan: Node, relation: str, delta: float) -> None:
    """No method's upper side may lie below what an explicit strategy reaches."""
    found = bounded(plan, relation, delta=delta, explicit=True)
    for row in found.methods:
        if row.applies:
            assert row.epsilon_upper >= found.epsilon_lower * (1 - 1e-9) - 1e-9, row.name


def check_settled(plan: Node, relation: str, delta: float) -> None:
    """What is shown is what is signed, to the last decimal, and what the verifier confirms; both engines agree."""
    written = decimals.as_written(delta, path="delta")
    delta = decimals.float_at_most(written)
    try:
        settled = settle(plan, relation=relation, delta=delta)  # type: ignore[arg-type]
    except NotSupported:
        assume(False)
        raise
    shown = bounded(plan, relation, delta=delta)
    assert shown.epsilon_lower <= settled.epsilon_upper
    assert settled.recomputed.epsilon_lower <= shown.epsilon_upper * (1 + 1e-9) + 1e-9
    assert settled.recomputed.epsilon_upper <= settled.epsilon_upper
    if math.isfinite(settled.epsilon_upper):
        claim = Claim.of(epsilon_upper=settled.epsilon_upper, delta=written)
        signed, at = decimals.float_at_most(claim.epsilon), decimals.float_at_most(claim.delta)
        assert check_claim(plan, relation=relation, epsilon=signed, delta=at).answer == "holds"


counts = st.integers(1, 3)
factors = st.floats(1.0, 30.0)
uses = st.integers(1, 80)
moderate = _log_uniform(1e-12, 0.05)


@quick
@given(anything, relations, deltas)
def test_sides(plan: Node, relation: str, delta: float) -> None:
    check_sides(plan, relation, delta)


@quick
@given(anything, relations, deltas, counts)
def test_repeat_is_compose(plan: Node, relation: str, delta: float, count: int) -> None:
    check_repeat(plan, relation, delta, count)


@quick
@given(anything, relations, deltas, factors)
def test_more_uses_and_smaller_deltas_cost_more(plan: Node, relation: str, delta: float, factor: float) -> None:
    check_monotony(plan, relation, delta, factor)


@quick
@given(single_pair, relations, uses, moderate)
def test_numerical_composition_is_below_renyi(node: Node, relation: str, count: int, delta: float) -> None:
    check_renyi(node, relation, count, delta)


@quick
@given(anything, relations, deltas)
def test_every_method_is_above_the_lower_side(plan: Node, relation: str, delta: float) -> None:
    check_methods(plan, relation, delta)


@pytest.mark.slow
@thorough
@given(anything, relations, deltas, counts, factors)
def test_two_thousand_plans(plan: Node, relation: str, delta: float, count: int, factor: float) -> None:
    check_sides(plan, relation, delta)
    check_repeat(plan, relation, delta, count)
    check_monotony(plan, relation, delta, factor)


@pytest.mark.slow
@thorough
@given(single_pair, relations, uses, moderate)
def test_two_thousand_plans_below_renyi(node: Node, relation: str, count: int, delta: float) -> None:
    check_renyi(node, relation, count, delta)


@settings(quick, max_examples=10)
@given(anything, relations, deltas)
def test_what_is_shown_is_signed_and_verified(plan: Node, relation: str, delta: float) -> None:
    check_settled(plan, relation, delta)


@pytest.mark.slow
@settings(thorough, max_examples=500)
@given(anything, relations, deltas)
def test_five_hundred_plans_are_shown_signed_and_verified(plan: Node, relation: str, delta: float) -> None:
    check_settled(plan, relation, delta)
