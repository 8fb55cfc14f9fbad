"""What a report is made from: data that other steps wrote. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from affidavit.accountant.errors import UsageError
from affidavit.accountant.statement import Certificate
from affidavit.audits.findings import Findings

if TYPE_CHECKING:
    from affidavit.accountant.ledger.accounts import Account

__all__ = ["Recomputation", "ReportInput", "Sample"]

Recomputation = Literal["not tried", "holds", "undecided", "does not hold"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One released synthetic text. Released text is public: the certificate covers it."""

    label: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportInput:
    """Everything on the page.

    ``certificate``: its ``keyids`` are the keys whose signatures were checked; none means that
    the signature was not checked, and the page says so.
    ``recomputed``: the independent path's worst answer about the claims, if it was asked: a
    signature proves who said a number, only recomputing proves the number.
    ``receipt`` and ``account`` are absent when a certificate is reported before it is used.
    ``released`` is how many texts there are in all; ``samples`` may be fewer.

    Raises ``UsageError`` if the findings or the receipt belong to another certificate.
    """

    title: str
    certificate: Certificate
    findings: Findings
    made: datetime
    recomputed: Recomputation = "not tried"
    receipt: Mapping[str, Any] | None = None
    account: Account | None = None
    samples: tuple[Sample, ...] = ()
    released: int = 0

    def __post_init__(self) -> None:
        ours = self.certificate.sha256
        receipts = None if self.receipt is None else self.receipt.get("certificate_sha256")
        for what, theirs in (("findings", self.findings.certificate_sha256), ("receipt", receipts)):
            if ours and theirs and theirs != ours:
                raise UsageError(
                    f"the {what} are bound to certificate {theirs[:12]}…, not to {ours[:12]}…"
                    if what == "findings"
                    else f"the receipt is bound to certificate {theirs[:12]}…, not to {ours[:12]}…",
                    hint="Report each certificate with its own run and audits.",
                )
