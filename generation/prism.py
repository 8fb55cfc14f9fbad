r"""PRISM: synthetic text by averaging clipped logits over private prompts.

Bhusal, Acharya, Kaur, Samplawski, Roy, Cobb, Chadha and Jha, "Privacy-Aware In-Context Learning for
Large Language Models", algorithm 1, all of it. For each synthetic text, from its own disjoint batch:

    z̄ = (1/s) Σ_{p in batch} clip_c(LLM(p ‖ X))     u = clip_c(LLM(public prompt ‖ X))
    ẑ = (z̄ + u)/2      x ~ softmax(ẑ/τ)      until x is an end token, or T tokens

*Sensitivity, per relation* (X, the tokens so far, is public by composition; so is u). One record owns
one row z of one batch; all other rows, the public row and the denominator s are fixed (``batches``), and
sums are exact (``aggregate``), so nothing else moves by one bit.

- add-remove, zero-out: the row's clip_c(z) in [−c, c]^V is there or is zero. ẑ changes by
  d = ± clip_c(z)/(2s), whose spread max d − min d is at most 2c/(2s) = c/s. Range η = c/(s·τ).
- substitution, within a batch: d = (clip_c(z) − clip_c(z′))/(2s), spread at most 4c/(2s): η = 2c/(s·τ).
- substitution, between batches (another label or id): one batch loses a row, another gains one, each at
  the zero-out cost c/(s·τ): ``moves`` in the plan.

The paper's "Δ = c/(2s), ε′ = 2Δ/τ" is the first line; its ε uses the shortcut of advanced composition
that drops a term and is not a bound. Here the range goes to the exact composition of exponential
mechanisms (THEORY 3). Batches are disjoint, so the plan is ``parallel`` over samples, ``repeat`` T inside.
The denominator is the public s whatever the batch holds; holding the sum to ±s·c (``aggregate``) cannot
widen d, whose coordinates only shrink towards 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from affidavit.accountant.errors import AffidavitError, RunFileError
from affidavit.accountant.plan import Parallel, Plan, Repeat
from affidavit.accountant.validate import Relation
from affidavit.generation.configs import Count, GeneratorConfig, Labels, Positive
from affidavit.generation.prompts import TASKS, PromptTemplate, prompt_rows, task_template

if TYPE_CHECKING:
    from affidavit.generation.aggregate import Totals
    from affidavit.generation.batches import Batch, PrivateRows
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import Decoding, LanguageModel
    from affidavit.generation.outputs import Generated, GeneratorPermit, Sample
    from affidavit.generation.prompts import PromptRows
    from affidavit.mechanisms.exponential import SoftmaxSampling

__all__ = [
    "CONFIG",
    "PRESETS",
    "PrismConfig",
    "Progress",
    "bucket_count",
    "check",
    "label_rows",
    "mechanism",
    "plan",
    "run",
    "text_sample",
    "token_scores",
]

MAX_CLIP = 1000.0

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"batch_size": 255, "clip": 10.0, "temperature": 1.048, "max_tokens": 100, "max_record_tokens": 256},
    "local": {"batch_size": 64, "clip": 10.0, "temperature": 0.7, "max_tokens": 40, "max_record_tokens": 96},
}
"""``paper``: the paper's settings (s = 255, c = 10, τ = 1.048). ``local``: runs on a laptop with SmolLM2."""


class PrismConfig(GeneratorConfig):
    """The run file's ``[generator]`` table for ``kind = "prism"``; all of it is public."""

    kind: Literal["prism"] = "prism"
    labels: Labels
    samples_per_label: Count = 1
    max_tokens: Count = 40
    max_record_tokens: Count = 96
    batch_size: Count = 64
    clip: Annotated[float, Field(gt=0.0, le=MAX_CLIP)] = 10.0
    temperature: Positive = 0.7
    task: str = "generic"
    prompts: PromptTemplate | None = None
    minibatch_rows: Count = 32
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"

    @field_validator("task")
    @classmethod
    def _known(cls, task: str) -> str:
        if task not in TASKS:
            raise ValueError(f"not known; allowed: {' | '.join(TASKS)}")
        return task

    @model_validator(mode="after")
    def _spread(self) -> PrismConfig:
        from affidavit.mechanisms.exponential import MAX_SPREAD

        if 2.0 * self.clip / self.temperature > MAX_SPREAD:
            raise RunFileError(
                "generator.temperature",
                f"clip/temperature is {self.clip / self.temperature:.4g}",
                allowed=f"at most {MAX_SPREAD / 2:g}",
                hint=f"Set temperature to {2.0 * self.clip / MAX_SPREAD:g} or more.",
            )
        return self

    @property
    def template(self) -> PromptTemplate:
        """The run file's own wording, else the task's."""
        return self.prompts or task_template(self.task)


