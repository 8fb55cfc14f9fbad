"""Subsets as fixed-shape model input: prompts anew for every token, or kept in the model's cache.

A row's logits are a function of that row's tokens, the public width and the fixed number of rows of a minibatch. Rows
that no subset fills are dummy rows whose outcome is not used. How many minibatches run depends on the sample; what a
row computes does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from affidavit.generation.aggregate import picked

if TYPE_CHECKING:
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import Decoding, LanguageModel
    from affidavit.generation.probabilities import Support
    from affidavit.generation.prompts import PromptTemplate
    from affidavit.generation.shots import ShotRows

__all__ = ["CachedRows", "Encoded", "fresh_logits"]


class Encoded:
    """The records' tokens, each encoded once, when first shown."""

    def __init__(self, model: LanguageModel, records: Sequence[Record], template: PromptTemplate) -> None:
        self._model = model
        self._records = records
        self._template = template
        self._known: dict[int, tuple[int, ...]] = {}

    def __getitem__(self, place: int) -> tuple[int, ...]:
        if place not in self._known:
            self._known[place] = tuple(self._model.encode(self._template.written(self._records[place])))
        return self._known[place]

    def name(self, place: int) -> str:
        """What a place is called under the trace's key: its record's id, or its number where it is empty."""
        return self._records[place].id if place < len(self._records) else f"\0place {place}"

    def row(self, rows: ShotRows, places: Iterable[int]) -> tuple[int, ...]:
        """The prompt that shows the records at ``places``."""
        return rows.row([self[place] for place in places])


def fresh_logits(
    model: LanguageModel,
    rows: ShotRows,
    prompts: Sequence[Sequence[int]],
    *,
    generated: Sequence[int],
    minibatch_rows: int,
    tokens: Support,
) -> Iterator[NDArray[np.float32]]:
    """Logits of the next ``tokens`` of every prompt followed by ``generated``, by a prefill of all of it."""
    whole = [(*prompt, *generated) for prompt in prompts]
    width = rows.width + len(generated)
    for decoding, realised in _started(
        model, rows, whole, width=width, steps=1, generated=generated, minibatch_rows=minibatch_rows
    ):
        yield from picked(decoding, tokens, rows=realised)


class CachedRows:
    """Prompts that grow together, for at most ``max_tokens`` tokens: one prefill, then one step a token.

    ``logits`` gives those asked for.
    """

    def __init__(
        self,
        model: LanguageModel,
        rows: ShotRows,
        prompts: Sequence[Sequence[int]],
        *,
        minibatch_rows: int,
        max_tokens: int,
    ) -> None:
        self._minibatch_rows = minibatch_rows
        self._parts = _started(
            model,
            rows,
            list(prompts),
            width=rows.width,
            steps=max_tokens,
            generated=(),
            minibatch_rows=minibatch_rows,
        )

    def logits(self, chosen: Iterable[int], tokens: Support) -> Iterator[NDArray[np.float32]]:
        """Logits of the next ``tokens`` of the prompts at the given positions."""
        held: dict[int, NDArray[np.float32]] = {}
        for index in chosen:
            part, row = divmod(index, self._minibatch_rows)
            if part not in held:
                decoding, realised = self._parts[part]
                held[part] = picked(decoding, tokens, rows=realised)
            yield held[part][row]

    def append(self, token: int) -> None:
        """The same next token for every prompt."""
        for decoding, _ in self._parts:
            decoding.append([token] * self._minibatch_rows)


def _started(
    model: LanguageModel,
    rows: ShotRows,
    prompts: Sequence[Sequence[int]],
    *,
    width: int,
    steps: int,
    generated: Sequence[int],
    minibatch_rows: int,
) -> list[tuple[Decoding, int]]:
    """Prefilled minibatches of a fixed number of rows, and how many rows of each are real."""
    dummy = (*rows.row(()), *generated)
    parts = []
    for first in range(0, len(prompts), minibatch_rows):
        chosen = list(prompts[first : first + minibatch_rows])
        filled = chosen + [dummy] * (minibatch_rows - len(chosen))
        parts.append((model.start_apart(filled, width=width, steps=steps), len(chosen)))
    return parts
