"""Records as a run reads them: the operator's own file where it is one already, else a private file beside it.

The file is ``NAME.records.jsonl``, 0600. Its random ids are there to stay: a line number would change for every record
below a removed one, and batches may depend on nothing but the record. So where such a file of the same records is there
already, it is kept with its ids; one of other records is never written over.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from affidavit.accountant.errors import DataError, TableUnclear, Way
from affidavit.accountant.files import DATA_BYTES, read_bytes
from affidavit.generation.dataset import Fields, Record
from affidavit.records import parse_all
from affidavit.tables.columns import Chosen
from affidavit.tables.curation import Curated
from affidavit.writing import write_new

__all__ = ["RecordsFile", "beside", "records_file", "stem"]

_ENDING = ".records"


@dataclass(frozen=True, slots=True)
class RecordsFile:
    """The file that a run file names, the fields to read in it, and what to write there first (None: nothing)."""

    path: Path
    fields: Fields
    records: tuple[Record, ...] = field(repr=False)
    content: bytes | None = field(repr=False)

    def write(self) -> bool:
        """Write what is to be written, whole and for the owner only. Raises ``UsageError``; says whether it wrote."""
        if self.content is not None:
            write_new(self.path, self.content, private=True, flag="--records")
        return self.content is not None


def stem(path: Path) -> str:
    """A data file's name without its endings: that of the ledger account, if no other is given."""
    return path.stem.removesuffix(_ENDING)


def beside(chosen: Chosen) -> Path:
    """Where a table's records go, if nothing else is said."""
    path = chosen.table.path
    return path.with_name(f"{stem(path)}{_ENDING}.jsonl")


def records_file(chosen: Chosen, curated: Curated, *, target: Path | None = None) -> RecordsFile:
    """Where a run reads these records; nothing is written yet. Raises ``TableUnclear`` where others stand there."""
    path = chosen.table.path
    fields = None if target is not None else _in_place(chosen, curated)
    if fields is not None:
        return RecordsFile(path, fields, curated.records, None)
    target = target or beside(chosen)
    if target.exists():
        kept = _kept(target, curated.records)
        if kept is None or target.resolve() == path.resolve():
            other = _free(target)
            raise TableUnclear(
                f"{target} exists already and does not hold these records",
                ways=(Way("To keep it and write another", ("--records", str(other))),),
            )
        return RecordsFile(target, Fields(), kept, None)
    lines = (
        json.dumps({"id": one.id, "text": one.text, "label": one.label}, ensure_ascii=False) + "\n"
        for one in curated.records
    )
    return RecordsFile(target, Fields(), curated.records, "".join(lines).encode("utf-8"))


def _in_place(chosen: Chosen, curated: Curated) -> Fields | None:
    """The fields with which a run reads the file as it is; None where it has to be converted."""
    text, label = chosen.name("text"), chosen.name("label")
    if curated.changed or text is None or label is None:
        return None  # a run file is public: it names no field that nobody said
    fields = Fields(text, label)
    if max(len(fields.text), len(fields.label)) > 200:
        return None
    try:
        found = parse_all(read_bytes(chosen.table.path, most=DATA_BYTES), fields=fields)
    except (DataError, OSError):
        return None
    return fields if found == curated.records else None


def _kept(target: Path, records: Sequence[Record]) -> tuple[Record, ...] | None:
    """The records of an earlier conversion, with their ids, if they are these."""
    try:
        found = parse_all(read_bytes(target, most=DATA_BYTES))
    except (DataError, OSError):
        return None
    same = [(one.text, one.label) for one in found] == [(one.text, one.label) for one in records]
    return found if same else None


def _free(target: Path) -> Path:
    """The first free name of the form NAME.2.records.jsonl."""
    number = 2
    while (other := target.with_name(f"{stem(target)}.{number}{_ENDING}.jsonl")).exists():
        number += 1
    return other
