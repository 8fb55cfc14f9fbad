"""Audit a claim: a plan that somebody states for a generator of theirs, without a certificate.

Nothing is signed, and nothing can be: what ran is not our code. A claim that nothing here refutes is no more than
that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from affidavit.accountant import validate
from affidavit.accountant.errors import NotSupported, UsageError
from affidavit.accountant.plan import Envelope
from affidavit.accountant.settle import known
from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.accountant.validate import Relation
from affidavit.audits.attacks.registry import MEMBERSHIP_ATTACKS
from affidavit.audits.certified import Certified
from affidavit.audits.checks import Check, CheckReport, Status
from affidavit.audits.findings import Findings, merge
from affidavit.audits.given import Material
from affidavit.audits.run import run_audit
from affidavit.audits.textmodel import Record as AuditRecord
from affidavit.audits.trace.check import check_trace
from affidavit.audits.trace.events import parse
from affidavit.audits.under_test import RunUnderTest
from affidavit.foreign.examine import Function, neighbours, repeat, texts_of, trace
from affidavit.foreign.load import called
from affidavit.foreign.report import watch_report
from affidavit.generation.dataset import Record
from affidavit.records import read_all, read_texts

if TYPE_CHECKING:
    from affidavit.audits.attacks.cases import Inputs, Release
    from affidavit.audits.auditfile import AuditFile
    from affidavit.mechanisms.base import Permit

__all__ = ["Claim", "audit_claim", "checks_of", "claim_check", "merged", "released_by"]


@dataclass(frozen=True, slots=True)
class Claim:
    """``envelope``: the plan that is claimed, with its relation and δ. ``epsilon``: what is said to follow, if told."""

    envelope: Envelope
    epsilon: float | None = None

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            validate.real(self.epsilon, path="claim")

    def certified(self) -> Certified:
        """As the attacks take it, under no certificate; the stated ε at δ stands in for the plan's own curve."""
        plan, relation, delta = self.envelope.plan, self.envelope.relation, self.envelope.delta
        if delta is None:
            raise UsageError("the plan states no delta", hint="For example `delta = 1e-05` in the plan file.")
        own = Certified.of_plan(plan, relation=relation, delta=delta, subject="claim")
        if self.epsilon is None:
            return own
        return replace(own, epsilon=self.epsilon, curve=PrivacyCurve(((self.epsilon, delta),)))


def claim_check(claim: Claim) -> CheckReport:
    """The stated ε against the plan's, from both sides; of the plan alone, before anything is run."""
    certified = claim.certified()
    costs, _ = known(certified.plan, relation=certified.relation, delta=certified.delta)
    told = f"{costs.epsilon_lower:.4g} to {costs.epsilon_upper:.4g} under {certified.relation} at δ {certified.delta:g}"
    status: Status
    if claim.epsilon is None:
        status, detail = "not checked", f"no ε is claimed; the plan costs {told}"
    elif claim.epsilon < costs.epsilon_lower:
        status, detail = "fault", f"ε {claim.epsilon:g} is claimed, the plan costs {told}"
    elif claim.epsilon < costs.epsilon_upper:
        status, detail = "underpowered", f"ε {claim.epsilon:g} is claimed, and not decided: the plan costs {told}"
    else:
        status, detail = "consistent", f"ε {claim.epsilon:g} is claimed, the plan costs {told}"
    check = Check(name="claimed epsilon", status=status, seen=1, detail=detail)
    return CheckReport(title="claim", checks=(check,), alpha=0.0)


