"""``affidavit icl``: demonstrations from files, refusals before a model is loaded, results for people and programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from affidavit.generation.models import toy


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """``test.jsonl``, ``synthetic.jsonl`` (one text is empty) and ``records.jsonl``."""

    def write(name: str, lines: list[dict[str, Any]]) -> None:
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    news = [("World", "the government of the country"), ("Sports", "the team and the match"), ("Business", "a profit")]
    write("test.jsonl", [{"text": text, "label": label} for label, text in news * 3])
    write("synthetic.jsonl", [{"id": label, "label": label, "text": text} for label, text in (*news, ("Sports", ""))])
    write("records.jsonl", [{"id": "a", "label": "Drama", "text": '{"title": "A", "year": 1999, "genre": "Drama"}'}])
    write("films.jsonl", [{"text": "A film of 1999.", "title": "A", "year": 1999, "label": "Drama"}])
    return tmp_path


def _icl(command: Any, files: Path, *more: object) -> Any:
    return command("icl", files / "test.jsonl", "--model", "toy", *more)


def test_scores_with_and_without_demonstrations(command: Any, files: Path) -> None:
    shown = files / "synthetic.jsonl"
    done = _icl(command, files, "--task", "ag-news", "--demonstrations", shown, "--shots", 3, "--json")
    assert done.code == 0, done.err
    assert done.json["shots"] == 3
    assert done.json["examples"] == 9
    assert [one["seed"] for one in done.json["seeds"]] == [0, 1, 2]
    values = [one["accuracy"] for one in done.json["seeds"]]
    assert done.json["mean"] == pytest.approx(sum(values) / 3)
    none = _icl(command, files, "--task", "ag-news", "--limit", 4, "--seeds", "5", "--json")
    assert (none.json["shots"], none.json["examples"], none.json["standard_deviation"]) == (0, 4, 0.0)
    table = _icl(command, files, "--task", "ag-news", "--limit", 2)
    assert "accuracy" in table.out
    assert "0 shots, 2 examples, 3 seeds: toy" in table.out


def test_rates_of_synthetic_records(command: Any, files: Path) -> None:
    done = command(
        "icl", files / "films.jsonl", "--task", "wikimovies", "--model", "toy", "--seeds", "0",
        "--demonstrations", files / "records.jsonl", "--shots", 1, "--json",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["demonstration_records"]["valid_rate"] == 1.0
    schema = files / "schema.json"
    schema.write_text('{"type": "object", "required": ["director"]}')
    strict = command(
        "icl", files / "films.jsonl", "--task", "wikimovies", "--model", "toy", "--schema", schema,
        "--demonstrations", files / "records.jsonl", "--shots", 1,
    )  # fmt: skip
    assert strict.code == 2
    assert "1 demonstrations are asked for and there are 0" in strict.err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--task", "no-such-task"], "no task called"),
        (["--task", "ag-news", "--shots", "2"], "shots and demonstrations do not fit"),
        (["--task", "ag-news", "--demonstrations", "synthetic.jsonl", "--shots", "0"], "do not fit each other"),
        (["--task", "ag-news", "--demonstrations", "synthetic.jsonl", "--shots", "4"], "4 demonstrations are asked"),
        (["--task", "ag-news", "--seeds", "one"], "--seeds is not a list"),
        (["--task", "ag-news", "--seeds", "1,1"], "not distinct"),
        (["--task", "generic"], "has no labels of its own"),
        (["--task", "generic", "--labels", "a,b"], "not one of the task's labels"),
        (["--task", "mit-g", "--labels", "a,b"], "no labels to choose from"),
        (["--task", "ag-news", "--schema", "test.jsonl"], "is not JSON"),
        (["--task", "ag-news", "--model", "http://127.0.0.1:9/v1"], "model.id: missing"),
        (["--task", "ag-news", "--model", "nothing-here"], "no model called"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    flags: list[str], message: str, command: Any, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    monkeypatch.setattr(toy, "ToyModel", lambda: pytest.fail("the model was loaded first"))
    refused = command("icl", "test.jsonl", *(["--model", "toy"] if "--model" not in flags else []), *flags)
    assert refused.code == 2, refused.err
    assert message in refused.err


@pytest.mark.slow
@pytest.mark.model
def test_real_demonstrations_help_a_real_model(command: Any) -> None:
    """SmolLM2 on AG News: zero-shot about .5, four real demonstrations about .7 (seeds 0 and 1, 60 examples)."""
    data = Path(__file__).resolve().parents[3] / "shared" / "data" / "agnews"
    if not data.is_dir():
        pytest.skip("needs the data set agnews in ../shared/data")
    base = ["icl", data / "test.jsonl", "--task", "ag-news", "--limit", 60, "--seeds", "0,1", "--json"]
    none = command(*base)
    if none.code == 2:
        pytest.skip(none.err)
    shown = command(*base, "--demonstrations", data / "train.jsonl")
    assert none.json["mean"] > 0.35  # chance is .25, three standard errors of 60 examples .17
    assert shown.json["mean"] > none.json["mean"]
