"""Unprotected baselines: what the certificate protects against, and what it costs.

- ``public_only``: texts from the public prompt alone (ε = 0). Touches no private record.
- ``real_records``: private records as they are (ε = ∞): what real demonstrations would do.
- ``noise_off``: PRISM's batches and blend, unclipped, always the best token: aggregation without privacy.
- ``answers_noise_off``: SGA's samples, ensembles and clusters, with exact separators, counts and centres.
- ``single_record``: one real record in the prompt, greedy: what plain prompting does.
- ``unprotected``: any other generator's own run, made with next to no noise and without a certificate.

Zero-shot use of a model needs no text and is a matter of ``generation.icl``. None of them takes a permit
from a ledger, and their receipts say ``protected: false``. An audit that cannot break a run without noise, or
``single_record`` has no power.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from affidavit.accountant.errors import DataError
from affidavit.generation.batches import Batch, PrivateRows, assign
from affidavit.generation.outputs import Generated, Sample
from affidavit.generation.prism import PrismConfig, bucket_count, text_sample
from affidavit.generation.prompts import prompt_rows
from affidavit.generation.sampling import sample_event

if TYPE_CHECKING:
    from affidavit.accountant.validate import Relation
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import Decoding, LanguageModel
    from affidavit.generation.prompts import PromptRows, PromptTemplate
    from affidavit.generation.sga.settings import SgaConfig
    from affidavit.mechanisms.base import Noise
    from affidavit.mechanisms.dpm import Clustering, Clusters, Floats

__all__ = [
    "PUBLIC_TEMPERATURE",
    "TextSettings",
    "answers_noise_off",
    "noise_off",
    "public_only",
    "real_records",
    "single_record",
    "unprotected",
]

PUBLIC_TEMPERATURE = 0.7
_PUBLIC_CLIP = 20.0
"""Half the spread of logits that are told apart: tokens e^40 times less likely than the best are equal."""


class TextSettings(Protocol):
    """The part of a generator's configuration that says which texts to write, whatever the generator."""

    @property
    def labels(self) -> tuple[str, ...]: ...

    @property
    def samples_per_label(self) -> int: ...

    @property
    def max_tokens(self) -> int: ...

    @property
    def max_record_tokens(self) -> int: ...

    @property
    def template(self) -> PromptTemplate: ...


_Pick = Callable[[], int]
_Advance = Callable[[int], None]


def public_only(
    config: TextSettings, model: LanguageModel, *, noise: Noise, temperature: float = PUBLIC_TEMPERATURE
) -> Generated:
    """Texts from the public prompt alone, each token sampled from the model at ``temperature``."""
    from affidavit.generation.aggregate import GRID, clip_to_grid
    from affidavit.mechanisms.exponential import sample

    def start(batch: Batch, rows: PromptRows) -> tuple[_Pick, _Advance]:  # noqa: ARG001
        public = model.start([rows.public], width=len(rows.public))

        def pick() -> int:
            scores = clip_to_grid(public.logits, clip=_PUBLIC_CLIP)[0][0].astype(np.int64)
            return sample(scores, temperature=temperature * GRID, noise=noise)

        return pick, lambda token: public.append([token])

    empty = assign(
        (), labels=config.labels, samples_per_label=config.samples_per_label, buckets=config.samples_per_label, key=b""
    )
    return _generate("public-only", config, model, empty, start)


def real_records(records: Sequence[Record], *, labels: Sequence[str], per_label: int, noise: Noise) -> Generated:
    """``per_label`` private records of each label, as they are. Raises ``DataError`` where there are fewer."""
    by_label: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        by_label[record.label].append(record)
    samples: list[Sample] = []
    for label in labels:
        if len(by_label[label]) < per_label:
            raise DataError("a label has too few records", hint="Ask for fewer demonstrations, or fewer labels.")
        order = np.argsort(noise.integers(0, 1 << 62, size=len(by_label[label])), kind="stable")
        for number, place in enumerate(order[:per_label]):
            samples.append(Sample(label, number, by_label[label][int(place)].text, (), stopped=True))
    return Generated(
        generator="real-records", samples=tuple(samples), trace=(), draws_per_node={}, protected=False, versions={}
    )


def unprotected(generated: Generated) -> Generated:
    """A run that was made without a certificate, marked as what it is."""
    return replace(generated, generator=f"{generated.generator}-noise-off", protected=False)


