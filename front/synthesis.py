"""Generate under a certificate: everything is checked, then charged, then drawn, then written.

The order matters. What can be refused is refused before the ledger is touched; the ledger is charged before the first
model call; each draw is on the disk before anybody is given it (``accountant.release.journal``); the texts appear,
whole, only after the last draw; and only then is the charge marked as committed. A run that dies in between has spent
its budget: ``resume`` goes on with it at no further cost, ``closing`` ends it with the texts it had finished.
"""

from __future__ import annotations

import base64
import fcntl
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from affidavit.accountant.attestation import certificate as certificates
from affidavit.accountant.attestation.certificate import Certificate, check_subject
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.clock import Clock, show_instant, utc_now
from affidavit.accountant.errors import DataError, LedgerMissing, RunFileError, UsageError
from affidavit.accountant.release.journal import NAME, Journal, Past, unfinished
from affidavit.accountant.release.permit import check_same, open_permit
from affidavit.accountant.release.randomness import noise_source
from affidavit.accountant.remedies import setting, unused
from affidavit.accountant.show import Facts, Shown
from affidavit.certification import prepare
from affidavit.closing import ended_already
from affidavit.generation.models import load_model
from affidavit.generation.outputs import Provenance, Written, write
from affidavit.labelling import tell_labels
from affidavit.records import parse_all
from affidavit.runfile import RunFile
from affidavit.writing import writable

if TYPE_CHECKING:
    from affidavit.accountant.ledger import Ledger
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.outputs import Generated

__all__ = ["Synthesis", "claimed", "generate", "open_permit", "public_records"]


@dataclass(frozen=True, slots=True, repr=False)
class Synthesis(Shown):
    """What was generated, where it was written, and the ledger entry that paid."""

    generated: Generated
    written: Written
    entry: str
    guarantee: bool

    def facts(self) -> Facts:
        """How many texts there are and where, and what they say if the certificate covers them; no trace."""
        samples, place = self.generated.samples, self.written.synthetic.parent
        if not self.guarantee:
            return Facts(f"{len(samples)} texts in {place}, NO GUARANTEE")
        rows = tuple((sample.label, sample.text) for sample in samples)
        return Facts(f"{len(samples)} texts in {place}, covered by a certificate", ("label", "text"), rows)


def generate(
    run: RunFile,
    *,
    certificate: Path | None,
    out: Path,
    keyring: Keyring | None = None,
    ledger: Ledger | None = None,
    model: LanguageModel | None = None,
    progress: Callable[[Any], None] | None = None,
    tell: Callable[[str], None] | None = None,
    resume: bool = False,
    clock: Clock = utc_now,
) -> Synthesis:
    """Run what ``certificate`` covers and write synthetic.jsonl, receipt.json and trace.jsonl to ``out``.

    ``resume``: go on with the run that stopped in ``out``; run file, data, model and certificate have to be the same.

    ``model`` may be passed if it is loaded already; it is checked against the certificate all the same.
    ``tell`` is called with lines for the operator before anything is charged. Raises ``CertificateError``,
    ``DataError``, ``ModelMissing``, ``UsageError``, and ``BudgetError`` as the account will, before a model is loaded;
    nothing is charged then.
    """
    from affidavit.accountant.ledger import Ledger
    from affidavit.accountant.ledger.sketch import sketch

    keyring = keyring or Keyring.default()
    ledger = ledger or Ledger(keyring=keyring)
    envelope = certificates.read(certificate)
    found = certificates.verify_envelope(envelope, trusted=keyring.trusted(), clock=clock, account=run.data.name)
    subject, records = prepare(run, keyring=keyring)
    check_subject(found, subject)
    known = sketch((each.text for each in records), key=keyring.secret("commitment"))
    if resume:
        check_same(Past.read(out / NAME), found)
    else:
        _check_account(run, ledger, found, subject.data_hmac, known)
    ledger.confirm(found)  # as the permit will, before a model is loaded
    tell_labels(run, records, tell)
    with claimed(out, resume=resume):
        if resume and (ended := ended_already(out, keyring=keyring, ledger=ledger)) is not None:
            return ended
        model = model or load_model(
            run.model.name, dtype=getattr(run.generator, "dtype", "auto"), base=run.folder, server=run.server
        )
        if model.digest != subject.model_sha256:
            raise UsageError("the model given is not the run file's", hint="Leave `model` out, or load the run file's.")
        public = public_records(run)
        run.source.check(run.generator, model, public=public)
        with (
            _journal(out, found, envelope, run, model, home=keyring.home, resume=resume, clock=clock) as journal,
            open_permit(
                envelope,
                subject,
                run.data.name,
                ledger,
                trusted=keyring.trusted(),
                clock=clock,
                randomness=run.randomness.noise,
                records=known,
                journal=journal,
            ) as permit,
        ):
            generated = run.source.run(
                permit, run.generator, records, model, size=run.data.size, progress=progress, public=public
            )
            provenance = Provenance(
                certificate_sha256=permit.certificate.sha256,
                ledger_entry=permit.entry,
                ledger_end=ledger.end_after(permit.entry),
                noise=permit.sampler,
                guarantee=permit.guarantee,
                plan=permit.plan,
                resumed=journal.resumed,
                lost=journal.lost,
            )
            written = write(out, generated, provenance, ended=clock(), signer=keyring.signer())
            permit.attach_receipt(written.receipt_sha256)
    return Synthesis(generated, written, permit.entry, permit.guarantee)


