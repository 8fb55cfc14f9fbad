"""From δ to ε where float64 ends, and where a side is not a number."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.pld.compose import _discounted
from affidavit.accountant.pld.inverse import inverse


@pytest.mark.parametrize("at", [5e-324, 1e-12, 0.3, 7.0, 1e9])
@pytest.mark.parametrize("close", [1e-15, 1e-6])
def test_a_step_is_found_from_both_sides(at: float, close: float) -> None:
    """δ falls from .5 to 0 at one float: no number lies between the two ends of what is halved."""
    low, high = inverse(lambda epsilon: (0.5, 0.5) if epsilon < at else (0.0, 0.0), 0.1, furthest=1e12, close=close)
    assert low < at <= high
    assert high - low <= max(4.0 * close * at, 1e-280)


def test_what_is_not_a_number_bounds_nothing() -> None:
    assert inverse(lambda _: (math.nan, math.nan), 0.1, furthest=1e3) == (0.0, math.inf)


def test_a_sample_of_a_pure_mechanism_comes_to_an_end() -> None:
    """Its δ is a straight line up to the largest loss; the search halved two neighbouring floats for ever."""
    pure = {"kind": "subsample", "scheme": "poisson", "rate": 0.00722, "of": {"kind": "pure", "epsilon": 1.64}}
    found = bound(pure, relation="substitution", delta=5.15e-8)
    assert 1.639991 < found.epsilon_lower <= found.epsilon_upper <= found.epsilon_lower * (1.0 + 1e-10)


@pytest.mark.parametrize("step", [1e-4, 0.01, 3.0, 30.0, 800.0])
def test_discounted_sums_are_those_of_exact_arithmetic(step: float) -> None:
    draws = np.random.default_rng(7)
    weight = np.where(draws.random(800) < 0.2, 0.0, np.exp(draws.uniform(-300.0, 30.0, 800)))
    found, exact, factor = _discounted(weight, step), mpmath.mpf(0), mpmath.exp(-mpmath.mpf(step))
    for one, sum_ in zip(weight[::-1], found[::-1], strict=True):
        exact = exact * factor + mpmath.mpf(float(one))
        assert abs(mpmath.mpf(float(sum_)) - exact) <= exact * 2.0**-42 + 1e-300


def test_no_delta_at_all_asks_for_the_largest_loss() -> None:
    """A δ of 0 is a division by nothing otherwise."""

    def sides(epsilon: float) -> tuple[float, float]:
        left = max(0.0, 1.2 - epsilon)
        return left, left

    lower, upper = inverse(sides, 0.0, furthest=1e6)
    assert lower <= 1.2 <= upper
    assert upper - lower < 1e-6
