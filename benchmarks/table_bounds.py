"""What each bound proves of a mechanism whose ε is known: one table, beside what two other libraries' code gives.

    python -m benchmarks.table_bounds [--runs 20] [--trials 1000] [--jobs 1] [--peers FOLDER] --out TABLE.md

Every run draws as many scores with the record as without it, N(μ, 1) and N(0, 1) for Gaussian noise of that ε at
δ = 1e-5, or the answers of randomised response at ε and δ = 0. All methods see the same scores, at α = .05; a
threshold is fixed beforehand, where the expected counts prove most by two limits (rates), or in the middle (μ and all
coins). The peers' folder holds jax_privacy/auditing.py and privacy_guard/analysis/mia/fdp_analysis_node.py, which are
run as they are.
The table gives the mean over runs as a share of the true ε, and how often a bound exceeded it.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import multiprocessing
import sys
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from affidavit.audits.statistics.boundaries import GaussianBoundary
from affidavit.audits.statistics.clopper_pearson import Counts, rate_lower, rate_upper
from affidavit.audits.statistics.joint import epsilon_lower, mu_lower
from affidavit.audits.statistics.one_run import one_run_epsilon_lower
from affidavit.audits.statistics.one_run_curve import all_coins_epsilon_lower, all_coins_mu_lower
from affidavit.audits.statistics.sequential import anytime_epsilon_lower

ALPHA = 0.05
LEAST_NOISE = 0.2
"""Where a peer begins to look: the noise of about ε = 25."""
EPSILONS = (1.0, 4.0)
Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Truth:
    """A mechanism of known ε. ``mu`` is None for randomised response."""

    epsilon: float
    delta: float
    mu: float | None

    def draw(self, generator: np.random.Generator, trials: int) -> tuple[Scores, Scores]:
        """Scores with the record and without it."""
        if self.mu is not None:
            return generator.normal(self.mu, 1.0, trials), generator.normal(0.0, 1.0, trials)
        q = float(expit(self.epsilon))
        return (generator.random(trials) < q).astype(float), (generator.random(trials) >= q).astype(float)

    def thresholds(self, trials: int) -> tuple[float, float]:
        """For rates, and for the middle."""
        if self.mu is None:
            return 0.5, 0.5
        mu = self.mu
        grid = np.linspace(0.5 * mu, mu + 3.0, 200)
        promised = [
            limits_epsilon(
                Counts(round(trials * ndtr(mu - t)), trials, round(trials * ndtr(-t)), trials), delta=self.delta
            )
            for t in grid
        ]
        return float(grid[int(np.argmax(promised))]), 0.5 * mu


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The μ of Gaussian noise with this ε at δ."""
    low, high = 0.0, 20.0
    while high - low > 1e-10:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if GaussianBoundary(middle).epsilon(delta=delta) < epsilon else (low, middle)
    return high


def limits_epsilon(counts: Counts, *, delta: float) -> float:
    """Two Clopper-Pearson limits at half of α each (Nasr et al. 2021)."""
    low = rate_lower(counts.true_positives, counts.members, alpha=ALPHA / 2)
    high = rate_upper(counts.false_positives, counts.non_members, alpha=ALPHA / 2)
    forms = ((low - delta, high), (1.0 - high - delta, 1.0 - low))
    return max([0.0, *(math.log(more / less) for more, less in forms if more > less > 0.0)])


def counts_at(scores: tuple[Scores, Scores], threshold: float) -> Counts:
    """Positives at a threshold."""
    inside, outside = scores
    return Counts(int((inside >= threshold).sum()), len(inside), int((outside >= threshold).sum()), len(outside))


def ours(truth: Truth, scores: tuple[Scores, Scores], thresholds: tuple[float, float]) -> Iterator[tuple[str, float]]:
    """Each bound of this package."""
    rates, middle = counts_at(scores, thresholds[0]), counts_at(scores, thresholds[1])
    delta, coins = truth.delta, 2 * middle.members
    right = middle.true_positives + middle.non_members - middle.false_positives
    yield "two Clopper-Pearson limits", limits_epsilon(rates, delta=delta)
    yield "joint test", epsilon_lower(rates, delta=delta, alpha=ALPHA)
    yield "joint test, looked at all along", anytime_epsilon_lower(rates, delta=delta, alpha=ALPHA)
    fixed = {"records": coins, "guesses": coins, "correct": right, "delta": delta, "alpha": ALPHA}
    yield "one run, all coins (Steinke et al.)", one_run_epsilon_lower(**fixed)  # type: ignore[arg-type]
    yield (
        "one run, any number of guesses",
        one_run_epsilon_lower(**{**fixed, "guesses_fixed": False}),  # type: ignore[arg-type]
    )
    told: dict[str, Any] = {"records": coins, "correct": right, "alpha": ALPHA}
    yield "f-DP one run, of (ε, δ)", all_coins_epsilon_lower(**told, delta=delta)
    if truth.mu is not None:
        mu = mu_lower(middle, alpha=ALPHA)
        yield "joint test of μ", GaussianBoundary(mu).epsilon(delta=delta)
        yield "f-DP one run, of μ", GaussianBoundary(all_coins_mu_lower(**told)).epsilon(delta=delta)


