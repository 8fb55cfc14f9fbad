"""Certificates: the signed statement that a run costs at most (ε, δ).

Form: an in-toto Statement v1 in a DSSE envelope, signed with Ed25519. Life of one:

    issue -> bytes -> verify (signature, trust, validity) -> Certificate -> check_subject -> permit

A signature proves who said it; only recomputing the plan's bound proves the number. Subjects are
the configuration, the model's source weights, and a salted keyed commitment to the data; no
unkeyed function of the data is anywhere in it. Numbers are decimal strings, upper sides rounded up.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from affidavit.accountant import files, validate
from affidavit.accountant.attestation import dsse
from affidavit.accountant.attestation.commitment import commit
from affidavit.accountant.attestation.keylimits import limits_of
from affidavit.accountant.attestation.keys import Signer, TrustedKeys
from affidavit.accountant.attestation.statement import Certificate, Claim, CurvePoint, MethodSummary, decode, encode
from affidavit.accountant.clock import Clock, parse_instant, show_instant, utc_now
from affidavit.accountant.decimals import round_up
from affidavit.accountant.errors import (
    CertificateExpired,
    CertificateMissing,
    NotSupported,
    PlanError,
    UntrustedKey,
    WrongRun,
)
from affidavit.accountant.filters.costs import NO_COSTS, Costs
from affidavit.accountant.plan import Plan, parse_plan
from affidavit.accountant.strictjson import hexadecimal
from affidavit.accountant.unit import Unit
from affidavit.accountant.validate import Relation

__all__ = [
    "LIFE",
    "PAYLOAD_TYPE",
    "Certificate",
    "Claim",
    "CurvePoint",
    "MethodSummary",
    "RunSubject",
    "check_subject",
    "issue",
    "load",
    "read",
    "verify_envelope",
]

PAYLOAD_TYPE = "application/vnd.in-toto+json"
LIFE = timedelta(days=90)
"""How long a certificate is valid."""

CERTIFY_HINT = "Run: `affidavit certify RUN.toml -o CERT.json`"


@dataclass(frozen=True, slots=True)
class RunSubject:
    """The facts that bind a certificate to a run; built anew from the run file each time.

    config_sha256: digest of the run file as parsed, in one spelling, without private data.
    model_sha256: digest of the model's *source* weights, before any conversion.
    data_hmac: the private fingerprint of the data (``commitment.fingerprint``); a certificate
    publishes only a salted commitment to it.
    size: the declared number of records, a public fact that is never read from the data.
    """

    relation: Relation
    unit: Unit
    plan: Plan
    config_sha256: str
    model_sha256: str
    data_hmac: str = field(repr=False)
    size: int

    def __post_init__(self) -> None:
        validate.relation(self.relation)
        validate.whole(self.size, path="size", minimum=0)
        for name in ("config_sha256", "model_sha256", "data_hmac"):
            hexadecimal(getattr(self, name), path=name)
        if not isinstance(self.unit, Unit):
            raise PlanError("unit", "not a unit of protection", allowed="a Unit; see parse_unit")
        if parse_plan(self.plan) != self.plan:
            raise PlanError("plan", "not in the form that parse_plan returns", allowed="a parsed plan")


def issue(
    subject: RunSubject,
    *,
    claims: Sequence[Claim],
    signer: Signer,
    arithmetic: str,
    curve: Sequence[CurvePoint] = (),
    methods: Sequence[MethodSummary] = (),
    risk_upper: Mapping[str, float] | None = None,
    assumptions: Sequence[str] = (),
    versions: Mapping[str, str] | None = None,
    clock: Clock = utc_now,
    salt: str | None = None,
    costs: Costs = NO_COSTS,
    account: str = "",
) -> bytes:
    """Sign a certificate for ``subject``; returns the envelope's bytes, to be stored as they are.

    claims: computed for the subject's plan and relation; the first is what a run is charged.
    curve: a certified upper privacy profile. risk_upper: upper limits by name (AUC, ...), in
    [0, 1], rounded up here. arithmetic: how the first claim was computed. salt: for reproducible
    files in tests; random otherwise. costs: of the same plan in the units of filters. account: the id of the
    account that is to pay.

    The statement is read back with the verifier's own code before it is signed. Raises
    ``CertificateError`` naming a field that the verifier would refuse, ``NotSupported`` for a
    number that JSON cannot carry.
    """
    salt = secrets.token_hex(16) if salt is None else salt
    not_before = parse_instant(show_instant(clock()))
    certificate = Certificate(
        relation=subject.relation,
        unit=subject.unit,
        plan=subject.plan,
        size=subject.size,
        config_sha256=subject.config_sha256,
        model_sha256=subject.model_sha256,
        data_salt=salt,
        data_commitment=commit(subject.data_hmac, salt=salt),
        claims=tuple(claims),
        costs=costs,
        account=account,
        curve=tuple(curve),
        methods=tuple(methods),
        risk={name: min(round_up(value), Decimal(1)) for name, value in (risk_upper or {}).items()},
        arithmetic=arithmetic,
        assumptions=tuple(assumptions),
        versions=dict(versions or {}),
        not_before=not_before,
        not_after=parse_instant(show_instant(not_before + LIFE)),
    )
    payload = encode(certificate)
    if decode(payload) != certificate:
        raise NotSupported(
            "the certificate would not be read back as it was meant",
            hint="Give plans, numbers and names in the forms that parse_plan and Claim.of return.",
        )
    return dsse.sign(payload, payload_type=PAYLOAD_TYPE, signer=signer)


def verify_envelope(
    envelope: bytes, *, trusted: TrustedKeys, clock: Clock = utc_now, account: str | None = None
) -> Certificate:
    """Signature, then trust, then the signed bytes' meaning, then what its key may sign, then validity; in this order.

    ``account``: the one that is to pay, where that is known; a key may be trusted for some only.

    Raises ``SignatureInvalid``, ``UntrustedKey``, ``CertificateError`` (signed, but not a
    certificate that this version understands) or ``CertificateExpired``. It says nothing about
    whether the claimed number is right: only recomputing it does.
    """
    verified = dsse.verify(envelope, payload_type=PAYLOAD_TYPE, trusted=trusted)
    certificate = decode(verified.payload)
    now = clock()
    check_limits(certificate, verified.keyids, trusted, now=now, account=account)
    if now > certificate.not_after:
        raise CertificateExpired(
            f"the certificate expired at {show_instant(certificate.not_after)}",
            hint=f"Issue a new one. {CERTIFY_HINT}",
            ended=certificate.not_after,
        )
    if now < certificate.not_before:
        raise CertificateExpired(
            f"the certificate is not valid before {show_instant(certificate.not_before)}",
            hint=f"Check this machine's clock, which says {show_instant(now)}.",
        )
    return replace(certificate, sha256=hashlib.sha256(envelope).hexdigest(), keyids=verified.keyids)


def check_limits(
    certificate: Certificate, keyids: Sequence[str], trusted: TrustedKeys, *, now: datetime, account: str | None = None
) -> None:
    """One of the keys that signed it, or a receipt of it, has to be trusted for this. Raises ``UntrustedKey``."""
    epsilon = max(claim.epsilon for claim in certificate.claims)
    delta = max(claim.delta for claim in certificate.claims)
    reasons = [
        limits_of(trusted, keyid).refusal(
            relation=certificate.relation, epsilon=epsilon, delta=delta, now=now, account=account
        )
        for keyid in keyids
    ]
    if all(reasons):
        raise UntrustedKey(
            f"signed by {keyids[0][:16]}, but {reasons[0]}",
            hint="What each key may sign: `affidavit keys show`. Wider limits are set by trusting it anew: "
            "`affidavit keys trust KEY.pem`",
        )


def read(path: Path | None) -> bytes:
    """The envelope's bytes. Raises ``CertificateMissing`` if there is no such file."""
    if path is None:
        raise CertificateMissing("no certificate was given", hint=CERTIFY_HINT)
    try:
        return files.read_bytes(path)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CertificateMissing(f"the certificate {path} cannot be read: {reason}", hint=CERTIFY_HINT) from None


