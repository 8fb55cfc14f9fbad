"""Precision: how many of those that an attack calls members are members.

AUC does not see the odds: at four non-members for each member the same attack is right less often.
The threshold is chosen on one half of the runs (the largest TPR − FPR) and the precision counted on
the other; runs, not scores, are resampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from affidavit.accountant.errors import UsageError
from affidavit.audits.statistics.auc import ScoredRun, widened_tail

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["best_threshold", "precision"]

_RESAMPLES = 4000


def best_threshold(runs: Sequence[ScoredRun]) -> float:
    """The score at or above which to say "member": the largest TPR − FPR over all scores of ``runs``."""
    if not runs:
        raise UsageError("no runs to choose a threshold on", hint="For example `runs = 2`.")
    members = np.sort(np.concatenate([run.members for run in runs]))
    others = np.sort(np.concatenate([run.non_members for run in runs]))
    candidates = np.unique(np.concatenate([members, others]))
    gain = np.searchsorted(others, candidates) / len(others) - np.searchsorted(members, candidates) / len(members)
    return float(candidates[int(np.argmax(gain))])


def precision(
    runs: Sequence[ScoredRun], *, alpha: float, generator: np.random.Generator
) -> tuple[float | None, tuple[float, float] | None]:
    """(precision on the second half of the runs, approximate interval), by the threshold of the first half.

    The precision is None with fewer than two runs, or where nothing is called a member; the interval
    is None too where fewer than two runs are left to be resampled.
    """
    half = len(runs) // 2
    if half == 0:
        return None, None
    threshold = best_threshold(runs[:half])
    right = np.asarray([sum(score >= threshold for score in run.members) for run in runs[half:]])
    wrong = np.asarray([sum(score >= threshold for score in run.non_members) for run in runs[half:]])
    if right.sum() + wrong.sum() == 0:
        return None, None
    value = float(right.sum() / (right.sum() + wrong.sum()))
    return value, None if len(right) < 2 else _interval(right, wrong, alpha=alpha, generator=generator)


def _interval(
    right: NDArray[np.int64], wrong: NDArray[np.int64], *, alpha: float, generator: np.random.Generator
) -> tuple[float, float]:
    chosen = generator.integers(0, len(right), size=(_RESAMPLES, len(right)))
    hits, called = right[chosen].sum(axis=1), (right + wrong)[chosen].sum(axis=1)
    ratios = hits[called > 0] / called[called > 0]
    tail = widened_tail(len(right), alpha=alpha)
    lower, upper = np.quantile(ratios, [tail, 1.0 - tail])
    return float(lower), float(upper)
