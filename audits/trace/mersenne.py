"""Recognising noise that somebody else could compute: a Mersenne Twister, or a common seed (fault 13).

MT19937 is linear over bits. Undoing its output mixing (the four xor-shifts of ``temper``) turns 32-bit outputs
into its state words, and any three of them give the one 624 places on (Matsumoto and Nishimura 1998, "Mersenne
Twister", equation 2.1):

    x[k+624] = x[k+397] ^ ((x[k] & 2^31) | (x[k+1] & (2^31 − 1))) A

So 625 consecutive outputs test the recurrence once, whatever the seed; each further one again. Another source
passes one test with probability 2^-32.

A seed is looked for by making noise from it: the seeds that people write (``SEEDS``), in the generators that Python
code uses. Three numbers that agree to nine digits are no coincidence (below 1e-20 over all seeds and generators).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["MERSENNE_WORDS", "SEEDS", "Family", "StandardNoise", "find_seed", "is_mersenne_twister"]

Family: TypeAlias = Literal["normal", "laplace", "other"]
StandardNoise: TypeAlias = tuple[Family, Sequence[float]]
_Draw: TypeAlias = Callable[[int], Sequence[float]]

_METHODS: dict[Family, tuple[str, ...]] = {
    "normal": ("standard_normal",),
    "laplace": ("laplace",),
    "other": ("standard_normal", "laplace", "standard_exponential", "gumbel", "uniform"),
}

MERSENNE_WORDS = 625
"""The fewest consecutive words that show the recurrence once."""

SEEDS = (*range(3000), 3407, 9999, 12345, 31337, 54321, 65537, 123456, 424242, 1234567, 12345678, 123456789)

_AHEAD, _MIDDLE = 624, 397
_TWIST = np.uint32(0x9908B0DF)
_Words = NDArray[np.uint32]
_MATCHING = 3


def is_mersenne_twister(words: Sequence[int]) -> bool | None:
    """Whether ``words``, consecutive 32-bit outputs, obey MT19937's recurrence; None if there are too few.

    >>> rng = np.random.RandomState(20260101)
    >>> is_mersenne_twister([int(word) for word in rng.randint(0, 2**32, size=700, dtype=np.uint64)])
    True
    """
    if len(words) < MERSENNE_WORDS or any(not 0 <= word < 2**32 for word in words):
        return None
    state = _untempered(np.array(words, dtype=np.uint32))
    tested = len(words) - _AHEAD
    high, low = state[:tested] & np.uint32(1 << 31), state[1 : tested + 1] & np.uint32((1 << 31) - 1)
    joined = high | low
    twisted = (joined >> np.uint32(1)) ^ np.where(joined & np.uint32(1), _TWIST, np.uint32(0))
    return bool(np.array_equal(state[_AHEAD:], state[_MIDDLE : _MIDDLE + tested] ^ twisted))


def _untempered(words: _Words) -> _Words:
    """The state words behind outputs."""
    state: _Words = words ^ (words >> np.uint32(18))
    state = state ^ ((state << np.uint32(15)) & np.uint32(0xEFC60000))
    unmixed: _Words = state
    for _ in range(4):
        unmixed = state ^ ((unmixed << np.uint32(7)) & np.uint32(0x9D2C5680))
    state = unmixed
    for _ in range(2):
        unmixed = state ^ (unmixed >> np.uint32(11))
    return unmixed


def find_seed(noise: Sequence[StandardNoise], *, seeds: Sequence[int] = SEEDS) -> tuple[str, int, int] | None:
    """(generator, seed, index into ``noise``) of the first noise that a common seed reproduces, or None.

    Noise is (family, values at scale 1). The first three values are compared, to 1e-9 relative; where there are fewer
    nothing can be said.
    """
    for family in _METHODS:
        wanted = [
            (index, np.array(values[:_MATCHING]))
            for index, (of, values) in enumerate(noise)
            if of == family and len(values) >= _MATCHING
        ]
        if not wanted:
            continue
        for name, draw in _generators(family):
            made = np.array([draw(seed) for seed in seeds])
            for index, values in wanted:
                equal = np.isclose(made, values, rtol=1e-9, atol=0.0).all(axis=1)
                if equal.any():
                    return name, seeds[int(equal.argmax())], index
    return None


def _generators(family: Family) -> Iterator[tuple[str, _Draw]]:
    """Name and first draws, as a function of the seed, of what Python code makes such noise with."""
    for method in _METHODS[family]:
        for make in (np.random.RandomState, np.random.default_rng):
            yield f"numpy.random.{make.__name__}: {method}", _numpy(make, method)
    if family == "normal":
        yield "random.Random: gauss", _gauss


def _numpy(make: Callable[[int], Any], method: str) -> _Draw:
    return lambda seed: getattr(make(seed), method)(size=_MATCHING)


def _gauss(seed: int) -> list[float]:
    source = random.Random(seed)  # noqa: S311 - this is what is looked for
    return [source.gauss(0.0, 1.0) for _ in range(_MATCHING)]
