"""Worst pairs of every registered mechanism: predicted rates are real ones, true releases pass, broken ones do not."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import DiscreteGaussian, Exponential, Gaussian, Laplace, Leaf, Repeat
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.audits.attacks import cases as registry
from affidavit.audits.attacks.cases import Case, cases_of, covered
from affidavit.audits.attacks.cases.testing import AboveThresholdCase
from affidavit.audits.attacks.one_step import AuditPermit
from affidavit.audits.certified import Certified
from affidavit.audits.experiments.one_step import OneStepAudit, prepare
from affidavit.audits.self_tests import one_step_self_tests
from affidavit.mechanisms import load
from affidavit.mechanisms.base import registered

load()


def _leaf(mechanism: str) -> Leaf:
    """A leaf of about ε = 1, where a thousand trials suffice."""
    from affidavit.mechanisms.above_threshold import AboveThreshold
    from affidavit.mechanisms.bounded_range import BoundedRange
    from affidavit.mechanisms.noisy_max import NoisyMax
    from affidavit.mechanisms.propose_test_release import ProposeTestRelease

    return {
        "exponential": Exponential(1.0),
        "joint-exponential": Exponential(1.0),
        "bounded-range": BoundedRange(1.0),
        "gaussian": Gaussian(1.5),
        "projected-mean": Gaussian(1.5),
        "coverage": Gaussian(1.5),
        "good-radius": Gaussian(1.5),
        "laplace": Laplace(1.0),
        "discrete-gaussian": DiscreteGaussian(1.5, 1.0),
        "noisy-max": NoisyMax(1.0),
        "propose-test-release": ProposeTestRelease(1.0, 1e-5),
        "above-threshold": AboveThreshold(
            1.0, 1.0, 1, monotone=False
        ),  # ε = 3: no event of one run is likely and sharp
    }[mechanism]


def _names() -> list[str]:
    return [mechanism.called for mechanism in registered()]


def _audit(mechanism: str, *, uses: int = 1, trials: int = 1000, seed: int = 1, alpha: float = 0.05) -> OneStepAudit:
    plan = Repeat(uses, _leaf(mechanism))
    certified = Certified(relation="zero-out", epsilon=math.inf, delta=1e-5, plan=plan, curve=PrivacyCurve(()))
    return prepare(certified, SeededNoise(seed), trials=trials, alpha=alpha, mechanism=mechanism)


@dataclass(frozen=True)
class Size:
    """What a mechanism's audit needs for power: uses of the leaf, and trials a side."""

    uses: int = 1
    trials: int = 1000


SIZES = {"above-threshold": Size(trials=2000), "good-radius": Size(uses=2)}


def test_every_registered_mechanism_has_a_worst_pair() -> None:
    assert set(_names()) <= set(covered())


SLOW = {"above-threshold"}


@pytest.mark.parametrize(
    "mechanism", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in _names()]
)
def test_the_audit_accepts_the_true_mechanism_and_catches_half_its_noise(mechanism: str) -> None:
    size = SIZES.get(mechanism, Size())
    audit = _audit(mechanism, uses=size.uses, trials=size.trials)
    assert audit.design.power >= 0.95
    assert not audit.run(audit.design.case.release).violated
    tests = {test.name: test for test in one_step_self_tests(audit)}
    assert all(test.passed for test in tests.values()), tests
    assert set(tests) == {"noise off", "half noise", "null pair"}
    case = audit.design.case
    assert audit.run(case.half_noise(case.release)).violated


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", _names())
def test_half_the_noise_is_caught_in_at_least_95_of_100_runs(mechanism: str) -> None:
    size = SIZES.get(mechanism, Size())
    caught = 0
    audit = _audit(mechanism, uses=size.uses, trials=size.trials)
    case = audit.design.case
    for _ in range(100):  # one stream of draws: the runs are independent
        caught += audit.run(case.half_noise(case.release)).violated
    assert caught >= 95


def _rate(case: Case, *, member: bool, noise: float, trials: int, bar: float) -> float:
    release = case.release if noise == 1.0 else case.half_noise(case.release)
    source = SeededNoise(12)
    inputs = case.inputs(member=member)
    hits = 0
    for _ in range(trials):
        permit = AuditPermit(Repeat(case.leaf_uses, case.leaf), "zero-out", source)
        hits += case.statistic(release(permit, "plan.of", inputs)) >= bar
    return hits / trials


