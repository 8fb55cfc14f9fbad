"""Reading JSON that somebody else wrote: exactly the expected fields, of exactly the expected types.

Each reader takes the value and its path and raises ``PlanError`` naming the path and what is allowed.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from affidavit.accountant.clock import parse_instant
from affidavit.accountant.errors import PlanError
from affidavit.accountant.validate import written

__all__ = ["count", "exactly", "fields", "flag", "instant", "items", "named", "parse", "text"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+@-]{0,63}\Z")
_MAX_TEXT = 4000


def parse(content: bytes) -> Any:
    """UTF-8 JSON without repeated fields, NaN, infinities or halves of surrogate pairs. Raises ``ValueError``."""
    try:
        text = content.decode("utf-8")
        found = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=written)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if b"\\u" in content:
        json.dumps(found, ensure_ascii=False).encode()  # a half, which only an escape can spell, cannot be written
    return found


def fields(value: object, path: str, names: str) -> dict[str, Any]:
    """An object with exactly these fields (``names``, separated by spaces)."""
    expected = names.split()
    if not isinstance(value, dict):
        raise PlanError(path, "not an object", allowed=", ".join(expected))
    for name in value:
        if name not in expected:
            raise PlanError(f"{path}.{name[:40]}", "unknown field", allowed=", ".join(expected))
    for name in expected:
        if name not in value:
            raise PlanError(f"{path}.{name}", "missing", allowed=", ".join(expected))
    return value


def items(value: object, path: str) -> list[tuple[str, Any]]:
    """A list, as pairs of each item's path and the item."""
    if not isinstance(value, list):
        raise PlanError(path, "not a list", allowed="a list")
    return [(f"{path}[{i}]", item) for i, item in enumerate(value)]


def named(value: object, path: str) -> list[tuple[str, str, Any]]:
    """An object with short names for fields, as triples (name, path, value), in order of names."""
    if not isinstance(value, dict) or not all(_NAME.match(name) for name in value):
        raise PlanError(path, "not an object of short names", allowed="letters, digits and _.+@-")
    return [(name, f"{path}.{name}", value[name]) for name in sorted(value)]


def text(value: object, path: str) -> str:
    """A string of bounded length."""
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise PlanError(path, "not a text", allowed=f"at most {_MAX_TEXT} characters")
    return value


def flag(value: object, path: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise PlanError(path, "not true or false", allowed="true | false")
    return value


def count(value: object) -> int:
    """A whole number that is not negative; no float, however round. Raises ``ValueError``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("not a count")
    return value


def exactly(value: object, path: str, expected: str) -> None:
    """This string and no other."""
    if value != expected:
        raise PlanError(path, "another kind of document", allowed=expected)


def instant(value: object, path: str) -> datetime:
    """A time as ``clock.show_instant`` writes it."""
    try:
        return parse_instant(value)
    except ValueError:
        raise PlanError(path, "not a time", allowed="2026-01-31T12:00:00Z") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a repeated field")
    return result


def _refuse(constant: str) -> None:
    raise ValueError(constant)
