"""Where noise comes from.

``SecureNoise`` takes every bit from the operating system's generator, at the moment of the draw:
no seed to guess, no state to copy when a process forks. ``SeededNoise`` is reproducible and gives
no guarantee; it exists for tests and says so wherever it goes. Both turn the same 64-bit words
into draws by the same formulas, so that a test with a seed tests the code that runs.

The formulas are inversions that keep full relative precision in *both* tails (a 53-bit uniform cuts
an exponential at 37 and a normal at 8.3, which a δ of 1e-20 would see). They treat float64 as real
numbers: a certificate for them lists "ideal real arithmetic" among its assumptions, since the low
bits of a float64 draw are not those of a real one (Mironov 2012, "On significance of the least
significant bits for differential privacy").

What mechanisms draw from (``mechanisms.base.Noise``), and what that is made of; named as in ``numpy.random.Generator``.
"""

from __future__ import annotations

import hashlib
import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import PermitViolation, UsageError

__all__ = ["GuardedNoise", "KeyedNoise", "NoiseSource", "Randomness", "SecureNoise", "SeededNoise", "noise_source"]

Randomness: TypeAlias = Literal["secure"] | int
Shape: TypeAlias = int | tuple[int, ...] | None
Floats: TypeAlias = NDArray[np.float64]
Words: TypeAlias = NDArray[np.uint64]

_SMALL_WORD = np.uint64(1 << 53)


class NoiseSource(ABC):
    """Independent draws. A ``size`` of None gives an array of shape ``()``, which acts as a number."""

    guarantee: bool
    """Whether nobody can reproduce the draws."""

    description: str
    """One line for a receipt."""

    @abstractmethod
    def _words(self, count: int) -> Words:
        """``count`` independent uniform 64-bit words."""

    def skip(self, count: int) -> None:  # noqa: B027  words of most sources have no order
        """Go past ``count`` words that were drawn before."""

    def random(self, size: Shape = None) -> Floats:
        """Uniform multiples of 2^-53 in [0, 1)."""
        shape = _shape(size)
        return _scaled(self._words(math.prod(shape)) >> np.uint64(11), 2.0**-53).reshape(shape)

    def standard_exponential(self, size: Shape = None) -> Floats:
        """Exponential of rate 1, precise near 0 and far out."""
        shape = _shape(size)
        count = math.prod(shape)
        half = 0.5 * self._open_unit(count)
        return np.where(self._bits(count), -np.log(half), -np.log1p(-half)).reshape(shape)

    def standard_normal(self, size: Shape = None) -> Floats:
        """Standard normal by Box and Muller (1958): radius √(2E), uniform angle."""
        shape = _shape(size)
        count = math.prod(shape)
        pairs = (count + 1) // 2
        radius = np.sqrt(2.0 * self.standard_exponential(pairs))
        angle = 2.0 * math.pi * self.random(pairs)
        return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:count].reshape(shape)

    def integers(self, low: int, high: int | None = None, size: Shape = None) -> NDArray[np.int64]:
        """Whole numbers in [low, high), or [0, low) with one argument; exactly uniform (by rejection)."""
        low, high = (0, low) if high is None else (low, high)
        width = high - low
        if not 0 < width <= 2**63 or not -(2**63) <= low <= high <= 2**63:
            raise ValueError("integers: need low < high, within 64 bits")
        shape = _shape(size)
        drawn = self._words(math.prod(shape))
        limit = 2**64 - 2**64 % width
        while limit < 2**64 and (late := np.flatnonzero(drawn >= np.uint64(limit))).size:
            drawn[late] = self._words(late.size)
        return ((drawn % np.uint64(width)).astype(np.int64) + np.int64(low)).reshape(shape)

    def _bits(self, count: int) -> NDArray[np.bool_]:
        words = self._words((count + 63) // 64)
        return np.unpackbits(words.view(np.uint8))[:count].astype(np.bool_)

    def _open_unit(self, count: int) -> Floats:
        """Uniform on (0, 1], with 53 significant bits down to 2^-75 and a least value of 2^-129."""
        words = self._words(count)
        result = _scaled(words, 2.0**-64)
        small = np.flatnonzero(words < _SMALL_WORD)
        if small.size:
            result[small] += (self._words(small.size) + 0.5) * 2.0**-128
        return result


class SecureNoise(NoiseSource):
    """Every word from ``os.urandom``: the kernel's cryptographic generator."""

    guarantee = True
    description = "secure: operating system entropy, float64 inversion"

    def _words(self, count: int) -> Words:
        return np.frombuffer(bytearray(os.urandom(8 * count)), dtype=np.uint64)


class SeededNoise(NoiseSource):
    """Philox with a given seed: reproducible, so whoever knows the seed can subtract the noise."""

    guarantee = False

    def __init__(self, seed: int) -> None:
        self.description = f"NO GUARANTEE: seeded with {seed}, reproducible, for tests only"
        self._generator = np.random.Philox(np.random.SeedSequence(seed))

    def _words(self, count: int) -> Words:
        return np.asarray(self._generator.random_raw(count), dtype=np.uint64)

    def skip(self, count: int) -> None:
        self._generator.random_raw(count, output=False)


class KeyedNoise(NoiseSource):
    """SHAKE-256 of a key that is used for nothing else, and a counter: what one secret choice is derived from.

    As hard to tell from uniform words as the system's generator, which expands such a key by another cipher. Never for
    what hides a released value: a key can be kept, and whoever has it has the words.
    """

    description = "derived from a key by SHAKE-256"

    def __init__(self, key: bytes, *, guarantee: bool) -> None:
        self.guarantee = guarantee
        self._key = key
        self._asked = 0

    def _words(self, count: int) -> Words:
        content = hashlib.shake_256(self._key + self._asked.to_bytes(8, "big")).digest(8 * count)
        self._asked += 1
        return np.frombuffer(bytearray(content), dtype=np.uint64)


class GuardedNoise(NoiseSource):
    """Another source, asked for leave before every draw and drawn from by one thread at a time.

    ``check`` raises where nothing may be drawn (any more, or here). No copy can be made: two copies of a
    seeded source would give one noise twice, and a copy could outlive what ``check`` asks.
    """

    def __init__(self, source: NoiseSource, *, check: Callable[[], None]) -> None:
        self.guarantee, self.description = source.guarantee, source.description
        self._source = source
        self._check = check
        self._lock = threading.Lock()
        self.taken = 0
        """Words that were drawn so far."""

    def _words(self, count: int) -> Words:
        with self._lock:
            self._check()
            self.taken += count
            return self._source._words(count)

    def skip(self, count: int) -> None:
        with self._lock:
            self.taken += count
            self._source.skip(count)

    def __reduce__(self) -> NoReturn:
        raise PermitViolation("a permit's noise cannot be copied or pickled", hint="Open a permit each.")


def noise_source(randomness: Randomness) -> NoiseSource:
    """``"secure"``, or a whole number: the seed of a run without guarantee. Raises ``UsageError``."""
    if randomness == "secure":
        return SecureNoise()
    if isinstance(randomness, bool) or not isinstance(randomness, int) or randomness < 0:
        raise UsageError(
            "randomness is neither secure nor a seed",
            hint='For example `randomness = "secure"`, or `randomness = 7` for a test.',
        )
    return SeededNoise(randomness)


def _scaled(words: Words, factor: float) -> Floats:
    return words.astype(np.float64) * factor


def _shape(size: Shape) -> tuple[int, ...]:
    if size is None:
        return ()
    return (size,) if isinstance(size, int) else size
