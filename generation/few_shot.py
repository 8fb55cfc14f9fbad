r"""DP few-shot generation: synthetic demonstrations from noisy sums of next-token probabilities.

Tang, Shin, Inan, Manoel, Mireshghallah, Lin, Gopi, Kulkarni and Sim 2024, "Privacy-preserving in-context learning with
differentially private few-shot generation", algorithm 1, all of it: a fresh sample a token, M subsets of N shots,
optionally the K best tokens of the instruction-only prompt (RVP), and one of

    gaussian      argmax_j  Σ_i p_i[j] + N(0, 2σ²)                 σ = ``noise_multiplier``
    noisy-max     argmax_j  Σ_i p_i[j] / max p_i + Expo(σ/2)       σ = ``noise_epsilon``; σ/2 is the rate

over the vectors p_i of the subsets. Noise is independent for every token and entry. The paper's division by M changes
no argmax. Which record is in which sample, and what that costs: ``subsampled``.

*Sensitivity, per change of one vector* (``subsampled`` says which change a relation makes). The p_i are nonnegative
with sum <= 1 (``probabilities``, exactly); a subset that shows nothing has p = 0.

- gaussian, replaced: ‖p − p′‖₂ <= √2. Noise √2·σ is noise multiplier σ, as in the paper.
- gaussian, joins: ‖p‖₂ <= 1. The same noise is multiplier √2·σ: less is spent than the paper accounts for.
- noisy-max, replaced: entries of p/max p move by −1 to 1, width 2: ε = 2·(σ/2) = σ (``mechanisms.noisy_max``).
- noisy-max, joins: they rise by 0 to 1, width 1: ε = σ/2.

A generated token is post-processing of the noisy vector, and which tokens are eligible follows from released text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from affidavit.accountant.errors import RunFileError
from affidavit.accountant.plan import Leaf, Plan
from affidavit.accountant.validate import Relation
from affidavit.generation.configs import Noise
from affidavit.generation.contract import Access, Baseline, Makes
from affidavit.generation.probabilities import GRID, Grid, on_simplex, scaled_to_best, total
from affidavit.generation.subsampled import (
    SubsampledConfig,
    change_on_sample,
    check,
    sample_size,
    steps_plan,
    trial_size,
    work,
)
from affidavit.mechanisms.gaussian import GaussianNoise
from affidavit.mechanisms.noisy_max import ExponentialNoisyMax
from affidavit.mechanisms.projected_mean import Change

if TYPE_CHECKING:
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.outputs import Generated, GeneratorPermit
    from affidavit.generation.prism import Progress
    from affidavit.generation.recorder import Recorder

__all__ = [
    "ACCESS",
    "BASELINES",
    "CONFIG",
    "MAKES",
    "PRESETS",
    "ROOT_TWO",
    "FewShotConfig",
    "check",
    "gaussian_sum",
    "noise_keys",
    "noisy_best",
    "plan",
    "run",
    "sample_size",
    "trial_size",
    "work",
]

ROOT_TWO = Fraction(math.sqrt(2.0))
"""A rational number just above √2 (float64 rounds it up): the paper's factor of the noise, and a bound on ‖p − p′‖₂."""

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "mechanism": "gaussian",
        "subsets": 10,
        "shots_per_subset": 2,
        "top_k": 100,
        "noise_multiplier": 0.51,
        "max_tokens": 100,
        "max_record_tokens": 256,
        "sampling": "without-replacement",
        "task": "ag-news-completion",
    },
    "local": {
        "mechanism": "gaussian",
        "subsets": 10,
        "shots_per_subset": 1,
        "top_k": 100,
        "noise_multiplier": 0.36,
        "max_tokens": 30,
        "max_record_tokens": 64,
        "sampling": "fixed-groups",
        "task": "ag-news",
    },
}
"""``paper``: AG News at a claimed ε of 1 (table 9). ``local``: runs on a laptop with SmolLM2.

The argmax makes the noise the only thing that varies the text. In the few texts that were read, √2·σ/M near 0.05, as
here, gave sentences; at 0.02 the likeliest text went in circles, at 0.09 the noise chose the words.
"""


