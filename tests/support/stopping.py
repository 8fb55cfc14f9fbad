"""Runs that stop: a journal whose process ends at a chosen line, and a log of what was really drawn.

``Stop(event, number, when)``: at the ``number``-th line of a kind (from 0), ``before`` it is written, in the ``middle``
of it, or ``after`` it.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest

from affidavit.accountant.plan import Leaf, Plan
from affidavit.accountant.release.journal import Journal, Past
from affidavit.accountant.release.order import Order
from affidavit.accountant.release.randomness import GuardedNoise, NoiseSource
from affidavit.accountant.validate import Relation
from affidavit.generation.recorder import Recorder

When = Literal["before", "middle", "after"]


class Died(BaseException):
    """The process ended here: nothing catches it."""


@dataclass(frozen=True)
class Stop:
    """A moment of a run's life."""

    event: str
    number: int
    when: When = "after"


@contextmanager
def stopping(stop: Stop | None, end: Callable[[], None]) -> Iterator[None]:
    """Call ``end`` when ``stop`` is reached; whatever thread would write after it comes to the same end."""
    plain, seen, ended, one_writes = Journal.write, Counter[str](), [], threading.Lock()

    def write(self: Journal, event: str, *, durable: bool = False, **facts: Any) -> None:
        with one_writes:
            if ended:
                end()
            if stop is None or event != stop.event or seen[event] != stop.number:
                seen[event] += 1
                plain(self, event, durable=durable, **facts)
                return
            ended.append(stop)
            if stop.when == "middle":
                line = json.dumps({"event": event, **facts}).encode()
                os.write(self._file, line[: len(line) // 2])
            if stop.when == "after":
                plain(self, event, durable=durable, **facts)
            end()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "write", write)
        yield


@contextmanager
def in_a_call(owner: Any, name: str, when: str, number: int, end: Callable[[], None]) -> Iterator[None]:
    """Call ``end`` before or after the ``number``-th call of ``owner.name``."""
    plain, seen = getattr(owner, name), []

    def call(*given: Any, **named: Any) -> Any:
        mine = len(seen) == number
        seen.append(1)
        if mine and when == "before":
            end()
        try:
            return plain(*given, **named)
        finally:
            if mine:
                end()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, call)
        yield


@contextmanager
def logging_draws(log: Path) -> Iterator[None]:
    """Write a line for every draw that really is made: path, use, and which of the draws of that use."""
    plain, within = Recorder.once, Counter[tuple[str, int]]()

    def once(self: Recorder, path: str, draw: Callable[[], Any]) -> Any:
        use = (path, self.draws[path] - 1)
        number = within[use]
        within[use] += 1

        def drawing() -> Any:
            with log.open("a", encoding="utf-8") as file:
                file.write(json.dumps([*use, number]) + "\n")
            return draw()

        return plain(self, path, drawing)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorder, "once", once)
        yield


def drawn(log: Path) -> Counter[tuple[str, int, int]]:
    """How often each draw was made."""
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    return Counter(tuple(json.loads(line)) for line in lines)


def moments(past: Past, *, most: int) -> list[Stop]:
    """Of a whole run: every kind of line, at its first, its last and some in between, before, in and after it."""
    found = []
    for event, count in sorted(Counter(str(one["event"]) for one in past.events).items()):
        numbers = sorted({0, count - 1, *range(0, count, max(1, count // most))})
        whens: tuple[When, ...] = ("before", "middle", "after")
        found += [Stop(event, number, whens[(place + len(event)) % 3]) for place, number in enumerate(numbers)]
    return found


@dataclass
class KeptPermit:
    """A trial's permit with a journal: the real order and guard, no ledger."""

    plan: Plan
    relation: Relation
    source: NoiseSource
    journal: Journal
    noise: GuardedNoise = field(init=False)

    def __post_init__(self) -> None:
        self._order = Order(self.plan)
        self.noise = GuardedNoise(self.source, check=self._check)
        self.noise.skip(self.journal.words)

    def use(self, path: str) -> Leaf:
        return self._order.use(path)

    def finish(self, path: str) -> None:
        self._order.finish(path)

    def _check(self) -> None:
        if not self.journal.drawing:
            raise AssertionError("noise was drawn that nothing writes down")
