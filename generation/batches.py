"""Which record is in which batch, and how a batch becomes fixed-shape model input.

A record's batch is a function of that record alone: its label (none ``across_labels``), and
HMAC-SHA256(key, id) modulo the number of buckets, which is a public number. Not of its position in the file, of the
other records or of its text. So adding, removing or nulling a record changes one row of one batch and moves no other
record (filling batches one after another would: each removal pulls a later record in).

A batch runs in minibatches of a fixed number of rows and a fixed width; rows that no record fills are
public dummy rows of weight 0. How many minibatches run depends on the data; what a row computes does not.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from affidavit.generation.aggregate import Elsewhere, GridLogits, OnDevice, added, grid_bound
from affidavit.generation.models.base import Logits

if TYPE_CHECKING:
    import torch

    from affidavit.generation.aggregate import Added, Measure, Totals
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import Decoding, LanguageModel
    from affidavit.generation.prompts import PromptRows

__all__ = ["Batch", "Member", "PrivateRows", "assign"]


@dataclass(frozen=True, slots=True)
class Member:
    """A record in a batch, with its keyed digest (for the private trace)."""

    digest: str
    record: Record


@dataclass(frozen=True, slots=True)
class Batch:
    """All records of one label in one bucket; ``sample`` is the bucket's number."""

    label: str
    sample: int
    members: tuple[Member, ...]


def assign(
    records: Iterable[Record],
    *,
    labels: Sequence[str],
    samples_per_label: int,
    buckets: int,
    key: bytes,
    across_labels: bool = False,
) -> tuple[Batch, ...]:
    """The batches, label by label and bucket by bucket; members in the order of their keyed digests.

    Records with another label, or in a bucket beyond ``samples_per_label``, are in no batch. ``across_labels``: a
    record's label is not looked at, and its digest chooses among the buckets of all labels.
    """
    found: dict[tuple[str, int], list[Member]] = {
        (label, sample): [] for label in labels for sample in range(samples_per_label)
    }
    for record in records:
        digest = hmac.digest(key, record.id.encode("utf-8"), "sha256")
        number = int.from_bytes(digest[:16], "big")
        label = labels[number // buckets % len(labels)] if across_labels else record.label
        place = (label, number % buckets)
        if place in found:
            found[place].append(Member(digest.hex(), record))
    return tuple(
        Batch(label, sample, tuple(sorted(members, key=lambda member: member.digest)))
        for (label, sample), members in found.items()
    )


class PrivateRows:
    """The rows of one batch while they decode, for at most ``max_tokens`` tokens.

    ``truncated`` counts the records that were cut, ``summed`` the rows that were last summed, and ``unsound`` those of
    them whose logits were not finite: all for the private trace.
    """

    _early: tuple[Measure, list[Callable[[], Added]]] | None = None

    def __init__(
        self, model: LanguageModel, rows: PromptRows, texts: Sequence[str], *, minibatch_rows: int, max_tokens: int
    ) -> None:
        encoded = [model.encode(text) for text in texts]
        self.truncated = sum(len(tokens) > rows.max_record_tokens for tokens in encoded)
        self.summed = 0
        self._unsound: int | torch.Tensor = 0
        self._minibatch_rows = minibatch_rows
        self._parts: list[tuple[Decoding, int]] = []
        dummy = rows.row(())
        for first in range(0, len(encoded), minibatch_rows):
            chosen = [rows.row(tokens) for tokens in encoded[first : first + minibatch_rows]]
            filled = chosen + [dummy] * (minibatch_rows - len(chosen))
            decoding = model.start_apart(filled, width=rows.width, steps=max_tokens)
            self._parts.append((decoding, len(chosen)))

    def logits(self) -> Iterator[Logits]:
        """Unclipped next-token logits of the realised rows, one minibatch after another."""
        for decoding, realised in self._parts:
            yield decoding.logits[:realised]

    @property
    def decodings(self) -> tuple[tuple[Decoding, int], ...]:
        """The minibatches, and how many rows of each are realised."""
        return tuple(self._parts)

    @classmethod
    def holding(cls, parts: Iterable[tuple[Decoding, int]]) -> PrivateRows:
        """Minibatches that were started, and how many rows of each are realised."""
        rows = cls.__new__(cls)
        rows._parts = list(parts)
        return rows

    @property
    def unsound(self) -> int:
        """How many rows that were last summed contributed nothing."""
        return int(self._unsound)

    def total(self, measure: Measure, *, vocabulary: int, batch_size: int, clip: float) -> Totals | torch.Tensor:
        """The sum of what the realised rows contribute, held between ±s·C: exact, in any order.

        It stays where the rows are (``aggregate.brought`` fetches it); of no rows, on the processor.
        """
        bound = batch_size * grid_bound(clip)
        return self.added(measure, vocabulary=vocabulary).clip(-bound, bound)

    def added(self, measure: Measure, *, vocabulary: int) -> Totals | torch.Tensor:
        """The same, not held. Rows in several places are added up in each, all at once, and here the sums."""
        self.summed = 0
        self._unsound = 0
        early, self._early = self._early, None
        asked = early[1] if early is not None and early[0] is measure else self._asked(measure)
        if asked:
            found = [answer() for answer in asked]
            self.summed, self._unsound = sum(one.rows for one in found), sum(one.unsound for one in found)
            return added((one.total[None] for one in found), vocabulary=vocabulary)
        held = [(part.device_logits, realised) for part, realised in self._parts if isinstance(part, OnDevice)]
        if not held or len(held) < len(self._parts):
            return added(self._measured(measure), vocabulary=vocabulary)
        pairs = [measure.on_device(logits[:realised]) for logits, realised in held]
        self.summed = sum(len(grid) for grid, _ in pairs)
        self._unsound = cast("torch.Tensor", sum((~sound).sum() for _, sound in pairs))
        sums = [grid.long().sum(dim=0) for grid, _ in pairs]
        return sum(sums[1:], start=sums[0])

    def ahead(self, measure: Measure) -> None:
        """Ask workers now for what ``total`` is about to be asked for, of the same ``measure``."""
        self._early = measure, self._asked(measure)

    def _asked(self, measure: Measure) -> list[Callable[[], Added]]:
        """The answers that workers were asked for, each for what it has of the rows."""
        places: dict[object, list[tuple[Decoding, int]]] = {}
        for part, realised in self._parts:
            if isinstance(part, Elsewhere):
                places.setdefault(part.place, []).append((part, realised))
        return [cast("Elsewhere", parts[0][0]).adding(parts, measure) for parts in places.values()]

    def _measured(self, measure: Measure) -> Iterator[GridLogits]:
        """What each minibatch contributes, counted as it is summed: a row that is lost or comes twice is seen."""
        unsound = 0
        for logits in self.logits():
            grid, sound = measure.on_host(logits)
            unsound += int((~sound).sum())
            self._unsound = unsound
            self.summed += len(grid)
            yield grid

    def append(self, token: int) -> None:
        """The same next token for every row."""
        for decoding, _ in self._parts:
            decoding.append([token] * self._minibatch_rows)
