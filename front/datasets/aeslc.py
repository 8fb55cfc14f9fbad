"""Enron's mail in AESLC: a folder a split, a file a message: the body, ``@subject``, then what annotators wrote."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from affidavit.accountant.errors import DataError
from affidavit.datasets.choosing import Choose, Record, distinct
from affidavit.datasets.originals import Given, decoded

__all__ = ["aeslc"]

IDENTIFYING = re.compile(
    r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}"  # an e-mail address
    r"|\(?\b\d{3}\)?[-. ]+\d{3}[-. ]\d{4}\b"  # a phone number as it is written in the United States
)


def aeslc(originals: Sequence[Given], choose: Choose) -> dict[str, list[Record]]:  # noqa: ARG001 - the split is theirs
    """Every message of dev and test; of train those whose body holds an address or a number, each body once."""
    (original,) = originals
    named = (record for record in _messages(original, "train") if IDENTIFYING.search(record["body"]))
    return {
        "aeslc_dev.jsonl": list(_messages(original, "dev")),
        "aeslc_test.jsonl": list(_messages(original, "test")),
        "aeslc_train_pii.jsonl": distinct(named, lambda record: re.sub(r"\W+", "", record["body"].lower())),
    }


def _messages(original: Given, split: str) -> Iterator[Record]:
    for number, (path, content) in enumerate(sorted(original.files.items()), start=1):
        folder, _, file = path.rpartition("/")
        if folder != split:
            continue
        place = f"{original.name}/{split}, file {number}"
        body, mark, rest = decoded(content, place).partition("@subject")
        if not mark:
            raise DataError(f"{place}: no line with @subject")
        identifier = file.removesuffix(".subject")
        yield {
            "id": identifier,
            "mailbox": identifier.partition("_")[0],
            "subject": rest.partition("@ann0")[0].strip(),
            "body": body.strip(),
        }
