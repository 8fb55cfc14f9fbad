"""One-step curves against closed forms, direct sums and quadrature in mpmath."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from affidavit.accountant.pld.atomic import Atomic, approximate, pure
from affidavit.accountant.pld.bounded_range import BoundedRange
from affidavit.accountant.pld.concentrated import Concentrated
from affidavit.accountant.pld.curve import Curve, FullLoss, NoLoss
from affidavit.accountant.pld.discrete_gaussian import _pair, _Wide, discrete_gaussian
from affidavit.accountant.pld.gaussian import Gaussian
from affidavit.accountant.pld.laplace import Laplace
from affidavit.accountant.pld.subsample import Diluted, Mixed, PoissonSubstitution, TwoSided

ATOMS = np.array([-0.5, 0.1, math.log((1.0 - 0.5 * math.exp(-0.5) - 0.3 * math.exp(0.1)) / 0.2)])
CURVES: dict[str, Curve] = {
    "gaussian": Gaussian(1.0),
    "gaussian-weak": Gaussian(0.01),
    "gaussian-strong": Gaussian(8.0),
    "laplace": Laplace(0.7),
    "pure": pure(1.3),
    "approximate": approximate(0.8, 1e-3),
    "envelope": BoundedRange(1.2),
    "concentrated": Concentrated(0.3),
    "concentrated-weak": Concentrated(1e-7),
    "discrete": _pair(2.0, 1),
    "discrete-wide": _pair(6000.0, 3000),
    "mixed-gaussian": Mixed(Gaussian(1.0), 0.05),
    "mixed-gaussian-back": Mixed(Gaussian(1.0), 0.05).swapped(),
    "mixed-rare": Mixed(Gaussian(2.5), 1e-4),
    "mixed-approximate": Mixed(approximate(0.8, 1e-3), 0.2),
    "mixed-approximate-back": Mixed(approximate(0.8, 1e-3), 0.2).swapped(),
    "mixed-laplace-back": Mixed(Laplace(1.0), 0.3).swapped(),
    "combined-gaussian": TwoSided(Mixed(Gaussian(1.5), 0.03)),
    "combined-pure": TwoSided(Mixed(pure(1.3), 0.1)),
    "diluted": Diluted(Gaussian(1.0), 0.2),
    # Q-masses .5, .3, .2; the last loss makes the P-masses add up to 1.
    "atoms": Atomic(ATOMS, np.log(np.array([0.5, 0.3, 0.2])) + ATOMS),
}
LOSSES = np.array(
    [-30.0, -3.0, -1.31, -0.7, -0.3, -0.051, -0.01, -1e-9, 0.0, 1e-9, 0.003, 0.1, 0.4, 0.7, 1.3, 3.0, 9.0]
)


@pytest.mark.parametrize("name", CURVES)
def test_tails_and_heads_are_complementary_and_monotone(name: str) -> None:
    logs = CURVES[name].logs(LOSSES)
    assert np.all(np.abs(np.exp(logs.p_tail) + np.exp(logs.p_head) - 1.0) < 2e-10)
    assert np.all(np.diff(logs.p_tail[np.isfinite(logs.p_tail)]) <= 1e-12)
    for part in logs:
        assert not np.isnan(part).any()
        assert np.all(part <= 1e-15)
    # Beyond every loss: nothing but the mass at infinity; below, everything.
    ends = CURVES[name].logs(np.array([-math.inf, math.inf]))
    assert math.exp(ends.p_tail[1]) == pytest.approx(CURVES[name].infinity, abs=1e-15)
    assert math.exp(ends.p_tail[0]) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("name", CURVES)
def test_profile_of_the_swap_is_the_reflection(name: str) -> None:
    """H_α(Q‖P) = 1 − α + α H_{1/α}(P‖Q), an identity for every pair."""
    curve = CURVES[name]
    swap = curve.swapped()
    for loss in (-2.0, -0.37, -0.06, 0.02, 0.35, 1.1):
        alpha = math.exp(loss)
        low, high = swap.delta(loss)
        back_low, back_high = curve.delta(-loss)
        assert low <= 1.0 - alpha + alpha * back_high + 1e-9
        assert high >= 1.0 - alpha + alpha * back_low - 1e-9


@pytest.mark.parametrize("name", CURVES)
def test_profile_is_a_profile(name: str) -> None:
    """δ falls in ε, lies above (1 − e^ε)₊ and is convex in e^ε."""
    curve = CURVES[name]
    losses = np.linspace(-2.0, 2.0, 41)
    values = np.array([sum(curve.delta(float(x))) / 2.0 for x in losses])
    assert np.all(np.diff(values) <= 1e-10)
    assert np.all(values >= np.maximum(0.0, -np.expm1(losses)) - 1e-10)
    slopes = np.diff(values) / np.diff(np.exp(losses))
    assert np.all(np.diff(slopes) >= -1e-7)


def mixed_gaussian_delta(sigma: float, rate: float, epsilon: float, *, backward: bool) -> mpmath.mpf:
    """The profile by quadrature of (dP − e^ε dQ)₊."""
    with mpmath.workdps(30):
        s, q = mpmath.mpf(sigma), mpmath.mpf(rate)

        def density(x: mpmath.mpf, mean: int) -> mpmath.mpf:
            return mpmath.npdf(x, mean, s)

        def positive(x: mpmath.mpf) -> mpmath.mpf:
            mix, rest = q * density(x, 1) + (1 - q) * density(x, 0), density(x, 0)
            p, other = (rest, mix) if backward else (mix, rest)
            return max(p - mpmath.exp(epsilon) * other, mpmath.mpf(0))

        target = mpmath.exp(-epsilon) if backward else mpmath.exp(epsilon)
        inner = (target - 1 + q) / q
        kink = s**2 * mpmath.log(inner) + mpmath.mpf(1) / 2 if inner > 0 else mpmath.mpf(-40)
        points = sorted([mpmath.mpf(-20) * s, kink, mpmath.mpf(0), mpmath.mpf(1), kink + s, mpmath.mpf(20) * s + 1])
        return mpmath.quad(positive, points)


@pytest.mark.parametrize(("sigma", "rate", "epsilon"), [(1.0, 0.01, 0.2), (0.5, 0.1, 1.5), (3.0, 0.3, 0.05)])
@pytest.mark.parametrize("backward", [False, True])
def test_poisson_gaussian_against_quadrature(sigma: float, rate: float, epsilon: float, backward: bool) -> None:
    curve: Curve = Mixed(Gaussian(1.0 / sigma), rate)
    if backward:
        curve, epsilon = curve.swapped(), 0.5 * min(epsilon, -math.log1p(-rate))
    expected = float(mixed_gaussian_delta(sigma, rate, epsilon, backward=backward))
    low, high = curve.delta(epsilon)
    assert low <= expected * (1 + 1e-9)
    assert high >= expected * (1 - 1e-9)
    assert high - low <= 1e-9 * expected + 1e-14


@pytest.mark.parametrize("epsilon", [0.0, 3.0, 20.0, 36.0])
def test_gaussian_keeps_relative_accuracy_far_out(epsilon: float) -> None:
    """δ(20) is 2.66e-86 and δ(36) about 1e-280; mpmath, Balle and Wang's formula."""
    with mpmath.workdps(330):
        e = mpmath.mpf(epsilon)
        exact = mpmath.ncdf(0.5 - e) - mpmath.exp(e) * mpmath.ncdf(-0.5 - e)
    low, high = Gaussian(1.0).delta(epsilon)
    assert low <= exact <= high
    assert high - low <= 1e-10 * float(exact)


