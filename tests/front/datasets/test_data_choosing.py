"""Which candidates are taken: the numbers that are packaged, and the order by digest."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.datasets import catalogue
from affidavit.datasets.choosing import Record, by_hash, by_number, distinct, numbers

CHOSEN = [found for found in catalogue() if found.chosen is not None]

records = st.lists(
    st.builds(lambda text, label: {"text": text, "label": label}, st.text(max_size=3), st.sampled_from("abc")),
    unique_by=lambda record: (record["text"], record["label"]),
    min_size=1,
)


def _key(record: Record) -> tuple[str, str]:
    return record["text"], record["label"]


@given(
    candidates=records, train=st.integers(3, 30), test=st.integers(3, 30), balanced=st.booleans(), order=st.randoms()
)
def test_the_choice_is_of_the_records_alone(candidates, train, test, balanced, order) -> None:
    choose = by_hash(train, test, balanced=balanced)
    learnt, tested = choose(candidates)
    order.shuffle(candidates)
    assert choose(candidates) == (learnt, tested)
    chosen = [_key(record) for record in learnt + tested]
    assert len(set(chosen)) == len(chosen), "a record is in both, or twice"
    assert set(chosen) <= set(map(_key, candidates))
    assert len(learnt) <= train
    assert len(tested) <= test
    assert bool(tested) == (max(Counter(r["label"] if balanced else "" for r in candidates).values()) > 1)
    if not balanced and len(candidates) >= train + test:
        assert (len(learnt), len(tested)) == (train, test)
    if not balanced and len(candidates) < train + test:
        assert len(chosen) == len(candidates) or len(learnt) == train
    held, labels = Counter(r["label"] for r in candidates), {r["label"] for r in candidates}
    if balanced and min(held.values()) >= train // len(labels) + test // len(labels):
        assert set(Counter(r["label"] for r in learnt).values()) == {train // len(labels)}


@given(candidates=records, train=st.integers(1, 9), test=st.integers(1, 9))
def test_one_record_more_moves_at_most_one_out(candidates, train, test) -> None:
    """The order is by digest: what is chosen does not hang on how many there are, where there are enough."""
    if len(candidates) <= train + test:
        return
    choose = by_hash(train, test, balanced=False)
    before, after = (
        {_key(record) for part in choose(some) for record in part} for some in (candidates[1:], candidates)
    )
    assert len(before - after) <= 1


def test_the_choice_for_a_version_that_is_not_known_stays_what_it_is() -> None:
    """What this code gave when it was written: whoever changes the constant or the order changes everybody's files."""
    learnt, tested = by_hash(3, 2, balanced=False)([{"text": f"text {n}", "label": "a"} for n in range(10)])
    assert [record["text"] for record in learnt] == ["text 7", "text 8", "text 9"]
    assert [record["text"] for record in tested] == ["text 0", "text 3"]


@pytest.mark.parametrize("found", CHOSEN, ids=lambda found: found.name)
def test_the_packaged_numbers_are_distinct_and_as_many_as_the_catalogue_says(found) -> None:
    assert found.chosen is not None
    train, test = numbers(found.name)
    assert (len(train), len(test)) == (found.chosen.train, found.chosen.test)
    assert len({*train, *test}) == len(train) + len(test)
    assert min(*train, *test) >= 0
    learnt, tested = by_number(found.name)([{"n": n} for n in range(1 + max(*train, *test))])
    assert [record["n"] for record in learnt + tested] == [*train, *test]


@given(st.lists(st.integers(0, 9)))
def test_the_first_of_each_key_is_kept_in_its_place(values: list[int]) -> None:
    kept = distinct([{"value": value, "at": at} for at, value in enumerate(values)], lambda record: record["value"])
    assert [record["value"] for record in kept] == list(dict.fromkeys(values))
    assert all(values.index(record["value"]) == record["at"] for record in kept)
