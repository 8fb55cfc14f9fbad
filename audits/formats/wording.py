"""What every format says of one finding: its outcome, its reason and its numbers, in the same words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from affidavit.audits.finding import (
    CheckFinding,
    DiscoverableFinding,
    ExtractionFinding,
    Finding,
    SearchFinding,
    Tested,
    leakage_of,
    overlap_of,
)
from affidavit.audits.findings import Findings, Outcome
from affidavit.audits.sentences import sentence

__all__ = ["HEADLINES", "Judged", "Judgement", "judge", "measured", "rule_id"]

Judgement = Literal["refuted", "policy-failed", "inconclusive", "holds", "not judged"]

HEADLINES: dict[Outcome, str] = {
    "refuted": "Refuted",
    "policy-failed": "Policy failed",
    "inconclusive": "Inconclusive",
    "holds": "Holds: an audit that could have shown a violation did not",
}


@dataclass(frozen=True, slots=True)
class Judged:
    """One finding with the worst that it comes to, and why."""

    item: Finding
    title: str
    judgement: Judgement
    reasons: tuple[str, ...]


def judge(findings: Findings) -> tuple[Judged, ...]:
    """Every item, in order, each under a title of its own that does not depend on what came out."""
    titles = _told_apart([_title(item) for item in findings.items])
    return tuple(
        _judged(item, title, findings.outcomes_of(item)) for item, title in zip(findings.items, titles, strict=True)
    )


def _title(item: Finding) -> str:
    """Attack or check, what it ran on, and at which ε where that is not the certified one."""
    if isinstance(item, CheckFinding):
        return item.attack
    role = "" if item.judged else ", control"
    claim = item.claim if isinstance(item, Tested) else None
    if claim is not None and claim.subject.startswith("the same generator"):
        role += f", epsilon {claim.epsilon:g}"
    return f"{item.attack} ({item.target}{role})"


def _told_apart(titles: Sequence[str]) -> list[str]:
    """Those that are shared, numbered from the second on: an audit more does not rename the first."""
    seen: Counter[str] = Counter()
    apart = []
    for title in titles:
        seen[title] += 1
        apart.append(title if seen[title] == 1 else f"{title} [{seen[title]}]")
    return apart


def _judged(item: Finding, title: str, outcomes: Sequence[tuple[Outcome, str]]) -> Judged:
    check = isinstance(item, CheckFinding)
    if not item.judged:
        why = "not checked: " if check else f"control: {item.badge.lower()}"
        told = f"{why}{item.note}" if check else f"{why} ({item.note})" if item.note else why
        return Judged(item, title, "not judged", (told,))
    reasons = tuple(reason for _, reason in outcomes)
    found = {outcome for outcome, _ in outcomes}
    if "refuted" in found:
        return Judged(item, title, "refuted", reasons)
    if "policy-failed" in found:
        return Judged(item, title, "policy-failed", reasons)
    if found:
        return Judged(item, title, "inconclusive", reasons)
    return Judged(item, title, "holds", (item.note,) if check else ())


def measured(item: Finding) -> tuple[tuple[str, str], ...]:
    """A finding's numbers as (name, value), those that it has."""
    found: list[tuple[str, str]] = [("verdict", item.badge), ("found", sentence(item))]
    leakage, overlap = leakage_of(item), overlap_of(item)
    if isinstance(item, Tested):
        if item.epsilon_lower is not None:
            found.append(("epsilon at least", f"{item.epsilon_lower:.4g}"))
        found.append(("it could have shown", f"{item.ceiling:.4g}"))
        if (claim := item.claim) is not None:
            told = f"({claim.epsilon:.6g}, {claim.delta:.3g}), {claim.relation}, of the {claim.subject}"
            found.append(("claim", told))
    if leakage is not None:
        found.append(("leaked", f"{leakage.leaked}, {leakage.beyond_guessable} beyond the guessable"))
    if overlap is not None:
        found.append(("verbatim passages", f"in {overlap.verbatim} of {overlap.texts} texts"))
        if (near := overlap.near) is not None:
            found.append(("near copies", f"in {near.near} of {near.texts} texts; by chance {near.chance:.3g}"))
    if isinstance(item, Tested):
        found.append(("members, non-members, runs", f"{item.n_members}, {item.n_non_members}, {item.runs}"))
    if isinstance(item, DiscoverableFinding):
        found.append(("extractable", f"{item.extractable} and {item.held_out_extractable}; by chance {item.luck:.3g}"))
    if isinstance(item, SearchFinding | DiscoverableFinding):
        found.append(("members, held out", f"{item.members}, {item.held_out}"))
    found.append(("alpha", f"{item.alpha:g}" + (f" ({item.correction})" if item.correction else "")))
    if isinstance(item, ExtractionFinding) and item.utility is not None:
        found.append((item.utility.name, f"{item.utility.value:.4g}"))
    return tuple(found)


def rule_id(item: Finding) -> str:
    """A stable name for what was looked for: the attack's, or the check's without its place in the plan."""
    name = item.attack.partition(" at plan")[0]
    return re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")
