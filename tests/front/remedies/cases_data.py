"""``affidavit data``: originals that are missing, of another version, or not in their format."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from remedy_cases import Case, Place, nothing

AGNEWS = "".join(f'{1 + n % 4},"North {n}","It rained on day {n}."\n' for n in range(24))
DBPEDIA = "\n".join(f"{n % 14},Place {n} .\t It is old ." for n in range(56))
TREC = {"train.txt": "HUM:ind Who was it ?\n", "test.txt": "NUM:date When was it ?\n"}
TAGGED = "horror:B-Genre film:O by:O ada:B-Director <=> <NULL>\n"
SAID: dict[str, Any] = {"dialogue": "#Person1#: Here?\n#Person2#: No", "summary": "Not here", "topic": "who"}
SAID_TEST = {"dialogue": SAID["dialogue"], **{f"summary{k}": "no" for k in (1, 2, 3)}, "topic1": "who"}
MEDICAL = [
    {"question_text": f"My left knee number {n} hurts after a walk.", "question": "is it?", "tags": ["knee"],
     "answer": "rest for a week, then walk a little every day."}
    for n in range(8)
]  # fmt: skip
FILMS = [
    {"title": f"Film {n}", "year": 1980, "cast": ["Ada"], "genres": ["Drama"],
     "extract": f"Number {n} " + "is a film about the sea. " * 8}
    for n in range(8)
]  # fmt: skip
DECADES = [f"movies-{decade}s.json" for decade in (1980, 1990, 2000, 2010, 2020)]
MESSAGE = "Write to ada@example.org, please.\n\n@subject\nOn it\n\n@ann0\nsomebody\n"


def files(contents: dict[str, str | bytes]) -> Callable[[Place], None]:
    """These files, as they were downloaded."""

    def arrange(place: Place) -> None:
        for name, content in contents.items():
            path = place.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    return arrange


def _made(at: str, name: str, broken: dict[str, str | bytes], whole: dict[str, str], *given: str) -> Case:
    """A converter that cannot read an original, and can read one that was downloaded again."""
    all_files = {**whole, **broken}
    originals = " ".join(given or all_files)
    return Case(
        at,
        f"data make {name} {originals} --any-version",
        files(all_files),
        by_hand=files(dict(whole)),
    )


def _mail(text: str) -> dict[str, str]:
    folder = "AESLC/enron_subject_line"
    return {f"{folder}/{split}/north-a_inbox_1.subject": text for split in ("dev", "test", "train")}


def _stands(place: Place) -> None:
    files({"test.csv": AGNEWS, "data/agnews/train.jsonl": "{}\n"})(place)


def _version(place: Place) -> None:
    files({"test.csv": AGNEWS})(place)


def _checked(place: Place) -> None:
    """The folder ``data`` with a set in it."""
    _version(place)
    place.must("data", "make", "agnews", "test.csv", "--any-version")


LINES = {"train": TAGGED, "test": TAGGED}
TALKS = {"dialogsum.dev.jsonl": json.dumps(SAID) + "\n", "dialogsum.test.jsonl": (json.dumps(SAID_TEST) + "\n") * 4}
PAIR = json.dumps({"email": "ada@example.org", "name": "Ada"}) + "\n"

CASES = [
    Case("front/cli/data.py:list_", "data list --markdown --json"),
    Case("front/datasets/catalogue.py:data_set", "data make letters letters.csv"),
    Case("front/datasets/catalogue.py:data_set", "data show ag-news"),
    Case("front/datasets/checking.py:check", "data check out", by_hand=_checked, then=(2,)),
    Case("front/datasets/originals.py:find", "data make agnews test.csv --any-version", by_hand=_version),
    Case(
        "front/datasets/originals.py:find#2",
        "data make trec . --any-version",
        files({"train.txt": TREC["train.txt"]}),
        by_hand=files(dict(TREC)),
    ),
    Case(
        "front/datasets/originals.py:find#3",
        "data make agnews test.csv -o sets",
        _version,
        by_hand=nothing,  # the known version is not at hand; the other way is taken after this
        then=(0, 2),
    ),
    Case("front/datasets/making.py:make#2", "data make agnews test.csv --any-version", _stands),
    _made("front/datasets/making.py:make", "agnews", {"test.csv": "x,y\n1,2\n"}, {"test.csv": AGNEWS}),
    _made("front/datasets/agnews.py:_rows", "agnews", {"test.csv": "1,2\n9,a,b\n"}, {"test.csv": AGNEWS}),
    _made("front/datasets/agnews.py:_rows#2", "agnews", {"test.csv": '1,"a"b,c\n'}, {"test.csv": AGNEWS}),
    _made("front/datasets/originals.py:decoded", "agnews", {"test.csv": b"\xff\xfe1,a,b\n"}, {"test.csv": AGNEWS}),
    _made("front/datasets/making.py:_lines", "agnews", {"test.csv": ""}, {"test.csv": AGNEWS}),
    _made("front/datasets/dbpedia.py:dbpedia", "dbpedia14", {"train.csv": "99,a\n"}, {"train.csv": DBPEDIA}),
    _made("front/datasets/trec.py:_questions", "trec", {"test.txt": "who was it\n"}, TREC),
    _made("front/datasets/mit_movies.py:_tagged", "mitg", {"test": "film\n"}, LINES),
    _made("front/datasets/dialogsum.py:_dialogues", "dialogsum", {"dialogsum.dev.jsonl": "{}\n"}, TALKS),
    _made(
        "front/datasets/medical.py:_answered",
        "icliniq",
        {"icliniqQAs.json": "[{}]"},
        {"icliniqQAs.json": json.dumps(MEDICAL)},
    ),
    _made(
        "front/datasets/originals.py:parsed",
        "icliniq",
        {"icliniqQAs.json": "[{"},
        {"icliniqQAs.json": json.dumps(MEDICAL)},
    ),
    _made(
        "front/datasets/wikimovies.py:_films",
        "wikimovies",
        {DECADES[2]: "[{}]"},
        dict.fromkeys(DECADES, json.dumps(FILMS)),
    ),
    _made("front/datasets/aeslc.py:_messages", "enron", dict(_mail("no mark")), _mail(MESSAGE), "AESLC"),
    _made(
        "front/datasets/decodingtrust.py:decodingtrust",
        "decodingtrust",
        {"email2name.jsonl": '{"email": 1}\n'},
        {"email2name.jsonl": PAIR},
    ),
    _made(
        "front/datasets/making.py:_lines#2",
        "decodingtrust",
        {"email2name.jsonl": '{"email": "ada@example.org", "name": "\\ud800"}\n'},
        {"email2name.jsonl": PAIR},
    ),
]
