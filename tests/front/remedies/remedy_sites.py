"""Every place in the packages that makes a deliberate error, by reading the source; and which of them did."""

from __future__ import annotations

import ast
import math
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from affidavit.accountant import errors

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("front", "accountant", "mechanisms", "generation", "audits")
Function = ast.FunctionDef | ast.AsyncFunctionDef
KINDS = {name: kind for name in errors.__all__ if issubclass(kind := getattr(errors, name), errors.AffidavitError)}


@dataclass(frozen=True)
class Site:
    """One ``SomeError(...)`` in the source. ``name`` is file, function and the number within it: no line."""

    name: str
    kind: str
    path: str
    first: int
    last: int
    message: str
    hint: str | None
    allowed: str | None

    @property
    def code(self) -> int:
        return int(KINDS[self.kind].exit_code)


@cache
def sites() -> tuple[Site, ...]:
    """All of them, file by file."""
    return tuple(site for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")) for site in _of(path))


def _of(path: Path) -> list[Site]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = _texts(tree)
    found: list[Site] = []
    counts: Counter[str] = Counter()

    def visit(node: ast.AST, within: tuple[Function, ...]) -> None:
        if isinstance(node, Function):
            within = (*within, node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KINDS:
            base = f"{path.relative_to(ROOT).as_posix()}:{within[-1].name if within else ''}"
            counts[base] += 1
            name = base if counts[base] == 1 else f"{base}#{counts[base]}"
            known = texts
            for function in within:
                known = known | _texts(function, before=node.lineno)
            found.append(_site(node, node.func.id, name, path, known))
        for child in ast.iter_child_nodes(node):
            visit(child, within)

    visit(tree, ())
    return found


def _site(node: ast.Call, kind: str, name: str, path: Path, texts: dict[str, str]) -> Site:
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    hint, allowed = given.get("hint"), given.get("allowed")
    parts = [_text(part, texts) for part in node.args]
    if kind == "WrongRun":
        parts = parts[1:]
    return Site(
        name,
        kind,
        str(path),
        node.lineno,
        node.end_lineno or node.lineno,
        ": ".join(parts),
        None if hint is None else _text(hint, texts),
        None if allowed is None else _text(allowed, texts),
    )


def _texts(scope: ast.Module | Function, *, before: float = math.inf) -> dict[str, str]:
    """What names stand for, where they are given a text in the file or function: the last one ``before`` a line."""
    found: dict[str, str] = {}
    nodes = scope.body if isinstance(scope, ast.Module) else ast.walk(scope)
    for node in sorted((each for each in nodes if isinstance(each, ast.Assign)), key=lambda each: each.lineno):
        if isinstance(node.targets[0], ast.Name) and node.lineno < before:
            text = _text(node.value, found)
            if text != "…":
                found[node.targets[0].id] = text
    for function in scope.body if isinstance(scope, ast.Module) else ():
        if (
            isinstance(function, ast.FunctionDef)
            and isinstance(function.returns, ast.Name)
            and function.returns.id == "str"
        ):
            inner = found | _texts(function)
            returned = [
                _text(each.value, inner) for each in ast.walk(function) if isinstance(each, ast.Return) and each.value
            ]
            found[f"{function.name}()"] = (
                " / ".join(dict.fromkeys(text for text in returned if text not in ("", "…"))) or "…"
            )
    return found


_WRITTEN = {
    "did_you_mean": "Did you mean `…`?",
    "known_key": "Did you mean `…`? / Remove `…`.",
    "near_file": "Did you mean `…`? / … names it: put the file there, or name the one that is meant.",
    "remedy": "Did you mean `…`? / For example `… = …`.",
    "example": "For example `… = …`.",
    "shorter_records": "At most `generator.max_record_tokens = …`.",
    "fewer_records": "At most `… = …`.",
    "at_least": "At least `… = …`.",
    "at_most_records": "At most `members = …` and `non_members = …`, or give more records.",
}
"""What the functions that write remedies write."""


def _text(node: ast.AST, texts: dict[str, str]) -> str:
    """A text of the source as it will read, with … for what is only known when it is said."""
    match node:
        case ast.Constant(value=str(value)):
            return value
        case ast.JoinedStr(values=values):
            return "".join(_text(value, texts) for value in values)
        case ast.FormattedValue(value=ast.Name(id=name)) if name in texts:
            return texts[name]
        case ast.Name(id=name) if name in texts:
            return texts[name]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _text(left, texts) + _text(right, texts)
        case ast.BoolOp(op=ast.Or(), values=values):
            return " / ".join(text for value in values if (text := _text(value, texts)) != "…") or "…"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=arguments):
            if name == "setting":
                key = _text(arguments[0], texts)
                return f"`{key} …`" if key.startswith("-") else f"`{key} = …`"
            return _WRITTEN.get(name) or texts.get(f"{name}()", "…")
        case ast.IfExp(body=body, orelse=orelse):
            return f"{_text(body, texts)} / {_text(orelse, texts)}"
        case _:
            return "…"


class Recorder:
    """Notes, while it is entered, the site of every error that is made."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __enter__(self) -> Recorder:
        self._original = errors.AffidavitError.__init__
        original, seen = self._original, self.seen

        def noting(self: Any, *arguments: Any, **keywords: Any) -> None:
            frame = sys._getframe(1)
            while frame.f_back is not None and frame.f_code.co_filename == errors.__file__:
                frame = frame.f_back
            seen.append(_named(frame.f_code.co_filename, frame.f_lineno))
            original(self, *arguments, **keywords)

        errors.AffidavitError.__init__ = noting  # type: ignore[method-assign]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        errors.AffidavitError.__init__ = self._original  # type: ignore[method-assign]


def _named(file: str, line: int) -> str:
    """The innermost site that holds the line."""
    holding = [site for site in sites() if site.path == file and site.first <= line <= site.last]
    return min(holding, key=lambda site: site.last - site.first).name if holding else f"{file}:{line}"
