"""Unfinished runs: end one for good, or note the end of one that lacks nothing else.

A run that stopped has spent its budget. ``close`` releases the texts that it had finished, which are released values
whatever became of the rest, and commits the charge; neither model nor data are read, and nothing is drawn. What the
certificate covered beyond them is given up. What had been drawn of an unfinished text stays in the private trace.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from affidavit.accountant import files
from affidavit.accountant.attestation import receipt as receipts
from affidavit.accountant.attestation.certificate import verify_envelope
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.clock import Clock, parse_instant, utc_now
from affidavit.accountant.errors import CertificateError, UsageError
from affidavit.accountant.release.journal import NAME, Past, locked, remove
from affidavit.accountant.remedies import unused
from affidavit.generation.outputs import Generated, Provenance, Written, write
from affidavit.generation.recorder import kept_sample

if TYPE_CHECKING:
    from affidavit.accountant.attestation.statement import Certificate
    from affidavit.accountant.ledger import Ledger
    from affidavit.synthesis import Synthesis

__all__ = ["close", "ended_already"]


def close(
    folder: Path, *, keyring: Keyring | None = None, ledger: Ledger | None = None, clock: Clock = utc_now
) -> Synthesis:
    """End the run that stopped in ``folder``: its finished texts, a receipt that says so, and its charge committed.

    Raises ``UsageError`` where there is none, or it still runs, ``SignatureInvalid``, ``UntrustedKey``, and as the
    ledger does.
    """
    from affidavit.accountant.ledger import Ledger
    from affidavit.synthesis import claimed

    keyring = keyring or Keyring.default()
    ledger = ledger or Ledger(keyring=keyring)
    Past.read(folder / NAME)  # where there is none, nothing is made
    with claimed(folder, resume=True):
        past = Past.read(folder / NAME)  # once more: until now another process may have gone on with it
        with locked(past, home=keyring.home):
            return _closed(folder, past, keyring=keyring, ledger=ledger, clock=clock)


def _closed(folder: Path, past: Past, *, keyring: Keyring, ledger: Ledger, clock: Clock) -> Synthesis:
    """As ``close``, of what nobody else touches."""
    from affidavit.synthesis import Synthesis

    ended = ended_already(folder, keyring=keyring, ledger=ledger)
    if ended is not None:
        return ended
    entry, found = str(past.header["ledger_entry"]), _certificate(past, keyring)
    if not ledger.is_reserved(entry):
        remove(past.path, past.anchor(keyring.home))
        raise UsageError(
            f"the run in {folder} stopped before it was charged: there is nothing to end, and it is removed",
            hint="What was charged: `affidavit ledger show`. The folder may be generated into.",
        )
    end = ledger.end_after(entry)
    if ledger.reservation(entry, end=end, certificate_sha256=found.sha256).ended is not None:
        ledger.commit(entry)  # of a copy that was closed before: refused, before a file is written
    generated = _generated(past)
    provenance = Provenance(
        certificate_sha256=found.sha256,
        ledger_entry=entry,
        ledger_end=end,
        noise=str(past.header["noise"]),
        guarantee=bool(past.header["guarantee"]),
        plan=found.plan,
        resumed=past.count("resumed"),
        lost=past.lost,
        closed=True,
    )
    written = write(folder, generated, provenance, ended=clock(), signer=keyring.signer())
    ledger.commit(entry, receipt_sha256=written.receipt_sha256)
    remove(past.path, past.anchor(keyring.home))
    return Synthesis(generated, written, entry, provenance.guarantee)


def ended_already(folder: Path, *, keyring: Keyring, ledger: Ledger) -> Synthesis | None:
    """A run that stopped after its receipt was written: it is committed, and nothing is left of it to resume."""
    from affidavit.synthesis import Synthesis

    past = Past.read(folder / NAME)
    entry, found = str(past.header["ledger_entry"]), _certificate(past, keyring)
    written = Written(folder / "synthetic.jsonl", folder / "receipt.json", folder / "trace.jsonl", "")
    if not written.receipt.exists():
        return None
    content = files.read_bytes(written.receipt)
    try:
        stated = receipts.read(content, trusted=keyring.trusted()).facts
    except CertificateError:  # not signed here, or changed: nothing that the ledger may note as the run's end
        stated = {}
    if stated.get("ledger_entry") != entry:
        raise UsageError(
            f"{written.receipt} is no receipt of this run",
            hint=f"Move it away: `mv {shlex.quote(str(written.receipt))} {shlex.quote(str(unused(written.receipt)))}`",
        )
    digest = hashlib.sha256(content).hexdigest()
    item = ledger.reservation(entry, end=ledger.end_after(entry), certificate_sha256=found.sha256)
    if item.ended is None:
        ledger.commit(entry, receipt_sha256=digest)
    remove(past.path, past.anchor(keyring.home))
    written = Written(written.synthetic, written.receipt, written.trace, digest)
    return Synthesis(_generated(past), written, entry, bool(past.header["guarantee"]))


def _certificate(past: Past, keyring: Keyring) -> Certificate:
    """What the run was made under, as valid as it was when the run began."""
    envelope = base64.b64decode(str(past.header["certificate"]))
    return verify_envelope(envelope, trusted=keyring.trusted(), clock=lambda: parse_instant(str(past.header["at"])))


def _generated(past: Past) -> Generated:
    """The finished texts, with every draw that was made."""
    trace: list[Mapping[str, Any]] = [line for text in past.texts for line in text["trace"]]
    uses: dict[str, int] = {}
    for line in trace:
        if line["event"] == "draw":
            uses[line["path"]] = uses.get(line["path"], 0) + 1
    for path, count in past.uses.items():  # of the text that was not finished
        known = uses.get(path, 0)
        trace += [{"event": "draw", "path": path, "use": use, "unfinished": True} for use in range(known, count)]
    return Generated(
        generator=str(past.header["generator"]),
        samples=tuple(kept_sample(text) for text in past.texts),
        trace=tuple(trace),
        draws_per_node=past.uses,
        protected=True,
        versions={str(name): str(value) for name, value in past.header["versions"].items()},
    )
