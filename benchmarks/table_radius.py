"""How close the next-token distributions of few-shot generation lie: table 1 of Gao et al. 2025, on one's own data.

    python -m benchmarks.table_radius docs/examples/experiments/methods.toml [--datasets agnews trec] [--seeds 5]

For every data set of the grid, Tang et al.'s algorithm writes a text a label with the papers' subsets (table 12), and
at every token the M private distributions over its K public tokens are looked at before they are added up:

- *good radius*: GoodRadius without noise, for 80 % of the M, on its grid of tolerance 0.1 as in the paper; the mean
  over tokens. The paper does not say how tokens were combined, nor whether noise was added.
- *exact*: where that search would end at tolerance 0: the least r at which 80 % of the vectors each have 80 % of them
  within r. It is at most twice the radius of the least ball that holds them, and at least that radius.
- *pooled*: the least r such that of all vectors of a run, over all tokens, 80 % lie within r of their token's mean.

None of the three is private: they are functions of the records without noise, for public data or for their owner's
eyes. What a run may release of them is what AdaDPSyn pays for (``mechanisms.good_radius``, ``mechanisms.coverage``).
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.release.randomness import NoiseSource, SecureNoise
from affidavit.experiments.gridfile import Dataset, Grid, load_grid
from affidavit.generation import few_shot
from affidavit.generation.dataset import load_records
from affidavit.generation.few_shot import FewShotConfig, gaussian_sum
from affidavit.generation.models import load_model
from affidavit.generation.probabilities import GRID, on_simplex, total
from affidavit.generation.probabilities import Grid as Simplex
from affidavit.generation.subsampled import change_on_sample
from affidavit.generation.token_steps import write_texts
from affidavit.mechanisms.good_radius import LARGEST
from affidavit.trial import TrialPermit

if TYPE_CHECKING:
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.recorder import Recorder
    from affidavit.mechanisms.gaussian import GaussianNoise

SUBSETS = {"agnews": (10, 2), "dbpedia14": (10, 2), "trec": (20, 2), "mitg": (40, 1), "mitd": (40, 1)}
PUBLISHED = {"agnews": "0.06 ± 0.02", "dbpedia14": "0.05 ± 0.01", "trec": "0.12 ± 0.01", "mitg": "0.15 ± 0.01",
             "mitd": "0.14 ± 0.01"}  # fmt: skip
"""Gao et al. 2025, tables 12 and 1 (Llama-2-7B)."""
FRACTION = 0.8
TOLERANCE = 0.1


@dataclass(slots=True)
class Radii:
    """Tang et al.'s step, which also looks at what it adds up."""

    spec: GaussianNoise
    searched: list[float] = field(default_factory=list)
    exact: list[float] = field(default_factory=list)
    away: list[float] = field(default_factory=list)

    def weigh(self, logits: NDArray[np.float32]) -> Simplex | None:
        return on_simplex(logits)

    def choose(self, recorder: Recorder, path: str, rows: list[Simplex], *, width: int) -> int:
        points = np.array(rows, dtype=np.float64).reshape(len(rows), width) / GRID
        if len(points):
            radius = good_radius(points)
            self.exact.append(radius)
            self.searched.append(on_the_grid(radius))
            self.away += np.linalg.norm(points - points.mean(axis=0), axis=1).tolist()
        return int(recorder.draw(path, self.spec, total(rows, width=width).astype(np.float64) / GRID).argmax())


def good_radius(points: NDArray[np.float64], *, fraction: float = FRACTION) -> float:
    """The least r with L(r) >= t: t = ⌈fraction · n⌉ of the points have t of them (themselves too) within r."""
    count = math.ceil(fraction * len(points))
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    return float(np.sort(np.sort(distances, axis=1)[:, count - 1])[count - 1])


def on_the_grid(radius: float, *, tolerance: float = TOLERANCE) -> float:
    """What GoodRadius answers without noise where L first reaches t at ``radius``."""
    low, high = 0.0, LARGEST
    while high - low > tolerance:
        middle = (low + high) / 2.0
        low, high = (low, middle) if radius <= middle else (middle, high)
    return (low + high) / 2.0


def pooled(away: list[float], *, fraction: float = FRACTION) -> float:
    """The least distance within which that share of all lies."""
    return sorted(away)[math.ceil(fraction * len(away)) - 1]


def measured(
    grid: Grid, dataset: Dataset, model: LanguageModel, *, tokens: int, noise: float, drawn: NoiseSource
) -> Radii:
    """One run: a text a label, with noise and samples ``drawn`` from there."""
    subsets, shots = SUBSETS[dataset.name]
    across = dataset.texts.match_label is False
    config = FewShotConfig(
        labels=dataset.all_labels,
        subsets=subsets,
        shots_per_subset=shots,
        top_k=100,
        noise_multiplier=noise,
        sampling="poisson",
        max_tokens=tokens,
        max_record_tokens=dataset.texts.max_record_tokens or 64,
        match_label=not across,
        task=f"{dataset.wording}-completion",
        minibatch_rows=subsets,
    )
    permit = TrialPermit(few_shot.plan(config, relation=grid.relation, size=dataset.size), grid.relation, drawn)
    records = load_records(grid.folder / dataset.path, size=dataset.size)
    step = Radii(gaussian_sum(noise, change_on_sample(config, grid.relation)))
    write_texts(permit, config, step, records, model, kind=config.kind, size=dataset.size)
    return step


def line(dataset: str, runs: list[Radii]) -> str:
    """A row of the table: means over tokens, and over runs with their standard deviation."""

    def shown(values: list[float]) -> str:
        return f"{np.mean(values):.2f} ± {np.std(values, ddof=1) if len(values) > 1 else 0.0:.2f}"

    subsets, shots = SUBSETS[dataset]
    columns = [
        shown([float(np.mean(run.searched)) for run in runs]),
        shown([float(np.mean(run.exact)) for run in runs]),
        shown([pooled(run.away) for run in runs]),
    ]
    tokens = sum(len(run.exact) for run in runs)
    return f"| {dataset} | {subsets} x {shots} | {tokens} | {' | '.join(columns)} | {PUBLISHED[dataset]} |"


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("grid", type=Path)
    parser.add_argument("--datasets", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=15)
    parser.add_argument("--noise-multiplier", type=float, default=0.5)
    arguments = parser.parse_args()
    grid = load_grid(arguments.grid)
    model = load_model(grid.model[0].name, base=grid.folder)
    print("| data set | M x N | tokens | good radius | exact | pooled 80 % | paper |\n|---|---|---|---|---|---|---|")
    for dataset in grid.datasets:
        if arguments.datasets and dataset.name not in arguments.datasets:
            continue
        runs = [
            measured(
                grid, dataset, model, tokens=arguments.tokens, noise=arguments.noise_multiplier, drawn=SecureNoise()
            )
            for _ in range(arguments.seeds)
        ]
        print(line(dataset.name, runs), flush=True)


if __name__ == "__main__":
    main()
