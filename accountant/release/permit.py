"""Permits: the only way for a mechanism to draw.

    with open_permit(envelope, run, "support-mail", ledger, trusted=keys.trusted()) as permit:
        leaf = permit.use("plan.of")          # one use of the certified mechanism at this path
        noise = permit.noise.standard_normal(size=...)

Life of one: checks (signature, trust, validity; that this is the certified run; that its plan costs no
more than is claimed, since a signature proves no number: derived again, once on a ledger) -> the first
claim is reserved in the ledger -> open -> uses, counted and in order -> closed. Only then is the
reservation marked as committed. An exception, a kill or a power cut leaves it reserved: spent, because
nobody knows what was seen; a fork that leaves the block commits nothing. Stopping early is not cheaper:
when a run stops depends on the data.

What this protects against is error: another data file, an old certificate, a mechanism run once
too often, a budget forgotten. Code in the same process can reach around it, as it could read the
data itself; the token below only keeps a permit from being made by accident.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from affidavit.accountant.attestation import certificate as certificates
from affidavit.accountant.attestation.certificate import Certificate, RunSubject, check_subject, verify_envelope
from affidavit.accountant.attestation.keys import Keyring, TrustedKeys
from affidavit.accountant.clock import Clock, utc_now
from affidavit.accountant.errors import PermitViolation, WrongRun
from affidavit.accountant.plan import Leaf, Parallel, Plan
from affidavit.accountant.release.journal import Journal, Past
from affidavit.accountant.release.order import Order, order_free
from affidavit.accountant.release.randomness import GuardedNoise, NoiseSource, Randomness, noise_source
from affidavit.accountant.remedies import setting, unused
from affidavit.accountant.validate import Relation

if TYPE_CHECKING:
    from affidavit.accountant.ledger import Ledger

__all__ = ["Permit", "check_same", "open_permit"]

_TOKEN = object()


class Permit:
    """The live right to draw what one certificate covers, once. Made by ``open_permit`` only."""

    def __init__(
        self,
        token: object,
        certificate: Certificate,
        *,
        order: Order,
        entry: str,
        noise: NoiseSource,
        journal: Journal | None = None,
    ) -> None:
        if token is not _TOKEN:
            raise PermitViolation("a permit is not made by hand", hint="Use: `with open_permit(...) as permit:`")
        self.certificate = certificate
        """What was certified."""
        self.plan: Plan = certificate.plan
        self.relation: Relation = certificate.relation
        self.entry = entry
        """The ledger entry that this run is charged to: a random id."""
        self.journal = journal
        """Where draws are kept as they are made, if they are; then the noise answers inside such a draw only."""
        self.sampler = noise.description
        """One line about the noise, for the receipt."""
        self.guarantee = noise.guarantee
        """False for a seeded run: reproducible noise protects nobody."""
        self._noise = GuardedNoise(noise, check=self._check_draw)
        if journal is not None:
            self._noise.skip(journal.words)
        self._order = order
        self._uses = dict.fromkeys(self._order.paths, 0)
        self._receipt_sha256: str | None = None
        self._open = True
        self._process = os.getpid()
        self._lock = threading.Lock()

    @property
    def uses(self) -> dict[str, int]:
        """How often each leaf was used so far, by path; a copy."""
        with self._lock:
            return dict(self._uses)

    @property
    def side_by_side(self) -> bool:
        """Whether the parts of the plan may be drawn in any order, and are: a seeded run keeps to one."""
        return isinstance(self.plan, Parallel) and order_free(self.plan) and self.guarantee

    @property
    def noise(self) -> GuardedNoise:
        """Where draws come from: it asks the permit at every draw, also where it was kept for later.

        Raises ``PermitViolation`` once the permit is closed, and in another process.
        """
        self._check_live()
        return self._noise

    def use(self, path: str) -> Leaf:
        """Charge one use of the leaf at ``path`` and return it, with its certified parameters.

        Raises ``PermitViolation`` at the first use too many, at an unknown path, out of the
        declared order, after the permit closed, or in another process than the one it was opened in.
        """
        with self._lock:
            self._check_live()
            leaf = self._order.use(path)
            self._uses[path] += 1
            return leaf

    def finish(self, path: str) -> None:
        """Leave the node at ``path`` early, so that what comes after it may begin. Nothing is refunded."""
        with self._lock:
            self._check_live()
            self._order.finish(path)

    def attach_receipt(self, sha256: str) -> None:
        """The digest of the receipt, to be written into the ledger when the run ends well."""
        self._check_live()
        self._receipt_sha256 = sha256

    @property
    def mine(self) -> bool:
        """Whether this is the process that opened the permit, and not a fork of it."""
        return os.getpid() == self._process

    def _check_live(self) -> None:
        if not self._open:
            raise PermitViolation(
                "the permit is closed: its run has ended", hint="Open a new one; it is charged to the ledger anew."
            )
        if not self.mine:
            raise PermitViolation(
                "the permit was opened in another process, where its uses are counted",
                hint="Draw in the process that opened it, and send the results.",
            )

    def _check_draw(self) -> None:
        self._check_live()
        if self.journal is not None and not self.journal.drawing:
            raise PermitViolation(
                "noise was asked for outside a draw that is written down",
                hint="Draw by a mechanism: `recorder.draw(path, spec, values)`",
            )

    def _close(self) -> str | None:
        with self._lock:
            self._open = False
            return self._receipt_sha256

    def __reduce__(self) -> NoReturn:
        raise PermitViolation("a permit cannot be copied or pickled: it would be spent twice", hint="Open one each.")


@contextmanager
def open_permit(
    certificate: bytes | Path | None,
    run: RunSubject,
    dataset: str,
    ledger: Ledger,
    *,
    trusted: TrustedKeys | None = None,
    clock: Clock = utc_now,
    randomness: Randomness = "secure",
    records: Sequence[str] = (),
    journal: Journal | None = None,
) -> Iterator[Permit]:
    """Check everything, reserve the worst case, then let the body draw.

    certificate: an envelope's bytes, or its file. run: what is about to be run, built anew from the
    run file, data and model. dataset: the ledger account to charge. trusted: by default the keys in
    ``AFFIDAVIT_HOME``. records: their keyed ``sketch``, by which the ledger knows them under another name.
    journal: where draws are kept, under its own ledger entry; where that was reserved before, the run goes on at no
    further cost. It is removed when the run is committed.

    Raises, before anything is charged: ``CertificateMissing``, ``SignatureInvalid``,
    ``UntrustedKey``, ``CertificateExpired``, ``WrongRun``, ``ClaimRefused``, ``UsageError`` (randomness); from the
    ledger ``LedgerMissing``, ``LedgerAltered``, ``BudgetExceeded``, ``BudgetError``.
    """
    envelope = certificate if isinstance(certificate, bytes) else certificates.read(certificate)
    keys = Keyring.default().trusted() if trusted is None else trusted
    verified = verify_envelope(envelope, trusted=keys, clock=clock, account=dataset)
    check_subject(verified, run)
    ledger.confirm(verified)
    noise = noise_source(randomness)
    order = Order(verified.plan)
    entry = None if journal is None else _reserved(journal, verified, ledger)
    entry = entry or ledger.reserve(
        dataset,
        relation=verified.relation,
        unit=verified.unit,
        epsilon=verified.claim.epsilon,
        delta=verified.claim.delta,
        certificate_sha256=verified.sha256,
        costs=verified.costs,
        account=verified.account,
        data=run.data_hmac,
        records=records,
        entry=None if journal is None else journal.entry,
    )
    permit = Permit(_TOKEN, verified, order=order, entry=entry, noise=noise, journal=journal)
    try:
        yield permit
    finally:
        receipt_sha256 = permit._close()
    if permit.mine:
        ledger.commit(entry, receipt_sha256=receipt_sha256)
        if journal is not None:
            journal.remove()


def check_same(begun: Past | Journal, certificate: Certificate) -> None:
    """A run goes on under the certificate that it began under. Raises ``WrongRun``."""
    if begun.header["certificate_sha256"] != certificate.sha256:
        raise WrongRun(
            "config",
            "the run that is unfinished here began under another certificate",
            hint=f"Resume it with that one, or end it: `affidavit close {shlex.quote(str(begun.path.parent))}`",
        )


def _reserved(journal: Journal, verified: Certificate, ledger: Ledger) -> str | None:
    """The entry of a run that goes on; None where it was never reserved. Raises ``WrongRun``, ``BudgetError``."""
    check_same(journal, verified)
    entry = journal.entry
    if not ledger.is_reserved(entry):
        return None
    item = ledger.reservation(entry, end=ledger.end_after(entry), certificate_sha256=verified.sha256)
    if item.ended is not None:
        raise PermitViolation(
            "the run was ended and its charge committed: nothing more is drawn under it",
            hint="Begin another, which is charged anew: `affidavit generate RUN.toml --certificate CERT.json "
            f"{setting('-o', unused(journal.path.parent)).strip('`')}`",
        )
    return entry
