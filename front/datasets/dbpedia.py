"""A part of DBpedia-14: lines of a class, counted from 0, a comma, and sentences with tabs between them."""

from __future__ import annotations

from collections.abc import Sequence

from affidavit.accountant.errors import DataError
from affidavit.datasets.choosing import Choose, Record, distinct
from affidavit.datasets.originals import Given

__all__ = ["dbpedia"]

LABELS = (
    "Company", "EducationalInstitution", "Artist", "Athlete", "OfficeHolder", "MeanOfTransportation", "Building",
    "NaturalPlace", "Village", "Animal", "Plant", "Album", "Film", "WrittenWork",
)  # fmt: skip
CLASSES = {str(number): label for number, label in enumerate(LABELS)}


def dbpedia(originals: Sequence[Given], choose: Choose) -> dict[str, list[Record]]:
    """Records of the sentences, joined; equal texts are taken once."""
    (original,) = originals
    records: list[Record] = []
    for number, line in enumerate(original.lines, start=1):
        index, _, sentences = line.partition(",")
        if index not in CLASSES:
            raise DataError(
                f"{original.name}, line {number}: not a class from 0 to 13 and a text",
            )
        text = " ".join(sentence.strip() for sentence in sentences.split("\t") if sentence.strip())
        records.append({"text": text, "label": CLASSES[index]})
    train, test = choose(distinct(records, lambda record: str(record["text"])))
    return {"train.jsonl": train, "test.jsonl": test}
