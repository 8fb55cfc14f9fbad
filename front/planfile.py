"""Plan files: an envelope of relation, δ and plan, as JSON or TOML, from a path or stdin."""

from __future__ import annotations

import errno
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from affidavit.accountant import files
from affidavit.accountant.errors import PlanError
from affidavit.accountant.plan import Envelope, parse_envelope
from affidavit.accountant.remedies import near_file
from affidavit.accountant.validate import written

__all__ = ["read_envelope"]

_A_PLAN = (
    'A whole plan file: `{"relation": "add-remove", "delta": 1e-05, '
    '"plan": {"kind": "gaussian", "noise_multiplier": 1.0}}`'
)


def read_envelope(source: str, *, relation: str | None = None, delta: float | None = None) -> Envelope:
    """Read ``source`` (a path, or ``-`` for stdin); flags may add what the file leaves out.

    A flag that says something else than the file is an error: neither silently wins.
    Raises ``PlanError``.
    """
    content = _parse(source)
    if isinstance(content, dict):
        content = _with_flags(content, relation=relation, delta=delta)
    return parse_envelope(content)


def _with_flags(content: dict[str, Any], *, relation: str | None, delta: float | None) -> dict[str, Any]:
    for name, flag in (("relation", relation), ("delta", delta)):
        if flag is None:
            continue
        stated = content.get(name)
        if stated is not None and stated != flag:
            raise PlanError(
                name,
                f"--{name} {flag} disagrees with the plan file, which says {stated!r}",
                allowed="the file's value",
                hint=f"Remove `--{name}`, or change the file.",
            )
        content = {**content, name: flag}
    return content


def _parse(source: str) -> Any:
    text = _text(source)
    if source != "-" and Path(source).suffix.lower() == ".toml":
        return _toml(text, source)
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_float=written)
    except json.JSONDecodeError as error:
        if source == "-" and not text.lstrip().startswith(("{", "[")):
            return _toml(text, "stdin")
        raise PlanError(
            _name(source),
            f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}",
            allowed="JSON or TOML",
            hint=_A_PLAN,
        ) from None
    except RecursionError:
        raise PlanError(_name(source), "nested too deeply", allowed="at most 64 levels", hint=_A_PLAN) from None
    except ValueError:
        raise PlanError(
            _name(source), "holds a number of too many digits", allowed="JSON or TOML", hint=_A_PLAN
        ) from None


def _toml(text: str, source: str) -> Any:
    try:
        return tomllib.loads(text, parse_float=written)
    except (ValueError, RecursionError) as error:
        problem = f"not TOML: {_reason(error)}"
        raise PlanError(_name(source), problem, allowed="JSON or TOML", hint=_A_PLAN) from None


def _reason(error: Exception) -> str:
    """Why a parser gave up: what it says of the place, or which limit was met."""
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return str(error) if isinstance(error, tomllib.TOMLDecodeError) else "a number of too many digits"


def _stdin() -> bytes:
    """Of bounded size, as a file is."""
    content = sys.stdin.buffer.read(files.DOCUMENT_BYTES + 1)
    if len(content) > files.DOCUMENT_BYTES:
        raise OSError(errno.EFBIG, f"larger than {files.DOCUMENT_BYTES // 2**20} MiB")
    return content


def _text(source: str) -> str:
    try:
        data = _stdin() if source == "-" else files.read_bytes(Path(source))
        return data.decode("utf-8-sig")
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        raise PlanError(_name(source), problem, allowed="a readable file, or -", hint=_near_plan(source)) from None
    except UnicodeDecodeError:
        raise PlanError(_name(source), "not UTF-8", allowed="JSON or TOML in UTF-8", hint=_A_PLAN) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object whose keys are distinct: a repeated key would silently hide a value."""
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise PlanError(
            twice[:40],
            "the key occurs twice in one object",
            allowed="each key once",
            hint=f"Remove one `{twice[:40]}`.",
        )
    return result


def _near_plan(source: str) -> str:
    """The command on the file that was meant, or one that reads a plan from stdin."""
    near = near_file(Path(source))
    return near if near.startswith("Did") else _A_PLAN


def _name(source: str) -> str:
    return "plan file" if source == "-" else source
