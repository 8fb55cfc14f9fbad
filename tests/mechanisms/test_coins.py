"""Coins and integers with exponential laws: exact where float64 decides, and exact where it cannot."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest, chisquare

from affidavit.accountant.release.randomness import SeededNoise
from affidavit.mechanisms.coins import exponential_coin, exponential_coins, geometric, two_sided_geometric


class Fixed:
    """A noise source that deals out given words."""

    def __init__(self, *words: int) -> None:
        self.words = list(words)

    def integers(self, low: int, high: int, size: int) -> NDArray[np.int64]:
        drawn = [self.words.pop(0) for _ in range(size)]
        assert all(low <= word < high for word in drawn)
        return np.array(drawn, dtype=np.int64)

    def standard_normal(self, size: int) -> NDArray[np.float64]:
        raise AssertionError(f"coins draw whole numbers only, not {size} normals")


def _expected(law: dict[int, float], drawn: list[int]) -> float:
    """The p-value of a chi-square test over the values of ``law``; all others are one cell."""
    counts = Counter(drawn)
    observed = [counts[value] for value in law]
    expected = [len(drawn) * mass for mass in law.values()]
    rest = len(drawn) - sum(observed), len(drawn) * (1 - sum(law.values()))
    return float(chisquare([*observed, rest[0]], [*expected, rest[1]]).pvalue)


@pytest.mark.parametrize("exponent", [Fraction(0), Fraction(1, 1000), Fraction(1, 3), Fraction(1), Fraction(7, 2)])
def test_a_coin_has_its_probability(exponent: Fraction) -> None:
    heads = int(exponential_coins([exponent] * 40_000, noise=SeededNoise(1)).sum())
    assert binomtest(heads, 40_000, math.exp(-exponent)).pvalue > 1e-4


@pytest.mark.parametrize(
    "exponent", [Fraction(1, 3), Fraction(5), Fraction(123456789, 10**9), Fraction(44), Fraction(82)]
)
def test_bits_near_the_probability_are_settled_by_more_of_them(exponent: Fraction) -> None:
    """With mpmath at 400 bits: words around exp(−γ), followed by words around what is left of it."""
    with mpmath.workprec(400):
        scaled = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator) * 2**62
        first = int(mpmath.floor(scaled))
        second = int(mpmath.floor((scaled - first) * 2**62))
    assert exponential_coin(exponent, noise=Fixed(first, second - 2))
    assert not exponential_coin(exponent, noise=Fixed(first, second + 2))
    assert not exponential_coin(exponent, noise=Fixed(first + 1, 0))
    if first:
        assert exponential_coin(exponent, noise=Fixed(first - 1, 2**62 - 1))


def test_exponents_beyond_float64_are_no_fault() -> None:
    assert exponential_coins([Fraction(10) ** 400, Fraction(0)], noise=SeededNoise(4)).tolist() == [False, True]


def test_a_tie_goes_on_until_it_parts() -> None:
    with mpmath.workprec(600):
        scaled = mpmath.exp(mpmath.mpf(-1)) * 2**62
        words = []
        for _ in range(4):
            words.append(int(mpmath.floor(scaled)))
            scaled = (scaled - words[-1]) * 2**62
    noise = Fixed(*words[:3], words[3] - 2)
    assert exponential_coin(Fraction(1), noise=noise)
    assert noise.words == []


@pytest.mark.parametrize("rate", [Fraction(1, 5), Fraction(7, 3), Fraction(0.3)])
def test_the_geometric_law(rate: Fraction) -> None:
    ratio = math.exp(-rate)
    noise = SeededNoise(2)
    drawn = [geometric(rate, noise=noise) for _ in range(4000)]
    law = {k: (1 - ratio) * ratio**k for k in range(12) if 4000 * (1 - ratio) * ratio**k > 5}
    assert _expected(law, drawn) > 1e-4


def test_the_two_sided_law() -> None:
    ratio = math.exp(-0.5)
    noise = SeededNoise(3)
    drawn = [two_sided_geometric(Fraction(1, 2), noise=noise) for _ in range(4000)]
    law = {k: (1 - ratio) / (1 + ratio) * ratio ** abs(k) for k in range(-7, 8)}
    assert _expected(law, drawn) > 1e-4
