"""Turning scores into counts without looking twice at the same data.

A threshold chosen on the scores it is then tested on makes every bound invalid. Three ways
are sound: fixed beforehand; chosen on one half of the runs and tested on the other; or several
fixed ones, each tested at α divided by their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from affidavit.accountant.errors import UsageError
from affidavit.audits.statistics.clopper_pearson import Counts, epsilon_lower

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Thresholded", "bonferroni", "fixed", "split"]


@dataclass(frozen=True, slots=True)
class Thresholded:
    """Counts at a threshold, the level that remains for testing them, and how it was chosen."""

    threshold: float
    counts: Counts
    alpha: float
    correction: str


def _count(members: Sequence[float], non_members: Sequence[float], threshold: float) -> Counts:
    return Counts(
        sum(score >= threshold for score in members),
        len(members),
        sum(score >= threshold for score in non_members),
        len(non_members),
    )


def fixed(members: Sequence[float], non_members: Sequence[float], *, threshold: float, alpha: float) -> Thresholded:
    """A threshold fixed before any score was seen; a score at or above it says "member"."""
    return Thresholded(threshold, _count(members, non_members, threshold), alpha, "threshold fixed beforehand")


def split(
    members: Sequence[float],
    non_members: Sequence[float],
    *,
    alpha: float,
    delta: float,
    generator: np.random.Generator,
) -> Thresholded:
    """Choose the threshold on a random half of each side, test it on the other half.

    The half that chooses maximises its own ε bound over its own scores; the other half is
    independent of that choice, so its bound holds at the full ``alpha``. Needs two runs a side.
    """
    if min(len(members), len(non_members)) < 2:
        raise UsageError(
            "one run a side cannot be split",
            hint="Give at least two runs a side, as in `members = [0.5, 0.6]` and `non_members = [0.4, 0.5]`.",
        )
    choose_in, test_in = _halves(members, generator)
    choose_out, test_out = _halves(non_members, generator)
    candidates = sorted(set(choose_in) | set(choose_out))
    best = max(
        candidates,
        key=lambda threshold: epsilon_lower(_count(choose_in, choose_out, threshold), delta=delta, alpha=alpha),
    )
    return Thresholded(best, _count(test_in, test_out, best), alpha, "threshold chosen on the other half of the runs")


def bonferroni(
    members: Sequence[float],
    non_members: Sequence[float],
    *,
    thresholds: Sequence[float],
    alpha: float,
    delta: float,
) -> Thresholded:
    """The best of several thresholds fixed beforehand, each tested at α / (their number)."""
    if not thresholds:
        raise UsageError("no thresholds were given", hint="Give at least one, as in `thresholds = [0.5]`.")
    level = alpha / len(thresholds)
    best = max(
        thresholds,
        key=lambda threshold: epsilon_lower(_count(members, non_members, threshold), delta=delta, alpha=level),
    )
    return Thresholded(best, _count(members, non_members, best), level, f"Bonferroni over {len(thresholds)} thresholds")


def _halves(scores: Sequence[float], generator: np.random.Generator) -> tuple[list[float], list[float]]:
    order = generator.permutation(len(scores))
    half = len(scores) // 2
    return [scores[i] for i in order[:half]], [scores[i] for i in order[half:]]
