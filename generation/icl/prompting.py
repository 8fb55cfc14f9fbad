"""Which demonstrations are shown, and the prompt that shows them.

Demonstrations are drawn without replacement from a generator seeded by the evaluation's seed. For a
``choose`` task the labels take turns, in a random order, as far as the pool allows, so that four shots
of four labels show each label once; their order in the prompt is random too. Where fewer are shown than there are
labels, an accuracy depends on which: an evaluation takes several *draws*, which go through the labels in turn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from affidavit.accountant.errors import UsageError
from affidavit.generation.icl.examples import Example
from affidavit.generation.icl.tasks import Task

__all__ = ["choose_demonstrations", "prompt"]


def choose_demonstrations(
    pool: Sequence[Example], task: Task, *, shots: int, seed: int, draw: int = 0
) -> tuple[Example, ...]:
    """``shots`` of the pool's examples: a function of the pool, the task, the seed and ``draw``.

    Draws go on where the one before stopped, so that several cover the labels evenly. Which labels are shown, and in
    which order, is the same for all pools that hold the same labels. Raises ``UsageError`` where the pool is too small.
    """
    if shots > len(pool):
        raise UsageError(
            f"{shots} demonstrations are asked for and there are {len(pool)}",
            hint=f"At most `shots = {len(pool)}`, or generate more texts.",
        )
    among = np.random.default_rng([seed, shots])
    if task.kind != "choose":
        return _turned([int(index) for index in among.permutation(len(pool))], pool, shots=shots, draw=draw)
    waiting: dict[str, list[int]] = defaultdict(list)
    for index in np.random.default_rng([seed, shots, 1]).permutation(len(pool)):
        waiting[pool[int(index)].answers[0]].append(int(index))
    present = [label for label in task.words if label in waiting]
    turns = [present[int(place)] for place in among.permutation(len(present))]
    chosen: list[int] = []
    place = draw * shots
    while len(chosen) < shots:
        label = turns[place % len(turns)]
        here = waiting[label]
        # Every round over the labels takes the next text of each, as far as there are any.
        if (index := here[place // len(turns) % len(here)]) not in chosen:
            chosen.append(index)
        elif left := [one for one in here if one not in chosen]:
            chosen.append(left[0])
        place += 1
    order = np.random.default_rng([seed, shots, 2, draw]).permutation(shots)
    return tuple(pool[chosen[int(place)]] for place in order)


def _turned(order: Sequence[int], pool: Sequence[Example], *, shots: int, draw: int) -> tuple[Example, ...]:
    """The next ``shots`` of an order that begins anew at its end."""
    return tuple(pool[order[(draw * shots + place) % len(order)]] for place in range(shots))


def prompt(task: Task, demonstrations: Sequence[Example], question: str) -> str:
    """Instruction, demonstrations, and the question up to where the answer begins."""
    shown = [
        f"{task.input_name}: {one.input}\n{task.answer_name}: {_shown(task, one.answers[0])}" for one in demonstrations
    ]
    asked = f"{task.input_name}: {question}\n{task.answer_name}:"
    return "\n\n".join([task.instruction, *shown, asked])


def _shown(task: Task, answer: str) -> str:
    return task.words.get(answer, answer) if task.kind == "choose" else answer
