"""The tilted transform against exact rational convolution, and its error bounds."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.pld.compose import compose_masses
from affidavit.accountant.pld.curve import ever
from affidavit.accountant.pld.discretise import Masses
from affidavit.accountant.pld.saddle import Saddle
from affidavit.accountant.pld.transform import beyond_mass, convolve, log_moments

STEP = 0.25


def law(weights: list[int], origin: float = -0.5, infinity: float = 0.0) -> tuple[Masses, list[Fraction]]:
    """P-masses proportional to ``weights`` (powers of two keep them exact) and their exact values."""
    exact = [Fraction(w, 1024) for w in weights]
    return Masses(origin, STEP, np.array([float(x) for x in exact]), infinity, 0.0), exact


def convolved(parts: list[tuple[list[Fraction], int]]) -> list[Fraction]:
    result = [Fraction(1)]
    for masses, count in parts:
        for _ in range(count):
            longer = [Fraction(0)] * (len(result) + len(masses) - 1)
            for i, a in enumerate(result):
                for j, b in enumerate(masses):
                    longer[i + j] += a * b
            result = longer
    return result


weights = st.lists(st.integers(0, 1024), min_size=1, max_size=6).filter(any)


@settings(max_examples=60, deadline=None)
@given(
    first=weights, second=weights, counts=st.tuples(st.integers(1, 9), st.integers(1, 3)), theta=st.floats(-3.0, 30.0)
)
def test_convolution_is_within_its_error_bound(
    first: list[int], second: list[int], counts: tuple[int, int], theta: float
) -> None:
    (a, exact_a), (b, exact_b) = law(first), law(second, origin=0.3)
    exact = convolved([(exact_a, counts[0]), (exact_b, counts[1])])
    composed = convolve([(a, counts[0]), (b, counts[1])], theta, 64)
    origin = counts[0] * a.origin + counts[1] * b.origin
    for k, value in enumerate(exact):
        loss = origin + STEP * k
        truth = float(value) * math.exp(theta * loss - composed.log_moment)
        assert abs(composed.tilted[k] - truth) <= composed.error + composed.relative * truth
    assert composed.error < 1e-11


@settings(max_examples=60, deadline=None)
@given(
    first=weights,
    count=st.integers(1, 9),
    theta=st.floats(0.0, 30.0),
    epsilon=st.floats(-2.0, 6.0),
    ends=st.tuples(st.floats(-3.0, 2.0), st.floats(-1.0, 12.0)),
)
def test_tails_enclose_the_exact_profile_whatever_the_window(
    first: list[int], count: int, theta: float, epsilon: float, ends: tuple[float, float]
) -> None:
    """Narrow windows fold and truncate: the charges must cover it."""
    part, exact = law(first, infinity=1e-3)
    part.masses[:] *= 0.5  # leave room for the mass at infinity
    masses = [x / 2 for x in exact]
    composed = convolved([(masses, count)])
    losses = [count * part.origin + STEP * k for k in range(len(composed))]
    infinity = ever([(part.infinity, count)])
    truth = infinity + sum(
        float(m) * -math.expm1(epsilon - x) for m, x in zip(composed, losses, strict=True) if x > epsilon
    )
    saddle = Saddle(
        theta=theta,
        epsilon=epsilon,
        log_delta=-5.0,
        deviation=1.0,
        bottom=min(ends),
        top=max(ends),
        up=(theta + 0.1, theta + 1.0, theta + 10.0),
        down=(theta - 0.1, theta - 1.0, theta - 10.0),
    )
    upper = compose_masses([(part, count)], saddle, "upper", limit=1 << 16)
    lower = compose_masses([(part, count)], saddle, "lower", limit=1 << 16)
    assert upper.delta(epsilon) >= min(1.0, truth) * (1 - 1e-12)
    assert lower.delta(epsilon) <= truth * (1 + 1e-12) + 1e-300
    if infinity < truth < 1.0:
        # The inverse of each side, at a δ whose ε is known.
        assert upper.epsilon(truth) >= max(epsilon, 0.0) - 1e-9 or truth <= infinity
        assert lower.epsilon(truth) <= max(epsilon, 0.0) + 1e-9


def test_the_error_is_relative_to_the_tilted_tail() -> None:
    """A binomial tail of 2^-200 to nine digits, where an untilted transform would see noise of 1e-16."""
    coin = Masses(0.0, 1.0, np.array([0.5, 0.5]), 0.0, 0.0)
    composed = convolve([(coin, 200)], 8.0, 256)
    value = composed.tilted[200] * math.exp(composed.log_moment - 8.0 * 200)
    assert value == pytest.approx(2.0**-200, rel=1e-9)
    assert composed.error * math.exp(composed.log_moment - 8.0 * 200) < 1e-9 * 2.0**-200


def test_a_million_uses_keep_their_accuracy() -> None:
    """The central binomial mass of 10^6 coins, against the logarithm of the gamma function."""
    coin = Masses(-0.5, 1.0, np.array([0.5, 0.5]), 0.0, 0.0)
    composed = convolve([(coin, 10**6)], 0.0, 20000)
    exact = math.exp(math.lgamma(10**6 + 1) - 2 * math.lgamma(5 * 10**5 + 1) - 10**6 * math.log(2.0))
    at = 5 * 10**5 % 20000
    assert composed.tilted[at] == pytest.approx(exact, rel=1e-7)
    assert abs(composed.tilted[at] - exact) <= composed.error + 2e-10 * exact
    assert composed.error < 1e-6 * exact


def test_chernoff_bounds_hold_on_both_ends() -> None:
    part, exact = law([100, 200, 300, 424])
    composed = convolved([(exact, 5)])
    losses = np.array([5 * part.origin + STEP * k for k in range(len(composed))])
    values = np.array([float(x) for x in composed])
    exponents = (-8.0, -2.0, -0.5, 0.5, 2.0, 8.0)
    moments = log_moments([(part, 5)], exponents)
    for end in (-1.0, 0.0, 0.5):
        assert beyond_mass(exponents, moments, end) >= values[losses >= end].sum()
        assert beyond_mass(exponents, moments, end, above=False) >= values[losses <= end].sum()
    assert log_moments([(part, 5)], [0.0])[0] == pytest.approx(0.0, abs=1e-15)
