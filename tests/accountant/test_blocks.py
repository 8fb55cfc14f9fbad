"""Blocks of exponential mechanisms: above the exact recursion, near it, and the same from both engines."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.bound import bound
from affidavit.accountant.cases.case import Case
from affidavit.accountant.methods import blocks as issued
from affidavit.accountant.methods import stages
from affidavit.accountant.methods.base import Target
from affidavit.accountant.plan import Compose, Exponential, Gaussian, Plan, Poisson, Pure, Repeat
from affidavit.accountant.settle import settle
from affidavit.accountant.verifier import blocks as verified
from affidavit.accountant.verifier import exponential_samples, recompute
from affidavit.accountant.verifier.adaptive import adaptive_curve, spacing
from affidavit.accountant.verifier.bracket import epsilon_bracket
from affidavit.accountant.verifier.memoryless import Kind, memoryless_profile


@pytest.mark.parametrize(("eta", "uses"), [(0.3, 60), (0.05, 400), (1.0, 30)])
def test_issued_blocks_enclose_the_recursion(eta: float, uses: int, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = bound(Repeat(uses, Exponential(eta)), relation="add-remove", delta=1e-6, method="adaptive")
    monkeypatch.setattr(stages, "BLOCK", uses // 3)
    case = Case(exponentials=((eta, uses),))
    found = issued.BlocksProfile(case, "add-remove", Target(delta=1e-6)).epsilon(1e-6)
    assert exact.epsilon_lower <= found.upper <= 1.05 * exact.epsilon_upper
    assert 0.85 * exact.epsilon_lower <= found.lower <= exact.epsilon_upper
    at = found.upper
    delta = issued.BlocksProfile(case, "add-remove", Target(epsilon=at)).delta(at)
    assert delta.lower <= 1e-6 <= delta.upper * 1.01


def test_issued_blocks_on_samples_enclose_the_recursion(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Poisson(0.1, Exponential(1.0))
    exact = bound(Repeat(100, node), relation="zero-out", delta=1e-5, method="adaptive")
    monkeypatch.setattr(stages, "BLOCK", 25)
    case = Case(fixed=((node, 100),))
    found = issued.BlocksProfile(case, "zero-out", Target(delta=1e-5)).epsilon(1e-5)
    assert exact.epsilon_lower <= found.upper <= 1.05 * exact.epsilon_upper
    assert 0.97 * exact.epsilon_lower <= found.lower <= exact.epsilon_upper


@settings(max_examples=10, deadline=None)
@given(uses=st.integers(1, 40), most=st.integers(1, 12))
def test_blocks_add_up(uses: int, most: int) -> None:
    found = list(verified.block_lengths(uses, most))
    assert sum(length * count for length, count in found) == uses
    assert all(0 < length <= most for length, _ in found)


@pytest.mark.parametrize("eta", [Fraction(3, 10), Fraction(1)])
def test_verified_blocks_are_above_the_recursion(eta: Fraction) -> None:
    steps = ((eta, 20),)
    step = spacing(steps, 32)
    block = adaptive_curve(steps, step)
    whole = adaptive_curve(((eta, 60),), step)
    sides = block.upper_values, block.upper_values
    one = verified.composed_blocks([(sides, 1)], step, deviation=float(40 * step), negligible=1e-20)
    at = np.arange(0, 200) * float(step)
    assert np.all(one.upper(at) >= block.lower(at))
    assert np.all(one.upper(at) <= block.upper(at) * (1 + 1e-6) + 1e-15)
    three = verified.composed_blocks([(sides, 3)], step, deviation=float(40 * step), negligible=1e-20)
    assert np.all(three.upper(at) >= whole.lower(at))
    assert np.all(three.upper(at) <= 1.25 * whole.upper(at) + 1e-12)
    coarse = verified.composed_blocks([(sides, 3)], step, deviation=float(160 * step), negligible=1e-20)
    assert np.all(coarse.upper(at) >= three.upper(at) * (1 - 1e-9))


def test_verified_blocks_on_samples_enclose_the_recursion(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Repeat(120, Poisson(0.1, Exponential(1.0)))
    exact = recompute(plan, relation="zero-out", delta=1e-5)
    monkeypatch.setattr(exponential_samples, "MOST_USES", 100)
    monkeypatch.setattr(exponential_samples, "BLOCK", 40)
    found = recompute(plan, relation="zero-out", delta=1e-5)
    assert "blocks" in found.method
    assert exact.epsilon_lower <= found.epsilon_upper <= 1.04 * exact.epsilon_upper
    assert 0.97 * exact.epsilon_lower <= found.epsilon_lower <= exact.epsilon_upper


@pytest.mark.parametrize("removed", [True, False])
def test_one_choice_on_samples_is_below_the_exact_profile(removed: bool) -> None:
    """And not far below: the recursion's own strategies gain little by adapting."""
    exact = recompute(Repeat(50, Poisson(0.2, Exponential(0.5))), relation="zero-out", delta=1e-4)
    profile = memoryless_profile(Kind(Fraction(1, 2), Fraction(1, 5), 50), 0.3, budget=1e-20, removed=removed)
    lower, upper = epsilon_bracket(profile, 1e-4)
    assert lower <= exact.epsilon_upper
    assert upper - lower <= 1e-9
    assert not removed or lower >= 0.97 * exact.epsilon_lower


