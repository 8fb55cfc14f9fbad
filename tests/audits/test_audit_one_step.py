"""The one-step audit on the package's own mechanisms: it catches what it must and accepts what it must."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from affidavit.accountant.errors import NotSupported, PermitViolation
from affidavit.accountant.plan import Compose, Exponential, Gaussian, Parallel, Plan, Pure, Repeat, ZeroConcentrated
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.audits.attacks.cases import Case, Inputs, Release, cases_of
from affidavit.audits.attacks.cases.gaussian import GaussianCase
from affidavit.audits.attacks.cases.softmax import ExponentialCase
from affidavit.audits.attacks.one_step import MOST_TRIALS, AuditPermit, OneStep
from affidavit.audits.certified import Certified
from affidavit.audits.experiments.one_step import OneStepAudit, one_step_finding, prepare, repeated_finding
from affidavit.audits.findings import Findings
from affidavit.audits.formats import render
from affidavit.audits.self_tests import one_step_self_tests
from affidavit.audits.statistics.clopper_pearson import Counts
from affidavit.audits.statistics.joint import violation_test
from affidavit.mechanisms.above_threshold import AboveThreshold
from affidavit.mechanisms.base import Permit


def _audit(plan: Plan, *, trials: int = 1000, seed: int = 1, alpha: float = 0.05) -> OneStepAudit:
    certified = Certified(relation="zero-out", epsilon=math.inf, delta=1e-5, plan=plan, curve=PrivacyCurve(()))
    return prepare(certified, SeededNoise(seed), trials=trials, alpha=alpha)


@pytest.fixture(scope="module")
def one_use() -> OneStepAudit:
    """Range 1: ε = 1, up to δ = 1e-5."""
    return _audit(Exponential(1.0))


def test_the_certified_mechanism_is_consistent(one_use: OneStepAudit) -> None:
    assert one_use.certified.epsilon == pytest.approx(1.0, abs=0.01)
    finding = one_step_finding(one_use, one_use.run(one_use.design.case.release), target="protected")
    assert finding.verdict == "CONSISTENT"
    assert finding.n_members < 1000, "it stopped when half the noise was ruled out"
    assert finding.ceiling == pytest.approx(6.236, abs=2e-3)  # logit(α^(1/2n)), n = 1,000 a side, α = 0.02
    assert finding.epsilon_lower is not None
    assert 0.0 < finding.epsilon_lower < one_use.certified.epsilon
    assert finding.point is not None
    assert finding.point.true_positive_lower < finding.point.true_positive_rate
    assert finding.point.false_positive_upper > finding.point.false_positive_rate


def test_self_tests_catch_both_faults_and_accept_the_null_pair(one_use: OneStepAudit) -> None:
    tests = one_step_self_tests(one_use)
    assert {test.name: test.observed for test in tests} == {
        "noise off": "caught",
        "half noise": "caught",
        "null pair": "not caught",
    }
    assert all(test.passed for test in tests)


def test_a_sign_error_is_caught_by_the_other_direction(one_use: OneStepAudit) -> None:
    """A release that inverts its scores and doubles them leaks as much as half the noise does."""
    release = one_use.design.case.release
    result = one_use.run(lambda permit, path, inputs: release(permit, path, -2.0 * inputs))
    assert not result.tests[0].violated
    assert result.tests[1].violated
    assert one_step_finding(one_use, result, target="protected").verdict == "VIOLATION"


def test_half_noise_is_caught_in_at_least_95_of_100_exact_simulations() -> None:
    """n = 1,000 a side at ε = 1: counts drawn from their exact distributions under half the noise."""
    audit = _audit(Exponential(1.0))
    case, threshold = audit.design.case, audit.design.threshold
    generator = np.random.default_rng(4)
    rates = [case.tail(threshold, uses=1, member=member, noise=0.5) for member in (True, False)]
    assert rates == pytest.approx([math.e / (1 + math.e), 1 / (1 + math.e)])  # twice range 1 is ±1 in loss
    caught = 0
    for _ in range(100):
        hits, alarms = (int(generator.binomial(1000, rate)) for rate in rates)
        caught += violation_test(Counts(hits, 1000, alarms, 1000), audit.certified.curve, alpha=0.025).violated
    assert caught >= 95
    assert audit.design.power >= 0.95


@pytest.mark.slow
def test_half_noise_is_caught_in_at_least_95_of_100_real_runs() -> None:
    caught = 0
    for seed in range(100):
        audit = _audit(Exponential(1.0), seed=seed)
        case = audit.design.case
        caught += audit.run(case.half_noise(case.release)).violated
    assert caught >= 95


@pytest.mark.slow
def test_a_hundred_audits_of_the_true_mechanism_raise_few_false_violations() -> None:
    false = sum(
        (audit := _audit(Exponential(1.0), seed=seed, alpha=0.2)).run(audit.design.case.release).violated
        for seed in range(100)
    )
    assert false <= 20 + 2 * math.sqrt(100 * 0.2 * 0.8)


def test_small_leaves_are_audited_over_as_many_uses_as_it_takes() -> None:
    audit = _audit(Parallel((Repeat(40, Exponential(0.25)), Repeat(40, Exponential(0.25)))))
    assert 1 < audit.design.uses <= 40
    assert audit.design.power >= 0.95
    assert audit.certified.subject == f"{audit.design.uses} uses of plan.parts[0].of"
    assert (
        one_step_finding(audit, audit.run(audit.design.case.noise_off()), target="unprotected").verdict == "VIOLATION"
    )


def test_a_leaf_too_small_for_its_uses_says_how_little_power_there_is() -> None:
    audit = _audit(Exponential(0.05), trials=200)
    assert audit.design.power < 0.5
    tests = {test.name: test for test in one_step_self_tests(audit)}
    assert tests["half noise"].passed, "the attack works; whether it has power is not its luck"
    assert "predicted power" in tests["half noise"].detail
    finding = one_step_finding(audit, audit.run(audit.design.case.release), target="protected")
    assert finding.verdict == "UNDERPOWERED"
    needed = audit.trials_needed()
    assert needed is not None
    assert f"needed: 0.95; members = {needed} and non_members = {needed} would notice it" in finding.note
    assert _audit(Exponential(0.05), trials=needed).design.power >= 0.999


@pytest.mark.slow
def test_the_sparse_vector_says_how_many_trials_notice_half_its_noise() -> None:
    """Private prediction's: one run costs 2/6.4, and only a rare event tells the pair apart."""
    leaf = AboveThreshold(6.4, 12.8, 1, monotone=False)
    audit = _audit(Repeat(16, leaf))
    assert audit.design.power < 0.1
    assert audit.trials_needed() == 100_000
    assert _audit(leaf, trials=50_000).design.power < 0.9998 < _audit(leaf, trials=100_000).design.power


