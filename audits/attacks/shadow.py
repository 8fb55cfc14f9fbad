"""Shadow prompts: for in-context learning, a shadow model is a new prompt, and costs nothing to train.

Carlini et al. (2022) and Zarifzadeh et al. (2024) compare the audited model with models that are
known to have seen a record, or not to. Here the model is the same and the prompt differs: the
attacker writes prompts from records that are nobody's, with the record in one place or without it.
What he then sees does not depend on the audited run, so it is computed once a record and kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from affidavit.accountant.errors import RunFileError
from affidavit.audits.attacks.caching import Memory
from affidavit.audits.attacks.prompting import LabelPrompt, label_log_probabilities
from affidavit.audits.attacks.protocol import View
from affidavit.audits.textmodel import Record, TextModel

__all__ = ["ShadowScores", "Shadows", "make_shadows"]

_Key = tuple[str, tuple[str, ...], Record]


@dataclass(frozen=True, slots=True)
class Shadows:
    """``prompts``: the records of each shadow prompt; ``population``: records in none of them."""

    prompts: tuple[tuple[Record, ...], ...]
    population: tuple[Record, ...] = ()

    def without(self, prompt: LabelPrompt) -> list[tuple[str, ...]]:
        """The demonstrations of every shadow prompt as it is."""
        return [tuple(prompt.demonstration(record) for record in shown) for shown in self.prompts]

    def holding(self, record: Record, prompt: LabelPrompt) -> list[tuple[str, ...]]:
        """The same with ``record`` in place of one demonstration: each place in turn."""
        own = prompt.demonstration(record)
        result = []
        for number, shown in enumerate(self.without(prompt)):
            place = number % len(shown)
            result.append((*shown[:place], own, *shown[place + 1 :]))
        return result


def make_shadows(records: Sequence[Record], *, prompts: int, shots: int, population: int, seed: int) -> Shadows:
    """Disjoint prompts of ``shots`` records each, and a population apart from them, drawn by ``seed``.

    Disjoint, because prompts that share a record are not independent shadows. Raises
    ``RunFileError`` naming ``shadow_prompts`` or ``population`` where the records do not suffice.
    """
    possible = len(records) // shots
    if prompts > possible:
        raise RunFileError(
            "shadow_prompts",
            f"{prompts} are asked for, {len(records)} shadow records make {possible} prompts of {shots}",
            hint=f"At most `shadow_prompts = {possible}`, or give more records.",
        )
    left = len(records) - prompts * shots
    if population > left:
        raise RunFileError(
            "population",
            f"{population} are asked for, {left} records are in no shadow prompt",
            hint=f"At most `population = {left}`, or give more records.",
        )
    order = [records[i] for i in np.random.default_rng(seed).permutation(len(records))]
    chosen = [tuple(order[i * shots : (i + 1) * shots]) for i in range(prompts)]
    return Shadows(tuple(chosen), tuple(order[prompts * shots :][:population]))


@dataclass(slots=True)
class ShadowScores:
    """ln P(true label) of records under shadow prompts, remembered.

    ``model`` answers under prompts of the attacker's own making: the audited model, or where that
    is an endpoint, another that the attacker has.
    """

    prompt: LabelPrompt
    attack: str
    memory: Memory[_Key, float] = field(default_factory=Memory, init=False, repr=False)

    def under(self, model: TextModel, asked: Sequence[tuple[tuple[str, ...], Record]]) -> list[float]:
        """One value for each (demonstrations, record)."""

        def fresh(keys: list[_Key]) -> list[float]:
            values: dict[_Key, float] = {}
            for shown in dict.fromkeys(texts for _, texts, _ in keys):
                together = [key for key in keys if key[1] == shown]
                records = [record for _, _, record in together]
                found = label_log_probabilities(View(shown, model), self.prompt, records, attack=self.attack)
                values.update(zip(together, found, strict=True))
            return [values[key] for key in keys]

        return self.memory.get([(model.digest, texts, record) for texts, record in asked], fresh)
