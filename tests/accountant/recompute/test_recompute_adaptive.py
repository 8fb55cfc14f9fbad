"""Exponential mechanisms: secant envelope above, played strategy below, both against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest

from affidavit.accountant.recompute import recompute
from affidavit.accountant.recompute.envelope import envelope, nodes
from affidavit.accountant.recompute.strategy import find_strategy


def repeat(count: int, of: dict) -> dict:
    return {"kind": "repeat", "count": count, "of": of}


def compose(*parts: dict) -> dict:
    return {"kind": "compose", "parts": list(parts)}


def exponential(eta: float) -> dict:
    return {"kind": "exponential", "range": eta}


def one_use(alpha: float, eta: float, t: np.ndarray) -> np.ndarray:
    """Hockey-stick at α of the two-point pair with losses t and t − η."""
    top = math.exp(eta)
    p = (top - np.exp(t)) / (top - 1.0)
    return p * np.maximum(0.0, 1.0 - alpha * np.exp(-t)) + (1.0 - p) * np.maximum(0.0, 1.0 - alpha * np.exp(eta - t))


def brute_two_uses(epsilon: float, first: float, second: float) -> float:
    """Largest δ over both choices of t on fine grids; a lower bound of the truth."""
    inner = np.linspace(0.0, second, 801)
    best = 0.0
    for t in np.linspace(0.0, first, 401):
        p = (math.exp(first) - math.exp(t)) / math.expm1(first)
        value = p * one_use(math.exp(epsilon - t), second, inner).max()
        value += (1.0 - p) * one_use(math.exp(epsilon - t + first), second, inner).max()
        best = max(best, value)
    return best


@pytest.mark.parametrize(("eta", "epsilon"), [(1.0, 0.25), (1.0, 0.5), (0.3, 0.1), (3.0, 1.0)])
def test_two_uses_against_brute_force(eta: float, epsilon: float) -> None:
    x = nodes(eta / 64, -3 * eta, 3 * eta)
    upper = envelope([(eta, 2)], spacing=eta / 64, x=x).delta(epsilon)
    lower = find_strategy([(eta, 2)], spacing=eta / 64, x=x).played(epsilon).delta(epsilon).lower
    brute = brute_two_uses(epsilon, eta, eta)
    assert brute <= upper
    # Both grids come within O(h²) of the supremum.
    assert upper - brute <= 2e-4 * upper + 1e-6
    assert lower <= upper
    assert lower >= brute * (1.0 - 1e-3)


@pytest.mark.parametrize("order", [(0.4, 1.0), (1.0, 0.4)])
def test_unlike_ranges_keep_their_order(order: tuple[float, float]) -> None:
    brute = brute_two_uses(0.2, *order)
    x = nodes(0.4 / 37.3, -4.0, 4.0)  # no range is a multiple of the spacing
    upper = envelope([(order[0], 1), (order[1], 1)], spacing=0.4 / 37.3, x=x).delta(0.2)
    assert brute <= upper <= brute * (1.0 + 2e-3)


def test_the_known_gap_between_adaptive_and_non_adaptive() -> None:
    """Dong, Durfee and Rogers 2020: η = 1, two uses, ε = 1/4; non-adaptive 0.21605, adaptive 0.22093."""
    x = nodes(1.0 / 64, -4.0, 4.0)
    assert envelope([(1.0, 2)], spacing=1.0 / 64, x=x).delta(0.25) == pytest.approx(0.22093, abs=5e-5)


def test_a_played_strategy_is_a_mechanism() -> None:
    """P- and Q-masses sum to one, whatever the strategy."""
    x = nodes(0.5 / 24, -3.0, 2.0)
    law = find_strategy([(0.5, 12)], spacing=0.5 / 24, x=x).played(1.5)
    assert law.masses.sum() == pytest.approx(1.0, abs=1e-12)
    assert (law.masses * np.exp(-law.losses)).sum() == pytest.approx(1.0, abs=1e-11)
    assert abs(law.losses).max() <= 12 * 0.5


@pytest.mark.parametrize("left", [-0.5, -2.0])
def test_a_window_too_narrow_only_loosens(left: float) -> None:
    wide = envelope([(0.5, 10)], spacing=0.5 / 24, x=nodes(0.5 / 24, -6.0, 6.0)).delta(1.0)
    narrow = envelope([(0.5, 10)], spacing=0.5 / 24, x=nodes(0.5 / 24, left, 0.5)).delta(1.0)
    assert narrow >= wide * (1.0 - 1e-12)


def test_the_law_of_the_envelope_repeats_its_curve() -> None:
    x = nodes(0.5 / 24, -4.0, 4.0)
    price = envelope([(0.5, 8)], spacing=0.5 / 24, x=x)
    law = price.law()
    for epsilon in (0.05, 0.5, 1.3):
        assert law.delta(epsilon).upper >= price.delta(epsilon) * (1.0 - 1e-9)
        assert law.delta(epsilon).upper == pytest.approx(price.delta(epsilon), rel=1e-6)


def test_between_optimal_pure_and_zero_concentrated() -> None:
    eta, uses, delta = 0.2, 50, 1e-6
    found = recompute(repeat(uses, exponential(eta)), relation="zero-out", delta=delta)
    rho = uses * eta**2 / 8.0
    # Bun and Steinke's conversion of ρ-zCDP, valid and loose; and randomised response at η/2, one strategy.
    assert found.epsilon_upper <= rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))
    weaker = recompute(repeat(uses, {"kind": "pure", "epsilon": eta / 2}), relation="zero-out", delta=delta)
    assert found.epsilon_upper >= weaker.epsilon_lower


@pytest.mark.parametrize("fixed", [{"kind": "gaussian", "noise_multiplier": 1.5}, {"kind": "pure", "epsilon": 0.8}])
def test_learning_a_fixed_outcome_sooner_costs_more(fixed: dict) -> None:
    """E sup >= sup E: fixed mechanisms first, last, and in between."""
    uses = repeat(4, exponential(0.5))
    first, last = compose(fixed, uses), compose(uses, fixed)
    half = repeat(2, exponential(0.5))
    middle = compose(half, fixed, half)
    a, b, c = (recompute(plan, relation="zero-out", delta=1e-4) for plan in (first, last, middle))
    assert a.epsilon_upper >= b.epsilon_lower
    assert a.epsilon_upper - a.epsilon_lower <= 2e-3 * a.epsilon_upper
    assert b.epsilon_upper - b.epsilon_lower <= 2e-3 * b.epsilon_upper
    assert c.epsilon_upper <= a.epsilon_upper * (1.0 + 1e-9)
    assert c.epsilon_lower <= a.epsilon_upper


def test_a_coin_before_one_use_against_brute_force() -> None:
    """One randomised response, seen before t is chosen."""
    eta, pure, epsilon = 1.0, 0.5, 0.3
    t = np.linspace(0.0, eta, 4001)
    p = 1.0 / (1.0 + math.exp(-pure))
    brute = (
        p * one_use(math.exp(epsilon - pure), eta, t).max() + (1 - p) * one_use(math.exp(epsilon + pure), eta, t).max()
    )
    plan = compose({"kind": "pure", "epsilon": pure}, exponential(eta))
    found = recompute(plan, relation="zero-out", delta=float(brute))
    assert found.epsilon_lower <= epsilon * (1.0 + 1e-6)
    assert found.epsilon_upper >= epsilon * (1.0 - 1e-6)
    assert found.epsilon_upper - found.epsilon_lower <= 2e-3
