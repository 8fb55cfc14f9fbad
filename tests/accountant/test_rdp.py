"""Rényi curves against quadrature, brute force and other accountants; conversions against closed forms."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.cases.case import Case
from affidavit.accountant.methods.rdp import RenyiMethod, RenyiProfile, rdp
from affidavit.accountant.plan import parse_plan
from affidavit.accountant.pld.engine import epsilon_bracket
from affidavit.accountant.pld.steps import flatten


def gaussian(noise: float) -> dict[str, Any]:
    return {"kind": "gaussian", "noise_multiplier": noise}


def poisson(rate: float, of: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "subsample", "scheme": "poisson", "rate": rate, "of": of}


def fixed_size(population: int, sample: int, of: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "subsample", "scheme": "without-replacement", "population": population, "sample": sample, "of": of}


def repeat(count: int, of: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "repeat", "count": count, "of": of}


def curve(plan: dict[str, Any], order: float, relation: Any = "add-remove") -> float:
    return rdp(parse_plan(plan), relation)(order)


def exact_moment(sigma: float, rate: float, order: float, *, backward: bool) -> float:
    """ρ(α) of the Poisson-sampled Gaussian by quadrature in 40 digits."""
    with mpmath.workdps(30):
        s, q, a = mpmath.mpf(sigma), mpmath.mpf(rate), mpmath.mpf(order)

        def excess(x: mpmath.mpf) -> mpmath.mpf:
            u = mpmath.expm1((2 * x - 1) / (2 * s * s))
            ratio = 1 + q * u
            value = ratio ** (1 - a) - 1 - (1 - a) * q * u if backward else ratio**a - 1 - a * q * u
            return mpmath.npdf(x, 0, s) * value

        points = [mpmath.mpf(k) * s for k in range(-16, 17, 2)]
        top = order + 16 * s
        points += [
            x for x in (points[-1] + (top - points[-1]) * mpmath.mpf(k) / 6 for k in range(1, 7)) if x > points[-1]
        ]
        return float(mpmath.log1p(mpmath.quad(excess, points)) / (a - 1))


@pytest.mark.parametrize(("sigma", "rate"), [(1.0, 0.01), (0.5, 0.1), (3.0, 0.5), (1000.0, 1e-4)])
@pytest.mark.parametrize("order", [1.1, 1.5, 2.0, 7.3])
def test_poisson_gaussian_at_real_orders(sigma: float, rate: float, order: float) -> None:
    """Also peer_faults F29: 7.5000037e-15 at order 1.5, σ = 1000, q = 1e-4, where a peer prints 2.6e-13."""
    exact = exact_moment(sigma, rate, order, backward=False)
    ours = curve(poisson(rate, gaussian(sigma)), order)
    assert exact * (1 - 1e-9) <= ours <= exact * (1 + 1e-8)
    assert ours >= exact_moment(sigma, rate, order, backward=True) * (1 - 1e-9)


@settings(max_examples=30, deadline=None)
@given(sigma=st.floats(0.3, 50.0), rate=st.floats(1e-6, 0.999), low=st.floats(1.01, 60.0), high=st.floats(1.01, 60.0))
def test_curves_rise_with_the_order_and_lie_below_the_unsampled_one(
    sigma: float, rate: float, low: float, high: float
) -> None:
    low, high = sorted((low, high))
    sampled = rdp(parse_plan(poisson(rate, gaussian(sigma))), "add-remove")
    assert sampled(low) <= sampled(high) * (1 + 1e-8)
    assert sampled(high) <= high / (2 * sigma**2) * (1 + 1e-9)


@pytest.mark.parametrize("order", [1.5, 2.0, 7.0, 40.0])
def test_pure_is_randomised_response(order: float) -> None:
    for epsilon in (1e-7, 0.3, 4.0, 60.0):
        with mpmath.workdps(60):
            e, a = mpmath.mpf(epsilon), mpmath.mpf(order)
            exact = mpmath.log((mpmath.exp(a * e) + mpmath.exp((1 - a) * e)) / (1 + mpmath.exp(e))) / (a - 1)
        ours = curve({"kind": "pure", "epsilon": epsilon}, order)
        assert float(exact) * (1 - 1e-12) <= ours <= float(exact) * (1 + 1e-9)


@pytest.mark.parametrize("order", [1.5, 2.0, 7.0, 40.0])
def test_laplace_against_quadrature(order: float) -> None:
    for scale in (0.5, 2.0, 1e4):
        with mpmath.workdps(60):
            b, a = mpmath.mpf(scale), mpmath.mpf(order)
            tail = a / (2 * a - 1) * mpmath.exp((a - 1) / b) + (a - 1) / (2 * a - 1) * mpmath.exp(-a / b)
            exact = mpmath.log(tail) / (a - 1)
        ours = curve({"kind": "laplace", "noise_multiplier": scale}, order)
        assert float(exact) <= ours <= float(exact) * (1 + 1e-6)


@pytest.mark.parametrize("order", [1.2, 2.0, 9.0])
def test_bounded_range_is_the_maximum_over_its_pairs(order: float) -> None:
    """At η = 2, α = 2: between 0.8676 (an explicit mechanism) and η²α/8 = 1 (peer_faults U22)."""
    for eta in (0.01, 0.6, 2.0, 12.0):
        t = np.linspace(0.0, eta, 20001)
        q = np.expm1(t - eta) / (np.exp(t - eta) - np.exp(t))
        p = np.exp(t) * q
        family = np.log(p * np.exp((order - 1) * t) + (1 - p) * np.exp((order - 1) * (t - eta))) / (order - 1)
        ours = curve({"kind": "exponential", "range": eta}, order, "zero-out")
        assert family.max() - 1e-13 <= ours <= min(family.max() * (1 + 1e-6) + 1e-12, order * eta**2 / 8 * (1 + 1e-12))


def test_sampled_bounds_dominate_the_exact_divergence_of_randomised_response() -> None:
    """Zhu–Wang and Wang–Balle–Kasiviswanathan against the sampled two-point laws they must cover."""
    epsilon, rate = 0.9, 0.2
    p = np.array([math.exp(epsilon), 1.0]) / (1.0 + math.exp(epsilon))
    q = p[::-1]
    mixed, other = rate * p + (1 - rate) * q, rate * q + (1 - rate) * q
    replaced = rate * p + (1 - rate) * np.array([0.5, 0.5]), rate * q + (1 - rate) * np.array([0.5, 0.5])
    leaf = {"kind": "pure", "epsilon": epsilon}
    for order in (2.0, 3.0, 4.5, 9.0):

        def divergence(a: np.ndarray, b: np.ndarray, order: float = order) -> float:
            return float(np.log(np.sum(a**order * b ** (1 - order))) / (order - 1))

        bound = curve(poisson(rate, leaf), order)
        assert bound >= max(divergence(mixed, other), divergence(other, mixed))
        fixed = curve(fixed_size(100, 20, leaf), order, "substitution")
        assert fixed >= divergence(*replaced)


@pytest.mark.parametrize(
    ("rho", "epsilon", "delta"), [(0.1, 1.0, 0.008933245771818364), (0.5, 4.0, 1.957954169577216e-4)]
)
def test_conversion_of_zcdp(rho: float, epsilon: float, delta: float) -> None:
    """The infimum over orders of Canonne, Kamath and Steinke's formula (peer_faults F19, mpmath)."""
    ours = RenyiProfile(rdp(parse_plan({"kind": "zcdp", "rho": rho}), "add-remove")).delta(epsilon).upper
    assert delta * (1 - 1e-12) <= ours <= delta * (1 + 1e-6)


