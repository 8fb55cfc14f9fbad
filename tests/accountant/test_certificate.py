from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jsonschema import Draft202012Validator

from affidavit.accountant.attestation import dsse
from affidavit.accountant.attestation.certificate import (
    LIFE,
    PAYLOAD_TYPE,
    Certificate,
    Claim,
    CurvePoint,
    RunSubject,
    check_subject,
    load,
    verify_envelope,
)
from affidavit.accountant.attestation.commitment import fingerprint
from affidavit.accountant.attestation.keys import Keyring, Signer
from affidavit.accountant.errors import (
    CertificateError,
    CertificateExpired,
    CertificateMissing,
    NotSupported,
    PlanError,
    SignatureInvalid,
    UntrustedKey,
    WrongRun,
)
from affidavit.accountant.plan import parse_plan
from affidavit.accountant.unit import Unit

GOLDEN = Path(__file__).parents[1] / "golden" / "certificate.json"
NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
Make = Callable[..., bytes]
Subject = Callable[..., RunSubject]


@pytest.fixture
def verify(keyring: Keyring, clock: Callable[[], datetime]) -> Callable[[bytes], Certificate]:
    return lambda envelope: verify_envelope(envelope, trusted=keyring.trusted(), clock=clock)


@pytest.fixture
def schema() -> Draft202012Validator:
    text = files("affidavit.accountant").joinpath("schemas/certificate.schema.json").read_text("utf-8")
    Draft202012Validator.check_schema(json.loads(text))
    return Draft202012Validator(json.loads(text))


def statement(envelope: bytes) -> dict[str, Any]:
    return json.loads(base64.b64decode(json.loads(envelope)["payload"]))


def resigned(content: object, ring: Keyring) -> bytes:
    return dsse.sign(json.dumps(content).encode(), payload_type=PAYLOAD_TYPE, signer=ring.signer())


def test_what_was_issued_is_what_is_read(make_certificate: Make, make_subject: Subject, verify: Any) -> None:
    envelope = make_certificate()
    certificate = verify(envelope)
    subject = make_subject()
    assert (certificate.relation, certificate.unit, certificate.plan) == (subject.relation, subject.unit, subject.plan)
    assert certificate.claim == Claim(Decimal("0.5"), Decimal("0.00001"))
    assert certificate.curve[0].epsilon < 0
    assert certificate.methods[1].epsilon_upper is None
    assert certificate.risk["auc"] >= Decimal("0.6224593312018546")
    assert certificate.not_after - certificate.not_before == timedelta(days=90)
    assert certificate.sha256 == hashlib.sha256(envelope).hexdigest()
    check_subject(certificate, subject)


def test_the_statement_fits_its_schema(make_certificate: Make, make_subject: Subject, schema: Any) -> None:
    user = make_subject(unit=Unit("user_id", 5))
    tiny = [Claim.of(epsilon_upper=3, delta="1e-100"), Claim.of(epsilon_upper=700.25, delta=0)]
    for envelope in (make_certificate(), make_certificate(user, claims=tiny, curve=[], methods=[], risk_upper=None)):
        schema.validate(statement(envelope))


def test_schema_and_reader_know_the_same_fields(
    make_certificate: Make, keyring: Keyring, schema: Any, verify: Any
) -> None:
    good = statement(make_certificate())
    for path in (
        ["predicate"],
        ["predicate", "claims", 0],
        ["predicate", "methods", 0],
        ["subject", 2],
        ["subject", 2, "digest"],
    ):
        for change in ("add", "drop"):
            content = json.loads(json.dumps(good))
            place = content
            for step in path:
                place = place[step]
            if change == "add":
                place["novelty"] = "1"
            else:
                place.pop(next(iter(place)))
            assert not schema.is_valid(content)
            with pytest.raises(CertificateError):
                verify(resigned(content, keyring))


def test_the_golden_certificate(make_subject: Subject, make_certificate: Make) -> None:
    # A published format does not change: this file was written by version 0.1.0.
    signer = Signer.of(Ed25519PrivateKey.from_private_bytes(bytes(range(32))))
    plan = {"kind": "repeat", "count": 3, "of": {"kind": "exponential", "range": 0.25}}
    subject = make_subject(plan=parse_plan(plan))
    envelope = make_certificate(subject, signer=signer, salt="5a" * 16)
    assert envelope == GOLDEN.read_bytes()
    trusted = {signer.keyid: signer.private_key.public_key()}
    check_subject(load(GOLDEN, trusted=trusted, clock=lambda: NOON), subject)


