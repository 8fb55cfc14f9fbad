"""``affidavit demo``: everything in one folder, the user's own home untouched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own AFFIDAVIT_HOME, and a ledger of his elsewhere: neither may be touched."""
    home = tmp_path / "own-home"
    monkeypatch.setenv("AFFIDAVIT_HOME", str(home))
    monkeypatch.setenv("AFFIDAVIT_LEDGER", f"sqlite:///{tmp_path / 'own-ledger.db'}")
    return home


def test_a_folder_with_something_else_in_it_is_left_alone(command, home, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work", encoding="utf-8")
    refused = command("demo", "--out", tmp_path / "thesis")
    assert refused.code == 2
    assert "--out NEW_FOLDER" in refused.err
    assert (tmp_path / "thesis" / "chapter.txt").read_text(encoding="utf-8") == "years of work"


@pytest.mark.slow
def test_the_whole_demo_on_the_toy_model(command, home, tmp_path):
    out = tmp_path / "demo"
    done = command("demo", "--out", out, "--model", "toy")
    # The toy model says nothing of the records it saw, so the extraction audit finds itself powerless.
    assert done.code == 5, done.err
    assert "self-test: extraction did not catch 'noise off'" in done.out
    assert "one-step" in done.out
    assert "it holds" in done.out
    assert (out / "report.html").stat().st_size > 10_000
    assert len((out / "generated" / "synthetic.jsonl").read_text(encoding="utf-8").splitlines()) == 6
    for name in ("extraction", "one-step"):
        findings = json.loads((out / f"audit-{name}" / "findings.json").read_text(encoding="utf-8"))
        assert findings["items"]
    assert not home.exists()
    assert not (tmp_path / "own-ledger.db").exists()
    again = command("demo", "--out", out, "--model", "toy")
    assert again.code == 5, "an earlier demo is replaced"


@pytest.mark.slow
@pytest.mark.model
def test_the_whole_demo_on_smollm2(command, home, tmp_path):
    out = tmp_path / "demo"
    done = command("demo", "--out", out)
    assert done.code == 0, done.out + done.err
    findings = json.loads((out / "audit-extraction" / "findings.json").read_text(encoding="utf-8"))
    protected, unprotected = findings["items"]
    assert unprotected["target"] == "unprotected"
    assert unprotected["leaked"] - unprotected["guessable"] > 0, "an attack that never succeeds proves nothing"
    assert protected["leaked"] - protected["guessable"] == 0
