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
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from affidavit.accountant import decimals
from affidavit.accountant.attestation.statement import Certificate, Claim, CurvePoint, encode
from affidavit.accountant.errors import ClaimRefused, NotSupported
from affidavit.accountant.filters.again import understated
from affidavit.accountant.plan import core, to_dict
from affidavit.accountant.risk import risk_limits
from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.accountant.verifier import ClaimCheck, check_claim, recomputed_curve

__all__ = ["confirm", "note", "recheck", "statement_sha256", "verifier"]

_confirmed: set[str] = set()
"""Statements that hold, by this process's own computation; never by a ledger's note, which counts there only."""
_MOST = 4096
_ANEW = "Certify the run anew, and ask whoever signed this how it came about."
_LAST_DIGITS = 1e-9
"""What limits that follow from rounded points may differ by, relative; they are stated rounded up."""


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
    """Every claim, asked of the verifier. Raises ``NotSupported`` where it has no formula for the plan.

    Where all hold, ``ClaimRefused`` for any other number that its plan is not known to keep: a filter's cost, a point
    of the curve, a limit of the risk.
    """
    checks = tuple(_recomputed(certificate, claim) for claim in certificate.claims)
    if all(check.answer == "holds" for check in checks):
        _refuse(_costs(certificate) or _curve(certificate) or _risk(certificate), "Rely on none of its numbers.")
    return checks


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
        if answer != "holds":
            claimed = f"({decimals.show(claim.epsilon)}, {decimals.show(claim.delta)})"
            verb = "exceeds" if answer == "does not hold" else "is not known to keep"
            problem = f"the certificate claims (ε, δ) = {claimed}, which its own plan {verb}"
            raise ClaimRefused(problem, hint=f"Nothing was charged. {_ANEW}")
    _refuse(_costs(certificate), "Nothing was charged.")
    if len(_confirmed) >= _MOST:
        _confirmed.clear()
    _confirmed.add(statement)


def note(certificate: Certificate, *, ledger: str) -> dict[str, Any]:
    """What an entry of the ledger with this id says: the numbers were derived again here, by this verifier.

    Nobody makes one without ``ledger.key``; with the ledger's id, so that a row copied from another ledger under the
    same key says nothing here. It is found by an id that all of these determine.
    """
    facts = {
        "ledger": ledger,
        "certificate_sha256": certificate.sha256,
        "statement_sha256": statement_sha256(certificate),
        "verifier": verifier(),
    }
    named = "\0".join(facts.values()).encode()
    return {"kind": "confirm", "entry": hashlib.sha256(named).hexdigest()[:32], **facts}


def _recomputed(certificate: Certificate, claim: Claim) -> ClaimCheck:
    """The claim as written, with both numbers rounded against it; or for it, where it does not hold then."""

    def at(rounded: Callable[[Decimal], float]) -> ClaimCheck:
        epsilon, delta = rounded(claim.epsilon), rounded(claim.delta)
        return check_claim(certificate.plan, relation=certificate.relation, epsilon=epsilon, delta=delta)

    check = at(decimals.float_at_most)
    return at(decimals.float_at_least) if check.answer == "does not hold" else check


def _refuse(below: str, first: str) -> None:
    if below:
        problem = f"the certificate states less {below} than its own plan costs, or than can be shown"
        raise ClaimRefused(problem, hint=f"{first} {_ANEW}")


def _costs(certificate: Certificate) -> str:
    return understated(certificate.plan, certificate.costs, relation=certificate.relation)


def _curve(certificate: Certificate) -> str:
    """The first point of the curve that neither a claim nor the verifier shows; those in doubt are asked one by one."""

    def follows(point: CurvePoint) -> bool:
        return any(point.epsilon >= claim.epsilon and point.delta >= claim.delta for claim in certificate.claims)

    points = [point for point in certificate.curve if not follows(point)]
    if any(point.epsilon < 0 for point in points):
        return "δ at an ε below 0"
    places = [decimals.float_at_most(point.epsilon) for point in points]
    found = dict(recomputed_curve(certificate.plan, relation=certificate.relation, points=places))
    for point, place in zip(points, places, strict=True):
        if point.delta < found[place] and _recomputed(certificate, Claim(point.epsilon, point.delta)).answer != "holds":
            return f"δ at ε = {decimals.show(point.epsilon)}"
    return ""


def _risk(certificate: Certificate) -> str:
    """The first limit that is below what follows from the curve, which holds."""
    points = ((decimals.float_at_most(one.epsilon), decimals.float_at_most(one.delta)) for one in certificate.curve)
    least = risk_limits(PrivacyCurve(tuple(sorted(points)))).as_dict()
    low = (
        name for name, limit in certificate.risk.items() if float(limit) < least.get(name, 1.0) * (1.0 - _LAST_DIGITS)
    )
    return next((f"risk ({name})" for name in low), "")
