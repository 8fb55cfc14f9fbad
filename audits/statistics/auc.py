"""AUC and true positive rates of a membership attack, with intervals that resample *runs*.

Scores of many records against one demonstration share that demonstration: they are one draw,
not many. A run's AUC is therefore one number, and what is random is the run. Two intervals for
the mean over runs:

* ``resampled_interval``  bootstrap over runs, approximate, labelled so; the percentiles are
  widened for few runs (Hesterberg 2015, "expanded percentile", sect. 4.3: the level α′ with
  Φ⁻¹(α′/2) = √(n/(n−1)) t_{α/2, n−1}).
* ``exact_interval``      valid for any number of runs and any distribution on [0, 1]
  (Waudby-Smith and Ramdas 2024: a mixture of constant bets; Markov's inequality alone).

No ε is computed from pooled scores here, on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from affidavit.accountant.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "ScoredRun",
    "auc",
    "exact_interval",
    "mean_auc",
    "resampled_interval",
    "roc_points",
    "run_aucs",
    "true_positive_rate_at",
    "widened_tail",
]

_BETS = 64


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """The scores of one independent run; a higher score says "member"."""

    members: tuple[float, ...]
    non_members: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.members or not self.non_members:
            raise UsageError(
                "a run without members or without non-members",
                hint="Score at least one of each, as in `members = [0.5]` and `non_members = [0.5]`.",
            )
        if any(math.isnan(score) for score in (*self.members, *self.non_members)):
            raise UsageError(
                "a score is not a number",
                hint="An attack scores every record that it is given, as in `members = [0.5]`.",
            )


def auc(members: Sequence[float], non_members: Sequence[float]) -> float:
    """P(member's score > non-member's) + P(tie)/2 over all pairs (Mann–Whitney)."""
    import numpy as np

    ordered = np.sort(np.asarray(non_members, dtype=np.float64))
    scores = np.asarray(members, dtype=np.float64)
    below = np.searchsorted(ordered, scores, side="left")
    not_above = np.searchsorted(ordered, scores, side="right")
    return float((below + not_above).sum() / (2.0 * len(scores) * len(ordered)))


def mean_auc(runs: Sequence[ScoredRun]) -> float:
    """The mean over runs of each run's own AUC."""
    values = run_aucs(runs)
    return sum(values) / len(values)


def run_aucs(runs: Sequence[ScoredRun]) -> list[float]:
    """Each run's AUC."""
    if not runs:
        raise UsageError("no runs were scored", hint="For example `runs = 1`.")
    return [auc(run.members, run.non_members) for run in runs]


def true_positive_rate_at(members: Sequence[float], non_members: Sequence[float], *, fpr: float) -> float:
    """The largest TPR of a threshold whose FPR is at most ``fpr``.

    "Member" means a score *above* the threshold, and tied non-members fall together: with 900
    of 1,000 non-members at one score, no threshold below that score keeps an FPR of 1 %.
    """
    import numpy as np

    if not 0.0 <= fpr <= 1.0:
        raise UsageError(f"fpr is {fpr!r}", hint="For example `fpr = 0.01`, a rate in [0, 1].")
    others = np.sort(np.asarray(non_members, dtype=np.float64))[::-1]
    allowed = int(np.floor(fpr * len(others) * (1.0 + 1e-12)))
    if allowed >= len(others):
        return 1.0
    threshold = others[allowed]  # scores above it: at most ``allowed`` non-members, ties excluded
    return float(np.mean(np.asarray(members, dtype=np.float64) > threshold))


def roc_points(runs: Sequence[ScoredRun], *, at: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """(FPR, mean over runs of the TPR at that FPR), for the plot."""

    def mean(fpr: float) -> float:
        return sum(true_positive_rate_at(run.members, run.non_members, fpr=fpr) for run in runs) / len(runs)

    return tuple((fpr, mean(fpr)) for fpr in at)


def resampled_interval(
    values: Sequence[float], *, alpha: float, generator: np.random.Generator, resamples: int = 4000
) -> tuple[float, float]:
    """Approximate interval for the mean of per-run ``values``: runs are resampled, scores within them are not.

    One run says nothing about its spread: the interval is then [0, 1].
    """
    import numpy as np

    n = len(values)
    if n < 2:
        return 0.0, 1.0
    array = np.asarray(values, dtype=np.float64)
    tail = widened_tail(n, alpha=alpha)
    means = array[generator.integers(0, n, size=(resamples, n))].mean(axis=1)
    lower, upper = np.quantile(means, [tail, 1.0 - tail])
    return float(lower), float(upper)


def widened_tail(n: int, *, alpha: float) -> float:
    """α′/2: the percentile of a bootstrap over ``n`` >= 2 runs that stands for α/2 of ever so many."""
    from scipy.special import ndtr
    from scipy.stats import t as student

    return float(ndtr(math.sqrt(n / (n - 1)) * student.ppf(alpha / 2.0, n - 1)))


def exact_interval(values: Sequence[float], *, alpha: float) -> tuple[float, float]:
    """Interval for the mean of independent, identically distributed values in [0, 1], exact for any n.

    For a candidate mean m and a bet c in [0, 1], the product of 1 + c (x/m − 1) has expectation
    1 when the mean is m; so has an average over a fixed set of bets. By Markov it exceeds 2/α
    with probability at most α/2, and it falls with m: the lower limit is where it crosses. The
    upper limit is the same for 1 − x.
    """
    return _betting_lower(values, alpha=alpha / 2.0), 1.0 - _betting_lower([1.0 - x for x in values], alpha=alpha / 2.0)


def _betting_lower(values: Sequence[float], *, alpha: float) -> float:
    import numpy as np
    from scipy.special import logsumexp

    array = np.asarray(values, dtype=np.float64)
    if array.size == 0 or array.min() < 0.0 or array.max() > 1.0:
        raise UsageError(
            "the interval needs at least one value, all in [0, 1]", hint="One AUC a run, as in `values = [0.5, 0.6]`."
        )
    bets = np.arange(1, _BETS + 1) / _BETS

    def log_capital(mean: float) -> float:
        with np.errstate(divide="ignore"):
            growth = np.log1p(bets[:, None] * (array[None, :] / mean - 1.0)).sum(axis=1)
        return float(logsumexp(growth)) - float(np.log(_BETS))

    goal = -float(np.log(alpha))
    low, high = 0.0, 1.0
    while high - low > 1e-7:  # the lower end is returned: safe at any width
        middle = 0.5 * (low + high)
        low, high = (middle, high) if log_capital(middle) >= goal else (low, middle)
    return low
