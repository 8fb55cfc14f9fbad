from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.errors import PermitViolation
from affidavit.accountant.plan import Compose, Leaf, Parallel, Plan, Repeat, leaves, parse_plan
from affidavit.accountant.release.order import Order

A: dict[str, Any] = {"kind": "pure", "epsilon": 0.1}
B: dict[str, Any] = {"kind": "gaussian", "noise_multiplier": 2}


def compose(*parts: Any) -> dict[str, Any]:
    return {"kind": "compose", "parts": list(parts)}


def parallel(*parts: Any) -> dict[str, Any]:
    return {"kind": "parallel", "parts": list(parts)}


def repeat(count: int, of: Any) -> dict[str, Any]:
    return {"kind": "repeat", "count": count, "of": of}


def order(plan: Any) -> Order:
    return Order(parse_plan(plan))


def refused(ordered: Order, path: str, match: str | None = None) -> None:
    with pytest.raises(PermitViolation, match=match) as refusal:
        ordered.use(path)
    assert "affidavit certify" in refusal.value.hint
    assert refusal.value.exit_code == 4


def test_a_leaf_is_used_once_and_returned() -> None:
    ordered = order(A)
    assert ordered.use("plan") == parse_plan(A)
    refused(ordered, "plan", "one use too many")


def test_a_repeat_counts() -> None:
    ordered = order(repeat(3, A))
    for _ in range(3):
        ordered.use("plan.of")
    refused(ordered, "plan.of", "one use too many")


def test_a_trillion_uses_cost_no_memory_and_are_not_expanded() -> None:
    ordered = order(repeat(10**6, compose(repeat(10**6, A), B)))
    started = time.thread_time()
    for _ in range(2000):
        ordered.use("plan.of.parts[0].of")
    assert time.thread_time() - started < 1.0
    refused(ordered, "plan.of.parts[1]", "not finished")
    ordered.finish("plan.of.parts[0]")
    ordered.use("plan.of.parts[1]")
    ordered.use("plan.of.parts[0].of")


def test_a_compose_runs_in_order() -> None:
    ordered = order(compose(A, B))
    refused(ordered, "plan.parts[1]", r"part 0 .* comes first")
    ordered.use("plan.parts[0]")
    refused(ordered, "plan.parts[0]", "moved past it")
    ordered.use("plan.parts[1]")
    refused(ordered, "plan.parts[1]", "too many")


def test_a_repeat_of_a_compose_runs_round_by_round() -> None:
    ordered = order(repeat(2, compose(A, B)))
    ordered.use("plan.of.parts[0]")
    refused(ordered, "plan.of.parts[0]")
    ordered.use("plan.of.parts[1]")
    refused(ordered, "plan.of.parts[1]")
    ordered.use("plan.of.parts[0]")
    ordered.use("plan.of.parts[1]")
    refused(ordered, "plan.of.parts[0]", "too many")


def test_parallel_parts_interleave_but_keep_their_own_order() -> None:
    ordered = order(parallel(compose(A, B), repeat(2, B)))
    ordered.use("plan.parts[1].of")
    refused(ordered, "plan.parts[0].parts[1]")
    ordered.use("plan.parts[0].parts[0]")
    ordered.use("plan.parts[1].of")
    refused(ordered, "plan.parts[1].of")
    ordered.use("plan.parts[0].parts[1]")
    refused(ordered, "plan.parts[0].parts[1]")


def test_parallel_parts_whose_order_matters_keep_the_declared_one() -> None:
    """A replaced record may meet two parts; with unlike ranges the order changes what they cost together."""
    soft, softer = {"kind": "exponential", "range": 0.5}, {"kind": "exponential", "range": 0.25}
    with pytest.raises(PermitViolation, match="out of order"):
        order(parallel(soft, softer)).use("plan.parts[1]")
    order(parallel(soft, soft)).use("plan.parts[1]")


def test_what_follows_a_parallel_waits_for_all_its_parts() -> None:
    ordered = order(compose(parallel(A, A), B))
    ordered.use("plan.parts[0].parts[1]")
    refused(ordered, "plan.parts[1]", "not finished")
    ordered.use("plan.parts[0].parts[0]")
    ordered.use("plan.parts[1]")


def test_a_subsample_counts_fresh_samples() -> None:
    inner = {"kind": "subsample", "scheme": "poisson", "rate": 0.1, "of": repeat(2, A)}
    ordered = order(repeat(2, inner))
    for _ in range(4):
        ordered.use("plan.of.of.of")
    refused(ordered, "plan.of.of.of")


@pytest.mark.parametrize(
    "path", ["", "plan", "plan.of", "plan.parts[2]", "plan.parts[00]", "plan.parts[0].of", "plan.parts", 3]
)
def test_unknown_paths_are_refused(path: Any) -> None:
    refused(order(compose(A, B)), path, "not a mechanism")


def test_a_node_can_be_left_early_but_only_by_saying_so() -> None:
    ordered = order(compose(repeat(40, A), B))
    ordered.use("plan.parts[0].of")
    refused(ordered, "plan.parts[1]")
    ordered.finish("plan.parts[0]")
    refused(ordered, "plan.parts[0].of")
    ordered.use("plan.parts[1]")


def test_a_part_can_be_left_out_before_it_begins() -> None:
    ordered = order(compose(A, repeat(5, A), B))
    ordered.use("plan.parts[0]")
    ordered.finish("plan.parts[1]")
    ordered.use("plan.parts[2]")
    refused(ordered, "plan.parts[1].of")