def test_laplace_against_its_closed_form() -> None:
    """δ(ε) = 1 − e^{(ε − ε₀)/2} for 0 <= ε <= ε₀."""
    for epsilon in (0.0, 0.2, 0.69):
        low, high = Laplace(0.7).delta(epsilon)
        assert low <= -math.expm1((epsilon - 0.7) / 2.0) <= high
    assert Laplace(0.7).delta(0.7) == (0.0, 0.0)


def test_envelope_is_the_maximum_over_two_point_losses() -> None:
    eta, t = 1.2, np.linspace(0.0, 1.2, 20001)
    for epsilon in (-0.9, -0.2, 0.0, 0.4, 1.1):
        inside = (t >= epsilon) & (t - eta <= epsilon)
        family = np.expm1(t[inside] - eta) * np.expm1(epsilon - t[inside]) / -math.expm1(-eta)
        low, high = BoundedRange(eta).delta(epsilon)
        assert high >= family.max() - 1e-15
        assert low <= family.max() + 1e-7


def test_pure_and_approximate_are_tight_at_their_epsilon() -> None:
    assert pure(1.3).delta(1.3) == (0.0, 0.0)
    assert approximate(0.8, 1e-3).delta(0.8) == (1e-3, 1e-3)
    low, high = pure(1.3).delta(0.0)
    assert low <= math.tanh(0.65) <= high


