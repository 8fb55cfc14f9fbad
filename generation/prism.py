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
mechanisms (docs/theory/exponential.md). Batches are disjoint, so the plan is ``parallel`` over samples,
``repeat`` T inside. The denominator is the public s whatever the batch holds; holding the sum to ±s·c (``aggregate``)
cannot widen d, whose coordinates only shrink towards 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pydantic import model_validator

from affidavit.accountant.errors import RunFileError
from affidavit.accountant.plan import Plan, Repeat
from affidavit.accountant.validate import Relation
from affidavit.generation.batched import (
    BatchedConfig,
    Progress,
    Writer,
    bucket_count,
    check,
    label_rows,
    parallel_plan,
    sample_size,
    text_sample,
    trial_size,
    work,
    write_batches,
)
from affidavit.generation.configs import Clip, Positive
from affidavit.generation.contract import Access, Baseline, Makes
from affidavit.generation.remedies import at_least

if TYPE_CHECKING:
    from affidavit.generation.aggregate import Totals
    from affidavit.generation.batches import PrivateRows
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import Decoding, LanguageModel
    from affidavit.generation.outputs import Generated, GeneratorPermit
    from affidavit.mechanisms.exponential import SoftmaxSampling

__all__ = [
    "ACCESS",
    "BASELINES",
    "CONFIG",
    "MAKES",
    "PRESETS",
    "PrismConfig",
    "Progress",
    "bucket_count",
    "check",
    "label_rows",
    "mechanism",
    "noise_keys",
    "plan",
    "run",
    "sample_size",
    "text_sample",
    "token_scores",
    "trial_size",
    "work",
]

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"batch_size": 255, "clip": 10.0, "temperature": 1.048, "max_tokens": 100, "max_record_tokens": 256},
    "local": {"batch_size": 64, "clip": 10.0, "temperature": 0.7, "max_tokens": 40, "max_record_tokens": 96},
}
"""``paper``: the paper's settings (s = 255, c = 10, τ = 1.048). ``local``: runs on a laptop with SmolLM2."""


class PrismConfig(BatchedConfig):
    """The run file's ``[generator]`` table for ``kind = "prism"``; all of it is public."""

    kind: Literal["prism"] = "prism"
    clip: Clip = 10.0
    temperature: Positive = 0.7

    @model_validator(mode="after")
    def _spread(self) -> PrismConfig:
        from affidavit.mechanisms.exponential import MAX_SPREAD

        if 2.0 * self.clip / self.temperature > MAX_SPREAD:
            raise RunFileError(
                "generator.temperature",
                f"clip/temperature is {self.clip / self.temperature:.4g}",
                allowed=f"at most {MAX_SPREAD / 2:g}",
                hint=at_least("generator.temperature", 2.0 * self.clip / MAX_SPREAD),
            )
        return self


CONFIG = PrismConfig
ACCESS: Access = "logits"
MAKES: Makes = "texts"
BASELINES: frozenset[Baseline] = frozenset({"aggregation", "public-only"})


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


def noise_keys(config: PrismConfig) -> tuple[str, ...]:  # noqa: ARG001
    """The temperature."""
    return ("temperature",)


def plan(config: PrismConfig, *, relation: Relation, size: int) -> Plan:
    """The plan of a run on ``size`` records. Raises ``RunFileError`` where the batches do not fit."""

    def part(relation: Relation) -> Plan:
        return Repeat(config.max_tokens, mechanism(config, relation=relation).leaf())

    return parallel_plan(config, part, relation=relation, size=size)


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
    return write_batches(permit, config, records, model, _Writer, kind=config.kind, size=size, progress=progress)


class _Writer(Writer[PrismConfig]):
    """One sample: the loop of algorithm 1."""

    @cached_property
    def _spec(self) -> SoftmaxSampling:
        return mechanism(self.config, relation=self.recorder.relation)

    def token(self) -> int:
        scores = token_scores(self.config, self.private, self.public)
        token = self.recorder.draw(f"{self.part}.of", self._spec, scores)
        self.recorder.note(token=token, rows=self.private.summed, unsound_rows=self.private.unsound)
        return token


def token_scores(config: PrismConfig, private: PrivateRows, public: Decoding) -> Totals:
    """2·s·2^20·ẑ for the next token: a whole number for every entry of the vocabulary."""
    from affidavit.generation.aggregate import Clipped, blend

    measure = Clipped(config.clip)
    private.ahead(measure)
    row = measure.row(public)
    rows = private.total(measure, vocabulary=row.shape[0], batch_size=config.batch_size, clip=config.clip)
    return blend(rows, row, batch_size=config.batch_size)
