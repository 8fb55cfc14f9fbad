"""Noise for the neighbour test: what is drawn for one record, and at one release, is the same with it and without it.

A seeded generator read in order would not do: one record less is one coin less, and from there on every number is
another one. Then samples differ that a sound generator drew afresh, and that looks like a fault. Here each number
belongs to what it is for: the coin of a record to that record, the places of a sample without replacement to the
records that stand there, and all other noise to the use of the plan's leaf that it is drawn at. Taken by itself each
run's noise is as independent and uniform as any other.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.release.randomness import NoiseSource

__all__ = ["COIN", "AlignedNoise"]

COIN = 1 << 62
"""A record's coin is a number below this: ``generation.sampling.poisson``."""


class AlignedNoise(NoiseSource):
    """``held`` records in the larger data set, ``size`` declared places; ``removed``: which of them this run lacks."""

    guarantee = False

    def __init__(self, seed: int, *, held: int, size: int, removed: int | None = None) -> None:
        self.description = f"NO GUARANTEE: seeded with {seed}, and aligned by record, for tests only"
        self._seed = seed
        self._held = held
        self._size = size
        self._removed = removed
        self._at: tuple[Any, ...] = ("before the first use",)
        self._calls: Counter[tuple[Any, ...]] = Counter()
        self._uses: Counter[str] = Counter()
        self._places: tuple[list[int], list[int]] = ([], [])
        self._placed = 0

    def begin(self, path: str) -> None:
        """One use of the leaf at ``path`` begins: what is drawn from here on is for it."""
        self._at = (path, self._uses[path])
        self._uses[path] += 1

    def integers(self, low: int, high: int | None = None, size: Any = None) -> NDArray[np.int64]:
        """As of any source; a record's coin, and a place of a sample of the declared size, stay with the record."""
        present = self._held - (self._removed is not None)
        if (low, high, size) == (0, COIN, present):
            coins = self._apart("coins", 0, COIN, self._held)
            return coins if self._removed is None else np.delete(coins, self._removed)
        if high == self._size and size == 1 and low in (0, self._placed):
            return self._place(low)
        return super().integers(low, high, size)

    def _place(self, low: int) -> NDArray[np.int64]:
        """One step of Fisher and Yates's shuffle of all places, told in the places of this run.

        ``_places`` are the shuffles with all records and of this run; they hold the same record at every position.
        """
        if low == 0:
            self._places = (list(range(self._size)), list(range(self._size)))
        whole, here = self._places
        drawn = int(self._apart(f"place {low}", low, self._size, 1)[0])
        wanted = self._here(whole[drawn])
        found = here.index(wanted, low)
        for shuffled, other in ((whole, drawn), (here, found)):
            shuffled[low], shuffled[other] = shuffled[other], shuffled[low]
        self._placed = low + 1
        return np.asarray([found], dtype=np.int64)

    def _here(self, place: int) -> int:
        """Where a record stands in this run; the removed one's place is the empty one at the end."""
        if self._removed is None or place < self._removed:
            return place
        return self._size - 1 if place == self._removed else place - 1

    def _apart(self, what: str, low: int, high: int, count: int) -> NDArray[np.int64]:
        """Numbers of a kind of their own, by how often it was asked for."""
        within, self._at = self._at, (what,)
        try:
            return super().integers(low, high, count)
        finally:
            self._at = within

    def _words(self, count: int) -> NDArray[np.uint64]:
        purpose = (self._seed, *self._at, self._calls[self._at])
        self._calls[self._at] += 1
        digest = hashlib.sha256(repr(purpose).encode()).digest()
        generator = np.random.Philox(np.random.SeedSequence(int.from_bytes(digest, "big")))
        return np.asarray(generator.random_raw(count), dtype=np.uint64)
