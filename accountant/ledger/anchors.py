"""Anchors: a note, outside the database, of how long each ledger was.

One small file a ledger, under ``AFFIDAVIT_HOME/anchors``. A ledger has to contain the entry that its
anchor names; so an older copy put in its place, or a new one where it stood, is noticed. An anchor
is written after its entry and read before the entries: it may lag behind the ledger, never lead.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from affidavit.accountant.errors import BudgetError
from affidavit.accountant.ledger.chain import Head, Row, altered

__all__ = ["Anchor", "Anchors"]


@dataclass(frozen=True, slots=True)
class Anchor:
    """A ledger's id, and its end when this machine last wrote it. ``path`` is where that is noted."""

    identity: str
    head: Head
    path: Path

    def check(self, *, identity: str, rows: Sequence[Row]) -> None:
        """Raises ``LedgerAltered`` if the ledger is another one, or shorter than it was."""
        if self.identity != identity:
            raise altered(f"another ledger stands in its place ({self._advice})")
        if len(rows) < self.head.count:
            raise altered(
                f"it had {self.head.count} entries and has {len(rows)}: some were dropped, or an old copy restored",
                entry=len(rows) + 1,
            )
        if rows[self.head.count - 1].mac != self.head.mac:
            raise altered(f"entry {self.head.count} is not the one written here", entry=self.head.count)

    def check_gone(self) -> None:
        """A ledger that was here and is not: always raises ``LedgerAltered``."""
        raise altered(f"it had {self.head.count} entries and is gone ({self._advice})")

    @property
    def _advice(self) -> str:
        return f"to give it up on purpose, and with it the record of what was spent, remove {self.path}"


@dataclass(frozen=True, slots=True)
class Anchors:
    """The notes in one folder, by the ledger's address: its URL without a password."""

    folder: Path

    def read(self, address: str) -> Anchor | None:
        """The note on a ledger, if there is one. Raises ``LedgerAltered`` if it is damaged, ``BudgetError``."""
        path = self._path(address)
        try:
            obj = json.loads(path.read_text("utf-8"))
            return Anchor(str(obj["id"]), Head(int(obj["count"]), str(obj["mac"])), path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BudgetError(
                f"the ledger's anchor {path} cannot be read: {error.strerror}",
                hint="Make it readable; nothing is charged.",
            ) from None
        except (ValueError, KeyError, TypeError):
            raise altered(f"its anchor {path} is damaged") from None

    def note(self, address: str, *, identity: str, head: Head) -> None:
        """Remember the new end, unless a longer one is remembered already."""
        known = self.read(address)
        if known is not None and known.identity == identity and known.head.count >= head.count:
            return
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        content = json.dumps({"address": address, "id": identity, "count": head.count, "mac": head.mac})
        descriptor, temporary = tempfile.mkstemp(dir=self.folder, prefix=".anchor-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self._path(address))

    def _path(self, address: str) -> Path:
        return self.folder / f"{hashlib.sha256(address.encode()).hexdigest()[:32]}.json"
