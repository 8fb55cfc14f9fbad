"""The words of a certificate: an in-toto Statement v1 with our predicate, read strictly.

``encode`` writes the canonical JSON (RFC 8785) that is signed, ``decode`` reads exactly that form:
an unknown, missing or ill-typed field anywhere is refused, because whoever signed it meant
something by it that this version does not understand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Annotated, Any

from affidavit.accountant import decimals, strictjson, validate
from affidavit.accountant.clock import show_instant
from affidavit.accountant.errors import CertificateError, NotSupported, PlanError
from affidavit.accountant.filters import costs as filter_costs
from affidavit.accountant.filters.costs import NO_COSTS, Costs
from affidavit.accountant.plan import Plan, parse_plan, to_dict
from affidavit.accountant.show import Facts, Shown
from affidavit.accountant.strictjson import DIGEST, ID, PROBABILITY, Form, exactly, forms_of, record
from affidavit.accountant.unit import Unit
from affidavit.accountant.validate import Relation

__all__ = [
    "NO_GUARANTEE",
    "PREDICATE_TYPE",
    "SCHEMA",
    "STATEMENT_TYPE",
    "Certificate",
    "Claim",
    "CurvePoint",
    "MethodSummary",
    "decode",
    "encode",
]

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://affidavit.dev/certificate/v1"
SCHEMA = "affidavit/certificate/v1"

NO_GUARANTEE = "NO GUARANTEE"
"""How the first assumption of a certificate begins whose run can be reproduced."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The run is (epsilon, delta)-differentially private."""

    epsilon: Decimal
    delta: Decimal

    @classmethod
    def of(cls, *, epsilon_upper: float | Decimal, delta: str | float | Decimal) -> Claim:
        """ε rounded up to 12 digits; δ exactly as written (a float is its shortest spelling).

        ``epsilon_upper`` must hold at that decimal δ: compute it at ``decimals.float_at_most``
        of it. Raises ``NotSupported`` for an infinite ε, ``PlanError`` out of range.
        """
        if math.isinf(epsilon_upper):
            raise NotSupported(
                "the plan costs ε = ∞ at this δ: there is nothing to certify",
                hint="Add noise, or ask for a larger δ: `affidavit plan RUN.toml`",
            )
        return cls(decimals.round_up(epsilon_upper), decimals.as_written(delta, path="delta"))

    def __post_init__(self) -> None:
        decimals.within(self.epsilon, path="epsilon")
        decimals.within(self.delta, path="delta", most=1)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One point of the certified privacy profile: δ(epsilon) ≤ delta. ``epsilon`` may be negative."""

    epsilon: Decimal
    delta: Decimal

    @classmethod
    def of(cls, *, epsilon: float | Decimal, delta_upper: float | Decimal) -> CurvePoint:
        """Both rounded up: δ(ε) does not increase with ε, so the point stays true."""
        return cls(decimals.round_up(epsilon), min(decimals.round_up(delta_upper), Decimal(1)))

    def __post_init__(self) -> None:
        decimals.within(self.delta, path="delta", most=1)


@dataclass(frozen=True, slots=True)
class MethodSummary:
    """What one method says: ε between the two at the first claim's δ. None: infinite, or no bound.

    ``certified`` marks the method that the first claim rests on.
    """

    name: str
    epsilon_lower: Decimal | None
    epsilon_upper: Decimal | None
    applies: bool
    why: str = ""
    certified: bool = False

    @classmethod
    def of(
        cls,
        name: str,
        *,
        epsilon_lower: float,
        epsilon_upper: float,
        applies: bool,
        why: str = "",
        certified: bool = False,
    ) -> MethodSummary:
        """The lower side rounded down, the upper side up; inf becomes None."""
        lower = decimals.round_down(epsilon_lower) if math.isfinite(epsilon_lower) else None
        upper = decimals.round_up(epsilon_upper) if math.isfinite(epsilon_upper) else None
        return cls(name, lower, upper, applies, why, certified)


@dataclass(frozen=True, slots=True, repr=False)
class Certificate(Shown):
    """A parsed certificate. Only ``certificate.verify_envelope`` fills ``sha256`` and ``keyids``.

    sha256: digest of the envelope file's bytes (what ``sha256sum CERT.json`` prints).
    keyids: the trusted keys whose signatures were checked.
    costs: what the run costs in the units of filters. account: the id of the ledger's account that is to pay; empty
    where none was open.
    """

    relation: Relation
    unit: Unit
    plan: Annotated[Plan, Form(parse_plan, to_dict)]
    size: Annotated[int, Form(validate.whole, int)]
    config_sha256: str
    model_sha256: str
    data_salt: str
    data_commitment: str
    claims: tuple[Claim, ...]
    curve: tuple[CurvePoint, ...]
    methods: tuple[MethodSummary, ...]
    risk: Mapping[str, Annotated[Decimal, PROBABILITY]]
    arithmetic: str
    assumptions: tuple[str, ...]
    versions: Mapping[str, str]
    not_before: datetime
    not_after: datetime
    costs: Costs = NO_COSTS
    account: Annotated[str, ID] = ""
    sha256: str = field(default="", compare=False)
    keyids: tuple[str, ...] = field(default=(), compare=False)

    def facts(self) -> Facts:
        """What is claimed, of what, and how long it is valid; no digest or commitment of the data."""
        claims = "; ".join(f"ε <= {claim.epsilon} at δ = {claim.delta}" for claim in self.claims)
        signed = ", ".join(keyid[:16] for keyid in self.keyids) or "not checked"
        valid = f"{show_instant(self.not_before)} to {show_instant(self.not_after)}"
        rows = [
            ("claim", claims),
            ("relation", self.relation),
            ("unit", str(self.unit)),
            ("size", str(self.size)),
            ("valid", valid),
            ("signed by", signed),
            ("arithmetic", self.arithmetic),
            *((f"risk: {name}", f"at most {limit}") for name, limit in self.risk.items()),
            *(("assumes", assumption) for assumption in self.assumptions),
        ]
        covered = "" if self.guarantee else f"{NO_GUARANTEE}: "
        return Facts(f"{covered}{claims}, {self.relation}, {self.size} records", (), tuple(rows))

    @property
    def claim(self) -> Claim:
        """The first claim: what a run under this certificate is charged."""
        return self.claims[0]

    @property
    def guarantee(self) -> bool:
        """False for a run whose noise is seeded: its plan's number holds, and protects nobody."""
        return not any(stated.startswith(NO_GUARANTEE) for stated in self.assumptions)


