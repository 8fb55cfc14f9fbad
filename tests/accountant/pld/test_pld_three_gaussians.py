"""Poisson sampling under substitution of Gaussian noise: the curve against every placement of two records."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.bound import bound
from affidavit.accountant.plan import Compose, Gaussian, Plan, Poisson, Repeat
from affidavit.accountant.pld.three_gaussians import ThreeGaussians, gaussian_shifts, replaced_gaussian
from affidavit.accountant.verifier import recompute

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(160)
PLANE = np.stack(np.meshgrid(NODES, NODES), axis=-1).reshape(-1, 2)
MASSES = np.outer(WEIGHTS, WEIGHTS).ravel() / (2 * math.pi)


def hockey_stick(epsilon: float, *, old: np.ndarray, new: np.ndarray, rate: float) -> float:
    """Of (1−q)N(0, I) + qN(old, I) against the same with ``new``, by quadrature in the plane."""
    p, q = ((1 - rate) + rate * np.exp(PLANE @ mean - mean @ mean / 2) for mean in (old, new))
    return float(MASSES @ np.maximum(0.0, p - math.exp(epsilon) * q))


angles = st.floats(0.0, 2 * math.pi)
lengths = st.floats(0.0, 1.0)


@settings(max_examples=60, deadline=None)
@given(angles, lengths, lengths, st.floats(1.02, 2.0), st.floats(0.3, 2.0), st.floats(0.01, 0.9), st.floats(-0.5, 0.7))
def test_no_placement_of_two_records_reveals_more(
    angle: float, first: float, second: float, ratio: float, absent: float, rate: float, epsilon: float
) -> None:
    old = np.array([first * absent, 0.0])
    new = second * absent * np.array([math.cos(angle), math.sin(angle)])
    apart = math.hypot(*(old - new))
    if apart > ratio * absent:  # closer, as far as the statement asks
        new = old + (new - old) * ratio * absent / apart
    most = replaced_gaussian(replaced=ratio * absent, absent=absent, rate=rate).forward.upper.delta(epsilon)[1]
    # A kinked integrand: the quadrature is good to some 1e-3.
    assert hockey_stick(epsilon, old=old, new=new, rate=rate) <= most + 2e-3


@pytest.mark.parametrize("epsilon", [-0.4, 0.0, 0.3, 1.0])
@pytest.mark.parametrize("rate", [0.05, 0.6])
def test_the_curve_is_that_of_its_own_placement(epsilon: float, rate: float) -> None:
    x = np.linspace(-14.0, 14.0, 400_001)
    base = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    p = base * ((1 - rate) + rate * np.exp(1.5 * x - 1.125))
    q = base * ((1 - rate) + rate * np.exp(-0.6 * x - 0.18))
    exact = float(np.maximum(0.0, p - math.exp(epsilon) * q).sum() * (x[1] - x[0]))
    low, high = ThreeGaussians(right=1.5, left=0.6, rate=rate).delta(epsilon)
    assert low <= exact * (1 + 1e-8) + 1e-12
    assert high >= exact * (1 - 1e-8) - 1e-12
    assert high - low <= 1e-9


def sampled(of: Plan, absent: Plan, *, rate: float = 0.01, count: int = 1000) -> Plan:
    return Repeat(count, Poisson(rate, of, absent=absent))


def test_the_antipodal_pair_is_dp_accountings() -> None:
    """q = .01, σ = 1 to presence, 1,000 uses, δ = 1e-6: 3.21 by dp-accounting 0.4.4's replace-one pair."""
    plan = sampled(Gaussian(0.5), Gaussian(1.0))
    found = bound(plan, relation="substitution", delta=1e-6)
    assert 3.213 < found.epsilon_lower <= found.epsilon_upper < 3.217
    assert found.attained
    again = recompute(plan, relation="substitution", delta=1e-6)
    assert again.epsilon_upper == pytest.approx(3.21423097, rel=1e-8)
    assert again.epsilon_upper - again.epsilon_lower < 1e-7


def test_between_the_engines_agree_and_the_pair_is_below() -> None:
    plan = sampled(Gaussian(2**-0.5), Gaussian(1.0))
    found = bound(plan, relation="substitution", delta=1e-6, tolerance=1e-4)
    again = recompute(plan, relation="substitution", delta=1e-6)
    assert found.epsilon_upper == pytest.approx(again.epsilon_upper, rel=1e-4)
    assert found.epsilon_lower == pytest.approx(again.epsilon_lower, rel=1e-4)
    assert found.epsilon_upper < 2.908  # convexity alone said 4.4


def test_several_gaussians_on_one_sample_add_up() -> None:
    two = sampled(Compose((Gaussian(1.0), Gaussian(1.0))), Compose((Gaussian(2.0), Gaussian(2.0))), count=50)
    one = sampled(Gaussian(0.5**0.5), Gaussian(2**0.5), count=50)
    for ask in (bound, recompute):
        ends = [ask(plan, relation="substitution", delta=1e-6).epsilon_upper for plan in (two, one)]  # type: ignore[operator]
        assert ends[0] == pytest.approx(ends[1], rel=1e-3)


UNEVEN = sampled(Compose((Gaussian(1.0), Gaussian(0.5))), Compose((Gaussian(1.0), Gaussian(1.0))), rate=0.3, count=1)


def test_costs_in_unlike_ratios_are_not_on_one_line() -> None:
    """a = (1, 1), b = (0, −1): the sums alone, |b| = √5 − √2, would say more below than any placement reaches."""
    for epsilon in (0.3, 0.8):
        truth = hockey_stick(epsilon, old=np.array([1.0, 1.0]), new=np.array([0.0, -1.0]), rate=0.3)
        for ask in (bound, recompute):
            found = ask(UNEVEN, relation="substitution", epsilon=epsilon)  # type: ignore[operator]
            assert found.delta_lower <= truth + 2e-3
            assert found.delta_upper >= truth - 2e-3


@pytest.mark.parametrize(
    "absent", [Compose((Gaussian(0.9), Gaussian(2.0))), Repeat(2, Gaussian(2.0)), Gaussian(2.0), Gaussian(0.0)]
)
def test_other_trees_get_the_older_bound(absent: Plan) -> None:
    plan = sampled(Compose((Gaussian(1.0), Gaussian(1.0))), absent, count=5)
    found = bound(plan, relation="substitution", delta=1e-4)
    assert found.epsilon_lower <= found.epsilon_upper
    assert gaussian_shifts(Compose((Gaussian(1.0), Gaussian(1.0))), absent) is None
