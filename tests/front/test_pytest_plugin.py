"""The pytest plugin, in pytest sessions of their own: few, since each is a process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import tomllib
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import pytest

PLUGIN = "affidavit.pytest_plugin"
REGISTERED = any(entry.value == PLUGIN for entry in entry_points(group="pytest11"))
ADDRESS = "margaret.holloway@brindle.example"


@dataclass(frozen=True)
class Session:
    """A folder of tests, run by a pytest of its own with the plugin."""

    folder: Path

    def write(self, **files: str) -> None:
        for name, source in files.items():
            (self.folder / f"{name}.py").write_text(textwrap.dedent(source), encoding="utf-8")

    def run(self, *flags: str) -> tuple[dict[str, int], str]:
        """Counts by outcome, and the output."""
        plugin = () if REGISTERED else ("-p", PLUGIN)
        command = [sys.executable, "-m", "pytest", *plugin, "-p", "no:cacheprovider", "-ra", "--color=no", *flags]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        summary = done.stdout.rstrip().splitlines()[-1]
        counts = {name: int(number) for number, name in re.findall(r"(\d+) (passed|failed|skipped|error)", summary)}
        return counts, done.stdout


@pytest.fixture
def session(tmp_path, monkeypatch, empty_workplace):
    """In a folder of its own, with the workplace's AFFIDAVIT_HOME."""
    for name in ("GITHUB_STEP_SUMMARY", "CI", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "session"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    return Session(folder)


def test_the_package_registers_the_plugin():
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["entry-points"]["pytest11"] == {"affidavit": PLUGIN}


def test_nothing_heavy_is_imported_until_it_is_used():
    code = f"import {PLUGIN}, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"numpy", "scipy", "pydantic", "sqlalchemy", "torch", "cryptography", "junitparser"}


IDENTIFIERS = f"""
from affidavit.pytest_plugin import assert_no_pii

TEXT = "Write to {ADDRESS} or call +44 20 7946 0958."

def test_clean():
    assert_no_pii("Write to nobody.")

def test_found():
    assert_no_pii(TEXT)

def test_allowed():
    assert_no_pii(TEXT, kinds=("email",), allowed=("mailto:Margaret.Holloway@BRINDLE.example",))

def test_lines(tmp_path):
    path = tmp_path / "synthetic.jsonl"
    path.write_text('{{"id": "a", "text": "fine"}}\\n{{"id": "b", "text": "ask {ADDRESS}"}}\\n')
    assert_no_pii(path)
"""
OUTCOMES = """
from dataclasses import replace
from affidavit.audits.findings import Findings, write
from affidavit.audits.finding import CheckFinding
from affidavit.pytest_plugin import assert_consistent

ITEM = CheckFinding(attack="one-step", verdict="CONSISTENT", seen=9, p_value=0.1, alpha=0.001, note="seen")
def found(verdict):
    return Findings(certificate_sha256="a" * 64, items=(replace(ITEM, verdict=verdict),))

def test_holds(tmp_path):
    write(found("CONSISTENT"), tmp_path / "findings.json")
    assert assert_consistent(tmp_path / "findings.json").outcome == "holds"
    assert assert_consistent(tmp_path).outcome == "holds"

def test_refuted():
    assert_consistent(found("VIOLATION"))

def test_weak():
    assert_consistent(found("UNDERPOWERED"))

def test_weak_is_allowed():
    assert_consistent(found("UNDERPOWERED"), allow_underpowered=True)
"""
LEDGER = """
import pytest
from affidavit.accountant.errors import BudgetExceeded, LedgerMissing
from affidavit.accountant.unit import RECORD
RUN = {"relation": "zero-out", "unit": RECORD, "epsilon": 0.6, "delta": 0.0, "certificate_sha256": "a" * 64}

@pytest.mark.parametrize("turn", [1, 2])
def test_budget(dp_ledger, turn):
    with pytest.raises(LedgerMissing):
        dp_ledger.account("mail")
    dp_ledger.init_account("mail", relation="zero-out", unit=RECORD, epsilon=1.0, delta=1e-5)
    dp_ledger.reserve("mail", **RUN)
    with pytest.raises(BudgetExceeded):
        dp_ledger.reserve("mail", **RUN)

@pytest.mark.slow_audit
def test_slow():
    pass
"""
SAME_ENTROPY = """
import os
import numpy as np

os.urandom = np.random.Generator(np.random.Philox(2026)).bytes
"""
CERTIFIED = """
def test_claim(dp_certificate):
    assert dp_certificate.relation == "zero-out"
    assert 0 < float(dp_certificate.claims[0].epsilon) <= 4.0
"""


def test_what_the_assertions_accept_and_what_they_say(session, monkeypatch, empty_workplace):
    session.write(test_a=IDENTIFIERS, test_b=OUTCOMES, test_c=LEDGER, test_d=CERTIFIED)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(session.folder / "job.md"))
    counts, shown = session.run("--showlocals", "--strict-markers", "--dp-sarif=out/a.sarif", "--dp-summary=found.md")
    assert counts == {"passed": 6, "failed": 4, "skipped": 1, "error": 1}, shown
    assert "2 identifiers in the text:" in shown
    assert re.search(r"email \w{12} in text 0, characters 9 to 42", shown)
    assert re.search(r"email \w{12} in text 1, characters 4 to 37", shown)
    assert "refuted: one-step: seen" in shown
    assert "inconclusive: one-step: seen" in shown
    assert "--dp-certificate" in shown
    assert ADDRESS not in shown
    log = json.loads((session.folder / "out" / "a.sarif").read_text(encoding="utf-8"))
    outcomes = [run["properties"]["outcome"] for run in log["runs"]]
    assert outcomes == ["holds", "holds", "refuted", "inconclusive", "holds"]
    for name in ("found.md", "job.md"):
        assert (session.folder / name).read_text(encoding="utf-8").count("## affidavit") == 5
    assert not empty_workplace.keyring.home.exists(), "dp_ledger does not touch the user's own home"


