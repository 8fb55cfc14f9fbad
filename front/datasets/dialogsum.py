"""DialogSum: the development file is for training; of the test file one half is, and the other is for testing."""

from __future__ import annotations

from collections.abc import Sequence

from affidavit.accountant.errors import DataError
from affidavit.datasets.choosing import Choose, Record
from affidavit.datasets.originals import Given, parsed

__all__ = ["dialogsum"]


def dialogsum(originals: Sequence[Given], choose: Choose) -> dict[str, list[Record]]:
    """Dialogues with one summary; those for testing with all three, as ``references``."""
    learnt = _dialogues(originals[0], "summary", "topic", ())
    others, tested = choose(_dialogues(originals[1], "summary1", "topic1", ("summary1", "summary2", "summary3")))
    learnt += [{key: value for key, value in record.items() if key != "references"} for record in others]
    return {"train.jsonl": learnt, "test.jsonl": tested}


def _dialogues(original: Given, summary: str, topic: str, references: Sequence[str]) -> list[Record]:
    records: list[Record] = []
    for number, line in enumerate(original.lines, start=1):
        place = f"{original.name}, line {number}"
        found = parsed(line, place)
        wanted = ("dialogue", summary, topic, *references)
        if not isinstance(found, dict) or any(not isinstance(found.get(key), str) for key in wanted):
            raise DataError(f"{place}: not an object with {', '.join(wanted)}")
        dialogue, first, about, *all_three = (found[key].strip() for key in wanted)
        record: Record = {"dialogue": dialogue, "summary": first, "topic": about}
        if references:
            record["references"] = all_three
        records.append(record)
    return records
