"""Check how a run was made: its trace, held against the certified plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from affidavit.accountant.attestation import certificate as certificates
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.clock import Clock, utc_now
from affidavit.accountant.errors import UsageError
from affidavit.planfile import read_envelope

if TYPE_CHECKING:
    from affidavit.audits.checks import CheckReport

__all__ = ["check_trace"]


def check_trace(
    trace: Path,
    *,
    certificate: Path | None = None,
    plan: str | None = None,
    alpha: float | None = None,
    keyring: Keyring | None = None,
    clock: Clock = utc_now,
) -> CheckReport:
    """Hold a trace against the plan of ``certificate``, or of a plan file for a generator without one.

    alpha: the chance of any false fault, over the whole report; default 1e-3. Raises ``UsageError`` for a trace that
    is not one, ``PlanError``, ``CertificateError`` and its kinds.
    """
    from affidavit.audits.trace import check, events

    level = check.ALPHA if alpha is None else alpha
    if not 0.0 < level < 1.0:
        raise UsageError(f"alpha is {level:g}", hint="For example `--alpha 0.001`.")
    if (certificate is None) == (plan is None):
        raise UsageError(
            "a trace is held against one plan",
            hint="`--certificate CERT.json`; of a generator that is not ours, its plan with --plan."
            if plan is None
            else "Remove `--plan`, or `--certificate` for a generator without one.",
        )
    if plan is not None:
        envelope = read_envelope(plan)
        return check.check_trace(
            events.read(trace), envelope.plan, relation=envelope.relation, delta=envelope.delta, alpha=level
        )
    found = certificates.load(certificate, trusted=(keyring or Keyring.default()).trusted(), clock=clock)
    return check.check_trace(
        events.read(trace),
        found.plan,
        relation=found.relation,
        delta=float(found.claims[0].delta),
        alpha=level,
        certificate_sha256=found.sha256,
    )
