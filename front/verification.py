"""Verify a certificate, and what came of its run: receipt, released text, the ledger's entry.

``verify`` checks who said it; with ``recompute`` also whether the number is right, by other code.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from affidavit.accountant import files
from affidavit.accountant.attestation import certificate as certificates
from affidavit.accountant.attestation import receipt as receipts
from affidavit.accountant.attestation.certificate import Certificate
from affidavit.accountant.attestation.keys import Keyring, TrustedKeys
from affidavit.accountant.attestation.receipt import Receipt
from affidavit.accountant.attestation.recheck import recheck
from affidavit.accountant.clock import Clock, utc_now
from affidavit.accountant.errors import UsageError, WrongRun
from affidavit.accountant.remedies import setting
from affidavit.accountant.show import Facts, Shown, lower, upper

if TYPE_CHECKING:
    from affidavit.accountant.ledger import Ledger, Reservation
    from affidavit.accountant.verifier import ClaimCheck

__all__ = ["Verification", "content_of", "verify"]


@dataclass(frozen=True, slots=True, repr=False)
class Verification(Shown):
    """What was checked: always the signature; the number only if ``checks`` is not empty.

    ``receipt``: the run's, whose signature and certificate were checked, if it was given; ``text_lines``: how
    many lines the text has that was checked against it, to the byte. ``reservation``: what paid, as the ledger has it.
    """

    certificate: Certificate
    checks: tuple[ClaimCheck, ...] = ()
    receipt: Receipt | None = None
    text_lines: int | None = None
    reservation: Reservation | None = None

    @property
    def guarantee(self) -> bool:
        """Whether the claim protects anybody: not where the noise can be reproduced."""
        return self.certificate.guarantee and (self.receipt is None or not self.receipt.guarantee.startswith("NONE"))

    def facts(self) -> Facts:
        """The answer, and the recomputed numbers where they were asked for."""
        claim = self.certificate.facts().line
        with_text = "" if self.receipt is None else "; receipt" if self.text_lines is None else "; receipt and text"
        rows = tuple(
            (
                f"ε <= {check.epsilon:.12g}",
                f"{check.delta:g}",
                f"{lower(check.recomputed.epsilon_lower)} to {upper(check.recomputed.epsilon_upper)}",
            )
            for check in self.checks
        )
        columns = ("claim", "at δ", "ε recomputed") if rows else ()
        return Facts(f"{self.answer}: {claim}{with_text}", columns, rows)

    @property
    def answer(self) -> str:
        """``signature valid``, or the worst answer about the claims' numbers; ``no guarantee`` before any of them."""
        if not self.guarantee:
            return "no guarantee"
        answers = {check.answer for check in self.checks}
        for worst in ("does not hold", "undecided"):
            if worst in answers:
                return worst
        return "holds" if answers else "signature valid"


def verify(
    certificate: bytes | Path | str,
    *,
    receipt: Path | None = None,
    text: Path | None = None,
    ledger: Ledger | None = None,
    recompute: bool = False,
    trusted: TrustedKeys | None = None,
    clock: Clock = utc_now,
) -> Verification:
    """Check a certificate's signature, signer and validity; with ``recompute`` its numbers as well.

    ``receipt``: a run's, to be held against the certificate; ``text``: the released text, held against the receipt.
    No private file is needed for any of it. ``ledger``: the one that paid, for whoever has its key: it has to verify,
    and to have the entry that the receipt names.

    ``trusted`` defaults to the keys in AFFIDAVIT_HOME. A signature proves who said it; only
    recomputing proves the number. Raises ``CertificateError`` and its kinds, ``NotSupported``
    where there is no second formula for the plan, ``UsageError`` for a file that cannot be read; of the ledger
    ``LedgerMissing``, ``LedgerAltered``.
    """
    if text is not None and receipt is None:
        raise UsageError(
            "a text is held against its receipt", hint=f"Add {setting('--receipt', text.with_name('receipt.json'))}."
        )
    if ledger is not None and receipt is None:
        raise UsageError("the ledger is held against a receipt", hint=f"Add {setting('--receipt', 'receipt.json')}.")
    keys = Keyring.default().trusted() if trusted is None else trusted
    envelope = certificate if isinstance(certificate, bytes) else certificates.read(Path(certificate))
    found = certificates.verify_envelope(envelope, trusted=keys, clock=clock)
    content = None if receipt is None else content_of(receipt)
    stated = None if content is None else receipts.read(content, trusted=keys)
    lines = paid = None
    if stated is not None:
        receipts.check_receipt(stated, found, trusted=keys, now=clock())
        if text is not None:
            shown = content_of(text)
            receipts.check_text(stated, shown)
            lines = shown.count(b"\n")
        if ledger is not None:
            paid = _paid(ledger, stated, found, sha256=hashlib.sha256(content or b"").hexdigest())
    checks = recheck(found) if recompute else ()
    return Verification(found, checks, receipt=stated, text_lines=lines, reservation=paid)


def _paid(ledger: Ledger, receipt: Receipt, certificate: Certificate, *, sha256: str) -> Reservation:
    """The reservation that a receipt names, in a ledger that still has it.

    Raises ``LedgerAltered``, ``UsageError``, ``WrongRun`` where the run ended with another receipt.
    """
    if receipt.ledger_end is None:
        raise UsageError(
            "the receipt names no end of a ledger",
            hint="Remove `--ledger`. What was charged: `affidavit ledger show`",
        )
    paid = ledger.reservation(
        str(receipt.facts["ledger_entry"]), end=receipt.ledger_end, certificate_sha256=certificate.sha256
    )
    if paid.receipt_sha256 not in (None, sha256):
        raise WrongRun(
            "text",
            "the ledger notes another receipt for this run",
            hint="Ask for the file whose SHA-256 it notes: `affidavit ledger show --json`",
        )
    return paid


def content_of(path: Path) -> bytes:
    """A small file that the user named. Raises ``UsageError``."""
    try:
        return files.read_bytes(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="Check the path.") from None
