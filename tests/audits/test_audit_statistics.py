"""Statistics of audits against the values of the project's theory notes, closed forms and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta, binom

from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import Gaussian
from affidavit.accountant.tradeoff import PrivacyCurve, privacy_curve
from affidavit.audits.statistics.auc import (
    ScoredRun,
    auc,
    exact_interval,
    mean_auc,
    resampled_interval,
    roc_points,
    true_positive_rate_at,
)
from affidavit.audits.statistics.boundaries import of_curve
from affidavit.audits.statistics.ceilings import coins_needed, per_run_ceiling, perfect_attack_violates, runs_needed
from affidavit.audits.statistics.clopper_pearson import Counts, rate_interval, rate_lower, rate_upper
from affidavit.audits.statistics.correction import Level
from affidavit.audits.statistics.joint import critical_region, epsilon_lower, violation_test
from affidavit.audits.statistics.one_run import one_run_epsilon_lower, one_run_p_value
from affidavit.audits.statistics.power import per_run_power
from affidavit.audits.statistics.precision import best_threshold, precision
from affidavit.audits.statistics.thresholds import fixed


@pytest.mark.parametrize(("hits", "trials"), [(0, 7), (7, 7), (3, 7), (1, 10_000), (9_999, 10_000)])
def test_rate_limits_are_beta_quantiles_and_cover(hits: int, trials: int) -> None:
    low, high = rate_interval(hits, trials, alpha=0.05)
    assert low == pytest.approx(0.0 if hits == 0 else beta.ppf(0.025, hits, trials - hits + 1), abs=1e-12)
    assert high == pytest.approx(1.0 if hits == trials else beta.ppf(0.975, hits + 1, trials - hits), abs=1e-12)
    # By definition of the interval: at its ends the observed count sits on a tail of exactly 2.5 %.
    if hits > 0:
        assert binom.sf(hits - 1, trials, low) == pytest.approx(0.025, rel=1e-6)
    if hits < trials:
        assert binom.cdf(hits, trials, high) == pytest.approx(0.025, rel=1e-6)


def test_upper_limit_keeps_its_digits_at_tiny_levels() -> None:
    assert rate_upper(0, 1000, alpha=1e-12) == pytest.approx(-math.expm1(math.log(1e-12) / 1000), rel=1e-9)


@pytest.mark.parametrize(("runs", "ceiling"), [(50, 3.49), (100, 4.19), (500, 5.81), (1000, 6.50), (10_000, 8.806)])
def test_per_run_ceilings(runs: int, ceiling: float) -> None:
    """A perfect attack has probability q^2n at most, with q = e^ε/(1 + e^ε)."""
    found = per_run_ceiling(members=runs, non_members=runs, alpha=0.05)
    assert found == pytest.approx(ceiling, abs=6e-3)
    rate = 0.05 ** (0.5 / runs)
    assert found == pytest.approx(math.log(rate / (1 - rate)), abs=1e-4)
    assert found <= math.log(rate / (1 - rate))


@pytest.mark.parametrize(("runs", "ceiling"), [(50, 3.49), (100, 4.19), (500, 5.78), (1000, 6.45), (10_000, 8.20)])
def test_one_run_ceilings(runs: int, ceiling: float) -> None:
    # Theory notes, m = 2n coins, δ = 1e-5.
    found = one_run_epsilon_lower(records=2 * runs, guesses=2 * runs, correct=2 * runs, alpha=0.05, delta=1e-5)
    assert found == pytest.approx(ceiling, abs=6e-3)


def test_one_run_value_of_the_theory_notes() -> None:
    found = one_run_epsilon_lower(records=1000, guesses=100, correct=95, delta=1e-5, alpha=0.05)
    assert found == pytest.approx(2.1652, abs=5e-5)
    assert one_run_p_value(found, records=1000, guesses=100, correct=95, delta=1e-5) < 0.05
    assert one_run_p_value(found + 1e-6, records=1000, guesses=100, correct=95, delta=1e-5) >= 0.05


def test_one_run_p_value_is_the_sum_written_out() -> None:
    m, r, v, delta, epsilon = 40, 12, 10, 1e-3, 0.7
    q = 1 / (1 + math.exp(-epsilon))
    mass = [math.comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(r + 1)]
    a = max(sum(mass[v - i : v]) / i for i in range(1, v + 1))
    expected = sum(mass[v:]) + 2 * m * delta * a
    found = one_run_p_value(epsilon, records=m, guesses=r, correct=v, delta=delta)
    assert found == pytest.approx(expected, rel=1e-12)


def test_one_run_without_evidence_is_zero() -> None:
    for guesses, correct in ((0, 0), (10, 5), (10, 0)):
        assert one_run_epsilon_lower(records=100, guesses=guesses, correct=correct, delta=1e-5, alpha=0.05) == 0.0


def test_runs_needed_is_the_first_powered_number() -> None:
    needed = runs_needed(4.0, alpha=0.05)
    assert needed is not None
    assert per_run_ceiling(members=needed, non_members=needed, alpha=0.05) > 4.0
    assert per_run_ceiling(members=needed - 1, non_members=needed - 1, alpha=0.05) <= 4.0
    assert runs_needed(50.0, alpha=0.05) is None


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_coins_needed_is_where_all_right_are_too_many(epsilon: float) -> None:
    needed = coins_needed(epsilon, alpha=0.05)
    assert needed is not None
    q = 1.0 / (1.0 + math.exp(-epsilon))
    assert q**needed < 0.05 <= q ** (needed - 1)


def test_same_scores_twice_prove_nothing() -> None:
    scores = list(np.random.default_rng(3).normal(size=500))
    for threshold in (-1.0, 0.0, 1.0):
        thresholded = fixed(scores, scores, threshold=threshold, alpha=0.05)
        assert epsilon_lower(thresholded.counts, delta=0.0, alpha=thresholded.alpha) == 0.0
        assert not violation_test(thresholded.counts, PrivacyCurve(((0.0, 0.0),)), alpha=0.05).violated


def test_violation_is_where_the_curve_is_left() -> None:
    curve = privacy_curve(Gaussian(1.0), relation="add-remove", delta=1e-5)
    inside = Counts(380, 1000, 100, 1000)  # μ = 1: TPR .389 at FPR .1
    outside = Counts(560, 1000, 100, 1000)
    assert not violation_test(inside, curve, alpha=0.05).violated
    assert violation_test(outside, curve, alpha=0.05).violated
    test = violation_test(outside, curve, alpha=0.05)
    assert test.true_positive_lower > 1 - curve.false_negative_rate(test.false_positive_upper)
    assert test.excess > 0.0 > violation_test(inside, curve, alpha=0.05).excess


def test_one_curve_point_agrees_with_the_epsilon_bound() -> None:
    """Against {(ε, δ)} alone "violated" and "ε bound above ε" are nearly the same event."""
    generator = np.random.default_rng(11)
    curve, apart = PrivacyCurve(((0.7, 1e-3),)), []
    for _ in range(40):
        counts = Counts(int(generator.integers(0, 201)), 200, int(generator.integers(0, 201)), 200)
        bound = epsilon_lower(counts, delta=1e-3, alpha=0.05)
        if violation_test(counts, curve, alpha=0.05).violated != (bound > 0.7):
            apart.append(bound)
    assert all(bound == pytest.approx(0.7, abs=0.05) for bound in apart)
    assert len(apart) <= 2


def test_perfect_attack_decides_power() -> None:
    point = PrivacyCurve(((4.0, 1e-5),))
    assert not perfect_attack_violates(point, members=50, non_members=50, alpha=0.05)  # ceiling 3.49
    assert perfect_attack_violates(point, members=500, non_members=500, alpha=0.05)  # ceiling 5.81


@pytest.mark.parametrize("counts", [(1, 0, 0, 1), (2, 1, 0, 1), (-1, 1, 0, 1), (0, 1, 2, 1)])
def test_impossible_counts_are_refused(counts: tuple[int, int, int, int]) -> None:
    with pytest.raises(UsageError, match="positives"):
        Counts(*counts)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, math.nan])
def test_a_level_outside_the_unit_interval_is_refused(alpha: float) -> None:
    with pytest.raises(UsageError, match="alpha"):
        rate_lower(1, 2, alpha=alpha)


def test_auc_counts_ties_as_half() -> None:
    assert auc([1.0, 2.0], [1.0, 2.0]) == 0.5
    assert auc([2.0, 2.0], [1.0]) == 1.0
    members, others = [0.1, 0.5, 0.5, 0.9], [0.5, 0.2, 0.9]
    pairs = [(m > o) + 0.5 * (m == o) for m in members for o in others]
    assert auc(members, others) == pytest.approx(sum(pairs) / len(pairs))


def test_tied_non_members_fall_together_at_one_percent() -> None:
    """900 of 1,000 non-members at the members' own score: no threshold keeps FPR 1 % and catches anyone."""
    members, others = [1.0] * 100, [1.0] * 900 + [0.0] * 100
    assert true_positive_rate_at(members, others, fpr=0.01) == 0.0
    assert true_positive_rate_at(members, others, fpr=0.89) == 0.0
    assert true_positive_rate_at(members, others, fpr=0.9) == 1.0
    assert auc(members, others) == pytest.approx(0.55)


