"""Exponential mechanisms: no tree of strategies exceeds the upper side, explicit ones reach the lower."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

import numpy as np
import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.plan import Exponential, Repeat
from affidavit.accountant.verifier import recompute, recomputed_curve
from affidavit.accountant.verifier.adaptive import adaptive_curve, recursion, spacing
from support.references import claims


def steps(*pairs: tuple[float, int]) -> dict:
    parts = [{"kind": "repeat", "count": n, "of": {"kind": "exponential", "range": eta}} for eta, n in pairs]
    return {"kind": "compose", "parts": parts}


def tree_value(ranges: list[float], alpha: float, rng: random.Random) -> float:
    """Hockey-stick at alpha of one adaptive strategy: a random t at every node of the outcome tree."""
    if not ranges:
        return max(0.0, 1.0 - alpha)
    eta = ranges[0]
    t = rng.choice([rng.uniform(0.0, eta), eta / 2])
    chance = (math.exp(eta) - math.exp(t)) / math.expm1(eta)
    left = tree_value(ranges[1:], alpha * math.exp(-t), rng)
    return chance * left + (1 - chance) * tree_value(ranges[1:], alpha * math.exp(eta - t), rng)


@pytest.mark.parametrize("ranges", [[1.0], [0.7, 0.7], [0.4, 1.1], [0.8, 0.8, 0.8], [1.5, 0.2, 0.9]])
def test_no_random_tree_exceeds_the_upper_side(ranges: list[float]) -> None:
    rng = random.Random(len(ranges) * 1000 + int(sum(ranges) * 100))
    for epsilon in (0.0, 0.21, 0.55, 0.9 * sum(ranges)):
        upper = recompute(steps(*((eta, 1) for eta in ranges)), relation="zero-out", epsilon=epsilon).delta_upper
        best = max(tree_value(ranges, math.exp(epsilon), rng) for _ in range(400))
        assert best <= upper * (1 + 1e-12) + 1e-16


def exact_two_steps(first: float, second: float, alpha: float) -> float:
    """H_2 by a dense scan of the first t over the closed form of one step."""

    def one(eta: float, a: float) -> float:
        """Best single step: at α = e^x, t = (x + η)/2 (Dong, Durfee and Rogers 2020), by stationarity."""
        x = math.log(a)
        if x >= eta:
            return 0.0
        if x <= -eta:
            return 1.0 - a
        t = (x + eta) / 2
        chance = (math.exp(eta) - math.exp(t)) / math.expm1(eta)
        other = 1 - chance
        return chance * max(0.0, 1 - a * math.exp(-t)) + other * max(0.0, 1 - a * math.exp(eta - t))

    best = 0.0
    for k in range(4001):
        t = first * k / 4000
        chance = (math.exp(first) - math.exp(t)) / math.expm1(first)
        best = max(
            best, chance * one(second, alpha * math.exp(-t)) + (1 - chance) * one(second, alpha * math.exp(first - t))
        )
    return best


@pytest.mark.parametrize(("first", "second"), [(1.0, 1.0), (0.5, 1.2), (1.2, 0.5), (math.pi / 4, 0.3)])
@pytest.mark.parametrize("epsilon", [0.0, 0.25, 0.8])
def test_two_steps_enclose_the_closed_form(first: float, second: float, epsilon: float) -> None:
    found = recompute(steps((first, 1), (second, 1)), relation="zero-out", epsilon=epsilon)
    truth = exact_two_steps(first, second, math.exp(epsilon))
    assert found.delta_lower <= truth * (1 + 1e-7)
    assert found.delta_upper >= truth
    assert found.delta_upper - found.delta_lower <= 5e-3 * truth


def test_adaptive_optimum_of_two_steps() -> None:
    """0.2209 to 0.2211 by the recursion; the best non-adaptive pair of t's reaches 0.21605 only."""
    found = recompute(steps((1.0, 2)), relation="zero-out", epsilon=0.25)
    assert 0.2209 <= found.delta_lower <= found.delta_upper <= 0.2211


@pytest.mark.parametrize("row", claims("PRISM"), ids=lambda r: f"s{r['s']}-tau{r['tau']}")
@pytest.mark.parametrize(("relation", "widths"), [("zero-out", 1), ("substitution", 2)])
def test_prism_rows(row: dict, relation: str, widths: int) -> None:
    eta = widths * row["c"] / (row["s"] * row["tau"])
    reference = row["exact_adaptive_zero_out" if widths == 1 else "exact_adaptive_substitution"]
    found = recompute(steps((eta, row["T"])), relation=relation, delta=row["delta"])
    assert found.epsilon_lower == pytest.approx(reference, rel=1.5e-3)
    assert found.epsilon_upper == pytest.approx(reference, rel=1.5e-3)
    assert found.epsilon_upper - found.epsilon_lower <= 1e-3 * found.epsilon_upper


@lru_cache
def sides(eta: float, count: int, cells: int) -> tuple[float, float]:
    """(lower, upper) at α = e^{1.01} on a lattice of ``cells`` points to a range."""
    coded = ((Fraction(eta), count),)
    curve = adaptive_curve(coded, spacing(coded, cells))
    x = np.array([1.01])
    return float(curve.lower(x)[0]), float(curve.upper(x)[0])


