"""``affidavit report`` over a folder of several certificates and runs, from files that commands wrote."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest


@pytest.fixture
def two_certificates(empty_workplace):
    """Two certificates on one account; one run under the first, two under the second; an audit of the second."""
    place = empty_workplace
    place.keyring.init()
    place.open_account(epsilon="12", delta="0.01")
    for number, temperature, runs in ((1, "1.0", 1), (2, "2.0", 2)):
        if number > 1:
            place.edit("temperature = 1.0", f"temperature = {temperature}")
        folder = place.folder / f"month-{number}"
        folder.mkdir()
        certificate = folder / "certificate.json"
        assert place.command("certify", place.run_file, "-o", certificate).code == 0
        for run in range(runs):
            out = folder / f"run-{run}"
            assert place.command("generate", place.run_file, "--certificate", certificate, "-o", out).code == 0
    audit = place.folder / "audit.toml"
    audit.write_text('attack = "one-step"\nmembers = 60\nnon_members = 60\nalpha = 0.01\n', encoding="utf-8")
    done = place.command("audit", audit, "--certificate", certificate, "-o", folder / "audits" / "one-step")
    assert done.code in (0, 5), done.err
    return place


def _text(html: str) -> str:
    words = re.sub(r"<(style|title|desc)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", words).split())


def _name(certificate: Path) -> str:
    """As a page calls it."""
    return hashlib.sha256(certificate.read_bytes()).hexdigest()[:12]


def test_a_report_covers_every_run_on_the_account(two_certificates):
    place = two_certificates
    done = place.command("report", place.folder)
    assert done.code == 0, done.err
    text = _text((place.folder / "report.html").read_text(encoding="utf-8"))
    assert "two certificates, each a limit on what its own run costs" in text
    assert "Two certificates, three runs, one attack." in text
    assert len(re.findall(r"[0-9a-f]{12} on this page", text)) == 3, "a charge for each run"
    assert "Account letters: basic filter" in text
    assert "letters , privacy report" in text

    one = place.command("report", place.folder / "month-1")
    assert one.code == 0, one.err
    single = _text((place.folder / "month-1" / "report.html").read_text(encoding="utf-8"))
    assert f"Certificate {_name(place.folder / 'month-1' / 'certificate.json')} " in single
    assert "This run costs one record at most ε = " in single
    assert "Not audited" in single
    assert "% of the account" in single


def test_one_certificate_of_several_can_be_named(two_certificates):
    place = two_certificates
    done = place.command("report", place.folder, "--certificate", place.folder / "month-2" / "certificate.json")
    assert done.code == 0, done.err
    text = _text((place.folder / "report.html").read_text(encoding="utf-8"))
    assert f"Certificate {_name(place.folder / 'month-2' / 'certificate.json')} " in text
    assert _name(place.folder / "month-1" / "certificate.json") + " on this page" not in text
    assert "Each of its runs costs one record at most ε = " in text
    assert text.count("Run that ended in the hour from") == 2
