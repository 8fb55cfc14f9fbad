"""How a batch is computed: by how many threads, by which kernels, together or row by row.

Threads and kernels are settings of the whole process, which anybody may change at any time. What was shown under one
setting says nothing about another, so a setting is put in force around each forward pass, and put back after it.
Imported where torch is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from affidavit.accountant.errors import AffidavitError

__all__ = ["Computing", "candidates"]


@dataclass(frozen=True, slots=True)
class Computing:
    """``threads`` of the processor; ``deterministic``: slower kernels of a GPU that repeat themselves; ``alone``: a
    row a batch."""

    threads: int
    deterministic: bool = False
    alone: bool = False

    @property
    def said(self) -> str:
        """In words, for receipts."""
        words = ["1 thread" if self.threads == 1 else f"{self.threads} threads"]
        words += ["deterministic kernels"] * self.deterministic + ["one row a batch"] * self.alone
        return ", ".join(words)

    @contextmanager
    def in_force(self, torch: Any) -> Iterator[None]:
        """Compute so, whatever the process is set to. Raises ``AffidavitError`` where it was changed meanwhile."""
        threads = torch.get_num_threads()
        if threads != self.threads:
            torch.set_num_threads(self.threads)
        try:
            with _repeatable(torch) if self.deterministic else _nothing():
                yield
            if torch.get_num_threads() != self.threads:
                raise AffidavitError(
                    "the number of torch's threads was changed while a row was computed",
                    hint="Set it before or after a run, never during it: `torch.set_num_threads(1)`",
                )
        finally:
            if threads != self.threads:
                torch.set_num_threads(threads)


def candidates(*, device: str, threads: int, coupled: bool) -> Iterator[Computing]:
    """Ways to compute, the fastest first. ``coupled``: rows of a batch are known to share capacity (experts)."""
    for alone in (True,) if coupled else (False, True):
        yield Computing(threads, alone=alone)
        if device != "cpu":
            yield Computing(threads, deterministic=True, alone=alone)
        elif threads > 1:
            yield Computing(1, alone=alone)


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _repeatable(torch: Any) -> Iterator[None]:
    """Deterministic algorithms; no attention by cuDNN, whose bfloat16 kernel repeats itself up to 128 places only."""
    cuda = torch.backends.cuda
    algorithms = torch.are_deterministic_algorithms_enabled()
    warning = torch.is_deterministic_algorithms_warn_only_enabled()
    attention = cuda.cudnn_sdp_enabled()
    torch.use_deterministic_algorithms(True)
    cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(algorithms, warn_only=warning)
        cuda.enable_cudnn_sdp(attention)
