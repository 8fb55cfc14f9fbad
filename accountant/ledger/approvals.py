"""Two officers: an account is opened or raised only with the signatures of several that the ledger names.

    ledger officers A.pem B.pem C.pem     the first entry of its kind, for good: two of these have to agree
    ledger init ... --request R.json      a request, signed by whoever asks, if that is an officer
    ledger approve R.json                 another officer's signature on the same bytes
    ledger apply R.json                   the entry, with the request in it

A request names the ledger's id, and a raise the budget it starts from: it opens one account once, or raises it once.
Every reading of the whole chain checks the signatures again, so that not even the ledger's key opens an account alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from affidavit.accountant import strictjson
from affidavit.accountant.attestation import dsse
from affidavit.accountant.attestation.keys import Signer, TrustedKeys, keyid_of, read_public_key
from affidavit.accountant.errors import BudgetError, CertificateError, UsageError

__all__ = ["NEEDED", "approve", "approved", "check_approved", "officers_of", "request_bytes"]

NEEDED = 2
"""So many different officers have to sign."""

_TYPE = "application/vnd.affidavit.account+json"


def officers_of(pems: Sequence[bytes]) -> dict[str, str]:
    """Keyid to PEM. Raises ``UsageError`` for fewer than are needed."""
    found = {keyid_of(read_public_key(pem)): pem.decode("ascii", "replace") for pem in pems}
    if len(found) < NEEDED:
        raise UsageError(
            f"{len(found)} different officer's key{'' if len(found) == 1 else 's'} given, {NEEDED} have to agree",
            hint="Give at least two: `affidavit ledger officers A.pem B.pem`",
        )
    return found


def request_bytes(facts: Mapping[str, Any], *, ledger: str, signer: Signer) -> bytes:
    """A request to be approved, with its first signature."""
    payload = json.dumps({**facts, "ledger": ledger}, sort_keys=True, separators=(",", ":")).encode()
    return dsse.sign(payload, payload_type=_TYPE, signer=signer)


def approve(envelope: bytes, *, signer: Signer) -> tuple[bytes, dict[str, Any]]:
    """The request with one more signature, and what it asks for. Raises ``UsageError`` for what is no request.

    An officer's key signs certificates as well: nothing but a request gets its signature here.
    """
    signed = dsse.add_signature(envelope, signer)
    try:
        ours = {signer.keyid: signer.private_key.public_key()}
        facts = strictjson.parse(dsse.verify(signed, payload_type=_TYPE, trusted=ours).payload)
    except (CertificateError, ValueError):
        facts = None
    if not isinstance(facts, dict) or facts.get("kind") not in ("open", "raise"):
        raise UsageError(
            "not a request to open or raise an account: nothing was signed",
            hint="Have one made: `affidavit ledger raise --help`, `affidavit ledger init --help`",
        )
    return signed, facts


def approved(envelope: bytes, *, ledger: str, officers: Mapping[str, str]) -> dict[str, Any]:
    """What enough officers signed for this ledger. Raises ``BudgetError``."""
    trusted: TrustedKeys = {keyid: read_public_key(pem.encode()) for keyid, pem in officers.items()}
    try:
        found = dsse.verify(envelope, payload_type=_TYPE, trusted=trusted)
        keyids = found.keyids
    except CertificateError as error:
        raise _refused(f"the request is not signed by an officer of this ledger: {error.message}") from None
    if len(keyids) < NEEDED:
        raise _refused(f"the request is signed by {len(keyids)} of the {NEEDED} officers that have to agree")
    facts = strictjson.parse(found.payload)
    if not isinstance(facts, dict) or facts.pop("ledger", None) != ledger:
        raise _refused("the request is for another ledger")
    return facts


def check_approved(facts: Mapping[str, Any], *, ledger: str, officers: Mapping[str, str]) -> None:
    """Raises ``ValueError`` for an entry that its own approvals do not cover."""
    stated = {name: value for name, value in facts.items() if name not in ("approvals", "at")}
    try:
        covered = approved(str(facts["approvals"]).encode(), ledger=ledger, officers=officers)
    except BudgetError as error:
        raise ValueError(error.message) from None
    if covered != stated:
        raise ValueError("the officers approved something else")


def _refused(problem: str) -> BudgetError:
    return BudgetError(
        problem,
        hint="Each officer signs it where their key is: `affidavit ledger approve REQUEST.json`, then "
        "`affidavit ledger apply REQUEST.json`",
    )