def discrete_delta(deviation: float, shift: int, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(40):
        reach = int(30 * deviation) + shift
        weights = {
            x: mpmath.exp(-(mpmath.mpf(x) ** 2) / (2 * mpmath.mpf(deviation) ** 2)) for x in range(-reach, reach + 1)
        }
        total = mpmath.fsum(weights.values())
        e = mpmath.exp(mpmath.mpf(epsilon))
        return (
            mpmath.fsum(
                max(weights.get(x - shift, 0) - e * weights[x], mpmath.mpf(0)) for x in range(-reach, reach + 1)
            )
            / total
        )


@pytest.mark.parametrize(
    ("deviation", "shift", "epsilon"), [(2.0, 1, 1.0), (2.0, 1, 2.0), (8.0, 4, 1.0), (3.0, 2, 0.0)]
)
def test_discrete_gaussian_against_the_direct_sum(deviation: float, shift: int, epsilon: float) -> None:
    low, high = _pair(deviation, shift).delta(epsilon)
    exact = discrete_delta(deviation, shift, epsilon)
    assert low <= exact <= high
    assert high - low <= 1e-12 * float(exact) + 1e-16


def test_discrete_gaussian_exceeds_the_continuous_one_by_a_third_at_two_steps() -> None:
    """35 % in δ at σ = 2 steps far out, so the continuous curve is no bound."""
    ratios = [_pair(2.0, 1).delta(e)[0] / Gaussian(0.5).delta(e)[1] for e in np.linspace(0.1, 6.0, 60)]
    assert max(ratios) > 1.35


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0, 6.0])
def test_wide_discrete_gaussian_agrees_with_the_explicit_one(epsilon: float) -> None:
    explicit, wide = _pair(990.0, 990), _Wide(990.0, 990)
    low, high = explicit.delta(epsilon)
    wide_low, wide_high = wide.delta(epsilon)
    assert wide_low <= high
    assert low <= wide_high
    assert wide_high - wide_low < 1e-11
    # The correction is needed: without it the two differ by 1e-7.
    assert abs(wide_low - low) < 1e-11


def test_granularity_that_does_not_divide_rounds_both_ways() -> None:
    step = discrete_gaussian(2.0, 0.3)
    assert step.forward.lower is not None
    assert step.forward.lower.delta(0.5)[1] < step.forward.upper.delta(0.5)[0]


@pytest.mark.parametrize("alpha", [0.3, 0.8, 0.97, 1.0, 1.05, 1.6])
def test_combined_curve_is_the_theorem(alpha: float) -> None:
    """γ h(1 + (α−1)/γ) for α >= 1 and its reflection 1 − α + α γ h(1 + (1/α − 1)/γ) below."""
    gamma, base = 0.1, Gaussian(1.2)

    def h(beta: float) -> float:
        return sum(base.delta(math.log(beta))) / 2.0

    expected = (
        gamma * h(1 + (alpha - 1) / gamma) if alpha >= 1 else 1 - alpha + alpha * gamma * h(1 + (1 / alpha - 1) / gamma)
    )
    low, high = TwoSided(Mixed(base, gamma)).delta(math.log(alpha))
    assert low - 1e-12 <= expected <= high + 1e-12


def test_poisson_substitution_curve_is_the_theorem_and_lies_below_the_diluted_one() -> None:
    """q[(1−β) k(α) + β h(α)] at α' = 1 + q(α−1); knowing the (present, absent) curve can only help."""
    q, k, h = 0.1, Gaussian(1.0), Gaussian(math.sqrt(2.0))
    curve = PoissonSubstitution(k, h, q)
    for alpha in (1.0, 1.5, 4.0, 30.0):
        outer = 1 + q * (alpha - 1)
        beta = outer / alpha
        expected = q * ((1 - beta) * k.delta(math.log(alpha))[1] + beta * h.delta(math.log(alpha))[1])
        low, high = curve.delta(math.log(outer))
        assert low - 1e-12 <= expected <= high + 1e-12
        assert low <= Diluted(h, q).delta(math.log(outer))[1] + 1e-12


def test_trivial_curves() -> None:
    assert NoLoss().delta(0.0) == (0.0, 0.0)
    assert FullLoss().delta(5.0) == (1.0, 1.0)
    assert Mixed(FullLoss(), 0.25).delta(3.0) == (0.25, 0.25)
