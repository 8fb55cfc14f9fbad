"""Private rows computed by several workers, on this machine or, through Ray, on others: they add up, and cannot draw.

A worker has a model and rows, no permit, no noise and no ledger. It clips its rows, puts them on the grid and adds them
up by the very functions that add rows up in one process (``batches.PrivateRows.added``); whoever holds the permit adds
the workers' whole numbers, and draws, once. So a worker that dies, and whose rows another one computes again, changes
neither what is charged nor what is drawn: its sum goes into a draw that has not been made. It is the same sum, since
rows are computed in the same batches by the same kernels, which repeat themselves to the last bit (``keep_apart`` is
asked of every worker).

Texts that may be drawn in any order are written side by side, each with all its prompts at one worker (``one_place``);
there are two for each, so that a worker computes while another text is drawn. Else a text's minibatches are spread, and
each stays with one worker, with its cache. What a worker does is ``worker``, who it is ``member``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import NotSupported, UsageError
from affidavit.generation.models.base import Decoding, LanguageModel, Logits, Spread
from affidavit.generation.models.counted import CountedModel
from affidavit.generation.models.member import Dead, LinkKind, Member
from affidavit.generation.models.process_link import ProcessLink
from affidavit.generation.models.ray_link import RayLink
from affidavit.generation.models.rows import BatchShape

if TYPE_CHECKING:
    from affidavit.generation.aggregate import Added, Measure

__all__ = ["PooledModel", "workers_wanted"]

TEXTS_A_WORKER = 2


def workers_wanted() -> tuple[int, LinkKind]:
    """How many workers ``AFFIDAVIT_WORKERS`` asks for, 0 for none, and how they are reached. Raises ``UsageError``."""
    named = os.environ.get("AFFIDAVIT_WORKERS", "0")
    count = named.removeprefix("ray:")
    if not count.isdecimal():
        raise UsageError(
            "AFFIDAVIT_WORKERS is a number of processes, or ray: with a number",
            hint="Such as `export AFFIDAVIT_WORKERS=2`, or `unset AFFIDAVIT_WORKERS`.",
        )
    return int(count), RayLink if count != named else ProcessLink


class PooledModel(CountedModel, Spread):
    """``model``, with its private rows computed by ``workers`` workers that load it as ``load`` says.

    ``load``: the arguments of ``load_model``. Other rows and all text are computed here, but for the public prompt of a
    text that is written in ``one_place``.
    """

    def __init__(self, model: Any, *, load: dict[str, Any], workers: int, link: LinkKind = ProcessLink) -> None:
        super().__init__(model)
        self.together = TEXTS_A_WORKER * workers
        self._said = f"{workers} {link.kind}"
        self._workers = [Member(partial(link, load, workers, number)) for number in range(workers)]
        self._turns = itertools.cycle(self._workers)
        self._texts = threading.Lock()

    def keep_apart(self, shapes: Iterable[BatchShape]) -> None:
        """As of the model, in every worker; they load and try it side by side.

        The receipt's evidence is the workers'. Raises ``NotSupported`` too where a worker has other weights.
        """
        asked = list(shapes)
        for worker in self._workers:
            with contextlib.suppress(Dead):
                worker.tell("keep_apart", asked)
        found = [worker.insist(partial(_ready, worker)) for worker in self._workers]
        if any(digest != self.digest for digest, _ in found):
            raise NotSupported(
                f"a worker's weights of {self.name} are not those that are certified",
                hint="Copy the model's folder to every machine, or `unset AFFIDAVIT_WORKERS`",
            )
        rows = dict.fromkeys(str(versions["rows"]) for _, versions in found)
        self.versions["rows"] = f"{'; '.join(rows)}; in each of {self._said}"
        self.versions["workers"] = self._said

    def encode(self, text: str, *, trusted: bool = False) -> list[int]:
        with self._texts:  # tokenizers are not for several threads
            return super().encode(text, trusted=trusted)

    def decode(self, tokens: Sequence[int]) -> str:
        with self._texts:
            return super().decode(tokens)

    def one_place(self) -> LanguageModel:
        """The next worker, for the private and the public rows of one text."""
        with self._texts:
            return _AtOne(self, next(self._turns))

    def start_apart(self, rows: Sequence[Sequence[int]], *, width: int, steps: int) -> Decoding:
        """As of the model, by the next worker."""
        self.calls += len(rows)
        return _Away(next(self._turns), [list(row) for row in rows], width, steps)

    @property
    def pids(self) -> tuple[int, ...]:
        """Of the workers that were started."""
        return tuple(worker.pid for worker in self._workers if worker.pid)


def _ready(worker: Member) -> Any:
    return worker.post("ready")()


class _AtOne(CountedModel):
    """The model as one worker has it."""

    def __init__(self, model: PooledModel, worker: Member) -> None:
        super().__init__(model)
        self._worker = worker

    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> Decoding:
        return _Away(self._worker, [list(row) for row in rows], width, None)

    def start_apart(self, rows: Sequence[Sequence[int]], *, width: int, steps: int) -> Decoding:
        return _Away(self._worker, [list(row) for row in rows], width, steps)


class _Away:
    """A minibatch that a worker computes (``aggregate.Elsewhere``); given to a new one where it dies.

    ``steps`` is None for public rows. It belongs to one thread.
    """

    def __init__(self, worker: Member, rows: list[list[int]], width: int, steps: int | None) -> None:
        self._worker = worker
        self._begun = (rows, width, steps)
        self._appended: list[list[int]] = []
        self._number = worker.number()
        self._life = -1
        self._logits: Logits | None = None
        with contextlib.suppress(Dead):
            self._there()
        weakref.finalize(self, worker.forget, self._number)

    @property
    def place(self) -> object:
        return self._worker

    @property
    def logits(self) -> Logits:
        if self._logits is None:
            self._logits = self._asked([self], "logits", self._number)()
        return cast("Logits", self._logits)

    def picked(self, tokens: NDArray[np.int64], *, rows: int) -> Logits:
        if self._logits is not None:
            return self._logits[:rows, tokens]
        found: Logits = self._asked([self], "picked", self._number, tokens, rows)()
        return found

    def adding(self, parts: Sequence[tuple[Decoding, int]], measure: Measure) -> Callable[[], Added]:
        held = [(cast("_Away", part), realised) for part, realised in parts]
        numbers = [(part._number, realised) for part, realised in held]
        return self._asked([part for part, _ in held], "added", numbers, measure)

    def append(self, tokens: Sequence[int]) -> None:
        self._appended.append(list(tokens))
        self._logits = None
        if self._life == self._worker.life:
            with contextlib.suppress(Dead):
                self._worker.tell("append", self._number, self._appended[-1], life=self._life)

    def _asked(self, parts: Sequence[_Away], command: str, *given: Any) -> Callable[[], Any]:
        """Ask for something of ``parts``, which are all there; its answer, of another worker where one dies over it."""

        def ask() -> Callable[[], Any]:
            for part in parts:
                part._there()
            return self._worker.post(command, *given, life=self._life)

        asked: Callable[[], Any] | None = None
        with contextlib.suppress(Dead):
            asked = ask()

        def answer() -> Any:
            nonlocal asked
            first, asked = asked, None
            return (first or ask())()

        return lambda: self._worker.insist(answer)

    def _there(self) -> None:
        """All of it, from the beginning, in the worker that lives now, unless it is there. Raises ``Dead``."""
        life = self._worker.revive()
        if life != self._life:
            self._life = life
            self._worker.tell("start", self._number, *self._begun, life=life)
            for tokens in self._appended:
                self._worker.tell("append", self._number, tokens, life=life)
