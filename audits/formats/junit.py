"""JUnit XML: a suite for the findings, one for the self-tests.

failure   refuted, or the policy failed (the exit code is 1)
error     inconclusive: the test could not have shown a violation, or a self-test went wrong (exit code 5)
skipped   not judged: a control, or something that the material does not tell
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET  # writes only
from collections.abc import Mapping

from affidavit.audits.finding import CheckFinding
from affidavit.audits.findings import Findings, SelfTest
from affidavit.audits.formats.wording import Judged, Judgement, judge, measured

__all__ = ["render"]

_RESULTS: dict[Judgement, str] = {
    "refuted": "failure",
    "policy-failed": "failure",
    "inconclusive": "error",
    "not judged": "skipped",
}
_COUNTED = {"errors": "error", "failures": "failure", "skipped": "skipped"}
_UNWRITABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0, section 2.2


def render(findings: Findings) -> str:
    """The XML document."""
    document = ET.Element("testsuites", name="affidavit")
    suite = ET.SubElement(document, "testsuite", name="affidavit")
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(findings).items():
        ET.SubElement(properties, "property", name=name, value=value)
    for judged in judge(findings):
        _case(suite, judged)
    if not findings.audited:
        _result(_testcase(suite, "findings", "affidavit.audit"), "error", "nothing was audited", "inconclusive")
    if findings.self_tests:
        suite = ET.SubElement(document, "testsuite", name="affidavit self-tests")
        for test in findings.self_tests:
            _self_test(suite, test)
    for counted in (document, *document.iterfind("testsuite")):
        counted.set("time", "0")
        counted.set("tests", str(sum(1 for _ in counted.iter("testcase"))))
        for attribute, tag in _COUNTED.items():
            counted.set(attribute, str(sum(1 for _ in counted.iter(tag))))
    ET.indent(document)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(document, encoding="unicode") + "\n"


def _properties(findings: Findings) -> Mapping[str, str]:
    return {
        "certificate_sha256": findings.certificate_sha256 or "none",
        "outcome": findings.outcome,
        "exit_code": str(findings.exit_code),
        "max_leaked": str(findings.policy.max_leaked),
        "max_verbatim": str(findings.policy.max_verbatim),
        "max_near_copies": str(findings.policy.max_near_copies),
        "max_extractable": str(findings.policy.max_extractable),
        "allow_underpowered": str(findings.policy.allow_underpowered).lower(),
    }


def _case(suite: ET.Element, judged: Judged) -> None:
    case = _testcase(
        suite, judged.title, "affidavit.check" if isinstance(judged.item, CheckFinding) else "affidavit.audit"
    )
    if judged.judgement in _RESULTS:
        _result(case, _RESULTS[judged.judgement], "; ".join(judged.reasons), judged.judgement)
    _output(case, "\n".join(f"{name}: {value}" for name, value in measured(judged.item)))


def _self_test(suite: ET.Element, test: SelfTest) -> None:
    case = _testcase(suite, f"{test.name} ({test.attack})", "affidavit.self-test")
    if not test.passed:
        _result(case, "error", f"was {test.observed}, must be {test.expected}", "inconclusive")
    _output(case, test.detail)


def _testcase(suite: ET.Element, name: str, classname: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", name=_writable(name), classname=classname)


def _result(case: ET.Element, tag: str, message: str, kind: str) -> None:
    found = ET.SubElement(case, tag, message=_writable(message))
    if tag != "skipped":
        found.set("type", kind)


def _output(case: ET.Element, text: str) -> None:
    ET.SubElement(case, "system-out").text = _writable(text)


def _writable(text: str) -> str:
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text)
