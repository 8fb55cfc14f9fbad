r"""InvisibleInk: only what private prompts add to the public prediction is clipped, and so paid for.

Vinod, Pillutla and Thakurta 2025, "InvisibleInk: high-utility and low-cost text generation with differential
privacy", algorithm 1. Per text, from its own disjoint batch, with u = LLM(public ‖ X):

    φ = u + (1/s) Σ_{p in batch} DClip(LLM(p ‖ X) − u),    DClip(v) = max(−C, min(C, v)), coordinatewise
    V⁺ = {v : u_v >= u_(k) − 2C/s}                          u_(k): the k-th largest public logit
    x ~ softmax(φ/τ) over V⁺,    until x is an end token, or T tokens.

*Sensitivity, per relation.* X is public by composition, and so are u and V⁺; s is public whatever the batch holds.
One record owns one row z.

- add-remove, zero-out: φ changes by d = ± DClip(z − u)/s in [−C, C]^V/s: spread at most 2C/s, range 2C/(s·τ).
- substitution, within a batch: two such changes, 4C/(s·τ). Between batches: a row comes or goes, ``moves``.

The paper states 2C/(s·τ) as ρ = C²/(2s²τ²), for zero-out. There is no halving as in PRISM.

*Support.* V⁺ reads the public logits alone. It must: a support that followed the private mean would tell which tokens
some record makes likely, at no finite price. The margin 2C/s is the authors' (code of the paper): it covers every token
that one record could lift over the k-th best. The k best tokens of φ itself may lie up to 2C below u_(k); a set sure to
hold them would be larger and as private. ``top_k = 0`` keeps every token.

*Arithmetic.* Logits are defined up to a constant, so every row is measured from its own maximum before rows are
compared; a maximum is exact, where a log-sum would depend on the order of its sum. Differences are rounded to
whole multiples of 2^-20 between ±C, so that sums are exact in any order; the sum over a batch is held to ±s·C, as in
``aggregate``. u is held to at most ``DEPTH`` below its maximum: a public floor, e^−100 times the best at τ = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from affidavit.accountant.errors import AffidavitError, RunFileError
from affidavit.accountant.plan import Plan, Repeat
from affidavit.accountant.validate import Relation
from affidavit.generation.aggregate import Measure
from affidavit.generation.batched import (
    BatchedConfig,
    Writer,
    check,
    parallel_plan,
    sample_size,
    trial_size,
    work,
    write_batches,
)
from affidavit.generation.configs import Positive
from affidavit.generation.contract import Access, Baseline, Makes
from affidavit.generation.remedies import at_least

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from affidavit.generation.aggregate import GridLogits, Totals
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import LanguageModel, Logits
    from affidavit.generation.outputs import Generated, GeneratorPermit
    from affidavit.mechanisms.exponential import SoftmaxSampling

__all__ = [
    "ACCESS",
    "BASELINES",
    "CONFIG",
    "DEPTH",
    "MAKES",
    "PRESETS",
    "Difference",
    "InvisibleInkConfig",
    "check",
    "clip_difference",
    "mechanism",
    "noise_keys",
    "plan",
    "public_grid",
    "run",
    "sample_size",
    "support",
    "trial_size",
    "work",
]

DEPTH = 100.0
"""Logits of the public prompt count as no further than this below the best one."""

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "batch_size": 7,
        "clip": 0.6,
        "temperature": 1.1,
        "top_k": 100,
        "max_tokens": 500,
        "max_record_tokens": 512,
    },
    "local": {
        "batch_size": 32,
        "clip": 3.0,
        "temperature": 0.8,
        "top_k": 200,
        "max_tokens": 40,
        "max_record_tokens": 96,
    },
}
"""``paper``: 8 prompts (7 private), τ = 1.1, k = 100, T = 500, C for ε = 10 at δ = 1e-6 by zCDP. ``local``: SmolLM2."""


class InvisibleInkConfig(BatchedConfig):
    """The run file's ``[generator]`` table for ``kind = "invisible-ink"``; all of it is public."""

    kind: Literal["invisible-ink"] = "invisible-ink"
    clip: Annotated[float, Field(ge=1e-3, le=100.0)] = 4.0
    temperature: Positive = 0.8
    top_k: Annotated[int, Field(ge=0)] = 50

    @model_validator(mode="after")
    def _reachable(self) -> InvisibleInkConfig:
        from affidavit.mechanisms.exponential import MAX_SPREAD

        spread = DEPTH + 2.0 * self.clip
        if spread / self.temperature > MAX_SPREAD:
            raise RunFileError(
                "generator.temperature",
                f"logits may lie {spread / self.temperature:.4g} temperatures apart",
                allowed=f"at most {MAX_SPREAD:g}",
                hint=at_least("generator.temperature", spread / MAX_SPREAD),
            )
        return self


CONFIG = InvisibleInkConfig
ACCESS: Access = "logits"
MAKES: Makes = "texts"
BASELINES: frozenset[Baseline] = frozenset({"public-only"})


