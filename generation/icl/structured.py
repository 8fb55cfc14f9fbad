"""Structured text: how often it is JSON at all, and how often it is what a schema asks for.

A text counts as parsed if the whole of it, blanks aside, is one JSON value in which no key stands twice;
as valid if that value also satisfies the JSON Schema (draft 2020-12, by ``jsonschema``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from affidavit.accountant.errors import UsageError
from affidavit.accountant.extras import require
from affidavit.accountant.files import read_bytes
from affidavit.accountant.remedies import near_file

__all__ = ["CheckedRecord", "RecordRates", "check_record", "load_schema", "rates"]


@dataclass(frozen=True, slots=True)
class CheckedRecord:
    """One text, read as JSON: its value if it parsed, and whether the schema accepts that."""

    parsed: bool
    valid: bool
    value: Any = None


@dataclass(frozen=True, slots=True)
class RecordRates:
    """How many of ``count`` texts parsed, and how many were valid."""

    count: int
    parsed: int
    valid: int

    @property
    def parse_rate(self) -> float:
        return self.parsed / self.count if self.count else 0.0

    @property
    def valid_rate(self) -> float:
        return self.valid / self.count if self.count else 0.0

    def to_json(self) -> dict[str, Any]:
        """The counts, and the rates."""
        return {
            "count": self.count,
            "parsed": self.parsed,
            "valid": self.valid,
            "parse_rate": self.parse_rate,
            "valid_rate": self.valid_rate,
        }


def check_record(text: str, schema: Mapping[str, Any]) -> CheckedRecord:
    """Parse and validate one text."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return CheckedRecord(parsed=False, valid=False)
    return CheckedRecord(parsed=True, valid=_validator(json.dumps(dict(schema))).is_valid(value), value=value)


def rates(texts: Iterable[str], schema: Mapping[str, Any]) -> RecordRates:
    """Parse and validation rates of texts."""
    checked = [check_record(text, schema) for text in texts]
    return RecordRates(len(checked), sum(one.parsed for one in checked), sum(one.valid for one in checked))


def load_schema(path: Path) -> dict[str, Any]:
    """A JSON Schema from a file. Raises ``UsageError`` if it is none, ``PackageMissing``."""
    require("icl", "jsonschema", purpose="a JSON Schema")
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    hint = 'The least: `{"type": "object"}`; see JSON Schema, draft 2020-12.'
    try:
        schema = json.loads(read_bytes(path).decode("utf-8"))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=near_file(path)) from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is not JSON in UTF-8", hint=hint) from None
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        # The error's own message quotes what stands there: a file of records may have been given by mistake.
        where = "/".join(str(step) for step in error.absolute_path if isinstance(step, int)) or "the top"
        raise UsageError(f"{path} is not a JSON Schema: {error.validator} fails at {where}", hint=hint) from None
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise UsageError(f"{path} describes no object", hint=hint)
    return schema


@lru_cache(maxsize=8)
def _validator(schema: str) -> Any:
    require("icl", "jsonschema", purpose="a JSON Schema")
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json.loads(schema))


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found
