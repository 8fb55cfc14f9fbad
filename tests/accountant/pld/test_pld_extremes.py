"""Samples of compositions of pure and approximate mechanisms, also where e^ε and δ leave float64's middle."""

from __future__ import annotations

import math
import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from affidavit.accountant.bound import bound
from affidavit.accountant.plan import Approximate, Compose, Laplace, Plan, Poisson, Pure, Repeat, WithoutReplacement
from affidavit.accountant.pld.gaussian import Gaussian
from affidavit.accountant.pld.nested import composed_curve, composed_law, composed_step
from affidavit.accountant.pld.steps import one_step
from affidavit.accountant.pld.subsample import Mixed

LOGS = st.floats(min_value=math.log(1e-8), max_value=math.log(700.0))
PURE = st.builds(lambda log: Pure(math.exp(log)), LOGS)
APPROXIMATE = st.builds(lambda log, e: Approximate(math.exp(log), 10.0**e), LOGS, st.floats(-100.0, -0.1))
INNER = st.lists(PURE | APPROXIMATE, min_size=1, max_size=3).map(lambda parts: Compose(tuple(parts)))
SAMPLED = st.one_of(
    st.builds(lambda log, of: Poisson(10.0**log, of), st.floats(-6.0, 0.0), INNER),
    st.builds(lambda sample, of: WithoutReplacement(24, sample, of), st.integers(1, 24), INNER),
)


@settings(max_examples=25, deadline=None)
@given(
    plan=SAMPLED,
    relation=st.sampled_from(["zero-out", "add-remove", "substitution"]),
    exponent=st.floats(-100.0, -0.1),
)
def test_one_sample_never_fails_and_costs_at_most_what_is_inside(plan: Plan, relation: str, exponent: float) -> None:
    found = bound(plan, relation=relation, delta=10.0**exponent)
    assert 0.0 <= found.epsilon_lower <= found.epsilon_upper
    inside = bound(plan.of, relation=relation, delta=10.0**exponent)
    assert found.epsilon_lower <= inside.epsilon_upper * (1 + 1e-9)


def test_delta_is_never_above_one() -> None:
    found = bound(Repeat(3, Poisson(0.9, Pure(600.0))), relation="add-remove", epsilon=1.0)
    assert 0.998 <= found.delta_lower <= found.delta_upper <= 1.0


def test_repeated_samples_of_huge_losses() -> None:
    """P(L = +inf) is 1 − (1 − 5e-4)³ = 1.499e-3: above δ = 1e-3, below 1e-2."""
    plan = Repeat(3, WithoutReplacement(24, 12, Compose((Pure(128.0), Approximate(256.0, 1e-3)))))
    assert bound(plan, relation="zero-out", delta=1e-3).epsilon_upper == math.inf
    found = bound(plan, relation="zero-out", delta=1e-2)
    # All three are sampled with probability 1/8 > δ, and the loss is then 3 (128 + 256 − ln 2), rest negligible.
    assert found.epsilon_upper == pytest.approx(3 * (384.0 - math.log(2.0)), rel=1e-2)
    assert found.epsilon_lower <= 3 * (384.0 - math.log(2.0)) * (1 + 1e-12) <= 3 * 384.0


@pytest.mark.parametrize("parts", [((1.0, 0.0, 1), (1.5, 1e-4, 3)), ((128.0, 0.0, 1), (0.0, 1e-3, 2), (5.0, 1e-30, 2))])
def test_an_exact_product_is_the_composition(parts: tuple[tuple[float, float, int], ...]) -> None:
    steps = tuple((one_step(Approximate(e, d), "zero-out"), count) for e, d, count in parts)
    step = composed_step(steps)
    assert step.tight
    outcomes = [(mpmath.mpf(1), mpmath.mpf(1))]
    with mpmath.workdps(200):
        for e, d, count in parts:
            high, d_ = (1 - mpmath.mpf(d)) / (1 + mpmath.exp(-e)), mpmath.mpf(d)
            low = 1 - d_ - high
            for _ in range(count):
                outcomes = [
                    (p * a, q * b)
                    for p, q in outcomes
                    for a, b in ((d_, 0), (high, low), (low, high), (0, d_))
                    if a or b
                ]
        for epsilon in (0.0, 0.7, 3.0, 130.0):
            exact = sum(max(mpmath.mpf(0), p - mpmath.exp(epsilon) * q) for p, q in outcomes)
            lower, upper = step.forward.upper.delta(epsilon)
            # The mass at +inf is good to 1e-14 (the composer adds that), the rest is widened by its rounding.
            assert lower * (1 - 1e-14) <= exact <= upper * (1 + 1e-14)
            assert upper - lower <= 1e-10 * float(exact) + 1e-300


