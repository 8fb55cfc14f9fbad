"""Private rows computed by several workers, on this machine or, through Ray, on others: they give logits alone.

A worker has a model and rows, no permit, no noise and no ledger: it cannot draw. Whoever holds the permit adds up
what the workers give, and draws, once. So a worker that dies, and whose rows another one computes again, changes
neither what is charged nor what is drawn: its logits go into a draw that has not been made. They are the same logits,
since rows are computed in the same batches by the same kernels, which repeat themselves to the last bit (``keep_apart``
is asked of every worker). A minibatch stays with one worker, with its cache.

What a worker does is ``worker``; how it is reached is a ``Link``: a pipe to a process, or sealed messages to an actor.
Neither does anything twice by itself: what is done again is asked for here.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

from affidavit.accountant.errors import AffidavitError, NotSupported, UsageError
from affidavit.generation.models.base import Decoding, Logits
from affidavit.generation.models.counted import CountedModel
from affidavit.generation.models.process_link import ProcessLink
from affidavit.generation.models.ray_link import RayLink
from affidavit.generation.models.rows import BatchShape
from affidavit.generation.models.worker import Answer

__all__ = ["Link", "PooledModel", "workers_wanted"]

MOST_DEATHS = 3
"""What workers died over so often is not given to another one: something in it kills them."""


_OURS = {kind.__name__: kind for kind in (AffidavitError, NotSupported, UsageError)}
"""Errors that a worker may pass on; their words hold no private text."""


class Link(Protocol):
    """One worker and the way to it.

    ``send`` and ``receive`` raise ``EOFError`` or ``OSError`` where the worker has ended; what is answered
    (``worker.ANSWERED``) is received before more is sent.
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


def workers_wanted() -> tuple[int, LinkKind]:
    """How many workers ``AFFIDAVIT_WORKERS`` asks for, 0 for none, and how they are reached. Raises ``UsageError``."""
    named = os.environ.get("AFFIDAVIT_WORKERS", "0")
    count = named.removeprefix("ray:")
    through_ray = count != named
    on_gpu = os.environ.get("AFFIDAVIT_DEVICE", "cpu") != "cpu"
    if not count.isdecimal() or (int(count) and on_gpu and not through_ray):
        raise UsageError(
            "AFFIDAVIT_WORKERS is a number of processes, which compute on the processor, or ray: with a number",
            hint="Such as `export AFFIDAVIT_WORKERS=2` with `unset AFFIDAVIT_DEVICE`, or `unset AFFIDAVIT_WORKERS`.",
        )
    return int(count), RayLink if through_ray else ProcessLink


class PooledModel(CountedModel):
    """``model``, with its private rows computed by ``workers`` workers that load it as ``load`` says.

    ``load``: the arguments of ``load_model``. Public rows and all text are computed here.
    """

    def __init__(self, model: Any, *, load: dict[str, Any], workers: int, link: LinkKind = ProcessLink) -> None:
        super().__init__(model)
        self._said = f"{workers} {link.kind}"
        self._workers = [_Member(lambda: link(load, workers)) for _ in range(workers)]
        self._turns = itertools.cycle(self._workers)

    def keep_apart(self, shapes: Iterable[BatchShape]) -> None:
        """As of the model, here and in every worker; they load and try it side by side.

        The receipt's evidence is the workers'. Raises ``NotSupported`` too where a worker has other weights.
        """
        asked = list(shapes)
        for worker in self._workers:
            with contextlib.suppress(_Dead):
                worker.tell("keep_apart", asked)
        super().keep_apart(asked)
        found = [worker.insist(partial(worker.ask, "ready")) for worker in self._workers]
        if any(digest != self.digest for digest, _ in found):
            raise NotSupported(
                f"a worker's weights of {self.name} are not those that are certified",
                hint="Copy the model's folder to every machine, or `unset AFFIDAVIT_WORKERS`",
            )
        rows = dict.fromkeys(str(versions["rows"]) for _, versions in found)
        self.versions["rows"] = f"{'; '.join(rows)}; in each of {self._said}"
        self.versions["workers"] = self._said

    def start_apart(self, rows: Sequence[Sequence[int]], *, width: int, steps: int) -> Decoding:
        """As of the model, by the next worker."""
        self.calls += len(rows)
        return _Away(next(self._turns), [list(row) for row in rows], width, steps)

    @property
    def pids(self) -> tuple[int, ...]:
        """Of the workers that were started."""
        return tuple(worker.pid for worker in self._workers if worker.pid)


