"""Examples of a task: read from JSON Lines, checked before a model is asked anything.

A line is an object. What a task asks and what it expects stand in the fields that the task names:
``text`` and ``label`` for most. Synthetic files (``id``, ``label``, ``text``) fit without a change.
A refusal names the line and the field, never a value: demonstrations may be private records.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from affidavit.accountant import files
from affidavit.accountant.errors import DataError
from affidavit.accountant.remedies import near_file
from affidavit.generation.icl.structured import RecordRates, check_record, rates
from affidavit.generation.icl.tasks import Task

__all__ = ["Example", "Loaded", "load_examples"]


@dataclass(frozen=True, slots=True)
class Example:
    """A question and the answers that are right, of which the first is shown in a demonstration."""

    input: str = field(repr=False)
    answers: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A file's examples; for ``record`` tasks also how many of its texts were sound records."""

    examples: tuple[Example, ...]
    records: RecordRates | None = None


def load_examples(path: Path, task: Task, *, blank: Literal["refuse", "drop"] = "refuse") -> Loaded:
    """Every example of a file. Raises ``DataError`` naming the line and the field.

    ``blank``: what becomes of a line whose question is empty, as a generator's text may be.

    For ``record`` tasks a line either has the record's fields, or a ``text`` that is meant to be the
    record (as in a synthetic file): texts that are no valid record are counted and left out.
    """
    examples: list[Example] = []
    texts: list[str] = []
    for number, line in _objects(path):
        if blank == "drop" and _is_blank(line, task):
            continue
        if task.kind == "record" and not all(name in line for name in task.keys):
            text = _text(path, number, "text", line.get("text"))
            texts.append(text)
            record = check_record(text, task.schema)
            if record.valid and isinstance(record.value, dict):
                examples.append(_from_record(task, record.value))
        else:
            examples.append(_example(path, number, line, task))
    if not examples and not texts and blank == "refuse":
        raise DataError(f"{path} holds no examples", hint=f"One a line, such as `{_shape(task)}`.")
    return Loaded(tuple(examples), rates(texts, task.schema) if texts else None)


def _objects(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    try:
        content = files.read_bytes(path, most=files.DATA_BYTES).removeprefix(b"\xef\xbb\xbf")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", hint=near_file(path)) from None
    for number, raw in enumerate(content.split(b"\n"), start=1):
        if not raw.strip():
            continue
        try:
            line = json.loads(raw.decode("utf-8"))
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict):
            raise DataError(
                f"{path}, line {number}: not one JSON object in UTF-8",
                hint='Write one object a line, such as `{"text": "…", "label": "…"}`.',
            )
        yield number, line


def _is_blank(line: Mapping[str, Any], task: Task) -> bool:
    value = line.get(_first(line, task.input_fields) or "")
    return isinstance(value, str) and not value.strip()


def _example(path: Path, number: int, line: Mapping[str, Any], task: Task) -> Example:
    question = _first(line, task.input_fields)
    text = _text(path, number, task.input_fields[0] if question is None else question, line.get(question or ""))
    if task.kind == "record":
        return Example(cut(text, task), (_record(line, task),))
    name = _first(line, task.answer_fields)
    given = line.get(name or "")
    shown = task.answer_fields[0] if name is None else name
    several = given if isinstance(given, list) else [given]
    answers = tuple(" ".join(_text(path, number, shown, one).split()) for one in several)
    if not answers:
        raise DataError(f"{path}, line {number}, {shown}: empty", hint=f"Each line is such as `{_shape(task)}`.")
    if task.kind == "choose" and answers[0] not in task.words:
        raise DataError(
            f"{path}, line {number}, {shown}: not one of the task's labels",
            hint=f"The task {task.name} knows {', '.join(list(task.words)[:20])}. If the file's are others, declare "
            "all of them with --label.",
        )
    return Example(cut(text, task), answers)


def _from_record(task: Task, record: Mapping[str, Any]) -> Example:
    """A synthetic record as a demonstration: its plot, where it has one, else its title, is the question."""
    question = next((record[name] for name in (*task.input_fields, "title") if isinstance(record.get(name), str)), "")
    kept = {key: record[key] for key in task.keys.values()}
    return Example(cut(question, task), (json.dumps(kept, ensure_ascii=False),))


def _record(line: Mapping[str, Any], task: Task) -> str:
    return json.dumps({key: line[name] for name, key in task.keys.items()}, ensure_ascii=False)


def cut(text: str, task: Task) -> str:
    """The text on one line, and no longer than the task's inputs may be."""
    return " ".join(text.split()[: task.max_input_words])


def _first(line: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in line), None)


def _text(path: Path, number: int, name: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        problem = "missing" if value is None else "not a string" if not isinstance(value, str) else "empty"
        raise DataError(
            f"{path}, line {number}, {name}: {problem}",
            hint=f"Every example needs it, as in `{json.dumps({name: 'text'})}`.",
        )
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _shape(task: Task) -> str:
    answers = tuple(task.keys) or task.answer_fields[-1:]
    return json.dumps(dict.fromkeys((task.input_fields[-1], *answers), "..."))
