"""One-shot prompts for a labelling task, shared by the attacks that query a prompted model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from affidavit.accountant.errors import DataError, UsageError
from affidavit.audits.attacks.protocol import View
from affidavit.audits.textmodel import Record, TextModel

__all__ = ["LabelPrompt", "label_of", "model_of"]


@dataclass(frozen=True, slots=True)
class LabelPrompt:
    """How a demonstration and a query are written.

    ``text_field`` and ``label_field`` name the two lines of an example; ``max_characters`` cuts
    every text, so that one long record does not fill the model's context.
    """

    instruction: str = "Sort each text into its category."
    text_field: str = "Text"
    label_field: str = "Category"
    max_characters: int = 600

    def _text(self, text: str) -> str:
        return " ".join(text.split())[: self.max_characters]

    def demonstration(self, record: Record) -> str:
        """A record as a demonstration: what goes into the private prompt."""
        return f"{self.text_field}: {self._text(record.text)}\n{self.label_field}: {label_of(record)}"

    def query(self, demonstrations: Sequence[str], text: str) -> str:
        """The prompt that asks for the label of ``text``."""
        head = [self.instruction, *demonstrations] if demonstrations else [self.instruction]
        return "\n\n".join([*head, f"{self.text_field}: {self._text(text)}\n{self.label_field}:"])

    def continuation(self, demonstrations: Sequence[str], text: str) -> tuple[str, str]:
        """A prompt that ends where a record's text begins, and that text."""
        head = [self.instruction, *demonstrations] if demonstrations else [self.instruction]
        return "\n\n".join([*head, f"{self.text_field}:"]), f" {self._text(text)}"


def label_of(record: Record) -> str:
    """The record's label. Raises ``DataError`` naming nothing but the missing field."""
    if record.label is None:
        raise DataError("a record has no label", hint="this attack needs records with a label field")
    return record.label


def model_of(view: View, attack: str) -> TextModel:
    """The view's model. Raises ``UsageError`` when the attack is given text only."""
    if view.model is None:
        raise UsageError(f"{attack} needs a model to query", hint="give the audit a model, or choose attack extraction")
    return view.model
