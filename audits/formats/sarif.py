"""SARIF 2.1.0 (OASIS, 2020): a result for each finding, and one for each leaked span.

    refuted, policy failed      kind fail, level error
    inconclusive                kind open            only with ``everything``: evaluated, and not enough to decide
    holds                       kind pass            only with ``everything``
    not judged                  kind notApplicable   only with ``everything``

Code scanning shows every result as an alert, whatever its kind, and an alert says that something is wrong: by default
there are failures alone. That an audit could not decide is told by the exit code (5), by JUnit and by the run's
``outcome``. What is tolerated (kind fail, level note) is left out as well. A finding points to the audit file that
asked for it, where that is known.

A leak points to where it stands: the number of the output as an artifact (``AUDIT_OUTPUTS``; outputs are
not kept as files) and a region of characters. It is named by the identifier's HMAC, as a partial
fingerprint that equals others of the same report only; its text stands nowhere.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from affidavit.audits.finding import leakage_of, overlap_of
from affidavit.audits.formats.wording import HEADLINES, Judged, Judgement, judge, measured, rule_id

if TYPE_CHECKING:
    from affidavit.audits.findings import Findings

__all__ = ["SCHEMA_URI", "render"]

SCHEMA_URI = "https://json.schemastore.org/sarif-2.1.0-rtm.5.json"

_KINDS: dict[Judgement, tuple[str, str]] = {
    "refuted": ("fail", "error"),
    "policy-failed": ("fail", "error"),
    "inconclusive": ("open", "none"),
    "holds": ("pass", "none"),
    "not judged": ("notApplicable", "none"),
}
_LEAK = "leaked-identifier"
_PASSAGE = "verbatim-passage"
_NEAR = "near-copy"
_SELF_TEST = "self-test"
_TITLES = {
    _LEAK: "An identifier of a private record stands in an output",
    _PASSAGE: "A passage of a private record stands in an output",
    _NEAR: "A near copy of a passage of a private record stands in an output",
    _SELF_TEST: "A self-test of the audit",
}


def render(*findings: Findings, everything: bool = False) -> str:
    """The JSON document: a run for each findings file. ``everything``: also what could not be decided, holds,
    is tolerated or not judged.
    """
    runs = [_run(each, everything=everything) for each in findings]
    log = {"$schema": SCHEMA_URI, "version": "2.1.0", "runs": runs}
    return json.dumps(log, indent=2, allow_nan=False) + "\n"


def _run(findings: Findings, *, everything: bool) -> dict[str, Any]:
    from importlib.metadata import version

    judged = judge(findings)
    results = [_result(each) for each in judged]
    for each in judged:
        results += _spans(each, findings)
    asked = {item.attack: item.source for item in findings.items}
    results += [
        {
            "ruleId": _SELF_TEST,
            "kind": "pass" if test.passed else "open",
            "level": "none",
            "message": {"text": f"{test.name} of {test.attack}: {test.observed}, must be {test.expected}"},
            "locations": [_file(asked.get(test.attack, ""))],
        }
        for test in findings.self_tests
    ]
    if not everything:
        results = [result for result in results if result["level"] == "error"]
    rules = _rules(judged, {result["ruleId"] for result in results})
    for result in results:
        result["ruleIndex"] = [rule["id"] for rule in rules].index(result["ruleId"])
    return {
        "tool": {"driver": {"name": "affidavit", "semanticVersion": version("affidavit"), "rules": rules}},
        "invocations": [{"executionSuccessful": True, "exitCode": findings.exit_code}],
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {
            "AUDIT_OUTPUTS": {
                "description": {"text": "the texts that the attack obtained, by number; not kept as files"}
            }
        },
        "properties": {
            "outcome": findings.outcome,
            "headline": HEADLINES[findings.outcome],
            "certificate_sha256": findings.certificate_sha256,
        },
        "results": results,
    }


def _rules(judged: tuple[Judged, ...], used: set[str]) -> list[dict[str, Any]]:
    titles = {rule_id(each.item): each.item.attack.partition(" at plan")[0] for each in judged}
    titles = {name: title for name, title in titles.items() if name in used}
    titles |= {name: title for name, title in _TITLES.items() if name in used}
    return [{"id": name, "shortDescription": {"text": title}} for name, title in titles.items()]


def _result(judged: Judged) -> dict[str, Any]:
    kind, level = _KINDS[judged.judgement]
    reasons = "; ".join(reason for reason in judged.reasons if reason)
    return {
        "ruleId": rule_id(judged.item),
        "kind": kind,
        "level": level,
        "message": {"text": f"{judged.title}: {reasons or judged.judgement}"},
        "locations": [_file(judged.item.source)],
        "properties": dict(measured(judged.item)),
    }


def _spans(judged: Judged, findings: Findings) -> list[dict[str, Any]]:
    """One result a leaked span; a control's are not shown, as they are not judged."""
    item = judged.item
    leakage, overlap = leakage_of(item), overlap_of(item)
    if not item.judged:
        return []
    tolerated = not findings.policy.broken_by(item)
    found = [
        {
            "ruleId": _LEAK,
            "kind": "fail",
            "level": "note" if leak.guessable or tolerated else "error",
            "message": {
                "text": f"{judged.title}: {leak.kind}, {'could be guessed' if leak.guessable else 'not guessable'}"
            },
            "locations": [_place(leak.output, leak.start, leak.end)],
            "partialFingerprints": {"identifierHmac/v1": leak.identifier_hmac},
        }
        for leak in (() if leakage is None else leakage.leaks)
    ]
    near = () if overlap is None or overlap.near is None else overlap.near.spans
    for rule, span in (
        *((_PASSAGE, span) for span in (() if overlap is None else overlap.spans)),
        *((_NEAR, span) for span in near),
    ):
        whose = "a record that was not in the data" if span.held_out else "a private record"
        how = "in a row" if rule == _PASSAGE else f"with {span.edits} or more edited"
        found.append(
            {
                "ruleId": rule,
                "kind": "fail",
                "level": "note" if span.held_out or tolerated else "error",
                "message": {"text": f"{judged.title}: {span.words} words {how} of {whose}"},
                "locations": [_place(span.output, span.start, span.end)],
                "partialFingerprints": {"recordHmac/v1": span.record_hmac},
            }
        )
    return found


def _file(source: str) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": quote(source or "findings.json")}}}


def _place(output: int, start: int, end: int) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": {"uri": f"output-{output}", "uriBaseId": "AUDIT_OUTPUTS"},
            "region": {"charOffset": start, "charLength": end - start},
        }
    }
