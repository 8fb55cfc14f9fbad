"""A permit that writes the private trace: one ``draw`` line a use, one ``sample`` line a fresh sample.

Mechanisms draw through it as through the permit itself. The digest of a draw covers every number that came from the
noise source between that use and the next; samples are drawn from the permit and are no part of it.

Texts that are written side by side have a ``Recorder`` each (``part``) over the one permit, and draw one at a time.
"""

from __future__ import annotations

import copy
import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.plan import Leaf
from affidavit.accountant.release.journal import DrawLost
from affidavit.accountant.release.randomness import KeyedNoise
from affidavit.accountant.validate import Relation
from affidavit.generation.sampling import sample_event
from affidavit.mechanisms.outcomes import decoded, encoded

if TYPE_CHECKING:
    from affidavit.accountant.release.journal import Journal
    from affidavit.accountant.release.strand import Strand
    from affidavit.generation.outputs import GeneratorPermit, Sample
    from affidavit.mechanisms.base import Noise, Spec, Watch

__all__ = ["Recorder", "kept_sample"]

Outcome = TypeVar("Outcome")
Given = TypeVar("Given")

_MOST_TOLD = 32


class Recorder:
    """``trace``, ``draws`` (uses by leaf path) and ``samples`` (by subsample path) grow as the permit is used."""

    def __init__(self, permit: GeneratorPermit) -> None:
        self._permit = permit
        self._whole: Journal | None = getattr(permit, "journal", None)
        self._journal: Strand | None = None if self._whole is None else self._whole.whole
        self.trace: list[dict[str, Any]] = []
        self.draws: Counter[str] = Counter()
        self.samples: Counter[str] = Counter()
        self._noise = _Digested(permit.noise)
        self._in_force: dict[str, Any] = {}
        self._one_at_a_time = threading.RLock()
        self._ended = threading.Event()

    def part(self, path: str) -> Recorder:
        """For the part of the plan at ``path``: a trace of its own, for the caller to put into this one."""
        part = copy.copy(self)
        part._journal = None if self._whole is None else self._whole.part(path)
        part.trace = []
        part._noise = _Digested(self._permit.noise)
        part._in_force = {}
        return part

    def end(self) -> None:
        """Nothing more is drawn (``CancelledError``): a text that was written beside others has failed."""
        self._ended.set()

    @property
    def side_by_side(self) -> bool:
        """Whether parts of the plan may be drawn in the order in which they come (``Permit.side_by_side``)."""
        return bool(getattr(self._permit, "side_by_side", False)) and self.watch is None

    @property
    def relation(self) -> Relation:
        return self._permit.relation

    @property
    def noise(self) -> Noise:
        """The permit's noise, with what is drawn from it in the current draw's digest."""
        return self._noise

    def choice(self) -> Noise:
        """Noise for one choice that is no release: a sample, groups, a key.

        Of a run that is kept: derived from a key that is drawn now and kept, so that who resumes it chooses the same.
        """
        journal = self._journal
        if journal is None:
            return self._permit.noise
        with self._one_at_a_time:
            kept = journal.recall("choice")
            if kept is not None:
                return KeyedNoise(bytes.fromhex(kept["key"]), guarantee=True)
            with journal.open():
                key = self._permit.noise.integers(0, 256, size=32).astype(np.uint8).tobytes()
            journal.write("choice", key=key.hex(), words=self._words)
            return KeyedNoise(key, guarantee=True)

    def key(self) -> bytes:
        """A key for digests of records in the trace, and for who is in which batch."""
        return bytes(int(byte) for byte in self.choice().integers(0, 256, size=32))

    @property
    def watch(self) -> Watch | None:
        """The permit's, if it is a rehearsal's; what it sees is no part of the trace."""
        return getattr(self._permit, "watch", None)

    def use(self, path: str) -> Leaf:
        """As the permit's; begins a ``draw`` line."""
        with self._one_at_a_time:
            leaf = self._permit.use(path)
            if self._journal is not None:
                self._journal.note("use", path=path)
            line = {"event": "draw", "path": path, "use": self.draws[path], **self._in_force}
            self.draws[path] += 1
        self.trace.append(line)
        self._noise.begin(line)
        return leaf

    def finish(self, path: str) -> None:
        with self._one_at_a_time:
            self._permit.finish(path)
            if self._journal is not None:
                self._journal.note("finish", path=path)

    def once(self, path: str, draw: Callable[[], Outcome]) -> Outcome:
        """``draw()``, with its intent and then its value on the disk (``accountant.release.journal``).

        Or the value that is there. Raises ``DrawLost``.
        """
        journal, line = self._journal, self.trace[-1]
        if self._ended.is_set():  # not later: an intent that was written is drawn
            raise CancelledError
        if journal is None:
            with self._one_at_a_time:
                return draw()
        try:
            kept = journal.drawn_before(path)
        except DrawLost:
            line["lost"] = True
            raise
        if kept is not None:
            self._noise.keep(kept["noise_sha256"])
            outcome: Outcome = decoded(kept["value"])
            return outcome
        journal.intend(path)
        with self._one_at_a_time, journal.open():
            drawn = draw()
        digest = line.get("noise_sha256")
        journal.write("value", durable=True, value=encoded(drawn), noise_sha256=digest, words=self._words)
        return drawn

    def text(self, write: Callable[[], Sample]) -> Sample:
        """``write()``, kept; or the text that was finished before, with all that was done for it."""
        journal = self._journal
        if journal is None:
            return write()
        with self._one_at_a_time:
            before = journal.finished_text()
            if before is not None:
                return self._again(before)
        begun = len(self.trace)
        sample = write()
        journal.write("text", durable=True, sample=asdict(sample), trace=self.trace[begun:], words=self._words)
        return sample

    def _again(self, events: Sequence[Mapping[str, Any]]) -> Sample:
        for event in events:
            if event["event"] == "use":
                self._permit.use(event["path"])
                self.draws[event["path"]] += 1
            elif event["event"] == "finish":
                self._permit.finish(event["path"])
        self.trace += events[-1]["trace"]
        self.samples.update(line["path"] for line in events[-1]["trace"] if line["event"] == "sample")
        return kept_sample(events[-1])

    @property
    def _words(self) -> int:
        return getattr(self._permit.noise, "taken", 0)

    def draw(self, path: str, spec: Spec[Given, Outcome], values: Given) -> Outcome:
        """One use of ``spec`` over ``values``, charged to the leaf at ``path``: how every draw is made.

        Its line has the parameters that were in force, those of the leaf that ``spec`` states, and what came out.
        """
        leaf = spec.leaf()
        stated = {field.name: getattr(leaf, field.name) for field in fields(leaf)}
        self._in_force = {name: value for name, value in stated.items() if not isinstance(value, bool)}
        outcome = spec.release(self, path, values)
        if (told := _told(outcome)) is not None:
            self.trace[-1].setdefault("value", told)
        return outcome

    def sampled(self, path: str, members: Sequence[str], *, population: int | None = None) -> None:
        """A fresh sample for the subsample node at ``path``; members are keyed digests.

        ``population``: how many there were to sample from, where it is known.
        """
        self.trace.append(sample_event(path, use=self.samples[path], members=members, population=population))
        self.samples[path] += 1

    def note(self, **facts: Any) -> None:
        """More about the latest draw, such as the token that it means."""
        self.trace[-1].update(facts)