def test_continuous_orders_beat_a_grid() -> None:
    """σ = 1000: dp-accounting 0.6.0's orders end at 1024 and give 0.0040; the exact ε is 0.0019387."""
    ours = RenyiProfile(rdp(parse_plan(gaussian(1000.0)), "add-remove")).epsilon(1e-5).upper
    assert 0.00193872 <= ours < 0.00235


def test_one_order_against_another_accountant() -> None:
    """σ = 1, q = 1e-3, 10^6 uses, δ = 1e-8: dp-accounting 0.6.0 says 8.2810 on its grid of orders."""
    plan = parse_plan(repeat(10**6, poisson(1e-3, gaussian(1.0))))
    ours = RenyiProfile(rdp(plan, "add-remove")).epsilon(1e-8).upper
    assert 7.87 < ours <= 8.2811


PLANS = [
    repeat(100, poisson(0.05, gaussian(1.0))),
    repeat(30, poisson(0.1, {"kind": "laplace", "noise_multiplier": 1.0})),
    repeat(100, {"kind": "pure", "epsilon": 0.1}),
    repeat(20, {"kind": "laplace", "noise_multiplier": 3.0}),
    poisson(0.1, repeat(5, gaussian(2.0))),
    {"kind": "discrete-gaussian", "noise_multiplier": 2.0, "granularity": 1.0},
]


