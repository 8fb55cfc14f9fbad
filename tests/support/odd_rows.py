"""Private rows in batches of a shape that the records have a say in: so that one record moves the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from affidavit.generation import batches

__all__ = ["Longest", "Ragged", "WithPublic"]


class _OnePart(batches.PrivateRows):
    """All rows in one part, of a shape that ``shape`` takes from the records."""

    def __init__(self, model: Any, rows: Any, texts: Sequence[str], *, minibatch_rows: int, max_tokens: int) -> None:
        chosen = [rows.row(model.encode(text)) for text in texts] or [rows.row(())]
        chosen, width = self.shape(rows, chosen, minibatch_rows)
        self.truncated = self.summed = self._unsound = 0
        self._minibatch_rows = len(chosen)
        self._parts = [(model.start_apart(chosen, width=width, steps=max_tokens), len(texts))]

    def shape(self, rows: Any, chosen: list[Any], minibatch_rows: int) -> tuple[list[Any], int]:
        raise NotImplementedError


class Longest(_OnePart):
    """Padded to the longest record that is there."""

    def shape(self, rows: Any, chosen: list[Any], minibatch_rows: int) -> tuple[list[Any], int]:
        filled = [*chosen, *[rows.row(())] * (-len(chosen) % minibatch_rows)]
        return filled, max(map(len, filled))


class Ragged(_OnePart):
    """As many rows as there are records."""

    def shape(self, rows: Any, chosen: list[Any], minibatch_rows: int) -> tuple[list[Any], int]:  # noqa: ARG002
        return chosen, rows.width


class WithPublic(_OnePart):
    """The public row stands last in the private batch."""

    def shape(self, rows: Any, chosen: list[Any], minibatch_rows: int) -> tuple[list[Any], int]:  # noqa: ARG002
        return [*chosen, rows.public], max(rows.width, len(rows.public))
