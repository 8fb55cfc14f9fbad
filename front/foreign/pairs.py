"""Which neighbours to try: what goes by position, length or label is seen only where such a record changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from affidavit.accountant.errors import DataError
from affidavit.accountant.validate import Relation
from affidavit.generation.dataset import Record

__all__ = ["PHRASE", "Pair", "pairs"]

PHRASE = "quartz heron 7391 vellum orbit 2048 tansy"
"""Stands in a changed record, where nobody would write it."""


@dataclass(frozen=True, slots=True)
class Pair:
    """``what``: which record differs. ``changed``: its id, ``secrets``: passages of it that nobody else has."""

    what: str
    before: tuple[Record, ...]
    after: tuple[Record, ...]
    changed: str
    secrets: tuple[str, ...] = ()


def pairs(records: Sequence[Record], *, relation: Relation) -> Iterator[Pair]:
    """First, middle and last, the longest, the shortest, and one of the rarest label.

    Under add-remove it is removed, under zero-out emptied, under substitution replaced: by one of another length, or of
    another label. Raises ``DataError`` for fewer than three records.
    """
    if len(records) < 3:
        raise DataError("fewer than three records", hint="A first, a middle and a last one are the least.")
    lengths = [len(record.text) for record in records]
    labels = Counter(record.label for record in records)
    for what, place in (("first", 0), ("middle", len(records) // 2), ("last", len(records) - 1)):
        marked = replace(records[place], text=f"{records[place].text} {PHRASE}")
        yield _pair(f"the {what} record", records, place, relation, marked=marked)
    yield _pair("the longest record", records, lengths.index(max(lengths)), relation)
    yield _pair("the shortest record", records, lengths.index(min(lengths)), relation)
    if len(labels) > 1:
        rare = min(labels, key=lambda label: labels[label])
        last = max(place for place, record in enumerate(records) if record.label == rare)
        yield _pair("a record of the rarest label", records, last, relation, relabelled=True)


def _pair(
    what: str,
    records: Sequence[Record],
    place: int,
    relation: Relation,
    *,
    marked: Record | None = None,
    relabelled: bool = False,
) -> Pair:
    mine, front, behind = marked or records[place], tuple(records[:place]), tuple(records[place + 1 :])
    secrets = () if marked is None else (PHRASE,)
    before = (*front, mine, *behind)
    if relation == "add-remove":
        return Pair(f"without {what}", before, (*front, *behind), mine.id, secrets)
    if relation == "zero-out":
        return Pair(f"{what} emptied", before, (*front, replace(mine, text=""), *behind), mine.id, secrets)
    others = [record.label for record in records if record.label != mine.label]
    text = "a word" if len(mine.text) > 100 else f"{mine.text} and so on" * 4
    other = replace(mine, text=text, label=others[0] if relabelled and others else mine.label)
    return Pair(f"{what} replaced", before, (*front, other, *behind), mine.id, secrets)