@dataclass(frozen=True, slots=True)
class Progress:
    """After each token: which text, how far. ``text`` is released text, so it may be shown."""

    label: str
    sample: int
    done: int
    samples: int
    tokens: int
    max_tokens: int
    text: str


CONFIG = PrismConfig


def mechanism(config: PrismConfig, *, relation: Relation) -> SoftmaxSampling:
    """The draw of one token, in the integer units of ``aggregate.blend``.

    Scores are 2·s·2^20·ẑ: one row moves them by whole numbers in [−C, C] (C = ⌊c·2^20⌋), so the width
    is 2C, or 4C under substitution, and the temperature 2·s·2^20·τ, exactly.
    """
    from affidavit.generation.aggregate import GRID, grid_bound
    from affidavit.mechanisms.exponential import SoftmaxSampling

    rows = 2 if relation == "substitution" else 1
    width = 2 * rows * grid_bound(config.clip)
    return SoftmaxSampling(width=width, temperature=2 * config.batch_size * GRID * Fraction(config.temperature))


def plan(config: PrismConfig, *, relation: Relation, size: int) -> Plan:
    """The plan of a run on ``size`` records. Raises ``RunFileError`` where the batches do not fit."""
    bucket_count(config, size=size)
    parts = _parts(config, relation)
    if relation != "substitution":
        return Parallel(parts)
    return Parallel(parts, membership="moving", moves=_parts(config, "zero-out"))


def _parts(config: PrismConfig, relation: Relation) -> tuple[Plan, ...]:
    leaf = mechanism(config, relation=relation).leaf()
    return (Repeat(config.max_tokens, leaf),) * (len(config.labels) * config.samples_per_label)


def bucket_count(config: PrismConfig, *, size: int) -> int:
    """K, the buckets of each label: a batch holds about ``batch_size`` records if the labels are even.

    Raises ``RunFileError`` where there are fewer buckets than samples.
    """
    buckets = size // (len(config.labels) * config.batch_size)
    if buckets < config.samples_per_label:
        largest = size // (len(config.labels) * config.samples_per_label)
        needed = len(config.labels) * config.samples_per_label * config.batch_size
        hint = f"With this size, batch_size can be at most {largest}." if largest else "The data set is too small."
        raise RunFileError(
            "generator.batch_size",
            f"{len(config.labels)} labels x {config.samples_per_label} samples x {config.batch_size} records need "
            f"{needed} records, more than the declared size of {size}",
            hint=hint,
        )
    return buckets


def check(config: PrismConfig, model: LanguageModel, *, public: Sequence[Record]) -> None:  # noqa: ARG001
    """Raises ``RunFileError`` where the prompts do not fit the model."""
    label_rows(config, model)


def run(
    permit: GeneratorPermit,
    config: PrismConfig,
    records: Sequence[Record],
    model: LanguageModel,
    *,
    size: int,
    progress: Callable[[Progress], None] | None = None,
    public: Sequence[Record] = (),  # noqa: ARG001
) -> Generated:
    """Generate every sample through ``permit``; one release a token at ``plan.parts[i].of``.

    ``size`` is the declared size; public records are not used. Nothing is written here (``outputs.write``
    does); an interrupt leaves no output and the reservation spent. Raises ``PermitViolation`` where the
    permit's plan is not this configuration's, ``RunFileError`` where prompts do not fit the model.
    """
    from affidavit.generation.batches import assign
    from affidavit.generation.outputs import Generated

    rows = label_rows(config, model)
    key = bytes(int(byte) for byte in permit.noise.integers(0, 256, size=32))
    batches = assign(
        records,
        labels=config.labels,
        samples_per_label=config.samples_per_label,
        buckets=bucket_count(config, size=size),
        key=key,
    )
    samples: list[Sample] = []
    trace: list[dict[str, Any]] = []
    draws: dict[str, int] = {}
    for index, batch in enumerate(batches):
        path = f"plan.parts[{index}].of"
        written = _Writing(permit, config, model, path=path)

        def report(tokens: Sequence[int], batch: Batch = batch, done: int = index) -> None:
            if progress is not None:
                text = model.decode(tokens)
                progress(Progress(batch.label, batch.sample, done, len(batches), len(tokens), config.max_tokens, text))

        samples.append(written.run(batch, rows[batch.label], report))
        trace += written.trace
        draws[path] = written.draws
    return Generated(
        generator=config.kind,
        samples=tuple(samples),
        trace=tuple(trace),
        draws_per_node=draws,
        protected=True,
        versions=dict(model.versions),
    )


