"""Many exponential uses: the strategy that makes one choice at every step, against scipy's binomials."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from affidavit.accountant.bound import bound
from affidavit.accountant.plan import Compose, Exponential, Gaussian, Laplace, Plan, Poisson, Repeat
from affidavit.accountant.verifier import recompute
from affidavit.accountant.verifier.bracket import epsilon_bracket
from affidavit.accountant.verifier.memoryless import Kind, estimate, memoryless_profile
from affidavit.accountant.verifier.profile import Target


def epsilon_by_scipy(eta: float, count: int, delta: float) -> float:
    """The largest over a hundred t and all events "at least k steps lose t" of log((P − δ)/Q)."""
    best = 0.0
    k = np.arange(1, count + 1)
    for t in eta * np.linspace(0.3, 0.9, 101):
        p = (math.exp(eta) - math.exp(t)) / math.expm1(eta)
        above_p, above_q = binom.sf(k - 1, count, p), binom.sf(k - 1, count, p * math.exp(-t))
        kept = (above_p > delta) & (above_q > 0.0)
        best = max(best, float(np.log((above_p[kept] - delta) / above_q[kept]).max()))
    return best


@pytest.mark.parametrize(("eta", "count"), [(0.05, 2_000), (0.05, 20_000), (0.2, 10_000), (0.6, 500)])
@pytest.mark.parametrize("delta", [1e-3, 1e-7])
def test_the_choice_is_about_the_best(eta: float, count: int, delta: float) -> None:
    kind = Kind(Fraction(eta), Fraction(1), count)
    profile = memoryless_profile(kind, estimate([kind], Target(delta=delta)).choices[0], budget=delta * 1e-6)
    lower, upper = epsilon_bracket(profile, delta)
    expected = epsilon_by_scipy(eta, count, delta)
    assert lower <= upper <= lower * (1 + 1e-4)
    assert expected * (1 - 1.5e-3) <= lower <= expected * (1 + 1e-3)


def test_the_choice_for_very_many_uses_of_a_large_range() -> None:
    """What all of them lose on average at t is count × their mean, of which the largest is no lower side's to pass."""
    found = recompute(Repeat(1_142_400, Exponential(2.88)), relation="zero-out", delta=2.38e-8)
    t = np.linspace(0.01, 2.87, 10_001)
    p = (math.exp(2.88) - np.exp(t)) / math.expm1(2.88)
    mean = 1_142_400 * float((p * t + (1 - p) * (t - 2.88)).max())
    assert mean <= found.epsilon_lower <= found.epsilon_upper <= 1.01 * mean


def test_ten_thousand_uses_have_a_lower_side_that_no_even_split_reaches() -> None:
    found = recompute(Repeat(10_000, Exponential(0.6)), relation="zero-out", delta=1e-5)
    # t = η/2 at every step reaches 571.98 (two-point product); the best t, 0.53 η, 574.06 (scipy).
    assert 574.05 <= found.epsilon_lower <= found.epsilon_upper <= 574.5


@pytest.mark.parametrize(("eta", "count"), [(0.05, 250), (1.0, 250), (2.7, 250), (4.0, 1_000), (6.0, 300)])
def test_one_choice_is_nearly_as_good_as_many(eta: float, count: int) -> None:
    found = recompute(Repeat(count, Exponential(eta)), relation="zero-out", delta=1e-6)
    assert found.epsilon_upper <= found.epsilon_lower * (1.0 + 6e-3)


@pytest.mark.parametrize(
    "beside", [Laplace(2.0), Poisson(0.05, Laplace(0.5)), Compose((Gaussian(3.0), Exponential(0.7)))], ids=repr
)
def test_one_choice_waits_for_others_wherever_they_run(beside: Plan) -> None:
    """The issuing engine's bracket, derived apart, is around the same number."""
    plan = Repeat(3, Compose((Repeat(90, Exponential(0.4)), beside)))
    found, issued = recompute(plan, relation="zero-out", delta=1e-6), bound(plan, relation="zero-out", delta=1e-6)
    assert found.epsilon_lower <= issued.epsilon_upper
    assert issued.epsilon_lower <= found.epsilon_upper <= found.epsilon_lower * (1.0 + 2e-2)


def test_billions_of_uses_keep_their_lower_side() -> None:
    """A choice of t = 0.5 η reaches three quarters of it."""
    found = recompute(Repeat(366_516_500, Exponential(0.225)), relation="substitution", delta=1.55e-3)
    assert found.epsilon_upper <= found.epsilon_lower * (1.0 + 1e-3)
