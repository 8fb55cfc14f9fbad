"""Entries chained by HMAC-SHA256: each names the one before it, and none can be made without the key."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from affidavit.accountant.errors import LedgerAltered

__all__ = ["GENESIS", "Head", "Row", "altered", "link", "seal", "walk"]

GENESIS = "0" * 64
_ENTRY_DOMAIN = b"affidavit/ledger-entry/v1\0"
_HEAD_DOMAIN = b"affidavit/ledger-head/v1\0"


@dataclass(frozen=True, slots=True)
class Row:
    """One stored entry: its number from 1, its canonical JSON, and the MAC over that JSON."""

    number: int
    body: str
    mac: str


@dataclass(frozen=True, slots=True)
class Head:
    """The chain's end: how many entries there are, and the last one's MAC."""

    count: int
    mac: str


def _mac(key: bytes, domain: bytes, text: str) -> str:
    return hmac.new(key, domain + text.encode(), hashlib.sha256).hexdigest()


def link(facts: Mapping[str, Any], *, after: Head, key: bytes) -> Row:
    """The next entry after ``after``; ``number`` and ``previous`` are added to the facts."""
    content = {**facts, "number": after.count + 1, "previous": after.mac}
    body = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return Row(after.count + 1, body, _mac(key, _ENTRY_DOMAIN, body))


def seal(head: Head, *, key: bytes) -> str:
    """A MAC that says: the chain ends here. Without it, dropping the last entries would not show."""
    return _mac(key, _HEAD_DOMAIN, f"{head.count}:{head.mac}")


def walk(rows: Iterable[Row], *, key: bytes, first: int = 1) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Yield each entry with its facts, verified. Raises ``LedgerAltered`` at the first bad one.

    From ``first`` on: what the entry there calls its predecessor is believed, since its MAC covers that.
    """
    previous = GENESIS if first == 1 else None
    for number, row in enumerate(rows, start=first):
        if row.number != number:
            raise altered(f"entry {number} is missing", entry=number)
        if not hmac.compare_digest(_mac(key, _ENTRY_DOMAIN, row.body).encode(), row.mac.encode()):
            raise altered(f"entry {number} was changed, or written under another key", entry=number)
        facts = json.loads(row.body)
        stated = facts.pop("previous")
        if facts.pop("number") != number or previous not in (None, stated):
            raise altered(f"entry {number} does not follow the entry before it", entry=number)
        previous = row.mac
        yield row, facts


def altered(problem: str, *, entry: int | None = None) -> LedgerAltered:
    """The refusal; nothing is granted on such a ledger."""
    return LedgerAltered(
        f"the ledger does not verify: {problem}",
        entry=entry,
        hint="Restore the newest copy for which `affidavit ledger verify` succeeds; nothing is granted until then.",
    )
