"""The one-step audit of an audit file: the certified mechanism, or what comes out without its noise."""

from __future__ import annotations

from affidavit.audits.experiments.one_step import one_step_finding, power_in_words, prepare, repeated_finding
from affidavit.audits.finding import Finding
from affidavit.audits.given import Given, Results
from affidavit.audits.self_tests import one_step_self_tests

__all__ = ["run_one_step"]


def run_one_step(given: Given) -> Results:
    """The run's own mechanism, or the package's where it states none, drawing from secure noise by default."""
    from affidavit.accountant.release.randomness import SecureNoise

    audit = given.audit
    prepared = prepare(
        given.certified,
        given.run.noise or SecureNoise(),
        trials=audit.members,
        alpha=given.alpha,
        mechanism=audit.mechanism,
    )
    case = prepared.design.case
    given.tell(f"one-step: {prepared.design.trials} trials a side, {power_in_words(prepared)}")
    under_audit = case.noise_off() if audit.target == "unprotected" else given.run.release or case.release
    result = prepared.run(under_audit, null=audit.target == "null")
    given.tell("one-step: self-tests")
    found: list[Finding] = [one_step_finding(prepared, result, target=audit.target)]
    if result.repeated and audit.target != "unprotected":
        found.append(repeated_finding(result))
    return found, list(one_step_self_tests(prepared))
