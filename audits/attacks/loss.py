"""The loss attack: how well the prompted model predicts the record's text.

Yeom, Giacomelli, Fredrikson and Jha (2018): a model's loss is lower on what it has seen. Texts
differ far more among themselves than a prompt can move them, so this is the weakest of the
likelihood attacks, and the measure of what calibration (``reference``, ``zlib_ratio``) is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from affidavit.audits.attacks.prompting import LabelPrompt, text_log_likelihoods
from affidavit.audits.attacks.protocol import View, access
from affidavit.audits.textmodel import Record

__all__ = ["Loss"]


@dataclass(frozen=True, slots=True)
class Loss:
    """Score: ln P(text | context) in nats a character, the loss negated."""

    name = "loss"
    needs = access("log-probabilities")

    prompt: LabelPrompt = field(default_factory=LabelPrompt)

    def scores(self, view: View, records: Sequence[Record]) -> list[float]:
        """Higher says "member"."""
        values = text_log_likelihoods(view, self.prompt, records, attack=self.name)
        return [
            value / max(1, len(self.prompt.shown(record.text))) for value, record in zip(values, records, strict=True)
        ]
