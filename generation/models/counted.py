"""A model that counts what is asked of it.

One *call* is one evaluation of the model for one row: a prompt that is read, or a token appended to it. So
calls per released token compare methods whatever the batching. Text that a server writes by itself counts
as one call a prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from affidavit.generation.aggregate import OnDevice
from affidavit.generation.models.base import Decoding, Frame, LanguageModel, Logits, Template, TokenModel
from affidavit.generation.models.rows import BatchShape

if TYPE_CHECKING:
    import torch

__all__ = ["CountedModel"]


class CountedModel(TokenModel):
    """``model``, unchanged, with a count of ``calls``. Whatever else a back end offers is passed through."""

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self.calls = 0
        self.name = model.name
        self.digest = model.digest
        self.vocabulary_size = model.vocabulary_size
        self.stop_tokens = model.stop_tokens
        self.context_length = model.context_length
        self.versions = model.versions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def frame(self, template: Template) -> Frame:
        return self._model.frame(template)

    def encode(self, text: str, *, trusted: bool = False) -> list[int]:
        return self._model.encode(text, trusted=trusted)

    def decode(self, tokens: Sequence[int]) -> str:
        return self._model.decode(tokens)

    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> Decoding:
        self.calls += len(rows)
        return _counted(self, self._model.start(rows, width=width))

    def keep_apart(self, shapes: Iterable[BatchShape]) -> None:
        self._model.keep_apart(shapes)

    def start_apart(self, rows: Sequence[Sequence[int]], *, width: int, steps: int) -> Decoding:
        self.calls += len(rows)
        return _counted(self, self._model.start_apart(rows, width=width, steps=steps))

    def generate(self, prompts: Sequence[str], *, max_tokens: int, template: Template = "plain") -> list[str]:
        if isinstance(self._model, TokenModel):
            return super().generate(prompts, max_tokens=max_tokens, template=template)
        self.calls += len(prompts)
        return self._model.generate(prompts, max_tokens=max_tokens, template=template)

    def log_likelihoods(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[float]:
        self.calls += len(prompts)
        return self._model.log_likelihoods(prompts, continuations)

    def choice_log_likelihoods(self, prompts: Sequence[str], choices: Sequence[str]) -> NDArray[np.float64]:
        self.calls += len(prompts)
        return self._model.choice_log_likelihoods(prompts, choices)


def _counted(model: CountedModel, decoding: Decoding) -> Decoding:
    if isinstance(decoding, OnDevice):
        return _CountedOnDevice(model, decoding)
    return _CountedDecoding(model, decoding)


class _CountedDecoding:
    def __init__(self, model: CountedModel, decoding: Decoding) -> None:
        self._model = model
        self._decoding = decoding

    @property
    def logits(self) -> Logits:
        return self._decoding.logits

    def append(self, tokens: Sequence[int]) -> None:
        self._model.calls += len(tokens)
        self._decoding.append(tokens)


class _CountedOnDevice(_CountedDecoding):
    """The same over logits that stay where they were computed."""

    @property
    def device_logits(self) -> torch.Tensor:
        return cast("OnDevice", self._decoding).device_logits
