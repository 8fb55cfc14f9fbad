"""DSSE envelopes, version 1: bytes with signatures around them.

Source: Dead Simple Signing Envelope 1.0.2, protocol and envelope (secure-systems-lab/dsse).
What is signed is PAE(type, body) = "DSSEv1" SP LEN(type) SP type SP LEN(body) SP body, lengths
in bytes, decimal, without leading zeros. ``verify`` checks signatures over the decoded bytes and
returns *those* bytes; nothing of the payload is parsed before.

Stricter than the source where leniency would let a changed file pass for the same certificate:
base64 in the standard alphabet with exact padding, no unknown or repeated fields (nothing
unsigned can travel along), a stated keyid must be the signer's, and a signature that names a
trusted key has to be right even if another one is.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from affidavit.accountant import strictjson
from affidavit.accountant.attestation.keys import Signer, TrustedKeys
from affidavit.accountant.errors import SignatureInvalid, UntrustedKey

__all__ = ["Verified", "add_signature", "pae", "sign", "verify"]

_MAX_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class Verified:
    """The very bytes that were signed, their type, and the trusted keyids that signed them."""

    payload: bytes
    payload_type: str
    keyids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Signature:
    keyid: str
    value: bytes


@dataclass(frozen=True, slots=True)
class _Envelope:
    payload: bytes
    payload_type: str
    signatures: tuple[_Signature, ...]

    def to_bytes(self) -> bytes:
        signatures = [{"keyid": s.keyid, "sig": _encode(s.value)} for s in self.signatures]
        obj = {"payload": _encode(self.payload), "payloadType": self.payload_type, "signatures": signatures}
        return json.dumps(obj, separators=(",", ":")).encode("ascii")


def pae(payload_type: str, payload: bytes) -> bytes:
    """The pre-authentication encoding: the bytes that are signed."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign(payload: bytes, *, payload_type: str, signers: Sequence[Signer]) -> bytes:
    """An envelope signed by each of ``signers`` (at least one), as JSON without spaces."""
    if not signers:
        raise ValueError("an envelope needs a signature")
    message = pae(payload_type, payload)
    signatures = tuple(_Signature(signer.keyid, signer.sign(message)) for signer in signers)
    return _Envelope(payload, payload_type, signatures).to_bytes()


def add_signature(envelope: bytes, signer: Signer) -> bytes:
    """The same payload with one more signature. Raises ``SignatureInvalid`` on a bad envelope."""
    old = _parse(envelope)
    new = _Signature(signer.keyid, signer.sign(pae(old.payload_type, old.payload)))
    return _Envelope(old.payload, old.payload_type, (*old.signatures, new)).to_bytes()


def verify(envelope: bytes, *, payload_type: str, trusted: TrustedKeys) -> Verified:
    """Check the envelope against the trusted keys, then hand out its payload.

    Accepts if at least one trusted key signed. Raises ``SignatureInvalid`` if the envelope is
    malformed, of another type, or carries a wrong signature in a trusted key's name;
    ``UntrustedKey`` if no trusted key is named (or, without keyids, none fits).
    """
    from cryptography.exceptions import InvalidSignature

    parsed = _parse(envelope)
    message = pae(parsed.payload_type, parsed.payload)
    keyids: list[str] = []
    for signature in parsed.signatures:
        candidates = [signature.keyid] if signature.keyid else sorted(trusted)
        for keyid in candidates:
            if keyid not in trusted:
                continue
            try:
                trusted[keyid].verify(signature.value, message)
            except InvalidSignature:
                if signature.keyid:
                    raise _invalid(f"the signature by key {keyid[:16]} does not fit the signed bytes") from None
            else:
                keyids.append(keyid)
    if not keyids:
        named = ", ".join(s.keyid[:16] for s in parsed.signatures if s.keyid.isalnum()) or "a key without an id"
        raise UntrustedKey(
            f"signed by {named}, which is not trusted here",
            hint="If you know the signer, get the public key from them and run: `affidavit keys trust KEY.pem`",
        )
    if parsed.payload_type != payload_type:
        raise _invalid("the envelope holds another kind of document")
    return Verified(parsed.payload, parsed.payload_type, tuple(dict.fromkeys(keyids)))


def _invalid(problem: str) -> SignatureInvalid:
    return SignatureInvalid(
        problem, hint="Get the file again from its issuer, or run: `affidavit certify RUN.toml -o CERT.json`"
    )


def _encode(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _decode(text: object, what: str) -> bytes:
    """Standard base64 with exact padding; one spelling a value."""
    if not isinstance(text, str):
        raise _invalid(f"{what} is not a string")
    try:
        value = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, ValueError):
        raise _invalid(f"{what} is not base64") from None
    if _encode(value) != text:
        raise _invalid(f"{what} is not base64 in its one exact spelling")
    return value


def _fields(obj: object, what: str, required: set[str], optional: set[str] | None = None) -> dict[str, Any]:
    if not isinstance(obj, dict) or not required <= set(obj) <= required | (optional or set()):
        raise _invalid(f"{what} does not have exactly the fields {', '.join(sorted(required))}")
    return obj


def _parse(envelope: bytes) -> _Envelope:
    if len(envelope) > _MAX_BYTES:
        raise _invalid("the envelope is too large")
    try:
        obj = strictjson.parse(envelope)
    except ValueError:
        raise _invalid("not a DSSE envelope: not JSON, or a repeated field") from None
    fields = _fields(obj, "the envelope", {"payload", "payloadType", "signatures"})
    kind, items = fields["payloadType"], fields["signatures"]
    if not isinstance(kind, str) or not isinstance(items, list) or not items:
        raise _invalid("the envelope has no type or no signatures")
    try:
        kind.encode()
    except UnicodeEncodeError:
        raise _invalid("the envelope's type is not text") from None
    signatures = []
    for item in items:
        signature = _fields(item, "a signature", {"sig"}, {"keyid"})
        keyid = signature.get("keyid", "")
        if not isinstance(keyid, str):
            raise _invalid("a keyid is not a string")
        signatures.append(_Signature(keyid, _decode(signature["sig"], "a signature")))
    return _Envelope(_decode(fields["payload"], "the payload"), kind, tuple(signatures))
