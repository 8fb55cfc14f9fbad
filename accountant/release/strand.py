"""The lines of a journal that belong together: of one part of a run, or of all that is in no part."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from affidavit.accountant.errors import PermitViolation

if TYPE_CHECKING:
    from affidavit.accountant.release.journal import Journal

__all__ = ["DrawLost", "Event", "Strand", "close_command"]

Event: TypeAlias = Mapping[str, Any]


class DrawLost(Exception):
    """This use was drawn, and what came out is lost: whatever it was for ends here. Not an error."""


class Strand:
    """The lines of one ``part`` of the plan, or of what is in none, among all the others of a journal.

    Lines of before are gone through once, in order, whatever was written between them; then lines are added. Texts that
    are drawn side by side have a strand each, so that who resumes them need not come to their draws in the order in
    which they were made.
    """

    def __init__(self, journal: Journal, old: Iterable[Event], *, part: str = "") -> None:
        self._journal = journal
        self._old = tuple(old)
        self._next = 0
        self._where = {"part": part} if part else {}

    def write(self, event: str, *, durable: bool = False, **facts: Any) -> None:
        """Add a line; ``durable``: it is on the disk, with all before it, when this returns."""
        self._journal.write(event, durable=durable, **self._where, **facts)

    def intend(self, path: str) -> None:
        """A draw at ``path`` is about to be made: that is on the disk when this returns."""
        self.write("intent", durable=True, path=path)
        self._journal.intended()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Noise may be asked for."""
        self._journal.drawing = True
        try:
            yield
        finally:
            self._journal.drawing = False

    @property
    def replaying(self) -> bool:
        """Whether there is something of before that was not gone through yet."""
        return self._next < len(self._old)

    def recall(self, event: str, **facts: Any) -> Event | None:
        """The next old line, if there is one; it has to be this ``event`` with these ``facts``.

        Raises ``PermitViolation`` where the program goes another way than it did.
        """
        if not self.replaying:
            return None
        found = self._old[self._next]
        if found["event"] != event or any(found.get(name) != value for name, value in facts.items()):
            end = close_command(self._journal.path.parent)
            raise PermitViolation(
                f"step {self._next} of the run was {found['event']} at {found.get('path', 'no path')}; what resumes it "
                f"does {event} at {facts.get('path', 'no path')}",
                hint=f"Resume with the version that began it, or end the run: {end}",
            )
        self._next += 1
        return found

    def note(self, event: str, **facts: Any) -> Event | None:
        """``recall``; where there is nothing to recall, write the line."""
        found = self.recall(event, **facts)
        if found is None:
            self.write(event, **facts)
        return found

    def finished_text(self) -> tuple[Event, ...] | None:
        """A text begins: if it was finished before, all its lines, the last one the ``text``; else None."""
        if self.note("begin") is None:
            return None
        rest = self._old[self._next :]
        length = next((place for place, event in enumerate(rest) if event["event"] in {"text", "begin"}), None)
        if length is None or rest[length]["event"] == "begin":
            return None
        self._next += length + 1
        return rest[: length + 1]

    def drawn_before(self, path: str) -> Event | None:
        """The ``value`` of a draw at ``path`` that was made before; None where it is still to be made.

        Raises ``DrawLost`` where it was made and its value is not there.
        """
        if self.recall("intent", path=path) is None:
            return None
        if not self.replaying:
            self.write("lost", durable=True, path=path)
            self._journal.lost += 1
            raise DrawLost(path)
        found = self._old[self._next]
        self._next += 1
        if found["event"] == "lost":
            raise DrawLost(path)
        return found


def close_command(folder: Path) -> str:
    """How an unfinished run in ``folder`` is ended."""
    return f"`affidavit close {shlex.quote(str(folder))}`"
