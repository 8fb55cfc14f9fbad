"""What goes on, where nobody sees a bar: a line for each step, and one at least every half minute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from affidavit.cli._output import note

if TYPE_CHECKING:
    from affidavit.generation.prism import Progress

__all__ = ["EVERY", "Watch", "beating"]

EVERY = 30.0  # seconds without a line


class Watch:
    """The last step that was told, and when. Steps are named by what is public: labels, counts, files."""

    def __init__(
        self, doing: str, *, say: Callable[[str], None] = note, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say, self._clock = say, clock
        self._doing, self._detail = doing, ""
        self._begun = self._told = clock()
        self._text: tuple[str, int] | None = None

    def step(self, line: str) -> None:
        """Tell a step that has begun."""
        self._doing, self._detail = line, ""
        self._told = self._clock()
        self._say(line)

    def text(self, seen: Progress) -> None:
        """What a generator reports after each token: a line for each text."""
        if self._text != (seen.label, seen.done):
            self._text = (seen.label, seen.done)
            self.step(f"Text {seen.done + 1} of {seen.samples}: {seen.label}")
        self._detail = f", token {seen.tokens} of {seen.max_tokens}"

    def count(self, what: str, done: int, total: int) -> None:
        """What a loop reports: a line for each that is done."""
        self.step(f"{what.capitalize()}: {done} of {total}")

    def beat(self) -> None:
        """Tell that the step goes on, if nothing was told for ``EVERY`` seconds."""
        now = self._clock()
        if now - self._told >= EVERY:
            self._told = now
            self._say(f"{self._doing}{self._detail} ({now - self._begun:.0f} s so far)")


@contextmanager
def beating(watch: Watch) -> Iterator[Watch]:
    """Call ``watch.beat`` once a second from another thread, until the end or until nobody reads it."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(1.0):
            try:
                watch.beat()
            except OSError:
                return

    thread = threading.Thread(target=beat, name="affidavit-progress", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        ended.set()
        thread.join()
