"""Prompts that grow over the cache of a ``TransformersModel``: one prefill, then one step a token."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from affidavit.generation.models.base import Logits
from affidavit.generation.models.computing import Computing
from affidavit.generation.models.prefills import ReadRow

if TYPE_CHECKING:
    import torch
    from transformers.cache_utils import Cache

    from affidavit.generation.models.replayed import Replayed, Steps
    from affidavit.generation.models.transformers_model import TransformersModel

__all__ = ["CachedDecoding", "OnDeviceDecoding", "SharedPrefix"]


class SharedPrefix:
    """The cache of tokens that many rows begin with."""

    def __init__(self, model: TransformersModel, tokens: Sequence[int]) -> None:
        from affidavit.generation.models.cache import roomy_cache

        self._owner = model
        self._length = len(tokens)
        self._cache = roomy_cache()
        ids, mask, positions = model.padded([tokens], len(tokens))
        with model.torch.inference_mode():
            model.forward(ids, mask, positions, cache=self._cache, keep=1)

    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> CachedDecoding:
        from affidavit.generation.models.cache import widened

        return CachedDecoding(self._owner, rows, width, cache=widened(self._cache, len(rows)), before=self._length)


class CachedDecoding:
    """One prefill, then one cached step a token. ``cache`` may hold ``before`` tokens of every row already.

    ``kept``: what such a prefill of each row left (``read_rows``), so that there is none.
    ``way``: how private rows were shown to stay apart; what is public is computed as the process is set.
    """

    def __init__(
        self,
        model: TransformersModel,
        rows: Sequence[Sequence[int]],
        width: int,
        *,
        cache: Cache | None = None,
        before: int = 0,
        way: Computing | None = None,
        kept: Sequence[ReadRow] = (),
    ) -> None:
        from affidavit.generation.models.cache import roomy_cache

        self._owner = model
        self._way = way
        self._cache = roomy_cache() if cache is None else cache
        # One column that no row fills: where every row is as wide as the batch, transformers drops the mask and takes
        # another attention kernel, so that one shorter record would move the bits of all other rows.
        ids, mask, positions = model.padded(rows, width + 1)
        positions = positions + before
        self._mask = mask if not before else model.torch.cat([mask.new_ones(len(rows), before), mask], dim=1)
        self._next = positions[:, -1:] + 1
        if kept:
            self._recall(kept)
        else:
            self._step(ids, positions)

    def _step(self, ids: torch.Tensor, positions: torch.Tensor) -> None:
        model = self._owner
        held = nullcontext() if self._way is None else self._way.in_force(model.torch)
        with held, model.torch.inference_mode():
            logits = model.forward(ids, self._mask, positions, cache=self._cache, keep=1)
            self._logits = logits[:, -1].float()

    def read_rows(self, count: int) -> list[ReadRow]:
        """What the prefill left of each of the first ``count`` rows."""
        torch = self._owner.torch
        layers: list[Any] = list(self._cache.layers)
        return [
            ReadRow(
                torch.stack([torch.stack([layer.keys[row], layer.values[row]]) for layer in layers]), logits.clone()
            )
            for row, logits in enumerate(self._logits[:count])
        ]

    def _recall(self, kept: Sequence[ReadRow]) -> None:
        torch = self._owner.torch
        with torch.inference_mode():
            for layer in range(kept[0].states.shape[0]):
                keys, values = (torch.stack([row.states[layer, side] for row in kept]) for side in (0, 1))
                self._cache.update(keys, values, layer)
            self._logits = torch.stack([row.logits for row in kept])

    @property
    def logits(self) -> Logits:
        return cast("Logits", self._logits.cpu().numpy())

    def scores(self) -> NDArray[np.float64]:
        """ln P of every next token, shape (rows, vocabulary)."""
        return cast("NDArray[np.float64]", self._owner.torch.log_softmax(self._logits.double(), dim=-1).cpu().numpy())

    def follow(self, answers: Sequence[Sequence[int]]) -> NDArray[np.float64]:
        """ln P of each answer's tokens after its first, shape (rows, answers). The decoding stays where it is."""
        from affidavit.generation.models.cache import widened

        torch = self._owner.torch
        rows, count, length = self._mask.shape[0], len(answers), max(map(len, answers)) - 1
        fed = np.zeros((count, length), dtype=np.int64)
        expected = np.zeros((count, length), dtype=np.int64)
        counted = np.zeros((count, length), dtype=np.float64)
        for index, answer in enumerate(answers):
            fed[index, : len(answer) - 1] = answer[:-1]
            expected[index, : len(answer) - 1] = answer[1:]
            counted[index, : len(answer) - 1] = 1.0
        ids = self._owner.placed(np.tile(fed, (rows, 1)))
        mask = torch.cat([self._mask.repeat_interleave(count, dim=0), torch.ones_like(ids)], dim=1)
        positions = self._next.repeat_interleave(count, dim=0) + torch.arange(length, device=ids.device)
        with torch.inference_mode():
            cache = widened(self._cache, count)
            logits = self._owner.forward(ids, mask, positions, cache=cache, keep=length).double()
            scores = torch.log_softmax(logits, dim=-1)
        places = self._owner.placed(np.tile(expected, (rows, 1))).unsqueeze(-1)
        picked = scores.gather(-1, places).squeeze(-1).cpu().numpy().reshape(rows, count, length)
        return cast("NDArray[np.float64]", (picked * counted).sum(axis=-1))

    def append(self, tokens: Sequence[int]) -> None:
        torch = self._owner.torch
        ids = torch.tensor(tokens, dtype=torch.long, device=self._owner.device).reshape(-1, 1)
        self._mask = torch.cat([self._mask, torch.ones_like(ids)], dim=1)
        self._step(ids, self._next)
        self._next = self._next + 1


class OnDeviceDecoding(CachedDecoding):
    """The same on an accelerator, where the logits stay until they are asked for."""

    @property
    def device_logits(self) -> torch.Tensor:
        return self._logits

    def replayed(self, steps: Steps) -> Replayed:
        """Go on by recorded steps."""
        from affidavit.generation.models.replayed import Replayed

        return Replayed(steps, self._cache, mask=self._mask, after=self._next, logits=self._logits)
