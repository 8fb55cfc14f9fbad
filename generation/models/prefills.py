"""Rows that were read, kept: what an audit that releases from the same records again and again does not read again.

What a model computes of a private row, its logits and the keys and values under them, is a function of the row's
tokens, the number of rows and the width alone: that is what ``keep_apart`` shows. So of two batches that hold one row
both may begin with the same states, bit for bit, whichever rows stand beside it; sums, noise and draws are made anew.

For audits, in memory and until they end. In production a row is read once, and keeping it would hold private states
for nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    import torch

    from affidavit.generation.models.computing import Computing
    from affidavit.generation.models.transformers_decoding import CachedDecoding

__all__ = ["Prefills", "ReadRow", "keeping_prefills"]

_Key: TypeAlias = "tuple[int, int, Computing, tuple[int, ...]]"
"""Rows in the batch, its width, how it is computed, the row's tokens."""

MOST_BYTES = 1 << 30
"""SmolLM2's 60 few-shot prompts of 384 tokens take half of it."""


@dataclass(frozen=True, slots=True)
class ReadRow:
    """A row after its prefill: keys and values, (layers, 2, heads, tokens, width), and its next-token logits."""

    states: torch.Tensor = field(repr=False)
    logits: torch.Tensor = field(repr=False)

    @property
    def bytes(self) -> int:
        """What it holds in memory."""
        return int(self.states.nbytes + self.logits.nbytes)


class Read(Protocol):
    """Starts a batch of rows of one width, from what is ``kept`` of each of them, or by reading them."""

    def __call__(self, rows: Sequence[Sequence[int]], kept: Sequence[ReadRow], /) -> CachedDecoding: ...


@dataclass(slots=True)
class Prefills:
    """The rows read last, within ``most_bytes``. ``asked`` rows were started so far, ``computed`` of them read."""

    most_bytes: int = MOST_BYTES
    asked: int = field(default=0, init=False)
    computed: int = field(default=0, init=False)
    _held: int = field(default=0, init=False)
    _rows: OrderedDict[_Key, ReadRow] = field(default_factory=OrderedDict, init=False, repr=False)

    def start(self, rows: Sequence[Sequence[int]], *, width: int, way: Computing, read: Read) -> CachedDecoding:
        """A batch of ``rows``; those that are missing are read together, among as many rows as the batch has."""
        keys: list[_Key] = [(len(rows), width, way, tuple(row)) for row in rows]
        found = {key: self._rows[key] for key in keys if key in self._rows}
        missing = [key for key in dict.fromkeys(keys) if key not in found]
        self.asked += len(rows)
        self.computed += len(missing)
        if missing:
            filled = [key[-1] for key in missing] + [missing[0][-1]] * (len(rows) - len(missing))
            found |= zip(missing, read(filled, ()).read_rows(len(missing)), strict=True)
        for key, row in found.items():
            self._keep(key, row)
        return read(rows, [found[key] for key in keys])

    def _keep(self, key: _Key, row: ReadRow) -> None:
        """As the last used; those used longest ago go."""
        self._held += 0 if key in self._rows else row.bytes
        self._rows[key] = row
        self._rows.move_to_end(key)
        while self._held > self.most_bytes:
            self._held -= self._rows.popitem(last=False)[1].bytes


@runtime_checkable
class _Keeping(Protocol):
    def keeping_prefills(self) -> AbstractContextManager[Prefills]: ...


def keeping_prefills(model: object) -> AbstractContextManager[Prefills | None]:
    """Private rows that ``model`` reads meanwhile are kept, if it can keep them."""
    return model.keeping_prefills() if isinstance(model, _Keeping) else nullcontext()
