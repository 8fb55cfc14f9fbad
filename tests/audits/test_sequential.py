"""Bets against a claim: their mean under every null, their level under every stopping rule, and when they stop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit, ndtr
from scipy.stats import binom

from affidavit.accountant.plan import Exponential, Gaussian
from affidavit.accountant.tradeoff import privacy_curve
from affidavit.audits.statistics.boundaries import Boundary, GaussianBoundary, of_curve
from affidavit.audits.statistics.clopper_pearson import Counts
from affidavit.audits.statistics.divergence import distance_at_least
from affidavit.audits.statistics.joint import critical_region, epsilon_lower, mu_lower, one_point
from affidavit.audits.statistics.sequential import (
    Alternative,
    Bet,
    Sequential,
    anytime_epsilon_lower,
    anytime_mu_lower,
    anytime_radius,
    bet,
)

BOUNDARIES: dict[str, Boundary] = {
    "epsilon 0": one_point(0.0, 0.0),
    "epsilon 1": one_point(1.0, 0.0),
    "epsilon 2, delta": one_point(2.0, 0.01),
    "gaussian": GaussianBoundary(1.0),
    "curve": of_curve(privacy_curve(Exponential(1.0), relation="zero-out", delta=1e-5)),
    "gaussian curve": of_curve(privacy_curve(Gaussian(1.5), relation="zero-out", delta=1e-5)),
}
FAULTS = (Alternative(0.88, 0.12, 0.6), Alternative(0.99, 0.01, 0.2), Alternative(0.12, 0.88, 0.2))


def _means(found: Bet, t: NDArray[np.float64], x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of one pair's E at rates."""
    first = t * math.exp(found.hit) + (1.0 - t) * math.exp(found.miss)
    return np.asarray(first * (x * math.exp(found.alarm) + (1.0 - x) * math.exp(found.quiet)))


@pytest.mark.parametrize("name", BOUNDARIES)
@pytest.mark.parametrize("rates", [(0.88, 0.12), (0.9, 0.5), (0.6, 0.02), (0.12, 0.88), (1.0, 0.0)])
def test_a_pair_has_mean_at_most_one_at_every_point_of_the_null(name: str, rates: tuple[float, float]) -> None:
    boundary = BOUNDARIES[name]
    found = bet(boundary, *rates)
    if found is None:
        larger, smaller = max(rates), min(rates)
        assert float(boundary.allowed(np.asarray([smaller]))[0]) >= larger - 1e-4
        return
    x = np.concatenate([np.linspace(0.0, 1.0, 4001), np.geomspace(1e-9, 1.0, 2000)])
    edge = np.minimum(1.0, boundary.allowed(x))
    opposite = rates[0] < rates[1]
    largest = []
    for share in np.linspace(0.0, 1.0, 21):
        t = share * edge
        largest.append(float(_means(found, 1.0 - t, 1.0 - x).max() if opposite else _means(found, t, x).max()))
    assert max(largest) <= 1.0 + 1e-12
    assert max(largest) > 1.0 - 1e-3, "and nothing is wasted"
    assert found.growth(*rates) > 0.0


def test_the_growth_is_the_distance_from_the_null() -> None:
    boundary = BOUNDARIES["gaussian"]
    found = bet(boundary, 0.9, 0.1)
    assert found is not None
    least = distance_at_least(boundary, Counts(900, 1000, 100, 1000)) / 1000
    assert found.growth(0.9, 0.1) == pytest.approx(least, rel=1e-3)


def _audits(
    watch: Sequential, region_rejects: NDArray[np.int64], t: float, x: float, *, pairs: int, seed: int, audits: int
) -> tuple[int, int, float]:
    """(refuted, called consistent early, mean number of pairs) of so many audits by both rules together."""
    generator = np.random.default_rng(seed)
    refuted = consistent = 0
    drawn = 0
    for start in range(0, audits, 2000):
        size = min(2000, audits - start)
        hits = np.cumsum(generator.random((size, pairs)) < t, axis=1)
        alarms = np.cumsum(generator.random((size, pairs)) < x, axis=1)
        number = np.arange(1, pairs + 1)
        logs = [
            hits * each.hit + (number - hits) * each.miss + alarms * each.alarm + (number - alarms) * each.quiet
            for _, each in watch.bets
        ]
        evidence = np.logaddexp.reduce([math.log(w) + log for (w, _), log in zip(watch.bets, logs, strict=True)])
        up = evidence >= -math.log(watch.alpha)
        down = np.all([log <= math.log(watch.beta) for log in logs], axis=0) if watch.beta else np.zeros_like(up)
        up[:, -1] = down[:, -1] = False  # at the last pair the other test decides
        end = np.ones(size, dtype=bool)
        stop = np.where((up | down).any(axis=1), (up | down).argmax(axis=1), pairs - 1)
        rows = np.arange(size)
        early_up, early_down = up[rows, stop], down[rows, stop] & ~up[rows, stop]
        end &= ~early_up & ~early_down
        last = end & (
            (hits[:, -1] >= region_rejects[alarms[:, -1]])
            | (pairs - hits[:, -1] >= region_rejects[pairs - alarms[:, -1]])
        )
        refuted += int(early_up.sum() + last.sum())
        consistent += int(early_down.sum())
        drawn += int((stop + 1).sum())
    return refuted, consistent, drawn / audits


