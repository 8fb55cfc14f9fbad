"""Strict TOML tables: unknown keys and wrong types are errors that name the key."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from affidavit.accountant import files
from affidavit.accountant.errors import RunFileError

__all__ = ["StrictTable", "checked", "known_keys", "read_toml"]

Table = TypeVar("Table", bound=BaseModel)


class StrictTable(BaseModel):
    """A table whose keys are all known and whose values have the stated types; immutable."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def read_toml(path: Path) -> dict[str, Any]:
    """The file's content. Raises ``RunFileError`` naming the file and the line."""
    try:
        return tomllib.loads(files.read_bytes(path).decode("utf-8-sig"))
    except OSError as error:
        raise RunFileError(
            str(path), f"cannot be read: {error.strerror}", hint="`affidavit init` writes a run file to start from."
        ) from None
    except UnicodeDecodeError:
        raise RunFileError(str(path), "not UTF-8", allowed="TOML in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise RunFileError(str(path), f"not TOML: {error}") from None
    except (ValueError, RecursionError):
        raise RunFileError(str(path), "nested too deeply, or a number of too many digits", allowed="TOML") from None


def checked(table: type[Table], content: Mapping[str, Any], *, prefix: str = "") -> Table:
    """``content`` as a ``table``. Raises ``RunFileError`` for the first wrong key, naming it.

    ``prefix`` is where the table stands in the file (``generator.``).
    """
    try:
        return table.model_validate(dict(content))
    except ValidationError as error:
        raise _explained(table, error, prefix) from None


def _explained(table: type[BaseModel], error: ValidationError, prefix: str) -> RunFileError:
    faults = error.errors(include_url=False, include_input=False, include_context=True)
    first, rest = faults[0], faults[1:]
    key = prefix + _dotted(first["loc"])
    hint = "" if not rest else "Also wrong: " + ", ".join(sorted({prefix + _dotted(fault["loc"]) for fault in rest}))
    match first["type"]:
        case "extra_forbidden":
            known = _keys_beside(table, first["loc"])
            near = difflib.get_close_matches(str(first["loc"][-1]), known, n=1)
            if near:
                hint = f"Did you mean {near[0]}?"
            return RunFileError(key, "unknown key", allowed=", ".join(known), hint=hint)
        case "missing":
            return RunFileError(key, "missing", allowed=_options_at(table, first["loc"]), hint=hint)
        case "literal_error":
            return RunFileError(key, "not known", allowed=str(first.get("ctx", {}).get("expected", "")), hint=hint)
        case _:
            message = first["msg"].removeprefix("Value error, ")
            return RunFileError(key, message[:1].lower() + message[1:], hint=hint)


def _dotted(location: tuple[int | str, ...]) -> str:
    result = ""
    for step in location:
        result += f"[{step}]" if isinstance(step, int) else f".{str(step)[:40]}" if result else str(step)[:40]
    return result or "the file"


def known_keys(table: type[BaseModel]) -> list[str]:
    """The keys that may stand in a file: all fields but those that a caller fills in."""
    return [name for name, field in table.model_fields.items() if not field.exclude]


def _keys_beside(table: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The keys that the table at ``location``'s parent knows."""
    return known_keys(_table_at(table, location[:-1]))


def _options_at(table: type[BaseModel], location: tuple[int | str, ...]) -> str:
    """The words that may stand at ``location``, where only some words may."""
    field = _table_at(table, location[:-1]).model_fields.get(str(location[-1]))
    options = () if field is None or get_origin(field.annotation) is not Literal else get_args(field.annotation)
    return " | ".join(map(str, options))


def _table_at(table: type[BaseModel], location: tuple[int | str, ...]) -> type[BaseModel]:
    current: type[BaseModel] = table
    for step in location:
        field = current.model_fields.get(str(step))
        inner = None if field is None else _table_in(field.annotation)
        if inner is None:
            break
        current = inner
    return current


def _table_in(annotation: Any) -> type[BaseModel] | None:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
