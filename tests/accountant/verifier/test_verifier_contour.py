"""The contour integral of sampled Gaussians: against the closed form, direct integration and the issuing engine."""

from __future__ import annotations

import math

import mpmath
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from affidavit.accountant.verifier.balls import ball, precision
from affidavit.accountant.verifier.bracket import epsilon_bracket
from affidavit.accountant.verifier.contour import TailProfile, _part, contour_profile
from affidavit.accountant.verifier.pairs import Combined, GaussianPair, Mixed, Reversed
from affidavit.accountant.verifier.single import SingleProfile
from affidavit.accountant.verifier.smooth import diluted_pair, removal_pair, replaced_curve


def gaussian(mu: float, epsilon: float) -> float:
    """δ of the Gaussian mechanism of shift ``mu`` (Balle and Wang 2018, Theorem 8), 40 digits."""
    with mpmath.workdps(40):
        shift = mpmath.mpf(epsilon) / mu
        return float(mpmath.ncdf(mu / 2 - shift) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - shift))


@pytest.mark.parametrize(
    ("sigma", "uses", "delta"), [(2.0, 2, 1e-5), (2.0, 7, 1e-5), (5.0, 40, 1e-12), (1.0, 5, 1e-40), (0.005, 33, 1e-10)]
)
def test_contour_of_a_full_sample_is_the_closed_form(sigma: float, uses: int, delta: float) -> None:
    """At rate 1 the sampled Gaussian is the Gaussian itself."""
    law = removal_pair(rate=1.0, sigma=sigma, removed=True)
    profile = contour_profile([(law, uses)], precision=0.0, delta=delta, epsilon=None)
    found = epsilon_bracket(profile, delta, start=1.0)
    mu = math.sqrt(uses) / sigma
    assert gaussian(mu, found.lower) >= delta * (1 - 1e-12)
    assert gaussian(mu, found.upper) <= delta * (1 + 1e-12)
    assert found.upper - found.lower <= 1e-6 * found.upper


@pytest.mark.parametrize("removed", [True, False])
def test_contour_of_two_uses_against_direct_integration(removed: bool) -> None:
    """δ of two uses = E over the first of δ of the second at what is left of ε."""
    rate, sigma, epsilon = 0.2, 1.0, 0.3
    law = removal_pair(rate=rate, sigma=sigma, removed=removed)
    sign = 1.0 if removed else -1.0

    def loss(x: float) -> float:
        return sign * math.log1p(rate * math.expm1((x - 0.5) / sigma**2))

    def density(x: float) -> float:
        base = norm.pdf(x, scale=sigma)
        return base * (1.0 + rate * math.expm1((x - 0.5) / sigma**2)) if removed else base

    pair = (Mixed if removed else Reversed)(GaussianPair(ball(1.0)), ball(rate))
    second = SingleProfile(pair, pair, 128)
    expected, error = quad(lambda x: density(x) * second.delta(epsilon - loss(x))[1], -9.0, 10.0, limit=200)
    found = contour_profile([(law, 2)], precision=0.0, delta=expected, epsilon=epsilon).delta(epsilon)
    assert found[0] <= expected + error
    assert found[1] >= expected - error
    assert found[1] - found[0] < 1e-5 * expected


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0])
def test_replaced_curve_of_one_use_is_its_formula(epsilon: float) -> None:
    """γ h(1 + (α−1)/γ) for α >= 1 (docs/theory/sampling.md)."""
    rate, sigma = 0.1, 0.7
    law = replaced_curve(rate=rate, sigma=sigma)
    above = rate * gaussian(1 / sigma, math.log1p(math.expm1(epsilon) / rate))
    assert law.delta(epsilon).upper == pytest.approx(above, rel=1e-12)


@pytest.mark.parametrize(
    ("rate", "sigma", "epsilon"), [(7e-10, 2.54, 6e-4), (0.0107, 2.733, 8.44), (0.3, 0.05, 0.0), (0.9, 40.0, 0.01)]
)
def test_one_use_is_the_closed_form_in_balls(rate: float, sigma: float, epsilon: float) -> None:
    """As low as 4e-277; the threshold is found in float64."""
    with precision():
        inner = GaussianPair(1 / ball(sigma))
        pairs = Mixed(inner, ball(rate)), Reversed(inner, ball(rate)), Combined(inner, ball(rate))
    laws = (*(removal_pair(rate=rate, sigma=sigma, removed=removed) for removed in (True, False)),)
    for law, pair in zip((*laws, replaced_curve(rate=rate, sigma=sigma)), pairs, strict=True):
        lower, upper = law.delta(epsilon)
        least, most = SingleProfile(pair, pair, 256).delta(epsilon)
        assert lower <= most
        assert least <= upper <= max(lower * (1.0 + 1e-12), 1e-300)


