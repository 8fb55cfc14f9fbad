"""The plots of docs/theory: ``python -m benchmarks.plots [FOLDER]`` draws them anew.

``epsilon-of-delta-*.svg``: ε(δ) by each method that applies, for a subsampled Gaussian and for a run of exponential
mechanisms. ``width-against-time.svg``: how narrow a bracket is for the processor time it takes, beside
prv-accountant and dp-accounting, each at several of its own accuracies.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from affidavit.accountant.bound import Bound, bound
from affidavit.accountant.plan import Exponential, Gaussian, Plan, Poisson, Repeat
from affidavit.accountant.pld.engine import epsilon_bracket
from affidavit.accountant.pld.steps import one_step
from benchmarks.bench_pld import Timed, timed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "theory" / "plots"
DELTAS = 10.0 ** -np.arange(2.0, 13.0)
SUBSAMPLED = Repeat(1_000, Poisson(0.01, Gaussian(1.0)))
SOFTMAX = Repeat(100, Exponential(0.636))
WORST = {"basic": 100.0, "advanced": 100.0}
"""Methods that would flatten the others are drawn up to this ε."""


def epsilon_of_delta(axes: Axes, plan: Plan, title: str, *, relation: str) -> None:
    """One line a method; the band between the best method's sides is too narrow to see."""
    tables = [bound(plan, relation=relation, delta=float(delta)) for delta in DELTAS]
    for name in [row.name for row in tables[0].methods if row.applies]:
        upper = np.array([_row(table, name) for table in tables])
        upper = np.where(upper > WORST.get(name, np.inf), np.nan, upper)
        best = name == tables[0].method
        axes.plot(DELTAS, upper, label=f"{name} (both sides)" if best else name, linewidth=2.4 if best else 1.2)
        if best:
            axes.plot(DELTAS, [table.epsilon_lower for table in tables], color="black", linewidth=0.8, linestyle=":")
    axes.set(xscale="log", xlabel="δ", ylabel="ε", title=title)
    axes.invert_xaxis()
    axes.legend(frameon=False)


def _row(table: Bound, name: str) -> float:
    return next(row.epsilon_upper for row in table.methods if row.name == name)


def width_against_time(axes: Axes) -> None:
    """Brackets for the subsampled Gaussian at δ = 1e-6."""
    for name, results in (("affidavit", ours()), ("prv-accountant", prv()), ("dp-accounting", google())):
        found = list(results)
        axes.plot([1e3 * r.seconds for r in found], [r.width for r in found], marker="o", label=name)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="processor time, ms",
        ylabel="(upper - lower) / upper",
        title="1,000 Gaussians on Poisson samples, σ = 1, q = 0.01, δ = 1e-6",
    )
    axes.legend(frameon=False)


def _times(bracket: Callable[[Any], tuple[float, float]], accuracies: Iterable[Any], *, repeats: int) -> list[Timed]:
    return [timed(lambda accuracy=accuracy: bracket(accuracy), repeats=repeats) for accuracy in accuracies]


def ours() -> list[Timed]:
    """At several tolerances."""

    def bracket(tolerance: float) -> tuple[float, float]:
        step = one_step.__wrapped__(SUBSAMPLED.of, "add-remove")
        return epsilon_bracket([(step, SUBSAMPLED.count)], delta=1e-6, tolerance=tolerance)

    bracket(1e-2)
    return _times(bracket, (1e-2, 1e-3, 1e-4, 1e-5), repeats=3)


def prv() -> list[Timed]:
    """At several ``eps_error``."""
    import prv_accountant

    def bracket(error: float) -> tuple[float, float]:
        law = prv_accountant.PoissonSubsampledGaussianMechanism(noise_multiplier=1.0, sampling_probability=0.01)
        accountant = prv_accountant.PRVAccountant(
            prvs=[law], max_self_compositions=[1_000], eps_error=error, delta_error=1e-10
        )
        lower, _, upper = accountant.compute_epsilon(1e-6, [1_000])
        return float(lower), float(upper)

    return _times(bracket, (0.3, 0.1, 0.03, 0.01), repeats=1)


def google() -> list[Timed]:
    """At several intervals, both estimates."""
    from dp_accounting.pld import privacy_loss_distribution

    def bracket(interval: float) -> tuple[float, float]:
        sides = []
        for pessimistic in (False, True):
            law = privacy_loss_distribution.from_gaussian_mechanism(
                1.0,
                sampling_prob=0.01,
                pessimistic_estimate=pessimistic,
                use_connect_dots=pessimistic,
                value_discretization_interval=interval,
            )
            sides.append(float(law.self_compose(1_000).get_epsilon_for_delta(1e-6)))
        return sides[0], sides[1]

    return _times(bracket, (1e-2, 1e-3, 1e-4), repeats=1)


def main(folder: Path = FOLDER) -> None:
    """Draw all of them."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    plt.rcParams.update({"svg.hashsalt": "affidavit", "svg.fonttype": "none", "font.size": 10})
    folder.mkdir(parents=True, exist_ok=True)
    drawings: dict[str, Callable[[Axes], None]] = {
        "epsilon-of-delta-subsampled": lambda axes: epsilon_of_delta(
            axes, SUBSAMPLED, "1,000 Gaussians on Poisson samples, σ = 1, q = 0.01", relation="add-remove"
        ),
        "epsilon-of-delta-exponential": lambda axes: epsilon_of_delta(
            axes, SOFTMAX, "100 exponential mechanisms, range 0.636", relation="zero-out"
        ),
        "width-against-time": width_against_time,
    }
    for name, draw in drawings.items():
        figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
        draw(axes)
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
        plt.close(figure)
        print(folder / f"{name}.svg")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