def test_a_certificate_and_an_audit_file(session, workplace):
    audit = workplace.folder / "audit.toml"
    audit.write_text('attack = "one-step"\nmembers = 1000\nnon_members = 1000\n', encoding="utf-8")
    session.write(
        conftest=SAME_ENTROPY,
        test_a=CERTIFIED,
        test_b=f"""
            import pytest
            from affidavit.pytest_plugin import assert_consistent

            @pytest.mark.slow_audit
            def test_certificate():
                assert_consistent({str(audit)!r}, certificate={str(workplace.certificate)!r})
        """,
    )
    counts, shown = session.run(f"--dp-certificate={workplace.certificate}", "--slow-audits")
    assert counts == {"passed": 2}, shown


def test_an_altered_certificate_is_an_error(session, workplace):
    envelope = json.loads(workplace.certificate.read_text(encoding="utf-8"))
    signature = envelope["signatures"][0]["sig"]
    envelope["signatures"][0]["sig"] = ("A" if signature[0] != "A" else "B") + signature[1:]
    (session.folder / "altered.json").write_text(json.dumps(envelope), encoding="utf-8")
    (session.folder / "pytest.ini").write_text("[pytest]\ndp_certificate = altered.json\n", encoding="utf-8")
    session.write(test_a=CERTIFIED)
    counts, shown = session.run()
    assert counts == {"error": 1}, shown
    assert "SignatureInvalid" in shown


@pytest.mark.slow
def test_findings_of_xdist_workers_come_together(session):
    session.write(test_b=OUTCOMES)
    counts, shown = session.run("-n2", "-k", "holds or allowed", "--dp-sarif=found.sarif")
    assert counts == {"passed": 2}, shown
    assert len(json.loads((session.folder / "found.sarif").read_text(encoding="utf-8"))["runs"]) == 3
