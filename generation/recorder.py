"""A permit that writes the private trace: one ``draw`` line a use, one ``sample`` line a fresh sample.

Mechanisms draw through it as through the permit itself. The digest of a draw covers every number that came from the
noise source between that use and the next; samples are drawn from the permit and are no part of it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.plan import Leaf
from affidavit.accountant.validate import Relation
from affidavit.generation.sampling import sample_event

if TYPE_CHECKING:
    from affidavit.generation.outputs import GeneratorPermit
    from affidavit.mechanisms.base import Noise, Watch

__all__ = ["Recorder"]


class Recorder:
    """``trace``, ``draws`` (uses by leaf path) and ``samples`` (by subsample path) grow as the permit is used."""

    def __init__(self, permit: GeneratorPermit) -> None:
        self._permit = permit
        self.trace: list[dict[str, Any]] = []
        self.draws: Counter[str] = Counter()
        self.samples: Counter[str] = Counter()
        self._noise = _Digested(permit.noise)
        self._in_force: dict[str, Any] = {}

    @property
    def relation(self) -> Relation:
        return self._permit.relation

    @property
    def noise(self) -> Noise:
        """The permit's noise, with what is drawn from it in the current draw's digest."""
        return self._noise

    @property
    def secret(self) -> Noise:
        """The permit's noise for choices that are no release: samples, groups, keys."""
        return self._permit.noise

    @property
    def watch(self) -> Watch | None:
        """The permit's, if it is a rehearsal's; what it sees is no part of the trace."""
        return getattr(self._permit, "watch", None)

    def use(self, path: str) -> Leaf:
        """As the permit's; begins a ``draw`` line."""
        leaf = self._permit.use(path)
        line = {"event": "draw", "path": path, "use": self.draws[path], **self._in_force}
        self.draws[path] += 1
        self.trace.append(line)
        self._noise.begin(line)
        return leaf

    def finish(self, path: str) -> None:
        self._permit.finish(path)

    def drawing(self, leaf: Leaf) -> None:
        """What the mechanism about to draw really is: the parameters go into the lines of the next draws."""
        self._in_force = {field.name: getattr(leaf, field.name) for field in fields(leaf)}

    def sampled(self, path: str, members: Sequence[str], *, population: int | None = None) -> None:
        """A fresh sample for the subsample node at ``path``; members are keyed digests.

        ``population``: how many there were to sample from, where it is known.
        """
        self.trace.append(sample_event(path, use=self.samples[path], members=members, population=population))
        self.samples[path] += 1

    def note(self, **facts: Any) -> None:
        """More about the latest draw."""
        self.trace[-1].update(facts)


class _Digested:
    """A noise source that keeps the SHA-256 of what it gave in ``line["noise_sha256"]``."""

    def __init__(self, noise: Noise) -> None:
        self._source = noise
        self._line: dict[str, Any] = {}
        self._seen = hashlib.sha256()

    def begin(self, line: dict[str, Any]) -> None:
        self._line = line
        self._seen = hashlib.sha256()

    def integers(self, low: int, high: int, size: int) -> NDArray[np.int64]:
        drawn = self._source.integers(low, high, size)
        self._note(drawn.tobytes())
        return drawn

    def standard_normal(self, size: int) -> NDArray[np.float64]:
        drawn = self._source.standard_normal(size)
        self._note(drawn.tobytes())
        return drawn

    def _note(self, content: bytes) -> None:
        self._seen.update(content)
        self._line["noise_sha256"] = self._seen.hexdigest()
