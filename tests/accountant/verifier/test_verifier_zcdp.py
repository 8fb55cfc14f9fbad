"""What is only known to be ρ-zCDP, converted in float64: never below the theorem's least bound, and next to it."""

from __future__ import annotations

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from affidavit.accountant.verifier.zcdp import zcdp_curve, zcdp_delta, zcdp_top


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
