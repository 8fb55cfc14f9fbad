"""The bounded-range leaf: the Gaussian that covers it, and choices drawn together."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.special import ndtri_exp

from affidavit.accountant.bound import bound
from affidavit.accountant.errors import PermitViolation
from affidavit.accountant.plan import Compose, Exponential, Gaussian, Repeat, WithoutReplacement, core
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.accountant.verifier import recompute
from affidavit.mechanisms.bounded_range import BoundedRange, JointSelection, costs, gaussian_multiplier

RANGES = (1e-6, 9.999e-4, 1.001e-3, 0.03, 0.5, 2.0, 9.0, 60.0, 1300.0, 1500.0)


class _Permit:
    def __init__(self, leaf, seed=0):
        self.leaf, self.noise, self.used = leaf, SeededNoise(seed), []

    def use(self, path):
        self.used.append(path)
        return self.leaf


def _needed(eta, x):
    """Φ^{-1}(p) − Φ^{-1}(q) for the pair with log-odds x ± η/2, by another inverse than the code's."""

    def h(logit):
        if abs(logit) > 50:  # far out, where mpmath needs many digits, by scipy's inverse of ln Φ
            return mpmath.sign(logit) * -mpmath.mpf(float(ndtri_exp(-float(abs(logit)))))
        tail = 1 / (1 + mpmath.exp(abs(logit)))
        z = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * tail)
        return z if logit > 0 else -z

    return h(x + eta / 2) - h(x - eta / 2)


@pytest.mark.parametrize("eta", RANGES)
def test_the_gaussian_covers_every_extreme_pair_and_touches_one(eta):
    with mpmath.workdps(60):
        mu = 1 / mpmath.mpf(gaussian_multiplier(eta))
        worst = _needed(mpmath.mpf(eta), mpmath.mpf(0))
        assert worst <= mu
        assert mu <= worst * (1 + 1e-6 if eta < 1400 else 1.1)
        for x in (0.01, 0.3, 1.0, 4.0, 20.0):
            assert _needed(mpmath.mpf(eta), mpmath.mpf(x)) <= mu


@pytest.mark.parametrize("eta", [0.05, 0.7, 3.0])
def test_the_profile_is_that_of_the_closed_form_or_more(eta):
    """δ(ε) = (1 − e^{(ε−η)/2})²/(1 − e^{−η}) (``pld.bounded_range``) lies under the Gaussian's, touching at ε = 0."""
    for epsilon in np.linspace(0.0, eta, 9):
        exact = (1 - np.exp((epsilon - eta) / 2)) ** 2 / (1 - np.exp(-eta))
        ours = bound(BoundedRange(eta), relation="zero-out", epsilon=float(epsilon)).delta_upper
        assert ours >= exact * (1 - 1e-9)
    assert bound(BoundedRange(eta), relation="zero-out", epsilon=0.0).delta_upper == pytest.approx(
        np.tanh(eta / 4), rel=1e-6
    )


def test_every_engine_takes_it_on_a_sample():
    """``exponential`` beside noise is refused there by the verifier."""
    plan = Repeat(10, WithoutReplacement(100, 10, Compose((BoundedRange(0.4), Gaussian(3.0)))))
    asked = {"relation": "substitution", "delta": 1e-4}
    again = recompute(plan, **asked)
    assert again.epsilon_lower <= bound(plan, **asked).epsilon_upper
    assert bound(plan, **asked).epsilon_upper == pytest.approx(again.epsilon_upper, rel=1e-3)


def test_nothing_costs_nothing():
    assert bound(BoundedRange(0.0), relation="zero-out", delta=0.0).epsilon_upper == 0.0
    assert core(BoundedRange(0.0)) == costs(BoundedRange(0.0))


def test_alone_the_exact_recursion_is_tighter():
    asked = {"relation": "zero-out", "delta": 1e-5}
    covered = bound(Repeat(20, BoundedRange(0.3)), **asked).epsilon_upper
    assert bound(Repeat(20, Exponential(0.3)), **asked).epsilon_upper < covered
    assert covered < bound(Repeat(20, {"kind": "pure", "epsilon": 0.3}), **asked).epsilon_upper


def test_choices_are_softmax_draws_of_their_own():
    spec = JointSelection(width=2, temperature=4)
    permit = _Permit(spec.leaf())
    scores = [np.array([0, 4]), np.array([8, 0])]
    drawn = np.array([JointSelection(width=2, temperature=4).release(permit, "plan", scores) for _ in range(4000)])
    chances = [np.exp(1) / (1 + np.exp(1)), 1 / (1 + np.exp(2))]
    # four standard errors of a proportion of 4000
    assert np.abs(drawn.mean(axis=0) - chances).max() < 4 * 0.5 / np.sqrt(4000)
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 4 / np.sqrt(4000)
    assert permit.used == ["plan"] * 4000


def test_one_use_however_many_choices():
    permit = _Permit(BoundedRange(1.0))
    assert JointSelection(width=1, temperature=1).release(permit, "plan", []) == ()
    assert permit.used == ["plan"]


def test_more_than_the_certified_range_is_refused():
    permit = _Permit(BoundedRange(0.5))
    with pytest.raises(PermitViolation, match="does not cover"):
        JointSelection(width=1, temperature=1.999).release(permit, "plan", [np.array([0, 1])])
    with pytest.raises(PermitViolation, match="the certified gaussian"):
        JointSelection(width=1, temperature=4).release(_Permit(Gaussian(1.0)), "plan", [np.array([0, 1])])
