from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from affidavit.accountant.attestation import dsse
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import CertificateError, SignatureInvalid, UntrustedKey

TYPE = "application/vnd.in-toto+json"
PAYLOAD = b'{"answer":42,"text":"\xc3\xa9"}'


@pytest.fixture
def envelope(keyring: Keyring) -> bytes:
    return dsse.sign(PAYLOAD, payload_type=TYPE, signer=keyring.signer())


@pytest.fixture
def stranger(tmp_path: Path) -> Keyring:
    ring = Keyring(tmp_path / "stranger")
    ring.init()
    return ring


def verify(envelope: bytes, ring: Keyring) -> bytes:
    return dsse.verify(envelope, payload_type=TYPE, trusted=ring.trusted()).payload


def edited(envelope: bytes, **changes: object) -> bytes:
    return json.dumps(json.loads(envelope) | changes).encode()


def with_signature(envelope: bytes, **changes: object) -> bytes:
    obj = json.loads(envelope)
    obj["signatures"][0].update(changes)
    return json.dumps(obj).encode()


def test_the_encoding_is_the_published_one() -> None:
    # DSSE 1.0.2, protocol.md, "Test Vectors".
    expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert dsse.pae("http://example.com/HelloWorld", b"hello world") == expected


def test_lengths_are_in_bytes() -> None:
    assert dsse.pae("é", "ü".encode() * 5) == b"DSSEv1 2 \xc3\xa9 10 " + b"\xc3\xbc" * 5


def test_the_signed_bytes_come_back_as_they_were(envelope: bytes, keyring: Keyring) -> None:
    verified = dsse.verify(envelope, payload_type=TYPE, trusted=keyring.trusted())
    assert verified.payload == PAYLOAD
    assert verified.keyids == (keyring.signer().keyid,)


def test_every_flipped_bit_anywhere_is_refused(envelope: bytes, keyring: Keyring) -> None:
    trusted = keyring.trusted()
    for position in range(len(envelope)):
        for bit in range(8):
            changed = bytearray(envelope)
            changed[position] ^= 1 << bit
            with pytest.raises((SignatureInvalid, UntrustedKey)):
                dsse.verify(bytes(changed), payload_type=TYPE, trusted=trusted)


def test_every_flipped_byte_of_payload_and_signature_is_an_invalid_signature(envelope: bytes, keyring: Keyring) -> None:
    obj = json.loads(envelope)
    for what, value in (("payload", obj["payload"]), ("sig", obj["signatures"][0]["sig"])):
        content = base64.b64decode(value)
        for position in range(len(content)):
            changed = bytearray(content)
            changed[position] ^= 0x41
            text = base64.b64encode(bytes(changed)).decode()
            bad = edited(envelope, payload=text) if what == "payload" else with_signature(envelope, sig=text)
            with pytest.raises(SignatureInvalid):
                verify(bad, keyring)


def test_a_truncated_envelope_is_refused(envelope: bytes, keyring: Keyring) -> None:
    for length in range(len(envelope)):
        with pytest.raises(SignatureInvalid):
            verify(envelope[:length], keyring)


def test_another_type_is_refused_even_if_signed(keyring: Keyring) -> None:
    other = dsse.sign(PAYLOAD, payload_type="text/plain", signer=keyring.signer())
    with pytest.raises(SignatureInvalid, match="another kind"):
        verify(other, keyring)
    with pytest.raises(SignatureInvalid, match="does not fit"):
        verify(edited(other, payloadType=TYPE), keyring)


def test_an_unknown_signer_is_not_trusted(envelope: bytes, stranger: Keyring, keyring: Keyring) -> None:
    with pytest.raises(UntrustedKey) as refusal:
        verify(envelope, stranger)
    assert keyring.signer().keyid[:16] in refusal.value.message
    assert "affidavit keys trust" in refusal.value.hint
    stranger.trust(keyring.show()[0].pem)
    assert verify(envelope, stranger) == PAYLOAD


def test_a_stranger_cannot_sign_in_a_trusted_name(keyring: Keyring, stranger: Keyring) -> None:
    forged = dsse.sign(PAYLOAD, payload_type=TYPE, signer=stranger.signer())
    with pytest.raises(SignatureInvalid):
        verify(with_signature(forged, keyid=keyring.signer().keyid), keyring)


def test_one_trusted_signature_among_several_is_enough(envelope: bytes, keyring: Keyring, stranger: Keyring) -> None:
    both = dsse.add_signature(envelope, stranger.signer())
    assert verify(both, keyring) == verify(both, stranger) == PAYLOAD
    keyring.trust(stranger.show()[0].pem)
    verified = dsse.verify(both, payload_type=TYPE, trusted=keyring.trusted())
    assert verified.keyids == (keyring.signer().keyid, stranger.signer().keyid)


def test_a_wrong_signature_in_a_trusted_name_spoils_the_right_one(
    envelope: bytes, keyring: Keyring, stranger: Keyring
) -> None:
    both = json.loads(dsse.add_signature(envelope, stranger.signer()))
    both["signatures"][1]["keyid"] = keyring.signer().keyid
    with pytest.raises(SignatureInvalid):
        verify(json.dumps(both).encode(), keyring)


def test_without_a_keyid_all_trusted_keys_are_tried(envelope: bytes, keyring: Keyring, stranger: Keyring) -> None:
    obj = json.loads(envelope)
    del obj["signatures"][0]["keyid"]
    keyring.trust(stranger.show()[0].pem)
    assert verify(json.dumps(obj).encode(), keyring) == PAYLOAD
    with pytest.raises(UntrustedKey):
        verify(json.dumps(obj).encode(), stranger)


@pytest.mark.parametrize(
    "text",
    ["e30", "e30=\n", " e30=", "e31=", "-_8=", "e30==", "e3 0=", "é", None, 7],
    ids=[
        "no padding",
        "newline",
        "space",
        "spare bits",
        "url alphabet",
        "long padding",
        "inner space",
        "é",
        "null",
        "number",
    ],
)
def test_base64_has_one_spelling(envelope: bytes, keyring: Keyring, text: object) -> None:
    with pytest.raises(SignatureInvalid, match="payload"):
        verify(edited(envelope, payload=text), keyring)
    with pytest.raises(SignatureInvalid, match="signature"):
        verify(with_signature(envelope, sig=text), keyring)


def test_malformed_envelopes_are_refused(envelope: bytes, keyring: Keyring) -> None:
    bad = [
        b"",
        b"[]",
        b"null",
        b"\xff",
        b"\xef\xbb\xbf" + envelope,
        b"[" * 200_000,
        edited(envelope, extra=1),
        edited(envelope, signatures=[]),
        edited(envelope, signatures={}),
        edited(envelope, payloadType=3),
        edited(envelope, payloadType="\ud800"),
        with_signature(envelope, extra=1),
        with_signature(envelope, keyid=1),
        envelope.replace(b'{"payload":', b'{"payload":"","payload":'),
    ]
    for item in bad:
        with pytest.raises(SignatureInvalid):
            verify(item, keyring)


def test_all_refusals_are_exit_three() -> None:
    assert SignatureInvalid.exit_code == UntrustedKey.exit_code == CertificateError.exit_code == 3
