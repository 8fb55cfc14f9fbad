"""JUnit, SARIF and Markdown: valid documents that say what the findings say, and no text of anybody."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from junitparser import JUnitXml

from affidavit.accountant.errors import UsageError
from affidavit.audits.checks import Check, CheckReport
from affidavit.audits.finding import Claim, ExtractionFinding, Finding, SearchFinding
from affidavit.audits.findings import Findings, Policy, SelfTest, sourced
from affidavit.audits.formats import FORMATS, render, sarif, summary
from affidavit.audits.formats import markdown as markdown_format
from affidavit.audits.leaks import Leak, Leakage, Overlap, OverlapSpan

SCHEMA = json.loads((Path(__file__).parent / "data" / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8"))
CLAIM = Claim(epsilon=1.0, delta=1e-5, relation="zero-out")


def _leakage(*, leaked: int = 0, guessable: int = 0, leaks: tuple[Leak, ...] = ()) -> Leakage:
    return Leakage(at_risk=30, leaked=leaked, guessable=guessable, held_out_leaked=0, interval=(0.0, 0.1), leaks=leaks)


def _item(*, leaked: int = 0, guessable: int = 0, leaks: tuple[Leak, ...] = (), **changes: Any) -> Finding:
    facts: dict[str, Any] = {
        "attack": "extraction",
        "target": "protected",
        "verdict": "CONSISTENT",
        "n_members": 30,
        "n_non_members": 30,
        "runs": 2,
        "claim": CLAIM,
        "epsilon_lower": 0.0,
        "ceiling": 3.5,
        "alpha": 0.05,
        "correction": "half a side",
        "leakage": _leakage(leaked=leaked, guessable=guessable, leaks=leaks),
    }
    return ExtractionFinding(**(facts | changes))


LEAKS = (
    Leak(identifier_hmac="ab" * 16, kind="email", guessable=False, output=3, start=10, end=31),
    Leak(identifier_hmac="cd" * 16, kind="phone", guessable=True, output=0, start=0, end=12),
)
OVERLAP = Overlap(
    words=20,
    texts=9,
    members=30,
    held_out=30,
    verbatim=1,
    held_out_verbatim=0,
    verbatim_interval=(0.0, 0.3),
    longest=24,
    held_out_longest=3,
    compared=9,
    rouge_l=0.4,
    held_out_rouge_l=0.2,
    highest_rouge_l=0.9,
    margin=0.2,
    margin_interval=(0.1, 0.3),
    spans=(OverlapSpan(record_hmac="ef" * 16, held_out=False, output=2, start=5, end=99, words=24),),
)
REPORT = CheckReport(
    title="trace check",
    alpha=1e-3,
    checks=(
        Check(name="sample sizes", status="fault", detail="40 of 40 | pairs", number=1, path="plan.of", p_value=1e-9),
        Check(name="order", status="consistent", detail="in the plan's order", seen=7),
        Check(name="noise source", status="not checked", detail="no run line", number=13),
        Check(name="sampling rate", status="underpowered", detail="two samples", number=1),
    ),
)
HOLDS = Findings(certificate_sha256="12" * 32, items=(_item(), _item(attack="null", control=True)))
EVERYTHING = Findings(
    certificate_sha256="12" * 32,
    items=(
        _item(verdict="VIOLATION", epsilon_lower=1.7, attack="one-step"),
        _item(verdict="UNDERPOWERED", ceiling=0.4, attack="reference"),
        _item(leaked=2, guessable=1, leaks=LEAKS),
        SearchFinding(
            attack="released-text",
            verdict="COUNTED",
            members=30,
            held_out=30,
            texts=9,
            alpha=0.05,
            leakage=_leakage(),
            overlap=OVERLAP,
        ),
        _item(attack="extraction", target="unprotected", control=True, leaked=2, guessable=0, leaks=LEAKS),
        *REPORT.findings().items,
    ),
    self_tests=(
        SelfTest(name="noise off", attack="extraction", expected="caught", observed="caught"),
        SelfTest(name="half noise", attack="one-step", expected="caught", observed="not caught", detail="excess -0.1"),
    ),
)
INCONCLUSIVE = Findings(certificate_sha256=None, items=(_item(verdict="UNDERPOWERED"),))
EMPTY = Findings(certificate_sha256=None, items=())
ALL = {"holds": HOLDS, "everything": EVERYTHING, "inconclusive": INCONCLUSIVE, "empty": EMPTY}


@pytest.mark.parametrize("findings", ALL.values(), ids=ALL)
def test_junit_fails_errors_and_skips_as_the_exit_code_does(findings):
    document = JUnitXml.fromstring(render(findings, "junit").encode())
    cases = [case for suite in document for case in suite]
    kinds = [type(result).__name__ for case in cases for result in case.result]
    assert document.failures == kinds.count("Failure")
    assert document.errors == kinds.count("Error")
    assert document.skipped == kinds.count("Skipped") == sum(not item.judged for item in findings.items)
    expected = 1 if document.failures else 5 if document.errors else 0
    assert findings.exit_code == expected
    ET.fromstring(render(findings, "junit"))  # noqa: S314 - our own


def test_junit_names_and_reasons():
    document = JUnitXml.fromstring(render(EVERYTHING, "junit").encode())
    found = {case.name: [result.message for result in case.result] for suite in document for case in suite}
    assert found["one-step (protected)"] == ["one-step (protected): the lower bound exceeds the claim"]
    assert found["trace check: sample sizes at plan.of"] == ["trace check: sample sizes at plan.of: 40 of 40 | pairs"]
    assert found["trace check: noise source"] == ["not checked: no run line"]
    assert found["half noise (one-step)"] == ["was not caught, must be caught"]
    assert found["extraction (unprotected, control)"] != []
    assert found["trace check: order"] == []


def test_junit_names_are_one_each_and_do_not_depend_on_what_came_out():
    elsewhere = Claim(epsilon=8.0, delta=1e-5, relation="zero-out", subject="the same generator at epsilon 8")

    def names(verdict: str, lower: float) -> list[str]:
        facts = {"verdict": verdict, "epsilon_lower": lower, "leaked": int(lower), "note": str(lower)}
        items = (_item(**facts), _item(claim=elsewhere, **facts), _item(**facts))
        suite = ET.fromstring(render(Findings(certificate_sha256=None, items=items), "junit"))  # noqa: S314 - our own
        return [str(case.get("name")) for case in suite.iter("testcase")]

    assert names("CONSISTENT", 0.0) == names("VIOLATION", 9.0)
    assert names("CONSISTENT", 0.0) == [
        "extraction (protected)", "extraction (protected, epsilon 8)", "extraction (protected) [2]"
    ]  # fmt: skip


@pytest.mark.parametrize("findings", ALL.values(), ids=ALL)
def test_sarif_fits_the_schema(findings):
    jsonschema.Draft4Validator.check_schema(SCHEMA)
    log = json.loads(render(findings, "sarif"))
    jsonschema.Draft4Validator(SCHEMA).validate(log)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in run["results"])
    assert run["invocations"][0]["exitCode"] == findings.exit_code
    assert bool(run["results"]) == (findings.exit_code == 1)
    assert {(result["kind"], result["level"]) for result in run["results"]} <= {("fail", "error")}
    assert run["properties"]["outcome"] == findings.outcome
    whole = json.loads(render(findings, "sarif-all"))
    jsonschema.Draft4Validator(SCHEMA).validate(whole)
    (every,) = whole["runs"]
    assert len(every["results"]) >= len(findings.items)
    assert all(result["kind"] == "fail" or result["level"] == "none" for result in every["results"])
    undecided = any(result["kind"] == "open" for result in every["results"])
    assert undecided == any(outcome == "inconclusive" for outcome, _ in findings.outcomes()) or not findings.items


def test_sarif_points_to_the_audit_file_where_it_lies_in_the_repository(tmp_path):
    audit = tmp_path / "privacy audits" / "audit.toml"
    audit.parent.mkdir()
    audit.touch()
    for path, base, uri in (
        (audit, tmp_path, "privacy%20audits/audit.toml"),
        (audit, tmp_path / "elsewhere", "findings.json"),
        (tmp_path / "missing.toml", tmp_path, "findings.json"),
        (None, tmp_path, "findings.json"),
    ):
        (run,) = json.loads(render(sourced(INCONCLUSIVE, path, base=base), "sarif-all"))["runs"]
        places = {result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for result in run["results"]}
        assert places == {uri}


def test_sarif_shows_spans_by_digest_and_region():
    (run,) = json.loads(render(EVERYTHING, "sarif-all"))["runs"]
    leaked = [result for result in run["results"] if result["ruleId"] == "leaked-identifier"]
    assert len(leaked) == 2, "a control's leaks are not results"
    first = leaked[0]
    assert first["level"] == "error"
    assert first["partialFingerprints"] == {"identifierHmac/v1": "ab" * 16}
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "output-3", "uriBaseId": "AUDIT_OUTPUTS"}
    assert place["region"] == {"charOffset": 10, "charLength": 21}
    assert leaked[1]["level"] == "note"
    (passage,) = [result for result in run["results"] if result["ruleId"] == "verbatim-passage"]
    assert passage["locations"][0]["physicalLocation"]["region"] == {"charOffset": 5, "charLength": 94}


def test_several_findings_are_several_runs():
    log = json.loads(sarif.render(HOLDS, EVERYTHING))
    jsonschema.Draft4Validator(SCHEMA).validate(log)
    assert [run["properties"]["outcome"] for run in log["runs"]] == ["holds", "refuted"]


def test_markdown_has_a_row_for_each_finding_and_escapes_cells():
    page = render(EVERYTHING, "markdown")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert len(rows) == len(EVERYTHING.items) + 2  # and two headings
    assert "40 of 40 \\| pairs" in page
    assert page.startswith("## affidavit: Refuted")
    assert "Self-tests: 1 of 2" in page
    widths = {line.replace("\\|", "").count("|") for line in rows if "check" in line}
    assert widths == {4}


def test_the_summary_is_appended_where_github_says(tmp_path):
    path = tmp_path / "summary.md"
    path.write_text("before\n", encoding="utf-8")
    environment = {"GITHUB_STEP_SUMMARY": str(path)}
    assert summary.append(HOLDS, environment=environment) == path
    summary.append(EVERYTHING, environment=environment)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("before\n## affidavit: Holds")
    assert "## affidavit: Refuted" in text
    assert summary.append(HOLDS, environment={}) is None
    with pytest.raises(UsageError, match="cannot be written"):
        summary.append(HOLDS, environment={"GITHUB_STEP_SUMMARY": str(tmp_path / "none" / "summary.md")})


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_ends_in_a_line_feed_and_holds_what_makes_it_judged(form):
    for findings in ALL.values():
        text = render(findings, form)
        assert text.endswith("\n")
        assert not text.endswith("\n\n") or form == "markdown"
    assert "40 of 40" in render(EVERYTHING, form)


def test_a_check_that_lacks_power_is_inconclusive_unless_allowed():
    weak = CheckReport(
        title="trace check", alpha=1e-3, checks=(Check(name="sample sizes", status="underpowered", detail="few"),)
    )
    assert weak.exit_code == 5
    assert weak.findings(policy=Policy(allow_underpowered=True)).exit_code == 0
    assert "✅" in markdown_format.render(weak.findings(policy=Policy(allow_underpowered=True)))


def test_junit_holds_no_character_that_xml_cannot():
    odd = _item(attack="a\x00\x1b<b>&\ufffe", note="\x08")
    document = ET.fromstring(render(Findings(certificate_sha256=None, items=(odd,)), "junit"))  # noqa: S314 - our own
    case = document.find("testsuite/testcase")
    assert case is not None
    assert case.get("name") == "a\ufffd\ufffd<b>&\ufffd (protected)"
