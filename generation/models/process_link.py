"""A worker in a process of this machine, on the other end of a pipe."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from multiprocessing.connection import Connection
from typing import Any

from affidavit.generation.models.places import accelerators
from affidavit.generation.models.worker import Answer, Worker

__all__ = ["ProcessLink"]


class ProcessLink:
    """See ``pooled.Link``. On GPUs the workers take this machine's in turn."""

    kind = "processes"

    def __init__(self, load: dict[str, Any], share: int, number: int = 0) -> None:
        context = multiprocessing.get_context("spawn")
        devices = accelerators()
        device = devices[number % len(devices)] if devices else ""
        self._pipe, far = context.Pipe()
        self._process = context.Process(target=_work, args=(far, load, share, device), daemon=True)
        self._process.start()
        far.close()

    @property
    def pid(self) -> int:
        return int(self._process.pid or 0)

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def send(self, message: tuple[Any, ...]) -> None:
        self._pipe.send(message)

    def receive(self) -> Answer:
        answer: Answer = self._pipe.recv()
        return answer

    def end(self) -> None:
        self._process.kill()
        self._process.join()


def _work(pipe: Connection, load: dict[str, Any], share: int, device: str) -> None:
    """A worker's life; it ends with the pipe, and not with a Ctrl-C, after which another would be begun."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = Worker(load, share, device)
    with contextlib.suppress(EOFError, OSError):
        while True:
            answer = worker.answer(*pipe.recv())
            if answer is not None:
                pipe.send(answer)
