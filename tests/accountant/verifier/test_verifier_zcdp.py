"""What is only known to be ρ-zCDP, converted in float64: never below the theorem's least bound, and next to it."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from affidavit.accountant.verifier import recompute
from affidavit.accountant.verifier.zcdp import _converted, _moment, zcdp_curve, zcdp_delta, zcdp_top


def least(rho: float, epsilon: float) -> mp.mpf:
    """Over all orders 1 + t, as 60 digits say: where the exponent's derivative in t is 0, or 1."""
    r, e = mp.mpf(rho), mp.mpf(epsilon)
    low, high = mp.mpf(-2000), mp.mpf(400)
    for _ in range(220):
        u = (low + high) / 2
        t = mp.exp(u)
        low, high = (u, high) if (1 + 2 * t) * r - mp.log1p(1 / t) < e else (low, u)
    t = mp.exp((low + high) / 2)
    log = t * ((1 + t) * r - e) + (1 + t) * mp.log(t / (1 + t)) - mp.log(t)
    return min(mp.mpf(1), mp.exp(log))


@pytest.mark.parametrize("rho", [1e-30, 1e-12, 1e-4, 0.1, 3.0, 200.0, 1e5])
def test_the_conversion_is_above_the_best_order_and_next_to_it(rho: float) -> None:
    with mp.workdps(60):
        for epsilon in np.linspace(0.0, 2.0, 9) * zcdp_top(rho, 1e-9):
            found, truth = zcdp_delta(Fraction(rho), float(epsilon)), least(rho, float(epsilon))
            assert found >= truth
            assert found <= truth * (1 + mp.mpf(10) ** -7) + mp.mpf(10) ** -299


def test_the_curve_is_that_of_its_places() -> None:
    curve = zcdp_curve(Fraction(1, 3), 7.0)
    for i in (0, 400, 1_500):
        assert curve.upper_values[i] == pytest.approx(zcdp_delta(Fraction(1, 3), i * curve.spacing), rel=1e-9)
    assert np.all(curve.lower(np.linspace(0.0, 7.0, 50)) == 0.0)


@pytest.mark.parametrize(("rho", "epsilon"), [(1e-300, 1.0), (0.1, 1e307), (1e300, 1.0), (1e5, 1e160)])
def test_no_magnitude_is_too_much(rho: float, epsilon: float) -> None:
    assert zcdp_delta(Fraction(rho), epsilon) == (1.0 if rho > epsilon else pytest.approx(1e-300, rel=1e-9))


@pytest.mark.parametrize("eta", [1e-9, 1e-3, 0.5, 4.0, 80.0, 600.0])
def test_a_moment_of_bounded_range_is_above_that_of_every_use_and_next_to_the_largest(eta: float) -> None:
    """By ternary search over the loss of the worst use, in 60 digits; the closed form is of another derivation."""
    with mp.workdps(60):
        whole = mp.exp(mp.mpf(eta))
        for t in (1e-12, 1e-4, 0.3, 2.0, 50.0, 1e4):

            def log_moment(loss: mp.mpf, t: float = t) -> mp.mpf:
                near = (whole - mp.exp(loss)) / (whole - 1)
                return mp.log(near * mp.exp(t * loss) + (1 - near) * mp.exp(t * (loss - eta)))

            low, high = mp.mpf(0), mp.mpf(eta)
            for _ in range(200):
                left, right = low + (high - low) / 3, high - (high - low) / 3
                low, high = (left, high) if log_moment(left) < log_moment(right) else (low, right)
            truth, found = log_moment(low), float(_moment(eta, np.array([t]))[0])
            assert found >= truth * (1 - mp.mpf(10) ** -40)
            assert found <= min(truth * (1 + mp.mpf(10) ** -9) + 1e-10 * (1 + t), t * (1 + t) * eta**2 / 7.99)


@pytest.mark.parametrize("eta", [1e-3, 0.5, 4.0, 30.0])
def test_the_conversion_is_above_the_closed_form_of_one_use(eta: float) -> None:
    """(√E - √α)²/(E - 1): Dong, Durfee, Rogers 2020."""
    points = np.linspace(0.0, eta, 21)
    truth = (math.exp(eta / 2) - np.exp(points / 2)) ** 2 / math.expm1(eta)
    assert np.all(_converted(Fraction(0), points, ((Fraction(eta), 1),)) >= truth)


def test_uses_of_a_large_range_have_a_narrow_bracket_at_once() -> None:
    """Blocks said 8000, their largest loss; ε of the Rényi bound is 7792.2 by the issuing engine."""
    many = {"kind": "repeat", "count": 100, "of": {"kind": "exponential", "range": 80.0}}
    found = recompute(many, relation="add-remove", delta=1e-6)
    assert 7780.0 < found.epsilon_lower < found.epsilon_upper < 7793.0
