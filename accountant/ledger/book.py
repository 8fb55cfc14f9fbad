"""``Book``: every transaction on a ledger verifies it first, and remembers its end afterwards."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from sqlalchemy import func, select

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.clock import Clock, parse_instant, show_instant, utc_now
from affidavit.accountant.errors import BudgetError, LedgerMissing
from affidavit.accountant.ledger.accounts import History
from affidavit.accountant.ledger.anchors import Anchors
from affidavit.accountant.ledger.chain import altered, walk
from affidavit.accountant.ledger.database import Database
from affidavit.accountant.ledger.grants import INIT_HINT
from affidavit.accountant.ledger.tables import entries
from affidavit.accountant.ledger.verified import (
    CHECKPOINT_EVERY,
    Verified,
    check_end,
    first_needed,
    read_rows,
    replayed,
)
from affidavit.accountant.ledger.witness import Witness, default_witness

__all__ = ["CATCH_UP", "MAX_CLOCK_SKEW", "Book", "default_url"]

CATCH_UP = 4 * CHECKPOINT_EVERY
"""A machine that is further behind reads what others wrote before it takes the write lock, not while they wait."""

MAX_CLOCK_SKEW = timedelta(minutes=5)
"""How far the clocks of machines that share a ledger may lie apart."""


def default_url(home: Path) -> str:
    """``AFFIDAVIT_LEDGER`` (an SQLAlchemy URL), or ``ledger.db`` in the home folder."""
    return os.environ.get("AFFIDAVIT_LEDGER") or f"sqlite:///{home / 'ledger.db'}"


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
        anchor = self._anchors.of(identity) if identity else None
        if write and length - (anchor.head.count if anchor is not None else 0) > CATCH_UP:
            with self._verified(write=False) as found:
                self._anchors.note(self.url, identity=found.history.identity, head=found.end)
            anchor = self._anchors.of(identity)
        with self._database.transaction(write=write) as connection:
            first = 1 if whole or anchor is None else first_needed(connection, anchor)
            rows = read_rows(connection, first)
            history, end, macs = replayed(rows, key=key, first=first)
            check_end(connection, end, key=key)
            if anchor is not None:
                anchor.check(end, mac=macs.get(anchor.head.count))
            yield Verified(connection, key, self._now(history.latest, write=write), history, end, macs)

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
