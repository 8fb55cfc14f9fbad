"""A certificate's numbers, derived again from its plan: by code that did not issue them.

A signature proves who said a number, not that it is right; whoever holds a trusted key can sign any. So the
gate (``permit``) asks ``Ledger.confirm`` before it lets a run draw, and ``affidavit verify --recompute`` asks
``recheck``.

The answer depends on the signed statement and on this code, on nothing else; so a process computes it once for each,
and a ledger notes it for other processes, under the ``verifier`` that said it.
"""

from __future__ import annotations

import hashlib
import json
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

from affidavit.accountant import decimals
from affidavit.accountant.attestation.statement import Certificate, Claim, encode
from affidavit.accountant.errors import ClaimRefused, NotSupported
from affidavit.accountant.filters.again import understated
from affidavit.accountant.plan import core, to_dict
from affidavit.accountant.verifier import ClaimCheck, check_claim

__all__ = ["confirm", "recheck", "statement_sha256", "verifier"]

_confirmed: set[str] = set()
"""Statements that hold, by this process's own computation; never by a ledger's note, which counts there only."""
_MOST = 4096


@cache
def verifier() -> str:
    """Digest of all code that an answer rests on, and of the arithmetic below it; empty where it cannot be read."""
    accountant = Path(__file__).parents[1]
    files = sorted(accountant.rglob("*.py"))
    found = hashlib.sha256(platform.python_version().encode())
    for package in ("mpmath", "python-flint", "numpy"):
        found.update(f"\0{package} {version(package)}".encode())
    for path in files:
        found.update(b"\0" + path.relative_to(accountant).as_posix().encode() + b"\0")
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest() if files else ""


def statement_sha256(certificate: Certificate) -> str:
    """Of the content, however the object came about, and of what its leaves cost as they are registered here."""
    spelled = json.dumps(to_dict(core(certificate.plan)), sort_keys=True)
    return hashlib.sha256(encode(certificate) + b"\0" + spelled.encode()).hexdigest()


def recheck(certificate: Certificate) -> tuple[ClaimCheck, ...]:
    """Every claim, asked of the verifier. Raises ``NotSupported`` where it has no formula for the plan."""
    return tuple(_recomputed(certificate, claim) for claim in certificate.claims)


def confirm(certificate: Certificate) -> None:
    """Refuse a certificate whose plan costs more than it claims, or may, in any unit. Raises ``ClaimRefused``.

    What is issued holds (``settle``), so a claim that the verifier cannot confirm was not issued here.
    """
    statement = statement_sha256(certificate)
    if statement in _confirmed:
        return
    for claim in certificate.claims:
        try:
            answer = _recomputed(certificate, claim).answer
        except NotSupported:
            answer = "undecided"
        if answer == "holds":
            continue
        claimed = f"({decimals.show(claim.epsilon)}, {decimals.show(claim.delta)})"
        raise ClaimRefused(
            f"the certificate claims (ε, δ) = {claimed}, which its own plan "
            + ("exceeds" if answer == "does not hold" else "is not known to keep"),
            hint="Nothing was charged. Certify the run anew, and ask whoever signed this how it came about.",
        )

    if below := understated(certificate.plan, certificate.costs, relation=certificate.relation):
        raise ClaimRefused(
            f"the certificate states less {below} than its own plan costs, or than can be shown",
            hint="Nothing was charged. Certify the run anew, and ask whoever signed this how it came about.",
        )
    if len(_confirmed) >= _MOST:
        _confirmed.clear()
    _confirmed.add(statement)


def _recomputed(certificate: Certificate, claim: Claim) -> ClaimCheck:
    """The claim as written, with both numbers rounded against it."""
    check = check_claim(
        certificate.plan,
        relation=certificate.relation,
        epsilon=decimals.float_at_most(claim.epsilon),
        delta=decimals.float_at_most(claim.delta),
    )
    if check.answer != "does not hold":
        return check
    return check_claim(
        certificate.plan,
        relation=certificate.relation,
        epsilon=decimals.float_at_least(claim.epsilon),
        delta=decimals.float_at_least(claim.delta),
    )
