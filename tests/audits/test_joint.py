"""The exact joint test and its inversion: brute force on small numbers, real levels, and what it saves."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit, ndtr, xlogy
from scipy.stats import binom, norm

from affidavit.accountant.bound import bound
from affidavit.accountant.plan import Compose, Exponential, Gaussian, Parallel, Plan, Poisson, Repeat
from affidavit.accountant.tradeoff import PrivacyCurve, privacy_curve
from affidavit.audits.certified import Certified
from affidavit.audits.statistics.boundaries import Boundary, GaussianBoundary, of_curve
from affidavit.audits.statistics.clopper_pearson import Counts, rate_lower, rate_upper
from affidavit.audits.statistics.divergence import distance, distance_at_least
from affidavit.audits.statistics.joint import (
    critical_region,
    epsilon_lower,
    mu_lower,
    one_point,
    violation_test,
)
from affidavit.audits.statistics.rejection import largest_chance_found, largest_chance_is_at_most

CURVE = privacy_curve(Exponential(1.0), relation="zero-out", delta=1e-5)
BOUNDARIES: dict[str, Boundary] = {
    "epsilon 0": one_point(0.0, 0.0),
    "epsilon 1": one_point(1.0, 0.0),
    "epsilon 4, delta": one_point(4.0, 0.01),
    "gaussian": GaussianBoundary(1.0),
    "curve": of_curve(CURVE),
}


def _allowed(boundary: Boundary, rate: float) -> float:
    return float(boundary.allowed(np.asarray([rate]))[0])


@pytest.mark.parametrize("rate", [0.0, 1e-6, 0.1, 0.5, 0.9, 1.0])
def test_boundaries_are_the_trade_off_curves(rate: float) -> None:
    assert _allowed(of_curve(CURVE), rate) == pytest.approx(CURVE.true_positive_rate(rate), abs=1e-12)
    assert _allowed(GaussianBoundary(1.3), rate) == pytest.approx(ndtr(norm.ppf(rate) + 1.3), abs=1e-12)


@pytest.mark.parametrize("mu", [0.2, 1.0, 4.0])
def test_the_epsilon_of_gaussian_noise_is_the_accountants(mu: float) -> None:
    found = GaussianBoundary(mu).epsilon(delta=1e-5)
    expected = bound(Gaussian(1.0 / mu), relation="zero-out", delta=1e-5)
    assert found <= expected.epsilon_upper
    assert found == pytest.approx(expected.epsilon_upper, rel=1e-2)


@pytest.mark.parametrize("name", BOUNDARIES)
@pytest.mark.parametrize(("members", "others"), [(12, 9), (25, 25), (40, 15)])
def test_no_point_of_the_null_makes_the_region_likelier_than_alpha(name: str, members: int, others: int) -> None:
    """Summed over all outcomes, at 2,000 points of the boundary and 2,000 inside: nothing of the search is used."""
    boundary, generator = BOUNDARIES[name], np.random.default_rng(1)
    region = critical_region(boundary, members=members, non_members=others, alpha=0.05)
    rates = np.concatenate([np.linspace(0.0, 1.0, 1000), np.geomspace(1e-6, 1.0, 1000)])
    edge = boundary.allowed(rates)
    worst = 0.0
    for share in (1.0, *generator.random(1)):
        for x, t in zip(rates, share * edge, strict=True):
            weights = binom.pmf(np.arange(others + 1), others, x)
            worst = max(worst, float(weights @ binom.sf(region.needed - 1, members, min(1.0, t))))
    assert worst <= 0.05 * (1.0 + 1e-9)
    if name != "epsilon 4, delta":  # so few runs cannot speak against that
        assert worst >= 0.02, "much of alpha is used"


@pytest.mark.parametrize("name", BOUNDARIES)
def test_the_chance_of_the_region_is_the_sum_written_out(name: str) -> None:
    region = critical_region(BOUNDARIES[name], members=60, non_members=3000, alpha=0.01)
    for t, x in ((0.7, 0.1), (0.999, 0.9), (0.5, 1e-4), (1.0, 0.0)):
        weights = binom.pmf(np.arange(3001), 3000, x)
        expected = float(weights @ binom.sf(region.needed - 1, 60, t))
        assert region.chance(t, x) == pytest.approx(expected, rel=0.05, abs=1e-12)
        assert region.chance(t, x) >= expected * (1.0 - 1e-9)


def test_a_region_that_is_too_large_is_not_called_valid() -> None:
    boundary = one_point(1.0, 0.0)
    region = critical_region(boundary, members=300, non_members=300, alpha=0.05)
    assert largest_chance_is_at_most(0.05, region, boundary)
    assert not largest_chance_is_at_most(0.045, region, boundary)
    assert not largest_chance_is_at_most(0.05, region, one_point(1.05, 0.0))


@pytest.mark.parametrize("name", BOUNDARIES)
def test_the_distance_is_the_least_divergence(name: str) -> None:
    boundary, generator = BOUNDARIES[name], np.random.default_rng(4)

    def far(x: float, t1: float, x1: float) -> float:
        t = min(t1, _allowed(boundary, x))
        own = xlogy(t1, t1) + xlogy(1 - t1, 1 - t1) + xlogy(x1, x1) + xlogy(1 - x1, 1 - x1)
        return float(200 * (own - xlogy(t1, t) - xlogy(1 - t1, 1 - t) - xlogy(x1, x) - xlogy(1 - x1, 1 - x)))

    for _ in range(20):
        x1 = int(generator.integers(1, 150)) / 200
        t1 = min(199, int(200 * x1) + int(generator.integers(1, 120))) / 200
        least = minimize_scalar(far, bounds=(x1, 1 - 1e-12), args=(t1, x1), method="bounded", options={"xatol": 1e-12})
        expected = 0.0 if _allowed(boundary, x1) >= t1 else float(least.fun)
        counts = Counts(round(200 * t1), 200, round(200 * x1), 200)
        (about,) = distance(boundary, np.asarray([t1]), np.asarray([x1]), members=200, non_members=200)
        below = distance_at_least(boundary, counts)
        assert about == pytest.approx(expected, rel=0.03, abs=1e-3)
        assert below <= expected + 1e-7
        assert below == pytest.approx(expected, rel=0.02, abs=0.02)


def _bounds(lower: Callable[[Counts], float], trials: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The bound of every outcome."""
    return np.asarray([[lower(Counts(x, trials, y, trials)) for y in range(trials + 1)] for x in range(trials + 1)])


