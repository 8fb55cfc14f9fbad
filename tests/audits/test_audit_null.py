"""Audits of true claims: each method and threshold strategy raises at most α + 2 standard errors of false violations.

ε = 0 (the same distribution on both sides) and ε = 1, attained: where the claim is as large as the truth,
nothing is left between an audit and a false alarm but its statistics.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np
import pytest

from affidavit.accountant.plan import Exponential, Gaussian, Repeat
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.accountant.tradeoff import PrivacyCurve, privacy_curve
from affidavit.audits.attacks.loss import Loss
from affidavit.audits.certified import Certified
from affidavit.audits.experiments.membership import membership_finding
from affidavit.audits.experiments.one_step import prepare
from affidavit.audits.experiments.per_run import thresholded
from affidavit.audits.statistics.auc import ScoredRun, exact_interval
from affidavit.audits.statistics.clopper_pearson import Counts
from affidavit.audits.statistics.correction import Level
from affidavit.audits.statistics.joint import epsilon_lower, violation_test
from affidavit.audits.statistics.one_run import one_run_epsilon_lower
from affidavit.audits.statistics.thresholds import Thresholded, bonferroni, fixed, split

ALPHA = 0.05
SHARE = math.e / (1 + math.e)
"""Randomised response at ε = 1: right with probability e/(1 + e)."""

NullAudit: TypeAlias = Callable[[np.random.Generator], bool]
METHODS: dict[str, NullAudit] = {}


def method(audit: NullAudit) -> NullAudit:
    METHODS[audit.__name__.strip("_").replace("_", " ")] = audit
    return audit


@cache
def _claim(epsilon: float, relation: str = "zero-out") -> Certified:
    return Certified(
        relation=relation,  # type: ignore[arg-type]
        epsilon=epsilon,
        delta=1e-5,
        plan=Exponential(2.0),
        curve=PrivacyCurve(((epsilon, 1e-5),)),
    )


@cache
def _curve() -> PrivacyCurve:
    """Of range 2, whose worst pair has losses of exactly ±1 among others."""
    return privacy_curve(Exponential(2.0), relation="zero-out", delta=1e-9)


@cache
def _gaussian_curve() -> PrivacyCurve:
    return privacy_curve(Gaussian(1.0), relation="zero-out", delta=1e-5)


def _flat(generator: np.random.Generator, size: int = 100) -> tuple[list[float], list[float]]:
    return list(generator.normal(size=size)), list(generator.normal(size=size))


def _attained(generator: np.random.Generator, size: int = 200) -> tuple[list[float], list[float]]:
    """Scores of a release whose curve is that of ε = 1 at its one threshold that matters, with nuisance around it."""
    inside = generator.random(size) < SHARE
    outside = generator.random(size) >= SHARE
    nuisance = 0.5 * generator.random((2, size))
    return list(inside + nuisance[0]), list(outside + nuisance[1])


def _counts(generator: np.random.Generator, size: int = 1000) -> Counts:
    return Counts(int(generator.binomial(size, SHARE)), size, int(generator.binomial(size, 1 - SHARE)), size)


def _refuted(at: Thresholded, epsilon: float) -> bool:
    return violation_test(at.counts, PrivacyCurve(((epsilon, 0.0),)), alpha=at.alpha).violated


@method
def _joint_bound_at_0(generator: np.random.Generator) -> bool:
    at = fixed(*_flat(generator, 40), threshold=0.5, alpha=ALPHA)
    return epsilon_lower(at.counts, delta=0.0, alpha=at.alpha) > 0.0


@method
def _joint_bound_at_1(generator: np.random.Generator) -> bool:
    return epsilon_lower(_counts(generator, 60), delta=0.0, alpha=ALPHA) > 1.0


@method
def _trade_off_curve_at_1(generator: np.random.Generator) -> bool:
    return violation_test(_counts(generator), _curve(), alpha=ALPHA).violated


@method
def _trade_off_curve_of_a_gaussian(generator: np.random.Generator) -> bool:
    at = fixed(list(generator.normal(1, 1, 500)), list(generator.normal(0, 1, 500)), threshold=1.0, alpha=ALPHA)
    return violation_test(at.counts, _gaussian_curve(), alpha=at.alpha).violated


@method
def _split_threshold_at_0(generator: np.random.Generator) -> bool:
    at = split(*_flat(generator), alpha=ALPHA, delta=0.0, generator=generator)
    return _refuted(at, 0.0)


@method
def _split_threshold_at_1(generator: np.random.Generator) -> bool:
    at = split(*_attained(generator), alpha=ALPHA, delta=0.0, generator=generator)
    return _refuted(at, 1.0)


@method
def _fixed_threshold_at_1(generator: np.random.Generator) -> bool:
    at = fixed(*_attained(generator), threshold=1.0, alpha=ALPHA)
    return _refuted(at, 1.0)


@method
def _bonferroni_thresholds_at_0(generator: np.random.Generator) -> bool:
    at = bonferroni(*_flat(generator), thresholds=(-1.0, 0.0, 1.0), alpha=ALPHA, delta=0.0)
    return _refuted(at, 0.0)


@method
def _bonferroni_thresholds_at_1(generator: np.random.Generator) -> bool:
    at = bonferroni(*_attained(generator), thresholds=(0.5, 0.9, 1.0, 1.1), alpha=ALPHA, delta=0.0)
    return _refuted(at, 1.0)


@method
def _one_run_at_0(generator: np.random.Generator) -> bool:
    right = int(generator.binomial(100, 0.5))
    return one_run_epsilon_lower(records=200, guesses=100, correct=right, delta=0.0, alpha=ALPHA) > 0.0


@method
def _one_run_at_1(generator: np.random.Generator) -> bool:
    right = int(generator.binomial(100, SHARE))
    return one_run_epsilon_lower(records=200, guesses=100, correct=right, delta=0.0, alpha=ALPHA) > 1.0


@method
def _one_run_of_any_number_at_1(generator: np.random.Generator) -> bool:
    """Randomised response at ε = 1; with probability m δ/i, i of m coins are revealed and only those guessed."""
    revealed, delta = 8, 2e-3
    if generator.random() < 200 * delta / revealed:
        guesses = right = revealed
    else:
        guesses = int(generator.integers(20, 201))
        right = int(generator.binomial(guesses, SHARE))
    return _proved_by_any_number(guesses, right, delta) > 1.0


@cache
def _proved_by_any_number(guesses: int, right: int, delta: float) -> float:
    return one_run_epsilon_lower(
        records=200, guesses=guesses, correct=right, delta=delta, alpha=ALPHA, guesses_fixed=False
    )


@method
def _exact_interval_of_aucs_at_0(generator: np.random.Generator) -> bool:
    lower, _ = exact_interval(list(generator.beta(0.5, 0.5, size=30)), alpha=ALPHA)
    return lower > 0.5


def _membership(generator: np.random.Generator, accuracy: float, epsilon: float) -> bool:
    """Runs of AUC 0 or 1: who is right with probability ``accuracy``, the most that substitution admits at ε."""
    runs = []
    for _ in range(30):
        scores = ((1.0,), (0.0,)) if generator.random() < accuracy else ((0.0,), (1.0,))
        runs.append(ScoredRun(*scores))
    finding = membership_finding(
        runs,
        Loss(),
        _claim(epsilon, "substitution"),
        target="null",
        alpha=ALPHA,
        seed=0,  # type: ignore[arg-type]
    )
    return finding.verdict == "VIOLATION"


@method
def _membership_auc_at_0(generator: np.random.Generator) -> bool:
    return _membership(generator, 0.5, 0.0)


@method
def _membership_auc_at_1(generator: np.random.Generator) -> bool:
    return _membership(generator, SHARE, 1.0)


def _per_run(generator: np.random.Generator, thresholds: tuple[float, ...], alpha: float) -> bool:
    """What decides a finding of the per-run game."""
    inside, outside = _attained(generator)
    scores = ScoredRun(tuple(inside), tuple(outside))
    at = thresholded(scores, thresholds, delta=1e-5, alpha=alpha, seed=int(generator.integers(2**31)))
    return violation_test(at.counts, _claim(1.0).curve, alpha=at.alpha).violated


@method
def _several_attacks_under_one_level(generator: np.random.Generator) -> bool:
    """Four dependent attacks on the same releases, by all three strategies: any of them false is a false report."""
    level = Level(total=ALPHA, tests=4)
    state = generator.integers(2**31)
    found = [
        _per_run(np.random.default_rng(state), thresholds, level.each)
        for thresholds in ((), (1.0,), (0.9, 1.0, 1.1), (1.0, 1.2))
    ]
    return any(found)


def _limit(audits: int, alpha: float) -> float:
    return audits * (alpha + 2 * math.sqrt(alpha * (1 - alpha) / audits))


@pytest.mark.parametrize("name", METHODS)
def test_forty_null_audits(name: str) -> None:
    generator = np.random.default_rng([2026, len(name)])
    assert sum(METHODS[name](generator) for _ in range(40)) <= _limit(40, ALPHA)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_a_thousand_null_audits(name: str) -> None:
    generator = np.random.default_rng([2027, len(name)])
    assert sum(METHODS[name](generator) for _ in range(1000)) <= _limit(1000, ALPHA)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in METHODS if name.startswith("one run")])
def test_ten_thousand_null_audits_of_one_run(name: str) -> None:
    generator = np.random.default_rng([2028, len(name)])
    assert sum(METHODS[name](generator) for _ in range(10_000)) <= _limit(10_000, ALPHA)


def test_the_audits_are_not_silent_by_construction() -> None:
    """A claim of .5 where ε = 1 is attained is refuted nearly always."""
    generator = np.random.default_rng(0)
    refuted = 0
    for _ in range(20):
        refuted += epsilon_lower(_counts(generator), delta=0.0, alpha=ALPHA) > 0.5
    assert refuted >= 19


@pytest.mark.slow
@pytest.mark.parametrize("plan", [Exponential(1.0), Gaussian(1.5)], ids=["exponential", "gaussian"])
@pytest.mark.parametrize("null", [True, False], ids=["epsilon 0", "epsilon as certified"])
def test_a_thousand_one_step_audits_of_the_true_mechanism(plan: Exponential | Gaussian, *, null: bool) -> None:
    """100 trials a side. Against no difference at all when both sides are alike, else against the certified curve."""
    certified = Certified(
        relation="zero-out", epsilon=math.inf, delta=1e-5, plan=Repeat(1, plan), curve=PrivacyCurve(())
    )
    audit = prepare(certified, SeededNoise(8), trials=100, alpha=ALPHA)
    curve = PrivacyCurve(((0.0, 0.0),)) if null else audit.certified.curve
    release = audit.design.case.release
    false = sum(audit.attack.run(release, curve, null=null).violated for _ in range(1000))
    assert false <= _limit(1000, ALPHA)
