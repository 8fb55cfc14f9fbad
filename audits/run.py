"""Run an audit: an AUDIT file, a claim and the run under test in; findings out.

Findings hold digests and numbers. Every attack gets its share of the file's one level.
"""

from __future__ import annotations

from dataclasses import replace

from affidavit.audits.auditfile import AuditFile
from affidavit.audits.certified import Certified
from affidavit.audits.experiments.registry import chosen
from affidavit.audits.finding import CheckFinding, Finding
from affidavit.audits.findings import Findings, SelfTest
from affidavit.audits.given import Given, Material, Progress
from affidavit.audits.pii.detect import require_detectors
from affidavit.audits.under_test import RunUnderTest

__all__ = ["require_packages", "run_audit"]


def require_packages(audit: AuditFile) -> None:
    """Raises ``PackageMissing`` where the file's attacks need what is not installed."""
    if not {"extraction", "released-text"}.isdisjoint(audit.attacks):
        require_detectors(audit.kinds)
    if "canary" in audit.attacks:
        require_detectors(("email",))


def run_audit(
    audit: AuditFile,
    certified: Certified,
    material: Material | None = None,
    run: RunUnderTest | None = None,
    *,
    progress: Progress | None = None,
) -> Findings:
    """Everything the audit file asks for, with its self-tests.

    Raises ``UsageError`` when something that an attack needs is not given, ``DataError`` when there
    are too few usable records, ``RunFileError`` when there are too few for the file's shadow prompts,
    ``PackageMissing``.
    """
    require_packages(audit)
    level = audit.level
    given = Given(
        audit,
        certified,
        level.each,
        material=material or Material(),
        run=run or RunUnderTest(),
        tell=progress or (lambda _: None),
    )
    items: list[Finding] = []
    self_tests: list[SelfTest] = []
    for experiment, attacks in chosen(audit):
        found, tests = experiment.run(given, attacks)
        items += found
        self_tests += tests
    return Findings(
        certificate_sha256=certified.sha256,
        items=tuple(
            item if isinstance(item, CheckFinding) else replace(item, correction=level.note(item.correction))
            for item in items
        ),
        self_tests=tuple(self_tests),
        policy=audit.policy.policy(),
    )
