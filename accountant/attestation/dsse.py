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

import json
from dataclasses import dataclass, replace
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature

from affidavit.accountant import files, strictjson
from affidavit.accountant.attestation.keys import Signer, TrustedKeys
from affidavit.accountant.errors import PlanError, SignatureInvalid, UntrustedKey
from affidavit.accountant.strictjson import forms_of, listed, record

__all__ = ["Verified", "add_signature", "pae", "sign", "verify"]


@dataclass(frozen=True, slots=True)
class Verified:
    """The very bytes that were signed, and the trusted keyids that signed them."""

    payload: bytes
    keyids: tuple[str, ...]


class _Signature(NamedTuple):
    keyid: str
    sig: bytes


@dataclass(frozen=True, slots=True)
class _Envelope:
    payload: bytes
    payload_type: str
    signatures: tuple[_Signature, ...] = ()

    def signed(self, signer: Signer) -> bytes:
        """As JSON without spaces, with one more signature."""
        made = _Signature(signer.keyid, signer.sign(pae(self.payload_type, self.payload)))
        whole = replace(self, signatures=(*self.signatures, made))
        return json.dumps(_FORM.show(whole), separators=(",", ":")).encode("ascii")


_SIGNATURES = listed(record(_Signature, later={"keyid": ""}))
_FORM = record(_Envelope, forms_of(_Envelope) | {"signatures": _SIGNATURES}, called={"payload_type": "payloadType"})


def pae(payload_type: str, payload: bytes) -> bytes:
    """The pre-authentication encoding: the bytes that are signed."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def sign(payload: bytes, *, payload_type: str, signer: Signer) -> bytes:
    """An envelope with one signature."""
    return _Envelope(payload, payload_type).signed(signer)


def add_signature(envelope: bytes, signer: Signer) -> bytes:
    """The same payload with one more signature. Raises ``SignatureInvalid`` on a bad envelope."""
    return _parse(envelope).signed(signer)


def verify(envelope: bytes, *, payload_type: str, trusted: TrustedKeys) -> Verified:
    """Check the envelope against the trusted keys, then hand out its payload.

    Accepts if at least one trusted key signed. Raises ``SignatureInvalid`` if the envelope is
    malformed, of another type, or carries a wrong signature in a trusted key's name;
    ``UntrustedKey`` if no trusted key is named (or, without keyids, none fits).
    """
    parsed = _parse(envelope)
    message = pae(parsed.payload_type, parsed.payload)
    keyids: list[str] = []
    for named, value in parsed.signatures:
        for keyid in [named] if named else sorted(trusted):
            if keyid not in trusted:
                continue
            try:
                trusted[keyid].verify(value, message)
            except InvalidSignature:
                if named:
                    raise _invalid(f"the signature by key {keyid[:16]} does not fit the signed bytes") from None
            else:
                keyids.append(keyid)
    if not keyids:
        by = ", ".join(keyid[:16] for keyid, _ in parsed.signatures if keyid.isalnum()) or "a key without an id"
        raise UntrustedKey(
            f"signed by {by}, which is not trusted here",
            hint="If you know the signer, get the public key from them and run: `affidavit keys trust KEY.pem`",
        )
    if parsed.payload_type != payload_type:
        raise _invalid("the envelope holds another kind of document")
    return Verified(parsed.payload, tuple(dict.fromkeys(keyids)))


def _invalid(problem: str) -> SignatureInvalid:
    return SignatureInvalid(
        problem, hint="Get the file again from its issuer, or run: `affidavit certify RUN.toml -o CERT.json`"
    )


def _parse(envelope: bytes) -> _Envelope:
    if len(envelope) > files.DOCUMENT_BYTES:
        raise _invalid("the envelope is too large")
    try:
        parsed = _FORM.read(strictjson.parse(envelope), path="envelope")
    except PlanError as error:
        raise _invalid(f"not a DSSE envelope: {error.path} is {error.problem}") from None
    except ValueError:
        raise _invalid("not a DSSE envelope: not JSON, or a repeated field") from None
    if not parsed.signatures:
        raise _invalid("the envelope has no signatures")
    return parsed
