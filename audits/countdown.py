"""How far an experiment is: which of its protected releases is made, of how many, and about how long the rest takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

__all__ = ["EVERY", "Countdown"]

EVERY = 10.0
"""Seconds between two lines of one kind: releases of a toy model are thousands a minute."""

_Asked = ParamSpec("_Asked")
_Made = TypeVar("_Made")


@dataclass(slots=True)
class Countdown:
    """Counts calls of what it was given (``of_each``): ``of`` in all.

    The time left is at the pace since the first of them, which does what need not be done again.
    """

    tell: Callable[[str], None]
    of: int
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    _done: int = field(default=0, init=False)
    _begun: float = field(default=0.0, init=False)
    _first: float = field(default=0.0, init=False)
    _told: tuple[str, float] | None = field(default=None, init=False)

    def of_each(self, make: Callable[_Asked, _Made], what: str) -> Callable[_Asked, _Made]:
        """``make``, each call of which is told as ``what`` and counted."""

        def counted(*args: _Asked.args, **named: _Asked.kwargs) -> _Made:
            self._say(what)
            made = make(*args, **named)
            self._done += 1
            if self._done == 1:
                self._first = self.clock()
            return made

        return counted

    def _say(self, what: str) -> None:
        now = self.clock()
        if not self._done:
            self._begun = now
        if self._told is not None and self._told[0] == what and now - self._told[1] < EVERY:
            return
        self._told = what, now
        left = f", about {_words(self._left(now))} left" if self._done else ""
        self.tell(f"{what}, release {self._done + 1} of {self.of}{left}")

    def _left(self, now: float) -> float:
        taken, done = (now - self._begun, 1) if self._done == 1 else (now - self._first, self._done - 1)
        return taken / done * (self.of - self._done)


def _words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100.0 else f"{seconds / 60.0:.0f} min"