@pytest.mark.parametrize(
    "wrong",
    [
        ("_type", "https://in-toto.io/Statement/v0.1", "_type"),
        ("predicateType", "https://slsa.dev/provenance/v1", "predicateType"),
        ("predicate.schema", "affidavit/certificate/v2", "predicate.schema"),
        ("predicate.novelty", 1, "predicate.novelty"),
        ("predicate.relation", None, "predicate.relation"),
        ("predicate.unit", "user", "predicate.unit"),
        ("predicate.plan", {"kind": "magic"}, "predicate.plan.kind"),
        ("predicate.plan.of.range", -1, "predicate.plan.of.range"),
        ("predicate.claims", [], "predicate.claims"),
        ("predicate.claims", [{"epsilon": 0.5, "delta": "0"}], r"claims\[0\].epsilon"),
        ("predicate.claims", [{"epsilon": "-1", "delta": "0"}], "epsilon"),
        ("predicate.claims", [{"epsilon": "1", "delta": "1.1"}], "delta"),
        ("predicate.claims", [{"epsilon": "NaN", "delta": "0"}], "epsilon"),
        ("predicate.curve", {"epsilon": "1", "delta": "0"}, "predicate.curve"),
        ("predicate.risk", {"auc": "2"}, "predicate.risk.auc"),
        ("predicate.risk", {"a b": "0"}, "predicate.risk"),
        ("predicate.arithmetic", None, "predicate.arithmetic"),
        ("predicate.assumptions", "none", "predicate.assumptions"),
        ("predicate.versions", {"affidavit": 1}, "predicate.versions.affidavit"),
        ("predicate.notAfter", "2026-02-30T00:00:00Z", "predicate.notAfter"),
        ("predicate.notAfter", "2025-01-01T00:00:00Z", "predicate.notAfter"),
        ("predicate.notBefore", 0, "predicate.notBefore"),
        ("predicate.size", -1, "predicate.size"),
        ("subject", [], "subject"),
    ],
)
def test_a_signed_statement_with_a_wrong_field_is_refused_by_name(
    make_certificate: Make, keyring: Keyring, verify: Any, wrong: tuple[str, object, str]
) -> None:
    path, value, message = wrong
    content = statement(make_certificate())
    place = content
    *way, last = path.split(".")
    for step in way:
        place = place[step]
    place[last] = value
    with pytest.raises(CertificateError, match=message) as refusal:
        verify(resigned(content, keyring))
    assert type(refusal.value) is CertificateError
    assert refusal.value.hint


@pytest.mark.parametrize("payload", [b"", b"[]", b'{"a":1,"a":2}', b"[NaN]", b"[" * 100_000, b"\xff"])
def test_a_signed_payload_that_is_no_statement_is_refused(payload: bytes, keyring: Keyring, verify: Any) -> None:
    with pytest.raises(CertificateError, match="statement"):
        verify(dsse.sign(payload, payload_type=PAYLOAD_TYPE, signer=keyring.signer()))


def test_validity_is_a_closed_interval(make_certificate: Make, keyring: Keyring) -> None:
    envelope = make_certificate()

    def at(now: datetime) -> Certificate:
        return verify_envelope(envelope, trusted=keyring.trusted(), clock=lambda: now)

    assert at(NOON).not_after == at(NOON + LIFE).not_after
    with pytest.raises(CertificateExpired, match="expired at 2026-05-30T12:00:00Z") as late:
        at(NOON + LIFE + timedelta(seconds=1))
    assert "affidavit certify" in late.value.hint
    with pytest.raises(CertificateExpired, match="not valid before") as early:
        at(NOON - timedelta(seconds=1))
    assert "clock" in early.value.hint


def test_the_signature_is_checked_before_the_validity(make_certificate: Make, keyring: Keyring) -> None:
    envelope = json.loads(make_certificate())
    envelope["signatures"][0]["sig"] = base64.b64encode(bytes(64)).decode()
    with pytest.raises(SignatureInvalid):
        verify_envelope(
            json.dumps(envelope).encode(), trusted=keyring.trusted(), clock=lambda: datetime.max.replace(tzinfo=UTC)
        )


def test_missing_files_and_unknown_signers(make_certificate: Make, tmp_path: Path, keyring: Keyring) -> None:
    for path in (None, tmp_path / "none.json", tmp_path):
        with pytest.raises(CertificateMissing) as refusal:
            load(path, trusted=keyring.trusted())
        assert "affidavit certify RUN.toml" in refusal.value.hint
    (tmp_path / "cert.json").write_bytes(make_certificate())
    with pytest.raises(UntrustedKey):
        load(tmp_path / "cert.json", trusted={}, clock=lambda: NOON)


@pytest.mark.parametrize(
    "case",
    [
        ({"relation": "substitution"}, "config", "certified relation zero-out, this run's substitution"),
        ({"unit": Unit("user_id", 5)}, "config", "certified unit record, this run's user_id"),
        ({"size": 241, "config_sha256": "0" * 64}, "size", "certified size 240, this run's 241"),
        ({"model_sha256": "0" * 64}, "model", "another model"),
        ({"data_hmac": "0" * 64}, "data", "other data"),
        ({"config_sha256": "0" * 64}, "config", "configuration digest"),
        ({"plan": parse_plan({"kind": "pure", "epsilon": 0.1})}, "config", "another plan"),
    ],
)
def test_a_run_that_is_not_the_certified_one(
    make_certificate: Make, make_subject: Subject, verify: Any, case: tuple[dict[str, Any], str, str]
) -> None:
    change, subject, message = case
    certificate = verify(make_certificate())
    with pytest.raises(WrongRun, match=message) as refusal:
        check_subject(certificate, make_subject(**change))
    assert refusal.value.subject == subject
    assert refusal.value.exit_code == 3
    assert "affidavit certify" in refusal.value.hint


