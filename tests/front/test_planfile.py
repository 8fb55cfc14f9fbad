"""Plan files in JSON and TOML, from a path and from stdin; flags that must agree with them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from affidavit.accountant.errors import PlanError
from affidavit.accountant.plan import Gaussian
from affidavit.planfile import read_envelope

ENVELOPE = {"relation": "zero-out", "delta": 1e-5, "plan": {"kind": "gaussian", "noise_multiplier": 2.0}}
TOML = 'relation = "zero-out"\ndelta = 1e-5\n[plan]\nkind = "gaussian"\nnoise_multiplier = 2.0\n'


def _stdin(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))


@pytest.mark.parametrize(("name", "text"), [("plan.json", json.dumps(ENVELOPE)), ("plan.toml", TOML)])
def test_the_same_plan_from_every_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    _stdin(monkeypatch, text)
    for envelope in (read_envelope(str(path)), read_envelope("-")):
        assert envelope.plan == Gaussian(2.0)
        assert envelope.relation == "zero-out"
        assert envelope.delta == 1e-5


def test_a_flag_fills_what_the_file_leaves_out(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"plan": ENVELOPE["plan"]}), encoding="utf-8")
    envelope = read_envelope(str(path), relation="substitution", delta=0.5)
    assert (envelope.relation, envelope.delta) == ("substitution", 0.5)
    with pytest.raises(PlanError) as caught:
        read_envelope(str(path))
    assert caught.value.path == "relation"


@pytest.mark.parametrize(("flag", "value"), [("relation", "add-remove"), ("delta", 1e-6)])
def test_a_flag_that_disagrees_is_an_error(tmp_path: Path, flag: str, value: object) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(ENVELOPE), encoding="utf-8")
    agreeing = read_envelope(str(path), **{flag: ENVELOPE[flag]})  # type: ignore[arg-type]
    assert agreeing == read_envelope(str(path))
    with pytest.raises(PlanError, match="disagrees") as caught:
        read_envelope(str(path), **{flag: value})  # type: ignore[arg-type]
    assert caught.value.path == flag


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"relation": "zero-out", "plan": ', "plan.json"),
        ('{"plan": {"kind": "pure", "epsilon": 1, "epsilon": 2}, "relation": "zero-out"}', "epsilon"),
        ('{"plan": {"kind": "pure", "epsilon": NaN}, "relation": "zero-out"}', "plan.epsilon"),
        ("[1]", "plan file"),
    ],
)
def test_faults_name_their_place(tmp_path: Path, text: str, path: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(PlanError) as caught:
        read_envelope(str(file))
    assert caught.value.path.endswith(path)
