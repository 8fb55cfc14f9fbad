"""Laplace, discrete Gaussian and noisy max: their laws, their leaves and their refusals."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from affidavit.accountant.errors import PermitViolation, UsageError
from affidavit.accountant.plan import DiscreteGaussian, Exponential, Laplace, Leaf, Pure, Repeat, core
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.mechanisms import discrete_gaussian, laplace, noisy_max
from affidavit.mechanisms.discrete_gaussian import DiscreteGaussianNoise
from affidavit.mechanisms.laplace import LaplaceNoise
from affidavit.mechanisms.noisy_max import ExponentialNoisyMax, NoisyMax


class OneLeaf:
    def __init__(self, leaf: Leaf, seed: int = 4) -> None:
        self.noise = SeededNoise(seed)
        self._leaf = leaf

    def use(self, path: str) -> Leaf:
        assert path == "plan"
        return self._leaf


def _fits(law: dict[int, float], drawn: list[int]) -> bool:
    counts = Counter(drawn)
    observed = [counts[value] for value in law]
    rest = len(drawn) - sum(observed)
    expected = [len(drawn) * mass for mass in law.values()]
    result = chisquare([*observed, rest], [*expected, len(drawn) - sum(expected)])
    return bool(result.pvalue > 1e-4)


def test_rounded_laplace_has_the_law_of_a_rounded_real_one() -> None:
    """P(0) = 1 − e^(−1/(2b)), P(±k) = (e^(1/(2b)) − e^(−1/(2b))) e^(−k/b) / 2."""
    scale = 2.0
    values = laplace.LaplaceNoise(scale, 1).release(OneLeaf(Laplace(2.0)), "plan", np.zeros(6000, dtype=np.int64))
    law = {k: math.sinh(0.5 / scale) * math.exp(-abs(k) / scale) for k in range(-8, 9)}
    law[0] = 1 - math.exp(-0.5 / scale)
    assert _fits(law, values.tolist())


def test_discrete_gaussian_has_its_law() -> None:
    noise = SeededNoise(6)
    drawn = [discrete_gaussian.discrete_gaussian(Fraction(3, 2), noise=noise) for _ in range(5000)]
    weights = {k: math.exp(-(k**2) / (2 * 1.5**2)) for k in range(-40, 41)}
    mass = sum(weights.values())
    assert _fits({k: weights[k] / mass for k in range(-4, 5)}, drawn)


def _permute_and_flip(scores: list[int], rate: float) -> list[float]:
    """Output probabilities by enumeration over all orders."""
    chances = [math.exp(-rate * (max(scores) - score)) for score in scores]
    found = [0.0] * len(scores)
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        alive = 1.0
        for output in order:
            found[output] += alive * chances[output] / len(orders)
            alive *= 1.0 - chances[output]
    return found


def test_noisy_max_is_permute_and_flip() -> None:
    scores = [7, 5, 7, 0]
    noise = SeededNoise(7)
    drawn = [noisy_max.sample(np.array(scores), rate=Fraction(1, 3), noise=noise) for _ in range(6000)]
    law = _permute_and_flip(scores, 1 / 3)
    assert chisquare(np.bincount(drawn, minlength=4), [6000 * p for p in law]).pvalue > 1e-4


def test_noisy_max_is_the_argmax_of_scores_with_exponential_noise() -> None:
    """Ding, Kifer et al. 2021: the two mechanisms have one law."""
    scores = np.array([3.0, 2.0, 0.0])
    generator = np.random.default_rng(5)
    winners = (scores + generator.exponential(2.0, size=(200_000, 3))).argmax(axis=1)
    law = _permute_and_flip([3, 2, 0], 0.5)
    assert np.allclose(np.bincount(winners) / 200_000, law, atol=0.006)


def test_noisy_max_over_a_vocabulary_takes_a_best_output_at_a_large_rate() -> None:
    scores = np.zeros(49_152, dtype=np.int64)
    scores[[17, 40_000]] = 1 << 40
    noise = SeededNoise(8)
    drawn = Counter(noisy_max.sample(scores, rate=Fraction(60, 1 << 40), noise=noise) for _ in range(8))
    assert set(drawn) == {17, 40_000}


def test_leaves_are_rounded_to_the_safe_side() -> None:
    third = LaplaceNoise(scale=1, l1_sensitivity=3).leaf()
    assert Fraction(third.noise_multiplier) <= Fraction(1, 3)
    assert third.noise_multiplier == pytest.approx(1 / 3)
    best = ExponentialNoisyMax(rate=Fraction(1, 3), width=2).leaf()
    assert Fraction(best.epsilon) >= Fraction(2, 3)
    assert best.epsilon == pytest.approx(2 / 3)
    grid = DiscreteGaussianNoise(standard_deviation=10, sensitivity=3).leaf()
    assert Fraction(grid.noise_multiplier) / Fraction(grid.granularity) <= 10
    assert grid == DiscreteGaussian(pytest.approx(10 / 3), pytest.approx(1 / 3))


def test_noisy_max_costs_pure_epsilon_and_nothing_better() -> None:
    assert core(Repeat(3, NoisyMax(0.5))) == Repeat(3, Pure(0.5))


def test_one_ulp_more_than_certified_is_refused() -> None:
    less, more = math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0)
    values = np.zeros(2, dtype=np.int64)
    one_step = DiscreteGaussian(1.0, 1.0)
    laplace.LaplaceNoise(1.0, 1).release(OneLeaf(Laplace(1.0)), "plan", values)
    with pytest.raises(PermitViolation, match="does not cover"):
        laplace.LaplaceNoise(less, 1).release(OneLeaf(Laplace(1.0)), "plan", values)
    discrete_gaussian.DiscreteGaussianNoise(1.0, 1).release(OneLeaf(one_step), "plan", 0)
    with pytest.raises(PermitViolation, match="does not cover"):
        discrete_gaussian.DiscreteGaussianNoise(less, 1).release(OneLeaf(one_step), "plan", 0)
    with pytest.raises(PermitViolation, match="does not cover"):  # a finer grid is another mechanism
        discrete_gaussian.DiscreteGaussianNoise(2.0, 2).release(OneLeaf(one_step), "plan", 0)
    noisy_max.ExponentialNoisyMax(rate=1.0, width=2).release(OneLeaf(NoisyMax(2.0)), "plan", values)
    with pytest.raises(PermitViolation, match="does not cover"):
        noisy_max.ExponentialNoisyMax(rate=more, width=2).release(OneLeaf(NoisyMax(2.0)), "plan", values)


@pytest.mark.parametrize(
    "call",
    [
        lambda permit: laplace.LaplaceNoise(1.0, 1).release(permit, "plan", np.zeros(2, dtype=np.int64)),
        lambda permit: discrete_gaussian.DiscreteGaussianNoise(1.0, 1).release(permit, "plan", 0),
        lambda permit: noisy_max.ExponentialNoisyMax(rate=1.0, width=1).release(
            permit, "plan", np.zeros(2, dtype=np.int64)
        ),
    ],
)
def test_another_mechanisms_leaf_is_refused(call) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(PermitViolation, match="the certified exponential"):
        call(OneLeaf(Exponential(1.0)))


def test_values_off_the_grid_are_refused_before_the_use_is_charged() -> None:
    class Untouched:
        noise = SeededNoise(1)

        def use(self, path: str) -> Leaf:
            raise AssertionError(path)

    with pytest.raises(UsageError, match="whole numbers"):
        laplace.LaplaceNoise(1.0, 1).release(Untouched(), "plan", np.array([0.5]))
    with pytest.raises(UsageError, match="whole number"):
        discrete_gaussian.DiscreteGaussianNoise(1.0, 1).release(Untouched(), "plan", True)
    with pytest.raises(UsageError, match="grid steps"):
        discrete_gaussian.DiscreteGaussianNoise(1.0, 0).release(Untouched(), "plan", 1)
    with pytest.raises(UsageError, match="whole numbers"):
        noisy_max.sample(np.array([0.5, 1.0]), rate=1.0, noise=SeededNoise(1))


@pytest.mark.parametrize("epsilon", [-0.8, 0.0, 0.3, 0.9])
def test_a_shift_spread_over_coordinates_is_no_worse_than_in_one(epsilon: float) -> None:
    """The proof's inequality, by a grid integral over two coordinates: shifts .7 and .3 against 1."""
    x = np.linspace(-14.0, 14.0, 1401)
    step = x[1] - x[0]

    def density(shift: float) -> np.ndarray:
        return 0.5 * np.exp(-np.abs(x - shift)) * step

    p, q = (np.outer(density(first), density(second)) for first, second in ((0.7, 0.3), (0.0, 0.0)))
    spread = np.maximum(p - math.exp(epsilon) * q, 0.0).sum()
    assert spread <= 1 - math.exp((epsilon - 1) / 2) + 1e-4


@pytest.mark.parametrize(("dtype", "low", "high"), [(np.int8, -100, 100), (np.int64, -(2**62) - 9, 2**62)])
def test_a_gap_that_the_dtype_does_not_hold_is_the_gap(dtype: type, low: int, high: int) -> None:
    """The worse one wins with probability e^(−rate · gap)/2, here e^-2/2 and 0; modulo 256 it was 1/2."""
    scores, rate = np.array([low, high], dtype=dtype), Fraction(1, 100)
    wins = sum(noisy_max.sample(scores, rate=rate, noise=SeededNoise(seed)) == 0 for seed in range(400))
    assert wins <= 400 * math.exp(-0.01 * (high - low)) / 2 + 30
