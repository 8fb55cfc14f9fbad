"""Progress on stderr, on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from affidavit.generation.prism import Progress

__all__ = ["generation_progress"]


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
