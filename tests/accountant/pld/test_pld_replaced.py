"""Poisson samples under substitution of pure mechanisms: the engine's exact curve."""

from __future__ import annotations

import math

import numpy as np
import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.plan import Compose, Gaussian, Poisson, Pure, Repeat
from affidavit.accountant.verifier import recompute


def reached(absent: float, rate: float, count: int, delta: float) -> float:
    """ε of X = (1, E−1, 1)/(E+1), A = (E, 1−1/E, 1/E)/(E+1), A' read backwards: its losses are sums of −L, 0, L."""
    e = math.exp(absent)
    p = ((1 - rate) * np.array([1, e - 1, 1]) + rate * np.array([e, 1 - 1 / e, 1 / e])) / (e + 1)
    loss = math.log(p[0] / p[2])
    masses = np.ones(1)
    for _ in range(count):
        masses = np.convolve(masses, p[::-1])
    losses = loss * (np.arange(2 * count + 1) - count)
    low, high = 0.0, count * loss
    for _ in range(90):
        middle = 0.5 * (low + high)
        above = losses > middle
        low, high = (middle, high) if masses[above] @ -np.expm1(middle - losses[above]) > delta else (low, middle)
    return high


@pytest.mark.parametrize(
    ("absent", "rate", "count"), [(0.5, 0.1, 1), (0.5, 0.1, 160), (2.0, 1 / 30, 40), (0.05, 0.9, 7)]
)
@pytest.mark.parametrize("factor", [2.0, 3.0])
def test_a_change_twice_as_large_as_presence_is_exact(absent: float, rate: float, count: int, factor: float) -> None:
    exact = reached(absent, rate, count, 1e-5)
    found = bound(
        Repeat(count, Poisson(rate, Pure(factor * absent), absent=Pure(absent))), relation="substitution", delta=1e-5
    )
    assert found.epsilon_lower <= exact * (1 + 1e-9)
    assert found.epsilon_upper >= exact * (1 - 1e-9)
    assert found.epsilon_upper - found.epsilon_lower <= 1e-3 * exact


@pytest.mark.parametrize("replaced", [0.3, 0.999, 1.0, 1.001, 1.4, 1.9, 1.999999])
@pytest.mark.parametrize("count", [1, 6])
def test_both_arithmetics_agree_in_between(replaced: float, count: int) -> None:
    plan = Repeat(count, Poisson(0.2, Pure(replaced), absent=Pure(1.0)))
    for delta in (1e-3, 0.0):
        found = bound(plan, relation="substitution", delta=delta)
        certified = recompute(plan, relation="substitution", delta=delta)
        assert found.epsilon_upper == pytest.approx(certified.epsilon_upper, rel=1e-3)
        assert found.epsilon_lower <= certified.epsilon_upper * (1 + 1e-9)
        assert certified.epsilon_lower <= found.epsilon_upper * (1 + 1e-9)


def test_a_record_always_sampled_is_replaced() -> None:
    plan = Compose((Poisson(1.0, Pure(1.5), absent=Pure(0.5)), Gaussian(2.0)))
    plain = Compose((Pure(1.5), Gaussian(2.0)))
    found, same = (bound(each, relation="substitution", delta=1e-5) for each in (plan, plain))
    assert found.epsilon_upper == pytest.approx(same.epsilon_upper, rel=1e-9)
    alone = bound(Poisson(1.0, Pure(1.5), absent=Pure(0.5)), relation="substitution", delta=0.0)
    assert (alone.epsilon_lower, alone.epsilon_upper) == (1.5, 1.5)


@pytest.mark.parametrize("size", [1e-99, 1e-9, 700.0])
def test_extreme_costs(size: float) -> None:
    for factor in (0.5, 1.5, 2.0):
        found = bound(
            Repeat(2, Poisson(0.1, Pure(factor * size), absent=Pure(size))), relation="substitution", delta=1e-9
        )
        assert 0.0 <= found.epsilon_lower <= found.epsilon_upper <= 2 * factor * size * (1 + 1e-9)
