r"""What a run has drawn, kept as it is drawn: so that a run that was stopped can go on, and draws no step twice.

A private file of JSON lines, ``unfinished.jsonl``, beside where the texts will stand, until the run is committed:

    run      which certificate, ledger entry, generator and versions: written before anything is reserved
    choice   a key of 256 random bits, from which one secret choice (a sample, groups) is derived
    use, finish   how the plan was walked
    intent   a draw is about to be made                     on the disk before the noise is drawn
    value    what came out                                  on the disk before anybody is given it
    lost     an intent of which no value was found
    begin, text   a text begins; a text is finished, with the lines of the trace that belong to it
    resumed  somebody went on from here

Lines of texts that may be drawn side by side name their ``part`` of the plan: a strand of their own (``strand``).

*Why going on costs nothing.* Whoever resumes runs the program again, from the beginning. Every use, choice and draw
that stands here is answered from here; the permit's noise is not asked. So the joint output of the run and of all
that went on from it is the output of one run of the plan, in which each use is drawn once: the composition theorems
apply to it as they stand (SEMANTICS: one use of a leaf is one output of its mechanism).

*A draw that was lost.* Let the process die between intent and value. Then a value y may have been drawn by the
certified mechanism, and nobody can show that y had no part in how the process died (a token that meets a fault in the
code, a draw that takes longer than another). A fresh draw y′ would then be a second output of one use: (death, y′),
where the death is a function of y, costs what (y, y′) costs. So nothing is drawn again. What is released of this use
is y or the word "lost"; which of the two depends on y and on chance outside, and so is a randomised function of y:
post-processing (Dwork and Roth 2014, proposition 2.1), whatever that function is. What follows a lost draw is fixed
beforehand: the text ends there (``DrawLost``), and the rest of its part of the plan is left unused, which is among
the adaptive choices over which the bound of the plan is taken, and is not refunded.

*What is assumed.* That the process died at this step and no other is seen by whoever learns that the run was resumed.
As of any run that ends with no output, it is taken that this tells of the records at most what the released values
do: docs/threat-model.md.

*Copies.* A copy of the file from before would draw again what was drawn since. So the number of intents stands in
``AFFIDAVIT_HOME/runs`` as well, in a file that is locked while the run is: a journal that has fewer is refused, as is
one of another machine. A line that is not whole was not written: what it says happened to nobody.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from affidavit.accountant import files
from affidavit.accountant.errors import UsageError
from affidavit.accountant.release.strand import DrawLost, Event, Strand, close_command
from affidavit.accountant.remedies import setting, unused

__all__ = ["NAME", "SCHEMA", "DrawLost", "Journal", "Past", "locked", "remove", "unfinished"]

NAME = "unfinished.jsonl"
SCHEMA = "affidavit/journal/v2"


@dataclass(frozen=True, slots=True)
class Past:
    """What a journal says: the ``run`` line, the lines after it, and the bytes of all whole lines."""

    path: Path
    header: Event
    events: tuple[Event, ...]
    length: int

    @classmethod
    def read(cls, path: Path) -> Past:
        """Raises ``UsageError`` for a file that is not there, or damaged."""
        try:
            content = files.read_bytes(path, most=files.DATA_BYTES)
        except OSError:
            raise UsageError(
                f"there is no unfinished run in {path.parent}",
                hint="Nothing is left to close; to begin anew, remove any `--resume`. "
                "Not committed: `affidavit ledger show`",
            ) from None
        length = content.rfind(b"\n") + 1
        lines = _parsed(content[:length])
        if not lines or (lines[0].get("event"), lines[0].get("schema")) != ("run", SCHEMA):
            raise UsageError(
                f"{path} is not what a run left behind, or is damaged",
                hint="Its budget stays reserved. Choose another folder for a new run: "
                f"{setting('-o', unused(path.parent))}.",
            )
        return cls(path, lines[0], tuple(lines[1:]), length)

    def count(self, event: str) -> int:
        """How many lines of a kind there are."""
        return sum(one["event"] == event for one in self.events)

    @property
    def texts(self) -> tuple[Event, ...]:
        """The finished texts."""
        return tuple(one for one in self.events if one["event"] == "text")

    @property
    def uses(self) -> dict[str, int]:
        """How often each leaf was used, by path."""
        return dict(Counter(str(one["path"]) for one in self.events if one["event"] == "use"))

    @property
    def lost(self) -> int:
        """Draws whose value is not there."""
        return self.count("intent") - self.count("value")

    def anchor(self, home: Path) -> Path:
        """Where the number of intents stands as well."""
        return _anchor(home, self.header)


class Journal:
    """One run's file, open for writing. ``whole``: the strand of what is in no part of its plan.

    Made by ``begin`` or ``reopen``. One thread draws at a time, as a permit's holder does; several may write.
    """

    def __init__(self, past: Past, anchor: Path, *, descriptors: tuple[int, int]) -> None:
        held = (one for one in past.events if one["event"] != "resumed" and "part" not in one)
        self.whole = Strand(self, held)
        self._past = past
        self.path = past.path
        self.header = past.header
        self._anchor = anchor
        self._file, self._count_file = descriptors
        self._intents = past.count("intent")
        self.resumed = past.count("resumed")
        self.lost = past.count("lost")
        self.drawing = False
        self._writing = threading.Lock()

    @classmethod
    def begin(cls, path: Path, *, home: Path, header: Event) -> Journal:
        """A new file with ``header`` (which names the ``ledger_entry``). Raises ``UsageError`` where there is one."""
        if path.exists():
            raise unfinished(path.parent)
        anchor = _anchor(home, header)
        anchor.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_name(f".{path.name}")  # a file of this name has a whole first line, or is not there
        draft.unlink(missing_ok=True)  # also a link, through which private draws would be kept elsewhere
        file = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o600)
        journal = cls(Past(path, header, (), 0), anchor, descriptors=(file, _locked(anchor, path, create=True)))
        journal.write("run", durable=True, schema=SCHEMA, **header)
        draft.rename(path)
        for folder in (path.parent, anchor.parent):
            _sync_folder(folder)
        return journal

    @classmethod
    def reopen(cls, path: Path, *, home: Path, at: str) -> Journal:
        """Go on with an unfinished run; ``at``: the time, for the file.

        Raises ``UsageError`` for one that is not there, is a copy, or is open elsewhere.
        """
        past = Past.read(path)
        anchor = past.anchor(home)
        if not anchor.exists():
            raise UsageError(
                f"{path} was not begun with this AFFIDAVIT_HOME, or was ended: what was drawn since is not known",
                hint=f"Resume it where it ran, or end it here: {close_command(path.parent)}",
            )
        count_file = _locked(anchor, path, create=False)
        journal = cls(past, anchor, descriptors=(os.open(path, os.O_RDWR | os.O_APPEND), count_file))
        made, held = journal._counted(), journal._intents
        if held < made:
            journal.close()
            raise UsageError(
                f"{path} is a copy from before: {made} draws were made, it has {held}",
                hint=f"Put the newest one back, or end the run: {close_command(path.parent)}",
            )
        os.ftruncate(journal._file, past.length)
        journal.write("resumed", durable=True, at=at)  # and what is answered from the lines before it has to stay
        journal._count()
        journal.resumed += 1
        return journal

    def part(self, path: str) -> Strand:
        """What was done, and is to be done, for the part of the plan at ``path``."""
        return Strand(self, (one for one in self._past.events if one.get("part") == path), part=path)

    @property
    def entry(self) -> str:
        """The ledger entry that pays."""
        return str(self.header["ledger_entry"])

    @property
    def words(self) -> int:
        """How many 64-bit words of noise the old part had used: a seeded source goes on there."""
        return max((int(event["words"]) for event in self._past.events if "words" in event), default=0)

    def intended(self) -> None:
        """One draw more is about to be made: counted outside the file as well."""
        with self._writing:
            self._intents += 1
            self._count()

    def write(self, event: str, *, durable: bool = False, **facts: Any) -> None:
        line = json.dumps({"event": event, **facts}, ensure_ascii=False, separators=(",", ":")) + "\n"
        try:
            with self._writing:
                content = line.encode()
                while content:
                    content = content[os.write(self._file, content) :]
            if durable:  # several threads may wait together; the file's times are left out where they can be
                getattr(os, "fdatasync", os.fsync)(self._file)
        except OSError as error:
            self.close()  # half a line may stand there: nothing may follow it
            raise UsageError(
                f"what is drawn cannot be kept in {self.path}: {error.strerror}",
                hint=f"Make room, then go on: `affidavit generate RUN.toml --certificate CERT.json "
                f"{_out(self.path.parent)} --resume`",
            ) from None

    def close(self) -> None:
        """No more is written here; the file stays, to be gone on with."""
        if self._file >= 0:
            os.close(self._file)
            os.close(self._count_file)
            self._file = self._count_file = -1

    def remove(self) -> None:
        """The run was committed: nothing of it is left to be gone on with."""
        self.close()
        remove(self.path, self._anchor)

    def _count(self) -> None:
        os.pwrite(self._count_file, f"{self._intents:<20}\n".encode("ascii"), 0)

    def _counted(self) -> int:
        return int(os.pread(self._count_file, 64, 0) or b"0")


@contextmanager
def locked(past: Past, *, home: Path) -> Iterator[None]:
    """Nobody goes on with the run meanwhile. Raises ``UsageError`` where somebody does."""
    anchor = past.anchor(home)
    descriptor = _locked(anchor, past.path, create=False) if anchor.exists() else -1
    try:
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def remove(path: Path, anchor: Path) -> None:
    """The file first: an anchor without one says that the run has ended."""
    path.unlink(missing_ok=True)
    anchor.unlink(missing_ok=True)


def _parsed(content: bytes) -> list[Event]:
    """The lines; none where one is no event."""
    try:
        lines = [json.loads(line) for line in content.splitlines()]
    except (ValueError, RecursionError):
        return []
    return lines if all(isinstance(line, dict) and "event" in line for line in lines) else []


def _anchor(home: Path, header: Event) -> Path:
    entry = str(header["ledger_entry"])
    return home / "runs" / (entry if entry.isalnum() else "damaged")


def _locked(anchor: Path, path: Path, *, create: bool) -> int:
    """The file with the count, held for this process alone."""
    descriptor = os.open(anchor, os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0), 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise UsageError(
            f"the run of {path} is still running, or resumed elsewhere", hint="Wait for it, or end that process."
        ) from None
    return descriptor


def unfinished(folder: Path) -> UsageError:
    """The refusal to write into a folder that holds an unfinished run."""
    return UsageError(
        f"{folder} holds a run that is not finished",
        hint=f"Go on: `affidavit generate RUN.toml --certificate CERT.json {_out(folder)} --resume`; or end it: "
        f"{close_command(folder)}",
    )


def _out(folder: Path) -> str:
    return setting("-o", folder).strip("`")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
