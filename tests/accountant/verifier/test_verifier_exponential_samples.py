"""Exponential mechanisms on fresh samples: the verifier's own exact recursion."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.plan import Exponential, Plan, Poisson, Repeat, WithoutReplacement
from affidavit.accountant.settle import settle
from affidavit.accountant.verifier import blocks, recompute
from affidavit.accountant.verifier.adaptive import AdaptiveCurve, recursion
from affidavit.accountant.verifier.exponential_use import ways_of
from affidavit.accountant.verifier.memoryless import Kind, estimate
from affidavit.accountant.verifier.profile import Target

RECURSION = "exact adaptive composition of exponential mechanisms on samples"


def pairs(eta: float, rate: float, places: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q-mass of the larger ratio, and both ratios of one use on the sample, over a fine grid of choices."""
    u = np.exp(np.linspace(0.0, eta, places))
    chance = (math.exp(eta) / u - 1.0) / math.expm1(eta)
    return chance, 1.0 + rate * (u - 1.0), 1.0 + rate * (u * math.exp(-eta) - 1.0)


def after_one(alpha: np.ndarray, eta: float, rate: float, *, removed: bool) -> np.ndarray:
    """The best single use at every α, by trying choices."""
    chance, near, far = pairs(eta, rate, 1_001)
    flat = np.atleast_1d(alpha)[:, None]
    if removed:
        values = chance * np.maximum(near - flat, 0.0) + (1.0 - chance) * np.maximum(far - flat, 0.0)
    else:
        values = chance * np.maximum(1.0 - flat * near, 0.0) + (1.0 - chance) * np.maximum(1.0 - flat * far, 0.0)
    return values.max(axis=1)


def after_two(alpha: float, eta: float, rate: float, *, removed: bool) -> float:
    """The best two uses, the second one chosen after the first one's outcome."""
    chance, near, far = pairs(eta, rate, 401)
    if removed:
        one = near * after_one(alpha / near, eta, rate, removed=True)
        other = far * after_one(alpha / far, eta, rate, removed=True)
    else:
        one = after_one(alpha * near, eta, rate, removed=False)
        other = after_one(alpha * far, eta, rate, removed=False)
    return float((chance * one + (1.0 - chance) * other).max())


@pytest.mark.parametrize(("eta", "rate"), [(0.1, 0.02), (1.0, 0.1), (0.7, 0.8), (3.0, 0.004), (2.5, 0.6)])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.4])
def test_two_uses_by_trying_every_choice(eta: float, rate: float, share: float) -> None:
    """The choices tried are nearly the best ones: what they reach is below the upper side, above the lower side."""
    epsilon = share * math.log1p(rate * math.expm1(eta))
    tried = max(after_two(math.exp(epsilon), eta, rate, removed=removed) for removed in (True, False))
    found = recompute(Repeat(2, Poisson(rate, Exponential(eta))), relation="zero-out", epsilon=epsilon)
    assert RECURSION in found.method
    assert tried * (1 - 1e-12) <= found.delta_upper
    assert found.delta_lower <= tried * (1 + 1e-4)
    assert found.delta_upper <= tried * (1 + 1e-2)


@pytest.mark.parametrize(
    "plan",
    [
        Repeat(100, Poisson(0.1, Exponential(1.0))),
        Repeat(40, Poisson(0.9, Exponential(0.05))),
        Repeat(60, Poisson(0.001, Exponential(3.0))),
        Repeat(3, Poisson(0.4, Exponential(2.5))),
    ],
)
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12])
def test_both_recursions_agree_from_both_sides(plan: Plan, delta: float) -> None:
    found, engine = (
        recompute(plan, relation="add-remove", delta=delta),
        bound(plan, relation="add-remove", delta=delta),
    )
    assert RECURSION in found.method
    assert found.epsilon_lower <= engine.epsilon_upper * (1 + 1e-9)
    assert engine.epsilon_lower <= found.epsilon_upper * (1 + 1e-9)
    # Of few uses at a tiny δ, ε is next to the largest loss, where the curve has corners: some 6e-3 wide.
    width = 1e-3 if delta > 1e-9 else 1e-2
    assert found.epsilon_upper - found.epsilon_lower <= width * found.epsilon_upper + 1e-7


def test_what_is_settled_is_the_exact_value_and_no_envelope() -> None:
    settled = settle(Repeat(100, Poisson(0.1, Exponential(1.0))), relation="zero-out", delta=1e-5)
    assert 2.2 < settled.epsilon_upper < 2.2025


def test_without_replacement_a_leaving_record_costs_what_a_poisson_sample_does() -> None:
    """Under add-remove the pair is the same; under zero-out another record takes the place, and the envelope serves."""
    plan = Repeat(20, WithoutReplacement(50, 5, Exponential(1.0)))
    found = recompute(plan, relation="add-remove", delta=1e-5)
    poisson = recompute(Repeat(20, Poisson(0.1, Exponential(1.0))), relation="add-remove", delta=1e-5)
    assert found.epsilon_upper == pytest.approx(poisson.epsilon_upper, rel=1e-12)
    assert RECURSION not in recompute(plan, relation="zero-out", delta=1e-5).method


def test_one_use_on_a_sample_is_in_closed_form() -> None:
    found = recompute(Poisson(0.1, Exponential(1.0)), relation="zero-out", delta=1e-5)
    assert found.method == "closed form of one use"


def test_uses_in_stages_are_above_the_recursion_and_near_it() -> None:
    """Uses of range 4, whose larger loss comes once in fifty: a block of a hundred, then two stages."""
    eta, rate, uses, length, small = Fraction(4), Fraction(1, 100), 700, 100, 1e-12
    near = estimate([Kind(eta, rate, uses)], Target(delta=1e-6), removed=True)
    (deviation,) = near.deviations
    step = Fraction(deviation * 0.15)
    exact = AdaptiveCurve(float(2 * step), *recursion(eta, rate, 2 * step, small, 8.0).after(uses)[0])
    one, other = recursion(eta, rate, step, small, 4.0).after(length)
    run = blocks.Run((one.upper, other.upper), step, length, uses, deviation, near.tilt)
    staged = run.charged(lambda fine: ways_of(eta, rate, fine)[0], small)
    assert staged is not None
    x = np.arange(0, int(3.0 / exact.spacing), 8) * exact.spacing
    assert (staged.upper(x) >= exact.lower(x)).all()
    kept = exact.lower(x) > 1e-8
    assert kept.sum() > 10
    # Where ε is moved by one per cent, the order is the other one.
    assert (staged.upper(1.01 * x[kept] + 0.002) <= exact.upper(x[kept])).all()
