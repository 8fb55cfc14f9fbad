"""The brainwash attack: how often must the model be told a wrong label before it believes it?

Wen et al. (2024). What the model has read in its prompt it gives up later. Before the question the
record is shown with one wrong label, as many times as it takes; the number of times is the score.
It needs answers only, and unlike GAP it also tells apart records whose label the model knows anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from affidavit.accountant.errors import UsageError
from affidavit.audits.attacks.prompting import LabelPrompt, answers_with, label_of
from affidavit.audits.attacks.protocol import View, access, answering_model
from affidavit.audits.textmodel import Record

__all__ = ["Brainwash"]


@dataclass(frozen=True, slots=True)
class Brainwash:
    """Score: the number of wrong demonstrations that change the answer.

    0 if the answer was wrong from the start, ``rounds`` + 1 if it never gave way. ``labels`` are
    the task's; the wrong one is the next after the true one, so that scoring twice gives the same.
    """

    name = "brainwash"
    needs = access("answers")

    labels: tuple[str, ...]
    prompt: LabelPrompt = field(default_factory=LabelPrompt)
    rounds: int = 5
    max_tokens: int = 8

    def __post_init__(self) -> None:
        if len(set(self.labels)) < 2:
            raise UsageError(
                "brainwash needs a wrong label", hint='Give at least two labels, as in `labels = ["north", "south"]`.'
            )

    def wrong(self, label: str) -> str:
        """The label that the model is told: the next in sorted order, around the end."""
        others = sorted({*self.labels, label})
        return others[(others.index(label) + 1) % len(others)]

    def scores(self, view: View, records: Sequence[Record]) -> list[float]:
        """Higher says "member"."""
        model = answering_model(view, self.name)
        result = [0.0] * len(records)
        firm = list(range(len(records)))
        for told in range(self.rounds + 1):
            prompts = [self._question(view, records[i], told) for i in firm]
            answers = model.generate(prompts, max_tokens=self.max_tokens) if prompts else []
            firm = [i for i, answer in zip(firm, answers, strict=True) if answers_with(answer, label_of(records[i]))]
            for i in firm:
                result[i] = float(told + 1)
        return result

    def _question(self, view: View, record: Record, told: int) -> str:
        lie = self.prompt.example(record.text, self.wrong(label_of(record)))
        return self.prompt.query((*view.texts, *[lie] * told), record.text)
