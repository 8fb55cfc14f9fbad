r"""AdaDPSyn: few-shot generation whose noise shrinks with the spread of the next-token distributions.

Gao, Zhou, Wang, Shen and Yang 2025, "Data-adaptive differentially private prompt synthesis for in-context learning",
algorithm 1 with 4 and 5. For every token, from *one* fresh sample (``subsampled``) of vectors p_1, … on the simplex:

    r  = good radius of the p_i (a ball of about ``fraction`` · M of them)             noise multiplier σ0
    p̃  = (Σ p_i + N(0, 2σ1²)) / M, back on the simplex;  R = √2/2                      σ1
    up to T̂ times:
        margin = r + 2 λ R σ1 √K / M
        stop unless (how many p_i lie within ``margin`` of p̃) + N(0, σ2²) >= ``coverage`` · M      σ2
        stop if R < margin;  R = margin
        p̃ = p̃ + (Σ (p_i − p̃ drawn into the ball of radius R) + N(0, (2Rσ1)²)) / M, back on the simplex     σ1
    token = argmax p̃

*Sensitivity.* Derived beside each sampler: ``mechanisms.good_radius`` (below 2), ``coverage`` (1), ``projected_mean``
(2R where a vector is replaced, R where one joins: sums are *about the current centre*, and M and all thresholds are
public), and ``few_shot.gaussian_sum`` for the first mean (√2 and 1). R, r and the centres are outcomes of earlier
releases, so the step is an adaptive composition of Gaussians of fixed multipliers,

    μ² = 2⌈log2(√2/(2θ))⌉/σ0² + T̂/σ2² + (T̂ + 1)/σ1²          (replaced)
    μ² = 2⌈log2(√2/(2θ))⌉/σ0² + T̂/σ2² + 1/(2σ1²) + T̂/(4σ1²)  (joins)

on the sample, *composed first and amplified once*: all its releases see the same records. Stopping early is one of the
adaptive choices and is not refunded.

The paper's mean of the p_i has exactly M of them; a sample here may hold more or fewer (``subsampled``), and the fixed
denominator M then pulls the mean towards the centre instead of revealing the number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from affidavit.accountant.plan import Compose, Plan, Repeat
from affidavit.accountant.validate import Relation
from affidavit.generation.configs import Noise
from affidavit.generation.contract import Access, Baseline, Makes
from affidavit.generation.few_shot import gaussian_sum
from affidavit.generation.probabilities import GRID, Grid, on_simplex, total
from affidavit.generation.subsampled import (
    SubsampledConfig,
    change_on_sample,
    check,
    sample_size,
    steps_plan,
    trial_size,
    work,
)
from affidavit.mechanisms.coverage import CoverageCount
from affidavit.mechanisms.gaussian import GaussianNoise
from affidavit.mechanisms.good_radius import LARGEST, GoodRadius
from affidavit.mechanisms.projected_mean import Change, ProjectedMean

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
    "AdaDPSynConfig",
    "AdaptiveMean",
    "adaptive_mean",
    "check",
    "noise_keys",
    "plan",
    "run",
    "sample_size",
    "trial_size",
    "work",
]

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "subsets": 10,
        "shots_per_subset": 2,
        "top_k": 100,
        "radius_noise_multiplier": 10.0,
        "mean_noise_multiplier": 1.23,
        "count_noise_multiplier": 3.0,
        "iterations": 1,
        "margin": 0.1,
        "max_tokens": 100,
        "max_record_tokens": 256,
        "sampling": "without-replacement",
        "task": "ag-news-completion",
    },
    "local": {
        "subsets": 10,
        "shots_per_subset": 1,
        "top_k": 100,
        "radius_noise_multiplier": 4.5,
        "mean_noise_multiplier": 0.45,
        "count_noise_multiplier": 2.25,
        "iterations": 1,
        "margin": 0.2,
        "max_tokens": 20,
        "max_record_tokens": 48,
        "sampling": "fixed-groups",
        "task": "ag-news",
    },
}
"""``paper``: AG News at a claimed ε of 1 (table 13). ``local``: for SmolLM2, a text a label at ε = 4.

The token is an argmax, so that nothing but noise and samples varies the text: with more subsets, or in the papers'
completion form, a small model's likeliest text goes in circles (docs/adadpsyn.md).
"""


class AdaDPSynConfig(SubsampledConfig):
    """The run file's ``[generator]`` table for ``kind = "adadpsyn"``; all of it is public."""

    kind: Literal["adadpsyn"] = "adadpsyn"
    radius_noise_multiplier: Noise
    mean_noise_multiplier: Noise
    count_noise_multiplier: Noise
    iterations: Annotated[int, Field(ge=1, le=100)] = 1
    margin: Annotated[float, Field(ge=0.0)] = 0.2
    coverage: Annotated[float, Field(gt=0.0, le=1.0)] = 0.55
    fraction: Annotated[float, Field(gt=0.0, le=1.0)] = 0.8
    tolerance: Annotated[float, Field(ge=0.001, le=0.5)] = 0.1


