"""The lower side of plans with zcdp leaves: the Gaussian of equal ρ, held against the closed form."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.bound import Bound, bound
from affidavit.accountant.cases.case import Case
from affidavit.accountant.methods.zcdp import stand_in
from affidavit.accountant.plan import Gaussian, Poisson, ZeroConcentrated
from affidavit.accountant.verifier import recompute

RELATIONS = ("add-remove", "zero-out", "substitution")


def zcdp(rho: float) -> dict[str, Any]:
    return {"kind": "zcdp", "rho": rho}


def twice(of: dict[str, Any]) -> dict[str, Any]:
    """One leaf alone admits more (``test_two_losses``)."""
    return {"kind": "repeat", "count": 2, "of": of}


def gaussian(sigma: float) -> dict[str, Any]:
    return {"kind": "gaussian", "noise_multiplier": sigma}


def compose(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "compose", "parts": list(parts)}


def poisson(rate: float, of: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "subsample", "scheme": "poisson", "rate": rate, "of": of}


def closed_form(mu: float, epsilon: float) -> float:
    """δ(ε) of μ-Gaussian-DP (Balle and Wang 2018, Theorem 8), in 40 digits."""
    with mpmath.workdps(40):
        mu_, epsilon_ = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return float(
            mpmath.ncdf(mu_ / 2 - epsilon_ / mu_) - mpmath.exp(epsilon_) * mpmath.ncdf(-mu_ / 2 - epsilon_ / mu_)
        )


def at_delta(plan: dict[str, Any], relation: str = "add-remove", **options: Any) -> Bound:
    return bound(plan, relation=relation, delta=1e-5, **options)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("rho", [1e-6, 0.02, 0.5, 7.0])
def test_two_leaves_are_bracketed_by_the_gaussian_of_equal_rho(rho: float, relation: str) -> None:
    found = at_delta(twice(zcdp(rho / 2.0)), relation)
    assert 0.0 < found.epsilon_lower < found.epsilon_upper
    assert closed_form(math.sqrt(2.0 * rho), found.epsilon_lower) == pytest.approx(1e-5, rel=1e-8)
    assert found.attained


def test_delta_at_an_epsilon_too() -> None:
    found = bound(twice(zcdp(0.05)), relation="zero-out", epsilon=1.0)
    assert found.delta_lower == pytest.approx(closed_form(math.sqrt(0.2), 1.0), rel=1e-9)
    assert found.delta_lower <= closed_form(math.sqrt(0.2), 1.0) < found.delta_upper


def test_uses_and_gaussians_beside_it_add_up() -> None:
    """μ² = 2 · 10 · 0.02 + 1/9."""
    plan = compose({"kind": "repeat", "count": 10, "of": zcdp(0.02)}, gaussian(3.0))
    found = at_delta(plan)
    assert closed_form(math.sqrt(0.4 + 1.0 / 9.0), found.epsilon_lower) == pytest.approx(1e-5, rel=1e-8)


@pytest.mark.parametrize(
    "other",
    [
        {"kind": "pure", "epsilon": 0.3},
        {"kind": "laplace", "noise_multiplier": 3.0},
        {"kind": "approximate", "epsilon": 0.1, "delta": 1e-7},
        {"kind": "exponential", "range": 0.3},
        {"kind": "discrete-gaussian", "noise_multiplier": 2.0, "granularity": 0.5},
        poisson(0.1, gaussian(1.0)),
    ],
    ids=lambda node: node["kind"],
)
def test_beside_any_leaf_it_is_what_the_gaussian_costs_there(other: dict[str, Any]) -> None:
    leaf = twice(zcdp(0.05))
    found = at_delta(compose(leaf, other))
    same = at_delta(compose(gaussian(math.sqrt(5.0)), other))
    assert found.epsilon_lower == pytest.approx(same.epsilon_lower, rel=1e-6)
    assert at_delta(leaf).epsilon_lower < found.epsilon_lower <= same.epsilon_upper < found.epsilon_upper


def test_a_record_that_moves_meets_both_gaussians() -> None:
    """Under substitution it leaves one part and enters another; fixed, it meets the costlier one alone."""
    parts = [zcdp(0.1), zcdp(0.05)]
    moving = at_delta({"kind": "parallel", "parts": parts}, "substitution")
    fixed = at_delta({"kind": "parallel", "parts": parts, "membership": "fixed"}, "substitution")
    assert moving.epsilon_lower == at_delta(compose(*parts)).epsilon_lower
    assert fixed.epsilon_lower == at_delta(zcdp(0.1)).epsilon_lower


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("absent", [False, True])
def test_on_a_sample_it_is_what_the_gaussian_costs_there(relation: str, absent: bool) -> None:
    def sampled(of: dict[str, Any], gone: dict[str, Any]) -> dict[str, Any]:
        return {**poisson(0.1, of), "absent": gone} if absent else poisson(0.1, of)

    leaf = twice(zcdp(0.05))
    found = at_delta(compose(leaf, sampled(compose(zcdp(0.4), zcdp(0.1)), compose(zcdp(0.1), zcdp(0.025)))), relation)
    same = at_delta(
        compose(
            gaussian(math.sqrt(5.0)),
            sampled(
                compose(gaussian(math.sqrt(1.25)), gaussian(math.sqrt(5.0))),
                compose(gaussian(math.sqrt(5.0)), gaussian(math.sqrt(20.0))),
            ),
        ),
        relation,
    )
    assert found.epsilon_lower == pytest.approx(same.epsilon_lower, rel=1e-3)
    assert at_delta(leaf).epsilon_lower < found.epsilon_lower <= same.epsilon_upper < found.epsilon_upper


def test_every_row_that_applies_says_it() -> None:
    found = at_delta(zcdp(0.1))
    assert {row.epsilon_lower for row in found.methods if row.applies} == {found.epsilon_lower}
    assert at_delta(zcdp(0.1), method="rdp").epsilon_lower == found.epsilon_lower


@pytest.mark.parametrize(("rho", "epsilon"), [(0.0, 0.0), (0.1, math.inf)])
def test_at_delta_zero_only_nothing_is_finite(rho: float, epsilon: float) -> None:
    found = bound(zcdp(rho), relation="add-remove", delta=0.0)
    assert (found.epsilon_lower, found.epsilon_upper) == (epsilon, epsilon)


@given(st.floats(min_value=5e-324, max_value=1.7e308))
def test_the_gaussian_that_stands_in_is_no_worse_than_rho(rho: float) -> None:
    """1/(2σ²) <= ρ in exact arithmetic, and no more than a rounding away."""
    found = stand_in(Case(fixed=((ZeroConcentrated(rho), 3), (Poisson(0.5, ZeroConcentrated(rho)), 2))))
    assert found is not None
    ((leaf, uses), sampled) = found.fixed
    assert isinstance(leaf, Gaussian)
    assert uses == 3
    assert sampled == (Poisson(0.5, leaf), 2)
    share = 1 / (2 * Fraction(leaf.noise_multiplier) ** 2) / Fraction(rho)
    assert 1 - Fraction(1, 10**14) <= share <= 1
    assert stand_in(Case(fixed=((leaf, 1),))) is None


@settings(max_examples=12)
@given(st.floats(min_value=1e-4, max_value=3.0), st.floats(min_value=0.5, max_value=20.0), st.integers(1, 9))
def test_never_above_certified_arithmetic(rho: float, sigma: float, uses: int) -> None:
    plan = compose({"kind": "repeat", "count": uses, "of": zcdp(rho)}, gaussian(sigma))
    found = at_delta(plan)
    certified = recompute(plan, relation="add-remove", delta=1e-5)
    assert found.epsilon_lower <= certified.epsilon_upper
    assert found.epsilon_lower == pytest.approx(certified.epsilon_lower, rel=1e-6)
