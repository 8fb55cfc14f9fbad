"""One law in place of each of very many exponential uses: both engines' against every choice, off the lattice too."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from affidavit.accountant.bound import bound
from affidavit.accountant.methods import blocks as issued
from affidavit.accountant.methods import stages
from affidavit.accountant.methods.one_law import law_above, start_of
from affidavit.accountant.methods.sampled_adaptive import Sample
from affidavit.accountant.plan import Compose, Exponential, Plan, Poisson, Repeat
from affidavit.accountant.settle import settle
from affidavit.accountant.verifier import blocks as verified
from affidavit.accountant.verifier import exponential_samples, recompute, surrogate
from affidavit.accountant.verifier.adaptive import adaptive_curve, recursion
from affidavit.accountant.verifier.balls import precision
from affidavit.accountant.verifier.exponential_use import ways_of

Array = NDArray[np.float64]
USES = st.tuples(st.floats(0.02, 2.0), st.sampled_from([1.0, 0.5, 0.1, 0.01]))


def function(spacing: float, first: int, masses: Array, infinite: float, alpha: Array) -> Array:
    """Σ m_i (1 − α/α_i)₊ + m_∞, one term after the other."""
    at = np.exp(spacing * (first + np.arange(len(masses))))
    flat = alpha.ravel()
    order = np.searchsorted(at, flat, side="right")
    above = np.append(np.cumsum(masses[::-1])[::-1], 0.0)[order]
    scaled = np.append(np.cumsum((masses / at)[::-1])[::-1], 0.0)[order]
    return (infinite + above - flat * scaled).reshape(alpha.shape)


def every_choice(eta: float, rate: float, alpha: Array, *, forward: bool, f: Callable[[Array], Array]) -> Array:
    """The largest mean of a function over one more use, by trying choices."""
    u = np.exp(eta * np.linspace(0.0, 1.0, 301))[:, None]
    chance = (math.exp(eta) / u - 1.0) / math.expm1(eta)
    near, far = 1.0 + rate * (u - 1.0), 1.0 + rate * (u * math.exp(-eta) - 1.0)
    if forward:
        tried = chance * near * f(alpha / near) + (1.0 - chance) * far * f(alpha / far)
    else:
        tried = chance * f(alpha * near) + (1.0 - chance) * f(alpha * far)
    largest: Array = tried.max(axis=0)
    return largest


@settings(max_examples=6, deadline=None)
@given(use=USES, seed=st.integers(0, 2**32 - 1))
def test_the_issued_law_is_above_every_choice(use: tuple[float, float], seed: int) -> None:
    eta, rate = use
    for one, block, spacing in stages._sides(Sample(eta, rate, 1.0), 100, 1e-12):
        start = start_of(one, block, spacing, small=1e-12)
        found = law_above(one, start, tilt=1.0)
        law, own = start.law, found.law
        assert own.masses.sum() == pytest.approx(1.0, abs=1e-12)
        assert own.masses @ np.exp(-own.losses()) == pytest.approx(1.0, abs=1e-12)
        alpha = np.exp(np.random.default_rng(seed).uniform(law.losses()[0] - eta, law.losses()[-1] + eta, 60))
        f = partial(function, law.spacing, law.first, law.masses, law.infinite)
        more = sum(mass * f(alpha * math.exp(-loss)) for mass, loss in zip(own.masses, own.losses(), strict=True))
        above = (1.0 + found.growth) * more + found.constant
        assert np.all(every_choice(eta, rate, alpha, forward=one.direction == "forward", f=f) <= above + 1e-13)
        # And it is sharp: much less than the half a use that each block adds.
        deviation = float(np.sqrt(own.masses @ own.losses() ** 2 - (own.masses @ own.losses()) ** 2))
        most = float(one.moments(np.array([1e-6]))[2][0]) ** 0.5
        assert deviation <= 1.1 * most
        assert found.growth <= 1e-6


@settings(max_examples=6, deadline=None)
@given(use=USES, seed=st.integers(0, 2**32 - 1))
def test_the_verified_pair_is_above_every_choice(use: tuple[float, float], seed: int) -> None:
    eta, rate = (Fraction(value).limit_denominator(1000) for value in use)
    if rate == 1:
        curve = adaptive_curve(((eta, 100),), eta / 16, negligible=1e-12)
        sides, step = [(curve.upper_values, curve.upper_values)], eta / 16
    else:
        deviation = float(rate) * 2 * math.sinh(float(eta) / 4)
        step = Fraction(deviation / 5)
        both = recursion(eta, rate, step, 1e-12, 60 * deviation).after(100)
        sides = [(both[way].upper, both[1 - way].upper) for way in (0, 1)]
    for way, (right, left) in enumerate(sides):
        with precision():
            block = verified._masses(right, left, step)
            one = ways_of(eta, rate, step / 5)[way]
        start = surrogate.refined(verified.Masses(block.first, 1, *block.upper), float(step), 5, 1e-12)
        h = float(step / 5)
        found = surrogate.surrogate(start, one, h, 1.0)
        places = h * (found.law.first + np.arange(len(found.law.masses)))
        ends = h * start.first - float(eta), h * (start.first + len(start.masses) - 1) + float(eta)
        alpha = np.exp(np.random.default_rng(seed).uniform(*ends, 60))
        f = partial(function, h, start.first, start.masses, start.infinite)
        more = sum(mass * f(alpha * math.exp(-loss)) for mass, loss in zip(found.law.masses, places, strict=True))
        above = (1.0 + found.growth) * more + found.constant
        assert np.all(every_choice(float(eta), float(rate), alpha, forward=way == 0, f=f) <= above + 1e-13)
        assert found.growth <= 1e-6


@pytest.mark.parametrize(
    ("plan", "width"),
    [
        (Repeat(400, Poisson(0.1, Exponential(0.6))), 0.02),
        (Repeat(600, Exponential(0.15)), 0.02),
        (Repeat(300, Poisson(0.01, Exponential(4.0))), 0.1),  # uneven
    ],
    ids=["sampled", "alone", "uneven"],
)
def test_laws_enclose_the_recursion(plan: Plan, width: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same plan by the exact recursion of each engine, and by blocks of 100 with laws for all other uses."""
    exact = bound(plan, relation="zero-out", delta=1e-6, method="adaptive")
    checked = recompute(plan, relation="zero-out", delta=1e-6)
    monkeypatch.setattr(stages, "BLOCK", 100)
    monkeypatch.setattr("affidavit.accountant.methods.sampled_adaptive.FEW_USES", 100)
    monkeypatch.setattr("affidavit.accountant.methods.sampled_adaptive.MOST_USES", 100)
    monkeypatch.setattr(issued, "MANY_POINTS", 0.0)
    stages.above.cache_clear()
    laws = bound(plan, relation="zero-out", delta=1e-6, method="blocks")
    stages.above.cache_clear()
    assert exact.epsilon_lower <= laws.epsilon_upper <= (1.0 + width) * exact.epsilon_upper
    monkeypatch.setattr(exponential_samples, "MOST_USES", 100)
    monkeypatch.setattr(exponential_samples, "BLOCK", 100)
    monkeypatch.setattr(verified, "BLOCK", 100)
    monkeypatch.setattr("affidavit.accountant.verifier.case_profiles.MANY_STEPS", 100)
    again = recompute(plan, relation="zero-out", delta=1e-6)
    assert "blocks" in again.method
    assert checked.epsilon_lower <= again.epsilon_upper <= (1.0 + width) * checked.epsilon_upper


