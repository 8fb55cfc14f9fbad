"""The recursion on Poisson samples against brute force, its unsampled form, and the envelope."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.bound import bound
from affidavit.accountant.methods.base import Target
from affidavit.accountant.methods.sampled_adaptive import Sample, SampledAdaptiveProfile
from affidavit.accountant.plan import Exponential, Poisson, Repeat


def sampled(eta: float, rate: float, uses: int) -> Repeat:
    return Repeat(uses, Poisson(rate, Exponential(eta)))


def profile(eta: float, rate: float, uses: int, **question: float) -> SampledAdaptiveProfile:
    return SampledAdaptiveProfile(Sample(eta, rate, 1.0), uses, Target(**question))  # type: ignore[arg-type]


def two_points(eta: float, rate: float, t: float) -> list[tuple[float, float]]:
    """(probability without the record, ratio with it on the sample or not) of the worst pair for t."""
    chance = (1.0 - math.exp(t - eta)) / (math.exp(t) - math.exp(t - eta))
    return [(p, 1.0 - rate + rate * math.exp(loss)) for p, loss in ((chance, t), (1.0 - chance, t - eta))]


def strategy(
    alpha: float,
    eta: float,
    rate: float,
    uses: int,
    rng: random.Random,
    *,
    forward: bool,
    without: float = 1.0,
    ratio: float = 1.0,
) -> float:
    """δ of an adaptive strategy that draws t anew at each node: the sum over all outputs, written out."""
    if uses == 0:
        p, q = (ratio * without, without) if forward else (without, ratio * without)
        return max(0.0, p - alpha * q)
    return sum(
        strategy(alpha, eta, rate, uses - 1, rng, forward=forward, without=without * p, ratio=ratio * m)
        for p, m in two_points(eta, rate, rng.uniform(0.0, eta))
    )


@settings(max_examples=40, deadline=None)
@given(
    eta=st.floats(0.05, 4.0),
    rate=st.floats(0.005, 1.0),
    uses=st.integers(1, 3),
    share=st.floats(0.0, 0.9),
    forward=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_no_explicit_strategy_exceeds_the_upper_side(
    eta: float, rate: float, uses: int, share: float, forward: bool, seed: int
) -> None:
    epsilon = share * uses * math.log1p(rate * math.expm1(eta))
    found = profile(eta, rate, uses, epsilon=epsilon).delta(epsilon)
    assert 0.0 <= found.lower <= found.upper
    rng = random.Random(seed)
    best = max(strategy(math.exp(epsilon), eta, rate, uses, rng, forward=forward) for _ in range(100))
    assert best <= found.upper * (1.0 + 1e-12) + 1e-15


@pytest.mark.parametrize("epsilon", [0.05, 0.3])
def test_two_uses_reach_the_bracket(epsilon: float) -> None:
    """Both uses searched on a fine grid, each direction: the second t is chosen for each first output."""
    eta, rate = 1.5, 0.2
    grid = [eta * (i + 0.5) / 400 for i in range(400)]
    alpha = math.exp(epsilon)
    pairs = [two_points(eta, rate, t) for t in grid]

    def once(a: float, *, forward: bool) -> float:
        gain = (lambda m: m - a) if forward else (lambda m: 1.0 - a * m)
        return max(sum(p * max(0.0, gain(m)) for p, m in pair) for pair in pairs)

    coarse = pairs[::8]
    removed = max(sum(p * m * once(alpha / m, forward=True) for p, m in pair) for pair in coarse)
    added = max(sum(p * once(alpha * m, forward=False) for p, m in pair) for pair in coarse)
    best = max(removed, added)
    found = profile(eta, rate, 2, epsilon=epsilon).delta(epsilon)
    assert best <= found.upper
    assert found.lower <= best * (1.0 + 1e-3)
    assert found.upper <= best * (1.0 + 4e-3)


def test_a_sample_of_everything_is_the_unsampled_recursion() -> None:
    """THEORY's s = 15, c = 10, τ = 1.048, T = 100: 17.18 by the other lattice."""
    found = profile(0.636, 1.0, 100, delta=2.5e-5).epsilon(2.5e-5)
    plain = bound(Repeat(100, Exponential(0.636)), relation="zero-out", delta=2.5e-5)
    assert found.lower <= plain.epsilon_upper
    assert plain.epsilon_lower <= found.upper
    assert found.upper <= found.lower * (1.0 + 1e-3)