def test_nothing_is_lost_beyond_the_largest_loss() -> None:
    """Added at rate 0.2 the loss never exceeds −log 0.8 a use."""
    law = removal_pair(rate=0.2, sigma=1.0, removed=False)
    found = contour_profile([(law, 2)], precision=0.0, delta=1e-9, epsilon=0.6).delta(0.6)
    assert found[0] == 0.0
    assert found[1] < 1e-100


def test_tiny_delta_keeps_relative_accuracy() -> None:
    law = removal_pair(rate=0.01, sigma=1.0, removed=True)
    for delta in (1e-30, 1e-100):
        profile = contour_profile([(law, 100)], precision=0.0, delta=delta, epsilon=None)
        found = epsilon_bracket(profile, delta, start=1.0)
        assert 0.0 < found.upper - found.lower <= 1e-6 * found.upper


def test_poisson_under_substitution_is_the_diluted_curve() -> None:
    law = diluted_pair(rate=0.2, sigma=1.5)
    for epsilon in (0.0, 0.7):
        expected = 0.2 * gaussian(1 / 1.5, epsilon)
        assert law.delta(epsilon).upper == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("rate", "sigma", "epsilon"), [(0.91319, 0.005246, 605677.5806336518), (0.5, 0.02, 42000.0)])
def test_rounding_at_large_losses_is_charged(rate: float, sigma: float, epsilon: float) -> None:
    """The first one's upper side was 2.2e-11 below the truth; how many of 33 samples hold the record is binomial."""
    laws = [(diluted_pair(rate=rate, sigma=sigma), 33)]
    profile = contour_profile(laws, precision=0.0, delta=1e-9, epsilon=epsilon, accuracy=1e-10)
    assert profile is not None
    found = profile.delta(epsilon)
    with mpmath.workdps(60):
        q, total = mpmath.mpf(rate), mpmath.mpf(0)
        for k in range(1, 34):
            mu = mpmath.sqrt(k) / mpmath.mpf(sigma)
            shift = mpmath.mpf(epsilon) / mu
            delta = mpmath.ncdf(mu / 2 - shift) - mpmath.exp(mpmath.mpf(epsilon)) * mpmath.ncdf(-mu / 2 - shift)
            total += mpmath.binomial(33, k) * q**k * (1 - q) ** (33 - k) * delta
        assert found[0] <= total <= found[1]
    assert found[1] - found[0] < 1e-6 * found[1]


def test_chernoffs_bound_of_many_uses_is_charged_for_the_rounding_of_each() -> None:
    """At rate 1 M(θ) is e^{n(θ² + θ)/(2σ²)}; at some ε the float64 value, times 1 + 1e-9, is below the bound it is."""
    uses, sigma, short = 10**9, 3.1e4, 0
    law = removal_pair(rate=1.0, sigma=sigma, removed=True)
    for epsilon in (9.0, 9.7, 10.3, 11.1, 12.9):
        profile = contour_profile([(law, uses)], precision=0.0, delta=1e-3, epsilon=epsilon)
        assert isinstance(profile, TailProfile)
        tilt, part = mpmath.mpf(profile.tilt), _part(law, uses, profile.tilt)
        with mpmath.workdps(40):
            log = uses * (tilt**2 + tilt) / (2 * mpmath.mpf(sigma) ** 2) - tilt * mpmath.mpf(epsilon)
            exact = mpmath.exp(log + tilt * mpmath.log(tilt) - (1 + tilt) * mpmath.log1p(tilt))
            float64 = mpmath.exp(uses * mpmath.mpf(part.log_peak) - uses * (tilt**2 + tilt) / (2 * sigma**2))
        assert exact <= profile.delta(epsilon).upper <= exact * 1.001
        short += float64 * (1 + mpmath.mpf(10) ** -9) < 1
    assert short > 0
