"""A certificate's numbers, derived again from its plan: by code that did not issue them.

A signature proves who said a number, not that it is right; whoever holds a trusted key can sign any. So the
gate (``permit``) asks ``confirm`` before it lets a run draw, and ``affidavit verify --recompute`` asks ``recheck``.
"""

from __future__ import annotations

from affidavit.accountant import decimals
from affidavit.accountant.errors import ClaimRefused, NotSupported
from affidavit.accountant.filters.again import understated
from affidavit.accountant.statement import Certificate, Claim
from affidavit.accountant.verifier import ClaimCheck, check_claim

__all__ = ["confirm", "recheck"]


def recheck(certificate: Certificate) -> tuple[ClaimCheck, ...]:
    """Every claim, asked of the verifier. Raises ``NotSupported`` where it has no formula for the plan."""
    return tuple(_recomputed(certificate, claim) for claim in certificate.claims)


def confirm(certificate: Certificate) -> None:
    """Refuse a certificate whose plan costs more than it claims, or may, in any unit. Raises ``ClaimRefused``.

    What is issued holds (``settle``), so a claim that the verifier cannot confirm was not issued here.
    """
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