def test_a_law_of_large_positive_losses_covers_its_negative_ones() -> None:
    """Q has next to no mass where P has all of it, so the range must come from P."""
    curves = tuple((one_step(leaf, "zero-out").forward.upper, 1) for leaf in (Pure(128.0), Approximate(256.0, 1e-3)))
    exact = composed_curve(curves, side="upper")
    law = composed_law(curves, side="upper", log_nothing=-240.0)
    for epsilon in (100.0, 127.0, 383.0):
        above = law.losses > epsilon
        delta = law.infinity + float((law.masses[above] * -np.expm1(epsilon - law.losses[above])).sum())
        assert exact.delta(epsilon)[0] <= delta * (1 + 1e-9) <= exact.delta(epsilon)[1] * (1 + 1e-2)


ONE_USE = st.one_of(
    st.builds(
        lambda draw, b: WithoutReplacement(3000, max(1, int(3000 * draw)), Laplace(b)),
        st.floats(1e-3, 1.0),
        st.floats(0.2, 5.0),
    ),
    st.builds(lambda rate, b: Poisson(rate, Laplace(b)), st.floats(1e-3, 1.0), st.floats(0.2, 5.0)),
    st.builds(Laplace, st.floats(0.2, 5.0)),
)


@settings(max_examples=40, deadline=None)
@given(use=ONE_USE, epsilon=st.floats(1e-2, 5.0), exponent=st.floats(-60.0, -3.0))
@example(use=WithoutReplacement(2970, 284, Laplace(0.2)), epsilon=2.0638835885219007, exponent=-20.2294)
def test_the_top_of_the_losses_is_not_lost(use: Plan, epsilon: float, exponent: float) -> None:
    """Beside a pure mechanism a use costs δ(ε) = p δ₁(ε − ε₀) + (1 − p) δ₁(ε + ε₀), p = 1/(1 + e^−ε₀): closed forms.

    A tiny δ puts ε next to the largest loss, where the best tilt is so steep that the weights underflow.
    """
    found = bound(Compose((use, Pure(epsilon))), relation="substitution", delta=10.0**exponent).epsilon_upper
    step = one_step(use, "substitution")
    likely = 1.0 / (1.0 + math.exp(-epsilon))
    for curve in (step.forward.upper, step.backward.upper):
        above, below = curve.delta(found - epsilon)[0], curve.delta(found + epsilon)[0]
        assert likely * above + (1.0 - likely) * below <= 10.0**exponent * (1.0 + 1e-9)


def test_a_lower_side_of_few_digits_is_none() -> None:
    """A million Gaussians: δ(1.6112) is 8.991e-322 (mpmath, 60 digits), which float64 writes as 9e-322."""
    plan = {"kind": "repeat", "count": 10**6, "of": {"kind": "gaussian", "noise_multiplier": 23693.388743998476}}
    found = bound(plan, relation="add-remove", epsilon=1.6112151967527448)
    assert found.delta_lower == 0.0
    assert 1e-320 < found.delta_upper < 1e-300


def test_pairs_of_a_rate_near_one() -> None:
    """(Q, mixture) of q = 1 − 1e-12, σ = 1 just below its largest loss (mpmath, 60 digits)."""
    rate = 1.0 - 1e-12
    epsilon = -math.log1p(-rate) * 0.9999
    lower, upper = Mixed(Gaussian(1.0), rate).swapped().delta(epsilon)
    with mpmath.workdps(60):
        left = mpmath.exp(-mpmath.mpf(epsilon)) - (1 - mpmath.mpf(rate))
        edge = mpmath.log(left / rate) + mpmath.mpf(1) / 2
        q_mass = (1 - mpmath.mpf(rate)) * mpmath.ncdf(edge) + rate * mpmath.ncdf(edge - 1)
        truth = mpmath.ncdf(edge) - mpmath.exp(mpmath.mpf(epsilon)) * q_mass
        assert lower <= truth <= upper <= truth * (1 + mpmath.mpf(10) ** -6)


@pytest.mark.parametrize("delta", [1e-4, 1e-300])
def test_the_largest_loss_that_a_plan_may_state(delta: float) -> None:
    """The cost of the Gaussians beside it is nothing beside 1e100."""
    gaussians = {"kind": "repeat", "count": 3, "of": {"kind": "gaussian", "noise_multiplier": 4.0}}
    plan = {"kind": "compose", "parts": [gaussians, {"kind": "pure", "epsilon": 1e100}]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = bound(plan, relation="zero-out", delta=delta)
        again = bound(plan, relation="zero-out", epsilon=1.0)
    assert found.epsilon_lower <= 1e100 <= found.epsilon_upper or found.epsilon_upper == math.inf
    assert 0.0 <= again.delta_lower <= again.delta_upper == 1.0