def test_true_positive_rate_uses_the_whole_allowance() -> None:
    members, others = [99.5] * 10, [float(i) for i in range(101)]  # one non-member is above
    assert true_positive_rate_at(members, others, fpr=0.0) == 0.0
    assert true_positive_rate_at(members, others, fpr=1 / 101) == 1.0
    assert true_positive_rate_at(members, others, fpr=1.0) == 1.0


def test_roc_is_monotone_and_ends_at_one() -> None:
    generator = np.random.default_rng(0)
    runs = [ScoredRun(tuple(generator.normal(1, 1, 50)), tuple(generator.normal(0, 1, 50))) for _ in range(4)]
    points = roc_points(runs, at=[i / 10 for i in range(11)])
    rates = [rate for _, rate in points]
    assert rates == sorted(rates)
    assert points[-1] == (1.0, 1.0)


def test_the_resampled_interval_resamples_runs_not_scores() -> None:
    """Two runs with 10,000 scores each that disagree: the interval is wide, whatever the pool's size."""
    disagreeing = [0.9, 0.1]
    low, high = resampled_interval(disagreeing, alpha=0.05, generator=np.random.default_rng(0))
    assert high - low > 0.7
    assert resampled_interval([0.5], alpha=0.05, generator=np.random.default_rng(0)) == (0.0, 1.0)


