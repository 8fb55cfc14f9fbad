"""Strategies that choose at a few times, of both engines: below the exact recursion, above one choice throughout."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.bound import bound
from affidavit.accountant.cases.scenario import Scenario
from affidavit.accountant.methods.base import Target
from affidavit.accountant.methods.blocks import BlocksProfile
from affidavit.accountant.plan import Compose, Exponential, Gaussian, Plan, Pure, Repeat
from affidavit.accountant.settle import settle
from affidavit.accountant.verifier import recompute
from affidavit.accountant.verifier.adaptive import AdaptiveCurve, adaptive_curve, spacing
from affidavit.accountant.verifier.staged import staged_curve

RANGES = st.fractions(Fraction(1, 50), Fraction(4), max_denominator=100)


def one_choice(eta: float, uses: int, share: float, epsilon: float) -> float:
    """δ of the same t at every use: a binomial sum."""
    t = share * eta
    chance = math.exp(t) * math.expm1(eta - t) / math.expm1(eta)
    total = 0.0
    for i in range(uses + 1):
        loss = i * t + (uses - i) * (t - eta)
        logs = math.lgamma(uses + 1) - math.lgamma(i + 1) - math.lgamma(uses - i + 1)
        mass = math.exp(logs + i * math.log(chance) + (uses - i) * math.log1p(-chance))
        total += mass * max(0.0, -math.expm1(epsilon - loss))
    return total


@settings(max_examples=12, deadline=None)
@given(eta=RANGES, behind=st.integers(2, 12), more=st.integers(1, 40), tilt=st.floats(0.01, 20.0))
def test_verified_lines_are_below_the_recursion(eta: Fraction, behind: int, more: int, tilt: float) -> None:
    uses, step = behind + more, spacing(((eta, 1),), 16)
    start = adaptive_curve(((eta, behind),), step, float(behind * eta))
    exact = adaptive_curve(((eta, uses),), step, float(uses * eta))
    found = staged_curve(eta, uses, start, behind, tilt=tilt)
    x = np.linspace(-0.9, 0.9, 200) * float(uses * eta)
    assert np.all(found.lower(x) <= exact.upper(x))


@pytest.mark.parametrize(("eta", "uses"), [(0.1, 300), (1.0, 300), (3.0, 120)])
def test_they_reach_more_than_one_choice(eta: float, uses: int) -> None:
    """At δ = 1e-6 and at the best share of a grid."""
    exact = Fraction(eta)
    answer = recompute(Repeat(uses, Exponential(eta)), relation="zero-out", delta=1e-6).epsilon_upper
    best = max(one_choice(eta, uses, share, answer) for share in np.linspace(0.4, 0.9, 51))
    rho = uses * eta * eta / 8.0
    tilt = math.sqrt(math.log(1e6) / rho)
    start = adaptive_curve(((exact, 40),), spacing(((exact, 1),), 24), 40 * eta, negligible=1e-16)
    lines = staged_curve(exact, uses, start, 40, tilt=tilt)
    assert best < float(lines.lower(np.array([answer]))[0]) <= 1e-6
    issued = BlocksProfile(Scenario(exponentials=((eta, uses),)), "zero-out", Target(delta=1e-6, tolerance=1e-4))
    assert best < issued.least(Target(epsilon=answer)) <= 1e-6


def test_a_curve_on_another_lattice_encloses_it() -> None:
    eta = Fraction(1, 2)
    curve = adaptive_curve(((eta, 12),), eta / 8, 6.0)
    side = curve.on(eta / 29, 300)
    moved = AdaptiveCurve(float(eta / 29), side.upper, side.lines)
    x = np.linspace(-5.0, 5.0, 801)
    assert np.all(moved.lower(x) <= curve.upper(x))
    assert np.all(moved.upper(x) >= curve.lower(x))
    assert np.all(moved.upper(x) <= 1.05 * curve.upper(x) + 1e-9)


@pytest.mark.parametrize(
    ("plan", "width"),
    [
        (Repeat(1_000, Exponential(0.1)), 7e-4),
        (Repeat(1_000, Exponential(4.0)), 1.2e-3),  # 6e-2 by one choice
        (Compose((Repeat(784, Exponential(1.84)), Pure(3.12))), 1.2e-3),
        (Compose((Gaussian(2.0), Repeat(600, Exponential(0.3)))), 8e-4),
    ],
    ids=str,
)
def test_a_thousand_uses_are_settled_to_a_thousandth(plan: Plan, width: float) -> None:
    found = settle(plan, relation="zero-out", delta=1e-6)
    assert found.epsilon_upper <= found.epsilon_lower * (1.0 + width)


def test_where_more_is_asked_the_recursion_answers() -> None:
    plan = Repeat(500, Exponential(0.1))
    found = bound(plan, relation="zero-out", delta=1e-6, tolerance=2e-4)
    assert found.epsilon_upper <= found.epsilon_lower * (1.0 + 2e-4)
