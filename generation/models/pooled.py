"""Private rows computed by several processes of this machine: workers give logits, and nothing else.

A worker has a model and rows, no permit, no noise and no ledger: it cannot draw. Whoever holds the permit adds up
what the workers give, and draws, once. So a worker that dies, and whose rows another one computes again, changes
neither what is charged nor what is drawn: its logits go into a draw that has not been made. They are the same logits,
since rows are computed in the same batches by the same kernels, which repeat themselves to the last bit (``keep_apart``
is asked of every worker). A minibatch stays with one worker, with its cache.

Workers say nothing: their output goes nowhere, and of a fault only its kind comes back, unless it is one of ours, whose
words hold no private text.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import sys
import weakref
from collections.abc import Iterable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from affidavit.accountant.errors import AffidavitError, NotSupported, UsageError
from affidavit.generation.models.base import Decoding, Logits
from affidavit.generation.models.counted import CountedModel
from affidavit.generation.models.rows import BatchShape

__all__ = ["PooledModel", "workers_wanted"]

MOST_DEATHS = 3
"""A minibatch whose workers died so often is not given to another one: something in it kills them."""


_OURS = {kind.__name__: kind for kind in (AffidavitError, NotSupported, UsageError)}
"""Errors that a worker may pass on; their words hold no private text."""


def workers_wanted() -> int:
    """How many processes ``AFFIDAVIT_WORKERS`` asks for; 0 for none. Raises ``UsageError``."""
    named = os.environ.get("AFFIDAVIT_WORKERS", "0")
    if not named.isdecimal() or (int(named) and os.environ.get("AFFIDAVIT_DEVICE", "cpu") != "cpu"):
        raise UsageError(
            "AFFIDAVIT_WORKERS is a number of processes, which compute on the processor",
            hint="Such as `export AFFIDAVIT_WORKERS=2` with `unset AFFIDAVIT_DEVICE`, or `unset AFFIDAVIT_WORKERS`.",
        )
    return int(named)


class PooledModel(CountedModel):
    """``model``, with its private rows computed by ``workers`` processes that load it as ``load`` says.

    ``load``: the arguments of ``load_model``. Public rows and all text are computed here.
    """

    def __init__(self, model: Any, *, load: dict[str, Any], workers: int) -> None:
        super().__init__(model)
        self._workers = [_Worker(load, share=workers) for _ in range(workers)]
        self._turns = itertools.cycle(self._workers)

    def keep_apart(self, shapes: Iterable[BatchShape]) -> None:
        """As of the model, here and in every worker; they load and try it side by side."""
        asked = list(shapes)
        for worker in self._workers:
            worker.tell("keep_apart", asked)
        super().keep_apart(asked)
        for worker in self._workers:
            worker.ask("ready")
        self.versions["workers"] = f"{len(self._workers)} processes"

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

    def __init__(self, worker: _Worker, rows: list[list[int]], width: int, steps: int) -> None:
        self._worker = worker
        self._begun = (rows, width, steps)
        self._appended: list[list[int]] = []
        self._number = worker.number()
        self._life = -1
        self._again()
        weakref.finalize(self, worker.forget, self._number)

    @property
    def logits(self) -> Logits:
        for _ in range(MOST_DEATHS):
            with contextlib.suppress(_Dead):
                if self._life != self._worker.life:
                    self._again()
                logits: Logits = self._worker.ask("logits", self._number)
                return logits
        raise AffidavitError(
            f"{MOST_DEATHS} workers died over one minibatch",
            hint="Without workers, after what stopped: `unset AFFIDAVIT_WORKERS`",
        )

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


class _Worker:
    """One process after another, each begun where the one before has died."""

    def __init__(self, load: dict[str, Any], *, share: int) -> None:
        self._load = load
        self._share = share
        self._numbers = itertools.count()
        self._process: Any = None
        self._pipe: Connection | None = None
        self._apart: tuple[Any, ...] | None = None
        self.life = 0
        """Goes up with every death and every birth."""
        self._kept: list[Any] = []
        weakref.finalize(self, _end, self._kept)

    def number(self) -> int:
        """A name for one more minibatch."""
        return next(self._numbers)

    @property
    def pid(self) -> int:
        """Of the process, 0 where there is none yet."""
        return 0 if self._process is None else int(self._process.pid)

    def revive(self) -> int:
        """A process that lives; which one it is."""
        if self._process is None or not self._process.is_alive():
            context = multiprocessing.get_context("spawn")
            self._pipe, far = context.Pipe()
            self._process = context.Process(target=_work, args=(far, self._load, self._share), daemon=True)
            self._process.start()
            far.close()
            self.life += 1
            self._kept[:] = [self._process]
            if self._apart is not None:
                self.tell(*self._apart)
        return self.life

    def tell(self, command: str, *given: Any) -> None:
        """Send a command that is not answered. Raises ``_Dead``."""
        if command == "keep_apart":
            self._apart = (command, *given)
            if self._process is None:
                self.revive()
                return
        self._send((command, *given))

    def ask(self, command: str, *given: Any) -> Any:
        """The answer to a command. Raises ``_Dead``, and what the worker met as an error of ours."""
        self._send((command, *given))
        try:
            fault, answer = self._pipe.recv()  # type: ignore[union-attr]  # it was sent through
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
        if self._pipe is None:
            raise _Dead
        try:
            self._pipe.send(message)
        except OSError:
            raise self._died() from None

    def _died(self) -> _Dead:
        if self._process is not None:
            self._process.join()
            self._process = None
        self._pipe = None
        self.life += 1
        return _Dead()


def _end(processes: list[Any]) -> None:
    for process in processes:
        process.kill()


def _work(pipe: Connection, load: dict[str, Any], share: int) -> None:
    """A worker's life: rows in, logits out. It ends with the pipe."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.environ.pop("AFFIDAVIT_WORKERS", None)
    fault: tuple[str, str, str] | None = None
    begun: dict[int, Decoding] = {}
    model: Any = None
    with contextlib.suppress(EOFError, OSError, KeyboardInterrupt):
        while True:
            command, *given = pipe.recv()
            answer: Any = None
            try:
                if model is None:
                    model = _loaded(load, share)
                match command:
                    case "keep_apart":
                        model.keep_apart(given[0])
                    case "start":
                        number, rows, width, steps = given
                        begun[number] = model.start_apart(rows, width=width, steps=steps)
                    case "append":
                        begun[given[0]].append(given[1])
                    case "logits":
                        answer = begun[given[0]].logits
                    case "forget":
                        begun.pop(given[0], None)
            except AffidavitError as error:
                fault = fault or (type(error).__name__, error.message, error.hint)
            except Exception as error:  # its words may be a record's
                fault = fault or (type(error).__name__, "", "")
            if command in {"ready", "logits"}:
                pipe.send((fault, answer))
                fault = None


def _loaded(load: dict[str, Any], share: int) -> Any:
    from affidavit.generation.models import load_model

    model = load_model(**{**load, "base": None if load["base"] is None else Path(load["base"])})
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // share))
    return model
