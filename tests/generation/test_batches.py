"""Which record is in which batch."""

from __future__ import annotations

import random
from collections.abc import Sequence

from affidavit.generation.batches import Batch, assign
from affidavit.generation.dataset import Record

LABELS = ("World", "Sports")
KEY = b"k" * 32


def _records(count: int) -> list[Record]:
    return [Record(f"id-{i}", f"text {i}", LABELS[i % 2]) for i in range(count)]


def _assign(records: Sequence[Record], *, samples: int = 3, key: bytes = KEY) -> tuple[Batch, ...]:
    return assign(records, labels=LABELS, samples_per_label=samples, buckets=3, key=key)


def _ids(batches: Sequence[Batch]) -> list[list[str]]:
    return [[member.record.id for member in batch.members] for batch in batches]


def test_batches_are_disjoint_and_of_one_label() -> None:
    batches = _assign(_records(200))
    found = [record_id for ids in _ids(batches) for record_id in ids]
    assert len(found) == len(set(found)) == 200
    assert [(batch.label, batch.sample) for batch in batches] == [(label, j) for label in LABELS for j in range(3)]
    assert all(member.record.label == batch.label for batch in batches for member in batch.members)


def test_a_removed_record_moves_no_other() -> None:
    """Filling batches one after another would pull a later record in at every removal."""
    records = _records(60)
    full = _ids(_assign(records))
    for gone in records[::7]:
        without = _ids(_assign([record for record in records if record is not gone]))
        assert without == [[record_id for record_id in ids if record_id != gone.id] for ids in full]


def test_order_in_the_file_and_texts_do_not_matter() -> None:
    records = _records(60)
    shuffled = [Record(record.id, "other words", record.label) for record in records]
    random.Random(0).shuffle(shuffled)
    assert _ids(_assign(shuffled)) == _ids(_assign(records))


def test_another_key_gives_another_assignment_and_other_digests() -> None:
    records = _records(60)
    one, two = _assign(records), _assign(records, key=b"other")
    assert _ids(one) != _ids(two)
    digests = [{member.digest for batch in batches for member in batch.members} for batches in (one, two)]
    assert not digests[0] & digests[1]


def test_other_labels_and_later_buckets_contribute_nothing() -> None:
    records = _records(60)
    strangers = [Record(f"stranger-{i}", "text", "Weather") for i in range(20)]
    assert _ids(_assign(records + strangers)) == _ids(_assign(records))
    full = _ids(_assign(records))
    assert _ids(_assign(records, samples=1)) == [full[0], full[3]]


def test_across_labels_a_record_of_any_label_is_in_one_batch_and_a_removed_one_moves_no_other() -> None:
    def across(records: Sequence[Record]) -> list[list[str]]:
        return _ids(assign(records, labels=LABELS, samples_per_label=3, buckets=3, key=KEY, across_labels=True))

    records = [Record(f"id-{i}", "text", f"director {i}") for i in range(300)]
    full = across(records)
    assert sorted(one for ids in full for one in ids) == sorted(record.id for record in records)
    assert all(len(ids) > 20 for ids in full)  # 50 each, as far as chance has it
    relabelled = [Record(record.id, record.text, "another") for record in records]
    assert across(relabelled) == full
    without = across(records[1:])
    assert without == [[one for one in ids if one != "id-0"] for ids in full]
