"""Risk limits and trade-off curves."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.risk import guessing_limit, risk_limits
from affidavit.accountant.tradeoff import PrivacyCurve, privacy_curve

ONE_POINT = PrivacyCurve(((1.0, 1e-5),))


def test_limits_of_one_point() -> None:
    limits = risk_limits(ONE_POINT)
    assert limits.area_under_roc == pytest.approx(0.73106, abs=5e-6)
    assert limits.true_positive_rate_at_1_percent == pytest.approx(0.02719, abs=5e-6)
    assert limits.advantage == pytest.approx(0.46212, abs=5e-6)


def test_the_whole_gaussian_curve_is_far_better_than_one_point() -> None:
    """μ = 1: AUC Φ(1/√2) = 0.76025 from the curve; 0.9876 from its point at δ = 1e-5 alone."""
    plan = {"kind": "gaussian", "noise_multiplier": 1.0}
    whole = risk_limits(privacy_curve(plan, relation="add-remove", delta=1e-5))
    assert float(mpmath.ncdf(1 / mpmath.sqrt(2))) <= whole.area_under_roc <= 0.7606
    alone = risk_limits(PrivacyCurve(((4.3771780956812245, 1e-5),)))
    assert alone.area_under_roc == pytest.approx(0.9876, abs=5e-5)


points = st.lists(st.tuples(st.floats(0.0, 20.0), st.floats(0.0, 1.0)), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None)
@given(points)
def test_area_and_advantage_agree_with_numerical_integration(raw: list[tuple[float, float]]) -> None:
    curve = PrivacyCurve(tuple(sorted(raw)))
    x = np.concatenate((np.geomspace(1e-12, 1e-3, 4000), np.linspace(1e-3, 1.0, 8001)[1:]))
    f = np.array([curve.false_negative_rate(v) for v in x])
    limits = risk_limits(curve)
    assert limits.area_under_roc == pytest.approx(1.0 - float(np.trapezoid(f, x)), abs=2e-5)
    assert limits.advantage >= float(np.max(1.0 - f - x)) - 1e-9
    assert limits.advantage == pytest.approx(max(0.0, float(np.max(1.0 - f - x))), abs=2e-4)


def test_gaussian_trade_off_lies_below_the_true_one() -> None:
    """f from finitely many certified points never exceeds Φ(Φ⁻¹(1 − x) − μ)."""
    curve = privacy_curve({"kind": "gaussian", "noise_multiplier": 1.0}, relation="add-remove", delta=1e-5)
    for x in (1e-4, 0.01, 0.1, 0.3, 0.5, 0.8):
        truth = float(mpmath.ncdf(mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * x) - 1))
        assert curve.false_negative_rate(x) <= truth + 1e-12
        assert curve.false_negative_rate(x) >= truth - 0.01


def test_guessing() -> None:
    assert guessing_limit(epsilon=1.0, delta=1e-5, candidates=1000) == pytest.approx(math.e / 1000 + 1e-5)
    assert guessing_limit(epsilon=2000.0, delta=0.0, candidates=10) == 1.0


def _most(points: tuple[tuple[float, float], ...], x: float) -> mpmath.mpf:
    """1 − f(x) by the formulas, at 60 digits."""
    rate = mpmath.mpf(x)
    lines = [
        (mpmath.exp(mpmath.mpf(e)) * rate + d, 1 - mpmath.exp(-mpmath.mpf(e)) * (1 - mpmath.mpf(d) - rate))
        for e, d in points
    ]
    return min(1, *(one for pair in lines for one in pair))


@pytest.mark.parametrize("delta", [0.0, 1e-30, 1e-9, 0.3])
@pytest.mark.parametrize("epsilon", [0.0, 1e-19, 1e-8, 0.7, 30.0, 709.0])
def test_no_limit_is_rounded_below_its_formula(epsilon: float, delta: float) -> None:
    """1 − (1 − δ) is 0 at δ = 1e-30, where an attack reaches δ without a false positive."""
    with mpmath.workdps(60):
        e, d = mpmath.mpf(epsilon), mpmath.mpf(delta)
        curve = PrivacyCurve(((epsilon, delta),))
        for x in (0.0, 1e-40, 1e-12, 1e-3, 0.1, 0.7):
            assert (
                _most(curve.points, x) <= curve.true_positive_rate(x) <= _most(curve.points, x) * (1 + 1e-14) + 1e-323
            )
            assert curve.false_negative_rate(x) <= 1 - _most(curve.points, x) + mpmath.mpf(10) ** -55
        limits = risk_limits(curve)
        advantage = (mpmath.exp(e) - 1 + 2 * d) / (mpmath.exp(e) + 1)
        assert advantage <= limits.advantage <= advantage * (1 + 1e-14)
        area = 1 - (1 - d) ** 2 / (1 + mpmath.exp(e))
        assert area <= limits.area_under_roc <= area + 1e-14
        guess = min(1, mpmath.exp(e) / 513559 + d)
        assert guess <= guessing_limit(epsilon=epsilon, delta=delta, candidates=513559)
