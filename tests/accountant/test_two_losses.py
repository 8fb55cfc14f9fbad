"""One ρ-zCDP statement admits a mechanism of two losses, checked in 40 digits, that all but reaches the conversion."""

from __future__ import annotations

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit import bound
from affidavit.accountant.methods import two_losses
from affidavit.accountant.methods.two_losses import TwoLosses
from affidavit.accountant.plan import Compose, Pure, Repeat, ZeroConcentrated

SIZES = [
    (0.1, 1e-6),
    (0.01, 1e-6),
    (1.0, 1e-5),
    (5.0, 1e-5),
    (1e-4, 1e-6),
    (0.0454, 1e-10),
    (30.0, 1e-5),
    (0.1, 1e-300),
]


def _best(rho: float, delta: float) -> TwoLosses:
    low, high = -20.0, 40.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        over = math.exp(middle)
        low, high = (low, middle) if rho * over * over + math.log1p(over) + math.log(delta) > 0.0 else (middle, high)
    found = two_losses._at(rho, math.exp(low))
    assert found is not None
    return found


def _largest_excess(one: TwoLosses, rho: float) -> mpmath.mpf:
    """The largest of D_α − ρα over many orders and both directions, times α − 1."""
    with mpmath.workdps(40):
        p, loss = mpmath.mpf(one.chance), mpmath.mpf(one.loss)
        q = p * mpmath.exp(-loss)
        ends = (p, q), (1 - p, 1 - q)
        worst = -mpmath.inf
        for step in range(160):
            over = mpmath.mpf(10) ** (mpmath.mpf(step) / 10 - 8)
            for a, b in ((0, 1), (1, 0)):
                moment = sum(pair[a] ** (1 + over) * pair[b] ** -over for pair in ends)
                worst = max(worst, mpmath.log(moment) - rho * over * (over + 1))
    return worst


@pytest.mark.parametrize(("rho", "delta"), SIZES)
def test_the_mechanism_is_concentrated_in_both_orders(rho: float, delta: float) -> None:
    assert _largest_excess(_best(rho, delta), rho) <= 0


@settings(max_examples=15, deadline=None)
@given(st.floats(-5.0, 1.5), st.floats(-12.0, -0.5))
def test_what_is_proven_is_so(log_rho: float, log_delta: float) -> None:
    rho, delta = 10.0**log_rho, 10.0**log_delta
    assert _largest_excess(_best(rho, delta), rho) <= 0


def test_a_mechanism_that_is_not_concentrated_is_not_said_to_be() -> None:
    one = _best(0.1, 1e-6)
    assert one.is_concentrated(0.1)
    assert not TwoLosses(one.loss, one.chance * 1.001).is_concentrated(0.1)
    assert not TwoLosses(one.loss * 1.01, one.chance).is_concentrated(0.1)
    assert not one.is_concentrated(0.0999)


@pytest.mark.parametrize(("rho", "delta"), SIZES)
def test_one_statement_is_bracketed_closely(rho: float, delta: float) -> None:
    found = bound(ZeroConcentrated(rho), relation="add-remove", delta=delta)
    assert 0.9998 * found.epsilon_upper <= found.epsilon_lower <= found.epsilon_upper
    one = _best(rho, delta)
    with mpmath.workdps(40):
        reached = mpmath.mpf(one.chance) * (1 - mpmath.exp(mpmath.mpf(one.epsilon(delta)) - mpmath.mpf(one.loss)))
        assert reached >= mpmath.mpf(delta)


@pytest.mark.parametrize("epsilon", [1.0, 1.5, 2.5])
def test_its_delta_is_too(epsilon: float) -> None:
    found = bound(ZeroConcentrated(0.1), relation="zero-out", epsilon=epsilon)
    assert found.delta_lower <= found.delta_upper <= 1.06 * found.delta_lower


def test_only_one_statement_alone_is() -> None:
    once = bound(ZeroConcentrated(0.1), relation="add-remove", delta=1e-6)
    twice = bound(Repeat(2, ZeroConcentrated(0.05)), relation="add-remove", delta=1e-6)
    assert twice.epsilon_upper == pytest.approx(once.epsilon_upper)
    assert twice.epsilon_lower < 0.95 * once.epsilon_lower
    beside = bound(Compose((ZeroConcentrated(0.1), Pure(0.1))), relation="add-remove", delta=1e-6)
    assert beside.epsilon_lower <= beside.epsilon_upper
