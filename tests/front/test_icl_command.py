"""``affidavit icl``: demonstrations from files, refusals before a model is loaded, results for people and programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from affidavit.generation.models import toy
from support.models import smollm2
from support.real_data import real_data


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
        (["--task", "generic", "--label", "a", "--label", "b"], "not one of the task's labels"),
        (["--task", "mit-g", "--label", "a", "--label", "b"], "no labels to choose from"),
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


OWN = """\
labels = ["Billing, refunds", "Delivery"]
instruction = "Say which team the letter is for."
input = "Letter"
answer = "Team"
words = {"Billing, refunds" = "Money"}
"""


def _asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every prompt that the toy model will be asked."""
    prompts: list[str] = []
    answers = toy.ToyModel.choice_log_likelihoods

    def listening(self: Any, asked: Any, choices: Any) -> Any:
        prompts.extend(asked)
        return answers(self, asked, choices)

    monkeypatch.setattr(toy.ToyModel, "choice_log_likelihoods", listening)
    return prompts


def test_a_task_of_ones_own_in_a_file(command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = _asked(monkeypatch)
    (tmp_path / "teams.toml").write_text(OWN, encoding="utf-8")
    lines = [{"text": "my refund", "label": "Billing, refunds"}, {"text": "my parcel", "label": "Delivery"}]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    asked = (
        "icl",
        tmp_path / "test.jsonl",
        "--model",
        "toy",
        "--seeds",
        "0",
        "--json",
        "--task",
        tmp_path / "teams.toml",
    )
    done = command(*asked, "--demonstrations", tmp_path / "test.jsonl", "--shots", 2)
    assert done.code == 0, done.err
    assert (done.json["task"], done.json["examples"]) == ("own", 2)
    assert all(prompt.startswith("Say which team the letter is for.\n\n") for prompt in prompts)
    assert "Letter: my refund\nTeam: Money\n" in prompts[0]
    (tmp_path / "teams.toml").write_text(OWN.replace("words = {", 'words = {"Postage" = "Post", '), encoding="utf-8")
    refused = command(*asked)
    assert refused.code == 2
    assert "words.Postage: no label of the task; allowed: Billing, refunds | Delivery" in refused.err


def test_labels_and_instruction_of_ones_own_as_flags(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = _asked(monkeypatch)
    lines = [{"question": "my refund", "team": "Billing, refunds"}, {"question": "my parcel", "team": "Delivery"}]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (tmp_path / "labels.txt").write_text("Billing, refunds\nDelivery\n", encoding="utf-8")
    asked = ("icl", tmp_path / "test.jsonl", "--model", "toy", "--seeds", "0", "--text-column", "question")
    done = command(
        *asked, "--label-column", "team", "--labels-file", tmp_path / "labels.txt", "--instruction", "Which?"
    )
    assert done.code == 0, done.err
    assert prompts[0] == "Which?\n\nText: my refund\nAnswer:"
    plain = command(*asked, "--label-column", "team", "--label", "Billing, refunds", "--label", "Delivery")
    assert plain.code == 0, plain.err
    assert prompts[-1].startswith("Say which category the text belongs to: Billing, refunds or Delivery.\n\n")
    nothing = command(*asked)
    assert nothing.code == 2
    assert "--task ag-news" in nothing.err


@pytest.mark.slow
@pytest.mark.model
@pytest.mark.data("agnews/train.jsonl", "agnews/test.jsonl")
def test_real_demonstrations_help_a_real_model(command: Any) -> None:
    """SmolLM2 on AG News: zero-shot about .5, four real demonstrations about .7 (seeds 0 and 1, 60 examples)."""
    smollm2()
    base = ["icl", real_data("agnews/test.jsonl"), "--task", "ag-news", "--limit", 60, "--seeds", "0,1", "--json"]
    none = command(*base)
    shown = command(*base, "--demonstrations", real_data("agnews/train.jsonl"))
    assert none.json["mean"] > 0.35  # chance is .25, three standard errors of 60 examples .17
    assert shown.json["mean"] > none.json["mean"]
