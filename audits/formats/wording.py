"""What every format says of one finding: its outcome, its reason and its numbers, in the same words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from affidavit.audits.findings import Finding, Findings, Outcome

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
    judgement: Judgement
    reasons: tuple[str, ...]

    @property
    def title(self) -> str:
        """Attack or check, and its target."""
        role = ", control" if self.item.control and not self.item.check else ""
        return self.item.attack if self.item.check else f"{self.item.attack} ({self.item.target}{role})"


def judge(findings: Findings) -> tuple[Judged, ...]:
    """Every item, in order."""
    return tuple(_judged(item, findings.outcomes_of(item)) for item in findings.items)


def _judged(item: Finding, outcomes: Sequence[tuple[Outcome, str]]) -> Judged:
    if item.control:
        told = item.note if item.check else f"control: {item.badge.lower()}" + (f" ({item.note})" if item.note else "")
        return Judged(item, "not judged", (told,))
    reasons = tuple(reason for _, reason in outcomes)
    found = {outcome for outcome, _ in outcomes}
    if "refuted" in found:
        return Judged(item, "refuted", reasons)
    if "policy-failed" in found:
        return Judged(item, "policy-failed", reasons)
    if found:
        return Judged(item, "inconclusive", reasons)
    return Judged(item, "holds", (item.note,) if item.check else ())


def measured(item: Finding) -> tuple[tuple[str, str], ...]:
    """A finding's numbers as (name, value), those that it has."""
    found: list[tuple[str, str]] = [("verdict", item.badge if item.control else item.verdict)]
    if item.statistic is not None:
        found.append((item.statistic_name, f"{item.statistic:.4g}"))
    if item.interval is not None:
        low, high = item.interval
        found.append((f"interval ({item.interval_method})", f"[{low:.4g}, {high:.4g}]"))
    for name, value in (
        ("limit by the certificate", item.limit),
        ("epsilon at least", item.epsilon_lower),
        ("it could have shown", item.ceiling),
    ):
        if value is not None:
            found.append((name, f"{value:.4g}"))
    if item.claim is not None:
        claim = item.claim
        found.append(("claim", f"({claim.epsilon:.6g}, {claim.delta:.3g}), {claim.relation}, of the {claim.subject}"))
    if item.leaked is not None:
        leaked = f"{item.leaked}, {item.leaked_beyond_guessable} beyond the guessable"
        found.append(("leaked", leaked))
    if item.overlap is not None:
        found.append(("verbatim passages", f"in {item.overlap.verbatim} of {item.overlap.texts} texts"))
    if not item.check:
        found.append(("members, non-members, runs", f"{item.n_members}, {item.n_non_members}, {item.runs}"))
    found.append(("alpha", f"{item.alpha:g}" + (f" ({item.correction})" if item.correction else "")))
    if item.utility is not None:
        found.append((item.utility.name, f"{item.utility.value:.4g}"))
    return tuple(found)


def rule_id(item: Finding) -> str:
    """A stable name for what was looked for: the attack's, or the check's without its place in the plan."""
    name = item.attack.partition(" at plan")[0]
    return re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")
