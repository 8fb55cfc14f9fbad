"""Strict TOML tables: unknown keys and wrong types are errors that name the key."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from affidavit.accountant import files
from affidavit.accountant.errors import RunFileError
from affidavit.accountant.remedies import near_file
from affidavit.accountant.validate import kept
from affidavit.audits.table_remedies import faults_of, known_beside, known_keys, remedy, words_at

__all__ = ["StrictTable", "checked", "known_keys", "read_toml"]

Table = TypeVar("Table", bound=BaseModel)


class StrictTable(BaseModel):
    """A table whose keys are all known and whose values have the stated types; immutable."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def read_toml(path: Path) -> dict[str, Any]:
    """The file's content. Raises ``RunFileError`` naming the file and the line."""
    try:
        return tomllib.loads(files.read_bytes(path).decode("utf-8-sig"), parse_float=kept)
    except OSError as error:
        near = near_file(path)
        start = "`affidavit init --relation add-remove -o RUN.toml` writes a run file to start from."
        hint = near if near.startswith("Did") else start
        raise RunFileError(str(path), f"cannot be read: {error.strerror}", hint=hint) from None
    except UnicodeDecodeError:
        hint = f"`iconv -f WINDOWS-1252 -t UTF-8 {shlex.quote(str(path))}` prints it in UTF-8, if it is from Windows."
        raise RunFileError(str(path), "not UTF-8", allowed="TOML in UTF-8", hint=hint) from None
    except tomllib.TOMLDecodeError as error:
        hint = 'Texts stand in quotes, as in `name = "letters"`; a table begins with a line such as [data].'
        raise RunFileError(str(path), f"not TOML: {error}", hint=hint) from None
    except (ValueError, RecursionError) as error:
        hint = "A number has at most 20 digits, is 0 or at least 1e-300, and a table stands in few others."
        problem = str(error) if "not 0" in str(error) else "nested too deeply, or a number of too many digits"
        raise RunFileError(str(path), problem, allowed="TOML", hint=hint) from None


def checked(table: type[Table], content: Mapping[str, Any], *, prefix: str = "") -> Table:
    """``content`` as a ``table``. Raises ``RunFileError`` for the first wrong key, naming it.

    ``prefix`` is where the table stands in the file (``generator.``).
    """
    try:
        return table.model_validate(dict(content))
    except ValidationError as error:
        raise _explained(table, error, content, prefix) from None


def _explained(table: type[BaseModel], error: ValidationError, content: Mapping[str, Any], prefix: str) -> RunFileError:
    faults = faults_of(error)
    first, rest = faults[0], faults[1:]
    key = prefix + _dotted(first["loc"])
    hint = remedy(table, first, content=content, prefix=prefix)
    if rest:
        others = ", ".join(sorted({prefix + _dotted(fault["loc"]) for fault in rest}))
        hint += (" " if hint else "") + f"Also wrong: {others}."
    match first["type"]:
        case "extra_forbidden":
            return RunFileError(key, "unknown key", allowed=", ".join(known_beside(table, first["loc"])), hint=hint)
        case "missing":
            return RunFileError(key, "missing", allowed=words_at(table, first["loc"]), hint=hint)
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
