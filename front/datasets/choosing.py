"""Which candidates are taken, and into which of two files.

From an original whose digest is known the choice is a list of numbers (``rows/NAME.txt``): the records that the
published results were measured on. From another version numbers would mean nothing: candidates are then put in
the order of their SHA-256, behind a public constant, and the first ones of each label are taken. That order is
the same everywhere, depends on nothing but the records, and is as good as random.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

__all__ = ["Choose", "Record", "by_hash", "by_number", "distinct", "numbers"]

Record = dict[str, Any]
Choose = Callable[[Sequence[Record]], tuple[list[Record], list[Record]]]
"""Candidates in, the records for training and for testing out."""

CONSTANT = b"affidavit data 1\0"


def distinct(records: Iterable[Record], key: Callable[[Record], Hashable]) -> list[Record]:
    """The first record of each ``key``."""
    first: dict[Hashable, Record] = {}
    for record in records:
        first.setdefault(key(record), record)
    return list(first.values())


def by_number(name: str) -> Choose:
    """The candidates that ``rows/NAME.txt`` counts out."""

    def choose(candidates: Sequence[Record]) -> tuple[list[Record], list[Record]]:
        train, test = numbers(name)
        return [candidates[number] for number in train], [candidates[number] for number in test]

    return choose


def by_hash(train: int, test: int, *, balanced: bool) -> Choose:
    """In the order of their digests, the first ``test`` candidates for testing and the next ``train`` for training.

    ``balanced``: as many of each ``label`` as of any other. Where there are too few, the two files share them in the
    same proportion, and the second has at least one of two.
    """

    def choose(candidates: Sequence[Record]) -> tuple[list[Record], list[Record]]:
        groups: dict[str, list[Record]] = {}
        for record in sorted(candidates, key=_digest):
            groups.setdefault(record["label"] if balanced else "", []).append(record)
        first, second = train // max(1, len(groups)), test // max(1, len(groups))
        learnt: list[Record] = []
        tested: list[Record] = []
        for group in groups.values():
            held = min(second, max(len(group) * second // (first + second), len(group) > 1))
            tested += group[:held]
            learnt += group[held : held + first]
        return sorted(learnt, key=_digest), sorted(tested, key=_digest)

    return choose


@cache
def numbers(name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Positions of the candidates for training and for testing, counted from 0, in the order of the files."""
    text = files("affidavit.datasets").joinpath("rows", f"{name}.txt").read_text(encoding="ascii")
    _, _, lists = text.partition("train\n")
    train, _, test = lists.partition("test\n")
    return tuple(map(int, train.split())), tuple(map(int, test.split()))


def _digest(record: Record) -> bytes:
    canonical = json.dumps(record, sort_keys=True, ensure_ascii=True).encode("ascii")
    return hashlib.sha256(CONSTANT + canonical).digest()
