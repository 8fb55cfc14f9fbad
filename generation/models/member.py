"""A place in a pool of workers: one worker after another, each begun where the one before has died.

Several threads may ask: each gets its own answer, as soon as it is there. How a worker is reached is a ``Link``: a pipe
to a process, or sealed messages to an actor. Neither does anything twice by itself: what is done again is asked for by
whoever asked, who tells with each message of which worker's ``life`` it speaks.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from affidavit.accountant.errors import AffidavitError, NotSupported, UsageError
from affidavit.generation.models.process_link import ProcessLink
from affidavit.generation.models.ray_link import RayLink
from affidavit.generation.models.worker import Answer

__all__ = ["Dead", "Link", "LinkKind", "Member"]

MOST_DEATHS = 3
"""What workers died over so often is not given to another one: something in it kills them."""

_OURS = {kind.__name__: kind for kind in (AffidavitError, NotSupported, UsageError)}
"""Errors that a worker may pass on; their words hold no private text."""


class Link(Protocol):
    """One worker and the way to it.

    ``send`` and ``receive`` raise ``EOFError`` or ``OSError`` where the worker has ended. Answers come in the order in
    which what is answered (``worker.ANSWERED``) was sent. One thread sends at a time, and one receives.
    """

    @property
    def pid(self) -> int: ...
    @property
    def alive(self) -> bool:
        """False once it is known to have ended."""
        ...

    def send(self, message: tuple[Any, ...]) -> None: ...
    def receive(self) -> Answer: ...
    def end(self) -> None: ...


LinkKind: TypeAlias = type[ProcessLink] | type[RayLink]
"""Their ``kind``: what several workers are called, in receipts."""


class Dead(Exception):
    """The worker has ended."""


class _Asked:
    """Something that was asked of ``link``."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.answer: Answer | None = None
        self.lost = False


class Member:
    """``begin`` begins a worker, which does what is said to it in order."""

    def __init__(self, begin: Callable[[], Link]) -> None:
        self._begin = begin
        self._numbers = itertools.count()
        self._link: Link | None = None
        self._apart: tuple[Any, ...] | None = None
        self.life = 0
        """Goes up with every death and every birth."""
        self._kept: list[Link] = []
        self._saying = threading.RLock()
        self._news = threading.Condition()
        self._waiting: deque[_Asked] = deque()
        self._receiving = False
        self._forgotten: deque[int] = deque()
        weakref.finalize(self, _end, self._kept)

    def number(self) -> int:
        """A name for one more minibatch."""
        return next(self._numbers)

    @property
    def pid(self) -> int:
        """Of the process, 0 where there is none yet."""
        return 0 if self._link is None else self._link.pid

    def revive(self) -> int:
        """A worker that lives; which one it is. Raises ``Dead``."""
        with self._saying:
            if self._link is None or not self._link.alive:
                if self._link is not None:
                    self._died(self._link)
                self._link = self._begin()
                self.life += 1
                self._kept[:] = [self._link]
                if self._apart is not None:
                    self.tell(*self._apart)
            return self.life

    def insist(self, ask: Callable[[], Any]) -> Any:
        """What ``ask`` gives, of another worker where one dies over it. Raises ``AffidavitError``."""
        for _ in range(MOST_DEATHS):
            with contextlib.suppress(Dead):
                self.revive()
                return ask()
        raise AffidavitError(
            f"{MOST_DEATHS} workers died, one after another",
            hint="Without workers, after what stopped: `unset AFFIDAVIT_WORKERS`",
        )

    def tell(self, command: str, *given: Any, life: int | None = None) -> None:
        """Say what is not answered, to the worker of this ``life`` or to any. Raises ``Dead``."""
        with self._saying:
            if command == "keep_apart":
                self._apart = (command, *given)
                if self._link is None:
                    self.revive()  # which says it
                    return
            self._say((command, *given), life)

    def post(self, command: str, *given: Any, life: int | None = None) -> Callable[[], Any]:
        """Ask, and do not wait: the answer, waited for when it is called for.

        Both raise ``Dead``, and the second what the worker met as an error of ours.
        """
        with self._saying:
            asked = _Asked(self._living(life))
            with self._news:
                self._waiting.append(asked)
            self._say((command, *given), life)
        return lambda: self._answer(asked)

    def forget(self, number: int) -> None:
        """A minibatch that nobody asks for any more. Called wherever garbage is collected, so said later."""
        self._forgotten.append(number)

    def _living(self, life: int | None) -> Link:
        if self._link is None or (life is not None and life != self.life):
            raise Dead
        return self._link

    def _say(self, message: tuple[Any, ...], life: int | None) -> None:
        link = self._living(life)
        try:
            while self._forgotten:
                link.send(("forget", self._forgotten.popleft()))
            link.send(message)
        except (EOFError, OSError):
            self._died(link)
            raise Dead from None

    def _answer(self, asked: _Asked) -> Any:
        while (answer := self._arrived(asked)) is None:
            self._receive()
        fault, found = answer
        if fault is None:
            return found
        kind, message, hint = fault
        if kind in _OURS:
            raise _OURS[kind](message, hint=hint)
        raise AffidavitError(f"a worker met {kind}", hint="Without workers it shows: `unset AFFIDAVIT_WORKERS`")

    def _arrived(self, asked: _Asked) -> Answer | None:
        """The answer; None where it is for this thread to receive the next one. Raises ``Dead``."""
        with self._news:
            self._news.wait_for(lambda: asked.lost or asked.answer is not None or not self._receiving)
            if asked.answer is None and asked.lost:
                raise Dead
            self._receiving = self._receiving or asked.answer is None
            return asked.answer

    def _receive(self) -> None:
        """The next answer, whosever it is."""
        try:
            with self._news:
                first = self._waiting[0] if self._waiting else None
            if first is not None:
                try:
                    answer = first.link.receive()
                except (EOFError, OSError):
                    self._died(first.link)
                else:
                    with self._news:
                        first.answer = answer
                        with contextlib.suppress(ValueError):
                            self._waiting.remove(first)
        finally:
            with self._news:
                self._receiving = False
                self._news.notify_all()

    def _died(self, link: Link) -> None:
        """What was asked of it is lost."""
        with self._news:
            for asked in self._waiting:
                asked.lost = asked.lost or asked.link is link
            self._waiting = deque(asked for asked in self._waiting if not asked.lost)
            self._news.notify_all()
        with self._saying:
            if self._link is link:
                link.end()
                self._link = None
                self.life += 1


def _end(links: list[Link]) -> None:
    for link in links:
        link.end()
