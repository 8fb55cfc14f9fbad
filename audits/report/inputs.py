"""What a report is made from: data that other steps wrote. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from affidavit.accountant.attestation.statement import Certificate
from affidavit.accountant.errors import UsageError
from affidavit.accountant.show import Facts, Shown
from affidavit.audits.findings import Findings

if TYPE_CHECKING:
    from affidavit.accountant.ledger.accounts import Account

__all__ = ["Chapter", "Exhibit", "Recomputation", "ReportInput", "Run", "Sample"]

Recomputation = Literal["not tried", "holds", "undecided", "does not hold"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One released synthetic text. Released text is public: the certificate covers it."""

    label: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """Invented records beside what was made from them: only for data that are nobody's, as the demo's are.

    ``record`` went into both. ``unprotected`` is what plain prompting gave, in which ``leaked`` stand; ``protected``
    is a text of the certified run.
    """

    record: str
    unprotected: str
    protected: str
    leaked: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One generation: its receipt, how many texts it released, and some of them."""

    receipt: Mapping[str, Any]
    samples: tuple[Sample, ...] = ()
    released: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """One certificate, what was run under it, and what attacks made of it.

    ``certificate``: its ``keyids`` are the keys whose signatures were checked; none means that
    the signature was not checked, and the page says so.
    ``recomputed``: the independent path's worst answer about the claims, if it was asked: a
    signature proves who said a number, only recomputing proves the number.
    ``runs`` is empty when a certificate is reported before it is used.

    Raises ``UsageError`` if the findings or a receipt belong to another certificate.
    """

    certificate: Certificate
    findings: Findings
    runs: tuple[Run, ...] = ()
    recomputed: Recomputation = "not tried"

    def __post_init__(self) -> None:
        ours = self.certificate.sha256
        bound = [("the findings are", self.findings.certificate_sha256)]
        bound += [("the receipt is", run.receipt.get("certificate_sha256")) for run in self.runs]
        for what, theirs in bound:
            if ours and theirs and theirs != ours:
                raise UsageError(
                    f"{what} bound to certificate {theirs[:12]}…, not to {ours[:12]}…",
                    hint="Put that certificate into the folder as well.",
                )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ReportInput(Shown):
    """Everything on the page: one chapter a certificate, and the ledger accounts that paid for their runs.

    Raises ``UsageError`` without a chapter.
    """

    title: str
    made: datetime
    chapters: tuple[Chapter, ...]
    accounts: tuple[Account, ...] = ()
    exhibit: Exhibit | None = None

    def facts(self) -> Facts:
        """A row for every certificate; no released text."""
        rows = tuple(
            (
                f"ε <= {each.certificate.claim.epsilon} at δ = {each.certificate.claim.delta}",
                each.certificate.relation,
                str(sum(run.released for run in each.runs)),
                each.findings.outcome if each.findings.items else "not audited",
            )
            for each in self.chapters
        )
        count = f"{len(self.chapters)} {'certificate' if len(self.chapters) == 1 else 'certificates'}"
        return Facts(f"{self.title}: {count}", ("certified", "relation", "texts", "audits"), rows)

    def __post_init__(self) -> None:
        if not self.chapters:
            raise UsageError(
                "a report needs a certificate", hint="Make one: `affidavit certify RUN.toml -o DIR/certificate.json`"
            )
