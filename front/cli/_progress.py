"""Progress on stderr: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from affidavit.cli._output import note
from affidavit.cli._watch import Watch, beating

if TYPE_CHECKING:
    from affidavit.generation.prism import Progress

__all__ = ["counting_progress", "generation_progress", "step_progress"]


@contextmanager
def step_progress(doing: str) -> Iterator[Watch]:
    """Yields what steps are told to, on a terminal or not; a long one is told again."""
    with beating(Watch(doing)) as watch:
        yield watch


@contextmanager
def generation_progress() -> Iterator[tuple[Callable[[Progress], None], Callable[[str], None]]]:
    """Yields what a generator reports to, and what steps are told to: a bar over all texts' tokens, or lines."""
    if not sys.stderr.isatty():
        with step_progress("Checking, and loading the model") as watch:
            yield watch.text, watch.step
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

        yield report, note


@contextmanager
def counting_progress() -> Iterator[Callable[[str, int, int], None]]:
    """Yields what loops report (what, done, all) to: a bar each with the time left, or lines."""
    if not sys.stderr.isatty():
        with step_progress("Reading, and loading the model") as watch:
            yield watch.count
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
