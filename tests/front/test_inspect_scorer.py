"""Inspect's own evaluation with our scorer: what is counted, where it is counted, and what no log may hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="inspect-ai is not installed: `make test` installs it")

from inspect_ai import Task, eval  # noqa: A004
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import generate

from affidavit.accountant.errors import DataError, RunFileError
from affidavit.inspect_scorer import leaks, released_text

PASSAGE = (
    "the blue ferry leaves the old harbour at nine and comes back at dusk when the lamps along the pier are lit again"
)
OTHER = (
    "our second printer in the cellar has been out of order since the flood and nobody wants to carry it up the stairs"
)
TEXTS = (
    "Nothing of note.",
    "Write to ada.quill@harbour.example today.",
    f"We said: {PASSAGE}.",
    f"They said: {OTHER}.",
)


def _written(path: Path, texts: list[str], prefix: str) -> str:
    lines = [{"id": f"{prefix}{i}", "text": text, "label": "a"} for i, text in enumerate(texts)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


@pytest.fixture
def sides(tmp_path: Path) -> dict[str, str]:
    members = _written(tmp_path / "members.jsonl", ["Ask ada.quill@harbour.example about it.", f"So {PASSAGE}!"], "m")
    return {"members": members, "held_out": _written(tmp_path / "held_out.jsonl", [f"So {OTHER}!"], "h")}


def _evaluated(task: Task, tmp_path: Path, model: Any) -> Any:
    (log,) = eval(task, model=model, log_dir=str(tmp_path / "logs"), display="none")
    assert log.status == "success", log.error
    return log


def _checked(log: Any) -> None:
    scores = [next(iter(sample.scores.values())) for sample in log.samples]
    assert [score.value["leaked"] for score in scores] == [0, 1, 0, 0]
    assert [score.value["verbatim"] for score in scores] == [0, 0, 1, 0]
    assert [score.value["held_out_verbatim"] for score in scores] == [0, 0, 0, 1]
    assert [score.value["near"] for score in scores] == [0, 0, 1, 0]
    assert scores[0].explanation == scores[3].explanation == "nothing of a record found"
    assert scores[1].explanation == "email at 9-34"
    assert scores[2].explanation.startswith("23 words at 9-")
    means = {score.name: score.metrics["mean"].value for score in log.results.scores}
    assert means["leaked"] == means["verbatim"] == means["held_out_verbatim"] == 0.25
    for score in scores:
        assert "quill" not in str(score)
        assert "ferry" not in str(score)


def test_a_model_that_is_shown_records_is_scored(tmp_path: Path, sides: dict[str, str]) -> None:
    outputs = [ModelOutput.from_content("mockllm", text) for text in TEXTS]
    for output in outputs:
        output.usage = ModelUsage()  # else it is counted by a tokenizer that is downloaded
    model = get_model("mockllm/model", custom_outputs=outputs)
    task = Task(dataset=[Sample(f"question {i}") for i in range(4)], solver=[generate()], scorer=leaks(**sides))
    (log,) = eval(task, model=model, log_dir=str(tmp_path / "logs"), display="none", max_samples=1)
    assert log.status == "success", log.error
    _checked(log)


def test_released_text_is_a_task(tmp_path: Path, sides: dict[str, str]) -> None:
    released = _written(tmp_path / "synthetic.jsonl", list(TEXTS), "r")
    _checked(_evaluated(released_text(released, **sides), tmp_path, "none"))


def test_inspect_finds_both_by_name() -> None:
    from importlib.metadata import entry_points

    assert [point.load().__name__ for point in entry_points(group="inspect_ai", name="affidavit")] == [
        "affidavit.inspect_scorer"
    ]


def test_records_without_others_are_refused(tmp_path: Path, sides: dict[str, str]) -> None:
    with pytest.raises(DataError, match="nearly copies"):
        leaks(sides["members"], sides["members"])


def test_a_kind_is_checked_and_may_stand_alone(tmp_path: Path, sides: dict[str, str]) -> None:
    released = _written(tmp_path / "synthetic.jsonl", list(TEXTS), "r")
    assert released_text(released, **sides, kinds="email").scorer
    with pytest.raises(RunFileError, match="kinds"):
        leaks(**sides, kinds=["emial"])