def test_exact_interval_of_unanimous_runs_is_a_power_of_the_level() -> None:
    # All values 1: the bet c = 1 gives m^{-n}; averaged over 64 bets the limit lies a little below (α/2)^{1/n}.
    low, high = exact_interval([1.0] * 20, alpha=0.05)
    assert 0.75 < low < 0.025 ** (1 / 20)
    assert high == 1.0


@pytest.mark.parametrize("mean", [0.1, 0.5, 0.9])
def test_exact_interval_covers_five_two_valued_runs(mean: float) -> None:
    """All outcomes of five runs with AUC 0 or 1, weighed by their probabilities: the miss rate is at most α."""
    missed = 0.0
    for ones in range(6):
        low, high = exact_interval([1.0] * ones + [0.0] * (5 - ones), alpha=0.1)
        missed += float(binom.pmf(ones, 5, mean)) * (not low <= mean <= high)
    assert missed <= 0.1


def test_scores_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(UsageError, match="not a number"):
        ScoredRun((math.nan,), (0.0,))
    with pytest.raises(UsageError, match="without members"):
        ScoredRun((), (0.0,))


def test_mean_auc_weighs_runs_alike() -> None:
    perfect, useless = ScoredRun((1.0,) * 1000, (0.0,) * 1000), ScoredRun((0.0,), (0.0,))
    assert mean_auc([perfect, useless]) == pytest.approx(0.75)


def test_choosing_a_threshold_on_the_tested_scores_would_break_the_level() -> None:
    """The reason for ``split``: the same search without a split raises false violations far above α."""
    generator = np.random.default_rng(9)
    cheating = 0
    for _ in range(200):
        members, others = list(generator.normal(size=60)), list(generator.normal(size=60))
        tried = [fixed(members, others, threshold=t, alpha=0.3).counts for t in members]
        cheating += any(violation_test(counts, PrivacyCurve(((0.0, 0.0),)), alpha=0.3).violated for counts in tried)
    assert cheating / 200 > 0.3 + 2 * math.sqrt(0.3 * 0.7 / 200)


