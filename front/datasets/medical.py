"""Questions of patients and answers of doctors, as one JSON array: icliniq.com and questiondoctors.com."""

from __future__ import annotations

import re
from collections.abc import Sequence

from affidavit.accountant.errors import DataError
from affidavit.datasets.choosing import Choose, Record, distinct
from affidavit.datasets.originals import Given

__all__ = ["icliniq", "questiondoctors"]

SHORTEST = 30

_REFERRAL = re.compile(r"for (?:further|more) (?:information|doubts|clarifications)\b[^.]*--> ?<link>$")
_LINK = re.compile(r"--> ?<link>")


def icliniq(originals: Sequence[Given], choose: Choose) -> dict[str, list[Record]]:
    """Every question and answer of 30 to 3,500 characters, without the closing sentence that refers to the site."""
    records = _answered(originals, longest=3500)
    for record in records:
        record["answer"] = _LINK.sub(" ", _REFERRAL.sub("", record["answer"])).strip()
    return _divided(records, choose)


def questiondoctors(originals: Sequence[Given], choose: Choose) -> dict[str, list[Record]]:
    """Questions and answers of 30 to 1,400 characters; a question is taken once."""
    return _divided(_answered(originals, longest=1400), choose)


def _answered(originals: Sequence[Given], *, longest: int) -> list[Record]:
    (original,) = originals
    content = original.json()
    records: list[Record] = []
    for number, found in enumerate(content if isinstance(content, list) else [content], start=1):
        wanted = ("question_text", "answer", "question")
        if not isinstance(found, dict) or any(not isinstance(found.get(key), str) for key in wanted):
            raise DataError(
                f"{original.name}, entry {number}: not an object with {', '.join(wanted)}",
            )
        question, answer = (" ".join(found[key].split()) for key in ("question_text", "answer"))
        if all(SHORTEST <= len(text) <= longest for text in (question, answer)):
            tags = found.get("tags")
            label = tags[0] if isinstance(tags, list) and tags and isinstance(tags[0], str) else "none"
            records.append({"question": question, "answer": answer, "topic": found["question"], "label": label})
    return records


def _divided(records: list[Record], choose: Choose) -> dict[str, list[Record]]:
    train, test = choose(distinct(records, lambda record: str(record["question"])))
    return {"train.jsonl": train, "test.jsonl": test}
