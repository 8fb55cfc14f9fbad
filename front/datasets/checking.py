"""Is a folder of data sets what was made here? Counts, fields and digests; no record is shown."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from affidavit.accountant.errors import UsageError
from affidavit.datasets.catalogue import DataSet, Made, catalogue

__all__ = ["Checked", "check"]

Verdict = Literal["as made", "differs", "missing"]


@dataclass(frozen=True, slots=True)
class Checked:
    """A file of the catalogue against the one in the folder; ``detail`` says how it differs."""

    data_set: str
    path: Path
    verdict: Verdict
    detail: str = ""


def check(folder: Path) -> tuple[Checked, ...]:
    """Each file of every data set of which at least one is in ``folder``.

    Raises ``UsageError`` where none is.
    """
    present = [
        wanted for wanted in catalogue() if any((folder / wanted.folder / f.name).exists() for f in wanted.files)
    ]
    if not present:
        raise UsageError(
            f"{folder} holds no file of a data set that is known here",
            hint="See what there is, and make one: `affidavit data list`",
        )
    return tuple(
        _checked(wanted, file, folder / wanted.folder / file.name) for wanted in present for file in wanted.files
    )


def _checked(wanted: DataSet, file: Made, path: Path) -> Checked:
    if not path.is_file():
        return Checked(wanted.name, path, "missing")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() in {wanted.expected(source)[file.name] for source in wanted.sources}:
        return Checked(wanted.name, path, "as made")
    return Checked(wanted.name, path, "differs", _difference(file, content))


def _difference(file: Made, content: bytes) -> str:
    lines = content.rstrip(b"\n").split(b"\n") if content.strip() else []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return f"line {number}: not JSON"
        absent = [field for field in file.fields if not isinstance(record, dict) or field not in record]
        if absent:
            return f"line {number}: no {', '.join(absent)}"
    if len(lines) != file.records:
        return f"{len(lines):,} records, {file.records:,} expected"
    return "other records; their number and fields are as expected"
