"""Rows to records: every value becomes text by one rule, and what was found is said.

The rule. Text stays as it is. A number is written in decimal digits (2.0 as 2); true and false are those words; a whole
number for which the file's own metadata have a word becomes that word. Nothing, blanks and NaN are missing values. A
list or a table within a cell is no value. A row that is broken, or misses its text or label, makes the file refused,
unless it is to be dropped. Ids are kept if every record has one of its own, else all are random.
"""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from affidavit.accountant.errors import TableUnclear, Way
from affidavit.generation.dataset import Record
from affidavit.tables.columns import Chosen
from affidavit.tables.table import places

__all__ = ["Curated", "curate"]


_OTHER_COLUMNS = "Name the columns that hold them, by name or number, with --text-column and --label-column."


@dataclass(frozen=True, slots=True)
class Curated:
    """The records of a file, and lines about it for the operator, without anything that stands in it.

    ``changed``: whether the records differ from what stands there (rows were dropped, values rewritten, ids made).
    """

    records: tuple[Record, ...] = field(repr=False)
    said: tuple[str, ...]
    changed: bool

    @property
    def labels(self) -> tuple[str, ...]:
        """The different labels: private until they are declared public."""
        return tuple(sorted({record.label for record in self.records}))


@dataclass(slots=True)
class _Counts:
    """What happened to values on the way."""

    rewritten: Counter[str] = field(default_factory=Counter)
    named: int = 0

    def text(self, value: Any, role: str, words: tuple[str, ...] | None) -> str | None:
        """A cell as text; None for a missing value. Raises ``ValueError`` for what is no single value."""
        match value:
            case None:
                return None
            case str():
                return (
                    value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace") if value.strip() else None
                )
            case bool():
                found = "true" if value else "false"
            case int() if words is not None and 0 <= value < len(words):
                self.named += 1
                return words[value]
            case int():
                found = str(value)
            case float() if math.isnan(value):
                return None
            case float():
                found = str(int(value)) if value.is_integer() else repr(value)
            case _:
                raise ValueError("no single value")
        self.rewritten[role] += 1
        return found


def curate(chosen: Chosen, *, drop_incomplete: bool = False) -> Curated:
    """The records of a table. Raises ``TableUnclear`` naming lines and columns where rows are not whole."""
    table, counts = chosen.table, _Counts()
    words = None if chosen.label is None else table.value_names.get(chosen.label)
    faults: dict[str, list[int]] = {}
    if table.broken:
        faults["broken: another number of cells, or no record at all"] = list(table.broken)
    whole: list[tuple[str | None, str, str]] = []
    for row in table.rows:
        text, fault = _cell(row.cells[chosen.text], "text", counts, None)
        label, other = (
            (chosen.one_label, "") if chosen.label is None else _cell(row.cells[chosen.label], "label", counts, words)
        )
        identity, _ = (None, "") if chosen.id is None else _cell(row.cells[chosen.id], "id", counts, None)
        if text is None or label is None:
            faults.setdefault(fault or other, []).append(row.place)
        else:
            whole.append((identity, text, label))
    if faults and not drop_incomplete:
        raise _incomplete(chosen, faults, len(whole))
    if not whole:
        raise TableUnclear(f"{table.path} holds no records with a text and a label", hint=_OTHER_COLUMNS)
    ids = [identity for identity, _, _ in whole]
    own = None not in ids and len(set(ids)) == len(ids)
    if chosen.id is not None and not own and "id" in chosen.given:
        raise TableUnclear(
            f"{table.path}: {chosen.shown('id')} does not hold an id of its own for every record: "
            f"{ids.count(None):,} are missing, {len(ids) - ids.count(None) - len(set(ids) - {None}):,} repeat another",
            hint="Remove `--id-column`: every record then gets a random id that is kept.",
        )
    records = tuple(
        Record(identity if own and identity is not None else secrets.token_hex(8), text, label)
        for identity, text, label in whole
    )
    said = tuple(_said(chosen, counts, faults, records, own=own))
    return Curated(
        records, said, changed=bool(faults or counts.rewritten or counts.named or not own or table.empty_lines)
    )


def _cell(value: Any, role: str, counts: _Counts, words: tuple[str, ...] | None) -> tuple[str | None, str]:
    try:
        found = counts.text(value, role, words)
    except ValueError:
        return None, f"with a list or a table for the {role}"
    return found, "" if found is not None else f"without a {role}"


def _incomplete(chosen: Chosen, faults: dict[str, list[int]], left: int) -> TableUnclear:
    table = chosen.table
    listed = "; ".join(f"{len(found):,} {fault} ({places(table.place_word, found)})" for fault, found in faults.items())
    ways = (Way(f"To leave them out and keep {left:,} records", ("--drop-incomplete",)),) if left else ()
    return TableUnclear(
        f"{table.path}: records are not whole: {listed}", ways=ways, hint="" if ways else _OTHER_COLUMNS
    )


def _said(
    chosen: Chosen, counts: _Counts, faults: dict[str, list[int]], records: tuple[Record, ...], *, own: bool
) -> Iterator[str]:
    table = chosen.table
    yield f"{table.path}: {table.how}."
    label = "every label is the one given" if chosen.label is None else f"the label {chosen.shown('label')}"
    ids = f"the id {chosen.shown('id')}" if own and chosen.id is not None else "ids are random, and kept from now on"
    yield f"The text is {chosen.shown('text')}, {label}; {ids}."
    if chosen.id is not None and not own:
        yield f"{chosen.shown('id').capitalize()} is not the id: it is missing or repeated in some records."
    used = {chosen.text, chosen.label, chosen.id if own else None}
    if unused := [place + 1 for place in range(table.width) if place not in used]:
        yield f"Not used: {places('column', unused)}."
    if table.names is not None:
        named = Counter(name.casefold() for name in table.names if name)
        if alike := sum(count for count in named.values() if count > 1):
            yield f"{alike} columns share a name with another."
    if table.repeated_keys:
        yield f"In {table.repeated_keys:,} records a key stands twice; the last value counts."
    if table.empty_lines > 0:
        yield f"Empty lines left out: {table.empty_lines:,}."
    for fault, found in faults.items():
        yield f"Dropped, as asked: {len(found):,} {fault} ({places(table.place_word, found)})."
    if counts.named:
        yield f"{counts.named:,} labels are numbers; the file's own metadata name them."
    for role, count in counts.rewritten.items():
        yield f"{count:,} values of the {role} are numbers or true and false; they are kept as text."
    texts = Counter(record.text for record in records)
    if repeated := [count for count in texts.values() if count > 1]:
        yield (
            f"{sum(repeated):,} records have a text that another has too ({len(repeated):,} different): whoever is "
            "behind several records is protected for one of them only."
        )
    labels = len({record.label for record in records})
    yield f"{len(records):,} records, {labels:,} different label{'' if labels == 1 else 's'}."
