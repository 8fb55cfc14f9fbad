"""The one-run bound for a number of guesses that follows from the output: exact cases, and what an attack can reach."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binom

from affidavit.audits.statistics import one_run
from affidavit.audits.statistics.ceilings import coins_needed
from affidavit.audits.statistics.one_run import one_run_epsilon_lower, one_run_p_value

COINS, DELTA, EPSILON, ALPHA = 10_000, 1e-5, 0.05, 0.05


def _accused(revealed: int, *, guesses_fixed: bool) -> float:
    """The exact chance that a true claim is refuted, of a mechanism whose output says how many guesses to make.

    With probability mδ/i it reveals i coins, of which none is revealed more often than δ, and only those are guessed;
    else each coin's response is right with probability q, and all are guessed. It is (ε, δ)-DP for each coin.
    """

    def refutes(guesses: int, correct: int) -> bool:
        options = {"records": COINS, "guesses": guesses, "correct": correct, "delta": DELTA}
        return one_run_p_value(EPSILON, **options, guesses_fixed=guesses_fixed) < ALPHA  # type: ignore[arg-type]

    low, high = COINS // 2, COINS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refutes(COINS, middle) else (middle, high)
    revealing = COINS * DELTA / revealed
    response = float(binom.sf(high - 1, COINS, expit(EPSILON)))
    return revealing * refutes(revealed, revealed) + (1.0 - revealing) * response


def test_the_theorem_for_a_fixed_number_does_not_bear_one_that_follows_from_the_output() -> None:
    assert max(_accused(i, guesses_fixed=True) for i in range(1, 30)) == pytest.approx(0.0609, abs=5e-5)


def test_the_bound_for_any_number_does() -> None:
    worst = max(_accused(i, guesses_fixed=False) for i in range(1, 40))
    assert 0.0 < worst <= ALPHA


def _kernels(generator: np.random.Generator) -> tuple[int, NDArray[np.float64]]:
    """Chances of a handful of outputs for each of the 2^m coins: (m, a row for each)."""
    m = int(generator.integers(1, 4))
    outputs = int(generator.integers(2, 7))
    base = generator.dirichlet(np.full(outputs, 0.5))
    mixed = float(generator.uniform(0.05, 1.0))
    rows = [(1 - mixed) * base + mixed * generator.dirichlet(np.full(outputs, 0.3)) for _ in range(2**m)]
    return m, np.asarray(rows)


def _smallest_delta(m: int, rows: NDArray[np.float64], epsilon: float) -> float:
    worst = 0.0
    for s, i in itertools.product(range(2**m), range(m)):
        worst = max(worst, float(np.maximum(0.0, rows[s] - math.exp(epsilon) * rows[s ^ (1 << i)]).sum()))
    return worst


def _best_guesses(m: int, posterior: NDArray[np.float64], counts: int) -> tuple[tuple[int, int], ...]:
    """(coin, guess) of the ``counts`` coins that one output says most about."""
    chances = [sum(posterior[s] for s in range(2**m) if s >> i & 1) for i in range(m)]
    order = sorted(range(m), key=lambda i: -abs(chances[i] - 0.5))
    return tuple((i, int(chances[i] > 0.5)) for i in order[:counts])


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.5, 3.0])
def test_no_mechanism_of_three_coins_beats_it_whatever_it_says_and_however_often_it_is_silent(epsilon: float) -> None:
    """Exact, over invented mechanisms: every number of guesses at every output, every set of thresholds."""
    generator = np.random.default_rng(int(10 * epsilon))
    q, tightest = float(expit(epsilon)), 0.0
    for _ in range(25):
        m, rows = _kernels(generator)
        delta = _smallest_delta(m, rows, epsilon)
        outputs = rows.shape[1]
        for told in generator.integers(0, m + 1, size=(8, outputs)):
            right = np.zeros((m + 1, m + 1))  # [guesses, right ones]
            for y, number in enumerate(int(each) for each in told):
                guesses = _best_guesses(m, rows[:, y], number)
                for s in range(2**m):
                    right[number, sum((s >> i & 1) == guess for i, guess in guesses)] += rows[s, y] / 2**m
            for limits in itertools.product(*(range(1, r + 2) for r in range(1, m + 1))):
                found = sum(right[r, v:].sum() for r, v in enumerate(limits, start=1))
                blind = max(float(binom.sf(v - 1, r, q)) for r, v in enumerate(limits, start=1))
                allowed = blind + m * delta * (1.0 - q)
                assert found <= allowed + 1e-12
                if 0.0 < allowed < 1.0:
                    tightest = max(tightest, found / allowed)
    assert tightest > 0.7, "the search comes near the bound, so it could have passed it"


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (1.0, 1e-3), (3.0, 0.02)])
def test_one_coin_attains_it(epsilon: float, delta: float) -> None:
    """A coin that is told with probability δ, and answered by randomised response else."""
    told = delta + (1.0 - delta) * expit(epsilon)
    allowed = one_run_p_value(epsilon, records=1, guesses=1, correct=1, delta=delta, guesses_fixed=False)
    assert allowed == pytest.approx(told, rel=1e-12)


@pytest.mark.parametrize(("coins", "all_of_them", "half"), [(60, 2.80, 2.07), (240, 3.60, 2.88), (1000, 3.49, 2.76)])
def test_ceilings_of_the_theory_notes_for_a_fixed_number(coins: int, all_of_them: float, half: float) -> None:
    for guesses, value in ((coins, all_of_them), (coins // 2, half)):
        found = one_run_epsilon_lower(records=coins, guesses=guesses, correct=guesses, delta=1e-3, alpha=0.05)
        assert found == pytest.approx(value, abs=5e-3)


@pytest.mark.parametrize(("coins", "half"), [(60, 2.21), (120, 2.93), (240, 3.63), (1000, 5.07)])
def test_ceilings_for_any_number_are_where_the_sum_is_alpha(coins: int, half: float) -> None:
    told = coins // 2
    found = one_run_epsilon_lower(
        records=coins, guesses=told, correct=told, delta=1e-3, alpha=0.05, guesses_fixed=False
    )
    assert found == pytest.approx(half, abs=5e-3)
    assert expit(found) ** (coins // 2) + coins * 1e-3 * expit(-found) == pytest.approx(0.05, rel=1e-6)


def test_with_a_large_delta_weak_evidence_still_proves_something() -> None:
    """At m δ = 1 whole coins may be revealed: below ε = ln 39 (1 − q) would cost more than half of α."""
    lower: Callable[[int], float] = lambda right: one_run_epsilon_lower(  # noqa: E731
        records=1000, guesses=500, correct=right, delta=1e-3, alpha=0.05, guesses_fixed=False
    )
    found = [lower(right) for right in (260, 400, 470, 490, 498, 500)]
    assert found[0] == 0.0
    assert found == sorted(found)
    assert 0.5 < found[1] < found[2] < math.log(39.0) < found[5]


def _exact(epsilon: float, guesses: int, correct: int, price: float) -> float:
    """J by its definition."""
    q = float(expit(epsilon))

    @cache
    def value(left: int, needed: int) -> float:
        if needed <= 0 or left == 0:
            return float(needed <= 0)
        up, stay = value(left - 1, needed - 1), value(left - 1, needed)
        return max(q * up + (1 - q) * stay, up - price)

    return value(guesses, correct)


@pytest.mark.parametrize(
    ("epsilon", "guesses", "correct"), [(0.0, 12, 9), (0.7, 30, 24), (2.0, 40, 38), (0.7, 30, 30), (3.0, 60, 60)]
)
def test_the_game_is_the_recursion_written_out_and_at_full_price_a_binomial_tail(
    epsilon: float, guesses: int, correct: int
) -> None:
    wrong = float(expit(-epsilon))
    for price in (0.01, 0.1, 0.3 * wrong):
        found = one_run._played(epsilon, guesses, correct, price)
        assert found == pytest.approx(_exact(epsilon, guesses, correct, price), rel=1e-9)
        assert found >= binom.sf(correct - 1, guesses, 1.0 - wrong) - 1e-12
    tail = float(binom.sf(correct - 1, guesses, 1.0 - wrong))
    assert one_run._played(epsilon, guesses, correct, wrong) == pytest.approx(tail, rel=1e-9)


@pytest.mark.parametrize("revealed", [1, 3, 7, 11, 20, 40])
def test_the_lower_price_bears_the_mechanism_that_reveals(revealed: int) -> None:
    """m δ (1 − q) is more than α: a claim that is true is refuted by what is revealed, or by luck, at most α."""
    coins, delta, epsilon = 400, 1e-3, 0.5

    def refutes(guesses: int, correct: int) -> bool:
        options = {"records": coins, "guesses": guesses, "correct": correct, "delta": delta}
        return one_run_epsilon_lower(**options, alpha=ALPHA, guesses_fixed=False) > epsilon  # type: ignore[arg-type]

    low, high = coins // 2, coins
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refutes(coins, middle) else (middle, high)
    revealing = coins * delta / revealed
    response = float(binom.sf(high - 1, coins, expit(epsilon)))
    assert high < coins, "more than every coin right is not needed"
    assert min(1.0, revealing) * refutes(revealed, revealed) + response <= ALPHA


@pytest.mark.parametrize(("epsilon", "delta", "share"), [(3.104, 1e-3, 0.5), (1.0, 1e-5, 0.5), (2.0, 0.0, 0.3)])
def test_coins_needed_are_the_first_with_power(epsilon: float, delta: float, share: float) -> None:
    needed = coins_needed(epsilon, alpha=0.05, delta=delta, share=share)
    assert needed is not None

    def ceiling(coins: int) -> float:
        told = math.floor(share * coins)
        return one_run_epsilon_lower(
            records=coins, guesses=told, correct=told, delta=delta, alpha=0.05, guesses_fixed=False
        )

    assert ceiling(needed) > epsilon
    assert ceiling(needed - 1) <= epsilon


def test_coins_by_the_hundred_thousand_are_counted_at_a_large_epsilon() -> None:
    """Every guess right is a closed form; step by step, 26,000 guesses of one epsilon took an audit half an hour."""
    needed = coins_needed(8.0, alpha=0.05, delta=1e-7, share=0.1)
    assert needed is not None
    told = math.ceil(math.log(0.05) / -math.log1p(math.exp(-8.0)))
    assert 10 * told <= needed <= 12 * told, "the term with delta is small here"
    assert coins_needed(8.0, alpha=0.05 / 6, delta=5e-4, share=0.1) is None


def test_no_number_of_coins_helps_where_delta_is_too_large() -> None:
    assert coins_needed(0.5, alpha=0.05, delta=0.2, share=0.5) is None
