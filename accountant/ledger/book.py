"""``Book``: every transaction on a ledger verifies it first (``Verified``), and remembers its end afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Connection, TextClause, func, insert, select, text, update

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.clock import Clock, parse_instant, show_instant, utc_now
from affidavit.accountant.errors import BudgetError, LedgerMissing
from affidavit.accountant.ledger.accounts import Account, History
from affidavit.accountant.ledger.anchors import Anchor, Anchors
from affidavit.accountant.ledger.chain import GENESIS, Head, Row, altered, link, seal, walk
from affidavit.accountant.ledger.database import Database
from affidavit.accountant.ledger.grants import INIT_HINT
from affidavit.accountant.ledger.tables import by_id, entries, head
from affidavit.accountant.ledger.witness import Witness, default_witness

__all__ = ["CATCH_UP", "CHECKPOINT_EVERY", "MAX_CLOCK_SKEW", "Book", "Verified", "default_url", "read_rows"]

CHECKPOINT_EVERY = 128
"""An entry whose number is a multiple of this states every account's sums."""

CATCH_UP = 4 * CHECKPOINT_EVERY
"""A machine that is further behind reads what others wrote before it takes the write lock, not while they wait."""

MAX_CLOCK_SKEW = timedelta(minutes=5)
"""How far the clocks of machines that share a ledger may lie apart."""


def default_url(home: Path) -> str:
    """``AFFIDAVIT_LEDGER`` (an SQLAlchemy URL), or ``ledger.db`` in the home folder."""
    return os.environ.get("AFFIDAVIT_LEDGER") or f"sqlite:///{home / 'ledger.db'}"


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

    def about(self, entry: str) -> list[tuple[Row, dict[str, Any]]]:
        """The entries that name this reservation, by the index of ids; each verified on its own."""
        same = text(f"{by_id(self.connection.dialect.name)} = :entry").bindparams(entry=entry)
        found = (walk([row], key=self.key, first=row.number) for row in _rows(self.connection, same))
        return [(row, facts) for walked in found for row, facts in walked if facts.get("entry") == entry]


