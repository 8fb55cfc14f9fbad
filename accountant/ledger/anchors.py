"""Anchors: a note, outside the database, of how long each ledger was.

One small file a ledger, under ``AFFIDAVIT_HOME/anchors``, named by the ledger's own id: a copy is the same
ledger whatever its path, link, host name or URL is spelled like, so an older copy is noticed anywhere. A
ledger has to contain the entry that its anchor names. The file also lists the addresses where the ledger
was written, so that a new or no ledger where one stood is noticed. An anchor is written after its entry
and read before the entries: it may lag behind the ledger, never lead. It also lists the keyed fingerprints of the data
files that were charged there, so that the same file gets no fresh budget from another ledger, as it would where an
address was forgotten.
"""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from affidavit.accountant import files, strictjson
from affidavit.accountant.errors import BudgetError, PlanError
from affidavit.accountant.ledger.chain import Head, altered
from affidavit.accountant.strictjson import COUNT, TEXT, Form, listed, record

__all__ = ["Anchor", "Anchors"]

_LONGEST_WAIT = 300.0
"""Seconds: a process that was stopped while it reads holds the others up no longer."""

_FORM: Form[dict[str, Any]] = record(
    dict, {"id": TEXT, "count": COUNT, "mac": TEXT, "addresses": listed(TEXT), "data": listed(TEXT)}
)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A ledger's id, its end when this machine last wrote it, where, and for which ``data``. ``path`` is the note's."""

    identity: str
    head: Head
    addresses: tuple[str, ...]
    path: Path
    data: tuple[str, ...] = ()

    def check(self, end: Head, *, mac: str | None) -> None:
        """Raises ``LedgerAltered`` if the ledger is shorter than it was, or ``mac`` is not its entry's there."""
        if end.count < self.head.count:
            raise altered(
                f"it had {self.head.count} entries and has {end.count}: some were dropped, or an old copy restored",
                entry=end.count + 1,
            )
        if mac != self.head.mac:
            raise altered(f"entry {self.head.count} is not the one written here", entry=self.head.count)

    def check_here(self, identity: str) -> None:
        """Raises ``LedgerAltered`` if ``identity``, found where this ledger stood, is another one or none."""
        advice = f"to give it up on purpose, and with it the record of what was spent, remove {self.path}"
        if not identity:
            raise altered(f"it had {self.head.count} entries and is gone ({advice})")
        if self.identity != identity:
            raise altered(f"another ledger stands in its place ({advice})")


@dataclass(frozen=True, slots=True)
class Anchors:
    """The notes in one folder."""

    folder: Path

    def of(self, identity: str) -> Anchor | None:
        """The note on a ledger, if there is one. Raises ``LedgerAltered`` if it is damaged, ``BudgetError``."""
        found = (anchor for anchor in self._all() if anchor.identity == identity)
        return max(found, key=lambda anchor: anchor.head.count, default=None)

    def at(self, address: str) -> Anchor | None:
        """The note on the ledger that was last written at this URL (without a password)."""
        return next((anchor for anchor in self._all() if address in anchor.addresses), None)

    def check_new(self, data: str, *, identity: str) -> None:
        """Raises ``BudgetError`` where another ledger than this one was charged for the file with this fingerprint."""
        other = next((one for one in self._all() if data and data in one.data and one.identity != identity), None)
        if other is not None:
            raise BudgetError(
                f"this very file was charged on another ledger, at {other.addresses[-1]}",
                hint=f"Charge it there: `export AFFIDAVIT_LEDGER={shlex.quote(other.addresses[-1])}`. To give that "
                f"ledger up on purpose, and with it the record of what was spent, remove {other.path}",
            )

    def note(self, address: str, *, identity: str, head: Head, data: str = "") -> None:
        """Remember the new end, unless a longer one is remembered already, and the file that was charged."""
        known = self.of(identity) or Anchor(identity, Head(0, ""), (), self.folder / f"{identity}.json")
        addresses = tuple(dict.fromkeys((*known.addresses, address)))
        charged = tuple(dict.fromkeys((*known.data, *([data] if data else []))))
        if known.head.count >= head.count and (addresses, charged) == (known.addresses, known.data):
            return
        head = max(head, known.head, key=lambda end: end.count)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        facts = {"id": identity, "count": head.count, "mac": head.mac, "addresses": addresses, "data": charged}
        files.write(self.folder / f"{identity}.json", json.dumps(facts).encode())

    @contextmanager
    def in_turn(self, identity: str) -> Iterator[None]:
        """One process of this machine at a time: what the first has read of a ledger and noted, the next need not read.

        That saves work and decides nothing: whoever waited too long goes on beside the other. Raises ``OSError``.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.folder / f"{identity}.turn", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            deadline = time.monotonic() + _LONGEST_WAIT
            while not _taken(descriptor) and time.monotonic() < deadline:
                time.sleep(0.1)
            yield
        finally:
            os.close(descriptor)

    def _all(self) -> Iterator[Anchor]:
        try:
            paths = sorted(path for path in self.folder.iterdir() if path.suffix == ".json")
        except FileNotFoundError:
            return
        except OSError as error:
            raise _unreadable(self.folder, error) from None
        for path in paths:
            yield _parsed(path)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _parsed(path: Path) -> Anchor:
    try:
        stated = _FORM.read(strictjson.parse(files.read_bytes(path)), path=path.name)
    except OSError as error:
        raise _unreadable(path, error) from None
    except (ValueError, PlanError):
        raise altered(f"its anchor {path} is damaged") from None
    return Anchor(stated["id"], Head(stated["count"], stated["mac"]), stated["addresses"], path, stated["data"])


def _unreadable(path: Path, error: OSError) -> BudgetError:
    return BudgetError(
        f"the ledger's anchor {path} cannot be read: {error.strerror}", hint="Make it readable; nothing is charged."
    )
