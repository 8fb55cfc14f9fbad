"""JSON Lines, or a JSON array: objects with the same keys, or lists with the same places.

A JSON object whose members are such arrays (``train``, ``test``) is read at the member that is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from affidavit.accountant.errors import DataError, Way
from affidavit.tables.table import Row, Table

__all__ = ["read_json"]

_NO_RECORDS = 'One a line: {"id": "...", "text": "...", "label": "..."}'


class _Repeated(dict[str, Any]):
    """An object in which a key stood twice; the last value is kept."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Repeated(found)


def _parsed(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object)


def read_json(text: str, path: Path, *, member: str | None, encoding: str) -> Table:
    """The rows of a JSON file. Raises ``DataError``, showing nothing of it."""
    body = text.strip()
    try:
        whole = _parsed(body)
    except (ValueError, RecursionError):
        whole = None
    unsure = None
    if isinstance(whole, dict) and "\n" in body:
        whole, unsure = _member(whole, path, member)
    if isinstance(whole, list):
        found = _table(enumerate(whole, start=1), path, f"a JSON array, {encoding}", word="record")
        return replace(found, unsure=unsure)
    objects, empty, broken = [], 0, []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            empty += 1
            continue
        try:
            objects.append((number, _parsed(line)))
        except (ValueError, RecursionError):
            broken.append(number)
    table = _table(
        objects, path, f"JSON Lines, {encoding}", word="line", broken=broken, empty=empty - text.endswith("\n")
    )
    if not table.rows:
        raise DataError(f"{path} holds no JSON objects", hint="Write one object a line, or an array of objects.")
    return table


def _member(whole: dict[str, Any], path: Path, member: str | None) -> tuple[Any, Way | None]:
    """An object's array, by name or number. Of several, where none is asked for, the longest: which has to be said."""
    arrays = {name: value for name, value in whole.items() if isinstance(value, list) and value}
    if not arrays:
        raise DataError(f"{path} is one JSON object without an array of records", hint=_NO_RECORDS)
    if member is not None and member in arrays:
        return arrays[member], None
    ordered = list(arrays.values())
    if member is not None and member.isdecimal() and 1 <= int(member) <= len(ordered):
        return ordered[int(member) - 1], None
    if len(ordered) == 1 and member is None:
        return ordered[0], None
    longest = max(range(len(ordered)), key=lambda place: len(ordered[place]))
    unsure = Way(
        f"Of the {len(ordered)} arrays in the JSON object number {longest + 1} is the longest",
        ("--member", str(longest + 1)),
    )
    return ordered[longest], unsure


def _table(
    found: Iterable[tuple[int, Any]], path: Path, how: str, *, word: str, broken: Iterable[int] = (), empty: int = 0
) -> Table:
    rows = list(found)
    bad = list(broken)
    objects = sum(isinstance(value, dict) for _, value in rows)
    if objects * 2 > len(rows):
        names = tuple(dict.fromkeys(str(key) for _, value in rows if isinstance(value, dict) for key in value))
        kept = tuple(
            Row(place, tuple(value.get(name) for name in names)) for place, value in rows if isinstance(value, dict)
        )
        bad += [place for place, value in rows if not isinstance(value, dict)]
        repeated = sum(isinstance(value, _Repeated) for _, value in rows)
        return Table(path, how, len(names), kept, names, place_word=word, empty_lines=empty, repeated_keys=repeated,
                     broken=tuple(sorted(bad)))  # fmt: skip
    cells = [(place, tuple(value) if isinstance(value, list) else (value,)) for place, value in rows]
    widths = [len(one) for _, one in cells]
    width = max(set(widths), key=widths.count) if widths else 0
    bad += [place for place, one in cells if len(one) != width]
    kept = tuple(Row(place, one) for place, one in cells if len(one) == width)
    return Table(path, how, width, kept, place_word=word, empty_lines=empty, broken=tuple(sorted(bad)))
