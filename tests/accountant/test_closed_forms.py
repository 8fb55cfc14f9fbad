"""Gaussian, optimal and mixed composition against mpmath and exact sums."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from affidavit.accountant.bound import bound
from affidavit.accountant.pld.gaussian import Gaussian
from affidavit.accountant.settle import settle


def gaussian_delta(epsilon: float, mu: float) -> mpmath.mpf:
    """Balle and Wang 2018, Theorem 8, at 60 digits."""
    with mpmath.workdps(60):
        e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@settings(max_examples=300, deadline=None)
@given(log_mu=st.floats(-7.0, 2.4), quantile=st.floats(-6.0, 30.0))
def test_gaussian_profile_encloses_the_closed_form(log_mu: float, quantile: float) -> None:
    mu = 10.0**log_mu
    epsilon = mu * mu / 2 + quantile * mu
    lower, upper = Gaussian(mu).delta(epsilon)
    truth = gaussian_delta(epsilon, mu)
    assert lower <= truth * (1 + mpmath.mpf(10) ** -30)
    assert upper >= truth * (1 - mpmath.mpf(10) ** -30) or truth < mpmath.mpf("1e-290")


@pytest.mark.parametrize("sigma", [1e9, 1e12, 1e16, 1e20, 1e100])
def test_noise_that_leaves_next_to_nothing_leaves_something(sigma: float) -> None:
    """δ at ε = 0 is 2Φ(μ/2) − 1, about μ/√(2π): a difference of two halves that float64 cannot tell apart."""
    plan = {"kind": "gaussian", "noise_multiplier": sigma}
    found = settle(plan, relation="add-remove", epsilon=0.0)
    truth = 1.0 / sigma / math.sqrt(2.0 * math.pi)
    assert found.delta_lower <= truth <= bound(plan, relation="add-remove", epsilon=0.0).delta_upper
    assert settle(plan, relation="add-remove", delta=truth / 2.0).epsilon_upper > 0.0


@pytest.mark.parametrize(
    ("sigma", "delta", "epsilon"),
    [  # mpmath, bisection on the closed form at 60 digits
        (1.0, 1e-5, 4.3771780956812245),
        (1.0, 1e-30, 11.743883025231737),
        (1000.0, 1e-5, 0.00193872496986011),
        (0.001, 1e-5, 504263.8929206541),
        (0.5, 1e-5, 9.997256146434301),
    ],
)
def test_gaussian_epsilon(sigma: float, delta: float, epsilon: float) -> None:
    found = bound({"kind": "gaussian", "noise_multiplier": sigma}, relation="add-remove", delta=delta)
    assert found.epsilon_lower <= epsilon <= found.epsilon_upper
    assert found.epsilon_upper == pytest.approx(epsilon, rel=1e-9)
    assert found.method == "gaussian"


def binomial_delta(epsilon: float, epsilon_one: float, count: int) -> mpmath.mpf:
    """δ of ``count`` randomised responses at 60 digits."""
    with mpmath.workdps(60):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon_one)))
        total = mpmath.mpf(0)
        for k in range(count + 1):
            loss = (2 * k - count) * mpmath.mpf(epsilon_one)
            if loss > epsilon:
                mass = mpmath.binomial(count, k) * p**k * (1 - p) ** (count - k)
                total += mass * (1 - mpmath.exp(mpmath.mpf(epsilon) - loss))
        return total


@settings(max_examples=60, deadline=None)
@given(count=st.integers(1, 60), one=st.floats(1e-3, 8.0), share=st.floats(0.0, 1.2))
@example(count=3, one=2.6890308907212654, share=1.0)  # the largest loss, rounded to below ε
def test_optimal_composition_encloses_the_binomial_sum(count: int, one: float, share: float) -> None:
    epsilon = share * count * one
    found = bound(
        {"kind": "repeat", "count": count, "of": {"kind": "pure", "epsilon": one}},
        relation="add-remove",
        epsilon=epsilon,
    )
    truth = binomial_delta(epsilon, one, count)
    assert found.delta_lower <= truth + mpmath.mpf(10) ** -40
    assert found.delta_upper >= truth - mpmath.mpf(10) ** -40


def test_approximate_steps_reveal_with_their_own_probability() -> None:
    """20 uses of (2, 1e-9)-DP at ε = 40: 1 − (1 − 1e-9)^20, since the randomised response part is 0."""
    plan = {"kind": "repeat", "count": 20, "of": {"kind": "approximate", "epsilon": 2, "delta": 1e-9}}
    found = bound(plan, relation="add-remove", epsilon=40.0)
    assert found.delta_lower == pytest.approx(2e-8, rel=1e-6)
    assert found.delta_upper == pytest.approx(2e-8, rel=1e-6)
    assert math.isinf(bound(plan, relation="add-remove", delta=1.9e-8).epsilon_lower)


def test_gaussian_with_randomised_response() -> None:
    """G(1) + RR(1) at 1e-5: 5.303466736384218 (two-term mixture of closed forms, mpmath)."""
    plan = {"kind": "compose", "parts": [{"kind": "gaussian", "noise_multiplier": 1.0}, {"kind": "pure", "epsilon": 1}]}
    found = bound(plan, relation="add-remove", delta=1e-5)
    assert found.epsilon_lower <= 5.303466736384218 <= found.epsilon_upper
    assert found.epsilon_upper - found.epsilon_lower < 1e-4


def test_zcdp_conversion_is_never_below_its_infimum() -> None:
    """ρ = 0.1, ε = 1: 0.008933245771818364 (mpmath, stationary order 6.3559); three more likewise."""
    for rho, epsilon, delta in [
        (0.1, 1.0, 0.008933245771818364),
        (0.5, 4.0, 1.957954169577216e-4),
        (1e-4, 0.1, 1.0636984768837401e-14),
        (10.0, 5.0, 0.99366619414422542),
    ]:
        found = bound({"kind": "zcdp", "rho": rho}, relation="add-remove", epsilon=epsilon, method="zcdp")
        assert delta * (1 - 1e-13) <= found.delta_upper <= delta * (1 + 1e-6)


def test_permute_and_flip_is_not_a_kind_of_exponential() -> None:
    """Pure 2-DP is charged 2²/2 zCDP, not the 2²/8 that only a bounded range earns."""
    pure = bound({"kind": "pure", "epsilon": 2.0}, relation="add-remove", epsilon=1.9, method="zcdp")
    soft = bound({"kind": "exponential", "range": 2.0}, relation="add-remove", epsilon=1.9, method="zcdp")
    assert pure.delta_upper > soft.delta_upper


def test_pure_budgets_add_exactly_and_round_up() -> None:
    """F27: ten times 0.1 and once 0.9 is the sum of the binary fractions, rounded up, no more."""
    plan = {
        "kind": "compose",
        "parts": [
            {"kind": "repeat", "count": 10, "of": {"kind": "pure", "epsilon": 0.1}},
            {"kind": "pure", "epsilon": 0.9},
        ],
    }
    found = bound(plan, relation="add-remove", delta=0.0)
    exact = 10 * Fraction(0.1) + Fraction(0.9)
    assert Fraction(found.epsilon_lower) <= exact <= Fraction(found.epsilon_upper)
    assert found.epsilon_upper - found.epsilon_lower <= 2 * math.ulp(1.9)


def test_special_values() -> None:
    one = {"kind": "gaussian", "noise_multiplier": 1.0}
    assert bound(one, relation="add-remove", delta=1.0).epsilon_upper == 0.0
    assert bound(one, relation="add-remove", delta=0.0).epsilon_lower == math.inf
    assert bound({"kind": "compose", "parts": []}, relation="add-remove", delta=1e-9).epsilon_upper == 0.0
    assert (
        bound({"kind": "gaussian", "noise_multiplier": 0}, relation="add-remove", delta=0.5).epsilon_lower == math.inf
    )
    assert bound(one, relation="add-remove", epsilon=0.0).delta_upper == pytest.approx(0.3829249225480262)
    assert 0.0 < bound(one, relation="add-remove", epsilon=5000.0).delta_upper < 1e-300


def test_advanced_composition_keeps_its_first_term() -> None:
    """η = 0.6361, T = 100, δ = 2.5e-5: 85.8474 in full, 29.285 with the term that some papers drop."""
    plan = {"kind": "repeat", "count": 100, "of": {"kind": "pure", "epsilon": 0.6361323155216285}}
    assert bound(plan, relation="add-remove", delta=2.5e-5, method="advanced").epsilon_upper == pytest.approx(85.847426)


@pytest.mark.parametrize(("rho", "epsilon"), [(1e-8, 3e-4), (1e-8, 1e-3), (1e-18, 3e-9), (1e-29, 1e-14)])
def test_the_conversion_of_a_tiny_rho_is_the_least_over_all_orders(rho: float, epsilon: float) -> None:
    """Canonne, Kamath and Steinke 2020, proposition 12, minimised in 60 digits: large orders cancelled in float64."""
    with mpmath.workdps(60):

        def log_delta(over: mpmath.mpf) -> mpmath.mpf:
            order = 1 + over
            return over * (order * rho - mpmath.mpf(epsilon)) - mpmath.log(over) + order * mpmath.log(over / order)

        low, high = mpmath.mpf(1), mpmath.mpf(10) ** 40
        for _ in range(400):  # the exponent is unimodal in the order
            a, b = low * (high / low) ** 0.4, low * (high / low) ** 0.6
            low, high = (low, b) if log_delta(a) < log_delta(b) else (a, high)
        exact = float(mpmath.exp(log_delta(low)))
    for method in ("zcdp", "rdp"):
        found = bound({"kind": "zcdp", "rho": rho}, relation="add-remove", epsilon=epsilon, method=method).delta_upper
        assert found >= exact * (1 - 1e-12)
        if method == "zcdp":
            assert found == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("sigma", [1e-7, 1e-8, 1e-12])
def test_a_gaussian_of_hardly_any_noise_has_a_finite_lower_side(sigma: float) -> None:
    """It was inf from σ = 1e-8 on, above the upper side: the search went no further than 1e15."""
    found = bound({"kind": "gaussian", "noise_multiplier": sigma}, relation="add-remove", delta=1e-5)
    with mpmath.workdps(400):
        mu, z = 1 / mpmath.mpf(sigma), mpmath.mpf("4.2648907939228246")  # Φ(−z) = 1e-5; e^ε Φ(…) is 4e-7 of it
        truth = mu**2 / 2 + z * mu
        assert found.epsilon_lower <= truth * (1 + mpmath.mpf("1e-15"))
        assert found.epsilon_upper >= truth * (1 - mpmath.mpf("1e-13"))
    assert found.epsilon_upper - found.epsilon_lower <= 1e-8 * found.epsilon_upper