def test_a_part_cannot_be_left_before_its_turn() -> None:
    ordered = order(compose(A, B))
    with pytest.raises(PermitViolation, match="comes first"):
        ordered.finish("plan.parts[1]")
    ordered.use("plan.parts[0]")


def test_leaving_a_round_begins_no_other() -> None:
    ordered = order(repeat(2, compose(A, B)))
    ordered.finish("plan.of")  # no round has begun: nothing to leave
    ordered.use("plan.of.parts[0]")
    ordered.finish("plan.of")
    ordered.finish("plan.of")  # twice is no fault, and costs no second round
    ordered.use("plan.of.parts[0]")
    ordered.use("plan.of.parts[1]")
    ordered.finish("plan.of.parts[1]")  # complete already
    refused(ordered, "plan.of.parts[0]", "too many")


def test_a_loop_that_ran_to_its_end_may_still_say_that_it_finished() -> None:
    ordered = order(repeat(2, compose(A, repeat(2, B))))
    for _ in range(2):
        ordered.use("plan.of.parts[0]")
        ordered.use("plan.of.parts[1].of")
        ordered.use("plan.of.parts[1].of")
        ordered.finish("plan.of.parts[1]")
    refused(ordered, "plan.of.parts[0]")


def test_leaving_parallel_parts_and_everything() -> None:
    ordered = order(compose(parallel(repeat(9, A), repeat(9, A)), B, B))
    ordered.use("plan.parts[0].parts[1].of")
    ordered.finish("plan.parts[0].parts[1]")
    ordered.finish("plan.parts[0].parts[1]")
    refused(ordered, "plan.parts[1]")
    ordered.finish("plan.parts[0].parts[0]")
    ordered.use("plan.parts[1]")
    ordered.finish("plan")
    refused(ordered, "plan.parts[2]")
    ordered.finish("plan.parts[2]")


@pytest.mark.parametrize("path", ["", "plan.of", "plan.parts[2]", "plan.parts[0].of", "plan.parts[0]x", "nonsense"])
def test_only_nodes_of_the_plan_can_be_left(path: str) -> None:
    with pytest.raises(PermitViolation, match="not a"):
        order(compose(A, B)).finish(path)


def test_empty_nodes_stand_in_nobodys_way() -> None:
    ordered = order(
        compose(repeat(0, A), compose(), repeat(10**12, compose()), repeat(2, compose(compose(), B)), compose())
    )
    refused(ordered, "plan.parts[0].of")
    ordered.use("plan.parts[3].of.parts[1]")
    ordered.use("plan.parts[3].of.parts[1]")
    refused(ordered, "plan.parts[3].of.parts[1]", "too many")
    refused(order(repeat(0, A)), "plan.of", "too many")
    order(compose(repeat(0, A), B)).finish("plan.parts[0]")


def test_a_refused_use_changes_nothing() -> None:
    ordered = order(repeat(1, compose(parallel(A, compose(A, B)), B)))
    for path in ("plan.of.parts[1]", "plan.of.parts[0].parts[1].parts[1]", "plan.of"):
        refused(ordered, path)
    for path in (
        "plan.of.parts[0].parts[1].parts[0]",
        "plan.of.parts[0].parts[1].parts[1]",
        "plan.of.parts[0].parts[0]",
        "plan.of.parts[1]",
    ):
        ordered.use(path)


# Against a specification that does expand: the set of all admissible orders of a small plan.


def expansions(plan: Plan, path: str = "plan") -> Iterator[tuple[str, ...]]:
    match plan:
        case Leaf():
            yield (path,)
        case Compose(parts=parts):
            yield from _rows([list(expansions(part, f"{path}.parts[{i}]")) for i, part in enumerate(parts)])
        case Repeat(count=count, of=of):
            yield from _rows([list(expansions(of, f"{path}.of"))] * count)
        case Parallel(parts=parts):
            for choice in itertools.product(
                *(list(expansions(part, f"{path}.parts[{i}]")) for i, part in enumerate(parts))
            ):
                yield from _shuffles(choice)


def _rows(children: list[list[tuple[str, ...]]]) -> Iterator[tuple[str, ...]]:
    for choice in itertools.product(*children):
        yield tuple(itertools.chain.from_iterable(choice))


def _shuffles(rows: tuple[tuple[str, ...], ...]) -> Iterator[tuple[str, ...]]:
    if not any(rows):
        yield ()
    for i, row in enumerate(rows):
        if row:
            for rest in _shuffles((*rows[:i], row[1:], *rows[i + 1 :])):
                yield (row[0], *rest)


SMALL_PLANS = st.recursive(
    st.just(A),
    lambda inner: st.one_of(
        st.builds(repeat, st.integers(0, 2), inner),
        st.lists(inner, max_size=2).map(lambda parts: compose(*parts)),
        st.lists(inner, min_size=1, max_size=2).map(lambda parts: parallel(*parts)),
    ),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None)
@given(SMALL_PLANS, st.data())
def test_exactly_the_prefixes_of_declared_orders_are_accepted(obj: dict[str, Any], data: st.DataObject) -> None:
    plan = parse_plan(obj)
    if sum(uses for *_, uses in leaves(plan)) > 6:
        return
    admitted = set(expansions(plan))
    prefixes = {whole[:length] for whole in admitted for length in range(len(whole) + 1)}
    ordered, done = Order(plan), ()
    while True:
        may_come = [path for path in ordered.paths if (*done, path) in prefixes]
        for path in ordered.paths:
            if path not in may_come:
                refused(ordered, path)
        if not may_come:
            break
        done = (*done, data.draw(st.sampled_from(may_come)))
        ordered.use(done[-1])
    assert done in admitted
