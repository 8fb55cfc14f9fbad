"""The names of the call in the place of a hint's capitals, and how to go on after Ctrl-C.

A hint is written where the fault is found, which knows the plan but not the file: it says ``RUN.toml``, as the
help does. Here, where the call is known, each such word becomes the file that was given for it. A file that
the call did not name gets the name that the guide gives it, in the folder of the file that was named.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from affidavit.accountant.errors import AffidavitError
from affidavit.accountant.remedies import unused

__all__ = ["CallContext", "filled", "interrupted", "unusable"]

_USUAL = {
    "RUN.toml": "run.toml",
    "CERT.json": "certificate.json",
    "AUDIT.toml": "audit.toml",
    "REQUEST.json": "request.json",
    "DIR": "out",
}
_IN_FILES = ("relation", "delta", "epsilon", "unit")
_SETTING = re.compile(r"`([a-z-]+) = ([^`]+)`")
_BACKTICKED = re.compile(r"`[^`]*`")
_PLACEHOLDER = re.compile(
    r"(?<![\w./-])(RUN\.toml|CERT\.json|PLAN\.json|AUDIT\.toml|GRID\.toml|TRACE\.jsonl|REQUEST\.json|DIR)(?=[/\s`]|$)"
)
_INTO = re.compile(r"-o (CERT\.json)(?=[\s`]|$)")


class CallContext(click.Context):
    """A command's context that puts its own file names into the hint of a refusal that leaves it."""

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, AffidavitError):
            error.hint = filled(error.hint, self)
        super().__exit__(kind, error, trace)  # type: ignore[arg-type]


def filled(hint: str, ctx: click.Context) -> str:
    """The hint with the files that the call named."""
    names = _files(ctx)

    def typed(match: re.Match[str]) -> str:
        named = _INTO.sub(lambda word: f"-o {_place(word[1], names)}", match[0])
        named = _PLACEHOLDER.sub(lambda word: names.get(word[1], word[1]), named)
        setting = _SETTING.fullmatch(named)
        if setting is None or (flag := _flag(setting[1], ctx)) is None:
            return named
        return f"`{flag} {shlex.quote(_plain(setting[2]))}`"

    return _BACKTICKED.sub(typed, hint)


def _place(word: str, names: Mapping[str, str]) -> str:
    """Where a certificate can be written: the file of the call, unless that is there and something else."""
    from affidavit.writing import replaceable

    path = Path(shlex.split(names[word])[0])
    if not replaceable(path):
        path = unused((path if path.is_dir() else path.parent) / "certificate.json")
    return shlex.quote(str(path))


def _flag(key: str, ctx: click.Context) -> str | None:
    """The option that sets ``key`` in this call: one that was given, or one that no file could set instead."""
    for option in ctx.command.params:
        if isinstance(option, click.Option) and f"--{key}" in option.opts:
            given = ctx.get_parameter_source(option.name or "") == click.core.ParameterSource.COMMANDLINE
            return f"--{key}" if given or key not in _IN_FILES else None
    return None


def _plain(value: str) -> str:
    """A value as an option takes it: a text without its quotes."""
    return str(json.loads(value)) if value.startswith('"') else value


def _files(ctx: click.Context) -> dict[str, str]:
    """What each metavariable stands for in this call, as a shell reads it."""
    given = dict(_given(ctx))
    beside = next((path.parent for word, path in given.items() if word != "DIR"), given.get("DIR", Path()))
    paths = {word: _nearby(beside, usual) for word, usual in _USUAL.items()} | given
    return {word: shlex.quote(str(path)) for word, path in paths.items()}


def _nearby(folder: Path, name: str) -> Path:
    """The file of that name in the folder or the one above, if there is one; else where it would be."""
    return next((place / name for place in (folder, folder.parent) if (place / name).exists()), folder / name)


def _given(ctx: click.Context) -> Iterator[tuple[str, Path]]:
    for parameter in ctx.command.params:
        value = ctx.params.get(parameter.name or "")
        if isinstance(value, (str, Path)) and parameter.metavar and str(value) != "-":
            for word in parameter.metavar.strip("[]").split("|"):
                yield word, Path(value)


def interrupted(arguments: list[str] | None) -> tuple[str, str]:
    """What Ctrl-C left behind, and how to go on: a message and a hint."""
    typed = _typed(arguments)
    match typed.split()[1:2]:
        case ["generate"] if out := _unfinished(arguments):
            said = "Interrupted: no text was written. What was reserved in the ledger stays spent"
            on = typed if "--resume" in typed.split() else f"{typed} --resume"
            hint = f"Go on at no further cost: `{on}`; or end it: `{shlex.join(['affidavit', 'close', out])}`"
            return f"{said}: `affidavit ledger show`.", hint
        case ["experiment"]:
            return "Interrupted. The cells that were finished are kept.", f"To go on: `{typed}`"
        case _:
            return "Interrupted. Files that were begun are not there; finished ones are whole.", f"Again: `{typed}`"


def _unfinished(arguments: list[str] | None) -> str:
    """The folder of ``-o``, if a run that can be gone on with stands there; else empty."""
    from affidavit.accountant.release.journal import NAME

    options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    options.add_argument("-o", "--out", default="")
    out = str(options.parse_known_args(arguments)[0].out)
    return out if out and (Path(out) / NAME).exists() else ""


def unusable(error: OSError, arguments: list[str] | None) -> tuple[str, str]:
    """What the machine would not do for a file (no room, no permission), and how to go on: a message and a hint."""
    said = f"Error: {error.filename} cannot be used: {error.strerror}"
    return said, f"Make room there, or let it be read and written; then again: `{_typed(arguments)}`"


def _typed(arguments: list[str] | None) -> str:
    return shlex.join(["affidavit", *(sys.argv[1:] if arguments is None else arguments)])
