"""The words of a certificate: an in-toto Statement v1 with our predicate, read strictly.

``encode`` writes the canonical JSON (RFC 8785) that is signed, ``decode`` reads exactly that form:
an unknown, missing or ill-typed field anywhere is refused, because whoever signed it meant
something by it that this version does not understand.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from affidavit.accountant import decimals, strictjson, validate
from affidavit.accountant.attestation.subject import check_digest
from affidavit.accountant.clock import show_instant
from affidavit.accountant.errors import CertificateError, NotSupported, PlanError
from affidavit.accountant.filters import costs as filter_costs
from affidavit.accountant.filters.costs import NO_COSTS, Costs
from affidavit.accountant.plan import Plan, parse_plan, to_dict
from affidavit.accountant.show import Facts, Shown
from affidavit.accountant.unit import Unit, parse_unit
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

_PREDICATE = (
    "schema relation unit plan claims curve methods risk arithmetic assumptions versions notBefore notAfter size"
)
_SINCE = ("costs", "account")
"""Fields of the predicate that came later: left out where they say nothing, so that earlier certificates stand."""

NO_GUARANTEE = "NO GUARANTEE"
"""How the first assumption of a certificate begins whose run can be reproduced."""

_SALT = re.compile(r"[0-9a-f]{32}\Z")


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
        _at_least_zero(self.epsilon, path="epsilon")
        _probability(self.delta, path="delta")


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
        _probability(self.delta, path="delta")


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
    plan: Plan
    size: int
    config_sha256: str
    model_sha256: str
    data_salt: str
    data_commitment: str
    claims: tuple[Claim, ...]
    curve: tuple[CurvePoint, ...]
    methods: tuple[MethodSummary, ...]
    risk: Mapping[str, Decimal]
    arithmetic: str
    assumptions: tuple[str, ...]
    versions: Mapping[str, str]
    not_before: datetime
    not_after: datetime
    costs: Costs = NO_COSTS
    account: str = ""
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


def encode(certificate: Certificate) -> bytes:
    """The canonical statement. Raises ``NotSupported`` for numbers that JSON cannot carry."""
    import rfc8785

    subject: list[dict[str, Any]] = [
        {"name": "config", "digest": {"sha256": certificate.config_sha256}},
        {"name": "model", "digest": {"sha256": certificate.model_sha256}},
        {
            "name": "data",
            "digest": {"hmac-sha256": certificate.data_commitment},
            "annotations": {"salt": certificate.data_salt},
        },
    ]
    statement: dict[str, Any] = {
        "_type": STATEMENT_TYPE,
        "subject": subject,
        "predicateType": PREDICATE_TYPE,
        "predicate": _predicate(certificate),
    }
    try:
        return rfc8785.dumps(statement)
    except rfc8785.CanonicalizationError:
        raise NotSupported(
            "a population, a sample or the size of the data is above 2^53, which JSON readers do not keep exactly",
            hint=f"At most `population = {2**53 - 1}`: a population stated smaller costs more, never less.",
        ) from None


def decode(payload: bytes) -> Certificate:
    """Read a statement whose signature was verified. Raises ``CertificateError`` naming the field."""
    try:
        return _statement(_json(payload))
    except PlanError as error:
        raise CertificateError(
            f"the signed certificate cannot be accepted here: {error.message}",
            hint="It may come from a newer version: compare `affidavit --version` with its issuer's.",
        ) from None


def _predicate(certificate: Certificate) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "relation": certificate.relation,
        "unit": certificate.unit.to_json(),
        "plan": to_dict(certificate.plan),
        "claims": [_pair(claim) for claim in certificate.claims],
        "curve": [_pair(point) for point in certificate.curve],
        "methods": [_method(method) for method in certificate.methods],
        "risk": {name: decimals.show(value) for name, value in certificate.risk.items()},
        "arithmetic": certificate.arithmetic,
        "assumptions": list(certificate.assumptions),
        "versions": dict(certificate.versions),
        "notBefore": show_instant(certificate.not_before),
        "notAfter": show_instant(certificate.not_after),
        "size": certificate.size,
        **({} if certificate.costs == NO_COSTS else {"costs": filter_costs.encode(certificate.costs)}),
        **({"account": certificate.account} if certificate.account else {}),
    }


def _pair(item: Claim | CurvePoint) -> dict[str, str]:
    return {"epsilon": decimals.show(item.epsilon), "delta": decimals.show(item.delta)}


def _method(method: MethodSummary) -> dict[str, Any]:
    return {
        "name": method.name,
        "epsilon_lower": None if method.epsilon_lower is None else decimals.show(method.epsilon_lower),
        "epsilon_upper": None if method.epsilon_upper is None else decimals.show(method.epsilon_upper),
        "applies": method.applies,
        "why": method.why,
        "certified": method.certified,
    }


def _statement(obj: object) -> Certificate:
    top = strictjson.fields(obj, "statement", "_type subject predicateType predicate")
    strictjson.exactly(top["_type"], "statement._type", STATEMENT_TYPE)
    strictjson.exactly(top["predicateType"], "statement.predicateType", PREDICATE_TYPE)
    subjects = strictjson.items(top["subject"], "subject")
    if len(subjects) != 3:
        raise PlanError("subject", f"{len(subjects)} subjects", allowed="config, model and data")
    (_, config), (_, model), (_, data) = subjects
    later = [name for name in _SINCE if isinstance(top["predicate"], dict) and name in top["predicate"]]
    predicate = strictjson.fields(top["predicate"], "predicate", " ".join((_PREDICATE, *later)))
    strictjson.exactly(predicate["schema"], "predicate.schema", SCHEMA)
    claims = tuple(Claim(*pair) for pair in _pairs(predicate["claims"], "predicate.claims"))
    if not claims:
        raise PlanError("predicate.claims", "empty", allowed="at least one claim")
    not_before = strictjson.instant(predicate["notBefore"], "predicate.notBefore")
    not_after = strictjson.instant(predicate["notAfter"], "predicate.notAfter")
    if not_after < not_before:
        raise PlanError("predicate.notAfter", "before notBefore", allowed="a later time")
    return Certificate(
        relation=validate.relation(predicate["relation"], path="predicate.relation"),
        unit=parse_unit(predicate["unit"], path="predicate.unit"),
        plan=parse_plan(predicate["plan"], path="predicate.plan"),
        size=validate.whole(predicate["size"], path="predicate.size"),
        costs=filter_costs.decode(predicate["costs"], "predicate.costs") if "costs" in predicate else NO_COSTS,
        account=_account(predicate["account"], "predicate.account") if "account" in predicate else "",
        config_sha256=_digest(config, "config", "sha256"),
        model_sha256=_digest(model, "model", "sha256"),
        data_commitment=_digest(data, "data", "hmac-sha256", "annotations"),
        data_salt=_salt(data["annotations"], "subject.data.annotations"),
        claims=claims,
        curve=tuple(CurvePoint(*pair) for pair in _pairs(predicate["curve"], "predicate.curve")),
        methods=tuple(
            _read_method(item, path) for path, item in strictjson.items(predicate["methods"], "predicate.methods")
        ),
        risk=MappingProxyType(
            {
                name: _probability(decimals.parse(value, path=path), path=path)
                for name, path, value in strictjson.named(predicate["risk"], "predicate.risk")
            }
        ),
        arithmetic=strictjson.text(predicate["arithmetic"], "predicate.arithmetic"),
        assumptions=tuple(
            strictjson.text(item, path)
            for path, item in strictjson.items(predicate["assumptions"], "predicate.assumptions")
        ),
        versions=MappingProxyType(
            {
                name: strictjson.text(value, path)
                for name, path, value in strictjson.named(predicate["versions"], "predicate.versions")
            }
        ),
        not_before=not_before,
        not_after=not_after,
    )


def _json(payload: bytes) -> object:
    try:
        return strictjson.parse(payload)
    except ValueError:
        raise PlanError("statement", "not JSON, or a repeated field", allowed="an in-toto statement") from None


def _digest(value: object, name: str, algorithm: str, *extra: str) -> str:
    path = f"subject.{name}"
    subject = strictjson.fields(value, path, " ".join(("name", "digest", *extra)))
    strictjson.exactly(subject["name"], f"{path}.name", name)
    digest = strictjson.fields(subject["digest"], f"{path}.digest", algorithm)
    return check_digest(digest[algorithm], path=f"{path}.digest.{algorithm}")


def _salt(value: object, path: str) -> str:
    salt = strictjson.fields(value, path, "salt")["salt"]
    if not isinstance(salt, str) or not _SALT.match(salt):
        raise PlanError(f"{path}.salt", "not a salt", allowed="32 lower-case hexadecimal digits")
    return salt


def _account(value: object, path: str) -> str:
    if not isinstance(value, str) or not _SALT.match(value):
        raise PlanError(path, "not an account's id", allowed="32 lower-case hexadecimal digits")
    return value


def _pairs(value: object, path: str) -> list[tuple[Decimal, Decimal]]:
    result = []
    for place, item in strictjson.items(value, path):
        pair = strictjson.fields(item, place, "epsilon delta")
        epsilon = decimals.parse(pair["epsilon"], path=f"{place}.epsilon")
        result.append((epsilon, decimals.parse(pair["delta"], path=f"{place}.delta")))
    return result


def _read_method(value: object, path: str) -> MethodSummary:
    item = strictjson.fields(value, path, "name epsilon_lower epsilon_upper applies why certified")
    lower, upper = (
        None if item[side] is None else decimals.parse(item[side], path=f"{path}.{side}")
        for side in ("epsilon_lower", "epsilon_upper")
    )
    return MethodSummary(
        strictjson.text(item["name"], f"{path}.name"),
        lower,
        upper,
        strictjson.flag(item["applies"], f"{path}.applies"),
        strictjson.text(item["why"], f"{path}.why"),
        strictjson.flag(item["certified"], f"{path}.certified"),
    )


def _at_least_zero(value: Decimal, *, path: str) -> Decimal:
    if not value.is_finite() or value < 0:
        raise PlanError(path, f"{value} is out of range", allowed="a finite number >= 0")
    return value


def _probability(value: Decimal, *, path: str) -> Decimal:
    if not value.is_finite() or not 0 <= value <= 1:
        raise PlanError(path, f"{value} is out of range", allowed="a number in [0, 1]")
    return value