def test_finer_lattices_stay_inside_coarser_ones() -> None:
    nested = [sides(0.5, 30, cells) for cells in (8, 16, 32, 64)]
    for (coarse_low, coarse_high), (fine_low, fine_high) in pairwise(nested):
        assert coarse_low <= fine_low <= fine_high <= coarse_high
        assert fine_high - fine_low <= 0.3 * (coarse_high - coarse_low)


def test_what_was_asked_before_changes_nothing() -> None:
    """Cases that differ by how often a mechanism runs share its recursion, whatever their order."""
    asked = []
    for counts in ((7, 40, 33), (33, 40, 7), (40, 33, 7)):
        recursion.cache_clear()
        shared = recursion(Fraction(1, 2), Fraction(1), Fraction(1, 40), 1e-12)
        asked.append({count: shared.after(count)[0] for count in counts})
    for count in (7, 33, 40):
        for other in asked[1:]:
            assert np.array_equal(asked[0][count].upper, other[count].upper)
            assert np.array_equal(asked[0][count].lines.inside, other[count].lines.inside)


def test_a_lattice_that_does_not_divide_the_range() -> None:
    """The same steps on an aligned and on a skew lattice: both brackets hold the same truth."""
    coded = ((Fraction(0.5), 20),)
    aligned = adaptive_curve(coded, Fraction(1, 64))
    skew = adaptive_curve(coded, Fraction(1, 61))
    x = np.linspace(-3.0, 4.0, 57)
    assert np.all(aligned.lower(x) <= skew.upper(x))
    assert np.all(skew.lower(x) <= aligned.upper(x))
    assert float(np.max(skew.upper(x) - skew.lower(x))) < 1e-3


@pytest.mark.parametrize(("eta", "count"), [(0.3, 100), (0.05, 400)])
def test_between_fixed_strategy_and_zcdp(eta: float, count: int) -> None:
    """Above t = η/2 at every step (optimal composition of pure η/2), below the η²/8-zCDP conversion."""
    found = recompute(steps((eta, count)), relation="zero-out", delta=1e-5)
    half = {"kind": "repeat", "count": count, "of": {"kind": "pure", "epsilon": eta / 2}}
    zcdp = {"kind": "zcdp", "rho": count * eta**2 / 8}
    assert found.epsilon_upper >= recompute(half, relation="zero-out", delta=1e-5).epsilon_lower
    assert found.epsilon_lower <= recompute(zcdp, relation="zero-out", delta=1e-5).epsilon_upper


def test_order_of_unequal_ranges_is_kept() -> None:
    """Large steps last cost more: more is known when they choose (both values by a finer lattice)."""
    rising = recompute(steps((0.3, 10), (0.9, 10)), relation="zero-out", delta=1e-3)
    falling = recompute(steps((0.9, 10), (0.3, 10)), relation="zero-out", delta=1e-3)
    assert falling.epsilon_upper < rising.epsilon_lower


def test_count_n_equals_n_composes() -> None:
    together = recompute(steps((0.4, 6)), relation="zero-out", delta=1e-4)
    apart = recompute(steps(*[(0.4, 1)] * 6), relation="zero-out", delta=1e-4)
    assert together == apart


@pytest.mark.parametrize("delta", [0.5, 1e-30, 1e-100])
def test_any_delta(delta: float) -> None:
    found = recompute(steps((0.636, 100)), relation="zero-out", delta=delta)
    assert found.epsilon_upper - found.epsilon_lower <= 2e-3 * found.epsilon_upper


def test_the_curve_is_computed_once_and_is_safe() -> None:
    plan = steps((0.4, 40))
    points = [0.5 * i for i in range(20)]
    curve = recomputed_curve(plan, relation="zero-out", points=points)
    deltas = [delta for _, delta in curve]
    assert deltas == sorted(deltas, reverse=True)
    for epsilon, delta in curve[::6]:
        assert delta >= recompute(plan, relation="zero-out", epsilon=epsilon).delta_lower


def test_more_steps_than_the_recursion_affords_go_in_blocks() -> None:
    """zCDP left 6 %."""
    found = recompute(steps((0.01, 100_000)), relation="zero-out", delta=1e-5)
    assert found.epsilon_lower < found.epsilon_upper < 1.003 * found.epsilon_lower
    assert "blocks" in found.method


@pytest.mark.slow
@pytest.mark.parametrize("eta", [0.0374, 0.636])
def test_a_thousand_steps(eta: float) -> None:
    found = recompute(steps((eta, 1000)), relation="zero-out", delta=1e-5)
    assert found.epsilon_upper - found.epsilon_lower <= 1.5e-3 * found.epsilon_upper


@pytest.mark.parametrize("eta", [600.0, 760.0, 1e6, 1e50])
def test_ranges_beyond_float64_count_as_pure(eta: float) -> None:
    found = recompute(Repeat(5, Exponential(eta)), relation="substitution", delta=0.09585)
    issued = bound(Repeat(5, Exponential(eta)), relation="substitution", delta=0.09585)
    assert 0.0 < found.epsilon_lower <= issued.epsilon_upper
    assert 0.99 * issued.epsilon_upper <= found.epsilon_upper <= 5.0 * eta * (1.0 + 1e-15)
