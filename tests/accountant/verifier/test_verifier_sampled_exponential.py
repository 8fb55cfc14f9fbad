"""Sampled exponential mechanisms: the envelope of one use as a pair, sampled and composed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.plan import (
    Approximate,
    Compose,
    Exponential,
    Gaussian,
    Plan,
    Poisson,
    Pure,
    Repeat,
    WithoutReplacement,
)
from affidavit.accountant.verifier import recompute
from affidavit.accountant.verifier.balls import ball, precision
from affidavit.accountant.verifier.envelope import ExponentialPair


def one_use(epsilon: float, eta: float, t: np.ndarray) -> np.ndarray:
    """Hockey-stick at e^ε of the pair with losses t and t − η."""
    p = np.expm1(eta - t) / (np.exp(-t) * math.expm1(eta))
    return p * np.maximum(0.0, -np.expm1(epsilon - t)) + (1 - p) * np.maximum(0.0, -np.expm1(epsilon - t + eta))


@pytest.mark.parametrize("eta", [0.05, 1.0, 8.0, 300.0])
def test_the_pair_is_the_largest_curve_of_any_use_and_its_own_reverse(eta: float) -> None:
    pair = ExponentialPair(ball(eta))
    t = np.linspace(0.0, eta, 4001)
    with precision():
        for share in (-1.2, -0.9, -0.3, 0.0, 0.2, 0.7, 0.999, 1.3):
            loss = ball(share * eta)
            p, q = pair.above(loss)
            delta = float(p - loss.exp() * q)
            tried = one_use(share * eta, eta, t).max()
            assert tried - 1e-12 <= delta <= tried * (1 + 1e-5 * (1 + eta)) + 1e-12
            mirrored = pair.above(-loss)
            assert float(abs(1 - mirrored[1] - p)) < 1e-60  # no atoms


@pytest.mark.parametrize("rate", [0.03, 0.5])
@pytest.mark.parametrize("delta", [1e-2, 1e-4])
def test_one_poisson_sample_by_trying_every_use(rate: float, delta: float) -> None:
    """(mixture, Q) at α is rate times the curve at 1 + (α − 1)/rate, for each t and so for the largest."""
    eta = 1.2
    t = np.linspace(0.0, eta, 200_001)

    def exceeds(epsilon: float) -> bool:
        return rate * one_use(math.log1p(math.expm1(epsilon) / rate), eta, t).max() > delta

    low, high = 0.0, eta
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    found = recompute(Poisson(rate, Exponential(eta)), relation="zero-out", delta=delta)
    assert found.epsilon_upper == pytest.approx(high, rel=1e-6, abs=1e-9)
    assert found.epsilon_lower == pytest.approx(found.epsilon_upper, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("plan", "relation"),
    [
        (Repeat(10, WithoutReplacement(20, 2, Exponential(2.0))), "zero-out"),
        (Repeat(100, WithoutReplacement(50, 5, Exponential(1.0))), "substitution"),
        (Repeat(5, WithoutReplacement(50, 5, Compose((Exponential(1.0), Approximate(0.5, 1e-6))))), "add-remove"),
    ],
)
def test_samples_agree_with_the_float_engine_and_stay_below_pure(plan: Repeat, relation: str) -> None:
    """The engine discretises the same envelope by other code; a range is also a pure ε, which costs more."""
    found = recompute(plan, relation=relation, delta=1e-5)
    engine = bound(plan, relation=relation, delta=1e-5, method="pld")
    assert found.epsilon_upper == pytest.approx(engine.epsilon_upper, rel=2e-3)
    assert 0.0 < found.epsilon_lower <= engine.epsilon_upper * (1 + 1e-9)
    assert found.epsilon_upper < 0.9 * recompute(_as_pure(plan), relation=relation, delta=1e-5).epsilon_upper


@pytest.mark.parametrize("inside", [Repeat(2, Exponential(0.5)), Compose((Exponential(0.5), Gaussian(2.0)))], ids=str)
def test_many_exponential_mechanisms_on_one_sample_cost_no_less_than_one_choice(inside: Plan) -> None:
    found = recompute(Poisson(0.1, inside), relation="zero-out", delta=1e-5)
    issued = bound(Poisson(0.1, inside), relation="zero-out", delta=1e-5)
    assert 0.0 < found.epsilon_lower <= issued.epsilon_upper
    assert 0.0 <= issued.epsilon_lower <= found.epsilon_upper < 2.5 * found.epsilon_lower


def _as_pure(plan: Plan) -> Plan:
    match plan:
        case Exponential(range=eta):
            return Pure(eta)
        case Compose(parts=parts):
            return Compose(tuple(_as_pure(part) for part in parts))
        case Repeat(count=count, of=of):
            return Repeat(count, _as_pure(of))
        case Poisson(rate=rate, of=of):
            return Poisson(rate, _as_pure(of))
        case WithoutReplacement(population=population, sample=sample, of=of):
            return WithoutReplacement(population, sample, _as_pure(of))
    return plan


def most_of(count: int, eta: float, x: np.ndarray) -> np.ndarray:
    """The largest hockey-stick at e^x after so many uses, by trying 200 t at each, on a grid."""
    found = np.maximum(0.0, -np.expm1(x))
    for _ in range(count):
        best = np.zeros_like(x)
        for t in np.linspace(0.0, eta, 200):
            p = math.expm1(eta - t) / (math.exp(-t) * math.expm1(eta))
            left, right = (np.interp(x - loss, x, found, left=np.nan, right=0.0) for loss in (t, t - eta))
            left, right = (
                np.where(np.isnan(one), -np.expm1(np.minimum(x - loss, 0.0)), one)
                for one, loss in ((left, t), (right, t - eta))
            )
            best = np.maximum(best, p * left + (1 - p) * right)
        found = best
    return found


@pytest.mark.parametrize(("count", "eta"), [(2, 1.5), (3, 0.5), (20, 0.3)])
@pytest.mark.parametrize("rate", [0.1, 0.7])
def test_several_on_one_sample_cost_what_they_cost_together(count: int, eta: float, rate: float) -> None:
    """Envelopes, one for each, are above by 2 % and more."""
    x = np.linspace(-count * eta - eta, count * eta + eta, 6001)
    curve, delta = most_of(count, eta, x), 1e-4

    def exceeds(epsilon: float) -> bool:
        rest = 1 - math.exp(epsilon) * (1 - rate)
        removed = rate * np.interp(math.log1p(math.expm1(epsilon) / rate), x, curve)
        added = rest * np.interp(epsilon + math.log(rate / rest), x, curve) if rest > 0 else 0.0
        return bool(max(removed, added) > delta)

    low, high = 0.0, count * eta
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if exceeds(middle) else (low, middle)
    found = recompute(Poisson(rate, Repeat(count, Exponential(eta))), relation="add-remove", delta=delta)
    assert found.epsilon_lower <= low
    assert low * (1 - 1e-5) <= found.epsilon_upper <= low * (1 + 2e-3)