# -- power -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rates", [(0.6, 0.3), (0.35, 0.1), (0.9, 0.85)])
def test_per_run_power_is_the_sum_over_all_counts(rates: tuple[float, float]) -> None:
    curve = PrivacyCurve(((0.0, 0.2), (0.5, 1e-3)))
    members, others = 40, 55
    region = critical_region(of_curve(curve), members=members, non_members=others, alpha=0.1)
    total = sum(
        binom.pmf(hits, members, rates[0]) * binom.pmf(alarms, others, rates[1])
        for hits in range(members + 1)
        for alarms in range(others + 1)
        if region.rejects(Counts(hits, members, alarms, others))
    )
    found = per_run_power(*rates, curve, members=members, non_members=others, alpha=0.1)
    assert found == pytest.approx(total, rel=1e-6)
    assert found >= total


def test_power_is_none_below_the_ceiling_and_grows_with_runs() -> None:
    claim = PrivacyCurve(((4.0, 1e-5),))
    assert per_run_power(1.0, 0.0, claim, members=50, non_members=50, alpha=0.05) == 0.0  # ceiling 3.49
    assert per_run_power(1.0, 0.0, claim, members=500, non_members=500, alpha=0.05) == pytest.approx(1.0)  # 5.81
    half = PrivacyCurve(((0.5, 0.0),))
    powers = [per_run_power(0.73, 0.27, half, members=n, non_members=n, alpha=0.05) for n in (20, 80, 320)]
    assert powers == sorted(powers)
    assert powers[-1] > 0.99
    with pytest.raises(UsageError, match="rate"):
        per_run_power(1.5, 0.0, half, members=5, non_members=5, alpha=0.05)


def test_power_against_an_attained_claim_is_at_most_the_level() -> None:
    """Randomised response at ε attains the claim: refuting it is a false alarm, exactly bounded."""
    share = math.e / (1 + math.e)
    claim = PrivacyCurve(((1.0, 0.0),))
    for alpha in (0.2, 0.05, 1e-3):
        assert per_run_power(share, 1 - share, claim, members=300, non_members=300, alpha=alpha) <= alpha


# -- precision -------------------------------------------------------------------------------------------------------


def test_precision_feels_the_odds_that_auc_does_not() -> None:
    generator = np.random.default_rng(1)

    def runs(others: int) -> list[ScoredRun]:
        return [
            ScoredRun(tuple(generator.normal(1.5, 1, 40)), tuple(generator.normal(0, 1, others))) for _ in range(20)
        ]

    balanced, unbalanced = runs(40), runs(160)
    assert mean_auc(balanced) == pytest.approx(mean_auc(unbalanced), abs=0.02)
    value, interval = precision(balanced, alpha=0.05, generator=generator)
    rarer, _ = precision(unbalanced, alpha=0.05, generator=generator)
    assert value is not None
    assert rarer is not None
    assert interval is not None
    assert interval[0] < value < interval[1]
    # At the best threshold, midway: TPR = Φ(.75) = .773, FPR = .227.
    assert value == pytest.approx(0.773, abs=0.06)
    assert rarer == pytest.approx(0.773 / (0.773 + 4 * 0.227), abs=0.06)


def test_precision_is_counted_where_the_threshold_was_not_chosen() -> None:
    lucky, plain = ScoredRun((1.0, 2.0), (0.0, 0.5)), ScoredRun((0.0, 0.0), (0.0, 3.0))
    assert best_threshold([lucky]) == 1.0
    assert precision([lucky, plain], alpha=0.05, generator=np.random.default_rng(0)) == (0.0, None)
    assert precision([lucky], alpha=0.05, generator=np.random.default_rng(0)) == (None, None)
    nobody = ScoredRun((0.0,), (0.0,))
    assert precision([lucky, nobody], alpha=0.05, generator=np.random.default_rng(0)) == (None, None)
    with pytest.raises(UsageError, match="no runs"):
        best_threshold([])


# -- one level -------------------------------------------------------------------------------------------------------


def test_a_level_is_shared_and_says_so() -> None:
    assert Level(total=0.06, tests=3).each == pytest.approx(0.02)
    assert Level(total=0.05, tests=1).note("fixed") == "fixed"
    assert (
        Level(total=0.05, tests=4).note("fixed") == "fixed; alpha 0.05 for the report, shared by 4 tests (Bonferroni)"
    )
    for total, tests in ((0.0, 1), (1.0, 1), (math.nan, 1), (0.05, 0)):
        with pytest.raises(UsageError, match="alpha"):
            Level(total=total, tests=tests)