@pytest.mark.parametrize("name", BOUNDARIES)
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_ten_thousand_null_audits_that_stop_when_they_like(name: str, alpha: float) -> None:
    """At attained rates, the rule of the one-step audit: a fifth of alpha on the way, the rest at the end, two ways."""
    boundary = BOUNDARIES[name]
    watch = Sequential.against(boundary, FAULTS, alpha=0.2 * alpha, beta=1e-4)
    region = critical_region(boundary, members=200, non_members=200, alpha=0.4 * alpha)
    for x in (0.05, 0.27, 0.5):
        t = min(1.0, float(boundary.allowed(np.asarray([x]))[0]))
        refuted, _, _ = _audits(watch, region.needed, t, x, pairs=200, seed=len(name), audits=10_000)
        assert refuted <= 10_000 * alpha + 3 * math.sqrt(10_000 * alpha * (1 - alpha))


def test_what_is_asked_for_is_noticed_and_sound_code_is_let_go_early() -> None:
    boundary = BOUNDARIES["epsilon 1"]
    watch = Sequential.against(boundary, FAULTS, alpha=0.01, beta=1e-3)
    region = critical_region(boundary, members=400, non_members=400, alpha=0.02)
    bad = _audits(watch, region.needed, 0.88, 0.12, pairs=400, seed=1, audits=10_000)
    assert bad[0] >= 0.998 * 10_000
    assert bad[1] <= 10_000 * 1e-3 + 3 * math.sqrt(10), "called consistent at most beta often"
    assert bad[2] == pytest.approx(watch.pairs_until_refuted(0.88, 0.12), rel=0.25)
    sound = (float(expit(1.0)), float(expit(-1.0)))
    good = _audits(watch, region.needed, *sound, pairs=400, seed=2, audits=10_000)
    assert good[1] >= 0.98 * 10_000
    assert good[2] < 100
    wrong_way = _audits(watch, region.needed, 0.12, 0.88, pairs=400, seed=3, audits=2000)
    assert wrong_way[0] >= 0.998 * 2000, "a sign error is not let go"


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
def test_ten_thousand_looks_at_the_bound_after_every_pair(epsilon: float) -> None:
    """The bound at any time exceeds the truth at some time in at most alpha of 10,000 sequences of 300 pairs."""
    generator, alpha, pairs = np.random.default_rng(4), 0.05, 300
    boundary = one_point(epsilon, 0.0)
    t, x = float(expit(epsilon)), float(expit(-epsilon))
    hits = np.cumsum(generator.random((10_000, pairs)) < t, axis=1)
    alarms = np.cumsum(generator.random((10_000, pairs)) < x, axis=1)
    numbers = np.broadcast_to(np.arange(1, pairs + 1), hits.shape)
    outcomes = np.unique(np.stack([numbers.ravel(), hits.ravel(), alarms.ravel()], axis=1), axis=0)
    surprising = outcomes[_log_ratio(outcomes, t, x) >= math.log(1.0 / alpha) - 1e-9]
    refuting = {
        (int(n), int(h), int(a))
        for n, h, a in surprising  # D at the truth's own point is at most this: no other outcome can refute
        if distance_at_least(boundary, Counts(int(h), int(n), int(a), int(n)))
        >= anytime_radius(Counts(int(h), int(n), int(a), int(n)), alpha=alpha)
    }
    keys = numbers * 10**6 + hits * 10**3 + alarms
    wrong = np.isin(keys, [n * 10**6 + h * 10**3 + a for n, h, a in refuting]).any(axis=1).sum()
    assert wrong <= 10_000 * alpha + 3 * math.sqrt(10_000 * alpha * (1 - alpha))


def _log_ratio(outcomes: NDArray[np.int64], t: float, x: float) -> NDArray[np.float64]:
    """ln of the averaged likelihood over that at the truth."""
    from scipy.special import betaln, xlog1py, xlogy

    n, h, a = outcomes.T.astype(float)
    total = np.zeros(len(n))
    for k, rate in ((h, t), (a, x)):
        total += betaln(k + 0.5, n - k + 0.5) - betaln(0.5, 0.5) - xlogy(k, rate) - xlog1py(n - k, -rate)
    return total


def test_the_bound_at_any_time_costs_something_and_not_much() -> None:
    counts = Counts(731, 1000, 269, 1000)
    assert 0.75 < anytime_epsilon_lower(counts, delta=0.0, alpha=0.05) < epsilon_lower(counts, delta=0.0, alpha=0.05)
    assert 0.9 < anytime_mu_lower(counts, alpha=0.05) < mu_lower(counts, alpha=0.05) < 2 * 0.616
    assert float(ndtr(0.616)) == pytest.approx(0.731, abs=1e-3)
    assert anytime_epsilon_lower(Counts(5, 10, 10, 10), delta=0.0, alpha=0.05) == 0.0


def test_the_average_of_bets_is_a_martingale_at_the_corner() -> None:
    """Exactly, over all outcomes of 30 pairs at the rates of randomised response."""
    watch = Sequential.against(one_point(1.0, 0.0), FAULTS, alpha=0.05, beta=0.0)
    t, x, pairs = float(expit(1.0)), float(expit(-1.0)), 30
    law = np.outer(binom.pmf(np.arange(pairs + 1), pairs, t), binom.pmf(np.arange(pairs + 1), pairs, x))
    values = [[math.exp(watch.log_evidence(pairs, h, a)) for a in range(pairs + 1)] for h in range(pairs + 1)]
    assert float((law * np.asarray(values)).sum()) <= 1.0