@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-20])
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_never_below_the_pld(plan: dict[str, Any], delta: float) -> None:
    lower, _ = epsilon_bracket(flatten(parse_plan(plan), "add-remove"), delta=delta)
    assert RenyiProfile(rdp(parse_plan(plan), "add-remove")).epsilon(delta).upper >= lower


@pytest.mark.parametrize("relation", ["substitution", "add-remove"])
def test_never_below_the_pld_without_replacement(relation: Any) -> None:
    for leaf in (gaussian(1.0), {"kind": "laplace", "noise_multiplier": 1.0}, {"kind": "pure", "epsilon": 0.5}):
        plan = repeat(50, fixed_size(1000, 50, leaf))
        lower, _ = epsilon_bracket(flatten(parse_plan(plan), relation), delta=1e-6)
        assert RenyiProfile(rdp(parse_plan(plan), relation)).epsilon(1e-6).upper >= lower


@pytest.mark.parametrize(
    ("plan", "relation", "reason"),
    [
        (poisson(0.1, fixed_size(10, 5, gaussian(1.0))), "add-remove", "inside a Poisson sample"),
        (fixed_size(10, 5, fixed_size(9, 5, gaussian(1.0))), "substitution", "drawn from the outer sample"),
        ({"kind": "approximate", "epsilon": 1.0, "delta": 1e-6}, "add-remove", "approximate"),
        (repeat(3, {"kind": "approximate", "epsilon": 1.0, "delta": 1e-6}), "add-remove", "approximate"),
    ],
)
def test_says_where_it_does_not_apply(plan: dict[str, Any], relation: Any, reason: str) -> None:
    parsed = parse_plan(plan)
    assert reason in RenyiMethod().why_not(Case(((parsed, 1),)), relation)
    with pytest.raises(ValueError, match=reason):
        rdp(parsed, relation)


def test_ends() -> None:
    assert curve(gaussian(1.0), 1.0) == pytest.approx(0.5, rel=1e-5)
    assert RenyiProfile(rdp(parse_plan(gaussian(1.0)), "add-remove")).epsilon(1.0).upper == 0.0
    assert RenyiProfile(rdp(parse_plan(gaussian(1.0)), "add-remove")).epsilon(0.0).upper == math.inf
    assert RenyiProfile(rdp(parse_plan(gaussian(0.0)), "add-remove")).epsilon(1e-5).upper == math.inf
    assert RenyiProfile(rdp(parse_plan(repeat(0, gaussian(1.0))), "add-remove")).epsilon(1e-5).upper == 0.0
    four = RenyiProfile(rdp(parse_plan(repeat(4, {"kind": "pure", "epsilon": 0.5})), "add-remove")).epsilon(0.0).upper
    assert 2.0 <= four <= 2.0 + 1e-9