MANY: tuple[tuple[Plan, float], ...] = (
    (Repeat(100_000, Exponential(0.1)), 5e-4),
    (Repeat(100_000, Poisson(0.01, Exponential(0.5))), 5e-4),
    (Repeat(100_000, Poisson(0.01, Exponential(2.0))), 7e-4),
    (Repeat(10_000, Poisson(0.01, Exponential(1.0))), 9e-4),
)


@pytest.mark.parametrize(("plan", "width"), MANY, ids=str)
def test_both_engines_settle_very_many_uses(plan: Plan, width: float) -> None:
    """Blocks alone left 3e-3 (sampled) and 1e-3 to 2e-3."""
    found = settle(plan, relation="add-remove", delta=1e-6)
    assert found.method == "blocks"
    assert "blocks" in found.recomputed.method
    assert found.epsilon_lower <= found.epsilon_upper <= found.epsilon_lower * (1 + width)


def test_ranges_of_unlike_scale_share_no_lattice() -> None:
    """1.41 and 1e-4: one spacing for both took 15 s and more; the small ones cost next to nothing."""
    alone = recompute(Repeat(400, Exponential(1.41)), relation="zero-out", delta=1e-6)
    plan = Compose((Repeat(400, Exponential(1.41)), Repeat(400, Exponential(1e-4))))
    both = recompute(plan, relation="zero-out", delta=1e-6)
    issue = bound(plan, relation="zero-out", delta=1e-6)
    assert alone.epsilon_lower <= both.epsilon_upper <= 1.01 * alone.epsilon_upper
    assert issue.epsilon_lower <= both.epsilon_upper
    assert both.epsilon_lower <= issue.epsilon_upper
    few = Compose((Exponential(1.41), Exponential(1e-4)))
    found = recompute(few, relation="zero-out", delta=1e-6)
    assert 1.40593 <= found.epsilon_upper <= 1.4101


def test_unlike_ranges_in_any_order_are_below_their_curves() -> None:
    """Either order, and turns, by the exact recursion; the composed curves lie above them all and near."""
    one, other = Exponential(0.3), Exponential(0.5)
    orders = (
        Compose((Repeat(6, one), Repeat(6, other))),
        Compose((Repeat(6, other), Repeat(6, one))),
        Repeat(6, Compose((one, other))),
    )
    exact = [bound(plan, relation="zero-out", delta=1e-4, method="adaptive") for plan in orders]
    curve = verified.exponential_blocks(((Fraction(0.3), 6), (Fraction(0.5), 6)), 1e-12, 1.0)
    for found in exact:
        delta = float(curve.upper(np.array([found.epsilon_lower]))[0])
        assert delta >= 1e-4 * (1 - 1e-9)
    largest = max(found.epsilon_upper for found in exact)
    assert float(curve.upper(np.array([1.1 * largest]))[0]) <= 1e-4
