"""``affidavit demo``: everything in one folder, the user's own home untouched."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import pytest

from affidavit.accountant.release.randomness import SeededNoise
from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.audits.auditfile import load_audit
from affidavit.audits.certified import Certified
from affidavit.audits.experiments.one_step import prepare
from affidavit.audits.self_tests import NULL_ALPHA
from affidavit.audits.statistics.power import per_run_power
from affidavit.demo import _exhibit
from affidavit.runfile import load_run

FOLDER = Path(str(resources.files("affidavit") / "demo_data"))


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
    assert f"`--out {tmp_path / 'thesis-2'}`" in refused.err
    assert (tmp_path / "thesis" / "chapter.txt").read_text(encoding="utf-8") == "years of work"


class _Parrot:
    """A model that gives back the address in its prompt, or says nothing of it."""

    def __init__(self, *, says: bool) -> None:
        self.says = says

    def generate(self, prompts: Sequence[str], **_: object) -> list[str]:
        return [re.findall(r"\S+@[\w.-]+\w", prompt)[-1] if self.says else "no idea" for prompt in prompts]


def test_the_report_shows_an_invented_record_beside_what_leaked() -> None:
    run, settings = load_run(FOLDER / "run.toml"), load_audit(FOLDER / "audit.toml")
    labels = run.generator.labels
    made = SimpleNamespace(samples=[SimpleNamespace(label=label, text=f"about {label}") for label in labels])
    shown = _exhibit(settings, run, _Parrot(says=True), made)  # type: ignore[arg-type]
    assert shown is not None
    assert shown.leaked == (shown.unprotected,)
    assert shown.leaked[0] in shown.record
    assert shown.protected in {f"about {label}" for label in labels}
    assert _exhibit(settings, run, _Parrot(says=False), made) is None  # type: ignore[arg-type]


def test_by_chance_the_one_step_audit_fails_less_than_once_in_a_million_runs() -> None:
    """The true mechanism accused, on the way or after the last pair (exact), or the null pair caught (exact)."""
    run, audit = load_run(FOLDER / "run.toml"), load_audit(FOLDER / "audit_one_step.toml")
    certified = Certified.of_plan(run.plan(), relation=run.relation, delta=run.budget.delta)
    prepared = prepare(certified, SeededNoise(0), trials=audit.members, alpha=audit.level.each)
    design = prepared.design

    def refuted(record_in: float, record_out: float, curve: PrivacyCurve, alpha: float) -> float:
        """The chance that either direction refutes ``curve``."""
        sizes = {"members": design.trials, "non_members": design.trials, "alpha": alpha}
        ways = ((record_in, record_out), (1.0 - record_in, 1.0 - record_out))
        return sum(per_run_power(*rates, curve, **sizes) for rates in ways)

    hits, alarms = (
        design.case.tail(design.threshold, uses=design.uses, member=member, noise=1.0) for member in (True, False)
    )
    accused = refuted(hits, alarms, prepared.certified.curve, design.last_alpha)
    caught = refuted(alarms, alarms, PrivacyCurve(((0.0, 0.0),)), design.last_alpha)
    assert design.alpha <= NULL_ALPHA
    assert accused > 0.0
    assert caught > 0.0
    assert accused + caught + design.early_alpha < 1e-6
    assert design.powered


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
    assert (protected["verdict"], unprotected["verdict"], unprotected["claim"]) == ("CONSISTENT", "LEAKED", None)
    assert protected["ceiling"] > protected["claim"]["epsilon"], (
        "the attack proves more than the claim without protection"
    )
    assert unprotected["leakage"]["leaked"] - unprotected["leakage"]["guessable"] > 0, (
        "an attack that never succeeds proves nothing"
    )
    assert protected["leakage"]["leaked"] - protected["leakage"]["guessable"] == 0
