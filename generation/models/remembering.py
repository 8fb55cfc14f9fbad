"""A model that remembers the logits of rows: thousands of audited trials for the price of a few.

The clean output of a private row does not depend on the trial: what differs from trial to trial is who is
in, and the noise. A row's logits are a function of its tokens, the number of rows and the width alone
(``Decoding``), so a row that was computed once among so many rows need never be computed again; only the
private step, sum and draw, runs anew. Nothing is approximated: what is remembered is the row, bit for bit.

For audits. In production a row is met once, and the memory would hold private logits for nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import UsageError
from affidavit.generation.models.base import Decoding, Frame, LanguageModel, Logits, Template
from affidavit.generation.models.rows import BatchShape

__all__ = ["RememberingModel"]

_Key: TypeAlias = tuple[int, int, bool, tuple[int, ...], tuple[int, ...]]
"""Rows in the batch, its width, whether they are kept apart, the row's tokens at the start, and those appended."""

MOST_ROWS = 2048
"""Of 49,152 float32 logits each: 400 MB."""


class RememberingModel:
    """``model``, with the logits of its last ``most_rows`` distinct rows at hand.

    ``asked`` rows were wanted so far, ``computed`` of them by the model.
    """

    def __init__(self, model: LanguageModel, *, most_rows: int = MOST_ROWS) -> None:
        if most_rows < 1:
            raise UsageError(f"a memory of {most_rows} rows", hint="At least `most_rows = 1`.")
        self.model = model
        self.name = model.name
        self.digest = model.digest
        self.vocabulary_size = model.vocabulary_size
        self.stop_tokens = model.stop_tokens
        self.context_length = model.context_length
        self.versions = model.versions
        self.asked = 0
        self.computed = 0
        self._most_rows = most_rows
        self._rows: OrderedDict[_Key, Logits] = OrderedDict()

    def frame(self, template: Template) -> Frame:
        """The model's."""
        return self.model.frame(template)

    def encode(self, text: str, *, trusted: bool = False) -> list[int]:
        """The model's."""
        return self.model.encode(text, trusted=trusted)

    def decode(self, tokens: Sequence[int]) -> str:
        """The model's."""
        return self.model.decode(tokens)

    def generate(self, prompts: Sequence[str], *, max_tokens: int, template: Template = "plain") -> list[str]:
        """The model's, not remembered: ``affidavit.audits`` remembers answers."""
        return self.model.generate(prompts, max_tokens=max_tokens, template=template)

    def log_likelihoods(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[float]:
        """The model's."""
        return self.model.log_likelihoods(prompts, continuations)

    def choice_log_likelihoods(self, prompts: Sequence[str], choices: Sequence[str]) -> NDArray[np.float64]:
        """The model's."""
        return self.model.choice_log_likelihoods(prompts, choices)

    def continuations(self, prompts: Sequence[str], *, max_tokens: int, stop: str) -> list[str]:
        """The model's."""
        return self.model.continuations(prompts, max_tokens=max_tokens, stop=stop)

    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> Decoding:
        """As the model's, computed when the logits are asked for. Raises ``UsageError`` on a longer row."""
        return self._recalled(rows, width, None)

    def keep_apart(self, shapes: Iterable[BatchShape]) -> None:
        """The model's."""
        self.model.keep_apart(shapes)

    def start_apart(self, rows: Sequence[Sequence[int]], *, width: int, steps: int) -> Decoding:
        """As the model's, computed when the logits are asked for. Raises ``UsageError`` on a longer row."""
        return self._recalled(rows, width, steps)

    def _recalled(self, rows: Sequence[Sequence[int]], width: int, steps: int | None) -> Decoding:
        if any(not 0 < len(row) <= width for row in rows):
            raise UsageError("a row is empty or longer than the width of its batch", hint="Cut or widen the rows.")
        return _Recalled(self, [tuple(row) for row in rows], width, steps)

    def recalled(self, key: _Key) -> Logits | None:
        """A row's logits, if they are at hand."""
        self.asked += 1
        found = self._rows.get(key)
        if found is not None:
            self._rows.move_to_end(key)
        return found

    def remember(self, key: _Key, logits: Logits) -> None:
        """Keep a row that was computed; the row not used for longest goes."""
        self.computed += 1
        self._rows[key] = logits
        if len(self._rows) > self._most_rows:
            self._rows.popitem(last=False)


class _Recalled:
    """A batch whose missing rows are computed together, among as many rows as the batch has."""

    def __init__(self, owner: RememberingModel, rows: list[tuple[int, ...]], width: int, steps: int | None) -> None:
        self._steps = steps
        self._owner = owner
        self._rows = rows
        self._width = width
        self._appended: list[tuple[int, ...]] = [()] * len(rows)
        self._live: tuple[Decoding, list[int], int] | None = None

    @property
    def logits(self) -> Logits:
        keys = [
            (len(self._rows), self._width, self._steps is not None, row, answer)
            for row, answer in zip(self._rows, self._appended, strict=True)
        ]
        found = {key: self._owner.recalled(key) for key in dict.fromkeys(keys)}
        missing = [keys.index(key) for key, logits in found.items() if logits is None]
        if missing:
            computed = self._compute(missing)
            for index, logits in zip(missing, computed, strict=True):
                found[keys[index]] = logits
                self._owner.remember(keys[index], logits)
        stacked: list[Logits] = [logits for logits in (found[key] for key in keys) if logits is not None]
        return np.stack(stacked)

    def append(self, tokens: Sequence[int]) -> None:
        self._appended = [(*answer, int(token)) for answer, token in zip(self._appended, tokens, strict=True)]

    def _started(self, rows: list[tuple[int, ...]]) -> Decoding:
        if self._steps is None:
            return self._owner.model.start(rows, width=self._width)
        return self._owner.model.start_apart(rows, width=self._width, steps=self._steps)

    def _compute(self, missing: list[int]) -> list[Logits]:
        """Start with the missing rows, in a full batch, unless a batch that holds them all is decoding already."""
        if self._live is None or not set(missing) <= set(self._live[1]):
            filled = [*missing, *[missing[0]] * (len(self._rows) - len(missing))]
            decoding = self._started([self._rows[index] for index in filled])
            self._live = (decoding, filled, 0)
        decoding, filled, done = self._live
        for step in range(done, len(self._appended[0])):
            decoding.append([self._appended[index][step] for index in filled])
        self._live = (decoding, filled, len(self._appended[0]))
        logits = decoding.logits
        return [logits[filled.index(index)].copy() for index in missing]
