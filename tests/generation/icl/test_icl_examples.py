"""Files of examples: what is read, what is refused, and that no refusal shows a text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant.errors import DataError, UsageError
from affidavit.generation.icl.examples import load_examples
from affidavit.generation.icl.tasks import TASKS, task
from support.real_data import real_data

FILES = {
    "ag-news": "agnews", "trec": "trec", "dbpedia": "dbpedia14", "mit-g": "mitg", "mit-d": "mitd",
    "dialogsum": "dialogsum", "medical": "icliniq", "wikimovies": "wikimovies",
}  # fmt: skip


def _write(path: Path, *lines: Any) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def test_a_synthetic_file_fits_as_it_is(tmp_path: Path) -> None:
    file = _write(tmp_path / "s.jsonl", {"id": "World-0", "label": "World", "text": " Oil \n rose. "})
    (example,) = load_examples(file, task("ag-news")).examples
    assert (example.input, example.answers) == ("Oil rose.", ("World",))


def test_long_inputs_are_cut_by_words(tmp_path: Path) -> None:
    file = _write(tmp_path / "s.jsonl", {"label": "World", "text": "word " * 500})
    (example,) = load_examples(file, task("ag-news")).examples
    assert len(example.input.split()) == task("ag-news").max_input_words


def test_several_references_and_the_first_of_the_named_fields(tmp_path: Path) -> None:
    line = {"dialogue": "a: hi\nb: hello", "summary": "ignored", "references": ["They greet.", "Two greet."]}
    (example,) = load_examples(_write(tmp_path / "d.jsonl", line), task("dialogsum")).examples
    assert example.input == "a: hi b: hello"
    assert example.answers == ("They greet.", "Two greet.")


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ({"label": "World"}, "line 1, text: missing"),
        ({"label": "World", "text": 3}, "line 1, text: not a string"),
        ({"label": "World", "text": " "}, "line 1, text: empty"),
        ({"text": "SECRET"}, "line 1, label: missing"),
        ({"text": "SECRET", "label": "Weather"}, "not one of the task's labels"),
        (["SECRET"], "line 1: not one JSON object"),
    ],
)
def test_a_wrong_line_is_named_and_not_shown(line: Any, place: str, tmp_path: Path) -> None:
    with pytest.raises(DataError) as refusal:
        load_examples(_write(tmp_path / "x.jsonl", line), task("ag-news"))
    assert place in refusal.value.message
    assert "SECRET" not in str(refusal.value)
    assert "Weather" not in str(refusal.value)


def test_blank_texts_are_dropped_only_where_a_generator_wrote_them(tmp_path: Path) -> None:
    file = _write(tmp_path / "s.jsonl", {"label": "World", "text": ""}, {"label": "Sports", "text": "Won."})
    with pytest.raises(DataError, match="empty"):
        load_examples(file, task("ag-news"))
    assert len(load_examples(file, task("ag-news"), blank="drop").examples) == 1


def test_synthetic_records_are_counted_and_only_valid_ones_are_shown(tmp_path: Path) -> None:
    good = json.dumps({"title": "Rain", "year": 1999, "genre": "Drama", "plot": "It rains."})
    texts = [good, '{"title": "Rain", "year": "1999", "genre": "Drama"}', "Rain is a film.", '{"a": 1, "a": 2}']
    file = _write(tmp_path / "s.jsonl", *({"id": str(n), "label": "Drama", "text": t} for n, t in enumerate(texts)))
    loaded = load_examples(file, task("wikimovies"))
    assert loaded.records is not None
    assert (loaded.records.count, loaded.records.parsed, loaded.records.valid) == (4, 2, 1)
    (example,) = loaded.examples
    assert example.input == "It rains."
    assert json.loads(example.answers[0]) == {"title": "Rain", "year": 1999, "genre": "Drama"}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        pytest.param(name, f"{folder}/{part}.jsonl", marks=pytest.mark.data(f"{folder}/{part}.jsonl"))
        for name, folder in FILES.items()
        for part in ("train", "test")
    ],
)
def test_the_real_files_are_read_whole(name: str, part: str) -> None:
    file = real_data(part)
    assert len(load_examples(file, task(name)).examples) == len(file.read_bytes().splitlines())


def test_labels_of_ones_own_replace_those_in_the_instruction() -> None:
    own = task("generic").with_labels(["spam", "ham", "eggs"])
    assert own.instruction.endswith("spam, ham or eggs.")
    assert list(own.words) == ["spam", "ham", "eggs"]
    for wrong in (["spam"], ["spam", "spam"], ["spam", " "]):
        with pytest.raises(UsageError):
            task("generic").with_labels(wrong)
    with pytest.raises(UsageError, match="no labels"):
        task("mit-g").with_labels(["a", "b"])


def test_every_task_says_what_it_needs() -> None:
    for name, known in TASKS.items():
        assert known.name == name
        assert (known.kind == "choose") == bool(known.words)
        assert (known.kind == "record") == bool(known.keys) == bool(known.schema)
        assert all(word in known.instruction for word in known.words.values())
    with pytest.raises(UsageError, match="no task"):
        task("no-such-task")
