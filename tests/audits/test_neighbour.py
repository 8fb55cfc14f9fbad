"""The neighbour test on small observations: what counts as moved, and from where on nothing is compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from affidavit.accountant.errors import UsageError
from affidavit.audits.checks import CheckReport
from affidavit.audits.neighbour import Observed, Step, combine, neighbour_test


def _test(before: Observed, after: Observed, **options: Any) -> CheckReport:
    return neighbour_test(lambda which, _seed: before if which == "D" else after, "D", "D'", seeds=(1,), **options)


def _found(report: CheckReport) -> set[str]:
    return {check.name for check in report.faults}


def _steps(*outputs: object, **more: Any) -> tuple[Step, ...]:
    return tuple(Step(f"token {n}", output=output, **more) for n, output in enumerate(outputs))


def test_equal_runs_are_consistent_where_they_show_something():
    observed = Observed(
        facts={"labels": ("a", "b")},
        steps=_steps(1, 2, support=9, members=frozenset("xy"), rows={"x": 1}),
        computed={"row": {"d"}},
        texts=("hello",),
    )
    report = _test(observed, observed, secrets=("a phrase that nobody writes",))
    assert {check.name: check.status for check in report.checks} == {
        "public facts": "consistent",
        "support": "consistent",
        "stopping": "consistent",
        "other records' places": "consistent",
        "other records' rows": "consistent",
        "public rows": "not checked",
        "raw text": "consistent",
    }
    assert report.exit_code == 0


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        (Observed(facts={"labels": "ab"}), Observed(facts={"labels": "a"}), "public facts"),
        (Observed(facts={"clip": 1.0}), Observed(), "public facts"),
        (Observed(steps=_steps(1, support=9)), Observed(steps=_steps(1, support=8)), "support"),
        (Observed(steps=_steps(1, support=9)), Observed(steps=_steps(1)), "support"),
        (Observed(steps=_steps(1, 2)), Observed(steps=_steps(1)), "stopping"),
        (Observed(steps=()), Observed(steps=_steps(1)), "stopping"),
        (Observed(steps=_steps(1)), Observed(steps=(Step("another place", output=1),)), "stopping"),
        (
            Observed(steps=_steps(1, members=frozenset("abr"))),
            Observed(steps=_steps(1, members=frozenset("ac"))),
            "other records' places",
        ),
        (
            Observed(steps=_steps(1, rows={"a": 1, "r": 5})),
            Observed(steps=_steps(1, rows={"a": 2, "r": 6})),
            "other records' rows",
        ),
        (Observed(computed={"row": {"d"}}), Observed(computed={"row": {"e"}}), "other records' rows"),
        (Observed(public={"row": {"d"}}), Observed(public={"row": {"e"}}), "public rows"),
    ],
)
def test_each_difference_is_found(before, after, name):
    assert _found(_test(before, after, changed=("r",))) == {name}


def test_the_changed_record_may_differ():
    before = Observed(steps=_steps(1, members=frozenset("ar"), rows={"a": 1, "r": 5}))
    after = Observed(steps=_steps(1, members=frozenset("a"), rows={"a": 1, "r": 6}))
    assert not _test(before, after, changed=("r",)).faults


def test_keyed_names_count_as_changed_if_they_are_in_one_run_only():
    before = Observed(steps=_steps(1, members=frozenset(["h1", "h2"])))
    assert not _test(before, Observed(steps=_steps(1, members=frozenset(["h1", "h9"])))).faults, "replaced"
    assert not _test(before, Observed(steps=_steps(1, members=frozenset(["h1"])))).faults, "removed"
    moved = Observed(steps=(Step("token 0", output=1, members=frozenset(["h1"])), *_steps(1)))
    both = Observed(steps=(Step("token 0", output=1, members=frozenset(["h1", "h2"])), *_steps(1)))
    assert not _test(both, moved).faults
    lost = Observed(steps=_steps(1, members=frozenset(["h8", "h9"])))
    assert _found(_test(before, lost)) == {"other records' places"}, "two came and two went: one record cannot do that"


def test_after_an_output_differs_its_stream_is_not_compared_and_others_are():
    before = Observed(steps=(*_steps(1, 2, 3, support=9, stream="a"), *_steps(7, support=4, stream="b")))
    after = Observed(steps=(*_steps(1, 5, support=9, stream="a"), *_steps(7, support=4, stream="b")))
    report = _test(before, after)
    assert not report.faults
    assert {check.name: check.seen for check in report.checks}["support"] == 3
    changed = Observed(steps=(*_steps(1, 5, support=9, stream="a"), *_steps(7, support=3, stream="b")))
    assert _found(_test(before, changed)) == {"support"}


def test_a_row_may_be_asked_once_more_in_another_place_but_must_agree_somewhere():
    alone, both = Observed(computed={"row": {"a"}}), Observed(computed={"row": {"a", "b"}})
    assert not _test(alone, both).faults
    assert _found(_test(alone, Observed(computed={"row": {"b"}}))) == {"other records' rows"}


def test_raw_text_is_found_and_not_repeated():
    secret = "quartz heron vellum orbit"
    report = _test(Observed(texts=("fine", f"see: {secret}.")), Observed(texts=("fine",)), secrets=(secret,))
    assert _found(report) == {"raw text"}
    assert secret not in str(report.to_dict())
    with pytest.raises(UsageError, match="fewer than 12"):
        _test(Observed(), Observed(), secrets=("short",))


def test_every_seed_is_run_and_the_first_difference_named():
    seen: list[int] = []

    def run(which: str, seed: int) -> Observed:
        seen.append(seed)
        return Observed(facts={"n": 2 if which == "D" or seed < 5 else 3})

    report = neighbour_test(run, "D", "D'", seeds=(4, 5, 6))
    assert seen == [4, 4, 5, 5, 6, 6]
    assert report.faults[0].detail.startswith("seed 5")


def test_combined_reports_keep_every_fault():
    good = _test(Observed(facts={"a": 1}), Observed(facts={"a": 1}))
    bad = _test(Observed(facts={"a": 1}), Observed(facts={"a": 2}))
    assert _found(combine([good, bad, good])) == {"public facts"}
    assert combine([good, good]).about("public facts")[0].seen == 2
    with pytest.raises(UsageError):
        combine([])


def test_what_was_never_shown_is_not_checked():
    run: Callable[[str, int], Observed] = lambda _which, _seed: Observed()  # noqa: E731
    report = neighbour_test(run, "D", "D'")
    assert {check.status for check in report.checks} == {"not checked"}
    assert report.exit_code == 5


def test_a_run_that_fails_on_one_neighbour_only_is_a_fault():
    def run(records: tuple[str, ...], _seed: int) -> Observed:
        if len(records) < 3:
            raise ValueError(f"too few: {records}")
        return Observed()

    report = neighbour_test(run, ("a", "b", "c"), ("a", "b"))
    (crash,) = report.faults
    assert (crash.name, crash.slug) == ("crash", "private-support")
    assert crash.detail == "seed 0: ValueError on one neighbour, not on the other"
    with pytest.raises(ValueError, match="too few"):
        neighbour_test(run, ("a",), ("b",))


def test_one_other_record_may_take_the_place_of_the_changed_one():
    def sampled(*members: str, exchange: bool = True) -> Observed:
        return Observed(steps=(Step("sample", members=frozenset(members), exchange=exchange),))

    assert not _test(sampled("a", "r1"), sampled("a", "b"), changed=["r1"]).faults
    assert _found(_test(sampled("a", "r1"), sampled("a", "b", exchange=False), changed=["r1"]))
    assert _found(_test(sampled("a", "c", "r1"), sampled("a", "b", "d"), changed=["r1"])), "two others came"
    assert _found(_test(sampled("a", "c"), sampled("a", "b"), changed=["r1"])), "the changed one was in neither"