def test_a_use_that_costs_next_to_nothing_is_said_to_be_out_of_reach() -> None:
    audit = _audit(AboveThreshold(100.0, 200.0, 1, monotone=False), trials=100)
    assert audit.trials_needed() is None
    finding = one_step_finding(audit, audit.run(audit.design.case.release), target="protected")
    assert finding.verdict == "UNDERPOWERED"
    assert f"{MOST_TRIALS} trials a side would not notice it either" in finding.note


def _exit_codes(trials: int, seeds: Sequence[int]) -> set[int]:
    codes = set()
    for seed in seeds:
        audit = _audit(Exponential(1.0), seed=seed, trials=trials, alpha=1e-3)
        item = one_step_finding(audit, audit.run(audit.design.case.release), target="protected")
        found = Findings(certificate_sha256=None, items=(item,), self_tests=one_step_self_tests(audit))
        codes.add(found.exit_code)
        assert (found.exit_code == 0) == ("holds" in {outcome for outcome, _ in found.outcomes()})
        assert (found.exit_code == 0) == ("✅ holds" in render(found, "markdown"))
    return codes


@pytest.mark.parametrize(("trials", "low", "high", "code"), [(110, 0.3, 0.7, 5), (1000, 0.999, 1.0, 0)])
def test_the_same_job_ends_with_the_same_exit_code_in_20_of_20_runs(
    trials: int, low: float, high: float, code: int
) -> None:
    """Also where half the noise would be caught about every other time."""
    assert low < _audit(Exponential(1.0), trials=trials, alpha=1e-3).design.power < high
    assert _exit_codes(trials, range(20)) == {code}


def test_the_self_test_fails_where_half_the_noise_is_not_seen_as_such(
    one_use: OneStepAudit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(one_use.design.case), "half_noise", lambda _self, release: release)
    failed = [test.name for test in one_step_self_tests(one_use) if not test.passed]
    assert failed == ["half noise"]