def mechanism(config: InvisibleInkConfig, *, relation: Relation) -> SoftmaxSampling:
    """The draw of one token. Scores are s·2^20·φ: one row moves them by whole numbers in [−C·2^20, C·2^20]."""
    from affidavit.generation.aggregate import GRID, grid_bound
    from affidavit.mechanisms.exponential import SoftmaxSampling

    rows = 2 if relation == "substitution" else 1
    width = 2 * rows * grid_bound(config.clip)
    return SoftmaxSampling(width=width, temperature=config.batch_size * GRID * Fraction(config.temperature))


def noise_keys(config: InvisibleInkConfig) -> tuple[str, ...]:  # noqa: ARG001
    """The temperature."""
    return ("temperature",)


def plan(config: InvisibleInkConfig, *, relation: Relation, size: int) -> Plan:
    """The plan of a run on ``size`` records. Raises ``RunFileError`` where the batches do not fit."""

    def part(relation: Relation) -> Plan:
        return Repeat(config.max_tokens, mechanism(config, relation=relation).leaf())

    return parallel_plan(config, part, relation=relation, size=size)


def run(
    permit: GeneratorPermit,
    config: InvisibleInkConfig,
    records: Sequence[Record],
    model: LanguageModel,
    *,
    size: int,
    progress: Callable[[Any], None] | None = None,
    public: Sequence[Record] = (),
) -> Generated:
    """Generate every text through ``permit``; one release a token at ``plan.parts[i].of``.

    ``size`` is the declared size; public records are not used. Raises ``PermitViolation`` where the permit's
    plan is not this configuration's, ``RunFileError`` where settings do not fit the model.
    """
    check(config, model, public=public)
    return write_batches(permit, config, records, model, _Writer, kind=config.kind, size=size, progress=progress)


class _Writer(Writer[InvisibleInkConfig]):
    @cached_property
    def _spec(self) -> SoftmaxSampling:
        return mechanism(self.config, relation=self.recorder.relation)

    def token(self) -> int:
        from affidavit.generation.aggregate import brought

        config = self.config
        logits = self.public.logits[0]
        public = public_grid(logits)
        tokens = support(public, top_k=config.top_k, clip=config.clip, batch_size=config.batch_size)
        measure = Difference(config.clip, logits)
        added = brought(
            self.private.total(measure, vocabulary=public.size, batch_size=config.batch_size, clip=config.clip)
        )
        scores = (config.batch_size * public + added)[tokens]
        token = int(tokens[self.recorder.draw(f"{self.part}.of", self._spec, scores)])
        self.recorder.note(token=token, rows=self.private.summed, unsound_rows=self.private.unsound)
        return token


@dataclass(frozen=True, slots=True)
class Difference(Measure):
    """``clip_difference`` to the ``public`` row, wherever the rows are."""

    clip: float
    public: NDArray[np.float32]

    def on_host(self, logits: Logits) -> tuple[GridLogits, NDArray[np.bool_]]:
        return clip_difference(logits, self.public, clip=self.clip)

    def on_device(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        from affidavit.generation import device_sums

        return device_sums.clip_difference(logits, logits.new_tensor(self.public), clip=self.clip)


def public_grid(logits: NDArray[np.float32]) -> Totals:
    """u in grid units, measured from its maximum and held to ``DEPTH`` below it. Raises ``AffidavitError``."""
    import numpy as np

    from affidavit.generation.aggregate import GRID

    if np.isnan(logits).any() or not np.isfinite(logits.max()):
        raise AffidavitError(
            "the model's logits for the public prompt are not finite", hint='Try `generator.dtype = "float32"`.'
        )
    below = np.maximum(logits.astype(np.float64) - float(logits.max()), -DEPTH)
    grid: Totals = np.rint(below * GRID).astype(np.int64)
    return grid


def clip_difference(
    logits: Logits, public: NDArray[np.float32], *, clip: float
) -> tuple[GridLogits, NDArray[np.bool_]]:
    """DClip(z − u) of every row in grid units, and which rows were sound; an unsound one contributes nothing.

    Elementwise but for the row's own maximum, so that a row's result depends on that row and on u alone.
    """
    import numpy as np

    from affidavit.generation.aggregate import GRID, grid_bound

    bound = grid_bound(clip)
    peaks = logits.max(axis=1, keepdims=True)
    sound = np.isfinite(peaks[:, 0])
    with np.errstate(invalid="ignore", over="ignore"):  # a warning would tell what a private row holds
        grid = (logits - np.where(sound[:, None], peaks, np.float32(0.0))) - (public - public.max())
        grid = np.clip(np.nan_to_num(grid, nan=0.0), np.float32(-clip), np.float32(clip))
    whole = np.clip(np.rint(grid * np.float32(GRID)).astype(np.int64), -bound, bound).astype(np.int32)
    whole[~sound] = 0
    return whole, sound


def support(public: Totals, *, top_k: int, clip: float, batch_size: int) -> NDArray[np.int64]:
    """V⁺, ascending: tokens whose public logit (grid units) is within 2C/s of the ``top_k``-th best; 0: all."""
    import numpy as np

    from affidavit.generation.aggregate import grid_bound

    if top_k == 0:
        return np.arange(public.size, dtype=np.int64)
    least = int(np.partition(public, public.size - top_k)[public.size - top_k])
    return np.flatnonzero(public >= least - 2 * grid_bound(clip) // batch_size).astype(np.int64)
