"""Where SGA's centres come from: a permit's noise in a run, or whatever a caller puts in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from affidavit.mechanisms import dpm

if TYPE_CHECKING:
    from affidavit.accountant.validate import Relation
    from affidavit.generation.recorder import Recorder
    from affidavit.mechanisms.base import Noise
    from affidavit.mechanisms.dpm import Clustering, Clusters, Floats

__all__ = ["Released", "Source"]


class Source(Protocol):
    """What the answers are drawn from."""

    @property
    def relation(self) -> Relation: ...

    @property
    def secret(self) -> Noise:
        """For choices that are no release: samples, keys, the texts of new public records."""
        ...

    def sampled(self, path: str, members: Sequence[str]) -> None:
        """A fresh sample for the node at ``path``; ``members`` are keyed digests."""
        ...

    def clusters(self, path: str, points: Floats, settings: Clustering, *, public: Floats | None = None) -> Clusters:
        """The clusters of private ``points`` beside public ones; ``path`` leads to their node of the plan."""
        ...


@dataclass(frozen=True, slots=True)
class Released:
    """Centres with the permit's noise, at its cost, with a line of the trace for every draw."""

    recorder: Recorder

    @property
    def relation(self) -> Relation:
        return self.recorder.relation

    @property
    def secret(self) -> Noise:
        return self.recorder.secret

    def sampled(self, path: str, members: Sequence[str]) -> None:
        self.recorder.sampled(path, members)

    def clusters(self, path: str, points: Floats, settings: Clustering, *, public: Floats | None = None) -> Clusters:
        return dpm.release(self.recorder, path, points, settings, public=public, note=self.recorder.note)