@pytest.mark.parametrize("delta", [0.0, 0.05])
def test_the_bound_exceeds_the_truth_at_most_alpha_often_over_all_outcomes(delta: float) -> None:
    trials, alpha = 10, 0.1
    found = _bounds(lambda counts: epsilon_lower(counts, delta=delta, alpha=alpha), trials)
    numbers, worst = np.arange(trials + 1), 0.0
    for epsilon in (0.01, 0.3, 1.0, 2.0, 3.0):
        for x in np.linspace(0.0, 1.0, 101):
            t = min(1.0, _allowed(one_point(epsilon, delta), float(x)))
            law = np.outer(binom.pmf(numbers, trials, t), binom.pmf(numbers, trials, x))
            worst = max(worst, float(law[found > epsilon].sum()))
    assert worst <= alpha
    assert worst > 0.3 * alpha
    assert np.all(np.diff(found, axis=0) >= -1e-2), "more hits prove no less"


def test_the_gaussian_bound_exceeds_mu_at_most_alpha_often_over_all_outcomes() -> None:
    trials, alpha = 10, 0.1
    found = _bounds(lambda counts: mu_lower(counts, alpha=alpha), trials)
    numbers, worst = np.arange(trials + 1), 0.0
    for mu in (0.1, 0.5, 1.0, 2.0):
        for x in np.linspace(0.0, 1.0, 101):
            law = np.outer(binom.pmf(numbers, trials, ndtr(norm.ppf(x) + mu)), binom.pmf(numbers, trials, x))
            worst = max(worst, float(law[found > mu].sum()))
    assert 0.3 * alpha < worst <= alpha


