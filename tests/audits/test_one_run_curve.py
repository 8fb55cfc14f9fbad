"""All coins guessed, against a curve: a linear programme, all mechanisms of three coins, a second source, null runs."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import expit
from scipy.stats import norm

from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import Exponential
from affidavit.accountant.tradeoff import privacy_curve
from affidavit.audits.statistics.boundaries import CurveBoundary, GaussianBoundary, of_curve
from affidavit.audits.statistics.joint import one_point
from affidavit.audits.statistics.one_run import one_run_epsilon_lower
from affidavit.audits.statistics.one_run_curve import all_coins_epsilon_lower, all_coins_mu_lower, all_coins_refutes

CURVE = of_curve(privacy_curve(Exponential(1.0), relation="zero-out", delta=1e-5))


def _most(boundary: CurveBoundary, m: int, correct: int) -> float:
    """The largest P[V ≥ v] of any p that satisfies the theorem's inequalities, each by each line of g."""
    rows, limits = [], []
    number = np.arange(m + 1)
    for i in range(1, m + 1):
        right = np.where(number >= i, number / m, 0.0)
        wrong = np.where(number >= i - 1, (m - number) / m, 0.0)
        for intercept, slope in boundary.lines:
            rows.append(right - slope * wrong)
            limits.append(intercept)
    found = linprog(
        -(number >= correct).astype(float), A_ub=rows, b_ub=limits, A_eq=[np.ones(m + 1)], b_eq=[1.0], bounds=(0, 1)
    )
    assert found.success
    return -float(found.fun)


@pytest.mark.parametrize("boundary", [one_point(0.0, 0.0), one_point(1.0, 0.0), one_point(0.7, 0.03), CURVE])
@pytest.mark.parametrize(("m", "correct"), [(3, 3), (6, 5), (12, 10), (12, 12), (25, 20)])
def test_it_is_the_largest_chance_that_the_inequalities_admit(boundary: CurveBoundary, m: int, correct: int) -> None:
    most = _most(boundary, m, correct)
    if most < 0.999:
        assert not all_coins_refutes(boundary, records=m, correct=correct, alpha=0.995 * most)
        assert all_coins_refutes(boundary, records=m, correct=correct, alpha=min(0.9999, 1.01 * most))


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.5])
def test_no_mechanism_of_three_coins_beats_it(epsilon: float) -> None:
    """Exact, over invented mechanisms, each against its own smallest δ at this ε; every guess is the best there is."""
    generator = np.random.default_rng(int(10 * epsilon))
    for _ in range(40):
        m, outputs = int(generator.integers(1, 4)), int(generator.integers(2, 7))
        base, mixed = generator.dirichlet(np.full(outputs, 0.5)), float(generator.uniform(0.05, 1.0))
        law = np.asarray([(1 - mixed) * base + mixed * generator.dirichlet(np.full(outputs, 0.3)) for _ in range(2**m)])
        delta = max(
            float(np.maximum(0.0, law[s] - math.exp(epsilon) * law[s ^ (1 << i)]).sum())
            for s, i in itertools.product(range(2**m), range(m))
        )
        right = np.zeros(m + 1)
        for y in range(outputs):
            guess = [int(sum(law[s, y] for s in range(2**m) if s >> i & 1) > law[:, y].sum() / 2) for i in range(m)]
            for s in range(2**m):
                right[sum((s >> i & 1) == guess[i] for i in range(m))] += law[s, y] / 2**m
        for correct in range(1, m + 1):
            chance = float(right[correct:].sum())
            if chance < 0.999 and delta < 1.0:
                bound = one_point(epsilon, delta)
                assert not all_coins_refutes(bound, records=m, correct=correct, alpha=chance * (1 - 1e-9))


def _by_the_paper(mu: float, m: int, correct: int, alpha: float) -> bool:
    """The paper's recursion as its authors' library computes it, with the exact inverse of a Gaussian curve."""
    right, wrong = alpha * correct / m, alpha * (m - correct) / m
    for i in range(correct - 1, -1, -1):
        needed = max(wrong, float(norm.cdf(norm.ppf(right) - mu)))
        right += i / (m - i) * (needed - wrong)
        wrong = needed
    return right + wrong > 1.0


@pytest.mark.parametrize(("m", "correct"), [(50, 45), (200, 150), (1000, 900), (2000, 1990)])
def test_it_agrees_with_the_recursion_of_the_paper(m: int, correct: int) -> None:
    low, high = 0.0, 10.0
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _by_the_paper(middle, m, correct, 0.05) else (low, middle)
    found = all_coins_mu_lower(records=m, correct=correct, alpha=0.05)
    assert found == pytest.approx(low, rel=3e-3)
    assert found <= low + 2e-4


def test_without_delta_it_is_near_the_binomial_bound_and_with_delta_far_above() -> None:
    def both(correct: int, delta: float) -> tuple[float, float]:
        options = {"records": 240, "correct": correct, "delta": delta, "alpha": 0.05}
        return all_coins_epsilon_lower(**options), one_run_epsilon_lower(**options, guesses=240)  # type: ignore[arg-type]

    curve, binomial = both(200, 0.0)
    assert 0.97 * binomial < curve <= binomial
    curve, binomial = both(240, 1e-3)
    assert curve > binomial + 0.7


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (1.0, 0.0), (1.0, 0.01), (3.0, 0.02)])
def test_ten_thousand_null_audits_with_dependent_coins(epsilon: float, delta: float) -> None:
    """With probability δ all coins are revealed at once; else each is told right with probability q."""
    generator, m = np.random.default_rng(6), 100
    revealed = generator.random(10_000) < delta
    right = np.where(revealed, m, generator.binomial(m, expit(epsilon), size=10_000))
    boundary = one_point(epsilon, delta)
    refuting = {int(v) for v in np.unique(right) if all_coins_refutes(boundary, records=m, correct=int(v), alpha=0.05)}
    wrong = int(np.isin(right, list(refuting)).sum())
    assert wrong <= 10_000 * 0.05 + 3 * math.sqrt(10_000 * 0.05 * 0.95)


def test_ten_thousand_null_audits_of_gaussian_noise_on_correlated_canaries() -> None:
    """One noisy sum per pair of coins, both coins in it: each coin's curve is Gaussian, the two answers depend."""
    generator, m, mu = np.random.default_rng(7), 100, 1.0
    coins = generator.integers(0, 2, size=(10_000, m // 2, 2))
    seen = mu * coins.sum(axis=2) + generator.normal(size=(10_000, m // 2))
    right = ((seen > mu)[:, :, None] == coins).sum(axis=(1, 2))
    refuting = [v for v in range(m + 1) if all_coins_refutes(GaussianBoundary(mu), records=m, correct=v, alpha=0.05)]
    assert refuting
    assert int(np.isin(right, refuting).sum()) <= 10_000 * 0.05 + 3 * math.sqrt(10_000 * 0.05 * 0.95)


def test_numbers_that_cannot_be_are_refused() -> None:
    with pytest.raises(UsageError, match="11 right of 10"):
        all_coins_refutes(one_point(1.0, 0.0), records=10, correct=11, alpha=0.05)
    with pytest.raises(UsageError, match="alpha"):
        all_coins_refutes(one_point(1.0, 0.0), records=10, correct=5, alpha=0.0)
