"""The GAP attack: members are the records whose label the prompted model gets right.

Wen, Li, Backes and Zhang (2024, "Membership inference attacks against in-context learning"), after
Yeom et al. (2018), whose "gap" is that between accuracy on seen and unseen records. It needs one
answer and no probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from affidavit.audits.attacks.prompting import LabelPrompt, answers_with, label_of
from affidavit.audits.attacks.protocol import View, access, answering_model
from affidavit.audits.textmodel import Record

__all__ = ["Gap"]


@dataclass(frozen=True, slots=True)
class Gap:
    """Score: 1 if the answer begins with the true label, else 0."""

    name = "gap"
    needs = access("answers")

    prompt: LabelPrompt = field(default_factory=LabelPrompt)
    max_tokens: int = 8

    def scores(self, view: View, records: Sequence[Record]) -> list[float]:
        """Higher says "member"."""
        prompts = [self.prompt.query(view.texts, record.text) for record in records]
        answers = answering_model(view, self.name).generate(prompts, max_tokens=self.max_tokens)
        return [float(answers_with(answer, label_of(record))) for answer, record in zip(answers, records, strict=True)]
