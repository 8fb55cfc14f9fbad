"""The MIT Movie Corpus: lines of ``token:tag`` with the tags O, B-SLOT and I-SLOT, and `` <=> `` behind them."""

from __future__ import annotations

from collections.abc import Sequence

from affidavit.accountant.errors import DataError
from affidavit.datasets.choosing import Choose, Record
from affidavit.datasets.originals import Given

__all__ = ["mit_directors", "mit_genres"]


def mit_genres(originals: Sequence[Given], choose: Choose) -> dict[str, list[Record]]:  # noqa: ARG001 - as below
    """Every sentence of the split that names a genre."""
    return _sentences(originals, "Genre")


def mit_directors(originals: Sequence[Given], choose: Choose) -> dict[str, list[Record]]:  # noqa: ARG001 - theirs
    """Every sentence of the split that names a director."""
    return _sentences(originals, "Director")


def _sentences(originals: Sequence[Given], slot: str) -> dict[str, list[Record]]:
    train, test = ([record for record in _tagged(original, slot) if record["spans"]] for original in originals)
    return {"train.jsonl": train, "test.jsonl": test}


def _tagged(original: Given, slot: str) -> list[Record]:
    records: list[Record] = []
    for number, line in enumerate(original.lines, start=1):
        words: list[str] = []
        spans: list[list[str]] = []
        for pair in line.partition(" <=> ")[0].split():
            word, colon, tag = pair.rpartition(":")
            if not colon:
                raise DataError(
                    f"{original.name}, line {number}: not tokens with a tag, such as film:O",
                )
            words.append(word)
            if tag == f"B-{slot}" or (tag == f"I-{slot}" and not spans):
                spans.append([word])
            elif tag == f"I-{slot}":
                spans[-1].append(word)
        named = [" ".join(span) for span in spans]
        records.append({"text": " ".join(words), "slot": slot.lower(), "label": " ".join(named), "spans": named})
    return records
