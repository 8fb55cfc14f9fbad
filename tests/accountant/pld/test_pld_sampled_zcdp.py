"""Samples of what is only known to be concentrated: brackets under every relation, against closed forms and attacks."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.bound import bound
from affidavit.accountant.methods.rdp import rdp
from affidavit.accountant.plan import Compose, Gaussian, Plan, Poisson, WithoutReplacement, ZeroConcentrated

RELATIONS = ("add-remove", "zero-out", "substitution")


def zcdp(rho: float) -> dict[str, Any]:
    return {"kind": "zcdp", "rho": rho}


def poisson(rate: float, of: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "subsample", "scheme": "poisson", "rate": rate, "of": of, **more}


def without_replacement(population: int, sample: int, of: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "subsample", "scheme": "without-replacement", "population": population, "sample": sample, "of": of}


def repeat(count: int, of: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "repeat", "count": count, "of": of}


def compose(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "compose", "parts": list(parts)}


def samples(of: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        poisson(0.2, of),
        poisson(0.2, of, absent=of),
        without_replacement(10, 2, of),
        without_replacement(20, 8, poisson(0.5, of)),
        poisson(0.5, poisson(0.4, of)),
    ]


def upper(plan: dict[str, Any], relation: str, delta: float = 1e-5) -> float:
    return bound(plan, relation=relation, delta=delta).epsilon_upper


def _amplified(rho: float, rate: float, epsilon: float) -> mpmath.mpf:
    """q h(ε'), ε' = ln(1 + (e^ε − 1)/q), h the conversion of Canonne, Kamath and Steinke 2020 at the best order."""
    with mpmath.workdps(40):
        r, q = mpmath.mpf(rho), mpmath.mpf(rate)
        inner = mpmath.log(1 + mpmath.expm1(mpmath.mpf(epsilon)) / q)

        def log_bound(x: mpmath.mpf) -> mpmath.mpf:
            over = mpmath.exp(x)
            return over * ((1 + over) * r - inner) + (1 + over) * mpmath.log(over / (1 + over)) - mpmath.log(over)

        low, high = mpmath.mpf(-60), mpmath.mpf(60)
        for _ in range(300):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            low, high = (left, high) if log_bound(left) > log_bound(right) else (low, right)
        return q * mpmath.exp(log_bound(low))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("rho", [1e-4, 0.3, 2.0])
def test_one_use_on_one_sample_is_the_amplified_conversion(relation: str, rho: float) -> None:
    """Also without replacement, whatever the relation; and Σρ of all that runs on the sample counts."""
    plan = without_replacement(50, 5, compose(repeat(3, zcdp(0.2 * rho)), zcdp(0.4 * rho)))
    plans = [plan] if relation == "substitution" else [plan, poisson(0.1, zcdp(rho))]
    for one in plans:
        found = upper(one, relation)
        assert _amplified(rho, 0.1, found) <= 1e-5 * (1 + 1e-9)
        assert _amplified(rho, 0.1, found * (1.0 - 1e-6)) > 1e-5


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("rho", [0.01, 0.6])
def test_every_sample_is_bracketed_above_gaussians_and_randomised_response(relation: str, rho: float) -> None:
    gaussian = {"kind": "gaussian", "noise_multiplier": math.sqrt(0.5 / rho)}
    response = {"kind": "pure", "epsilon": math.sqrt(2.0 * rho)}
    for of, *attacks in zip(
        *([repeat(4, plan) for plan in samples(one)] for one in (zcdp(rho), gaussian, response)), strict=True
    ):
        found = bound(of, relation=relation, delta=1e-5)
        assert 0.0 < found.epsilon_lower <= found.epsilon_upper < math.inf
        for attack in attacks:
            assert bound(attack, relation=relation, delta=1e-5, explicit=True).epsilon_lower <= found.epsilon_upper


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_sample_of_all_is_the_inner_plan_and_more_rho_is_never_cheaper(relation: str) -> None:
    whole = upper(zcdp(0.3), relation)
    assert upper(poisson(1.0, zcdp(0.3)), relation) == upper(without_replacement(7, 7, zcdp(0.3)), relation) == whole
    for cheap, costly in zip(samples(zcdp(0.29)), samples(zcdp(0.3)), strict=True):
        assert upper(cheap, relation) < upper(costly, relation) <= whole
        assert upper(repeat(30, cheap), relation) < upper(repeat(30, costly), relation)
    rates = [upper(poisson(rate, zcdp(0.3)), relation) for rate in (0.01, 0.1, 0.5, 0.99)]
    assert rates == sorted(rates)


def test_nothing_concentrated_on_a_sample_is_nothing_and_too_much_is_everything() -> None:
    assert upper(poisson(0.5, zcdp(0.0)), "substitution") == 0.0
    loud = bound(without_replacement(4, 2, zcdp(1e90)), relation="zero-out", delta=1e-5)
    assert loud.epsilon_lower == loud.epsilon_upper == math.inf or loud.epsilon_lower > 1e9


def test_many_fresh_samples_take_the_renyi_bound_and_few_the_pair() -> None:
    plan = poisson(0.01, zcdp(0.5))
    few, many = (bound(repeat(count, plan), relation="add-remove", delta=1e-6) for count in (3, 3000))
    assert (few.method, many.method) == ("pld", "rdp")
    assert many.epsilon_upper < bound(repeat(3000, plan), relation="add-remove", delta=1e-6, method="pld").epsilon_upper


def _divergence(p: list[float], q: list[float], order: float) -> float:
    logs = np.array([order * math.log(a) + (1.0 - order) * math.log(b) for a, b in zip(p, q, strict=True)])
    return float(np.logaddexp.reduce(logs)) / (order - 1.0)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(st.floats(0.02, 1.0), min_size=3, max_size=3), min_size=3, max_size=3),
    st.floats(0.02, 0.95),
    st.sampled_from([1.3, 2.0, 3.7, 8.0, 25.0]),
)
def test_the_renyi_bound_of_three_laws_of_a_sample(weights: list[list[float]], rate: float, order: float) -> None:
    """γA + (1 − γ)X against γA' + (1 − γ)X: ρ is the largest D_α/α of the laws on the sample."""
    old, new, none = ([w / sum(law) for w in law] for law in weights)
    orders = [1.0 + 10.0 ** (k / 12.0) for k in range(-36, 37)]

    def rho(*laws: list[float]) -> float:
        pairs = [(a, b) for a in laws for b in laws if a is not b]
        return max(_divergence(a, b, x) / x for a, b in pairs for x in orders) * (1.0 + 1e-2)

    def mixed(law: list[float], other: list[float]) -> list[float]:
        return [rate * a + (1.0 - rate) * b for a, b in zip(law, other, strict=True)]

    together = rho(old, new, none)
    population = 10_000
    plans: list[tuple[Plan, str, list[float]]] = [
        (Poisson(rate, ZeroConcentrated(rho(old, new))), "substitution", mixed(new, none)),
        (Poisson(rate, ZeroConcentrated(together), ZeroConcentrated(together)), "substitution", mixed(new, none)),
        (Poisson(rate, ZeroConcentrated(rho(old, none))), "zero-out", none),
        (
            WithoutReplacement(population, math.ceil(rate * population), ZeroConcentrated(together)),
            "zero-out",
            mixed(new, none),
        ),
    ]
    first = mixed(old, none)
    for plan, relation, second in plans:
        curve = rdp(plan, relation)  # type: ignore[arg-type]
        for p, q in ((first, second), (second, first)):
            assert _divergence(p, q, order) <= curve(order) * (1.0 + 1e-3) + 1e-12


def test_records_that_move_between_samples() -> None:
    """``moves`` states what a sampled part costs that a record leaves or enters; in either order."""
    part = poisson(0.3, zcdp(0.2))
    plan = {"kind": "parallel", "parts": [part, zcdp(0.05)], "moves": [part, zcdp(0.05)]}
    found = bound(plan, relation="substitution", delta=1e-6)
    assert (
        upper(part, "substitution", 1e-6)
        <= found.epsilon_upper
        <= upper(compose(part, zcdp(0.05)), "substitution", 1e-6)
    )
    alike = {"kind": "parallel", "parts": [part, part]}
    over = bound(without_replacement(40, 10, alike), relation="add-remove", delta=1e-6)
    assert upper(without_replacement(40, 10, part), "add-remove", 1e-6) <= over.epsilon_upper
    assert 0.0 < over.epsilon_lower < over.epsilon_upper < upper(compose(part, part), "add-remove", 1e-6)


def test_gaussians_beside_it_on_one_sample_are_their_own_pair() -> None:
    """Sharper than their ρ added up, and no sharper than a Gaussian of all of it."""
    beside = compose(zcdp(0.05), {"kind": "gaussian", "noise_multiplier": 1.0})
    found = bound(poisson(0.1, beside), relation="add-remove", delta=1e-7)
    everything = bound(poisson(0.1, zcdp(0.55)), relation="add-remove", delta=1e-7)
    assert found.epsilon_lower == pytest.approx(everything.epsilon_lower, rel=1e-4)
    assert found.epsilon_lower < found.epsilon_upper < 0.999 * everything.epsilon_upper


def test_the_plan_of_gaussians_is_not_taken_for_three_gaussians_where_one_is_concentrated() -> None:
    plan = Poisson(
        0.2, Compose((Gaussian(1.0), ZeroConcentrated(0.5))), Compose((Gaussian(2.0), ZeroConcentrated(0.125)))
    )
    found = bound(plan, relation="substitution", delta=1e-6)
    assert 0.0 < found.epsilon_lower < found.epsilon_upper
