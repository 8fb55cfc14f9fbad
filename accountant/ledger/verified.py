"""A verified ledger inside an open transaction: what it says, how to add to it, and how it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, func, insert, select, text, update

from affidavit.accountant.ledger.accounts import Account, History
from affidavit.accountant.ledger.anchors import Anchor
from affidavit.accountant.ledger.chain import GENESIS, Head, Row, altered, link, seal, walk
from affidavit.accountant.ledger.migrations import by_id
from affidavit.accountant.ledger.tables import entries, head

__all__ = [
    "CHECKPOINT_EVERY",
    "Verified",
    "check_end",
    "first_needed",
    "read_rows",
    "replayed",
    "rows_about",
    "still_open",
    "verified_rows",
]

CHECKPOINT_EVERY = 128
"""An entry whose number is a multiple of this states every account's sums."""


@dataclass(frozen=True, slots=True)
class Verified:
    """A verified ledger inside an open transaction: what it says, and how to add to it."""

    connection: Connection
    key: bytes
    at: str
    history: History
    end: Head
    macs: Mapping[int, str]

    @property
    def accounts(self) -> Mapping[str, Account]:
        return self.history.accounts

    def append(self, **facts: Any) -> Verified:
        """Add one entry and move the seal; a checkpoint too, where one is due.

        The entry is added to the history first: it makes sense, or nothing is written.
        """
        state = self._append(facts)
        if (state.end.count + 1) % CHECKPOINT_EVERY == 0:
            state = state._append(state.history.checkpoint())
        return state

    def _append(self, facts: Mapping[str, Any]) -> Verified:
        row = link({**facts, "at": self.at}, after=self.end, key=self.key)
        self.history.add(row, {**facts, "at": self.at})
        result = replace(self, end=Head(row.number, row.mac))
        self.connection.execute(insert(entries).values(number=row.number, body=row.body, mac=row.mac))
        change = update(head) if self.end.count else insert(head).values(id=1)
        sealed = seal(result.end, key=self.key)
        self.connection.execute(change.values(count=result.end.count, mac=result.end.mac, seal=sealed))
        return result


def first_needed(connection: Connection, anchor: Anchor) -> int:
    """Where reading has to begin: at a checkpoint, no later than the entry that the anchor names."""
    count = min(anchor.head.count, connection.execute(select(func.max(entries.c.number))).scalar() or 0)
    begin = count // CHECKPOINT_EVERY * CHECKPOINT_EVERY
    body = connection.execute(select(entries.c.body).where(entries.c.number == begin)).scalar()
    return begin if body is not None and '"kind":"checkpoint"' in body else 1


def replayed(rows: Sequence[Row], *, key: bytes, first: int) -> tuple[History, Head, Mapping[int, str]]:
    history = History.read(walk(rows, key=key, first=first))
    end = Head(rows[-1].number, rows[-1].mac) if rows else Head(0, GENESIS)
    return history, end, {row.number: row.mac for row in rows}


def read_rows(connection: Connection, first: int, *, last: int | None = None) -> tuple[Row, ...]:
    wanted = select(entries.c.number, entries.c.body, entries.c.mac).where(entries.c.number >= first)
    if last is not None:
        wanted = wanted.where(entries.c.number <= last)
    found = connection.execute(wanted.order_by(entries.c.number))
    return tuple(Row(number, str(body), str(mac)) for number, body, mac in found)


def check_end(connection: Connection, end: Head, *, key: bytes) -> None:
    """The seal says that the last entry is the last."""
    sealed = [tuple(item) for item in connection.execute(select(head.c.count, head.c.mac, head.c.seal))]
    expected = [(end.count, end.mac, seal(end, key=key))] if end.count else []
    if sealed != expected:
        raise altered("its last entries are missing, or its seal was changed", entry=end.count + 1)


def still_open(found: Verified, entry: str) -> bool:
    """Whether a reservation from before the entries that were read is there and not committed."""
    rows = rows_about(found.connection, entry)
    about = [facts for _, facts in verified_rows(found, rows)]
    return [facts["kind"] for facts in about if facts.get("entry") == entry] == ["reserve"]


def verified_rows(found: Verified, rows: Sequence[Row]) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Single entries, each verified on its own."""
    for row in rows:
        yield from walk([row], key=found.key, first=row.number)


def rows_about(connection: Connection, entry: str) -> tuple[Row, ...]:
    """The rows that name this reservation, by the index of ids; what they say is not verified yet."""
    same = text(f"{by_id(connection.dialect.name)} = :entry").bindparams(entry=entry)
    found = connection.execute(
        select(entries.c.number, entries.c.body, entries.c.mac).where(same).order_by(entries.c.number)
    )
    return tuple(Row(number, str(body), str(mac)) for number, body, mac in found)