class _Away:
    """A minibatch that a worker computes; given to a new one where it dies."""

    def __init__(self, worker: _Member, rows: list[list[int]], width: int, steps: int) -> None:
        self._worker = worker
        self._begun = (rows, width, steps)
        self._appended: list[list[int]] = []
        self._number = worker.number()
        self._life = -1
        self._again()
        weakref.finalize(self, worker.forget, self._number)

    @property
    def logits(self) -> Logits:
        logits: Logits = self._worker.insist(self._asked)
        return logits

    def _asked(self) -> Any:
        if self._life != self._worker.life:
            self._again()
        return self._worker.ask("logits", self._number)

    def append(self, tokens: Sequence[int]) -> None:
        self._appended.append(list(tokens))
        with contextlib.suppress(_Dead):
            if self._life == self._worker.life:
                self._worker.tell("append", self._number, self._appended[-1])

    def _again(self) -> None:
        """All of it, from the beginning, in the worker that lives now."""
        self._life = self._worker.revive()
        with contextlib.suppress(_Dead):
            self._worker.tell("start", self._number, *self._begun)
            for tokens in self._appended:
                self._worker.tell("append", self._number, tokens)


class _Dead(Exception):
    """The worker's process has ended."""


class _Member:
    """A place in the pool: one worker after another, each begun where the one before has died."""

    def __init__(self, begin: Callable[[], Link]) -> None:
        self._begin = begin
        self._numbers = itertools.count()
        self._link: Link | None = None
        self._apart: tuple[Any, ...] | None = None
        self.life = 0
        """Goes up with every death and every birth."""
        self._kept: list[Link] = []
        weakref.finalize(self, _end, self._kept)

    def number(self) -> int:
        """A name for one more minibatch."""
        return next(self._numbers)

    @property
    def pid(self) -> int:
        """Of the process, 0 where there is none yet."""
        return 0 if self._link is None else self._link.pid

    def revive(self) -> int:
        """A worker that lives; which one it is."""
        if self._link is None or not self._link.alive:
            self._link = self._begin()
            self.life += 1
            self._kept[:] = [self._link]
            if self._apart is not None:
                with contextlib.suppress(_Dead):
                    self.tell(*self._apart)
        return self.life

    def insist(self, ask: Callable[[], Any]) -> Any:
        """What ``ask`` gives, of another worker where one dies over it. Raises ``AffidavitError``."""
        for _ in range(MOST_DEATHS):
            with contextlib.suppress(_Dead):
                self.revive()
                return ask()
        raise AffidavitError(
            f"{MOST_DEATHS} workers died, one after another",
            hint="Without workers, after what stopped: `unset AFFIDAVIT_WORKERS`",
        )

    def tell(self, command: str, *given: Any) -> None:
        """Send a command that is not answered. Raises ``_Dead``."""
        if command == "keep_apart":
            self._apart = (command, *given)
            if self._link is None:
                self.revive()
                return
        self._send((command, *given))

    def ask(self, command: str, *given: Any) -> Any:
        """The answer to a command. Raises ``_Dead``, and what the worker met as an error of ours."""
        self._send((command, *given))
        try:
            fault, answer = self._link.receive()  # type: ignore[union-attr]  # it was sent through
        except (EOFError, OSError):
            raise self._died() from None
        if fault is None:
            return answer
        kind, message, hint = fault
        if kind in _OURS:
            raise _OURS[kind](message, hint=hint)
        raise AffidavitError(f"a worker met {kind}", hint="Without workers it shows: `unset AFFIDAVIT_WORKERS`")

    def forget(self, number: int) -> None:
        """A minibatch that nobody asks for any more."""
        with contextlib.suppress(_Dead):
            self._send(("forget", number))

    def _send(self, message: tuple[Any, ...]) -> None:
        if self._link is None:
            raise _Dead
        try:
            self._link.send(message)
        except (EOFError, OSError):
            raise self._died() from None

    def _died(self) -> _Dead:
        if self._link is not None:
            self._link.end()
            self._link = None
        self.life += 1
        return _Dead()


def _end(links: list[Link]) -> None:
    for link in links:
        link.end()