def checks_of(
    function: Function,
    records: Sequence[Record],
    *,
    relation: Relation,
    claim: Claim | None = None,
    tell: Callable[[str], None] = lambda _: None,
    seeds: Sequence[int] = (1,),
) -> tuple[tuple[CheckReport, ...], list[dict[str, Any]]]:
    """Everything that running the generator shows, and the trace of one run (private)."""
    tell("one run, watched")
    watch = trace(function, records)
    lines = watch.trace(generator=getattr(function, "__module__", ""))
    reports = [] if claim is None else [claim_check(claim)]
    if claim is not None and watch.steps:
        envelope = claim.envelope
        reports.append(check_trace(parse(lines), envelope.plan, relation=envelope.relation, delta=envelope.delta))
    reports.append(watch_report(watch))
    tell("two runs, compared")
    reports.append(repeat(function, records))
    tell("neighbours")
    reports.append(neighbours(function, records, relation=relation, seeds=seeds))
    return tuple(reports), lines


def released_by(function: Callable[[Any], Any]) -> Release:
    """Somebody's mechanism for the one-step audit: a function of the chosen input alone, which gives a finite number.

    One number in an array is that number. Raises ``UsageError`` for anything else: a NaN would be on neither side of
    a threshold, and be counted as silence.
    """

    def release(permit: Permit, path: str, inputs: Inputs) -> float:
        import numpy as np

        permit.use(path)
        value = np.asarray(called(function, inputs, what="the mechanism"))
        if value.size != 1 or value.dtype.kind not in "bif" or not np.isfinite(value).all():
            raise UsageError(
                f"the mechanism gave {value.size} values of {value.dtype.name}, not one finite number",
                hint="For noise, such as `inputs[0] + noise`; of a choice, 1 if it was the first, else 0.",
            )
        return float(value.item())

    return release


def audit_claim(
    settings: AuditFile,
    claim: Claim,
    records: Sequence[Record],
    *,
    function: Function | None = None,
    release: Callable[[Any], Any] | None = None,
    model: Any = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Findings:
    """The attacks of an audit file on a claim. Raises ``NotSupported`` for one that needs our generators."""
    attacks = set(settings.attacks)
    if not {"extraction", "canary"}.isdisjoint(attacks):
        raise NotSupported(
            "extraction asks a generator with prompts of its own, which another's does not take",
            hint='`attack = "reference"` asks who is a member; released-text searches what was released.',
        )
    if "one-step" in attacks and release is None:
        raise UsageError(
            "one-step would audit the mechanism of this package, which is not theirs",
            hint="Name theirs, a function of the chosen input: `--release glue.py:release`",
        )
    membership = not attacks.isdisjoint(MEMBERSHIP_ATTACKS)
    made = membership or "echo" in attacks
    if made and settings.target == "protected" and function is None:
        raise UsageError("there is no generator to make what is attacked", hint="Name it: `--generator glue.py:run`")
    if membership and model is None:
        raise UsageError("membership attacks ask a model", hint="Name one, or for a try `--model toy`")

    searching = "released-text" in attacks
    material = Material(
        records=_for_audit(records),
        model=model,
        released=read_texts(settings.released_path) if searching else (),
        held_out=_for_audit(read_all(settings.held_out_path)) if searching else (),
    )
    theirs = _Theirs(function, None if release is None else released_by(release))
    return run_audit(settings, claim.certified(), material, theirs, progress=tell)


@dataclass(frozen=True, slots=True)
class _Theirs(RunUnderTest):
    """Somebody's generator and mechanism, as far as they were named."""

    function: Function | None
    release: Release | None

    def demonstrate(self, records: Sequence[AuditRecord], *, epsilon: float, seed: int) -> list[AuditRecord]:  # noqa: ARG002
        """What it writes from these records."""
        given = [Record(each.id, each.text, each.label or "") for each in records]
        made = () if self.function is None else texts_of(called(self.function, given))
        return [AuditRecord(f"released-{number}", text, "") for number, text in enumerate(made)]


def _for_audit(records: Sequence[Record]) -> list[AuditRecord]:
    return [AuditRecord(record.id, record.text, record.label) for record in records]


def merged(reports: Sequence[CheckReport], findings: Findings | None) -> Findings:
    """Checks and attacks as one file of findings, bound to no certificate."""
    parts = [report.findings(policy=None if findings is None else findings.policy) for report in reports]
    return merge([*parts, *([] if findings is None else [findings])])
