"""Anchors: a note, outside the database, of how long each ledger was.

One small file a ledger, under ``AFFIDAVIT_HOME/anchors``. A ledger has to contain the entry that its
anchor names; so an older copy put in its place, or a new one where it stood, is noticed. Written
after the entry, so a crash in between leaves a note that is behind, never ahead.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from affidavit.accountant.ledger.chain import Head, Row, altered

__all__ = ["Anchors"]


@dataclass(frozen=True, slots=True)
class Anchors:
    """The notes in one folder, by the ledger's address (a digest of its URL without a password)."""

    folder: Path

    def path(self, address: str) -> Path:
        return self.folder / f"{hashlib.sha256(address.encode()).hexdigest()[:32]}.json"

    def check(self, address: str, *, identity: str, rows: Sequence[Row]) -> None:
        """Raises ``LedgerAltered`` if the ledger is another one, or shorter than it was."""
        known = self._read(address)
        if known is None:
            return
        known_identity, known_head = known
        if known_identity != identity:
            raise altered(f"another ledger stands in its place ({self._advice(address)})")
        if len(rows) < known_head.count:
            raise altered(
                f"it had {known_head.count} entries and has {len(rows)}: some were dropped, or an old copy restored",
                entry=len(rows) + 1,
            )
        if rows[known_head.count - 1].mac != known_head.mac:
            raise altered(f"entry {known_head.count} is not the one written here", entry=known_head.count)

    def check_absent(self, address: str) -> None:
        """Before a new ledger is made: raises ``LedgerAltered`` if one stood there."""
        known = self._read(address)
        if known is not None:
            raise altered(f"it had {known[1].count} entries and is gone ({self._advice(address)})")

    def note(self, address: str, *, identity: str, head: Head) -> None:
        """Remember the new end, unless a longer one is remembered already."""
        known = self._read(address)
        if known is not None and known[0] == identity and known[1].count >= head.count:
            return
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        content = json.dumps({"address": address, "id": identity, "count": head.count, "mac": head.mac})
        descriptor, temporary = tempfile.mkstemp(dir=self.folder, prefix=".anchor-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path(address))

    def _read(self, address: str) -> tuple[str, Head] | None:
        try:
            obj = json.loads(self.path(address).read_text("utf-8"))
            return str(obj["id"]), Head(int(obj["count"]), str(obj["mac"]))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            raise altered(f"its anchor {self.path(address)} is damaged") from None

    def _advice(self, address: str) -> str:
        return f"to give it up on purpose, and with it the record of what was spent, remove {self.path(address)}"
