from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from affidavit.accountant.errors import UsageError
from affidavit.accountant.release.randomness import NoiseSource, SecureNoise, SeededNoise, noise_source

SIZE = 100_000
# Kolmogorov-Smirnov with a fixed seed: p below 1e-3 by chance once in a thousand seeds; these seeds are not such.
CASES: list[tuple[str, Callable[[NoiseSource], Any], Any]] = [
    ("random", lambda noise: noise.random(SIZE), stats.uniform()),
    ("standard_exponential", lambda noise: noise.standard_exponential(SIZE), stats.expon()),
    ("standard_normal", lambda noise: noise.standard_normal(SIZE), stats.norm()),
]


@pytest.mark.parametrize("case", CASES, ids=[name for name, *_ in CASES])
def test_draws_follow_their_distribution(case: tuple[str, Any, Any]) -> None:
    _, draw, law = case
    sample = draw(SeededNoise(1))
    assert sample.dtype == np.float64
    assert stats.kstest(sample, law.cdf).pvalue > 1e-3
    # Both tails apart: how many of 100,000 fall beyond the 1e-3 quantiles (binomial, six sigma).
    for tail in (np.sum(law.cdf(sample) < 1e-3), np.sum(law.sf(sample) < 1e-3)):
        assert abs(tail - 100) < 6 * math.sqrt(100)


@pytest.mark.parametrize("case", CASES, ids=[name for name, *_ in CASES])
def test_secure_draws_follow_it_too(case: tuple[str, Any, Any]) -> None:
    _, draw, law = case
    # A true random test: it fails by chance once in 10^9 runs.
    assert stats.kstest(draw(SecureNoise()), law.cdf).pvalue > 1e-9


def test_normal_draws_are_independent_in_pairs() -> None:
    # Box and Muller make two at once, from one radius: the two halves must not be correlated.
    sample = SeededNoise(2).standard_normal(SIZE)
    first, second = sample[: SIZE // 2], sample[SIZE // 2 :]
    for f in (lambda x: x, np.abs, np.square):
        assert abs(np.corrcoef(f(first), f(second))[0, 1]) < 5 / math.sqrt(SIZE / 2)


class _Scripted(NoiseSource):
    """Words given in advance: what the extreme ones turn into."""

    guarantee = False

    def __init__(self, word: int) -> None:
        self._word = word

    @property
    def description(self) -> str:
        return "scripted"

    def _words(self, count: int) -> Any:
        return np.full(count, self._word, dtype=np.uint64)


def test_the_tails_reach_where_a_53_bit_uniform_cannot() -> None:
    smallest, largest = _Scripted(0), _Scripted(2**64 - 1)
    # All-zero words: the sign bit says "near 0", the uniform is 2^-129 / 2.
    assert float(smallest.standard_exponential()) == pytest.approx(2.0**-130, rel=1e-12)
    # All-one words: the other half, at its inner edge, the median.
    assert float(largest.standard_exponential()) == pytest.approx(math.log(2), rel=1e-12)
    for noise in (smallest, largest):
        for draw in (noise.random, noise.standard_normal, noise.standard_exponential):
            assert np.isfinite(draw(64)).all()
        assert (noise.random(64) < 1).all()


def test_far_out_the_uniform_keeps_its_precision() -> None:
    # A first word of 1, then the second word 2^63: (1 + 1/2) 2^-64 up to 2^-129, not 1 x 2^-64.
    class Two(_Scripted):
        def __init__(self) -> None:
            self._answers = iter([1, 2**63])

        def _words(self, count: int) -> Any:
            return np.full(count, next(self._answers), dtype=np.uint64)

    assert Two()._open_unit(1)[0] == pytest.approx(1.5 * 2.0**-64, rel=1e-15)


@pytest.mark.parametrize("bounds", [(0, 12), (-6, 6), (0, 3 * 2**61), (-(2**62), 2**62)])
def test_integers_are_uniform_and_in_range(bounds: tuple[int, int]) -> None:
    low, high = bounds  # widths that four cells divide evenly
    drawn = [int(value) for value in SeededNoise(4).integers(low, high, 20_000)]
    assert low <= min(drawn)
    assert max(drawn) < high
    cells = np.bincount([4 * (value - low) // (high - low) for value in drawn], minlength=4)
    assert stats.chisquare(cells).pvalue > 1e-3


def test_integers_reject_the_words_that_would_bias() -> None:
    class Biased(_Scripted):
        def __init__(self) -> None:
            self._answers = iter([2**64 - 1, 5])

        def _words(self, count: int) -> Any:
            return np.full(count, next(self._answers), dtype=np.uint64)

    assert int(Biased().integers(10)) == 5  # 2^64 − 1 lies in the incomplete last ten
    for bad in ((5, 5), (7, 2), (0, 2**64)):
        with pytest.raises(ValueError, match="integers"):
            SeededNoise(0).integers(*bad)


@pytest.mark.parametrize("size", [None, 0, 1, 5, (2, 3), (0, 4), ()])
def test_shapes_are_numpys(size: Any) -> None:
    noise, reference = SeededNoise(0), np.random.default_rng(0)
    for name in ("random", "standard_normal", "standard_exponential"):
        assert getattr(noise, name)(size=size).shape == np.shape(getattr(reference, name)(size=size))


def test_seeds_reproduce_and_differ() -> None:
    assert (SeededNoise(7).standard_normal(size=9) == SeededNoise(7).standard_normal(size=9)).all()
    assert (SeededNoise(7).standard_normal(size=9) != SeededNoise(8).standard_normal(size=9)).all()
    noise = SeededNoise(7)
    assert (noise.standard_normal(size=9) != noise.standard_normal(size=9)).all()


def test_secure_noise_is_fresh_after_a_fork() -> None:
    noise = SecureNoise()
    noise.random(10)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, noise.random(4).tobytes())
        os._exit(0)
    mine = noise.random(4).tobytes()
    assert os.read(reader, 32) != mine
    os.waitpid(child, 0)


def test_sources_by_name() -> None:
    assert noise_source("secure").guarantee
    assert not noise_source(0).guarantee
    assert "3" in noise_source(3).description
    for bad in ("", "Secure", -1, True, 2.0, None):
        with pytest.raises(UsageError, match="randomness"):
            noise_source(bad)  # type: ignore[arg-type]
