"""The fastest way to compute batches in which rows stay apart: found by trying, on this machine, for each shape.

``RowKeeper`` tries the ways of ``computing`` in turn: as the process is set, with one thread or deterministic kernels,
a row a batch. What is found is remembered under everything that may decide which kernels compute a row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from affidavit.generation.models.base import moved_rows
from affidavit.generation.models.computing import Computing, candidates
from affidavit.generation.models.digests import folder_digest
from affidavit.generation.models.row_memory import kernel_settings, recall, remember
from affidavit.generation.models.rows import BatchShape, RowEvidence, rows_stay_apart

if TYPE_CHECKING:
    from affidavit.generation.models.base import Decoding

__all__ = ["RowKeeper"]

Started: TypeAlias = "Callable[[Sequence[Sequence[int]], int, Computing], Decoding]"
"""Prefill of rows, padded to a width, computed in a way."""

_ALONE = 3
"""Rows by which a way is tried that computes one row a batch: the others would be batches of the same shape."""


class RowKeeper:
    """For one loaded model. ``facts``: what is particular to it; ``place``: its dtype and device, for receipts."""

    def __init__(
        self,
        torch: Any,
        started: Started,
        *,
        name: str,
        device: str,
        place: str,
        vocabulary: int,
        coupled: bool,
        facts: Mapping[str, object],
    ) -> None:
        here = Path(__file__).parent
        self._torch = torch
        self._started = started
        self._name = name
        self._device = device
        self._place = place
        self._vocabulary = vocabulary
        self._coupled = coupled
        self._facts = {
            **facts,
            "place": place,
            "code": folder_digest(here.glob("*.py"), base=here),
            "numpy": np.__version__,
            "cuda": [torch.version.cuda, torch.backends.cudnn.version()],
            "capability": torch.backends.cpu.get_cpu_capability(),
        }
        self._known: dict[str, tuple[int, Computing]] = {}

    def evidence(self, shape: BatchShape) -> RowEvidence:
        """What a receipt says about batches of ``shape``. Raises ``NotSupported``."""
        return RowEvidence(shape, f"{self._place}, {self.way(shape).said}")

    def way(self, shape: BatchShape) -> Computing:
        """How to compute batches of ``shape``. Raises ``NotSupported`` where no way keeps rows apart."""
        facts = self._now()
        key = json.dumps([facts, shape.rows, shape.width])
        known = self._known.get(key)
        if known is not None and known[0] >= shape.steps:
            return known[1]
        found = recall(facts, shape)
        if found is None:
            found = self._tried(shape)
            remember(facts, shape, found)
        self._known[key] = (shape.steps, found)
        return found

    def _tried(self, shape: BatchShape) -> Computing:
        threads = self._torch.get_num_threads()
        for way in candidates(device=self._device, threads=threads, coupled=self._coupled):
            if self._sound(way, shape):
                return way
        hint = "" if self._device == "cpu" else "Generate on the processor: `unset AFFIDAVIT_DEVICE`"
        raise moved_rows(self._name, where=self._place.partition(" on ")[2], hint=hint)

    def _sound(self, way: Computing, shape: BatchShape) -> bool:
        rows = min(shape.rows, _ALONE) if way.alone else shape.rows

        def start(prompts: Sequence[Sequence[int]], width: int) -> Decoding:
            return self._started(prompts, width, way)

        return rows_stay_apart(start, BatchShape(rows, shape.width, shape.steps), vocabulary=self._vocabulary)

    def _now(self) -> dict[str, object]:
        """What the process may be set to otherwise than when the model was loaded, beside what is fixed."""
        torch = self._torch
        return {
            **self._facts,
            "threads": torch.get_num_threads(),
            "precision": torch.get_float32_matmul_precision(),
            "mkldnn": torch.backends.mkldnn.enabled,
            "autocast": torch.is_autocast_enabled(self._device),
            "environment": kernel_settings(),
        }
