"""The Gaussian mechanism: its noise, its cost and its refusals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import kstest

from affidavit.accountant.errors import PermitViolation, UsageError
from affidavit.accountant.plan import Exponential, Gaussian, Leaf
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.mechanisms import gaussian


class OneLeaf:
    def __init__(self, leaf: Leaf) -> None:
        self.noise = SeededNoise(4)
        self._leaf = leaf

    def use(self, path: str) -> Leaf:
        assert path == "plan"
        return self._leaf


def test_noise_is_normal_with_the_given_deviation_and_no_bias() -> None:
    values = np.linspace(-5.0, 5.0, 8000).reshape(80, 100)
    noisy = gaussian.GaussianNoise(3.0, 1.5).release(OneLeaf(Gaussian(2.0)), "plan", values)
    assert noisy.shape == values.shape
    assert kstest((noisy - values).ravel() / 3.0, "norm").pvalue > 1e-4


def test_two_releases_have_independent_noise() -> None:
    permit = OneLeaf(Gaussian(1.0))
    first, second = (gaussian.GaussianNoise(1.0, 1.0).release(permit, "plan", np.zeros(2000)) for _ in range(2))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.1


def test_leaf_is_the_ratio_rounded_down() -> None:
    leaf = gaussian.GaussianNoise(standard_deviation=1.0, l2_sensitivity=math.sqrt(2.0)).leaf()
    exact = 1 / Fraction(math.sqrt(2.0))
    assert Fraction(leaf.noise_multiplier) <= exact
    assert Fraction(math.nextafter(leaf.noise_multiplier, 1.0)) > exact


def test_release_refuses_one_ulp_less_noise_than_certified() -> None:
    spec = gaussian.GaussianNoise(1.0, 1.0)
    spec.release(OneLeaf(Gaussian(1.0)), "plan", np.zeros(2))
    with pytest.raises(PermitViolation, match="does not cover"):
        spec.release(OneLeaf(Gaussian(math.nextafter(1.0, 2.0))), "plan", np.zeros(2))


def test_release_refuses_another_mechanisms_leaf_and_values_that_are_not_finite() -> None:
    with pytest.raises(PermitViolation, match="the certified exponential"):
        gaussian.GaussianNoise(1.0, 1.0).release(OneLeaf(Exponential(1.0)), "plan", np.zeros(2))
    with pytest.raises(UsageError, match="not all finite"):
        gaussian.GaussianNoise(1.0, 1.0).release(OneLeaf(Gaussian(1.0)), "plan", np.array([np.nan]))
