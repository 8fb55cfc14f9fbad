"""What a worker does, wherever it runs: rows in, sums of whole numbers out. It has no permit, no noise and no ledger.

What is asked for is answered, in the order in which it was asked; what went wrong before waits for the next answer. Of
a fault only its kind goes back, unless it is one of ours, whose words hold no private text. A worker prints nothing:
its output goes nowhere.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from affidavit.accountant.errors import AffidavitError
from affidavit.generation.models.base import Decoding

if TYPE_CHECKING:
    from affidavit.generation.aggregate import Added, Measure

__all__ = ["ANSWERED", "Answer", "Fault", "Worker"]

Fault: TypeAlias = "tuple[str, str, str] | None"
"""An error's kind; message and hint of one of ours."""
Answer: TypeAlias = "tuple[Fault, Any]"

ANSWERED = frozenset({"ready", "logits", "picked", "added"})
"""Commands that are answered."""


class Worker:
    """A model that is loaded by the first command, as ``load`` says, and the minibatches that were begun.

    ``share``: so many workers share this machine's processor. ``device``: the GPU that is this worker's, as
    ``CUDA_VISIBLE_DEVICES`` names it; empty: whatever the process sees.
    """

    def __init__(self, load: dict[str, Any], share: int, device: str = "") -> None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        os.environ.pop("AFFIDAVIT_WORKERS", None)
        if device:
            os.environ["CUDA_VISIBLE_DEVICES"] = device  # nothing of CUDA was begun in this process
        self._load = load
        self._share = share
        self._model: Any = None
        self._begun: dict[int, tuple[Decoding, int]] = {}
        self._fault: Fault = None

    def answer(self, command: str, *given: Any) -> Answer | None:
        """Carry a command out; None where it is not answered."""
        found: Any = None
        try:
            found = self._carried_out(command, *given)
        except AffidavitError as error:
            self._fault = self._fault or (type(error).__name__, error.message, error.hint)
        except Exception as error:  # its words may be a record's
            self._fault = self._fault or (type(error).__name__, "", "")
        if command not in ANSWERED:
            return None
        fault, self._fault = self._fault, None
        return fault, found

    def _carried_out(self, command: str, *given: Any) -> Any:
        if self._model is None:
            self._model = self._loaded()
        match command:
            case "keep_apart":
                self._model.keep_apart(given[0])
            case "ready":
                return self._model.digest, dict(self._model.versions)
            case "start":
                number, rows, width, steps = given
                if steps is None:
                    decoding = self._model.start(rows, width=width)
                else:
                    decoding = self._model.start_apart(rows, width=width, steps=steps)
                self._begun[number] = decoding, len(rows)
            case "append":
                self._begun[given[0]][0].append(given[1])
            case "logits":
                return self._begun[given[0]][0].logits
            case "picked":
                from affidavit.generation.aggregate import picked

                number, tokens, rows = given
                return picked(self._begun[number][0], tokens, rows=rows)
            case "added":
                return self._added(*given)
            case "forget":
                self._begun.pop(given[0], None)
        return None

    def _added(self, parts: list[tuple[int, int]], measure: Measure) -> Added:
        """The sum over the first rows of minibatches, as short as all their rows might need."""
        from affidavit.generation.aggregate import Added, brought, grid_bound
        from affidavit.generation.batches import PrivateRows

        rows = PrivateRows.holding((self._begun[number][0], realised) for number, realised in parts)
        total = brought(rows.added(measure, vocabulary=self._model.vocabulary_size))
        most = grid_bound(measure.clip) * sum(self._begun[number][1] for number, _ in parts)
        return Added(total.astype(np.int32 if most < 1 << 31 else np.int64), rows.summed, rows.unsound)

    def _loaded(self) -> Any:
        from affidavit.generation.models import load_model

        base = self._load["base"]
        model = load_model(**{**self._load, "base": None if base is None else Path(base)})
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(max(1, (os.cpu_count() or 1) // self._share))
        return model
