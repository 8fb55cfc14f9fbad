"""Self-tests: before an audit is believed, it must see a planted fault and not see an absent one.

    noise off    the same attack on what comes out without protection: every audit must catch it
    half noise   the one-step audit must see a mechanism with half its noise as what it is
    null pair    nothing to find (both sides alike, no private record used): none may catch it

"Caught" is what breaks a promise: a refuted curve (one-step), leaks beyond the policy or a
positive ε (extraction, per-run game), an AUC that is surely above one half (membership: few runs cannot refute
a certificate, but an attack that sees nothing without protection proves nothing with it). The
null pair is held to a level of at most 1e-3, so that an honest audit does not fail its own test
once in twenty. Whether half the noise would refute a curve is decided by its predicted power (``one_step_finding``),
not by whether it did this time: the self-test asks whether its counts are those that were predicted, each within
limits that it leaves once in a million audits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Literal

import numpy as np

from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.audits.attacks.one_step import OneStep, OneStepResult
from affidavit.audits.experiments.discoverable import DiscoverableTally
from affidavit.audits.experiments.echo import EchoTally
from affidavit.audits.experiments.extraction import Candidates, ExtractionTally, shown_by
from affidavit.audits.experiments.one_step import OneStepAudit
from affidavit.audits.findings import Policy, SelfTest
from affidavit.audits.statistics.auc import ScoredRun, exact_interval, mean_auc, run_aucs
from affidavit.audits.statistics.joint import epsilon_lower
from affidavit.audits.statistics.thresholds import split

__all__ = [
    "HALF_NOISE_ALPHA",
    "NULL_ALPHA",
    "discoverable_self_test",
    "echo_self_test",
    "extraction_self_test",
    "membership_self_test",
    "one_step_self_tests",
    "per_run_self_test",
]

NULL_ALPHA = 1e-3
HALF_NOISE_ALPHA = 1e-6

Fault = Literal["noise off", "half noise", "null pair"]


def _self_test(fault: Fault, attack: str, *, caught: bool, detail: str) -> SelfTest:
    return SelfTest(
        name=fault,
        attack=attack,
        expected="not caught" if fault == "null pair" else "caught",
        observed="caught" if caught else "not caught",
        detail=detail,
    )


def extraction_self_test(
    fault: Literal["noise off", "null pair"],
    pool: Candidates,
    result: ExtractionTally,
    *,
    attack: str = "extraction",
    policy: Policy,
    delta: float,
    alpha: float,
) -> SelfTest:
    """``result`` is the attack on unprotected text, or on text made without any private record."""
    level = min(alpha, NULL_ALPHA) if fault == "null pair" else alpha
    lower = shown_by(result, delta=delta, alpha=level)
    beyond = len(result.leaked - pool.guessable)
    return _self_test(
        fault,
        attack,
        caught=lower > 0.0 or (fault == "noise off" and beyond > policy.max_leaked),
        detail=f"{len(result.leaked)} identifiers leaked, {beyond} beyond the guessable; epsilon_lower {lower:.3f}",
    )


def echo_self_test(fault: Literal["noise off", "null pair"], result: EchoTally, *, alpha: float) -> SelfTest:
    """``result`` is the attack on the records themselves, or on text made without any canary."""
    level = min(alpha, NULL_ALPHA) if fault == "null pair" else alpha
    detail = (
        f"{result.correct} of {result.guesses} guesses right, by chance with probability {result.nothing_learnt:.3g}"
    )
    return _self_test(fault, "echo", caught=result.nothing_learnt < level, detail=detail)


def discoverable_self_test(
    fault: Literal["noise off", "null pair"], result: DiscoverableTally, *, queries: int, chance: float, alpha: float
) -> SelfTest:
    """``result`` is the attack on a service that shows its members, or on one that holds no record."""
    level = min(alpha, NULL_ALPHA) if fault == "null pair" else alpha
    found = result.extractable(queries, chance)
    inside, outside = (sum(each[side] for each in found) for side in (0, 1))
    luck = result.luck(queries, chance)
    detail = f"{inside} members and {outside} held-out records extractable, by chance with probability {luck:.3g}"
    return _self_test(fault, "discoverable", caught=luck < level, detail=detail)


def membership_self_test(
    fault: Literal["noise off", "null pair"], attack: str, runs: Sequence[ScoredRun], *, alpha: float
) -> SelfTest:
    """``runs`` show a real record in the prompt, or a demonstration made without any private record."""
    level = min(alpha, NULL_ALPHA) if fault == "null pair" else alpha
    lower, _ = exact_interval(run_aucs(runs), alpha=level)
    detail = f"mean AUC {mean_auc(runs):.3f}, exact lower limit {lower:.3f}"
    needed = _runs_needed(alpha=level)
    if len(runs) < needed:
        detail += f"; {len(runs)} runs are too few for a perfect attack, runs = {needed} would do"
    return _self_test(fault, attack, caught=lower > 0.5, detail=detail)


def _runs_needed(*, alpha: float) -> int:
    """With how many runs an AUC of 1 in each is surely above one half."""
    return next(runs for runs in count(1) if exact_interval([1.0] * runs, alpha=alpha)[0] > 0.5)


def per_run_self_test(
    fault: Literal["noise off", "null pair"], attack: str, scores: ScoredRun, *, delta: float, alpha: float, seed: int
) -> SelfTest:
    """``scores`` of one record in runs with it and without it, by a threshold from half of the runs."""
    level = min(alpha, NULL_ALPHA) if fault == "null pair" else alpha
    generator = np.random.default_rng([seed, 2])
    at = split(scores.members, scores.non_members, alpha=level, delta=delta, generator=generator)
    lower = epsilon_lower(at.counts, delta=delta, alpha=level)
    return _self_test(fault, attack, caught=lower > 0.0, detail=f"epsilon_lower {lower:.3f}")


def one_step_self_tests(audit: OneStepAudit) -> tuple[SelfTest, ...]:
    """All three, on the package's own mechanism: faults are planted in what is known to be right."""
    case = audit.design.case
    quiet = replace(audit.design, alpha=min(audit.design.alpha, NULL_ALPHA))
    nothing = replace(audit.certified, curve=PrivacyCurve(((0.0, 0.0),)))  # ε = 0: the strictest claim
    quietly = replace(audit, attack=OneStep(quiet, audit.attack.relation, audit.attack.noise), certified=nothing)
    off, null = audit.run(case.noise_off()), quietly.run(case.release, null=True, to_the_end=True)
    return (
        _self_test("noise off", "one-step", caught=off.violated, detail=_excess(off, "certified curve")),
        _half_noise(audit),
        _self_test("null pair", "one-step", caught=null.violated, detail=_excess(null, "curve of no difference")),
    )


def _excess(result: OneStepResult, curve: str) -> str:
    return f"excess over the {curve} {result.excess:+.3f}"


def _half_noise(audit: OneStepAudit) -> SelfTest:
    """Whether both counts are within what half the noise gives but for once in a million audits."""
    from scipy.stats import binom

    result = audit.run(audit.design.case.half_noise(audit.design.case.release), to_the_end=True)
    counts, rates = result.counts[0], audit.design.rates(noise=0.5)
    seen = ((counts.true_positives, counts.members), (counts.false_positives, counts.non_members))
    caught, told = True, []
    for (hits, trials), rate in zip(seen, rates, strict=True):
        low, high = binom.ppf(HALF_NOISE_ALPHA / 4.0, trials, rate), binom.isf(HALF_NOISE_ALPHA / 4.0, trials, rate)
        caught &= bool(low <= hits <= high)
        told.append(f"{hits} of {trials}, {int(low)} to {int(high)} predicted")
    detail = f"with the record {told[0]}; without it {told[1]}; predicted power {audit.design.power:.3f}"
    return _self_test("half noise", "one-step", caught=caught, detail=detail)