class Book:
    """A ledger's database with its anchors and witness, on this machine. Safe to share, as ``Ledger`` says."""

    def __init__(
        self,
        *,
        keyring: Keyring,
        url: str | None = None,
        clock: Clock = utc_now,
        witness: Witness | None = None,
        apart: bool = False,
    ) -> None:
        """Names a ledger; touches nothing. Raises ``UsageError`` for a URL that cannot be used.

        ``witness``: where each of its ends is noted as well; ``AFFIDAVIT_WITNESS`` if left out. ``apart``: of an
        experiment, in which each run stands for itself: what is charged here is held against no other ledger.
        """
        self._keyring = keyring
        self._clock = clock
        self._database = Database(url or default_url(keyring.home))
        self._anchors = Anchors(keyring.home / "anchors")
        self._witness = witness or default_witness()
        self._apart = apart

    @property
    def url(self) -> str:
        """Where it is, without a password."""
        return self._database.address

    @contextmanager
    def _verified(self, *, write: bool, whole: bool = False) -> Iterator[Verified]:
        """A transaction on a ledger that verifies. Raises ``LedgerMissing``, ``LedgerAltered``."""
        if not self._is_there():
            raise LedgerMissing(f"there is no ledger at {self.url}", hint=INIT_HINT)
        key = self._keyring.secret("ledger")
        # The anchor before the entries, which may only be ahead of it.
        identity, length = self._identity(key)
        if write:
            self._catch_up(identity, length)
        anchor = self._anchors.of(identity) if identity else None
        with self._database.transaction(write=write) as connection:
            first = 1 if whole or anchor is None else _first_needed(connection, anchor)
            rows = read_rows(connection, first)
            history = History.read(walk(rows, key=key, first=first))
            end = Head(rows[-1].number, rows[-1].mac) if rows else Head(0, GENESIS)
            macs = {row.number: row.mac for row in rows}
            _check_end(connection, end, key=key)
            if anchor is not None:
                anchor.check(end, mac=macs.get(anchor.head.count))
            yield Verified(connection, key, self._now(history.latest, write=write), history, end, macs)

    def _catch_up(self, identity: str, length: int) -> None:
        """Note how far the ledger is, if this machine is far behind. Its other processes wait: one reads for all.

        Raises ``LedgerAltered``; ``BudgetError`` where it cannot be noted.
        """

        def behind() -> bool:
            known = self._anchors.of(identity)
            return length - (known.head.count if known is not None else 0) > CATCH_UP

        if not identity or not behind():
            return
        try:
            with self._anchors.in_turn(identity):
                if behind():
                    with self._verified(write=False) as found:
                        self._anchors.note(self.url, identity=found.history.identity, head=found.end)
        except OSError as error:
            raise BudgetError(
                f"the ledger's anchor in {self._anchors.folder} cannot be written: {error.strerror}",
                hint="Make the folder writable; nothing was charged.",
            ) from None

    def _is_there(self) -> bool:
        """Whether there is a ledger. Raises ``LedgerAltered`` where one was written, and there is none."""
        here = self._anchors.at(self.url)  # before the look: what is made meanwhile was not there before
        there = self._database.exists()
        if here is not None and not there:
            here.check_here("")
        return there

    def _identity(self, key: bytes) -> tuple[str, int]:
        """The ledger's id, from its first entry, and its length; empty for a ledger that is just being made."""
        here = self._anchors.at(self.url)
        with self._database.transaction(write=False) as connection:
            rows = read_rows(connection, 1, last=1)
            length = connection.execute(select(func.max(entries.c.number))).scalar() or 0
            if not rows and length:
                raise altered("entry 1 is missing", entry=1)
        identity = History.read(walk(rows, key=key)).identity
        if here is not None:
            here.check_here(identity)
        return identity, length

    def _now(self, latest: str, *, write: bool) -> str:
        """The time to write: never before the last entry's. Raises ``BudgetError`` where the clock is behind it."""
        now = self._clock()
        if not latest:
            return show_instant(now)
        last = parse_instant(latest)
        if write and now < last - MAX_CLOCK_SKEW:
            raise BudgetError(
                f"this machine's clock says {show_instant(now)}, the ledger's last entry is from {latest}",
                hint="Set the clock right; nothing was charged.",
            )
        return show_instant(max(now, last))

    def _remember(self, state: Verified, *, data: str = "") -> None:
        try:
            self._anchors.note(
                self.url, identity=state.history.identity, head=state.end, data="" if self._apart else data
            )
        except OSError as error:
            raise BudgetError(
                f"the ledger was written, but not its anchor in {self._anchors.folder}: {error.strerror}",
                hint="What was charged is spent. Make the folder writable before the next run.",
            ) from None
        if self._witness is not None:
            self._witness.note(state.history.identity, state.end, at=state.at)


def _first_needed(connection: Connection, anchor: Anchor) -> int:
    """Where reading has to begin: at a checkpoint, no later than the entry that the anchor names."""
    count = min(anchor.head.count, connection.execute(select(func.max(entries.c.number))).scalar() or 0)
    begin = count // CHECKPOINT_EVERY * CHECKPOINT_EVERY
    body = connection.execute(select(entries.c.body).where(entries.c.number == begin)).scalar()
    return begin if body is not None and '"kind":"checkpoint"' in body else 1


def read_rows(connection: Connection, first: int, *, last: int | None = None) -> tuple[Row, ...]:
    """Entries as they are stored, in order."""
    within = entries.c.number >= first if last is None else entries.c.number.between(first, last)
    return _rows(connection, within)


def _rows(connection: Connection, which: ColumnElement[bool] | TextClause) -> tuple[Row, ...]:
    wanted = select(entries.c.number, entries.c.body, entries.c.mac).where(which).order_by(entries.c.number)
    return tuple(Row(number, str(body), str(mac)) for number, body, mac in connection.execute(wanted))


def _check_end(connection: Connection, end: Head, *, key: bytes) -> None:
    """The seal says that the last entry is the last."""
    sealed = [tuple(item) for item in connection.execute(select(head.c.count, head.c.mac, head.c.seal))]
    expected = [(end.count, end.mac, seal(end, key=key))] if end.count else []
    if sealed != expected:
        raise altered("its last entries are missing, or its seal was changed", entry=end.count + 1)
