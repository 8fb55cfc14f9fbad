"""Originals that nobody wrote, in the formats of the real ones. Every text holds the canary."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CANARY = "zqcanary"

Originals = dict[str, bytes]
"""Content by the name that an original has on disk."""


def _csv(rows: list[list[str]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8")


def _jsonl(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode("utf-8")


def _json(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps(rows).encode("utf-8")


def _agnews() -> Originals:
    rows = [
        [str(1 + number % 4), f"{CANARY} No {number}", f"It rained\\on Monday #39;s  quot;{number}quot; fair."]
        for number in range(24)
    ]
    return {"test.csv": _csv([["Class Index", "Title", "Description"], *rows])}


def _dbpedia() -> Originals:
    lines = [f"{number % 14},{CANARY} place {number} .\t It is old ." for number in range(56)]
    return {"train.csv": "\n".join(lines).encode("utf-8")}


def _trec() -> Originals:
    train = [
        f"DESC:manner How did {CANARY} 's `` boat '' sink , twice ?",
        f"HUM:ind Who was {CANARY} ?",
        f"LOC:city Where is {CANARY} ?",
    ]
    return {
        "train.txt": "\n".join(train).encode("utf-8"),
        "test.txt": f"NUM:date When was {CANARY} \xf0 born ?\n".encode("latin-1"),
    }


def _movies() -> Originals:
    line = (
        f"a:O {CANARY}:B-Plot british:B-Genre horror:I-Genre or:O comedy:B-Genre film:O by:O ada:B-Director "
        "north:I-Director <=> <NULL>\n"
    )
    plain = f"name:O {CANARY}:B-Actor films:O <=> <NULL>\n"
    return {"train": (line + plain).encode(), "test": (plain + line + line).encode()}


def _dialogsum() -> Originals:
    said = f"#Person1#: Is {CANARY} here?\n#Person2#: No "
    dev = [
        {"fname": f"dev_{n}", "dialogue": said + str(n), "summary": f"Not here {n} ", "topic": "who"} for n in range(3)
    ]
    test = [
        {
            "fname": f"test_{n}",
            "dialogue": said + str(n),
            **{f"summary{k}": f"{k} {CANARY}" for k in (1, 2, 3)},
            **{f"topic{k}": "who" for k in (1, 2, 3)},
        }
        for n in range(6)
    ]
    return {"dialogsum.dev.jsonl": _jsonl(dev), "dialogsum.test.jsonl": _jsonl(test)}


def _medical(file: str) -> Originals:
    answer = f"rest for a week, then walk a little every day, {CANARY}."
    rows = [
        {
            "answer": f"{answer} for further information consult a {CANARY} doctor online --> <link>",
            "question": f"is it {CANARY}?",
            "question_text": f"\r\n\tMy left knee number {n} hurts after {CANARY}.\n",
            "tags": ["knee"] if n % 2 else [],
            "url": "https://example.org",
        }
        for n in range(8)
    ]
    return {file: _json([*rows, {**rows[0], "question_text": "short"}])}


def _wikimovies() -> Originals:
    genres = ["Action", "Comedy", "Documentary", "Drama", "Horror", "Science Fiction", "Thriller"]
    files = {}
    for decade in (1980, 1990, 2000, 2010, 2020):
        films = [
            {
                "title": f"{CANARY} {genre}",
                "year": decade,
                "cast": ["Ada North"],
                "genres": [genre, "Western"],
                "extract": f"{CANARY} {decade} {genre} " + "is a film about the sea. " * 8,
            }
            for genre in genres
        ]
        two = {**films[0], "genres": ["Action", "Comedy"]}
        files[f"movies-{decade}s.json"] = _json([*films, two, {**films[0], "cast": []}])
    return files


def _enron() -> Originals:
    def message(body: str) -> bytes:
        return f"{body}\n\n@subject\nOn {CANARY}\n\n@ann0\nsomebody {CANARY}\n".encode()

    folder = "AESLC/enron_subject_line"
    address = f"Write to {CANARY}@example.org, please."
    return {
        f"{folder}/dev/north-a_inbox_1.subject": message(f"Plain {CANARY}."),
        f"{folder}/test/north-a_sent_2.subject": message(address),
        f"{folder}/train/north-a_sent_3.subject": message(address),
        f"{folder}/train/south-b_sent_1.subject": message(address.upper()),
        f"{folder}/train/south-b_sent_2.subject": message(f"Call (206)  555-0123, {CANARY}."),
        f"{folder}/train/south-b_sent_4.subject": message(f"Nothing to see, {CANARY}."),
    }


def _decodingtrust() -> Originals:
    return {"email2name.jsonl": _jsonl([{"email": f"{CANARY}@example.org", "name": f"Ada {CANARY}"}])}


INVENTED: dict[str, Originals] = {
    "agnews": _agnews(),
    "dbpedia14": _dbpedia(),
    "trec": _trec(),
    "mitg": _movies(),
    "mitd": _movies(),
    "dialogsum": _dialogsum(),
    "icliniq": _medical("icliniqQAs.json"),
    "questiondoctors": _medical("questionDoctorQAs.json"),
    "wikimovies": _wikimovies(),
    "enron": _enron(),
    "decodingtrust": _decodingtrust(),
}


@pytest.fixture(scope="session")
def invented() -> dict[str, Originals]:
    """The invented originals of every data set."""
    return INVENTED


@pytest.fixture(scope="session")
def write() -> Callable[[Originals, Path], list[Path]]:
    """Writes originals, and returns what a user would give: the files, or the folder at the top."""

    def written(originals: Originals, folder: Path) -> list[Path]:
        for name, content in originals.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return [folder / name for name in dict.fromkeys(name.partition("/")[0] for name in originals)]

    return written
