"""Parts of one data set, by an intrinsic key: accounts whose records cannot be the same, so that runs do not add up.

A record belongs to the part in whose bracket its ``place`` (``sketch``) lies: a keyed function of its text alone, so a
record that is added or removed, or emptied, touches one part (parallel composition: McSherry 2009, "Privacy integrated
queries"). It goes there in every version of the data. Accounts of one partition, under one key, promise the
largest of their budgets together, not the sum, however runs on them are interleaved.

That all records of a run are in the bracket is seen from the first and the last of their places, both of which a
sketch holds. Not under substitution, where a record may leave one part and enter another, nor for units of several
records, which need not lie together.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass

from affidavit.accountant.errors import NotSupported, PlanError
from affidavit.accountant.ledger.sketch import DIGITS, place
from affidavit.accountant.unit import RECORD, Unit
from affidavit.accountant.validate import Relation

__all__ = ["Part", "key_id"]

MOST = 1024

_WRITTEN = re.compile(r"([1-9][0-9]{0,3})/([1-9][0-9]{0,3})\Z", re.ASCII)


def key_id(key: bytes) -> str:
    """Names a commitment key and says nothing about it."""
    return hmac.new(key, b"affidavit/part-key/v2", hashlib.sha256).hexdigest()[:DIGITS]


@dataclass(frozen=True, slots=True)
class Part:
    """``index`` of ``count``, from 1, by digests under the key with this id."""

    index: int
    count: int
    key: str

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.count <= MOST:
            raise ValueError("no part")

    @classmethod
    def read(cls, written: str, *, key: str, relation: Relation, unit: Unit) -> Part:
        """Such as ``3/8``. Raises ``PlanError``, ``NotSupported`` where parts would not be disjoint."""
        found = _WRITTEN.match(written)
        index, count = (int(found[1]), int(found[2])) if found else (1, 0)
        if not index <= count <= MOST:
            raise PlanError("--part", "not a part of a partition", allowed="3/8", hint="For example `--part 3/8`.")
        if relation == "substitution" or unit != RECORD:
            raise NotSupported(
                "parts are disjoint for single records that are added, removed or emptied only: a substituted record "
                "may leave one part and enter another, and a unit of several records may lie in several",
                hint="Remove `--part`; runs on all the data then add up.",
            )
        return cls(index, count, key)

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def holds(self, digests: Sequence[str]) -> bool:
        """Whether all of these lie in its bracket: of a sketch, whether all records of the set do."""
        return all(place(digest) * self.count >> 4 * DIGITS == self.index - 1 for digest in digests)
