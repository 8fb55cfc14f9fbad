"""The label-probability attack on in-context learning.

Duan, Dziedzic, Papernot and Boenisch (2023): a model that has just seen a record in its prompt
is surer of that record's label than of another's. The score of a record is the log-probability
that the prompted model gives to its true label.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from affidavit.audits.attacks.prompting import LabelPrompt, label_log_probabilities
from affidavit.audits.attacks.protocol import View, access
from affidavit.audits.textmodel import Record

__all__ = ["LabelProbability"]


@dataclass(frozen=True, slots=True)
class LabelProbability:
    """Score: ln P(true label | demonstrations, the record's text)."""

    name = "label-probability"
    needs = access("label probabilities")

    prompt: LabelPrompt = field(default_factory=LabelPrompt)

    def scores(self, view: View, records: Sequence[Record]) -> list[float]:
        """Higher says "member"."""
        return label_log_probabilities(view, self.prompt, records, attack=self.name)
