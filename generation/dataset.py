"""Private records: read, checked, and refused before anything is charged.

One JSON object a line: ``id`` (unique string), ``text``, ``label``; other fields are ignored. A data
set that calls these otherwise (``question``, ``answer``) says so by ``Fields``. The
file must hold exactly the declared ``size``: ``size`` is a public fact, so it is checked against the
data and never read from them. A refusal is part of no release: it goes to the operator who holds the
file, and it names the line and the field, never a value.

Rules for odd text. A lone surrogate (possible in JSON escapes, impossible in UTF-8) becomes U+FFFD.
Nothing else is changed: no normalisation, no trimming. A record longer than ``max_record_tokens`` is
cut by the generator to its first ``max_record_tokens`` tokens. A record whose label is not among the
run's labels belongs to no batch and contributes nothing; labels are an input and never read from here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from affidavit.accountant.errors import DataError
from affidavit.accountant.files import DATA_BYTES, read_bytes
from affidavit.accountant.remedies import near_file

__all__ = ["Fields", "Record", "load_records", "parse_records"]


@dataclass(frozen=True, slots=True)
class Fields:
    """Which fields of a line hold a record's text and its label (the answer, where the text is a question)."""

    text: str = "text"
    label: str = "label"


_FIELDS = Fields()


@dataclass(frozen=True, slots=True)
class Record:
    """One protected record. Its text and label stay out of every representation."""

    id: str = field(repr=False)
    text: str = field(repr=False)
    label: str = field(repr=False)


def load_records(path: Path, *, size: int, fields: Fields = _FIELDS) -> tuple[Record, ...]:
    """The records of a JSON Lines file that must hold exactly ``size``. Raises ``DataError``."""
    try:
        content = read_bytes(path, most=DATA_BYTES)
    except OSError as error:
        raise DataError(
            f"the data file {path} cannot be read: {error.strerror or type(error).__name__}",
            hint=near_file(path, "data.path"),
        ) from None
    return parse_records(content, size=size, fields=fields)


def parse_records(content: bytes, *, size: int, fields: Fields = _FIELDS) -> tuple[Record, ...]:
    """As ``load_records``, from the file's bytes (the ones that were committed to)."""
    records: list[Record] = []
    seen: dict[str, int] = {}
    for number, line in _lines(content):
        record = _record(number, line, fields)
        if record.id in seen:
            _refuse(number, "id", f"the same id as in line {seen[record.id]}", "Give every record an id of its own.")
        seen[record.id] = number
        records.append(record)
    if len(records) != size:
        raise DataError(
            f"the data file holds {len(records)} records, [data] size declares {size}",
            hint="size is a public fact about the data set: declare it, and keep the file to it.",
        )
    return tuple(records)


def _lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    yield from enumerate(lines, start=1)


def _record(number: int, line: bytes, fields: Fields) -> Record:
    if not line.strip():
        _refuse(number, "", "empty", "Remove the empty line.")
    try:
        value = json.loads(line.decode("utf-8"), parse_constant=_reject_constant, object_pairs_hook=_unique_keys)
    except UnicodeDecodeError:
        _refuse(number, "", "not UTF-8", "Save the file as UTF-8.")
    except (ValueError, RecursionError):
        _refuse(number, "", "not one JSON object with unique keys", "Write one JSON object a line.")
    if not isinstance(value, dict):
        _refuse(number, "", "not a JSON object", 'Write {"id": "...", "text": "...", "label": "..."}.')
    return Record(*(_string(number, name, value) for name in ("id", fields.text, fields.label)))


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key twice")
    return result


def _string(number: int, name: str, value: dict[str, Any]) -> str:
    if name not in value:
        _refuse(number, name, "missing", f"Every record needs an {name}." if name == "id" else f"Add the {name}.")
    text = value[name]
    if not isinstance(text, str):
        _refuse(number, name, "not a string", f'Write "{name}" as a string.')
    if not text.strip():
        _refuse(number, name, "empty", f"Every record needs a {name} that is not empty.")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _refuse(number: int, name: str, problem: str, hint: str) -> NoReturn:
    where = f"line {number}, {name}" if name else f"line {number}"
    raise DataError(f"data file, {where}: {problem}", hint=hint)