def _told(outcome: object) -> Any:
    """What came out, as the trace has it; nothing of a long vector (the journal has it while the run lasts)."""
    match outcome:
        case bool() | int() | float():
            return outcome
        case tuple():
            return list(outcome)
        case np.ndarray() if outcome.size <= _MOST_TOLD:
            return outcome.ravel().tolist()
    return None


def kept_sample(event: Mapping[str, Any]) -> Sample:
    """The text of a journal's ``text`` line."""
    from affidavit.generation.outputs import Sample

    held = event["sample"]
    return Sample(**{**held, "tokens": tuple(held["tokens"])})


class _Digested:
    """A noise source that keeps a chain of SHA-256 of what it gave in ``line["noise_sha256"]``."""

    def __init__(self, noise: Noise) -> None:
        self._source = noise
        self._line: dict[str, Any] = {}

    def begin(self, line: dict[str, Any]) -> None:
        self._line = line

    def keep(self, digest: str | None) -> None:
        """The digest as it was kept."""
        if digest is not None:
            self._line["noise_sha256"] = digest

    def integers(self, low: int, high: int, size: int) -> NDArray[np.int64]:
        drawn = self._source.integers(low, high, size)
        self._note(drawn.tobytes())
        return drawn

    def standard_normal(self, size: int) -> NDArray[np.float64]:
        drawn = self._source.standard_normal(size)
        self._note(drawn.tobytes())
        return drawn

    def _note(self, content: bytes) -> None:
        before = str(self._line.get("noise_sha256", ""))
        self._line["noise_sha256"] = hashlib.sha256(before.encode("ascii") + content).hexdigest()