_SUBJECTS = {
    "config": ("sha256", "config_sha256"),
    "model": ("sha256", "model_sha256"),
    "data": ("hmac-sha256", "data_commitment"),
}
"""What each subject's digest is, and what it is in a certificate; that of the data is annotated with its salt."""


def _read_subjects(value: object, *, path: str) -> dict[str, str]:
    if not isinstance(value, list) or len(value) != len(_SUBJECTS):
        raise PlanError(path, "not a list of three", allowed="config, model and data")
    found: dict[str, str] = {}
    for item, (name, (algorithm, held)) in zip(value, _SUBJECTS.items(), strict=True):
        forms: dict[str, Form[Any]] = {"name": exactly(name), "digest": record(dict[str, Any], {algorithm: DIGEST})}
        if salted := name == "data":
            forms["annotations"] = record(dict[str, Any], {"salt": ID})
        stated: dict[str, Any] = record(dict[str, Any], forms).read(item, path=f"{path}.{name}")
        found[held] = stated["digest"][algorithm]
        if salted:
            found["data_salt"] = stated["annotations"]["salt"]
    return found


def _show_subjects(certificate: Certificate) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = [
        {"name": name, "digest": {algorithm: getattr(certificate, held)}}
        for name, (algorithm, held) in _SUBJECTS.items()
    ]
    shown[-1]["annotations"] = {"salt": certificate.data_salt}
    return shown


_ELSEWHERE = {"config_sha256", "model_sha256", "data_salt", "data_commitment", "sha256", "keyids"}
_PREDICATE: Form[dict[str, Any]] = record(
    dict,
    {name: form for name, form in forms_of(Certificate).items() if name not in _ELSEWHERE}
    | {"schema": exactly(SCHEMA), "costs": filter_costs.FORM},
    called={"not_before": "notBefore", "not_after": "notAfter"},
    later={"costs": NO_COSTS, "account": ""},  # so that earlier certificates stand
)
_STATEMENT: Form[dict[str, Any]] = record(
    dict,
    {
        "_type": exactly(STATEMENT_TYPE),
        "subject": Form(_read_subjects, _show_subjects),
        "predicateType": exactly(PREDICATE_TYPE),
        "predicate": _PREDICATE,
    },
)


def encode(certificate: Certificate) -> bytes:
    """The canonical statement. Raises ``NotSupported`` for numbers that JSON cannot carry."""
    import rfc8785

    try:
        return rfc8785.dumps(_STATEMENT.show(SimpleNamespace(subject=certificate, predicate=certificate)))
    except rfc8785.CanonicalizationError:
        raise NotSupported(
            "a population, a sample or the size of the data is above 2^53, which JSON readers do not keep exactly",
            hint=f"At most `population = {2**53 - 1}`: a population stated smaller costs more, never less.",
        ) from None


def decode(payload: bytes) -> Certificate:
    """Read a statement whose signature was verified. Raises ``CertificateError`` naming the field."""
    try:
        return _read(payload)
    except PlanError as error:
        raise CertificateError(
            f"the signed certificate cannot be accepted here: {error.message}",
            hint="It may come from a newer version: compare `affidavit --version` with its issuer's.",
        ) from None


def _read(payload: bytes) -> Certificate:
    try:
        parsed = strictjson.parse(payload)
    except ValueError:
        raise PlanError("statement", "not JSON, or a repeated field", allowed="an in-toto statement") from None
    stated = _STATEMENT.read(parsed, path="statement")
    certificate = Certificate(**stated["predicate"], **stated["subject"])
    if not certificate.claims:
        raise PlanError("predicate.claims", "empty", allowed="at least one claim")
    if certificate.not_after < certificate.not_before:
        raise PlanError("predicate.notAfter", "before notBefore", allowed="a later time")
    return certificate
