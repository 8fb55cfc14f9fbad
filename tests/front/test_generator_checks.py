"""The checks of a generator's code by ``affidavit audit``: findings like any other, and a bug is exit 1."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from affidavit.audits.auditfile import parse_audit
from affidavit.audits.experiments.registry import CheckName
from affidavit.generation import batches
from affidavit.generation.aggregate import Clipped
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.registry import generator
from affidavit.generator_checks import generator_check
from affidavit.runfile import load_run

CHECKS = 'attack = ["sensitivity", "neighbours"]\n'


def _audit(workplace: Any, text: str, *flags: object) -> Any:
    path = workplace.folder / "checks.toml"
    path.write_text(text, encoding="utf-8")
    return workplace.command(
        "audit", path, "--certificate", workplace.certificate, "-o", workplace.out / "checks", *flags
    )


def test_a_sound_run_holds_and_says_what_was_compared(workplace, monkeypatch):
    monkeypatch.setattr("affidavit.auditing.load_model", lambda *_given, **_more: pytest.fail("a model was loaded"))
    monkeypatch.setattr("affidavit.auditing.load_records", lambda *_given, **_more: pytest.fail("data were read"))
    done = _audit(workplace, CHECKS, "--json")
    assert done.code == 0, done.err
    items = {item["attack"]: item for item in done.json["items"]}
    assert items["sensitivity check: sensitivity at plan.parts[*].of"]["verdict"] == "CONSISTENT"
    assert "1.000 of what the plan states" in items["sensitivity check: sensitivity at plan.parts[*].of"]["note"]
    assert items["neighbour test: other records' rows"]["verdict"] == "CONSISTENT"
    assert all(item["kind"] == "check" and item["alpha"] == 0.0 for item in items.values())
    written = json.loads((workplace.out / "checks" / "findings.json").read_text(encoding="utf-8"))
    assert written["certificate_sha256"] == done.json["certificate_sha256"]


@pytest.mark.parametrize("form", ["table", "junit", "sarif", "markdown"])
def test_a_bug_is_a_violation_in_every_form(workplace, monkeypatch, form):
    whole = batches.PrivateRows.total
    monkeypatch.setattr(
        batches.PrivateRows,
        "total",
        lambda self, _measure, *, clip, **more: whole(self, Clipped(2.0 * clip), clip=clip, **more),
    )
    done = _audit(workplace, 'attack = "sensitivity"\n', "--format", form)
    assert done.code == 1, done.err
    assert "moved by" in done.out or form == "table"
    assert "plan.parts[*].of" in done.out


def test_checks_stand_beside_an_attack_and_take_none_of_its_level(workplace):
    settings = parse_audit({"attack": ["one-step", "sensitivity"], "members": 300, "non_members": 300})
    assert settings.level.each == settings.alpha
    text = (
        'attack = ["one-step", "sensitivity"]\nmembers = 300\nnon_members = 300\n[policy]\nallow_underpowered = true\n'
    )
    done = _audit(workplace, text, "--json")
    assert done.code == 0, done.err
    assert {"one-step", "sensitivity check: outputs"} <= {item["attack"] for item in done.json["items"]}


def test_more_eligible_tokens_than_the_toy_model_has_words(workplace):
    run = load_run(workplace.run_file)
    most = ToyModel().vocabulary_size
    table = {"kind": "invisible-ink", "labels": ("north", "south"), "batch_size": 3, "max_tokens": 2, "top_k": most + 9}
    wide = run.model_copy(update={"generator": generator("invisible-ink").config.model_validate(table)})
    for name in get_args(CheckName):
        assert not generator_check(name, wide, wide.plan()).faults, name