def _union_of_limits(counts: Counts, boundary: Boundary, alpha: float) -> bool:
    """What the joint test stands in for: a limit of either rate, at half of alpha each."""
    low = rate_lower(counts.true_positives, counts.members, alpha=alpha / 2)
    return low > _allowed(boundary, rate_upper(counts.false_positives, counts.non_members, alpha=alpha / 2))


@pytest.mark.parametrize(("mu", "alpha"), [(1.0, 0.05), (1.0, 1e-3)])
def test_it_refutes_with_about_half_the_runs_that_two_limits_take(mu: float, alpha: float) -> None:
    """At half the noise, on average: what counts exactly as expected refute."""
    boundary = GaussianBoundary(mu)

    def first(refutes: Callable[[Counts], bool]) -> int:
        for runs in range(4, 2000, 2):
            hits = round(runs * float(ndtr(mu)))
            if refutes(Counts(hits, runs, runs - hits, runs)):
                return runs
        raise AssertionError

    def jointly(counts: Counts) -> bool:
        return critical_region(boundary, members=counts.members, non_members=counts.members, alpha=alpha).rejects(
            counts
        )

    assert first(lambda counts: _union_of_limits(counts, boundary, alpha)) / first(jointly) > 1.9


@pytest.mark.parametrize("name", BOUNDARIES)
@pytest.mark.parametrize("alpha", [0.05, 1e-3])
def test_ten_thousand_null_audits_at_the_worst_points(name: str, alpha: float) -> None:
    """Where the claim is attained, at rare and at common alarms; 10,000 audits of 500 runs a side each."""
    boundary, generator = BOUNDARIES[name], np.random.default_rng([5, len(name)])
    region = critical_region(boundary, members=500, non_members=500, alpha=alpha)
    limit = 10_000 * alpha + 3 * math.sqrt(10_000 * alpha * (1 - alpha))
    for x in (0.002, 0.02, 0.1, 0.27, 0.5, 0.8):
        hits = generator.binomial(500, min(1.0, _allowed(boundary, x)), size=10_000)
        alarms = generator.binomial(500, x, size=10_000)
        assert int((hits >= region.needed[alarms]).sum()) <= limit


@pytest.mark.parametrize(
    ("epsilon", "delta"), [pytest.param(1.0, 0.0, marks=pytest.mark.slow), (4.0, 1e-5)], ids=["one", "four"]
)
def test_ten_thousand_null_audits_of_the_bound(epsilon: float, delta: float) -> None:
    """Outcomes whose bound exceeds the truth, of 10,000 at attained rates: each distinct one is inverted once."""
    generator = np.random.default_rng(8)
    x = float(expit(-epsilon))
    t = _allowed(one_point(epsilon, delta), x)
    pairs = np.stack([generator.binomial(60, t, size=10_000), generator.binomial(60, x, size=10_000)], axis=1)
    outcomes, numbers = np.unique(pairs, axis=0, return_counts=True)
    likely = outcomes[:, 0] / 60 > x  # elsewhere the bound is 0 or nearly
    wrong = sum(
        int(number)
        for (hits, alarms), number in zip(outcomes[likely], numbers[likely], strict=True)
        if epsilon_lower(Counts(int(hits), 60, int(alarms), 60), delta=delta, alpha=0.05) > epsilon
    )
    assert wrong <= 10_000 * 0.05 + 3 * math.sqrt(10_000 * 0.05 * 0.95)


