"""Reads a hint as a person would: what stands between backticks is typed, as it stands."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

COMMANDS = {"affidavit", "chmod", "mv", "rm", "iconv", "export", "unset", "pip", "python", "printf", "pytest"}
_TYPED = re.compile(r"`([^`]+)`")
_SETTING = re.compile(r"([\w.\[\]-]+) = (.+)", re.DOTALL)


Kind = Literal["command", "sql", "flag", "setting", "remove", "file", "word"]


@dataclass(frozen=True)
class Step:
    """One thing to type: a command, a flag, a setting, something to remove, a whole file, or a word."""

    kind: Kind
    text: str

    @property
    def informs(self) -> bool:
        """Whether it only shows something: the call is not expected to work afterwards."""
        return self.kind == "command" and not {"--help", "--version", "show"}.isdisjoint(self.text.split())

    @property
    def setting(self) -> tuple[str, Any]:
        """The key and the value of a ``setting``."""
        key, value = _SETTING.fullmatch(self.text).groups()  # type: ignore[union-attr]
        return key, read_value(value)


def read_value(text: str) -> Any:
    """A value as TOML or JSON has it."""
    if text == "None":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return json.loads(text)


def alternatives(hint: str) -> list[tuple[Step, ...]]:
    """What the hint offers, each to be tried by itself; "and", "with" and "then" join what belongs together."""
    groups: list[list[Step]] = []
    end, removing = 0, False
    for match in _TYPED.finditer(hint):
        between = hint[end : match.start()]
        removing = bool(re.search(r"\b[Rr]emove (?:one |any )?$", between)) or (removing and between in (", ", " or "))
        step = Step(_kind(match[1], removing=removing), match[1])
        joined = re.match(r"\W*(and|with|then)\W*$", between) or (removing and between == ", ")
        if groups and joined:
            groups[-1].append(step)
        else:
            groups.append([step])
        end = match.end()
    return [tuple(group) for group in groups]


def _kind(text: str, *, removing: bool) -> Kind:
    if removing:
        return "remove"
    if Path(text.split(maxsplit=1)[0]).name in COMMANDS:
        return "command"
    if text.startswith(("ALTER SYSTEM ", "SELECT ")):
        return "sql"
    if text.startswith("-"):
        return "flag"
    if text.startswith("{"):
        return "file"
    return "setting" if _SETTING.fullmatch(text) else "word"


def with_flag(call: list[str], flag: str) -> list[str]:
    """The call with a flag changed, or added."""
    name, *value = shlex.split(flag)
    return [*without_flag(call, name), name, *value]


def without_flag(call: list[str], name: str) -> list[str]:
    """The call without a flag and its value."""
    left = list(call)
    while name in left:
        at = left.index(name)
        has_value = at + 1 < len(left) and not left[at + 1].startswith("--") and name not in {"--json", "--markdown"}
        del left[at : at + (2 if has_value else 1)]
    return left


def changed(content: Any, path: str, change: Any) -> Any:
    """``content`` with the value at a dotted path replaced by ``change(mapping, key)``; a list means each of it."""
    *steps, last = [step for step in re.split(r"[.\[\]]+", path) if step]

    def go(node: Any, left: list[str]) -> None:
        if isinstance(node, list) and not (left or [last])[0].isdigit():
            for item in node:
                go(item, left)
        elif not left:
            change(node, int(last) if isinstance(node, list) else last)
        elif isinstance(node, list):
            go(node[int(left[0])], left[1:])
        else:
            go(node.setdefault(left[0], {}), left[1:])

    go(content, steps)
    return content


def dumped(content: Mapping[str, Any]) -> str:
    """TOML, one key a line with inline tables."""
    return "".join(f"{key} = {_inline(value)}\n" for key, value in content.items())


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)
