"""The files of runs, read back into what a report is made from.

    certificate.json, certificate-*.json   signed envelopes; a chapter each, oldest first
    receipt.json                           what ran, signed; those without a certificate here are skipped (baselines)
    synthetic.jsonl                        beside a receipt: the released text, checked against its digest there
    findings.json, findings-*.json         what audits found, merged by certificate

Files are looked for in the folder and up to three levels below it, so that ``generate -o
DIR/run-1``, ``audit -o DIR/run-1/audit`` and next month's run may stand side by side.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from affidavit.accountant import files
from affidavit.accountant.attestation import certificate as certificates
from affidavit.accountant.attestation import receipt as receipts
from affidavit.accountant.attestation.keys import TrustedKeys
from affidavit.accountant.attestation.receipt import Receipt
from affidavit.accountant.attestation.statement import Certificate
from affidavit.accountant.clock import Clock, utc_now
from affidavit.accountant.errors import CertificateExpired, CertificateMissing, UsageError
from affidavit.audits import findings as records
from affidavit.audits.findings import Findings
from affidavit.audits.report.inputs import Chapter, ReportInput, Run, Sample

__all__ = ["read_folder"]

_SAMPLES = 6
_LEVELS = 4


def read_folder(
    folder: Path,
    *,
    trusted: TrustedKeys,
    title: str = "",
    certificate: Path | None = None,
    clock: Clock = utc_now,
) -> ReportInput:
    """Collect a report's input from ``folder``; only ``certificate``'s chapter where one is named.

    Signatures are checked first. A certificate that has expired meanwhile is shown as expired:
    the past is reported, not relied upon. Raises ``CertificateError`` and its kinds, and
    ``CertificateMissing`` where there is none, and ``UsageError`` where files contradict one another: findings of a
    certificate that is not there. Receipts are read as certificates are: ``SignatureInvalid``, ``UntrustedKey``, and
    ``WrongRun`` for text that is not the receipt's.
    """
    paths = [certificate] if certificate is not None else _paths(folder, "certificate")
    if not paths:
        raise CertificateMissing(
            f"there is no certificate in {folder}",
            hint="Name the one that the run was made under: `--certificate CERT.json`; "
            "a new one would not fit its text.",
        )
    found = {each.sha256: each for each in (_certificate(path, trusted, clock) for path in paths)}
    runs, findings = _runs(folder, found, trusted, clock()), _findings(folder, found, only=certificate is not None)
    return ReportInput(
        title=title or folder.resolve().name,
        made=clock(),
        chapters=tuple(
            Chapter(certificate=each, findings=findings[sha256], runs=tuple(runs[sha256]))
            for sha256, each in sorted(found.items(), key=lambda item: (item[1].not_before, item[0]))
        ),
    )


def _paths(folder: Path, stem: str) -> list[Path]:
    """``stem.json`` and ``stem-*.json``, in the folder and a few levels below, hidden folders left out."""
    found: list[Path] = []
    for level in range(_LEVELS):
        for pattern in (f"{stem}.json", f"{stem}-*.json"):
            found += folder.glob("*/" * level + pattern)
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def _certificate(path: Path, trusted: TrustedKeys, clock: Clock) -> Certificate:
    """A verified certificate, expired or not; a clock before its time is still an error."""
    try:
        return certificates.load(path, trusted=trusted, clock=clock)
    except CertificateExpired as error:
        if error.ended is None:
            raise
        ended = error.ended
    return certificates.load(path, trusted=trusted, clock=lambda: ended)


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(files.read_bytes(path))
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise UsageError(f"{path} is not a JSON object", hint="Restore the file that was generated.")
    return content


def _runs(
    folder: Path, certificates_: dict[str, Certificate], trusted: TrustedKeys, now: datetime
) -> dict[str, list[Run]]:
    """The runs under each certificate, by when they ended; another certificate's are not ours to show."""
    found: dict[str, list[Run]] = defaultdict(list)
    for path in _paths(folder, "receipt"):
        sha256 = _json(path).get("certificate_sha256")
        if isinstance(sha256, str) and sha256 in certificates_:
            receipt = receipts.read(files.read_bytes(path), trusted=trusted)
            ended = certificates_[sha256].not_after  # of one that has expired meanwhile, as of its end
            receipts.check_receipt(receipt, certificates_[sha256], trusted=trusted, now=min(now, ended))
            texts = _texts(path.with_name("synthetic.jsonl"), receipt)
            found[sha256].append(Run(receipt=receipt.facts, samples=_chosen(texts), released=len(texts)))
    for runs in found.values():
        runs.sort(key=lambda run: str(run.receipt.get("ended", "")))
    return found


def _texts(path: Path, receipt: Receipt) -> tuple[Sample, ...]:
    """The released texts. Raises ``WrongRun`` unless they are, to the byte, what the receipt says."""
    try:
        content = files.read_bytes(path, most=files.DATA_BYTES)
    except OSError:
        return ()
    receipts.check_text(receipt, content, name=path.name)
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


def _findings(folder: Path, certificates_: dict[str, Certificate], *, only: bool) -> dict[str, Findings]:
    """What audits found of each certificate. Findings bound to none are of a claim (``audit --plan``), not of any here.

    ``only``: the caller named one certificate, so findings of others are left out rather than refused.
    """
    parts: dict[str, list[Findings]] = {sha256: [] for sha256 in certificates_}
    for path in _paths(folder, "findings"):
        part = records.read(path)
        sha256 = part.certificate_sha256
        if sha256 in parts:
            parts[sha256].append(part)
        elif not only:
            bound = "no certificate" if sha256 is None else f"certificate {sha256[:12]}…, which is not in the folder"
            raise UsageError(
                f"{path} is bound to {bound}",
                hint="Put its certificate into the folder, or move away what belongs to another, or to a claim.",
            )
    return {
        sha256: records.merge(found) if found else Findings(certificate_sha256=sha256, items=())
        for sha256, found in parts.items()
    }