@pytest.mark.parametrize(
    ("eta", "rate", "uses", "delta"),
    [(1.0, 0.1, 60, 1e-5), (4.0, 0.01, 10, 1e-12), (0.5, 0.05, 40, 1e-30), (2.0, 0.02, 1, 1e-3), (0.1, 0.5, 30, 0.1)],
)
def test_narrow_and_below_the_envelope(eta: float, rate: float, uses: int, delta: float) -> None:
    plan = sampled(eta, rate, uses)
    found = bound(plan, relation="add-remove", delta=delta)
    assert found.method == "adaptive"
    assert found.epsilon_upper <= found.epsilon_lower * (1.0 + 1.2e-3) + 1e-6
    envelope = bound(plan, relation="add-remove", delta=delta, method="pld")
    assert found.epsilon_lower <= envelope.epsilon_upper
    assert found.epsilon_upper <= envelope.epsilon_upper * (1.0 + 2e-3) + 1e-6
    back = bound(plan, relation="add-remove", epsilon=found.epsilon_upper, tolerance=0.01)
    assert back.delta_lower <= delta
    if found.epsilon_lower > 0.0:
        assert delta <= bound(plan, relation="add-remove", epsilon=found.epsilon_lower, tolerance=0.01).delta_upper


@pytest.mark.parametrize(
    ("eta", "rate", "uses", "delta"), [(2.5, 0.01, 200, 1e-30), (1.5, 0.3, 200, 1e-60), (2.5, 0.3, 200, 1e-100)]
)
def test_the_sides_do_not_cross_where_the_window_begins_above_zero(
    eta: float, rate: float, uses: int, delta: float
) -> None:
    """Left of it stands the slope of releasing nothing, 0: the lower side once took 1 there, and rose too high."""
    found = profile(eta, rate, uses, delta=delta).epsilon(delta)
    assert found.lower <= found.upper <= found.lower * (1.0 + 2e-3)


@settings(max_examples=25, deadline=None)
@given(eta=st.floats(0.05, 20.0), rate=st.floats(0.005, 1.0), uses=st.integers(1, 60), exponent=st.floats(-60.0, -0.3))
def test_the_sides_agree_with_each_other_and_the_envelope(eta: float, rate: float, uses: int, exponent: float) -> None:
    delta = 10.0**exponent
    found = profile(eta, rate, uses, delta=delta, tolerance=0.02).epsilon(delta)
    assert found.lower <= found.upper
    envelope = bound(sampled(eta, rate, uses), relation="zero-out", delta=delta, method="pld")
    assert found.lower <= envelope.epsilon_upper * (1.0 + 1e-9)
    assert found.upper <= envelope.epsilon_upper * 1.04 + 1e-6


@settings(max_examples=10, deadline=None)
@given(eta=st.floats(0.05, 3.0), rate=st.floats(0.01, 0.99), uses=st.integers(1, 20), exponent=st.floats(-12.0, -1.0))
def test_more_costs_more(eta: float, rate: float, uses: int, exponent: float) -> None:
    delta = 10.0**exponent
    least = profile(eta, rate, uses, delta=delta, tolerance=0.02).epsilon(delta)
    assert 0.0 <= least.lower <= least.upper < math.inf
    for larger in ((1.1 * eta, rate, uses), (eta, min(1.0, 1.1 * rate), uses), (eta, rate, uses + 3)):
        assert least.lower <= profile(*larger, delta=delta, tolerance=0.02).epsilon(delta).upper


def test_the_moment_bound_is_above_the_moments() -> None:
    import numpy as np

    from affidavit.accountant.methods.sampled_use import RATES, SampledUse

    for direction in ("forward", "backward"):
        use = SampledUse(2.0, 0.1, direction)  # type: ignore[arg-type]
        logs, exact = use.log_moments(), use.moments(RATES)[0]
        assert np.all(logs >= exact - 1e-12)
        ordinary = RATES < 30.0
        assert np.all(logs[ordinary] <= exact[ordinary] + 0.02)


def test_nothing_is_lost_beyond_the_largest_loss() -> None:
    """3 log(1 + .02436 (e^3.578 − 1)) is 1.84194410931767204: at the float above it 2.3e-66 was said, at least."""
    plan = Repeat(3, Poisson(0.02436, Exponential(3.578)))
    assert bound(plan, relation="zero-out", epsilon=1.841944109317672).delta_lower == 0.0
    assert bound(plan, relation="zero-out", delta=1.53e-25).epsilon_lower > 1.839
