"""Accuracy of a model with k demonstrations, over several seeds.

A seed decides which demonstrations are shown and in which order. The test examples are the same for all
seeds and all demonstrations (``subset``), so that differences between two evaluations are differences
between demonstrations; the standard deviation is over seeds, not over test examples.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from affidavit.accountant.errors import UsageError
from affidavit.generation.icl.answering import Answered, answer, marks, score
from affidavit.generation.icl.prompting import choose_demonstrations
from affidavit.generation.icl.tasks import Task

if TYPE_CHECKING:
    from affidavit.generation.icl.examples import Example
    from affidavit.generation.models.base import LanguageModel

__all__ = ["Evaluation", "SeedScore", "check_seeds", "evaluate", "subset"]

_SUBSET_SEED = 2021


@dataclass(frozen=True, slots=True)
class SeedScore:
    """What one seed's demonstrations gave."""

    seed: int
    scores: dict[str, float]
    right: tuple[float, ...] = field(default=(), repr=False)
    """Of each example, in how many of the draws it was answered rightly (a share); empty for written answers."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores of every seed; mean and standard deviation (n − 1; 0 for one seed) of each metric."""

    task: str
    metric: str
    model: str
    shots: int
    examples: int
    seeds: tuple[SeedScore, ...]

    def mean(self, metric: str | None = None) -> float:
        """The mean over seeds of a metric; the task's own if none is named."""
        return statistics.fmean(self._values(metric))

    def deviation(self, metric: str | None = None) -> float:
        """The standard deviation over seeds."""
        values = self._values(metric)
        return statistics.stdev(values) if len(values) > 1 else 0.0

    def _values(self, metric: str | None) -> list[float]:
        return [one.scores[metric or self.metric] for one in self.seeds]

    def to_json(self) -> dict[str, Any]:
        """Plain values, the task's own metric first."""
        return {
            "task": self.task,
            "model": self.model,
            "shots": self.shots,
            "examples": self.examples,
            "metric": self.metric,
            "mean": self.mean(),
            "standard_deviation": self.deviation(),
            "metrics": {
                name: {"mean": self.mean(name), "standard_deviation": self.deviation(name)}
                for name in self.seeds[0].scores
            },
            "seeds": [{"seed": one.seed, **one.scores} for one in self.seeds],
        }


def subset(examples: Sequence[Example], limit: int | None) -> tuple[Example, ...]:
    """At most ``limit`` examples: always the same ones of a file, in the file's order."""
    if limit is None or limit >= len(examples):
        return tuple(examples)
    chosen = np.random.default_rng(_SUBSET_SEED).permutation(len(examples))[:limit]
    return tuple(examples[index] for index in sorted(int(place) for place in chosen))


def check_seeds(seeds: Sequence[int]) -> None:
    """Raises ``UsageError`` unless there are some and no two are equal."""
    if not seeds or len(set(seeds)) != len(seeds):
        raise UsageError("seeds are missing or not distinct", hint="For example `--seeds 0,1,2`.")


def evaluate(
    model: LanguageModel,
    task: Task,
    *,
    demonstrations: Sequence[Example],
    examples: Sequence[Example],
    shots: int,
    seeds: Sequence[int],
    draws: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Ask for every example with every seed's demonstrations. ``progress`` is told (seeds done, seeds).

    ``draws``: each seed's demonstrations are chosen and ordered so many times, and its scores are the means, so that a
    difference is not one of order or of the labels that happened to be shown.

    With no shots nothing depends on the seed: the model is asked once. Raises ``UsageError`` where there
    are too few demonstrations, no seed or no example, or prompts do not fit the model.
    """
    check_seeds(seeds)
    if not examples:
        raise UsageError("there is no example to test on", hint="Give a labelled test file.")
    chosen = [
        [choose_demonstrations(demonstrations, task, shots=shots, seed=seed, draw=draw) for draw in range(draws)]
        for seed in seeds
    ]
    found: list[SeedScore] = []
    for number, (seed, shown) in enumerate(zip(seeds, chosen, strict=True)):
        if shots == 0 and found:
            found.append(replace(found[0], seed=seed))
        else:
            given = [answer(model, task, each, examples) for each in (shown if shots else shown[:1])]
            found.append(SeedScore(seed, _mean_scores(task, given, examples), _right_share(task, given, examples)))
        if progress is not None:
            progress(number + 1, len(seeds))
    return Evaluation(task.name, task.metric, model.name, shots, len(examples), tuple(found))


def _mean_scores(task: Task, given: Sequence[Answered], examples: Sequence[Example]) -> dict[str, float]:
    """Each score's mean over draws."""
    each = [score(task, one, examples) for one in given]
    return {name: statistics.fmean(one[name] for one in each) for name in each[0]}


def _right_share(task: Task, given: Sequence[Answered], examples: Sequence[Example]) -> tuple[float, ...]:
    """Each example's mean over draws."""
    each = [marks(task, one, examples) for one in given]
    return tuple(statistics.fmean(column) for column in zip(*each, strict=True))
