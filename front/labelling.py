"""How many records have each declared label: for the operator only.

A record with a label that was not declared contributes nothing, so a slip (``Ham`` for ``ham``) would spend a budget on
nothing. Counts are private: they are shown to whoever holds the data, on standard error, and stand in no artefact.
That no record at all has a declared label is refused, to the operator, before anything is signed or charged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from affidavit.accountant.errors import DataError
from affidavit.generation.dataset import Record, load_records
from affidavit.runfile import RunFile

__all__ = ["LabelCounts", "count_labels", "declared_labels", "label_counts", "refuse_unlabelled", "tell_labels"]

_FEW = 12


@dataclass(frozen=True, slots=True)
class LabelCounts:
    """Records by declared label. ``near``: those that differ from a label of the data in case or blanks only."""

    counts: tuple[tuple[str, int], ...]
    total: int
    near: tuple[str, ...]

    @property
    def labelled(self) -> int:
        """Records that have a declared label."""
        return sum(count for _, count in self.counts)

    @property
    def empty(self) -> tuple[str, ...]:
        """Declared labels that no record has."""
        return tuple(label for label, count in self.counts if count == 0)

    def lines(self) -> Iterator[str]:
        """For the operator, who holds the data: declared labels, which are public, with their private counts."""
        ranked = sorted(self.counts, key=lambda pair: pair[1])
        shown = list(self.counts) if len(ranked) <= _FEW else ranked[: _FEW // 2]
        listed = ", ".join(f"{label!r} {count:,}" for label, count in shown)
        if len(shown) < len(ranked):
            rest = ranked[len(shown) :]
            listed += f", {len(rest)} others {rest[0][1]:,} to {rest[-1][1]:,} each"
        yield f"Of {self.total:,} records {self.labelled:,} have a declared label (private, for you only): {listed}."
        if self.empty:
            yield (
                f"WARNING: 0 of {self.total:,} records have the label "
                f"{_listed(self.empty)}: texts with it would be written from no record." + self._near(self.empty)
            )

    def _near(self, labels: Sequence[str]) -> str:
        near = [label for label in labels if label in self.near]
        return f" Of these, {_listed(near)} differs from a label of the data only in case or blanks." if near else ""

    def refused(self) -> DataError:
        """That no record has a declared label."""
        return DataError(
            f"0 of {self.total:,} records have one of the declared labels ({len(self.counts)} of them): "
            "nothing would stand behind the texts." + self._near([label for label, _ in self.counts]),
            hint="Write the labels as the data do, letter by letter, in generator.labels; a label field of another "
            'name is told by `data.fields = {text = "text", label = "category"}`.',
        )


def _listed(labels: Sequence[str]) -> str:
    shown = ", ".join(repr(label) for label in labels[:_FEW])
    return shown if len(labels) <= _FEW else f"{shown} and {len(labels) - _FEW} more"


def count_labels(labels: Sequence[str], records: Sequence[Record]) -> LabelCounts:
    """The records of each of ``labels``."""
    found = Counter(record.label for record in records)
    missing = {label for label in labels if not found[label]}
    folded = {_folded(label) for label in found}
    near = tuple(label for label in labels if label in missing and _folded(label) in folded)
    return LabelCounts(tuple((label, found[label]) for label in labels), len(records), near)


def _folded(label: str) -> str:
    return "".join(label.split()).casefold()


def declared_labels(run: RunFile) -> tuple[str, ...] | None:
    """The labels by which a run chooses records; None where it does not choose them so."""
    labels: tuple[str, ...] | None = getattr(run.generator, "labels", None)
    return labels if getattr(run.generator, "match_label", True) else None


def label_counts(run: RunFile, records: Sequence[Record] | None = None) -> LabelCounts | None:
    """The counts of a run, of its file if no records are given. Raises ``DataError`` as reading them does."""
    labels = declared_labels(run)
    if labels is None:
        return None
    if records is None:
        records = load_records(run.data_path, size=run.data.size, fields=run.fields)
    return count_labels(labels, records)


def refuse_unlabelled(run: RunFile, records: Sequence[Record]) -> None:
    """Raises ``DataError``, to the operator only, where no record has a declared label."""
    found = label_counts(run, records)
    if found is not None and found.labelled == 0:
        raise found.refused()


def tell_labels(run: RunFile, records: Sequence[Record] | None, tell: Callable[[str], None] | None) -> None:
    """Say the counts, if there is somebody to be told and the run chooses by labels."""
    found = None if tell is None else label_counts(run, records)
    if found is not None and tell is not None:
        for line in found.lines():
            tell(line)
