"""Noise for a rehearsal: everyone is in every sample, in the order of the file, and mechanisms draw apart from samples.

What a leaf states holds given any sample, so the check may choose it: one that holds the changed record, as every
sample does here. Aligned by record, as ``AlignedNoise``: a record that is missing leaves the others where they stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.release.randomness import NoiseSource
from affidavit.aligned_noise import COIN, AlignedNoise

__all__ = ["ChosenNoise"]

_KEY = (0, 256, 32)
_MOST_PLACES = 1 << 31
"""Whole numbers below more than this are words for something that is drawn, not places or groups."""


class ChosenNoise(AlignedNoise):
    """See the module; arguments as of ``AlignedNoise``. ``single``: what the normal noise on a
    single number is, in deviations, instead of drawn; on vectors it then is 0. One history is as good as another: with
    0 later steps look at what the data are, and a large one lets every count pass."""

    def __init__(
        self, seed: int, *, held: int, size: int, removed: int | None = None, single: float | None = None
    ) -> None:
        super().__init__(seed, held=held, size=size, removed=removed)
        self._single = single
        self._drawing = 0
        self._inside = False

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """What is drawn inside is a mechanism's noise, and moves no sample."""
        within, self._at = self._at, ("a mechanism's draw", self._drawing)
        self._drawing += 1
        self._inside = True
        try:
            yield
        finally:
            self._at, self._inside = within, False

    def standard_normal(self, size: Any = None) -> NDArray[np.float64]:
        """As of any source, or chosen."""
        drawn = super().standard_normal(size)
        return drawn if self._single is None else np.full_like(drawn, self._single if drawn.size == 1 else 0.0)

    def integers(self, low: int, high: int | None = None, size: Any = None) -> NDArray[np.int64]:
        """As of any source inside ``drawing``; else everyone's coin, the next place in order, a record's own group."""
        if self._inside or high is None or (low, high, size) == _KEY:
            return NoiseSource.integers(self, low, high, size)
        if (low, high) == (0, COIN):
            return np.zeros(size, dtype=np.int64)
        if high >= _MOST_PLACES:
            return NoiseSource.integers(self, low, high, size)
        if size == 1:
            return super().integers(low, high, size) if high == self._size else np.array([low])
        groups = np.arange(self._held, dtype=np.int64) % high
        return groups[:size] if self._removed is None else np.delete(groups, self._removed)[:size]

    def _apart(self, what: str, low: int, high: int, count: int) -> NDArray[np.int64]:  # noqa: ARG002
        """Places in order."""
        return np.full(count, low, dtype=np.int64)
