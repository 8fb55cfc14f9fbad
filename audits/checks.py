"""What a trace check, a neighbour test or a sensitivity check says: one ``Check`` for each thing looked at.

    fault          it is not what the plan states: a fact, or a test at its share of alpha
    consistent     a fault would have shown, and did not
    underpowered   looked at, but with so few uses even a fault would not have shown
    not checked    the material does not say

A report becomes ``Findings`` like any attack's (``CheckReport.findings``), so that every output format
shows it: a fault is a VIOLATION. What could not be checked is shown and not judged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from affidavit.audits.faults import fault
from affidavit.audits.finding import CheckFinding
from affidavit.audits.findings import Findings, Policy
from affidavit.audits.verdict import Verdict

__all__ = ["Check", "CheckReport", "Status"]

Status = Literal["fault", "consistent", "underpowered", "not checked"]

_VERDICTS: dict[Status, Verdict] = {
    "fault": "VIOLATION",
    "consistent": "CONSISTENT",
    "underpowered": "UNDERPOWERED",
    "not checked": "NOT CHECKED",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at.

    ``path`` is the plan node it is about ("" for the whole run), ``number`` the published fault it looks
    for (``affidavit.audits.faults``; None for others), ``seen`` how many uses, samples or rows it looked
    at. ``p_value`` is None where no chance is involved; else it was held against ``alpha``.
    """

    name: str
    status: Status
    detail: str
    path: str = ""
    number: int | None = None
    seen: int = 0
    p_value: float | None = None
    alpha: float | None = None

    @property
    def slug(self) -> str:
        """The published fault's short name, or the check's own."""
        return self.name.replace(" ", "-") if self.number is None else fault(self.number).slug

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "check": self.name,
            "status": self.status,
            "path": self.path,
            "fault": None if self.number is None else self.slug,
            "seen": self.seen,
            "p_value": self.p_value,
            "alpha": self.alpha,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """All checks of one trace or one pair of neighbours; ``alpha`` bounds the chance of any false fault."""

    title: str
    checks: tuple[Check, ...]
    alpha: float
    certificate_sha256: str | None = None

    @property
    def faults(self) -> tuple[Check, ...]:
        """What is wrong."""
        return tuple(check for check in self.checks if check.status == "fault")

    def about(self, name: str) -> tuple[Check, ...]:
        """The checks of that name."""
        return tuple(check for check in self.checks if check.name == name)

    @property
    def exit_code(self) -> int:
        """1 for a fault, before 5 where something lacked power, before 0."""
        return self.findings().exit_code

    def findings(self, *, policy: Policy | None = None) -> Findings:
        """The same as findings, for every output format."""
        return Findings(
            certificate_sha256=self.certificate_sha256,
            items=self.items(),
            policy=policy or Policy(),
        )

    def items(self) -> tuple[CheckFinding, ...]:
        """A finding for each check."""
        return tuple(self._finding(check) for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "title": self.title,
            "alpha": self.alpha,
            "certificate_sha256": self.certificate_sha256,
            "checks": [check.to_dict() for check in self.checks],
        }

    def _finding(self, check: Check) -> CheckFinding:
        return CheckFinding(
            attack=f"{self.title}: {check.name}" + (f" at {check.path}" if check.path else ""),
            verdict=_VERDICTS[check.status],
            seen=check.seen,
            p_value=check.p_value,
            alpha=self.alpha if check.alpha is None else check.alpha,
            correction="" if check.p_value is None else f"a share of {self.alpha:g} for the whole report",
            note=check.detail,
        )


def worst_first(checks: Iterable[Check]) -> tuple[Check, ...]:
    """Faults, then what lacked power, then what is consistent, then what was not checked; else in order."""
    order: tuple[Status, ...] = ("fault", "underpowered", "consistent", "not checked")
    return tuple(sorted(checks, key=lambda check: order.index(check.status)))
