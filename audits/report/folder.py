"""A run's files, read back into what a report is made from.

    certificate.json   the signed envelope                       (one)
    receipt.json       what ran; baselines' receipts are skipped  (at most one for the certificate)
    synthetic.jsonl    beside that receipt: the released text, checked against its digest there
    findings.json      what audits found                          (any number, merged)

Files are looked for in the folder and one level below it, so that ``generate -o DIR/run`` and
``audit -o DIR/audit`` may stand side by side.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from affidavit.accountant import certificate as certificates
from affidavit.accountant.clock import Clock, utc_now
from affidavit.accountant.errors import UsageError
from affidavit.accountant.keys import TrustedKeys
from affidavit.accountant.statement import Certificate
from affidavit.audits import findings as records
from affidavit.audits.findings import Findings
from affidavit.audits.report.inputs import Recomputation, ReportInput, Sample

if TYPE_CHECKING:
    from affidavit.accountant.ledger.accounts import Account

__all__ = ["read_folder"]

_SAMPLES = 6


def read_folder(
    folder: Path,
    *,
    trusted: TrustedKeys,
    title: str = "",
    account: Account | None = None,
    recomputed: Recomputation = "not tried",
    certificate: Path | None = None,
    clock: Clock = utc_now,
) -> ReportInput:
    """Collect a report's input from ``folder``; ``certificate`` if it lies elsewhere.

    The signature is checked first. Raises ``CertificateError`` and its kinds, and ``UsageError``
    where files contradict one another: findings of another certificate, text that is not the
    receipt's.
    """
    found = certificates.load(certificate or _only(folder, "certificate.json"), trusted=trusted, clock=clock)
    receipt_path, receipt = _receipt(folder, found)
    texts = () if receipt_path is None else _texts(receipt_path.with_name("synthetic.jsonl"), receipt)
    return ReportInput(
        title=title or (account.dataset if account is not None else folder.resolve().name),
        certificate=found,
        findings=_findings(folder, found),
        made=clock(),
        recomputed=recomputed,
        receipt=receipt,
        account=account,
        samples=_chosen(texts),
        released=len(texts),
    )


def _paths(folder: Path, name: str) -> list[Path]:
    return sorted([*folder.glob(name), *folder.glob(f"*/{name}")])


def _only(folder: Path, name: str) -> Path:
    paths = _paths(folder, name)
    if len(paths) > 1:
        raise UsageError(f"{len(paths)} files {name} under {folder}", hint="Say which: --certificate CERT.json")
    return paths[0] if paths else folder / name


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        raise UsageError(f"{path} is not a JSON object", hint="Make it again with `affidavit generate`.")
    return content


def _receipt(folder: Path, certificate: Certificate) -> tuple[Path | None, dict[str, Any] | None]:
    """The receipt of a run under this certificate; another certificate's is not ours to show."""
    ours = [
        (path, content)
        for path in _paths(folder, "receipt.json")
        if (content := _json(path)).get("certificate_sha256") == certificate.sha256
    ]
    if len(ours) > 1:
        raise UsageError(
            f"{len(ours)} runs under this certificate in {folder}", hint="Report each run's folder by itself."
        )
    return ours[0] if ours else (None, None)


def _texts(path: Path, receipt: dict[str, Any] | None) -> tuple[Sample, ...]:
    """The released texts. Raises ``UsageError`` unless they are, to the byte, what the receipt says."""
    try:
        content = path.read_bytes()
    except OSError:
        return ()
    stated = ((receipt or {}).get("outputs_sha256") or {}).get(path.name)
    if hashlib.sha256(content).hexdigest() != stated:
        raise UsageError(f"{path} is not the text of its receipt", hint="Restore the file that was generated.")
    return tuple(
        Sample(str(record.get("label", "")), str(record.get("text", ""))) for record in map(json.loads, _lines(content))
    )


def _lines(content: bytes) -> Iterator[str]:
    """Lines ended by a line feed only: a text may hold other separators."""
    yield from (line for line in content.decode("utf-8").split("\n") if line)


def _chosen(texts: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """The first text of each label in turn, then the second of each, up to six: no picking."""
    by_label: dict[str, list[Sample]] = {}
    for text in texts:
        by_label.setdefault(text.label, []).append(text)
    rounds = max(map(len, by_label.values()), default=0)
    turns = [group[turn] for turn in range(rounds) for group in by_label.values() if turn < len(group)]
    return tuple(turns[:_SAMPLES])


def _findings(folder: Path, certificate: Certificate) -> Findings:
    paths = _paths(folder, "findings.json")
    if not paths:
        return Findings(certificate_sha256=certificate.sha256, items=())
    return records.merge(records.read(path) for path in paths)