MANY: tuple[tuple[Plan, float], ...] = (
    (Repeat(10_000, Exponential(0.03)), 7.8061),
    (Repeat(100_000, Exponential(0.01)), 8.3062),
    (Compose((Repeat(10_000, Exponential(0.03)), Gaussian(5.0))), 7.8859),
    (Compose((Repeat(4_000, Exponential(0.03)), Repeat(2_000, Exponential(0.02)))), 5.2),
)


@pytest.mark.parametrize(("plan", "strategy"), MANY, ids=str)
def test_very_many_uses_are_settled_to_a_thousandth(plan: Plan, strategy: float) -> None:
    """``strategy``: what t = η/2 at every use reaches. 6 % was left at 100,000 uses by zCDP, .3 % by blocks alone."""
    found = settle(plan, relation="add-remove", delta=1e-6)
    assert found.method == "blocks"
    assert "blocks" in found.recomputed.method
    assert strategy * (1 - 1e-2) <= found.epsilon_lower <= found.epsilon_upper <= found.epsilon_lower * (1 + 1e-3)


@pytest.mark.parametrize(
    ("eta", "uses", "width"), [(0.01, 10**6, 2e-4), (0.00152, 2_296, 8e-4), (0.00787, 5_806_530, 7e-4)]
)
def test_small_ranges_are_not_lost_in_rounding(eta: float, uses: int, width: float) -> None:
    """1.06e-3 and 1.2e-3 where rounding was taken to be a hundred times what it is; above every fixed strategy."""
    found = bound(Repeat(uses, Exponential(eta)), relation="add-remove", delta=1e-6)
    half = bound(Repeat(uses, Pure(eta / 2)), relation="add-remove", delta=1e-6)
    most = bound(Repeat(uses, Exponential(eta)), relation="add-remove", delta=1e-6, method="zcdp")
    assert half.epsilon_lower <= found.epsilon_upper <= most.epsilon_upper
    assert found.epsilon_upper <= found.epsilon_lower * (1 + width)


def test_ten_thousand_uses_on_samples() -> None:
    """[2.17, 2.78] by the envelope, 2.3846 where all uses were in blocks."""
    found = settle(Repeat(10_000, Poisson(0.01, Exponential(1.0))), relation="zero-out", delta=1e-6)
    assert 2.375 <= found.epsilon_lower <= found.epsilon_upper <= 2.378


def test_ranges_that_take_turns_are_summed_range_by_range() -> None:
    """Their order does not matter to the curves of the blocks; too few of a range would be the envelope, loose."""
    few = Case(exponentials=((0.1, 1), (0.2, 1)) * 50 + ((0.1, 200),))
    assert "loose" in issued.BlocksMethod().why_not(few, "zero-out")
    many = Case(exponentials=((0.1, 1), (0.2, 1)) * 1_500)
    assert not issued.BlocksMethod().why_not(many, "zero-out")
    turns = Repeat(1_100, Compose((Exponential(0.02), Exponential(0.03))))
    apart = Compose((Repeat(1_100, Exponential(0.02)), Repeat(1_100, Exponential(0.03))))
    mixed, sorted_ = (recompute(plan, relation="zero-out", delta=1e-5) for plan in (turns, apart))
    assert "blocks" in mixed.method
    assert "blocks" in sorted_.method
    assert mixed.epsilon_upper == pytest.approx(sorted_.epsilon_upper, rel=1e-6)
