"""Whether rows of a batch stay apart: what every proof of sensitivity rests on, tried where it is used.

No theorem says that a kernel computes a row from that row alone: with other threads, another mask or a mixture of
experts, one row's change moved the bits of the others. So before a private row is computed, made-up rows are, in
batches of the very shape that will run, for as many steps. One row is swapped, dropped, lengthened, all change their
places, and the same input is given twice; every row that was not changed must come out bit for bit as before. That is
evidence, not a proof: what it covers is stated (``RowEvidence``), and receipts repeat it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from affidavit.generation.models.base import Decoding, Logits

__all__ = ["BatchShape", "OneByOne", "RowEvidence", "rows_stay_apart", "summary"]

Start: TypeAlias = "Callable[[Sequence[Sequence[int]], int], Decoding]"
"""Prefill of rows, padded to a width."""

_FEW = 3
"""Steps for which the changes of a single row are tried; the change of every second row, and of all places, is
tried at every step."""
_SHORTER, _LONGER = 1, 2


@dataclass(frozen=True, slots=True, order=True)
class BatchShape:
    """``rows`` padded to ``width`` tokens, whose logits are read ``steps`` times; all of it is public."""

    rows: int
    width: int
    steps: int

    def covers(self, other: BatchShape) -> bool:
        """Whether what was tried in this shape was tried in the other: the same batch, at least as far."""
        return (self.rows, self.width) == (other.rows, other.width) and self.steps >= other.steps


@dataclass(frozen=True, slots=True)
class RowEvidence:
    """Rows of ``shape`` stayed apart where and as they were ``computed``: dtype, device, threads."""

    shape: BatchShape
    computed: str


def summary(evidence: Iterable[RowEvidence]) -> str:
    """One line for receipts: the shapes, and where and how each of them was computed."""
    by_place: dict[str, set[BatchShape]] = {}
    for each in evidence:
        by_place.setdefault(each.computed, set()).add(each.shape)
    return "; ".join(
        f"apart bit for bit in {', '.join(f'{each.rows} x {each.width} x {each.steps}' for each in sorted(shapes))} "
        f"(rows x tokens x steps), {computed}"
        for computed, shapes in by_place.items()
    )


def rows_stay_apart(start: Start, shape: BatchShape, *, vocabulary: int) -> bool:
    """Whether every row keeps its bits while others change, in batches of ``shape``. See the module.

    Six batches are read, two of them to the last step.
    """
    width, few = shape.width, min(_FEW, shape.steps)
    full = [_Row(number, width) for number in range(shape.rows)]
    mixed = [_Row(number, 1 + (7 * number + 5) % width if number % 3 else width) for number in range(shape.rows)]
    every = [row.other(width, number // 2) if number % 2 else row for number, row in enumerate(mixed)]
    place = min(1, shape.rows - 1)
    longer = [*mixed[:place], mixed[place].other(width, _LONGER), *mixed[place + 1 :]]

    def read(rows: list[_Row], *, steps: int) -> Iterator[Logits]:
        return _outcomes(start, rows, width, vocabulary, steps=steps)

    # Where every row is full, nothing is padded: a shorter one must not change the kernel of the others.
    shorter = [*full[:-1], full[-1].other(width, _SHORTER)]
    if not _kept(full, read(full, steps=few), shorter, read(shorter, steps=few)):
        return False
    base = read(mixed, steps=shape.steps)
    begun = list(islice(base, few))
    return (
        _kept(mixed, begun, mixed, read(mixed, steps=few))
        and _kept(mixed, begun, longer, read(longer, steps=few))
        and _kept(mixed, chain(begun, base), every[::-1], read(every[::-1], steps=shape.steps))
    )


def _kept(before: list[_Row], one: Iterable[Logits], after: list[_Row], other: Iterable[Logits]) -> bool:
    """Whether the rows that both batches hold come out alike at every step, wherever they stand."""
    pairs = [(number, after.index(row)) for number, row in enumerate(before) if row in after]
    here, there = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return all(
        np.array_equal(_bits(first[here]), _bits(second[there])) for first, second in zip(one, other, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """A made-up row: its tokens, and those appended to it, follow from its number, its length and its ``kind``."""

    number: int
    length: int
    kind: int = 0

    def other(self, width: int, turn: int) -> _Row:
        """In its place, a row of other tokens: as long, as short as can be, or as long as can be."""
        return _Row(self.number, (self.length, 1, width)[turn % 3], 1)

    def token(self, place: int, vocabulary: int) -> int:
        return (104729 * place + 7919 * self.number + 31 * place * self.number + 7 * self.kind + 13) % vocabulary


def _outcomes(start: Start, rows: list[_Row], width: int, vocabulary: int, *, steps: int) -> Iterator[Logits]:
    decoding = start([[row.token(place, vocabulary) for place in range(row.length)] for row in rows], width)
    for step in range(steps):
        if step:
            decoding.append([row.token(width + step, vocabulary) for row in rows])
        yield decoding.logits


def _bits(values: Logits) -> NDArray[np.uint32]:
    """The values' bits: a NaN equals itself, and -0 is not 0."""
    return np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)


class OneByOne:
    """Prompts that grow together, each in a batch of its own."""

    def __init__(self, decodings: Sequence[Decoding]) -> None:
        self._decodings = decodings

    @property
    def logits(self) -> Logits:
        return np.concatenate([decoding.logits for decoding in self._decodings])

    def append(self, tokens: Sequence[int]) -> None:
        for decoding, token in zip(self._decodings, tokens, strict=True):
            decoding.append([token])
