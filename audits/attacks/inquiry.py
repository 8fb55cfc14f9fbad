"""The inquiry attack: ask the model whether it has seen the text.

Wen et al. (2024). It needs one answer; whether a model knows what is in its own prompt decides
what it is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from affidavit.audits.attacks.prompting import LabelPrompt, answers_with
from affidavit.audits.attacks.protocol import View, access, answering_model
from affidavit.audits.textmodel import Record

__all__ = ["Inquiry"]


@dataclass(frozen=True, slots=True)
class Inquiry:
    """Score: 1 if the model says yes, 0 if it says no, 1/2 if it says neither."""

    name = "inquiry"
    needs = access("answers")

    prompt: LabelPrompt = field(default_factory=LabelPrompt)
    max_tokens: int = 4

    def question(self, text: str) -> str:
        """What is asked about a text, after the demonstrations."""
        return (
            "Question: does the following text stand word for word among the examples above?\n"
            f"{self.prompt.text_field}: {self.prompt.shown(text)}\nAnswer with yes or no:"
        )

    def scores(self, view: View, records: Sequence[Record]) -> list[float]:
        """Higher says "member"."""
        prompts = [self.prompt.asked(view.texts, self.question(record.text)) for record in records]
        answers = answering_model(view, self.name).generate(prompts, max_tokens=self.max_tokens)
        return [
            1.0 if answers_with(answer, "yes") else 0.0 if answers_with(answer, "no") else 0.5 for answer in answers
        ]
