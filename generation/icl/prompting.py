"""Which demonstrations are shown, and the prompt that shows them.

Demonstrations are drawn without replacement from a generator seeded by the evaluation's seed. For a
``choose`` task the labels take turns, in a random order, as far as the pool allows, so that four shots
of four labels show each label once; their order in the prompt is random too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from affidavit.accountant.errors import UsageError
from affidavit.generation.icl.examples import Example
from affidavit.generation.icl.tasks import Task

__all__ = ["choose_demonstrations", "prompt"]


def choose_demonstrations(pool: Sequence[Example], task: Task, *, shots: int, seed: int) -> tuple[Example, ...]:
    """``shots`` of the pool's examples, a function of the pool, the task and the seed.

    Raises ``UsageError`` where the pool is too small.
    """
    if shots > len(pool):
        raise UsageError(
            f"{shots} demonstrations are asked for and there are {len(pool)}",
            hint=f"At most `shots = {len(pool)}`, or generate more texts.",
        )
    noise = np.random.default_rng([seed, shots])
    order = [int(index) for index in noise.permutation(len(pool))]
    if task.kind != "choose":
        return tuple(pool[index] for index in order[:shots])
    waiting: dict[str, list[int]] = defaultdict(list)
    for index in order:
        waiting[pool[index].answers[0]].append(index)
    chosen: list[int] = []
    while len(chosen) < shots:
        present = [label for label in waiting if waiting[label]]
        turn = [present[int(place)] for place in noise.permutation(len(present))]
        chosen += [waiting[label].pop() for label in turn[: shots - len(chosen)]]
    return tuple(pool[chosen[int(place)]] for place in noise.permutation(shots))


def prompt(task: Task, demonstrations: Sequence[Example], question: str) -> str:
    """Instruction, demonstrations, and the question up to where the answer begins."""
    shown = [
        f"{task.input_name}: {one.input}\n{task.answer_name}: {_shown(task, one.answers[0])}" for one in demonstrations
    ]
    asked = f"{task.input_name}: {question}\n{task.answer_name}:"
    return "\n\n".join([task.instruction, *shown, asked])


def _shown(task: Task, answer: str) -> str:
    return task.words.get(answer, answer) if task.kind == "choose" else answer
