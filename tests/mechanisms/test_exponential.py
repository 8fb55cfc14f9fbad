"""The exponential mechanism: what it costs, that it samples exactly, and what it refuses."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

from affidavit.accountant.errors import PermitViolation, UsageError
from affidavit.accountant.plan import Exponential, Gaussian, Leaf
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.mechanisms import exponential
from affidavit.mechanisms.base import Noise


class OneLeaf:
    """A permit for ``uses`` uses of one leaf."""

    def __init__(self, leaf: Leaf, *, uses: int = 1, noise: Noise | None = None) -> None:
        self.noise: Noise = noise or SeededNoise(3)
        self._leaf = leaf
        self._left = uses

    def use(self, path: str) -> Leaf:
        if self._left == 0:
            raise PermitViolation(f"{path}: used up")
        self._left -= 1
        return self._leaf


class Scripted:
    """A noise source whose ``uniform_below`` is a given number, for any bound above it."""

    def __init__(self, uniform: int, bits: int) -> None:
        words = max(1, -(-bits // 32))
        shifted = uniform << (32 * words - bits)
        self._words = [(shifted >> (32 * (words - 1 - place))) & 0xFFFFFFFF for place in range(words)]

    def integers(self, low: int, high: int, size: int) -> NDArray[np.int64]:
        assert (low, high, size) == (0, 1 << 32, len(self._words))
        return np.array(self._words, dtype=np.int64)

    def standard_normal(self, size: int) -> NDArray[np.float64]:
        raise NotImplementedError


def _exact_weights(scores: NDArray[np.float64], temperature: float) -> list[int]:
    limbs = exponential._weights(scores, temperature)
    return [exponential._compose(limbs, index) for index in range(len(scores))]


def test_frequencies_are_the_softmax() -> None:
    scores = np.array([0.0, 1.0, 2.0, 2.0, -1.0])
    noise = SeededNoise(11)
    drawn = [exponential.sample(scores, temperature=0.9, noise=noise) for _ in range(8000)]
    expected = np.exp(scores / 0.9) / np.exp(scores / 0.9).sum()
    assert chisquare(np.bincount(drawn, minlength=5), expected * len(drawn)).pvalue > 1e-4


@pytest.mark.parametrize("spread", [0.0, 1.0, 33.3, 182.0, 599.0])
def test_integer_weights_are_the_exponentials(spread: float) -> None:
    """The claim of the module: every weight is right to 2^-40, even for the least likely output."""
    scores = -np.linspace(0.0, spread, 50)
    weights = _exact_weights(scores, 1.0)
    with mpmath.workdps(60):
        for score, weight in zip(scores, weights, strict=True):
            true = mpmath.exp(mpmath.mpf(float(score))) * weights[0]
            assert abs(mpmath.mpf(weight) / true - 1) < mpmath.mpf(2) ** -40


def test_equal_scores_have_equal_weights() -> None:
    assert len(set(_exact_weights(np.array([-3.7, 0.0, -3.7, -3.7]), 0.31))) == 2


def test_every_uniform_number_finds_its_output() -> None:
    """At both ends of every output's slot: cumulative sums over two digits are searched correctly."""
    few = np.array([-40.0, 0.0, -0.5, -33.0, -33.0, -1.0])
    many = np.linspace(-50.0, 0.0, 2 * exponential._BLOCK + 3)
    for scores in (few, many, many[: 2 * exponential._BLOCK], many[::-1]):
        _check_slots(scores)


