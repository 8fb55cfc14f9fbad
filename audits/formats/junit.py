"""JUnit XML, by junitparser: a suite for the findings, one for the self-tests.

failure   refuted, or the policy failed (the exit code is 1)
error     inconclusive: the test could not have shown a violation, or a self-test went wrong (exit code 5)
skipped   not judged: a control, or something that the material does not tell
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from affidavit.audits.findings import Findings, SelfTest
from affidavit.audits.formats.wording import Judged, judge, measured

if TYPE_CHECKING:
    from junitparser import TestCase, TestSuite

__all__ = ["render"]


def render(findings: Findings) -> str:
    """The XML document."""
    from junitparser import JUnitXml, TestSuite

    audited, tested = TestSuite("affidavit"), TestSuite("affidavit self-tests")
    for name, value in _properties(findings):
        audited.add_property(name, value)
    for judged in judge(findings):
        audited.add_testcase(_case(judged))
    if not findings.audited:
        audited.add_testcase(_nothing())
    for test in findings.self_tests:
        tested.add_testcase(_self_test(test))
    document = JUnitXml("affidavit")
    suites: list[TestSuite] = [audited, tested] if findings.self_tests else [audited]
    for suite in suites:
        document.add_testsuite(suite)
    document.update_statistics()
    text = document.tostring()
    return (text if isinstance(text, str) else text.decode("utf-8")).rstrip("\n") + "\n"


def _properties(findings: Findings) -> tuple[tuple[str, str], ...]:
    return (
        ("certificate_sha256", findings.certificate_sha256 or "none"),
        ("outcome", findings.outcome),
        ("exit_code", str(findings.exit_code)),
        ("max_leaked", str(findings.policy.max_leaked)),
        ("max_verbatim", str(findings.policy.max_verbatim)),
        ("allow_underpowered", str(findings.policy.allow_underpowered).lower()),
    )


def _case(judged: Judged) -> TestCase:
    from junitparser import Error, Failure, Skipped, TestCase

    case = TestCase(judged.title, classname="affidavit.check" if judged.item.check else "affidavit.audit")
    message = "; ".join(judged.reasons)
    if judged.judgement in ("refuted", "policy-failed"):
        case.append(Failure(message, judged.judgement))
    elif judged.judgement == "inconclusive":
        case.append(Error(message, judged.judgement))
    elif judged.judgement == "not judged":
        case.append(Skipped(message))
    case.system_out = "\n".join(f"{name}: {value}" for name, value in measured(judged.item))
    return case


def _nothing() -> TestCase:
    from junitparser import Error, TestCase

    case = TestCase("findings", classname="affidavit.audit")
    case.append(Error("nothing was audited", "inconclusive"))
    return case


def _self_test(test: SelfTest) -> TestCase:
    from junitparser import Error, TestCase

    case = TestCase(f"{test.name} ({test.attack})", classname="affidavit.self-test")
    if not test.passed:
        case.append(Error(f"was {test.observed}, must be {test.expected}", "inconclusive"))
    case.system_out = test.detail
    return case
