"""Where SGA's centres come from: a permit's noise in a run, or whatever a caller puts in its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from affidavit.accountant.release.journal import DrawLost
from affidavit.mechanisms import dpm

if TYPE_CHECKING:
    from affidavit.accountant.validate import Relation
    from affidavit.generation.outputs import Sample
    from affidavit.generation.recorder import Recorder
    from affidavit.mechanisms.base import Noise
    from affidavit.mechanisms.dpm import Clustering, Clusters, Floats

__all__ = ["Released", "Source"]


class Source(Protocol):
    """What the answers are drawn from."""

    @property
    def relation(self) -> Relation: ...

    def choice(self) -> Noise:
        """For one choice that is no release: a sample, a key, the texts of new public records."""
        ...

    def text(self, write: Callable[[], Sample]) -> Sample:
        """``write()``, or what it gave before."""
        ...

    def sampled(self, path: str, members: Sequence[str]) -> None:
        """A fresh sample for the node at ``path``; ``members`` are keyed digests."""
        ...

    def clusters(self, path: str, points: Floats, settings: Clustering, *, public: Floats | None = None) -> Clusters:
        """The clusters of private ``points`` beside public ones; ``path`` leads to their node of the plan.

        Raises ``DrawLost``; the node is left then.
        """
        ...


@dataclass(frozen=True, slots=True)
class Released:
    """Centres with the permit's noise, at its cost, with a line of the trace for every draw."""

    recorder: Recorder

    @property
    def relation(self) -> Relation:
        return self.recorder.relation

    def choice(self) -> Noise:
        return self.recorder.choice()

    def text(self, write: Callable[[], Sample]) -> Sample:
        return self.recorder.text(write)

    def sampled(self, path: str, members: Sequence[str]) -> None:
        self.recorder.sampled(path, members)

    def clusters(self, path: str, points: Floats, settings: Clustering, *, public: Floats | None = None) -> Clusters:
        try:
            return dpm.release(self.recorder, path, points, settings, public=public)
        except DrawLost:
            self.recorder.finish(path)
            raise