def _check_slots(scores: NDArray[np.float64]) -> None:
    weights = _exact_weights(scores, 1.0)
    total, below = sum(weights), 0
    bits = (total - 1).bit_length()
    for output, weight in enumerate(weights):
        assert weight > 0
        for uniform in (below, below + weight // 2, below + weight - 1):
            drawn = exponential.sample(scores, temperature=1.0, noise=Scripted(uniform, bits))
            assert drawn == output
        below += weight


@given(
    st.lists(st.tuples(st.floats(-20.0, 20.0), st.floats(-1.0, 1.0)), min_size=2, max_size=12),
    st.sampled_from([0.11, 0.7, 3.0]),
)
@settings(deadline=None)
def test_the_exact_distribution_stays_within_the_leafs_range(pairs: list[tuple[float, float]], scale: float) -> None:
    """What is really sampled, not what the formula says: integer weights of both neighbours, in 60 digits."""
    ours = np.array([score for score, _ in pairs])
    theirs = ours + np.array([change for _, change in pairs])
    moves = [Fraction(b) - Fraction(a) for a, b in zip(ours, theirs, strict=True)]
    width = max(moves) - min(moves)
    if width == 0:
        return
    leaf = exponential.SoftmaxSampling(width=width, temperature=scale).leaf()
    with mpmath.workdps(60):
        ratios = [
            mpmath.log(mpmath.mpf(q) / p)
            for p, q in zip(_exact_weights(ours, scale), _exact_weights(theirs, scale), strict=True)
        ]
        assert max(ratios) - min(ratios) <= mpmath.mpf(leaf.range)


def test_leaf_is_the_ratio_and_the_slack_rounded_up() -> None:
    spec = exponential.SoftmaxSampling(width=Fraction(10, 64), temperature=Fraction(7, 10))
    exact = Fraction(10, 64) / Fraction(7, 10)
    leaf = Fraction(spec.leaf().range)
    assert exact + exponential.ARITHMETIC_SLACK <= leaf
    assert float(leaf - exact) < 1.5e-11


def test_release_accepts_the_certified_range_and_not_one_ulp_more() -> None:
    scores = np.zeros(4)
    leaf = Exponential(0.1)
    assert exponential.SoftmaxSampling(width=0.1, temperature=1.0).release(OneLeaf(leaf), "plan", scores) in range(4)
    with pytest.raises(PermitViolation, match="does not cover"):
        exponential.SoftmaxSampling(width=math.nextafter(0.1, 1.0), temperature=1.0).release(
            OneLeaf(leaf), "plan", scores
        )
    with pytest.raises(PermitViolation, match="does not cover"):
        exponential.SoftmaxSampling(width=0.1, temperature=math.nextafter(1.0, 0.0)).release(
            OneLeaf(leaf), "plan", scores
        )


def test_release_is_charged_each_time() -> None:
    permit = OneLeaf(Exponential(1.0), uses=2)
    for _ in range(2):
        exponential.SoftmaxSampling(width=1.0, temperature=1.0).release(permit, "plan", np.zeros(3))
    with pytest.raises(PermitViolation, match="used up"):
        exponential.SoftmaxSampling(width=1.0, temperature=1.0).release(permit, "plan", np.zeros(3))


def test_release_refuses_another_mechanisms_leaf() -> None:
    with pytest.raises(PermitViolation, match="the certified gaussian"):
        exponential.SoftmaxSampling(width=1.0, temperature=1.0).release(OneLeaf(Gaussian(1.0)), "plan", np.zeros(3))


@pytest.mark.parametrize(
    "scores",
    [np.array([0.0, np.nan]), np.array([0.0, -np.inf]), np.zeros(0), np.zeros((2, 2)), np.array([0.0, -601.0])],
    ids=["nan", "infinite", "empty", "matrix", "spread"],
)
def test_release_refuses_scores_it_cannot_sample(scores: NDArray[np.float64]) -> None:
    with pytest.raises(UsageError):
        exponential.SoftmaxSampling(width=1.0, temperature=1.0).release(OneLeaf(Exponential(1.0)), "plan", scores)


@pytest.mark.parametrize(
    ("temperature", "width"), [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (math.nan, 1.0), (1.0, math.inf)]
)
def test_release_refuses_parameters_that_are_not_positive(temperature: float, width: float) -> None:
    with pytest.raises(UsageError, match="not a finite number > 0"):
        exponential.SoftmaxSampling(width=width, temperature=temperature).release(
            OneLeaf(Exponential(1.0)), "plan", np.zeros(3)
        )


def test_vocabularies_of_a_quarter_million_do_not_overflow() -> None:
    scores = np.zeros(262_144)
    drawn = exponential.sample(scores, temperature=1.0, noise=SeededNoise(2))
    assert 0 <= drawn < scores.size
    sums = exponential._cumulative(exponential._weights(scores, 1.0))
    assert all(np.all(np.diff(column) >= 0) for column in sums[:1])
    assert exponential._compose(sums, -1) == scores.size << (42 * len(sums))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint64, np.float16, np.float32])
def test_the_weights_do_not_depend_on_how_wide_the_scores_are_kept(dtype: type) -> None:
    low, high = (0, 100) if np.issubdtype(dtype, np.unsignedinteger) else (-100, 100)
    kept = np.array([low, high, 3, 60], dtype=dtype)
    assert _exact_weights(kept, 7.0) == _exact_weights(kept.astype(np.float64), 7.0)
    with pytest.raises(UsageError, match="spread over more"):
        exponential.sample(kept, temperature=1e-3, noise=SeededNoise(1))


def test_whole_scores_at_the_ends_of_64_bits_are_not_close() -> None:
    ends = np.array([-(2**63), 2**63 - 1])
    with pytest.raises(UsageError, match="spread over more"):
        exponential.sample(ends, temperature=1.0, noise=SeededNoise(1))