@pytest.mark.parametrize("mechanism", _names())
@pytest.mark.parametrize("noise", [1.0, 0.5])
def test_predicted_rates_are_those_of_the_release(mechanism: str, noise: float) -> None:
    """Releases of the first and the last case, on both sides, within four standard errors."""
    trials = 500
    found = cases_of(_leaf(mechanism), mechanism=mechanism)
    for case in {found[0], found[-1]}:
        for member in (True, False):
            bar = case.thresholds(1)[len(case.thresholds(1)) // 2]
            expected = case.tail(bar, uses=1, member=member, noise=noise)
            rate = _rate(case, member=member, noise=noise, trials=trials, bar=bar)
            assert rate == pytest.approx(expected, abs=4 * math.sqrt(expected * (1 - expected) / trials) + 1e-9)


@pytest.mark.parametrize("mechanism", _names())
def test_predicted_rates_keep_to_the_certificate(mechanism: str) -> None:
    """By exact probabilities, no threshold of any case leaves the certified curve at full noise."""
    leaf = _leaf(mechanism)
    for case in cases_of(leaf, mechanism=mechanism):
        certified = Certified.of_plan(Repeat(case.leaf_uses, leaf), relation="zero-out", delta=1e-5)
        for threshold in case.thresholds(1):
            hits, alarms = (case.tail(threshold, uses=1, member=member, noise=1.0) for member in (True, False))
            assert 1.0 - hits >= certified.curve.false_negative_rate(alarms) - 1e-9
            assert alarms >= certified.curve.false_negative_rate(1.0 - hits) - 1e-9


@pytest.mark.parametrize("mechanism", _names())
def test_a_release_without_noise_is_told_apart(mechanism: str) -> None:
    for case in cases_of(_leaf(mechanism), mechanism=mechanism):
        exact = case.noise_off()
        seen = []
        for member in (True, False):
            permit = AuditPermit(Repeat(case.leaf_uses, case.leaf), "zero-out", SeededNoise(0))
            seen.append(case.statistic(exact(permit, "plan.of", case.inputs(member=member))))
            assert permit.uses == {"plan.of": case.leaf_uses}
        assert seen[0] > seen[1]


def test_the_pure_pairs_reach_their_epsilon() -> None:
    """Laplace noise, noisy max and the joint exponential: some event's probabilities are in the ratio e^ε."""
    for mechanism, least in (("laplace", 1.0), ("noisy-max", 0.97), ("joint-exponential", 0.49)):
        ratios = [
            math.log(case.tail(1.0, uses=1, member=True, noise=1.0) / case.tail(1.0, uses=1, member=False, noise=1.0))
            for case in cases_of(_leaf(mechanism), mechanism=mechanism)
        ]
        assert least - 0.02 <= max(ratios) <= 1.0 + 1e-6


@pytest.mark.parametrize("monotone", [False, True])
def test_a_monotone_stream_moves_one_way_only(monotone: bool) -> None:
    from affidavit.mechanisms.above_threshold import AboveThreshold

    for case in cases_of(AboveThreshold(2.0, 4.0, 2, monotone=monotone)):
        assert isinstance(case, AboveThresholdCase)
        change = case.inputs(member=False) - case.inputs(member=True)
        assert abs(change).max() == 4  # the sensitivity, in steps
        assert (change.min() >= 0) == monotone


def test_a_leaf_without_noise_or_without_a_case_is_refused() -> None:
    with pytest.raises(NotSupported, match="as projected-mean draws it"):
        cases_of(Exponential(1.0), mechanism="projected-mean")
    with pytest.raises(NotSupported, match="no chosen inputs"):
        cases_of(Laplace(0.0))


def test_a_mechanism_from_elsewhere_brings_its_own_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_MAKERS", dict(registry._MAKERS))
    registry.register("mine", registry._MAKERS["gaussian"])
    assert cases_of(Gaussian(2.0), mechanism="mine") == cases_of(Gaussian(2.0))
    with pytest.raises(ValueError, match="already"):
        registry.register("mine", registry._MAKERS["laplace"])