def noise_off(
    config: PrismConfig, records: Sequence[Record], model: LanguageModel, *, size: int, key: bytes | None = None
) -> Generated:
    """PRISM without protection: the mean of unclipped logits, blended with the public ones, best token."""

    def start(batch: Batch, rows: PromptRows) -> tuple[_Pick, _Advance]:
        texts = [config.template.written(member.record) for member in batch.members]
        private = PrivateRows(model, rows, texts, minibatch_rows=config.minibatch_rows, max_tokens=config.max_tokens)
        public = model.start([rows.public], width=len(rows.public))

        def pick() -> int:
            blended = public.logits[0].astype(np.float64)
            if texts:
                blended += sum(part.sum(axis=0, dtype=np.float64) for part in private.logits()) / len(texts)
            return int(blended.argmax())

        def advance(token: int) -> None:
            private.append(token)
            public.append([token])

        return pick, advance

    return _generate("prism-noise-off", config, model, _batches(config, records, size, key), start)


def answers_noise_off(
    config: SgaConfig,
    records: Sequence[Record],
    model: LanguageModel,
    *,
    size: int,
    public: Sequence[Record],
    noise: Noise,
) -> Generated:
    """SGA without protection: which records are sampled is random, and nothing after that.

    ``noise`` draws the samples, and the texts of augmented public data. Raises as ``sga.run``.
    """
    from affidavit.generation.sga import generator as sga
    from affidavit.generation.sga.answers import write_answers

    sga.check_records(records, size=size)
    sga.check(config, model, public=public)
    source = _ExactSource(noise)
    samples, versions = write_answers(source, config, records, public, model, size=size)
    return Generated(
        generator="sga-noise-off",
        samples=samples,
        trace=tuple(source.trace),
        draws_per_node={},
        protected=False,
        versions=versions,
    )


@dataclass(frozen=True, slots=True)
class _ExactSource:
    """SGA's samples from ``noise``, and clusters without any."""

    noise: Noise
    trace: list[dict[str, Any]] = field(default_factory=list)
    relation: Relation = "zero-out"  # exact clusters are the same under every relation

    def choice(self) -> Noise:
        return self.noise

    def text(self, write: Callable[[], Sample]) -> Sample:
        return write()

    def sampled(self, path: str, members: Sequence[str]) -> None:
        use = sum(line["path"] == path for line in self.trace)
        self.trace.append(sample_event(path, use=use, members=members))

    def clusters(
        self,
        path: str,  # noqa: ARG002
        points: Floats,
        settings: Clustering,
        *,
        public: Floats | None = None,
    ) -> Clusters:
        from affidavit.mechanisms.dpm import Exact, cluster

        return cluster(points, settings, Exact(), public=public)


def single_record(
    config: PrismConfig, records: Sequence[Record], model: LanguageModel, *, size: int, key: bytes | None = None
) -> Generated:
    """Greedy text after a prompt with one real record: the first of each batch."""

    def start(batch: Batch, rows: PromptRows) -> tuple[_Pick, _Advance]:
        shown = [model.encode(config.template.written(member.record)) for member in batch.members[:1]]
        prompt = rows.row(shown[0]) if shown else rows.public
        decoding: Decoding = model.start([prompt], width=len(prompt))
        return lambda: int(decoding.logits[0].argmax()), lambda token: decoding.append([token])

    return _generate("single-record", config, model, _batches(config, records, size, key), start)


def _batches(config: PrismConfig, records: Sequence[Record], size: int, key: bytes | None) -> tuple[Batch, ...]:
    return assign(
        records,
        labels=config.labels,
        samples_per_label=config.samples_per_label,
        buckets=bucket_count(config, size=size),
        key=secrets.token_bytes(32) if key is None else key,
        across_labels=config.across_labels,
    )


def _generate(
    name: str,
    config: TextSettings,
    model: LanguageModel,
    batches: Sequence[Batch],
    start: Callable[[Batch, PromptRows], tuple[_Pick, _Advance]],
) -> Generated:
    rows = {
        label: prompt_rows(model, config.template, label=label, max_record_tokens=config.max_record_tokens)
        for label in config.labels
    }
    samples: list[Sample] = []
    trace: list[dict[str, Any]] = []
    for batch in batches:
        pick, advance = start(batch, rows[batch.label])
        tokens: list[int] = []
        stopped = False
        while len(tokens) < config.max_tokens:
            if tokens:
                advance(tokens[-1])
            token = pick()
            if token in model.stop_tokens:
                stopped = True
                break
            tokens.append(token)
            if stopped := config.template.ended(rows[batch.label].opening + model.decode(tokens)):
                break
        samples.append(text_sample(model, batch, rows[batch.label], config.template, tokens, stopped=stopped))
        trace.append(
            {
                "event": "batch",
                "label": batch.label,
                "sample": batch.sample,
                "members": [member.digest for member in batch.members],
            }
        )
    return Generated(
        generator=name,
        samples=tuple(samples),
        trace=tuple(trace),
        draws_per_node={},
        protected=False,
        versions=dict(model.versions),
    )