def test_public_parts_of_two_neighbours_differ_in_the_keyed_commitment_only(
    make_certificate: Make, make_subject: Subject, keyring: Keyring, tmp_path: Path
) -> None:
    lines = [json.dumps({"id": str(i), "text": f"mail {i}", "label": "a"}).encode() + b"\n" for i in range(5)]
    data = [b"".join(lines), b"".join([*lines[:2], b'{"id": "2", "text": "other", "label": "a"}\n', *lines[3:]])]
    key = keyring.secret("commitment")
    envelopes = [make_certificate(make_subject(data_hmac=fingerprint([raw], key=key)), salt="5a" * 16) for raw in data]
    first, second = map(statement, envelopes)
    assert first["subject"][2].pop("digest") != second["subject"][2].pop("digest")
    assert first == second

    for raw, envelope in zip(data, envelopes, strict=True):
        public = envelope + base64.b64decode(json.loads(envelope)["payload"])
        parts = [raw, *raw.splitlines(), *raw.splitlines(keepends=True)]
        for algorithm in ("sha256", "sha512", "sha1", "md5", "blake2b", "sha3_256"):
            for part in parts:
                assert hashlib.new(algorithm, part).hexdigest().encode() not in public
        # Keyed with what is public: the salt, nothing, or the fingerprint itself unsalted.
        for public_key in (b"", b"5a" * 16, bytes.fromhex("5a" * 16)):
            assert hmac.new(public_key, raw, "sha256").hexdigest().encode() not in public
        assert fingerprint([raw], key=key).encode() not in public


def test_two_certificates_of_the_same_data_cannot_be_linked(
    make_certificate: Make, make_subject: Subject, verify: Any
) -> None:
    certificates = [verify(make_certificate()) for _ in range(2)]
    assert certificates[0].data_commitment != certificates[1].data_commitment
    assert certificates[0].data_salt != certificates[1].data_salt
    for certificate in certificates:
        check_subject(certificate, make_subject())


def test_the_fingerprint_is_of_the_bytes_whatever_the_chunks() -> None:
    assert fingerprint([b"one\ntwo\n"], key=b"k") == fingerprint([b"one\n", b"", b"two\n"], key=b"k")
    assert fingerprint([b"one\ntwo\n"], key=b"k") != fingerprint([b"two\none\n"], key=b"k")
    assert fingerprint([b"one\ntwo\n"], key=b"k") != fingerprint([b"one\ntwo\n"], key=b"l")


def test_claims_round_to_the_safe_side() -> None:
    epsilon = 0.1 + 0.2  # 0.3000000000000000444...
    claim = Claim.of(epsilon_upper=epsilon, delta=1e-5)
    assert claim == Claim(Decimal("0.300000000001"), Decimal("0.00001"))
    assert claim.epsilon >= Decimal(epsilon)
    point = CurvePoint.of(epsilon=1.0, delta_upper=0.9999999999999999)
    assert point.delta == 1
    assert CurvePoint.of(epsilon=-1 / 3, delta_upper=0).epsilon == Decimal("-0.333333333333")


def test_what_cannot_be_certified(make_certificate: Make, make_subject: Subject) -> None:
    with pytest.raises(NotSupported, match="∞") as refusal:
        Claim.of(epsilon_upper=float("inf"), delta=0)
    assert "affidavit plan" in refusal.value.hint
    for change in (
        {"epsilon_upper": -1, "delta": 0},
        {"epsilon_upper": 1, "delta": 1.5},
        {"epsilon_upper": 1, "delta": "x"},
    ):
        with pytest.raises(PlanError):
            Claim.of(**change)
    with pytest.raises(CertificateError, match=r"predicate\.claims"):
        make_certificate(claims=[])
    huge = {"kind": "repeat", "count": 1, "of": {"kind": "subsample", "scheme": "without-replacement",
            "population": 2**60, "sample": 1, "of": {"kind": "pure", "epsilon": 1}}}  # fmt: skip
    with pytest.raises(NotSupported, match=r"2\^53"):
        make_certificate(make_subject(plan=parse_plan(huge)))


@pytest.mark.parametrize(
    "change",
    [{"size": -1}, {"size": True}, {"config_sha256": "C" * 64}, {"model_sha256": ""}, {"data_hmac": None},
     {"relation": "both"}, {"unit": "record"}, {"plan": {"kind": "pure", "epsilon": 1}}],
)  # fmt: skip
def test_a_subject_is_checked_when_it_is_made(make_subject: Subject, change: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        make_subject(**change)


def test_the_private_fingerprint_does_not_show_in_a_repr(make_subject: Subject) -> None:
    assert "e" * 64 not in repr(make_subject())
    assert "d" * 64 in repr(make_subject())
