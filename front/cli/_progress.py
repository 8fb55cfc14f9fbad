"""Progress on stderr, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from affidavit.generation.prism import Progress

__all__ = ["counting_progress", "generation_progress"]


@contextmanager
def generation_progress() -> Iterator[Callable[[Progress], None] | None]:
    """Yields what a generator reports to: a bar over all texts' tokens, or None away from a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description:<14}"),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[text]}"),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("loading", total=None, text="")

        def report(seen: Progress) -> None:
            done = seen.done * seen.max_tokens + seen.tokens
            bars.update(
                task,
                description=f"{seen.label} {seen.sample + 1}",
                total=seen.samples * seen.max_tokens,
                completed=done,
                text=seen.text[-60:].replace("\n", " "),
            )

        yield report


@contextmanager
def counting_progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """Yields what loops report (what, done, all) to: a bar each with the time left, or None away from a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield report