def load(path: Path, name: str) -> Any:
    """A module of another library, from its file alone."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


Peer = Callable[[Truth, tuple[Scores, Scores], tuple[float, float]], Iterator[tuple[str, float]]]


@cache
def peers(folder: Path) -> Peer:
    """The two libraries' bounds on the same scores."""
    jax = load(folder / "jax_privacy" / "auditing.py", "peer_jax_privacy_auditing")
    for base in ("node", "output"):
        name = f"privacy_guard.analysis.base_analysis_{base}"
        stand_in = types.ModuleType(name)
        setattr(stand_in, f"BaseAnalysis{base.capitalize()}", object)
        sys.modules[name] = stand_in
    guard = load(folder / "privacy_guard" / "analysis" / "mia" / "fdp_analysis_node.py", "peer_fdp_analysis_node")

    def bounds(
        truth: Truth, scores: tuple[Scores, Scores], thresholds: tuple[float, float]
    ) -> Iterator[tuple[str, float]]:
        auditor, delta = jax.CanaryScoreAuditor(*scores), truth.delta
        rates, middle = (jax.Explicit(each) for each in thresholds)
        found = auditor.epsilon_clopper_pearson(ALPHA, delta, threshold_strategy=rates)
        yield "jax-privacy: Clopper-Pearson, threshold given", found
        found = auditor.epsilon_clopper_pearson(ALPHA, delta)
        yield "jax-privacy: Clopper-Pearson, over all thresholds", found
        if delta > 0.0:
            yield "jax-privacy: one run", auditor.epsilon_one_run(ALPHA, delta, threshold_strategy=middle)
        if truth.mu is None:
            return
        yield "jax-privacy: f-DP one run", auditor.epsilon_one_run_fdp(ALPHA, delta, threshold_strategy=middle)
        yield "jax-privacy: GDP", auditor.epsilon_from_gdp(ALPHA, delta)
        counts = counts_at(scores, thresholds[1])
        coins = 2 * counts.members
        right = counts.true_positives + counts.non_members - counts.false_positives
        # It scans noises upwards by hundredths from here, wherever the true one is.
        node = guard.FDPAnalysisNode(coins, right, coins, target_noise=LEAST_NOISE, threshold=ALPHA, delta=delta)
        yield "PrivacyGuard: f-DP one run", node.run_analysis().eps

    return bounds


@dataclass(frozen=True, slots=True)
class Draw:
    """One run's scores, and whose bounds are asked for."""

    column: str
    truth: Truth
    scores: tuple[Scores, Scores]
    thresholds: tuple[float, float]
    peers: Path | None

    def shares(self) -> tuple[str, list[tuple[str, float]]]:
        """The column, and every bound as a share of the true ε."""
        rows = list(ours(self.truth, self.scores, self.thresholds))
        if self.peers:
            rows += peers(self.peers)(self.truth, self.scores, self.thresholds)
        return self.column, [(method, float(value) / self.truth.epsilon) for method, value in rows]


def draws(runs: int, trials: int, folder: Path | None) -> Iterator[Draw]:
    """All runs of every column; the columns have the same seed."""
    for name, delta in (("Gaussian", 1e-5), ("randomised response", 0.0)):
        for epsilon in EPSILONS:
            truth = Truth(epsilon, delta, gaussian_mu(epsilon, delta) if delta else None)
            generator, thresholds = np.random.default_rng(2024), truth.thresholds(trials)
            for _ in range(runs):
                yield Draw(f"{name}, ε = {epsilon:g}", truth, truth.draw(generator, trials), thresholds, folder)


def main() -> None:
    """Make the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = {}
    columns: dict[str, None] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(chosen.jobs, mp_context=context) as pool:
        for column, rows in pool.map(Draw.shares, draws(chosen.runs, chosen.trials, chosen.peers)):
            columns[column] = None
            print(".", end="", flush=True)
            for method, share in rows:
                found.setdefault(method, {}).setdefault(column, []).append(share)
    print()
    lines = ["| share of the true ε |" + "".join(f" {one} |" for one in columns), "|---" * (len(columns) + 1) + "|"]
    for method, shares in found.items():
        cells = [_cell(shares.get(column, [])) for column in columns]
        lines.append(f"| {method} |" + "".join(f" {cell} |" for cell in cells))
    chosen.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(chosen.out.read_text(encoding="utf-8"))


def _cell(shares: list[float]) -> str:
    if not shares:
        return ""
    above = sum(share > 1.0 for share in shares)
    return f"{100.0 * sum(shares) / len(shares):.0f} %" + (f" ({above} of {len(shares)} above)" if above else "")


if __name__ == "__main__":
    main()
