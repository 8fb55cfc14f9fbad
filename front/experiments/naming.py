"""A fault of a run file, or of a task, in the keys of the grid file that it was made from."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from affidavit.accountant.errors import RunFileError

__all__ = ["of_run", "of_task", "renamed"]

_TYPED = re.compile(r"`([^`]+)`")
_MOVED = {
    "budget.epsilon": "epsilon",
    "budget.delta": "delta",
    "data": "datasets",
    "generator": "methods.generator",
    "preset": "methods.preset",
    "baseline": "methods.baseline",
}
"""Keys and tables of a run file, and where a grid has them."""

Rename = Callable[[str], str]


def of_run(*, varying: Collection[str], own_labels: bool) -> Rename:
    """How a grid's method writes a key or a setting of a run file.

    ``varying``: the generator's keys that take several values. ``own_labels``: whether the method names labels, and
    not the data set.
    """

    def rename(typed: str) -> str:
        key, equals, value = typed.partition(" = ")
        table, dot, last = key.partition(".")
        if table == "generator" and last in varying:
            return f"methods.grid.{last}{equals}" + (f"[{value}]" if equals else "")
        if key == "generator.labels" and not own_labels:
            return f"datasets.labels{equals}{value}"
        moved = _MOVED.get(key) or (f"{_MOVED[table]}{dot}{last}" if table in _MOVED else key)
        return moved + equals + value

    return rename


def of_task(typed: str) -> str:
    """The same for a key of a task file, whose table is a data set's ``task``."""
    return f"datasets.task.{typed}"


def renamed(error: RunFileError, rename: Rename, *, at: str = "") -> RunFileError:
    """The error with its key and what its hint has to type renamed; ``at`` says of which cell it is."""
    problem = error.message.removeprefix(f"{error.key}: ")
    hint = _TYPED.sub(lambda typed: f"`{rename(typed[1])}`", error.hint)
    return RunFileError(f"{at}{rename(error.key)}", problem, hint=hint)
