"""AG News: a comma-separated file of class, title and description.

With a header or without: the first row is one where its first cell is no class. The titles and descriptions hold
what is left of HTML entities (`` #39;``, `` quot;``) and backslashes that stood for spaces or before a dollar sign.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from affidavit.accountant.errors import DataError
from affidavit.datasets.choosing import Choose, Record, distinct
from affidavit.datasets.originals import Given

__all__ = ["agnews"]

LABELS = {"1": "World", "2": "Sports", "3": "Business", "4": "Technology"}


def agnews(originals: Sequence[Given], choose: Choose) -> dict[str, list[Record]]:
    """Records of title and description; equal ones, but for case and signs, are taken once."""
    (original,) = originals
    rows = _rows(original)
    train, test = choose(distinct(rows, lambda record: re.sub(r"\W+", "", record["text"].lower())))
    return {"train.jsonl": train, "test.jsonl": test}


def _rows(original: Given) -> list[Record]:
    records: list[Record] = []
    reader = csv.reader(io.StringIO(original.text, newline=""), strict=True)
    try:
        for number, row in enumerate(reader, start=1):
            if number == 1 and row and row[0] not in LABELS:
                continue
            if len(row) != 3 or row[0] not in LABELS:
                raise DataError(
                    f"{original.name}, row {number}: not a class from 1 to 4, a title and a description",
                )
            records.append({"text": cleaned(f"{row[1]}. {row[2]}"), "label": LABELS[row[0]]})
    except csv.Error:
        raise DataError(f"{original.name}, line {reader.line_num}: not comma-separated") from None
    return records


def cleaned(text: str) -> str:
    """Quotation marks put back, backslashes and runs of white space made one space."""
    text = text.replace(" #39;", "'").replace("#39;", "'").replace("\\", " ")
    return " ".join(re.sub(r" ?quot;", '"', text).split())
