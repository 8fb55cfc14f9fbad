"""From clusters to an answer: public answers near the centres, and a choice among them. All of it reads released and
public values alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from affidavit.generation.ensemble import complete

if TYPE_CHECKING:
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.embedding import Vectors
    from affidavit.generation.questions import Asking
    from affidavit.mechanisms.dpm import Clusters

__all__ = ["Projection", "by_distance", "candidates", "choose", "nearest"]


@dataclass(frozen=True, slots=True)
class Projection:
    """Coordinates along the principal axes of public points, from their mean; a function of each row alone."""

    origin: Vectors
    axes: Vectors

    @staticmethod
    def of(public: Vectors, *, dimensions: int) -> Projection:
        """The first ``dimensions`` axes of the public points; all axes, unturned, where that is all there are."""
        origin = public.mean(axis=0)
        if dimensions >= public.shape[1]:
            return Projection(origin, np.eye(public.shape[1]))
        _, _, axes = np.linalg.svd(public - origin, full_matrices=True)
        return Projection(origin, axes[:dimensions].T)

    def __call__(self, points: Vectors) -> Vectors:
        """Projected points, one row each; rows do not see each other."""
        return np.stack([(point - self.origin) @ self.axes for point in points])


def nearest(centre: Vectors, points: Vectors) -> list[int]:
    """Indices of ``points``, the nearest to ``centre`` first."""
    return [int(index) for index in np.argsort(np.linalg.norm(points - centre, axis=1), kind="stable")]


def by_distance(centres: Vectors, points: Vectors) -> list[int]:
    """Indices of ``points``, by how far the nearest of the ``centres`` is: the nearest first."""
    away = np.min([np.linalg.norm(points - centre, axis=1) for centre in centres], axis=0)
    return [int(index) for index in np.argsort(away, kind="stable")]


def candidates(clusters: Clusters, points: Vectors, public: Sequence[str], *, most: int) -> list[str]:
    """For each cluster, the heaviest first, the public answer nearest to its centre; no text twice."""
    closest = (public[nearest(centre, points)[0]] for centre in clusters.centres)
    return list(dict.fromkeys(closest))[:most]


def choose(
    selection: Literal["top-1", "generate", "likelihood"],
    ranked: Sequence[str],
    asking: Asking,
    *,
    example: Record,
    query: str,
) -> str:
    """The released answer.

    ``top-1``: the heaviest cluster's. ``generate``: what the model answers when it is shown a public example and the
    candidates (the paper's top-k), or the first candidate if it answers nothing. ``likelihood``: the candidate to which
    it gives the largest mean log-probability a token after a public example, for models too small to choose in words.
    """
    spoken = [text for text in ranked if text]
    if selection == "top-1" or len(spoken) < 2:
        return (spoken or list(ranked))[0]
    if selection == "generate":
        return complete(asking, asking.choice(example, query, spoken)) or spoken[0]
    texts = [f" {text}" for text in spoken]
    scores = asking.model.log_likelihoods([asking.plain(example, query)] * len(texts), texts)
    lengths = [max(1, len(asking.model.encode(text))) for text in texts]
    return spoken[int(np.argmax([score / length for score, length in zip(scores, lengths, strict=True)]))]