def test_gaussian_leaves_are_audited_too() -> None:
    audit = _audit(Gaussian(1.5))
    case = audit.design.case
    assert not audit.run(case.release).violated
    assert audit.run(case.half_noise(case.release)).violated
    assert audit.run(case.noise_off()).violated


def test_the_busiest_auditable_leaf_is_chosen() -> None:
    audit = _audit(Compose((Pure(0.5), Gaussian(2.0), Repeat(3, Exponential(1.0)))))
    assert audit.certified.subject.endswith("plan.parts[2].of")
    with pytest.raises(NotSupported, match="no leaf"):
        _audit(Compose((Pure(0.5), ZeroConcentrated(1.0))))
    with pytest.raises(NotSupported, match="no chosen inputs"):
        cases_of(Exponential(0.0))


@pytest.mark.parametrize("eta", [0.05, 0.5, 1.0, 2.0, 5.0])
def test_chosen_inputs_attain_the_certified_range_exactly(eta: float) -> None:
    cases = cases_of(Exponential(eta))
    assert cases
    for case in cases:
        change = case.inputs(member=True) - case.inputs(member=False)
        assert change.max() - change.min() == pytest.approx(eta, rel=1e-12)
        assert np.exp(case.inputs(member=True)).sum() == pytest.approx(1.0)
        without, with_record = (np.argmax(case.inputs(member=member)) for member in (False, True))
        assert without != with_record  # else a release without noise would look perfect


@pytest.mark.parametrize("case", [ExponentialCase(Exponential(1.0), 0.4), GaussianCase(Gaussian(1.3))])
@pytest.mark.parametrize("noise", [1.0, 0.5])
def test_predicted_rates_are_those_of_the_real_release(case: Case, noise: float) -> None:
    """4,000 trials of three uses through the mechanism itself, within four standard errors."""
    release: Release = case.release if noise == 1.0 else case.half_noise(case.release)
    source = SeededNoise(12)
    threshold = 2.0
    for member in (True, False):
        hits = 0
        for _ in range(1000):
            permit = AuditPermit(Repeat(3, case.leaf), "zero-out", source)
            hits += sum(release(permit, "plan.of", case.inputs(member=member)) for _ in range(3)) >= threshold
        rate = case.tail(threshold, uses=3, member=member, noise=noise)
        assert hits / 1000 == pytest.approx(rate, abs=4 * math.sqrt(rate * (1 - rate) / 1000))


def test_an_audit_permit_grants_what_its_plan_says_and_no_more() -> None:
    permit = AuditPermit(Repeat(2, Exponential(1.0)), "zero-out", SeededNoise(0))
    assert permit.use("plan.of") == permit.use("plan.of") == Exponential(1.0)
    with pytest.raises(PermitViolation, match="2 uses"):
        permit.use("plan.of")
    with pytest.raises(PermitViolation, match="0 uses"):
        permit.use("plan")


def test_the_mechanism_refuses_half_noise_when_it_is_said_aloud() -> None:
    """What a permit can see it refuses; the audit is for what it cannot see."""
    from affidavit.mechanisms import exponential

    permit = AuditPermit(Repeat(1, Exponential(1.0)), "zero-out", SeededNoise(0))
    with pytest.raises(PermitViolation, match="range"):
        exponential.SoftmaxSampling(width=1.0, temperature=0.5).release(permit, "plan.of", np.zeros(2))


def test_a_null_pair_is_held_against_no_difference_at_all(one_use: OneStepAudit) -> None:
    strict = PrivacyCurve(((0.0, 0.0),))
    attack = OneStep(one_use.design, "zero-out", SeededNoise(3))
    assert attack.run(one_use.design.case.release, strict, to_the_end=True).violated
    assert not attack.run(one_use.design.case.release, strict, null=True, to_the_end=True).violated


@pytest.mark.parametrize("null", [False, True])
def test_outputs_that_are_all_the_same_are_not_consistent(null: bool) -> None:
    """A seed that is set anew for every release: both sides give one output each, whatever the power."""
    audit = _audit(Gaussian(4.0), trials=2_000)

    def stuck(permit: Permit, path: str, inputs: Inputs) -> float:
        permit.use(path)
        return float(inputs[0]) + float(np.random.RandomState(3).normal(0.0, 4.0))

    result = audit.run(stuck, null=null)
    assert result.repeated
    assert one_step_finding(audit, result, target="protected").verdict != "CONSISTENT"
    assert repeated_finding(result).verdict == "VIOLATION"
    assert not audit.run(audit.design.case.release).repeated
