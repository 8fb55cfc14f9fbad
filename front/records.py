"""Records of a file whose size nobody declared: data before ``init``, records held out for audits, public data."""

from __future__ import annotations

import json
from pathlib import Path

from affidavit.accountant.errors import DataError
from affidavit.accountant.files import DATA_BYTES, read_bytes
from affidavit.accountant.ledger.parts import Part
from affidavit.accountant.ledger.sketch import digest
from affidavit.generation.dataset import Fields, Record, parse_records

__all__ = ["in_part", "parse_all", "read_all", "read_texts"]


def read_all(path: Path, *, fields: Fields | None = None) -> tuple[Record, ...]:
    """Every record, checked as a run would check it. Raises ``DataError``, never showing text.

    The number of records is private here: it is nobody's declared size.
    """
    return parse_all(_content(path), fields=fields, name=str(path))


def _content(path: Path) -> bytes:
    try:
        return read_bytes(path, most=DATA_BYTES)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", hint="Check the path.") from None


def parse_all(content: bytes, *, fields: Fields | None = None, name: str = "the file") -> tuple[Record, ...]:
    """``read_all`` of a file's bytes; ``name`` is what errors call it. Raises ``DataError``."""
    if not content.strip():
        raise DataError(f"{name} holds no records", hint='One a line: {"id": "...", "text": "...", "label": "..."}')
    lines = content.count(b"\n") + (not content.endswith(b"\n"))
    return parse_records(content, size=lines, fields=fields or Fields())


def in_part(path: Path, part: Part, *, key: bytes) -> bytes:
    """The lines of the records that belong to ``part``, as they stand. Raises ``DataError`` as ``read_all``."""
    content = _content(path)
    lines = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    inside = (part.holds([digest(one.text, key=key)]) for one in parse_all(content, name=str(path)))
    return b"".join(line + b"\n" for line, keep in zip(lines, inside, strict=False) if keep)


def read_texts(path: Path) -> list[str]:
    """The ``text`` of every line of released JSON Lines; it may be empty. Raises ``DataError``, showing none of it."""
    content = _content(path)
    return [_text(line, path) for line in content.split(b"\n") if line.strip()]


def _text(line: bytes, path: Path) -> str:
    try:
        text = json.loads(line)["text"]
    except (ValueError, KeyError, TypeError, RecursionError):
        text = None
    if not isinstance(text, str):
        raise DataError(f"{path} is not released text", hint='One JSON object a line, with a string "text".')
    return text