@pytest.mark.parametrize(
    ("plan", "gaussian"),
    [
        (Gaussian(1.0), True),
        (Repeat(5, Compose((Gaussian(1.0), Gaussian(2.0)))), True),
        (Compose((Gaussian(1.0), Exponential(1.0))), False),
        (Poisson(0.5, Gaussian(1.0)), False),
        (Parallel((Gaussian(1.0), Gaussian(1.0))), False),
    ],
)
def test_the_gaussian_bound_is_for_plans_of_gaussian_noise_alone(plan: Plan, *, gaussian: bool) -> None:
    """A Gaussian curve in the place of another would give 4.52 for a mechanism of ε = 1."""
    claim = Certified("zero-out", 1.0, 1e-5, plan, PrivacyCurve(((1.0, 1e-5),)))
    assert claim.gaussian == gaussian
    counts = Counts(330, 500, 170, 500)
    expected = (
        GaussianBoundary(mu_lower(counts, alpha=0.05)).epsilon(delta=1e-5)
        if gaussian
        else epsilon_lower(counts, delta=1e-5, alpha=0.05)
    )
    assert claim.epsilon_shown(counts, alpha=0.05) == expected


def test_nothing_refutes_where_even_a_perfect_attack_would_not() -> None:
    region = critical_region(one_point(4.0, 0.0), members=20, non_members=20, alpha=0.05)
    assert not region.rejects(Counts(20, 20, 0, 20))
    alone = critical_region(one_point(4.0, 0.0), members=90, non_members=90, alpha=0.05)
    assert alone.rejects(Counts(90, 90, 0, 90))
    assert violation_test(Counts(90, 90, 0, 90), PrivacyCurve(((4.0, 0.0),)), alpha=0.05).violated


def test_worst_is_found_at_the_corner_of_a_curve() -> None:
    """The two lines of ε = 1 meet at 1/(1 + e)."""
    boundary = one_point(1.0, 0.0)
    region = critical_region(boundary, members=400, non_members=400, alpha=0.05)
    worst = largest_chance_found(region, boundary, negligible=1e-9)
    assert worst >= region.chance(float(expit(1.0)), float(expit(-1.0))) * 0.99


def _neyman_pearson(trials: int, null: tuple[float, float], other: tuple[float, float], *, alpha: float) -> float:
    """The power of the most powerful test of one pair of rates against another: every pair of counts, sorted."""
    counts = np.arange(trials + 1)
    first, second = (np.outer(*(binom.pmf(counts, trials, rate) for rate in rates)).ravel() for rates in (null, other))
    order = np.argsort(-np.divide(second, first, out=np.full_like(first, np.inf), where=first > 0.0))
    spent = np.cumsum(first[order])
    whole = int(np.searchsorted(spent, alpha))
    left = (alpha - (spent[whole - 1] if whole else 0.0)) / first[order[whole]]
    return float(second[order[:whole]].sum() + left * second[order[whole]])


@pytest.mark.parametrize(
    ("boundary", "other", "trials", "fewer", "point"),
    [
        (GaussianBoundary(1.0), (float(ndtr(1.0)), float(ndtr(-1.0))), 45, 42, float(ndtr(-0.5))),
        (one_point(1.0, 0.0), (float(expit(2.0)), float(expit(-2.0))), 41, 36, float(expit(-1.0))),
        (one_point(4.0, 1e-5), (float(expit(6.0)), float(expit(-6.0))), 233, 191, 0.018),
    ],
    ids=["gaussian", "corner", "large"],
)
def test_no_valid_test_whatever_needs_much_less(
    boundary: Boundary, other: tuple[float, float], trials: int, fewer: int, point: float
) -> None:
    """What rejects no point of the null too often does not reject this one too often: Neyman and Pearson's bound."""
    region = critical_region(boundary, members=trials, non_members=trials, alpha=0.05)
    assert region.chance(*other) >= 0.95
    assert _neyman_pearson(fewer, (_allowed(boundary, point), point), other, alpha=0.05) < 0.95
