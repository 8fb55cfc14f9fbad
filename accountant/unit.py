"""The unit of protection: what one protected thing is.

``"record"``, or ``{key = "user_id", max_records = 5}``: all records that share a key, of which
at most ``max_records`` are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from affidavit.accountant import validate
from affidavit.accountant.errors import PlanError
from affidavit.accountant.remedies import setting

__all__ = ["RECORD", "Unit", "parse_unit"]

_ALLOWED = '"record", or {"key": a field\'s name, "max_records": a whole number >= 1}'


@dataclass(frozen=True, slots=True)
class Unit:
    """``key`` is None for single records; then ``max_records`` is 1."""

    key: str | None = None
    max_records: int = 1

    def to_json(self) -> str | dict[str, Any]:
        """The form that run files and certificates use; ``parse_unit`` reads it."""
        return "record" if self.key is None else {"key": self.key, "max_records": self.max_records}

    def __str__(self) -> str:
        return "record" if self.key is None else f"{self.key} (at most {self.max_records} records)"


RECORD = Unit()


def parse_unit(value: object, *, path: str = "unit") -> Unit:
    """Read a unit. Raises ``PlanError`` naming the field."""
    if isinstance(value, Unit):
        return value
    if value == "record":
        return RECORD
    if not isinstance(value, Mapping) or set(value) != {"key", "max_records"}:
        raise PlanError(
            path, "not a unit of protection", allowed=_ALLOWED, hint=f"For example {setting(path, 'record')}."
        )
    key = value["key"]
    if not isinstance(key, str) or not key or not key.isprintable() or len(key) > 100:
        raise PlanError(
            f"{path}.key",
            "not a field's name",
            allowed=_ALLOWED,
            hint=f"For example {setting(f'{path}.key', 'user_id')}.",
        )
    return Unit(key, validate.whole(value["max_records"], path=f"{path}.max_records", minimum=1))