def public_records(run: RunFile) -> tuple[Record, ...]:
    """The public records, none where the run file names none. Raises ``RunFileError`` for a malformed file."""
    if run.public_content is None:
        return ()
    try:
        return parse_all(run.public_content, fields=run.fields)
    except DataError as error:
        raise RunFileError("data.public", error.message, hint=error.hint) from None


def _check_account(run: RunFile, ledger: Ledger, found: Certificate, data: str, known: Sequence[str]) -> None:
    """Refuse what the account would, before a model is loaded; say which command opens one that is not there."""
    from affidavit.accounts import how_to_open

    try:
        ledger.check(
            run.data.name,
            relation=run.relation,
            unit=run.unit,
            epsilon=found.claim.epsilon,
            delta=found.claim.delta,
            costs=found.costs,
            account=found.account,
            data=data,
            records=known,
        )
    except LedgerMissing as error:
        if error.accounts:  # no command opens a second account for the same data
            ledger.check_owner(run.data.name, records=known, data=data)
        raise LedgerMissing(error.message, hint=how_to_open(run, ledger, error.accounts, known)) from None


@contextmanager
def _journal(
    out: Path,
    found: Certificate,
    envelope: bytes,
    run: RunFile,
    model: LanguageModel,
    *,
    home: Path,
    resume: bool,
    clock: Clock,
) -> Iterator[Journal]:
    """Where this run is kept: begun, or gone on with."""
    now = show_instant(clock())
    if resume:
        journal = Journal.reopen(out / NAME, home=home, at=now)
    else:
        header = {
            "at": now,
            "certificate": base64.b64encode(envelope).decode("ascii"),
            "certificate_sha256": found.sha256,
            "generator": run.source.kind,
            "ledger_entry": secrets.token_hex(16),
            "noise": noise_source(run.randomness.noise).description,
            "guarantee": noise_source(run.randomness.noise).guarantee,
            "versions": dict(model.versions),
        }
        journal = Journal.begin(out / NAME, home=home, header=header)
    try:
        yield journal
    finally:
        journal.close()


@contextmanager
def claimed(out: Path, *, resume: bool = False) -> Iterator[None]:
    """Hold the output folder for one run: the second that asks for it is refused before it is charged.

    The folder itself is locked, so that a run that dies, however, leaves it to be resumed. Raises ``UsageError`` for
    a folder that another run writes to or wrote to, or that cannot be used.
    """
    elsewhere = f"Choose another folder: {setting('-o', unused(out))}."
    writable(out)
    out.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(out, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"another run is writing to {out}", hint=elsewhere) from None
        if not resume and (out / NAME).exists():
            raise unfinished(out)
        for name in ("synthetic.jsonl", "receipt.json", "trace.jsonl"):
            if not resume and (out / name).exists():
                raise UsageError(f"{out / name} exists already", hint=elsewhere)
        yield
    finally:
        os.close(descriptor)
