"""A run's folder read back: only what belongs together is put on one page."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from affidavit.accountant.attestation.certificate import Claim, RunSubject, issue
from affidavit.accountant.attestation.keys import Signer
from affidavit.accountant.attestation.receipt import SCHEMA, render
from affidavit.accountant.errors import (
    CertificateExpired,
    CertificateMissing,
    SignatureInvalid,
    UntrustedKey,
    UsageError,
    WrongRun,
)
from affidavit.accountant.plan import Exponential, Repeat
from affidavit.accountant.unit import RECORD
from affidavit.audits import findings as records
from affidavit.audits.finding import Finding, MembershipFinding
from affidavit.audits.findings import Findings
from affidavit.audits.report import ReportInput, read_folder

NOW = datetime(2026, 11, 27, 23, 4, tzinfo=UTC)
SIGNER = Signer.of(Ed25519PrivateKey.from_private_bytes(b"\x07" * 32))
TRUSTED = {SIGNER.keyid: SIGNER.private_key.public_key()}
TEXTS = (("Billing", "a"), ("Billing", "b\u2028c"), ("Delivery", "d"), ("Account", "e"), ("Account", "f"))


def _envelope(*, config: str = "a", issued: datetime = NOW) -> bytes:
    subject = RunSubject("zero-out", RECORD, Repeat(4, Exponential(0.1)), config * 64, "b" * 64, "c" * 64, 240)
    claims = [Claim.of(epsilon_upper=0.4, delta="0")]
    return issue(subject, claims=claims, signer=SIGNER, arithmetic="exact", clock=lambda: issued, salt="0" * 32)


def _run(folder: Path, certificate_sha256: str | None, texts: Sequence[tuple[str, str]] = TEXTS, **facts: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"id": str(i), "label": label, "text": text}, ensure_ascii=False) + "\n"
             for i, (label, text) in enumerate(texts)]  # fmt: skip
    content = "".join(lines).encode()
    (folder / "synthetic.jsonl").write_bytes(content)
    digests = {"synthetic.jsonl": hashlib.sha256(content).hexdigest()}
    receipt = {
        "guarantee": "noise from the operating system", "schema": SCHEMA, "protected": certificate_sha256 is not None,
        "generator": "prism", "certificate_sha256": certificate_sha256, "ledger_entry": None, "ledger_head": None,
        "sampler": None,
        "noise": "secure", "draws_per_node": {"plan.of": 4}, "resumed": 0, "lost_draws": 0, "closed": False,
        "outputs_sha256": digests, "versions": {}, "ended": "2026-11-27T00:00:00Z",
    } | facts  # fmt: skip
    (folder / "receipt.json").write_bytes(render(receipt, signer=SIGNER if certificate_sha256 else None))


def _finding(attack: str) -> Finding:
    return MembershipFinding(
        attack=attack, target="protected", verdict="CONSISTENT", n_members=10, n_non_members=10, runs=10,
        auc=0.5, interval=(0.4, 0.6), interval_method="", ceiling=4.0, alpha=0.05, correction="none",
    )  # fmt: skip


def _read(folder: Path, **changes: Any) -> ReportInput:
    return read_folder(folder, **({"trusted": TRUSTED, "clock": lambda: NOW + timedelta(hours=1)} | changes))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    envelope = _envelope()
    sha256 = hashlib.sha256(envelope).hexdigest()
    (tmp_path / "certificate.json").write_bytes(envelope)
    _run(tmp_path / "run", sha256)
    _run(tmp_path / "baseline", None, [("Billing", "leaky")])
    for number in (1, 2):
        part = Findings(certificate_sha256=sha256, items=(_finding(f"attack-{number}"),))
        records.write(part, tmp_path / f"audit-{number}" / "findings.json")
    return tmp_path


def test_everything_of_one_run_is_found(folder: Path) -> None:
    report = _read(folder)
    (chapter,) = report.chapters
    (run,) = chapter.runs
    assert chapter.certificate.keyids == (SIGNER.keyid,)
    assert run.receipt["noise"] == "secure"
    assert [item.attack for item in chapter.findings.items] == ["attack-1", "attack-2"]
    assert run.released == 5
    assert report.title == folder.name


def test_samples_take_turns_over_labels_and_are_never_a_baseline_s(folder: Path) -> None:
    samples = _read(folder).chapters[0].runs[0].samples
    assert [sample.text for sample in samples] == ["a", "d", "e", "b\u2028c", "f"]


def test_text_that_is_not_the_receipt_s_is_refused(folder: Path) -> None:
    with (folder / "run" / "synthetic.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"id": "x", "label": "Billing", "text": "slipped in"}\n')
    with pytest.raises(WrongRun, match="is not the text of its receipt"):
        _read(folder)


def test_text_and_digest_replaced_together_are_refused(folder: Path) -> None:
    text = folder / "run" / "synthetic.jsonl"
    text.write_bytes(b'{"id": "x", "label": "Billing", "text": "forged"}\n')
    receipt = json.loads((folder / "run" / "receipt.json").read_text("utf-8"))
    receipt["outputs_sha256"]["synthetic.jsonl"] = hashlib.sha256(text.read_bytes()).hexdigest()
    (folder / "run" / "receipt.json").write_text(json.dumps(receipt, indent=2) + "\n", "utf-8")
    with pytest.raises(SignatureInvalid, match="it was changed"):
        _read(folder)


def test_findings_of_another_certificate_are_refused(folder: Path) -> None:
    other = Findings(certificate_sha256="1" * 64, items=(_finding("attack-3"),))
    records.write(other, folder / "audit-3" / "findings.json")
    with pytest.raises(UsageError, match=r"audit-3/findings\.json is bound to certificate 111111111111…, which is not"):
        _read(folder)
    (chapter,) = _read(folder, certificate=folder / "certificate.json").chapters
    assert [item.attack for item in chapter.findings.items] == ["attack-1", "attack-2"], "named: others are left out"


def test_runs_under_one_certificate_stand_in_the_order_in_which_they_ended(folder: Path) -> None:
    sha256 = hashlib.sha256((folder / "certificate.json").read_bytes()).hexdigest()
    for number, ended in ((1, "2026-11-29T00:00:00Z"), (2, "2026-11-28T00:00:00Z")):
        _run(folder / "later" / f"run-{number}", sha256, [("Billing", f"text {number}")], ended=ended)
    (chapter,) = _read(folder).chapters
    assert [run.receipt.get("ended") for run in chapter.runs] == [f"2026-11-{day}T00:00:00Z" for day in (27, 28, 29)]
    assert [run.samples[0].text for run in chapter.runs] == ["a", "text 2", "text 1"]


def test_several_certificates_are_chapters_oldest_first(folder: Path) -> None:
    earlier = _envelope(config="d", issued=NOW - timedelta(days=30))
    sha256 = hashlib.sha256(earlier).hexdigest()
    (folder / "october").mkdir()
    (folder / "october" / "certificate-2.json").write_bytes(earlier)
    (folder / "october" / "certificate-copy.json").write_bytes(earlier)
    _run(folder / "october" / "run", sha256, [("Billing", "old")])
    for name in ("findings.json", "findings-one-step.json"):
        part = Findings(certificate_sha256=sha256, items=(_finding(f"october {name}"),))
        records.write(part, folder / "october" / "audits" / "deep" / name)
    first, second = _read(folder).chapters
    assert first.certificate.sha256 == sha256
    assert [item.attack for item in first.findings.items] == ["october findings-one-step.json", "october findings.json"]
    assert first.runs[0].samples[0].text == "old"
    assert [item.attack for item in second.findings.items] == ["attack-1", "attack-2"]
    (only,) = _read(folder, certificate=folder / "certificate.json").chapters
    assert only == second


def test_findings_of_a_claim_belong_to_no_certificate(folder: Path) -> None:
    """They were shown as the certificate's where it was the only one: another plan's audit as evidence for it."""
    records.write(Findings(certificate_sha256=None, items=(_finding("loose"),)), folder / "findings-loose.json")
    (chapter,) = _read(folder, certificate=folder / "certificate.json").chapters
    assert "loose" not in [item.attack for item in chapter.findings.items]
    with pytest.raises(UsageError, match=r"findings-loose\.json is bound to no certificate"):
        _read(folder)


def test_an_expired_certificate_is_history_and_a_future_one_an_error(folder: Path) -> None:
    (chapter,) = _read(folder, clock=lambda: NOW + timedelta(days=400)).chapters
    assert chapter.certificate.not_after < NOW + timedelta(days=400)
    with pytest.raises(CertificateExpired, match="not valid before"):
        _read(folder, clock=lambda: NOW - timedelta(days=1))


def test_hidden_folders_are_not_read(folder: Path) -> None:
    other = Findings(certificate_sha256="1" * 64, items=(_finding("attack-3"),))
    records.write(other, folder / ".cache" / "findings.json")
    assert len(_read(folder).chapters) == 1


def test_the_signature_comes_first(folder: Path) -> None:
    with pytest.raises(UntrustedKey):
        _read(folder, trusted={})
    envelope = json.loads((folder / "certificate.json").read_bytes())
    envelope["payload"] = "A" + envelope["payload"][1:]
    (folder / "certificate.json").write_text(json.dumps(envelope), encoding="utf-8")
    with pytest.raises(SignatureInvalid):
        _read(folder)


def test_a_folder_with_a_certificate_alone_and_one_without(folder: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    with pytest.raises(CertificateMissing):
        _read(bare)
    report = _read(bare, certificate=folder / "certificate.json")
    (chapter,) = report.chapters
    assert chapter.runs == ()
    assert chapter.findings.items == ()


def test_a_receipt_that_is_not_json_is_refused_by_name(folder: Path) -> None:
    (folder / "run" / "receipt.json").write_text("[]", encoding="utf-8")
    with pytest.raises(UsageError, match=r"receipt\.json is not a JSON object"):
        _read(folder)
