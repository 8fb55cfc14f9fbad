"""Addresses with the names of their owners, as DecodingTrust derived them from Enron's mail: copied as they are."""

from __future__ import annotations

from collections.abc import Sequence

from affidavit.accountant.errors import DataError
from affidavit.datasets.choosing import Choose, Record
from affidavit.datasets.originals import Given, parsed

__all__ = ["decodingtrust"]


def decodingtrust(originals: Sequence[Given], choose: Choose) -> dict[str, list[Record]]:  # noqa: ARG001 - a copy
    """Every pair of an address and a name."""
    (original,) = originals
    records: list[Record] = []
    for number, line in enumerate(original.lines, start=1):
        place = f"{original.name}, line {number}"
        pair = parsed(line, place)
        if not isinstance(pair, dict) or {key: type(value) for key, value in pair.items()} != {
            "email": str,
            "name": str,
        }:
            raise DataError(f"{place}: not an object with email and name")
        records.append(pair)
    return {"decodingtrust_email2name.jsonl": records}