CONFIG = AdaDPSynConfig
ACCESS: Access = "top"
MAKES: Makes = "texts"
BASELINES: frozenset[Baseline] = frozenset(())


@dataclass(frozen=True, slots=True)
class AdaptiveMean:
    """One token's releases: their costs (``plan``), and the releases themselves (``choose``)."""

    search: GoodRadius
    first: GaussianNoise
    count: CoverageCount
    mean: ProjectedMean
    iterations: int
    subsets: int
    margin: float
    coverage: float
    fraction: float

    def plan(self) -> Plan:
        """In the order of the algorithm, on one sample."""
        round_ = Compose((self.count.leaf(), self.mean.leaf()))
        return Compose((self.search.plan(), self.first.leaf(), Repeat(self.iterations, round_)))

    def weigh(self, logits: NDArray[np.float32]) -> Grid | None:
        return on_simplex(logits)

    def choose(self, recorder: Recorder, path: str, rows: list[Grid], *, width: int) -> int:
        """The best token of the last mean; the trace notes what decided on the way."""
        points = np.array(rows, dtype=np.int64).reshape(len(rows), width).astype(np.float64) / GRID
        volume = max(1, math.ceil(self.fraction * self.subsets))
        target = recorder.draw(f"{path}.parts[0].of", self.search.holding(volume), points)
        centre = _on_simplex(self._first_mean(recorder, f"{path}.parts[1]", rows, width=width))
        radius = LARGEST
        for _ in range(self.iterations):
            reached = self._next_radius(recorder, f"{path}.parts[2].of.parts[0]", points, centre, target, radius)
            if reached is None:
                recorder.finish(path)
                break
            radius = reached
            about = self.mean.about(centre, radius=radius, count=self.subsets)
            mean = recorder.draw(f"{path}.parts[2].of.parts[1]", about, points)
            recorder.note(radius=radius)
            centre = _on_simplex(mean)
        return int(centre.argmax())

    def _first_mean(self, recorder: Recorder, path: str, rows: list[Grid], *, width: int) -> NDArray[np.float64]:
        return recorder.draw(path, self.first, total(rows, width=width).astype(np.float64) / GRID) / self.subsets

    def _next_radius(
        self,
        recorder: Recorder,
        path: str,
        points: NDArray[np.float64],
        centre: NDArray[np.float64],
        target: float,
        radius: float,
    ) -> float | None:
        """The radius to go on with, or None to stop (lines 11 to 18)."""
        spread = 2.0 * self.margin * radius * float(self.mean.noise_multiplier) * math.sqrt(centre.size)
        smaller = target + spread / self.subsets
        held = recorder.draw(path, self.count.inside(centre, radius=smaller), points)
        return smaller if held >= self.coverage * self.subsets and radius >= smaller else None


def adaptive_mean(config: AdaDPSynConfig, change: Change) -> AdaptiveMean:
    """The releases of one token, where one record makes ``change``."""
    return AdaptiveMean(
        search=GoodRadius(config.radius_noise_multiplier, config.tolerance),
        first=gaussian_sum(config.mean_noise_multiplier, change),
        count=CoverageCount(config.count_noise_multiplier),
        mean=ProjectedMean(config.mean_noise_multiplier, change),
        iterations=config.iterations,
        subsets=config.subsets,
        margin=config.margin,
        coverage=config.coverage,
        fraction=config.fraction,
    )


def noise_keys(config: AdaDPSynConfig) -> tuple[str, ...]:  # noqa: ARG001
    """The three multipliers, in proportion."""
    return ("radius_noise_multiplier", "mean_noise_multiplier", "count_noise_multiplier")


def plan(config: AdaDPSynConfig, *, relation: Relation, size: int) -> Plan:
    """The plan of a run on ``size`` records. Raises ``RunFileError`` where the samples do not fit."""
    return steps_plan(config, lambda change: adaptive_mean(config, change).plan(), relation=relation, size=size)


def run(
    permit: GeneratorPermit,
    config: AdaDPSynConfig,
    records: Sequence[Record],
    model: LanguageModel,
    *,
    size: int,
    progress: Callable[[Progress], None] | None = None,
    public: Sequence[Record] = (),
) -> Generated:
    """Generate every text through ``permit``. ``size``: the declared size; public records are not used.

    Raises ``PermitViolation`` where the permit's plan is not this configuration's, ``RunFileError`` where the model
    cannot serve it.
    """
    from affidavit.generation.token_steps import write_texts

    check(config, model, public=public)
    step = adaptive_mean(config, change_on_sample(config, permit.relation))
    return write_texts(permit, config, step, records, model, kind=config.kind, size=size, progress=progress)


def _on_simplex(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """max(values, 0), scaled to sum 1 (lines 9 and 21); nothing positive: uniform."""
    positive = np.maximum(values, 0.0)
    mass = positive.sum()
    if mass <= 0.0:
        return np.full(values.size, 1.0 / values.size)
    result: NDArray[np.float64] = positive / mass
    return result
