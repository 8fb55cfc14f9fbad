"""Run an audit: an AUDIT file, a claim and callables in; findings out.

What the callables are, and that nothing of what they make leaves the operator, is said in ``given``.
Findings hold digests and numbers. Every attack gets its share of the file's one level.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from affidavit.audits.attacks.cases import Release
from affidavit.audits.attacks.registry import MEMBERSHIP_ATTACKS, MembershipName
from affidavit.audits.auditfile import AuditFile, CheckName
from affidavit.audits.certified import Certified
from affidavit.audits.experiments.run_checks import run_check
from affidavit.audits.experiments.run_extraction import run_extraction
from affidavit.audits.experiments.run_membership import run_membership
from affidavit.audits.experiments.run_one_step import run_one_step
from affidavit.audits.experiments.run_per_run import run_per_run
from affidavit.audits.experiments.run_released import run_released
from affidavit.audits.findings import Finding, Findings, SelfTest
from affidavit.audits.given import (
    GeneratorCheck,
    Given,
    Progress,
    ProtectedDemonstrate,
    ProtectedEndpoint,
    ProtectedGenerate,
    Results,
)
from affidavit.audits.pii.detect import require_detectors
from affidavit.audits.textmodel import AnsweringModel, Record

if TYPE_CHECKING:
    from affidavit.mechanisms.base import Noise

__all__ = [
    "Progress",
    "ProtectedDemonstrate",
    "ProtectedEndpoint",
    "ProtectedGenerate",
    "require_packages",
    "run_audit",
]


def require_packages(audit: AuditFile) -> None:
    """Raises ``PackageMissing`` where the file's attacks need what is not installed."""
    if not {"extraction", "released-text"}.isdisjoint(audit.attacks):
        require_detectors(audit.kinds)
    if "canary" in audit.attacks:
        require_detectors(("email",))


def run_audit(
    audit: AuditFile,
    certified: Certified,
    *,
    alpha: float | None = None,
    records: Sequence[Record] = (),
    model: AnsweringModel | None = None,
    protected_generate: ProtectedGenerate | None = None,
    protected_demonstrate: ProtectedDemonstrate | None = None,
    protected_endpoint: ProtectedEndpoint | None = None,
    release: Release | None = None,
    noise: Noise | None = None,
    users: Mapping[str, str] | None = None,
    released: Sequence[str] = (),
    held_out: Sequence[Record] = (),
    checks: Mapping[CheckName, GeneratorCheck] | None = None,
    progress: Progress | None = None,
) -> Findings:
    """Everything the audit file asks for, with its self-tests.

    ``alpha`` overrides the file's level for the whole report. ``users`` says whose record each is, by its id.
    ``released`` and ``held_out`` are for the search of released text. ``release`` is the mechanism under the
    one-step audit (default: the package's own), ``noise`` where it draws from (default: the operating system).
    ``checks`` are those of the generator behind the claim, made when called.

    Raises ``UsageError`` when something that an attack needs is not given, ``DataError`` when there
    are too few usable records, ``RunFileError`` when there are too few for the file's shadow prompts,
    ``PackageMissing``.
    """
    require_packages(audit)
    audit = audit if alpha is None else audit.model_copy(update={"alpha": alpha})
    level = audit.level
    given = Given(
        audit,
        certified,
        level.each,
        records=tuple(records),
        users=users,
        released=tuple(released),
        held_out=tuple(held_out),
        model=model,
        generate=protected_generate,
        demonstrate=protected_demonstrate,
        endpoint=protected_endpoint,
        checks=checks or {},
        tell=progress or (lambda _: None),
    )
    items, self_tests = _results(given, release, noise)
    return Findings(
        certificate_sha256=certified.sha256,
        items=tuple(item if item.check else replace(item, correction=level.note(item.correction)) for item in items),
        self_tests=tuple(self_tests),
        policy=audit.policy.policy(),
    )


def _results(given: Given, release: Release | None, noise: Noise | None) -> Results:
    """All attacks of the file; membership attacks together, since they share what is shown."""
    items: list[Finding] = []
    self_tests: list[SelfTest] = []
    for name in given.audit.attacks:
        if name == "one-step":
            found = run_one_step(given, release=release, noise=noise)
        elif name == "released-text":
            found = run_released(given)
        elif name == "sensitivity" or name == "neighbours":  # noqa: PLR1714 - for the type checker
            found = run_check(given, name)
        elif name in {"extraction", "canary"}:
            found = run_extraction(given, canaries=name == "canary")
        else:
            continue
        items += found[0]
        self_tests += found[1]
    members: list[MembershipName] = [name for name in given.audit.attacks if name in MEMBERSHIP_ATTACKS]
    if members:
        found = run_per_run(given, members) if given.audit.game == "per-run" else run_membership(given, members)
        items += found[0]
        self_tests += found[1]
    return items, self_tests
