"""Turning scores into counts without looking twice at the same data.

A threshold chosen on the scores it is then tested on makes every bound invalid. Three ways
are sound: fixed beforehand; chosen on one half of the runs and tested on the other; or several
fixed ones, each tested at α divided by their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from affidavit.accountant.errors import UsageError
from affidavit.audits.statistics.clopper_pearson import Counts

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

    The half that chooses takes the most promising of its own scores; the other half is
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
        candidates, key=lambda threshold: _promise(_count(choose_in, choose_out, threshold), delta=delta, alpha=alpha)
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
        thresholds, key=lambda threshold: _promise(_count(members, non_members, threshold), delta=delta, alpha=level)
    )
    return Thresholded(best, _count(members, non_members, best), level, f"Bonferroni over {len(thresholds)} thresholds")


def _promise(counts: Counts, *, delta: float, alpha: float) -> float:
    """The ε that these counts nearly prove: ln of a ratio of rates, less its standard error, in the better direction.

    What it is worth is tested exactly, elsewhere: this only chooses.
    """
    from scipy.special import ndtri

    hit = (counts.true_positives + 0.5) / (counts.members + 1.0)
    alarm = (counts.false_positives + 0.5) / (counts.non_members + 1.0)
    best = -math.inf
    for more, trials, less, others in (
        (hit, counts.members, alarm, counts.non_members),
        (1.0 - alarm, counts.non_members, 1.0 - hit, counts.members),
    ):
        if more > delta:
            spread = math.sqrt(more * (1.0 - more) / trials / (more - delta) ** 2 + (1.0 - less) / less / others)
            best = max(best, math.log((more - delta) / less) + float(ndtri(alpha)) * spread)
    return best


def _halves(scores: Sequence[float], generator: np.random.Generator) -> tuple[list[float], list[float]]:
    order = generator.permutation(len(scores))
    half = len(scores) // 2
    return [scores[i] for i in order[:half]], [scores[i] for i in order[half:]]
