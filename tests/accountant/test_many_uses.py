"""Lower sides of many uses of one exponential mechanism: one choice, then the recursion over the last of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.cases.case import Case
from affidavit.accountant.methods.base import Target
from affidavit.accountant.methods.blocks import BlocksProfile
from affidavit.accountant.plan import Compose, Exponential, Gaussian, Plan, Pure, Repeat
from affidavit.accountant.settle import settle
from affidavit.accountant.verifier import recompute


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


@pytest.mark.parametrize(("eta", "uses"), [(0.1, 300), (1.0, 300), (3.0, 120)])
def test_it_reaches_more_than_one_choice(eta: float, uses: int) -> None:
    """At δ = 1e-6 and at the best share of a grid."""
    answer = recompute(Repeat(uses, Exponential(eta)), relation="zero-out", delta=1e-6).epsilon_upper
    best = max(one_choice(eta, uses, share, answer) for share in np.linspace(0.4, 0.9, 51))
    issued = BlocksProfile(Case(exponentials=((eta, uses),)), "zero-out", Target(delta=1e-6, tolerance=1e-4))
    assert best < issued.least(Target(epsilon=answer)) <= 1e-6


@pytest.mark.parametrize(
    ("plan", "width"),
    [
        (Repeat(1_000, Exponential(0.1)), 7e-4),
        (Repeat(1_000, Exponential(4.0)), 9e-4),  # 6e-2 by one choice
        (Compose((Repeat(784, Exponential(1.84)), Pure(3.12))), 1.7e-3),  # one choice throughout
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
