"""The answers of SGA, one query after another: sample, ask the ensemble, cluster, choose among public answers.

Where centres come from is the caller's (``Source``): a permit's noise in a run (``Released``), or the exact
clusters in the baseline without noise. Nothing else here differs between the two.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from affidavit.accountant.release.journal import DrawLost
from affidavit.generation.batched import Progress
from affidavit.generation.ensemble import answers
from affidavit.generation.models.embedding import load_embedding
from affidavit.generation.outputs import Sample
from affidavit.generation.questions import Asking
from affidavit.generation.sampling import without_replacement
from affidavit.generation.sga.augment import augmented
from affidavit.generation.sga.candidates import Projection, candidates, choose
from affidavit.generation.sga.costs import clustering

if TYPE_CHECKING:
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.models.embedding import EmbeddingModel
    from affidavit.generation.sga.settings import SgaConfig
    from affidavit.generation.sga.source import Source

__all__ = ["asking", "write_answers"]


def asking(config: SgaConfig, model: LanguageModel) -> Asking:
    """How the ensemble is asked."""
    return Asking(model, config.template, config.shots, config.max_record_tokens, config.max_tokens)


def write_answers(
    source: Source,
    config: SgaConfig,
    records: Sequence[Record],
    public: Sequence[Record],
    model: LanguageModel,
    *,
    size: int,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[tuple[Sample, ...], dict[str, str]]:
    """An answer to each query, and the versions of the models that had a part in it.

    ``size``: the declared one; a place without a record shows nothing. The plan's first part is the clustering of
    the records, where public data are augmented.
    """
    embedding = load_embedding(config.embedding)
    path = "plan"
    if config.augment is not None:
        public = augmented(config, records, public, model, embedding, source, size=size, path="plan.parts[0]")
        path = "plan.parts[1]"
    answering = _Answering(config, records, public, model, embedding, source, size=size, path=f"{path}.of")
    samples: list[Sample] = []
    for number, query in enumerate(config.queries):
        samples.append(source.text(partial(_written, answering, model, config, query, number=number)))
        answer = samples[-1].text
        if progress is not None:
            progress(
                Progress("answer", number, number, len(config.queries), config.max_tokens, config.max_tokens, answer)
            )
    return tuple(samples), {**model.versions, f"embedding {embedding.name}": embedding.digest}


def _written(answering: _Answering, model: LanguageModel, config: SgaConfig, query: str, *, number: int) -> Sample:
    """The answer to a query; an empty one where a draw for it was lost."""
    try:
        answer = answering.answer(query)
    except DrawLost:
        answer = ""
    tokens = tuple(model.encode(answer))
    return Sample("answer", number, answer, tokens, len(tokens) < config.max_tokens, query)


class _Answering:
    """One query after another. ``path`` is the subsample node's."""

    def __init__(
        self,
        config: SgaConfig,
        records: Sequence[Record],
        public: Sequence[Record],
        model: LanguageModel,
        embedding: EmbeddingModel,
        source: Source,
        *,
        size: int,
        path: str,
    ) -> None:
        self._config = config
        self._records = records
        self._public = public
        self._asking = asking(config, model)
        self._embedding = embedding
        self._source = source
        self._size = size
        self._path = path
        self._settings = clustering(config.dpm, embedding=config.embedding, paths=2)
        key = bytes(int(byte) for byte in source.choice().integers(0, 256, size=32))
        self._digests = [hmac.digest(key, record.id.encode("utf-8"), "sha256").hex() for record in records]

    def answer(self, query: str) -> str:
        """One released answer."""
        shown, example = self._public_subsets()
        private = self._answers(query, self._private_subsets(), private=True)
        free = self._answers(query, shown, private=False)
        public_points = self._embedding.embed(free)
        projection = Projection.of(public_points, dimensions=self._settings.dimensions)
        placed = projection(public_points)
        clusters = self._source.clusters(
            f"{self._path}.of", projection(self._embedding.embed(private)), self._settings, public=placed
        )
        ranked = candidates(clusters, placed, free, most=self._config.candidates)
        return choose(self._config.selection, ranked, self._asking, example=example, query=query)

    def _answers(self, query: str, subsets: Sequence[Sequence[Record]], *, private: bool) -> list[str]:
        return answers(self._asking, query, subsets, minibatch_rows=self._config.minibatch_rows, private=private)

    def _private_subsets(self) -> list[list[Record]]:
        """A fresh sample, cut into N subsets. A place beyond the records shows nothing."""
        sample = self._config.ensemble * self._config.shots
        places = without_replacement(self._size, sample=sample, noise=self._source.choice())
        self._source.sampled(self._path, [self._digests[place] for place in places if place < len(self._digests)])
        return [
            [self._records[place] for place in chosen if place < len(self._records)]
            for chosen in _cut(places, self._config.shots)
        ]

    def _public_subsets(self) -> tuple[list[list[Record]], Record]:
        """N public subsets, and an example for the last step. Not private, but drawn afresh as well."""
        sample = self._config.public_needed
        places = without_replacement(len(self._public), sample=sample, noise=self._source.choice())
        chosen = [self._public[place] for place in places]
        return _cut(chosen[:-1], self._config.shots), chosen[-1]


def _cut(items: Sequence[Any], each: int) -> list[list[Any]]:
    return [list(items[first : first + each]) for first in range(0, len(items), each)]
