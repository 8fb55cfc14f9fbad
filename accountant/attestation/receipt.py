"""Receipts: what ran under a certificate, signed, so that whoever has the text can hold it against both.

Readable JSON whose first line says whether the text carries a guarantee and whose last field is the
signature, over the pre-authentication encoding (``dsse``) of everything before it. There is one spelling:
``read`` accepts exactly the bytes that ``render`` writes, so nothing in the file can change unseen, white
space included. A receipt says what its signer's machine did; that the machine told the truth is the
signer's word, as with a certificate.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cryptography.exceptions import InvalidSignature

from affidavit.accountant import strictjson
from affidavit.accountant.attestation import dsse
from affidavit.accountant.attestation.certificate import check_limits
from affidavit.accountant.attestation.keys import Signer, TrustedKeys
from affidavit.accountant.attestation.statement import Certificate
from affidavit.accountant.errors import PlanError, SignatureInvalid, UntrustedKey, WrongRun
from affidavit.accountant.plan import leaves
from affidavit.accountant.strictjson import BASE64, COUNT, FLAG, TEXT, Form, by_name, exactly, optional, record

__all__ = ["SCHEMA", "Receipt", "check_receipt", "check_text", "read", "render"]

SCHEMA = "affidavit/receipt/v3"
_TYPE = "application/vnd.affidavit.receipt+json"
_ANY = re.compile("")
_TEXT = optional(TEXT)
_SIGNATURE: Form[dict[str, Any]] = record(dict, {"keyid": TEXT, "sig": BASE64})
_FORM: dict[str, Form[Any]] = {
    "guarantee": TEXT,
    "schema": exactly(SCHEMA),
    "protected": FLAG,
    "generator": TEXT,
    "certificate_sha256": _TEXT,
    "ledger_entry": _TEXT,
    "ledger_head": optional(record(dict, {"count": COUNT, "mac": TEXT})),
    "sampler": _TEXT,
    "noise": _TEXT,
    "draws_per_node": by_name(COUNT, names=_ANY),
    "resumed": COUNT,
    "lost_draws": COUNT,
    "closed": FLAG,
    "outputs_sha256": by_name(TEXT),
    "versions": by_name(TEXT, names=_ANY),
    "ended": TEXT,
}


@dataclass(frozen=True, slots=True)
class Receipt:
    """A receipt whose signature by ``keyid`` was checked; ``facts`` without the signature."""

    facts: Mapping[str, Any]
    keyid: str

    @property
    def ledger_end(self) -> tuple[int, str] | None:
        """The ledger's end right after the run was charged, number and MAC: a rewritten ledger has another there."""
        stated = self.facts["ledger_head"]
        return None if stated is None else (stated["count"], stated["mac"])

    @property
    def guarantee(self) -> str:
        """The first line: whether the certificate covers the text. Starts with NONE where it does not."""
        return str(self.facts["guarantee"])


def render(facts: Mapping[str, Any], *, signer: Signer | None = None) -> bytes:
    """The file's bytes. Without a ``signer``: of an unprotected baseline, which nobody vouches for."""
    body = _spelled(facts)
    if signer is None:
        return body
    return _signed(facts, signer.keyid, signer.sign(dsse.pae(_TYPE, body)))


def read(content: bytes, *, trusted: TrustedKeys) -> Receipt:
    """The signature is checked first, over the file's own bytes.

    Raises ``SignatureInvalid`` for a file that was changed, is not signed or is no receipt, ``UntrustedKey``.
    """
    try:
        facts = strictjson.parse(content)
        strictjson.fields(facts, path="receipt", names=(*_FORM, "signature"))
        stated = _SIGNATURE.read(facts["signature"], path="receipt.signature")
    except PlanError as error:
        raise _invalid(f"not a signed receipt: {error.path} is {error.problem}") from None
    except ValueError:
        raise _invalid("not a signed receipt") from None
    keyid, value = stated["keyid"], stated["sig"]
    body = {name: item for name, item in facts.items() if name != "signature"}
    if keyid not in trusted:
        raise UntrustedKey(
            f"the receipt is signed by {keyid[:16] if keyid.isalnum() else 'a key without an id'}, which is not "
            "trusted here",
            hint="If you know the signer, get the public key from them: `affidavit keys trust --help`",
        )
    try:
        trusted[keyid].verify(value, dsse.pae(_TYPE, _spelled(body)))
    except InvalidSignature:
        raise _invalid("the receipt's signature does not fit it: it was changed") from None
    if _signed(body, keyid, value) != content:
        raise _invalid("the receipt is not spelled as it was signed: it was changed")
    try:
        record(dict, _FORM).read(body, path="receipt")
    except PlanError as error:
        raise _invalid(f"not a receipt, though signed: {error.path} is {error.problem}") from None
    return Receipt(body, keyid)


def check_receipt(receipt: Receipt, certificate: Certificate, *, trusted: TrustedKeys, now: datetime) -> None:
    """Refuse a receipt of another certificate, or of more draws than were certified. Raises ``WrongRun``.

    Its signer need not be the certificate's (a key is rotated in between), but has to be trusted for such a
    certificate: else a key that is trusted for little would put its own text under another's. Raises ``UntrustedKey``.
    """
    if receipt.facts["certificate_sha256"] != certificate.sha256:
        raise WrongRun(
            "config", "the receipt is for another certificate", hint="Give the certificate that its run was made under."
        )
    if receipt.keyid not in certificate.keyids:
        check_limits(certificate, (receipt.keyid,), trusted, now=now)
    most = {path: uses for path, _, uses in leaves(certificate.plan)}
    for path, uses in receipt.facts["draws_per_node"].items():
        if uses > most.get(path, 0):
            raise WrongRun(
                "config",
                f"the receipt states {uses} draws at {path}, certified are {most.get(path, 0)}",
                hint="Ask its signer: no permit allows that.",
            )


def check_text(receipt: Receipt, content: bytes, *, name: str = "synthetic.jsonl") -> None:
    """Refuse text that is not the receipt's, to the byte. Raises ``WrongRun``."""
    if receipt.facts["outputs_sha256"].get(name) != hashlib.sha256(content).hexdigest():
        raise WrongRun("text", f"{name} is not the text of its receipt", hint="Restore the file that was generated.")


def _spelled(facts: Mapping[str, Any]) -> bytes:
    return (json.dumps(dict(facts), ensure_ascii=False, indent=2) + "\n").encode()


def _signed(facts: Mapping[str, Any], keyid: str, value: bytes) -> bytes:
    return _spelled({**facts, "signature": {"keyid": keyid, "sig": BASE64.show(value)}})


def _invalid(problem: str) -> SignatureInvalid:
    return SignatureInvalid(problem, hint="Get the file again from whoever made it.")
