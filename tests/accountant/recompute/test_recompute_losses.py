"""The verifier's building blocks against closed forms, exact sums and direct integration."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from affidavit.accountant.recompute.atoms import POINT_MASS, AtomicLaw, binomial_law, laplace_law
from affidavit.accountant.recompute.bracket import epsilon_bracket
from affidavit.accountant.recompute.concentrated import ConcentratedProfile
from affidavit.accountant.recompute.contour import contour_profile
from affidavit.accountant.recompute.gaussian import GaussianProfile
from affidavit.accountant.recompute.mixed import MixedProfile
from affidavit.accountant.recompute.smooth import diluted_pair, explicit_pair, removal_pair, replacement_curve


def test_gaussian_closed_form() -> None:
    # Φ(1/2 − ε) − e^ε Φ(−1/2 − ε) at ε = 1 by scipy, an independent implementation of Φ
    expected = norm.cdf(-0.5) - math.e * norm.cdf(-1.5)
    found = GaussianProfile(mpmath.mpf(1)).delta(1.0)
    assert found.lower <= expected * (1 + 1e-13)
    assert found.upper >= expected * (1 - 1e-13)
    assert found.upper - found.lower <= 1e-15 * expected


def test_pure_composition_is_the_exact_sum() -> None:
    """All 2^6 outcomes of six randomised responses, in rationals."""
    ratio, uses = Fraction(3), 6
    law = binomial_law(epsilon=math.log(3), delta=0.0, uses=uses)
    for threshold in (Fraction(1), Fraction(5), Fraction(100)):
        exact = Fraction(0)
        for outcome in product((0, 1), repeat=uses):
            p = math.prod((ratio if bit else Fraction(1)) / (1 + ratio) for bit in outcome)
            q = math.prod((Fraction(1) if bit else ratio) / (1 + ratio) for bit in outcome)
            exact += max(Fraction(0), p - threshold * q)
        found = law.delta(math.log(threshold))
        assert found.lower <= float(exact) <= found.upper
        assert found.upper - found.lower <= 1e-13


def test_approximate_composition_by_the_formula_of_kairouz_oh_viswanath() -> None:
    law = binomial_law(epsilon=0.5, delta=1e-3, uses=3)
    missed = 1.0 - (1.0 - 1e-3) ** 3
    p = 1.0 / (1.0 + math.exp(-0.5))
    pure = p**3 * (1 - math.exp(0.2 - 1.5)) + 3 * p**2 * (1 - p) * (1 - math.exp(0.2 - 0.5))
    found = law.delta(0.2)
    assert found.lower <= missed + (1 - missed) * pure <= found.upper
    assert found.upper - found.lower < 1e-14


def test_float_and_exact_binomials_agree() -> None:
    exact = binomial_law(epsilon=0.01, delta=0.0, uses=2000)
    floats = binomial_law(epsilon=0.01, delta=0.0, uses=2001)
    # One use more costs a little more, and the bracket of each contains its own truth.
    a, b = exact.delta(1.0), floats.delta(1.0)
    assert a.lower < b.upper < a.upper * 1.01


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_coarsening_brackets_the_law(epsilon: float) -> None:
    rng = np.random.default_rng(5)
    losses = np.sort(rng.normal(0.5, 1.0, 4000))
    masses = rng.random(4000)
    law = AtomicLaw(losses, masses / masses.sum())
    exact = law.delta(epsilon).lower
    upper = law.coarsened(200, upper=True)
    lower = law.coarsened(200, upper=False)
    assert lower.delta(epsilon).lower <= exact <= upper.delta(epsilon).upper
    assert upper.delta(epsilon).upper - lower.delta(epsilon).lower < 2e-3
    assert upper.masses.sum() == pytest.approx(1.0, abs=1e-12)
    # Splitting keeps the Q-mass, too.
    assert (upper.masses * np.exp(-upper.losses)).sum() == pytest.approx(
        (law.masses * np.exp(-law.losses)).sum(), rel=1e-12
    )


def test_power_is_repeated_composition() -> None:
    law = AtomicLaw(np.array([-0.4, 0.1, 0.5]), np.array([0.2, 0.3, 0.5]))
    third = law.compose(law, upper=True).compose(law, upper=True)
    power = law.power(3, upper=True)
    for epsilon in (0.0, 0.3, 1.1):
        assert power.delta(epsilon).upper == pytest.approx(third.delta(epsilon).upper, rel=1e-12)


def test_gaussian_with_atoms_is_the_mixture() -> None:
    atoms = binomial_law(epsilon=1.0, delta=0.0, uses=1)
    found = MixedProfile(atoms, 1.0).delta(2.0)
    p = 1.0 / (1.0 + math.exp(-1.0))
    gauss = GaussianProfile(mpmath.mpf(1))
    expected = p * gauss.delta(1.0).upper + (1.0 - p) * gauss.delta(3.0).upper
    assert found.lower <= expected <= found.upper * (1 + 1e-15)
    assert found.upper - found.lower < 1e-11 * expected


@pytest.mark.parametrize(
    ("sigma", "uses", "delta"), [(2.0, 2, 1e-5), (2.0, 7, 1e-5), (5.0, 40, 1e-12), (1.0, 5, 1e-40)]
)
def test_contour_of_a_full_sample_is_the_closed_form(sigma: float, uses: int, delta: float) -> None:
    """At rate 1 the sampled Gaussian is the Gaussian itself."""
    law = removal_pair(rate=1.0, sigma=sigma, removed=True)
    profile = contour_profile([(law, uses)], precision=0.0, atoms=POINT_MASS, delta=delta, epsilon=None)
    found = epsilon_bracket(profile, delta, start=1.0)
    exact = epsilon_bracket(GaussianProfile(mpmath.mpf(uses) / mpmath.mpf(sigma) ** 2), delta, start=1.0)
    assert found.lower <= exact.upper
    assert found.upper >= exact.lower
    assert found.upper - found.lower <= 1e-6 * exact.upper


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

    expected, error = quad(lambda x: density(x) * law.delta(epsilon - loss(x)).upper, -9.0, 10.0, limit=200)
    found = contour_profile([(law, 2)], precision=0.0, atoms=POINT_MASS, delta=expected, epsilon=epsilon).delta(epsilon)
    assert found.lower <= expected + error
    assert found.upper >= expected - error
    assert found.upper - found.lower < 1e-5 * expected


def test_contour_with_atoms_and_gaussians_conditions_on_the_atom() -> None:
    law = removal_pair(rate=0.1, sigma=1.0, removed=True)
    atoms = binomial_law(epsilon=0.3, delta=1e-7, uses=1)
    joint = contour_profile([(law, 20)], precision=0.25, atoms=atoms, delta=1e-4, epsilon=1.5)
    alone = contour_profile([(law, 20)], precision=0.25, atoms=POINT_MASS, delta=1e-4, epsilon=1.5)
    expected = atoms.infinite + sum(
        w * alone.delta(1.5 - x).upper for x, w in zip(atoms.losses, atoms.masses, strict=True)
    )
    found = joint.delta(1.5)
    assert found.lower == pytest.approx(expected, rel=1e-5)
    assert found.upper == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0])
def test_replacement_curve_of_one_use_is_its_formula(epsilon: float) -> None:
    """γ h(1 + (α−1)/γ) for α >= 1, and its reflection (DESIGN's theory, section 4)."""
    rate, sigma = 0.1, 0.7
    law = replacement_curve(rate=rate, sigma=sigma)
    gauss = GaussianProfile(1 / mpmath.mpf(sigma) ** 2)
    above = rate * gauss.delta(math.log1p(math.expm1(epsilon) / rate)).upper
    assert law.delta(epsilon).upper == pytest.approx(above, rel=1e-12)
    assert law.delta(-epsilon).upper == pytest.approx(1.0 - math.exp(-epsilon) + math.exp(-epsilon) * above, rel=1e-12)


@pytest.mark.parametrize("before", [0.0, 0.3, 1.0])
def test_explicit_pairs_lie_below_the_curve(before: float) -> None:
    pair = explicit_pair(rate=0.1, sigma=0.7, before=before)
    curve = replacement_curve(rate=0.1, sigma=0.7)
    for epsilon in (-0.5, 0.0, 0.2, 1.0):
        assert pair.delta(epsilon).lower <= curve.delta(epsilon).upper
    one, other = pair.pieces[0].p, pair.pieces[0].q

    def positive_part(x: float) -> float:
        def density(c: object) -> float:
            return (1 - c.share) * norm.pdf(x, scale=0.7) + c.share * norm.pdf(x, c.mean, 0.7)  # type: ignore[attr-defined]

        return max(0.0, density(one) - math.exp(0.1) * density(other))

    expected, error = quad(positive_part, -8.0, 8.0, limit=400, points=[0.5, -0.5], epsabs=1e-13)
    assert pair.delta(0.1).upper == pytest.approx(expected, abs=10 * error + 1e-9)


def test_nothing_is_lost_beyond_the_largest_loss() -> None:
    """Added at rate 0.2 the loss never exceeds −log 0.8 a use."""
    law = removal_pair(rate=0.2, sigma=1.0, removed=False)
    found = contour_profile([(law, 2)], precision=0.0, atoms=POINT_MASS, delta=1e-9, epsilon=0.6).delta(0.6)
    assert found.lower == 0.0
    assert found.upper < 1e-100


def test_tiny_delta_keeps_relative_accuracy() -> None:
    law = removal_pair(rate=0.01, sigma=1.0, removed=True)
    for delta in (1e-30, 1e-100):
        profile = contour_profile([(law, 100)], precision=0.0, atoms=POINT_MASS, delta=delta, epsilon=None)
        found = epsilon_bracket(profile, delta, start=1.0)
        assert 0.0 < found.upper - found.lower <= 1e-6 * found.upper


def test_laplace_of_one_use_is_its_formula() -> None:
    """1 − e^{(ε − 1/b)/2} for 0 <= ε <= 1/b (Balle, Barthe and Gaboardi 2018, Theorem 3)."""
    for epsilon in (0.0, 0.2, 0.45):
        exact = -math.expm1(0.5 * (epsilon - 0.5))
        above, below = laplace_law(scale=2.0, upper=True), laplace_law(scale=2.0, upper=False)
        assert below.delta(epsilon).lower <= exact <= above.delta(epsilon).upper
        assert above.delta(epsilon).upper - below.delta(epsilon).lower < 1e-6
        for law in (above, below):
            assert law.masses.sum() == pytest.approx(1.0, abs=1e-12)
            assert (law.masses * np.exp(-law.losses)).sum() == pytest.approx(1.0, abs=1e-12)


def test_poisson_under_substitution_is_the_diluted_curve() -> None:
    law = diluted_pair(rate=0.2, sigma=1.5)
    gauss = GaussianProfile(1 / mpmath.mpf(1.5) ** 2)
    for epsilon in (-0.4, 0.0, 0.7):
        expected = 0.8 * max(0.0, -math.expm1(epsilon)) + 0.2 * gauss.delta(epsilon).upper
        assert law.delta(epsilon).upper == pytest.approx(expected, rel=1e-12)


def test_zcdp_conversion() -> None:
    """Values of the stationary point of Canonne, Kamath and Steinke's formula, by mpmath (peer_faults F19)."""
    for rho, epsilon, delta in (
        (0.1, 1.0, 8.933245771818364e-3),
        (1e-4, 0.1, 1.0636984768837401e-14),
        (10.0, 5.0, 0.99366619414422542),
    ):
        found = ConcentratedProfile(rho).delta(epsilon).upper
        assert found >= delta * (1.0 - 1e-13)
        assert found == pytest.approx(delta, rel=1e-12)
