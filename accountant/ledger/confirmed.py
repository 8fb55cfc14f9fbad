"""Notes of the gate: this certificate's numbers were derived again, by this verifier, before a run on this ledger.

A note is an entry of the chain, so that nobody makes one without ``ledger.key``; it names the ledger's id, so that a
row copied from another ledger under the same key says nothing here, and the digest of the verifier's code, so that
another version derives the numbers again. It is found by an id that all of these determine.
"""

from __future__ import annotations

import hashlib
from typing import Any

from affidavit.accountant.attestation import recheck
from affidavit.accountant.attestation.statement import Certificate
from affidavit.accountant.ledger.book import Verified

__all__ = ["is_noted", "note"]


def note(certificate: Certificate, *, ledger: str) -> dict[str, Any]:
    """What the entry says."""
    facts = {
        "ledger": ledger,
        "certificate_sha256": certificate.sha256,
        "statement_sha256": recheck.statement_sha256(certificate),
        "verifier": recheck.verifier(),
    }
    named = "\0".join(facts.values()).encode()
    return {"kind": "confirm", "entry": hashlib.sha256(named).hexdigest()[:32], **facts}


def is_noted(certificate: Certificate, found: Verified) -> bool:
    """Whether this ledger has the note. Raises ``LedgerAltered`` for one that was changed."""
    wanted = note(certificate, ledger=found.history.identity)
    for _, facts in found.about(wanted["entry"]):
        if {name: facts.get(name) for name in wanted} == wanted:
            return bool(wanted["verifier"])
    return False
