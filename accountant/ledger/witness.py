"""A witness: the ledger's ends, noted where its keeper cannot take them back, such as a repository that others fetch.

Whoever holds ``ledger.key`` can write another history and another anchor. What was noted elsewhere before shows it:
an end names its entry's MAC, which covers every entry up to it. A witness is a file of JSON lines, or a git
repository's folder, in which ``heads.jsonl`` is such a file and each line a commit. It holds nothing but numbers,
MACs and times.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from affidavit.accountant import files
from affidavit.accountant.errors import BudgetError, PlanError
from affidavit.accountant.ledger.chain import Head
from affidavit.accountant.strictjson import COUNT

__all__ = ["Witness", "default_witness"]

_AUTHOR = ("-c", "user.name=affidavit", "-c", "user.email=ledger@affidavit.invalid", "-c", "commit.gpgsign=false")


def default_witness() -> Witness | None:
    """``AFFIDAVIT_WITNESS``, if it names one."""
    place = os.environ.get("AFFIDAVIT_WITNESS")
    return Witness(Path(place)) if place else None


@dataclass(frozen=True, slots=True)
class Witness:
    """A file, or the folder of a git repository."""

    place: Path

    def note(self, identity: str, head: Head, *, at: str) -> None:
        """Add an end; in a repository, commit it. Raises ``BudgetError`` where that cannot be done."""
        line = json.dumps({"ledger": identity, "count": head.count, "mac": head.mac, "at": at}) + "\n"
        try:
            with self._file.open("a", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
                if self._is_repository:
                    self._git("add", "--", self._file.name)
                    self._git(*_AUTHOR, "commit", "--quiet", "--message", f"Ledger at {head.count}", self._file.name)
        except OSError as error:
            raise self._unusable(error.strerror or "no such program") from None
        except subprocess.SubprocessError as error:
            raise self._unusable(f"git ended with {getattr(error, 'returncode', 'no answer')}") from None

    def heads(self, identity: str) -> Iterator[Head]:
        """The ends noted of this ledger, in order. Raises ``BudgetError`` for a witness that cannot be read."""
        try:
            lines = files.read_bytes(self._file, most=files.DATA_BYTES).split(b"\n")
        except OSError as error:
            raise self._unusable(error.strerror or "unreadable") from None
        for number, line in enumerate(lines, start=1):
            try:
                facts = json.loads(line) if line.strip() else {"ledger": ""}
                if facts["ledger"] == identity:
                    yield Head(COUNT.read(facts["count"], path="count"), str(facts["mac"]))
            except (ValueError, KeyError, TypeError, RecursionError, PlanError):
                raise self._unusable(f"line {number} is damaged") from None

    @property
    def _is_repository(self) -> bool:
        return self.place.is_dir()

    @property
    def _file(self) -> Path:
        return self.place / "heads.jsonl" if self._is_repository else self.place

    def _git(self, *words: str) -> None:
        command = ["git", *words]
        subprocess.run(command, cwd=self.place, check=True, capture_output=True, timeout=60)  # noqa: S603

    def _unusable(self, problem: str) -> BudgetError:
        return BudgetError(
            f"the witness {self.place} cannot be used: {problem}",
            hint="What was written to the ledger is spent. Name a file that can be written, or a git repository's "
            "folder: `export AFFIDAVIT_WITNESS=heads.jsonl`",
        )
