"""A receipt's signature covers the whole file, and what it says is held against certificate and text."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from affidavit.accountant.attestation.certificate import verify_envelope
from affidavit.accountant.attestation.keylimits import KeyLimits
from affidavit.accountant.attestation.keys import Keyring, Signer, _public_pem
from affidavit.accountant.attestation.receipt import SCHEMA, check_receipt, check_text, read, render
from affidavit.accountant.errors import CertificateError, SignatureInvalid, UntrustedKey, WrongRun

TEXT = b'{"id": "a-0", "label": "a", "text": "some words"}\n'


def _facts(sha256: str, **changes: Any) -> dict[str, Any]:
    return {
        "guarantee": "noise from the operating system; the certificate covers this output",
        "schema": SCHEMA,
        "protected": True,
        "generator": "prism",
        "certificate_sha256": sha256,
        "ledger_entry": "0" * 32,
        "ledger_head": {"count": 3, "mac": "1" * 64},
        "sampler": "exponential: inverse CDF – whole weights",
        "noise": "secure",
        "draws_per_node": {"plan.of": 3},
        "resumed": 0,
        "lost_draws": 0,
        "closed": False,
        "outputs_sha256": {"synthetic.jsonl": hashlib.sha256(TEXT).hexdigest()},
        "versions": {"affidavit": "0.1.0"},
        "ended": "2026-03-01T12:00:00Z",
    } | changes


@pytest.fixture
def envelope(make_certificate: Any) -> bytes:
    return make_certificate()


@pytest.fixture
def signed(keyring: Keyring, envelope: bytes) -> bytes:
    return render(_facts(hashlib.sha256(envelope).hexdigest()), signer=keyring.signer())


def test_a_receipt_is_readable_and_its_first_line_is_the_guarantee(signed: bytes) -> None:
    lines = signed.decode("utf-8").splitlines()
    assert lines[1].startswith('  "guarantee": "noise from the operating system')
    assert lines[-5].strip().startswith('"signature"')


def test_a_right_receipt_is_read_and_fits(signed: bytes, envelope: bytes, keyring: Keyring, clock: Any) -> None:
    receipt = read(signed, trusted=keyring.trusted())
    assert receipt.keyid == keyring.signer().keyid
    certificate = verify_envelope(envelope, trusted=keyring.trusted(), clock=clock)
    check_receipt(receipt, certificate, trusted=keyring.trusted(), now=clock())
    check_text(receipt, TEXT)


def test_no_bit_can_change(signed: bytes, keyring: Keyring) -> None:
    trusted = keyring.trusted()
    for place in range(len(signed)):
        for bit in range(8):
            changed = bytearray(signed)
            changed[place] ^= 1 << bit
            with pytest.raises(CertificateError):
                read(bytes(changed), trusted=trusted)


@pytest.mark.parametrize(
    "respell",
    [
        lambda text: text + "\n",
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("  ", " "),
        lambda text: json.dumps(json.loads(text)),
        lambda text: json.dumps(json.loads(text), indent=2) + "\n",  # escapes what is not ASCII
        lambda text: "\ufeff" + text,
        lambda text: re.sub(r'"noise": "secure",\n', '"noise": "secure",\n  "noise": "secure",\n', text),
        lambda text: text.replace('"ended"', '"more": 1,\n  "ended"'),
    ],
)
def test_the_same_facts_spelled_otherwise_are_refused(signed: bytes, keyring: Keyring, respell: Any) -> None:
    changed = respell(signed.decode("utf-8")).encode()
    assert changed != signed
    with pytest.raises(SignatureInvalid) as refusal:
        read(changed, trusted=keyring.trusted())
    assert refusal.value.hint


def test_a_stranger_s_receipt_is_refused(signed: bytes, tmp_path: Path) -> None:
    stranger = Keyring(tmp_path / "stranger")
    stranger.init()
    with pytest.raises(UntrustedKey):
        read(signed, trusted=stranger.trusted())


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b'{"signature": 1}', b"\xff", b"[" * 100_000])
def test_what_is_no_receipt_is_refused(keyring: Keyring, content: bytes) -> None:
    with pytest.raises(SignatureInvalid, match="not a signed receipt"):
        read(content, trusted=keyring.trusted())


def test_an_unsigned_baseline_is_no_receipt_of_a_run(keyring: Keyring, envelope: bytes) -> None:
    content = render(_facts(hashlib.sha256(envelope).hexdigest()))
    with pytest.raises(SignatureInvalid, match="not a signed receipt"):
        read(content, trusted=keyring.trusted())


@pytest.mark.parametrize("schema", ["affidavit/receipt/v2", None, [], {}])
def test_a_signed_file_of_no_known_version_is_no_receipt(keyring: Keyring, schema: object) -> None:
    with pytest.raises(SignatureInvalid, match=r"receipt\.schema"):
        read(render(_facts("1" * 64, schema=schema), signer=keyring.signer()), trusted=keyring.trusted())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"certificate_sha256": "1" * 64}, "another certificate"),
        ({"draws_per_node": {"plan.of": 4}}, "states 4 draws at plan.of, certified are 3"),
        ({"draws_per_node": {"plan.parts[7]": 1}}, "certified are 0"),
    ],
)
def test_a_receipt_has_to_fit_its_certificate(
    keyring: Keyring, envelope: bytes, clock: Any, change: dict[str, Any], problem: str
) -> None:
    certificate = verify_envelope(envelope, trusted=keyring.trusted(), clock=clock)
    facts = _facts(certificate.sha256, **change)
    receipt = read(render(facts, signer=keyring.signer()), trusted=keyring.trusted())
    with pytest.raises(WrongRun, match=re.escape(problem)):
        check_receipt(receipt, certificate, trusted=keyring.trusted(), now=clock())


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"relation": "substitution"}, "trusted for substitution only"),
        ({"epsilon": Decimal("0.4")}, "trusted up to ε = 0.4"),
        ({"delta": Decimal("1e-6")}, "trusted up to δ = 0.000001"),
        ({"expires": datetime(2026, 1, 1, tzinfo=UTC)}, "its trust ended at 2026-01-01"),
        ({}, ""),
    ],
)
def test_another_key_puts_no_text_under_a_certificate_that_it_could_not_sign(
    keyring: Keyring, envelope: bytes, clock: Any, limits: dict[str, Any], why: str
) -> None:
    """Only a key without such limits may: the one that took the signer's place."""
    other = Signer.of(Ed25519PrivateKey.generate())
    keyring.trust(_public_pem(other.private_key.public_key()), limits=KeyLimits(**limits))
    trusted = keyring.trusted()
    certificate = verify_envelope(envelope, trusted=trusted, clock=clock)
    receipt = read(render(_facts(certificate.sha256), signer=other), trusted=trusted)
    with pytest.raises(UntrustedKey, match=why) if limits else contextlib.nullcontext():
        check_receipt(receipt, certificate, trusted=trusted, now=clock())


def test_text_has_to_be_the_receipt_s_to_the_byte(signed: bytes, keyring: Keyring) -> None:
    receipt = read(signed, trusted=keyring.trusted())
    for text in (TEXT + b"\n", TEXT[:-1], b""):
        with pytest.raises(WrongRun, match="is not the text of its receipt"):
            check_text(receipt, text)