def load(path: Path | None, *, trusted: TrustedKeys, clock: Clock = utc_now) -> Certificate:
    """``verify_envelope`` of a file. Raises also ``CertificateMissing``."""
    return verify_envelope(read(path), trusted=trusted, clock=clock)


def check_subject(certificate: Certificate, subject: RunSubject) -> None:
    """Refuse a run that is not the certified one. Raises ``WrongRun``.

    The particular facts come before the configuration's digest, which covers them too: whoever
    changed the size shall read "size", not "something in the run file".
    """
    for which, name in (("config", "relation"), ("config", "unit"), ("size", "size"), ("model", "model_sha256")):
        _check_same(which, name, certificate, subject)
    if not hmac.compare_digest(commit(subject.data_hmac, salt=certificate.data_salt), certificate.data_commitment):
        raise WrongRun(
            "data",
            "the certificate is for other data: the file's bytes do not fit its commitment under this machine's key",
            hint=f"Restore the certified data file and commitment key, or certify the new data. {CERTIFY_HINT}",
        )
    _check_same("config", "config_sha256", certificate, subject)
    if subject.plan != certificate.plan:
        raise WrongRun(
            "config",
            "the certificate is for another plan, although the configuration is the same: another version planned it",
            hint=f"Certify with this version. {CERTIFY_HINT}",
        )


def _check_same(which: str, name: str, certificate: Certificate, subject: RunSubject) -> None:
    certified, found = getattr(certificate, name), getattr(subject, name)
    if certified != found:
        what = {"config_sha256": "configuration digest", "model_sha256": "model digest"}.get(name, name)
        told, this = (str(value)[:16] if what != name else value for value in (certified, found))
        raise WrongRun(
            which,
            f"the certificate is for another {which}: certified {what} {told}, this run's {this}",
            hint=f"Undo the change, or certify this run. {CERTIFY_HINT}",
        )