class FewShotConfig(SubsampledConfig):
    """The run file's ``[generator]`` table for ``kind = "few-shot"``; all of it is public."""

    kind: Literal["few-shot"] = "few-shot"
    mechanism: Literal["gaussian", "noisy-max"] = "gaussian"
    noise_multiplier: Noise | None = None
    noise_epsilon: Noise | None = None

    @model_validator(mode="after")
    def _noise(self) -> FewShotConfig:
        needed, other = "noise_multiplier", "noise_epsilon"
        if self.mechanism == "noisy-max":
            needed, other = other, needed
        if getattr(self, needed) is None:
            raise RunFileError(f"generator.{needed}", f"missing: {self.mechanism} needs it", allowed="a number > 0")
        if getattr(self, other) is not None:
            raise RunFileError(
                f"generator.{other}", f"not used by {self.mechanism}", hint=f"Remove `generator.{other}`."
            )
        return self


CONFIG = FewShotConfig
ACCESS: Access = "top"
MAKES: Makes = "texts"
BASELINES: frozenset[Baseline] = frozenset(())


def gaussian_sum(noise_multiplier: float, change: Change) -> GaussianNoise:
    """Noise √2·σ on a sum of points of the simplex, of which one is replaced (√2) or joins (1)."""
    sensitivity = ROOT_TWO if change == "replaced" else Fraction(1)
    return GaussianNoise(standard_deviation=ROOT_TWO * Fraction(noise_multiplier), l2_sensitivity=sensitivity)


def noisy_best(noise_epsilon: float, change: Change) -> ExponentialNoisyMax:
    """Noise of rate σ/2 on sums of scores in [0, 1], both in grid units."""
    width = 2 if change == "replaced" else 1
    return ExponentialNoisyMax(rate=Fraction(noise_epsilon) / (2 * GRID), width=width * GRID)


def noise_keys(config: FewShotConfig) -> tuple[str, ...]:
    """The one that its mechanism reads."""
    return ("noise_multiplier",) if config.mechanism == "gaussian" else ("noise_epsilon",)


def plan(config: FewShotConfig, *, relation: Relation, size: int) -> Plan:
    """The plan of a run on ``size`` records. Raises ``RunFileError`` where the samples do not fit."""
    return steps_plan(config, lambda change: _step(config, change).leaf(), relation=relation, size=size)


def run(
    permit: GeneratorPermit,
    config: FewShotConfig,
    records: Sequence[Record],
    model: LanguageModel,
    *,
    size: int,
    progress: Callable[[Progress], None] | None = None,
    public: Sequence[Record] = (),
) -> Generated:
    """Generate every text through ``permit``, one release a token. ``size``: declared; public records are not used.

    Raises ``PermitViolation`` where the permit's plan is not this configuration's, ``RunFileError`` where the model
    cannot serve it.
    """
    from affidavit.generation.token_steps import write_texts

    check(config, model, public=public)
    step = _step(config, change_on_sample(config, permit.relation))
    return write_texts(permit, config, step, records, model, kind=config.kind, size=size, progress=progress)


def _step(config: FewShotConfig, change: Change) -> _GaussianStep | _NoisyMaxStep:
    if config.noise_epsilon is not None:
        return _NoisyMaxStep(noisy_best(config.noise_epsilon, change))
    if config.noise_multiplier is None:
        raise RunFileError("generator.noise_multiplier", "missing", allowed="a number > 0")
    return _GaussianStep(gaussian_sum(config.noise_multiplier, change))


@dataclass(frozen=True, slots=True)
class _GaussianStep:
    """Line 12 and the argmax."""

    spec: GaussianNoise

    def leaf(self) -> Leaf:
        return self.spec.leaf()

    def weigh(self, logits: NDArray[np.float32]) -> Grid | None:
        return on_simplex(logits)

    def choose(self, recorder: Recorder, path: str, rows: list[Grid], *, width: int) -> int:
        return int(recorder.draw(path, self.spec, total(rows, width=width).astype(np.float64) / GRID).argmax())


@dataclass(frozen=True, slots=True)
class _NoisyMaxStep:
    """Lines 14 and 15 and the argmax."""

    spec: ExponentialNoisyMax

    def leaf(self) -> Leaf:
        return self.spec.leaf()

    def weigh(self, logits: NDArray[np.float32]) -> Grid | None:
        return scaled_to_best(logits)

    def choose(self, recorder: Recorder, path: str, rows: list[Grid], *, width: int) -> int:
        return recorder.draw(path, self.spec, total(rows, width=width))
