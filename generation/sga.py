r"""SGA: private answers to public questions, by clusters of an ensemble's answers.

Joo, Koh and Jung 2025, "Public data assisted differentially private in-context learning", algorithms 1 and 2. For
each query, with a fresh sample of N·n records without replacement:

    N prompts of n private records each, and N of n public ones    →  2N answers  →  sentence embeddings
    DPM (``mechanisms.dpm``) over private and public points        →  centres and noisy weights
    the public answer nearest to each centre                       →  candidates, the heaviest cluster first
    the first (``top-1``), or one of the first k, chosen with a public example in the prompt

*Sensitivity.* Only the N private points depend on private records, each on the n records of its prompt, and no
record stands in two prompts of a sample. A record that takes another one's place in a sample moves one point, whatever
the relation (a record that is absent shows nothing): so DPM runs with ``paths`` = 2 inside
``subsample {without-replacement}`` (docs/theory/sampling.md), where the number N of points is public. Embeddings are
row by row, the projection and its origin come from public answers, and everything after DPM reads public answers and
what it released.

*Where the paper and this part.* Its accounting leaves out DPM's counts, amplifies by the formula for Poisson samples,
and bounds split scores by Δ_f with a probability that is not charged; here counts and splits are charged and no
bound is probable (``mechanisms.dpm_splits``). Its coreset chooses records by k-means on *private* embeddings: which
records are shown then depends on every record without noise, so it is refused. ``dimensions`` projects the answers
onto the public ones' principal axes first: noise of the same size in fewer coordinates.

*Public data* may be of the same distribution or another: that is utility, not privacy. ``augment`` makes more of them
(section 6.1): DPM over the private *records*, once, charged beside the queries; the public examples near its centres
are shown to the model, which writes new ones (``sga_augment``).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from affidavit.accountant.errors import DataError, RunFileError
from affidavit.accountant.plan import Compose, Plan, Repeat, WithoutReplacement
from affidavit.accountant.validate import Relation
from affidavit.generation.models.embedding import DIMENSIONS, EmbeddingName
from affidavit.generation.sga_settings import PRESETS, AugmentTable, DpmTable, SgaConfig

if TYPE_CHECKING:
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.models.embedding import EmbeddingModel
    from affidavit.generation.outputs import Generated, GeneratorPermit
    from affidavit.generation.prism import Progress
    from affidavit.generation.questions import Asking
    from affidavit.generation.recorder import Recorder
    from affidavit.mechanisms.dpm import Clustering

__all__ = ["ACCESS", "CONFIG", "PRESETS", "augmenting", "check", "clustering", "plan", "public_needed", "run"]

CONFIG = SgaConfig
ACCESS = "text"


def clustering(table: DpmTable, *, embedding: EmbeddingName, paths: Literal[1, 2]) -> Clustering:
    """The mechanism of ``[generator.dpm]``."""
    from affidavit.mechanisms.dpm import Clustering
    from affidavit.mechanisms.dpm_splits import Weights

    return Clustering(
        dimensions=table.dimensions or DIMENSIONS[embedding],
        radius=table.radius,
        interval=table.interval,
        levels=table.levels,
        smallest=table.smallest,
        split_range=table.split_range,
        count_noise_multiplier=table.count_noise_multiplier,
        centre_noise_multiplier=table.centre_noise_multiplier,
        paths=paths,
        weights=Weights(emptiness=table.emptiness, centreness=table.centreness, height=table.height, edge=table.edge),
    )


def plan(config: SgaConfig, *, relation: Relation, size: int) -> Plan:
    """The plan of a run on ``size`` records. Raises ``RunFileError`` where a sample does not fit."""
    sample = config.ensemble * config.shots
    if sample > size:
        raise RunFileError(
            "generator.ensemble",
            f"{config.ensemble} prompts of {config.shots} records need {sample}, more than the declared size of {size}",
            hint=f"With this size, ensemble can be at most {size // config.shots}, or lower shots.",
        )
    _check_cold(config, relation, size=size)
    answering = clustering(config.dpm, embedding=config.embedding, paths=2).plan()
    queries = Repeat(len(config.queries), WithoutReplacement(size, sample, answering))
    if config.augment is None:
        return queries
    return Compose((augmenting(config.augment, config, relation).plan(), queries))


def augmenting(table: AugmentTable, config: SgaConfig, relation: Relation) -> Clustering:
    """DPM over the records themselves: one point each, there or not, or replaced."""
    return clustering(table.dpm, embedding=config.embedding, paths=2 if relation == "substitution" else 1)


def _check_cold(config: SgaConfig, relation: Relation, *, size: int) -> None:
    from affidavit.accountant.errors import UsageError

    cases = [("dpm", clustering(config.dpm, embedding=config.embedding, paths=2), 2 * config.ensemble)]
    if config.augment is not None:
        cases.append(("augment.dpm", augmenting(config.augment, config, relation), size))
    for name, settings, points in cases:
        try:
            settings.check(points=points)
        except UsageError as error:
            raise RunFileError(f"generator.{name}.split_range", error.message, hint=error.hint) from None


def public_needed(config: SgaConfig) -> int:
    """How many public records a query reads: N·n in prompts, and one example for the choice."""
    return config.ensemble * config.shots + 1


def check(config: SgaConfig, model: LanguageModel, *, public: Sequence[Record]) -> None:
    """Raises ``RunFileError``, ``ModelMissing`` where model or public records cannot serve the settings."""
    from affidavit.generation.answers import served
    from affidavit.generation.ensemble import check_lengths
    from affidavit.generation.models.embedding import load_embedding

    needed = public_needed(config)
    if len(public) < needed:
        raise RunFileError(
            "data.public",
            f"{len(public)} public records; {config.ensemble} prompts of {config.shots} and one example need {needed}",
            hint=f"Give {needed} public records, or lower ensemble or shots.",
        )
    if config.selection == "likelihood" and served(model):
        raise RunFileError(
            "generator.selection",
            "likelihood needs the probability of a whole text, which a server does not show",
            hint='Set selection = "generate" or "top-1".',
        )
    load_embedding(config.embedding)
    check_lengths(_asking(config, model), config.queries, candidates=config.candidates)


def _asking(config: SgaConfig, model: LanguageModel) -> Asking:
    from affidavit.generation.questions import Asking

    return Asking(model, config.template, config.shots, config.max_record_tokens, config.max_tokens)


def run(
    permit: GeneratorPermit,
    config: SgaConfig,
    records: Sequence[Record],
    model: LanguageModel,
    *,
    size: int,
    progress: Callable[[Progress], None] | None = None,
    public: Sequence[Record] = (),
) -> Generated:
    """Answer every query through ``permit``. ``size`` is the declared size; a place without a record shows nothing.

    Nothing is written here; an interrupt leaves no output and the reservation spent. Raises as ``check``,
    ``PermitViolation`` where the permit's plan is not this configuration's, ``DataError`` for more records than
    ``size``.
    """
    from affidavit.generation.models.embedding import load_embedding
    from affidavit.generation.outputs import Generated, Sample
    from affidavit.generation.prism import Progress
    from affidavit.generation.recorder import Recorder

    if len(records) > size:
        raise DataError(f"{len(records)} records, declared are {size}", hint="Keep the file to its declared size.")
    check(config, model, public=public)
    recorder = Recorder(permit)
    embedding = load_embedding(config.embedding)
    path = "plan"
    if config.augment is not None:
        from affidavit.generation.sga_augment import augmented

        public = augmented(config, records, public, model, embedding, recorder, path="plan.parts[0]")
        path = "plan.parts[1]"
    engine = _Engine(config, records, public, model, embedding, recorder, size=size, path=f"{path}.of")
    samples: list[Sample] = []
    for number, query in enumerate(config.queries):
        answer = engine.answer(query)
        tokens = tuple(model.encode(answer))
        samples.append(Sample("answer", number, answer, tokens, len(tokens) < config.max_tokens, query))
        if progress is not None:
            progress(
                Progress("answer", number, number, len(config.queries), config.max_tokens, config.max_tokens, answer)
            )
    return Generated(
        generator=config.kind,
        samples=tuple(samples),
        trace=tuple(recorder.trace),
        draws_per_node=dict(recorder.draws),
        protected=True,
        versions={**model.versions, f"embedding {embedding.name}": embedding.digest},
    )


class _Engine:
    """One query after another: sample, answer, cluster, choose. ``path`` is the subsample node's."""

    def __init__(
        self,
        config: SgaConfig,
        records: Sequence[Record],
        public: Sequence[Record],
        model: LanguageModel,
        embedding: EmbeddingModel,
        recorder: Recorder,
        *,
        size: int,
        path: str,
    ) -> None:
        self._config = config
        self._records = records
        self._public = public
        self._asking = _asking(config, model)
        self._embedding = embedding
        self._recorder = recorder
        self._size = size
        self._path = path
        self._settings = clustering(config.dpm, embedding=config.embedding, paths=2)
        key = bytes(int(byte) for byte in recorder.secret.integers(0, 256, size=32))
        self._digests = [hmac.digest(key, record.id.encode("utf-8"), "sha256").hex() for record in records]

    def answer(self, query: str) -> str:
        """One released answer."""
        from affidavit.generation.sga_candidates import Projection, candidates, choose
        from affidavit.mechanisms.dpm import release

        shown, example = self._public_subsets()
        private = self._answers(query, self._private_subsets())
        free = self._answers(query, shown)
        public_points = self._embedding.embed(free)
        projection = Projection.of(public_points, dimensions=self._settings.dimensions)
        clusters = release(
            self._recorder,
            f"{self._path}.of",
            projection(self._embedding.embed(private)),
            self._settings,
            public=projection(public_points),
            note=self._recorder.note,
        )
        ranked = candidates(clusters, projection(public_points), free, most=self._config.candidates)
        return choose(self._config.selection, ranked, self._asking, example=example, query=query)

    def _answers(self, query: str, subsets: Sequence[Sequence[Record]]) -> list[str]:
        from affidavit.generation.ensemble import answers

        return answers(self._asking, query, subsets, minibatch_rows=self._config.minibatch_rows)

    def _private_subsets(self) -> list[list[Record]]:
        """A fresh sample, cut into N subsets. A place beyond the records shows nothing."""
        from affidavit.generation.sampling import without_replacement

        sample = self._config.ensemble * self._config.shots
        places = without_replacement(self._size, sample=sample, noise=self._recorder.secret)
        self._recorder.sampled(self._path, [self._digests[place] for place in places if place < len(self._digests)])
        return [
            [self._records[place] for place in chosen if place < len(self._records)]
            for chosen in _cut(places, self._config.shots)
        ]

    def _public_subsets(self) -> tuple[list[list[Record]], Record]:
        """N public subsets, and an example for the last step. Not private, but drawn afresh as well."""
        from affidavit.generation.sampling import without_replacement

        sample = public_needed(self._config)
        places = without_replacement(len(self._public), sample=sample, noise=self._recorder.secret)
        chosen = [self._public[place] for place in places]
        return _cut(chosen[:-1], self._config.shots), chosen[-1]


def _cut(items: Sequence[Any], each: int) -> list[list[Any]]:
    return [list(items[first : first + each]) for first in range(0, len(items), each)]
