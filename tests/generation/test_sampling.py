"""The samplers are exact: uniform over subsets, independent at the stated rate, and blind to the data."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare

from affidavit.accountant.errors import UsageError
from affidavit.accountant.release.randomness import noise_source
from affidavit.generation.sampling import permutation, poisson, sample_event, without_replacement


class Fixed:
    """A noise source that deals out given words, and counts them."""

    def __init__(self, *words: int) -> None:
        self._words = list(words)
        self.asked: list[tuple[int, int, int]] = []

    def integers(self, low: int, high: int, size: int) -> NDArray[np.int64]:
        self.asked.append((low, high, size))
        return np.array([self._words.pop(0) for _ in range(size)], dtype=np.int64)

    def standard_normal(self, size: int) -> NDArray[np.float64]:
        raise AssertionError(f"samplers draw whole numbers only, not {size} normals")


def test_every_ordered_sample_is_equally_likely() -> None:
    noise = noise_source(3)
    drawn = Counter(tuple(without_replacement(5, sample=3, noise=noise)) for _ in range(24_000))
    expected = set(itertools.permutations(range(5), 3))
    assert set(drawn) == expected
    assert chisquare([drawn[order] for order in sorted(expected)]).pvalue > 1e-4


@pytest.mark.parametrize(("count", "sample"), [(0, 0), (1, 1), (7, 0), (9, 9)])
def test_a_sample_has_its_size_and_no_member_twice(count: int, sample: int) -> None:
    drawn = without_replacement(count, sample=sample, noise=noise_source(1))
    assert len(drawn) == len(set(drawn)) == sample
    assert all(0 <= member < count for member in drawn)


def test_poisson_members_are_independent_at_the_rate() -> None:
    noise = noise_source(5)
    rate, trials = 0.3, 20_000
    drawn = Counter(tuple(poisson(3, rate=rate, noise=noise)) for _ in range(trials))
    subsets = [s for size in range(4) for s in itertools.combinations(range(3), size)]
    expected = [trials * rate ** len(s) * (1 - rate) ** (3 - len(s)) for s in subsets]
    assert chisquare([drawn[s] for s in subsets], expected).pvalue > 1e-4


def test_the_rate_is_met_to_the_last_bit() -> None:
    """Bits that equal the rate's first 62 are decided by the next 62, not rounded away."""
    rate = Fraction(3, 2**100)
    head, tail = divmod(rate * 2**62, 1)
    second = int(tail * 2**62)
    assert head == 0
    assert second > 0
    assert poisson(1, rate=rate, noise=Fixed(0, second - 1)) == [0]
    assert poisson(1, rate=rate, noise=Fixed(0, second)) == []
    assert poisson(1, rate=rate, noise=Fixed(1)) == []


def test_certain_rates_need_no_noise() -> None:
    noise = Fixed()
    assert poisson(4, rate=0.0, noise=noise) == []
    assert poisson(4, rate=1, noise=noise) == [0, 1, 2, 3]
    assert noise.asked == []


def test_a_float_rate_is_taken_as_the_rational_it_is() -> None:
    threshold = int(Fraction(0.1) * 2**62)
    assert Fraction(0.1) * 2**62 == threshold
    assert poisson(1, rate=0.1, noise=Fixed(threshold - 1)) == [0]
    assert poisson(1, rate=0.1, noise=Fixed(threshold)) == []


def test_a_permutation_moves_everything_uniformly() -> None:
    noise = noise_source(11)
    firsts = Counter(permutation(6, noise=noise)[0] for _ in range(6_000))
    assert chisquare([firsts[i] for i in range(6)]).pvalue > 1e-4


@pytest.mark.parametrize("rate", [-0.1, 1.5, float("nan"), True])
def test_an_impossible_rate_is_refused(rate: float) -> None:
    with pytest.raises(UsageError, match="rate"):
        poisson(3, rate=rate, noise=noise_source(1))


def test_more_than_there_are_is_refused_with_the_value_that_works() -> None:
    with pytest.raises(UsageError, match="At most `sample = 3`"):
        without_replacement(3, sample=4, noise=noise_source(1))


def test_the_trace_line_does_not_tell_the_order() -> None:
    assert sample_event("plan.of", use=2, members=["b", "a"]) == {
        "event": "sample",
        "path": "plan.of",
        "use": 2,
        "members": ["a", "b"],
    }
    assert sample_event("plan.of", use=0, members=[], population=9)["population"] == 9