def label_rows(config: PrismConfig, model: LanguageModel) -> dict[str, PromptRows]:
    """Every label's prompts. Raises ``RunFileError`` where they do not fit the model's context."""
    rows = {
        label: prompt_rows(model, config.template, label=label, max_record_tokens=config.max_record_tokens)
        for label in config.labels
    }
    longest = max(max(row.width, len(row.public)) for row in rows.values()) + config.max_tokens
    if longest > model.context_length:
        raise RunFileError(
            "generator.max_record_tokens",
            f"prompts and answers need {longest} tokens, {model.name} reads {model.context_length}",
            hint=f"Lower max_record_tokens by {longest - model.context_length}.",
        )
    return rows


class _Writing:
    """One sample: the loop of algorithm 1."""

    def __init__(self, permit: GeneratorPermit, config: PrismConfig, model: LanguageModel, *, path: str) -> None:
        self._permit = permit
        self._config = config
        self._model = model
        self._path = path
        self._spec = mechanism(config, relation=permit.relation)
        self.trace: list[dict[str, Any]] = []
        self.draws = 0

    def run(self, batch: Batch, rows: PromptRows, report: Callable[[Sequence[int]], None]) -> Sample:
        from affidavit.generation.batches import PrivateRows

        config, model = self._config, self._model
        texts = [member.record.text for member in batch.members]
        private = PrivateRows(model, rows, texts, minibatch_rows=config.minibatch_rows)
        public = model.start([rows.public], width=len(rows.public))
        self._note_batch(batch, private)
        tokens: list[int] = []
        while self.draws < config.max_tokens:
            if tokens:
                private.append(tokens[-1])
                public.append(tokens[-1:])
            token = self._draw(private, public)
            if token in model.stop_tokens:
                self._permit.finish(self._path.removesuffix(".of"))
                return text_sample(model, batch, rows, tokens, stopped=True)
            tokens.append(token)
            report(tokens)
        return text_sample(model, batch, rows, tokens, stopped=False)

    def _draw(self, private: PrivateRows, public: Decoding) -> int:
        from affidavit.mechanisms.exponential import draw

        scores = token_scores(self._config, private, public)
        drawn = draw(self._permit, self._path, scores, temperature=self._spec.temperature, width=self._spec.width)
        self.trace.append(
            {
                "event": "draw",
                "path": self._path,
                "use": self.draws,
                "token": drawn.value,
                "noise_sha256": drawn.noise_sha256,
                "range": float(Fraction(self._spec.width) / Fraction(self._spec.temperature)),
                "rows": private.summed,
                "unsound_rows": private.unsound,
            }
        )
        self.draws += 1
        return drawn.value

    def _note_batch(self, batch: Batch, private: PrivateRows) -> None:
        self.trace.append(
            {
                "event": "batch",
                "path": self._path,
                "label": batch.label,
                "sample": batch.sample,
                "members": [member.digest for member in batch.members],
                "truncated": private.truncated,
            }
        )


def text_sample(
    model: LanguageModel, batch: Batch, rows: PromptRows, tokens: Sequence[int], *, stopped: bool
) -> Sample:
    """The synthetic text of a batch: the prompt's public opening, and what was released after it."""
    from affidavit.generation.outputs import Sample

    text = (rows.opening + model.decode(tokens)).strip()
    return Sample(batch.label, batch.sample, text, tuple(tokens), stopped)


def token_scores(config: PrismConfig, private: PrivateRows, public: Decoding) -> Totals:
    """2·s·2^20·ẑ for the next token: a whole number for every entry of the vocabulary."""
    from affidavit.generation.aggregate import blend, clip_to_grid, total

    logits = public.logits
    clipped, sound = clip_to_grid(logits, clip=config.clip)
    if not sound.all():
        raise AffidavitError(
            "the model's logits for the public prompt are not finite", hint='Try [generator] dtype = "float32".'
        )
    rows = total(
        private.clipped(clip=config.clip),
        vocabulary=logits.shape[1],
        batch_size=config.batch_size,
        clip=config.clip,
    )
    return blend(rows, clipped[0], batch_size=config.batch_size)
