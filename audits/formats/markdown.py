"""A page of Markdown: what was found, what could have been found, and what stands in the way of a verdict."""

from __future__ import annotations

from affidavit.audits.finding import CheckFinding, Tested, leakage_of
from affidavit.audits.findings import Findings
from affidavit.audits.formats.wording import HEADLINES, Judged, judge

__all__ = ["render"]

_MARKS = {
    "refuted": "❌ refuted",
    "policy-failed": "❌ policy failed",
    "inconclusive": "⚠️ inconclusive",
    "holds": "✅ holds",
    "not judged": "➖ not judged",
}


def render(*findings: Findings) -> str:
    """The page: a section for each findings file."""
    return "\n".join(map(_section, findings))


def _section(findings: Findings) -> str:
    bound = f"Certificate `{findings.certificate_sha256[:16]}…`" if findings.certificate_sha256 else "No certificate"
    policy = findings.policy
    underpowered = "tolerated" if policy.allow_underpowered else "not tolerated"
    lines = [
        f"## affidavit: {HEADLINES[findings.outcome]}",
        "",
        f"{bound}. Tolerated: {policy.max_leaked} identifiers beyond the guessable, {policy.max_verbatim} texts with "
        f"verbatim passages, {policy.max_near_copies} with near copies, {policy.max_extractable} records that can be "
        f"asked out of a service; an audit without power is {underpowered}.",
        "",
    ]
    judged = judge(findings)
    attacks = [each for each in judged if not isinstance(each.item, CheckFinding)]
    checks = [each for each in judged if isinstance(each.item, CheckFinding)]
    if attacks:
        lines += [
            "| attack | outcome | ε at least | could have shown | claimed ε | leaked | α |",
            "|---|---|--:|--:|--:|--:|--:|",
            *(_attack(each) for each in attacks),
            "",
        ]
    if checks:
        lines += ["| check | outcome | found |", "|---|---|---|", *(_check(each) for each in checks), ""]
    if findings.self_tests:
        passed = sum(test.passed for test in findings.self_tests)
        lines += [f"Self-tests: {passed} of {len(findings.self_tests)} as they must be.", ""]
    lines += [f"- **{outcome}**: {_cell(reason)}" for outcome, reason in findings.outcomes()]
    return "\n".join(lines) + "\n"


def _attack(judged: Judged) -> str:
    item, leakage = judged.item, leakage_of(judged.item)
    tested = item if isinstance(item, Tested) else None
    cells = (
        judged.title,
        _MARKS[judged.judgement],
        _number(tested.epsilon_lower if tested else None),
        _number(tested.ceiling if tested else None),
        _number(tested.claim.epsilon if tested and tested.claim else None),
        "" if leakage is None else f"{leakage.leaked} ({leakage.beyond_guessable} beyond the guessable)",
        f"{item.alpha:g}",
    )
    return "| " + " | ".join(map(_cell, cells)) + " |"


def _check(judged: Judged) -> str:
    found = "; ".join(reason for reason in judged.reasons if reason).removeprefix(f"{judged.title}: ")
    return "| " + " | ".join(map(_cell, (judged.title, _MARKS[judged.judgement], found))) + " |"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")
