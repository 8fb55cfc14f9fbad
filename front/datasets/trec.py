"""TREC: lines of a class, a colon, a finer class, a space, and a question in tokens.

The official files hold one byte that is not UTF-8; it becomes U+FFFD, as in the copies that others made of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from affidavit.accountant.errors import DataError
from affidavit.datasets.choosing import Choose, Record
from affidavit.datasets.originals import Given

__all__ = ["trec"]

LABELS = {
    "ABBR": "Abbreviation", "DESC": "Description", "ENTY": "Entity", "HUM": "Person", "LOC": "Location",
    "NUM": "Number",
}  # fmt: skip


def trec(originals: Sequence[Given], choose: Choose) -> dict[str, list[Record]]:  # noqa: ARG001 - the split is theirs
    """Every question of the official split, in its order."""
    train, test = map(_questions, originals)
    return {"train.jsonl": train, "test.jsonl": test}


def _questions(original: Given) -> list[Record]:
    records: list[Record] = []
    text = original.content.decode("utf-8", errors="replace")
    for number, line in enumerate(text.rstrip("\n").split("\n"), start=1):
        classes, _, question = line.rstrip("\r").partition(" ")
        coarse, _, fine = classes.partition(":")
        if coarse not in LABELS or not question:
            raise DataError(
                f"{original.name}, line {number}: not a class such as NUM:date and a question",
            )
        records.append({"text": joined(question), "label": LABELS[coarse], "fine_label": fine})
    return records


def joined(question: str) -> str:
    """Quotation marks, commas, question marks and the possessive moved to the word before or after."""
    question = question.replace("`` ", '"').replace(" ''", '"')
    return re.sub(r" ('s)\b", r"\1", re.sub(r" ([?,])", r"\1", question))
