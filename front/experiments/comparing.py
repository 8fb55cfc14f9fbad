r"""Whether a method's demonstrations are worth more than those it is compared with: paired differences.

Two methods of one seed show demonstrations of the same labels in the same order and are asked the same questions, so
a difference is that of their texts. Over S seeds and T test examples d̄ is the mean of d_st, each example's share of
right answers under one method less that under the other. Its standard error takes both as samples, of texts that may
be written and of questions that may be asked:

    SE² = s²(d_1·, …, d_S·)/S + s²(d_·1, …, d_·T)/T

with d_s· the mean of a seed and d_·t that of an example. For crossed effects the first part estimates the variance of
seeds and of the rest, the second that of examples and of the rest, which is so counted twice: never too small on
average. The degrees of freedom are Satterthwaite's (1946), (a + b)²/(a²/(S − 1) + b²/(T − 1)), the p-value is the
two-sided one of Student's t. Holm's step-down (1979) then holds the chance of one false "differs" among all m methods
and ε of a data set, model and number of demonstrations at the level: p_(k) becomes max over j ≤ k of (m − j + 1)·p_(j).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from affidavit.experiments.running import CellResult

__all__ = ["LEVEL", "Comparison", "comparisons", "holm"]

LEVEL = 0.05
"""Of the intervals, and of what Holm's procedure calls a difference."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """``difference`` of a method's score to that of ``beside``, with its standard error and its interval (95 %).

    ``p_value`` is that of one comparison, ``p_holm`` holds for all of the same data set, model and shots together.
    """

    dataset: str
    model: str
    method: str
    epsilon: float
    shots: int
    beside: str
    seeds: int
    examples: int
    difference: float
    error: float
    low: float
    high: float
    p_value: float
    p_holm: float = math.nan

    @property
    def errors(self) -> float:
        """The difference in standard errors."""
        return self.difference / self.error if self.error > 0.0 else math.copysign(math.inf, self.difference)


def comparisons(results: Sequence[CellResult]) -> tuple[Comparison, ...]:
    """Every method that was scored example by example at two seeds or more, beside the one it is compared with."""
    cells: dict[tuple[str, str, str, float], dict[int, CellResult]] = {}
    for one in results:
        cells.setdefault((one.model, one.dataset, one.method, one.epsilon), {})[one.seed] = one
    found: list[Comparison] = []
    for (model, dataset, method, _), mine in cells.items():
        beside = next(iter(mine.values())).beside
        theirs = cells.get((model, dataset, beside, 0.0))
        if theirs is None or method == beside:
            continue
        for shots in sorted({count for one in mine.values() for count in one.right}):
            if (compared := _compared(mine, theirs, shots, beside)) is not None:
                found.append(compared)
    return _corrected(found)


def _compared(
    mine: Mapping[int, CellResult], theirs: Mapping[int, CellResult], shots: int, beside: str
) -> Comparison | None:
    seeds = [seed for seed in mine if seed in theirs and mine[seed].right.get(shots) and theirs[seed].right.get(shots)]
    if len(seeds) < 2:
        return None
    pairs = [(mine[seed].right[shots], theirs[seed].right[shots]) for seed in seeds]
    apart = np.array([np.subtract(here, there) for here, there in pairs], dtype=np.float64)
    first = mine[seeds[0]]
    difference, error, freedom = _estimate(apart)
    half, p_value = _student(difference, error, freedom)
    return Comparison(
        dataset=first.dataset,
        model=first.model,
        method=first.method,
        epsilon=first.epsilon,
        shots=shots,
        beside=beside,
        seeds=len(seeds),
        examples=apart.shape[1],
        difference=difference,
        error=error,
        low=difference - half,
        high=difference + half,
        p_value=p_value,
    )


def _estimate(apart: NDArray[np.float64]) -> tuple[float, float, float]:
    """The mean of (seeds, examples), its standard error and degrees of freedom."""
    seeds, examples = apart.shape
    over_seeds = float(apart.mean(axis=1).var(ddof=1)) / seeds
    over_examples = float(apart.mean(axis=0).var(ddof=1)) / examples if examples > 1 else 0.0
    variance = over_seeds + over_examples
    weights = over_seeds**2 / (seeds - 1) + (over_examples**2 / (examples - 1) if examples > 1 else 0.0)
    freedom = variance**2 / weights if weights > 0.0 else math.inf
    return float(apart.mean()), math.sqrt(variance), freedom


def _student(difference: float, error: float, freedom: float) -> tuple[float, float]:
    """Half an interval's width, and the two-sided p-value."""
    from scipy.stats import t

    if error == 0.0:
        return 0.0, 1.0 if difference == 0.0 else 0.0
    return float(t.ppf(1.0 - LEVEL / 2.0, freedom)) * error, float(2.0 * t.sf(abs(difference) / error, freedom))


def _corrected(found: Sequence[Comparison]) -> tuple[Comparison, ...]:
    families: dict[tuple[str, str, int], list[int]] = {}
    for place, one in enumerate(found):
        families.setdefault((one.model, one.dataset, one.shots), []).append(place)
    result = list(found)
    for places in families.values():
        for place, p_value in zip(places, holm([found[place].p_value for place in places]), strict=True):
            result[place] = replace(found[place], p_holm=p_value)
    return tuple(result)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's adjusted p-values, in the order given."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    result = [0.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[place]))
        result[place] = largest
    return tuple(result)
