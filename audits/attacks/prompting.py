"""Prompts of a labelling task, shared by the attacks that query a prompted model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from affidavit.accountant.errors import DataError
from affidavit.audits.attacks.protocol import View, text_model
from affidavit.audits.textmodel import Record

__all__ = ["LabelPrompt", "answers_with", "label_log_probabilities", "label_of", "text_log_likelihoods"]

_NOT_WORD = re.compile(r"[\W_]+")


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

    def shown(self, text: str) -> str:
        """What of a text a prompt shows: white space folded, cut to ``max_characters``."""
        return " ".join(text.split())[: self.max_characters]

    def example(self, text: str, label: str) -> str:
        """A text with a label, right or wrong."""
        return f"{self.text_field}: {self.shown(text)}\n{self.label_field}: {label}"

    def demonstration(self, record: Record) -> str:
        """A record as a demonstration: what goes into the private prompt."""
        return self.example(record.text, label_of(record))

    def asked(self, demonstrations: Sequence[str], question: str) -> str:
        """Instruction, demonstrations and a question, a blank line between them."""
        return "\n\n".join([self.instruction, *demonstrations, question])

    def query(self, demonstrations: Sequence[str], text: str) -> str:
        """The prompt that asks for the label of ``text``."""
        return self.asked(demonstrations, f"{self.text_field}: {self.shown(text)}\n{self.label_field}:")

    def continuation(self, demonstrations: Sequence[str], text: str) -> tuple[str, str]:
        """A prompt that ends where a record's text begins, and that text."""
        return self.asked(demonstrations, f"{self.text_field}:"), f" {self.shown(text)}"


def label_of(record: Record) -> str:
    """The record's label. Raises ``DataError`` naming nothing but the missing field."""
    if record.label is None:
        raise DataError(
            "a record has no label", hint='This attack needs records with a label, as in `label = "north"`.'
        )
    return record.label


def answers_with(answer: str, label: str) -> bool:
    """Whether an answer begins with a label: whole words, letters and digits only, case folded."""
    given, wanted = (_NOT_WORD.sub(" ", text.casefold()).split() for text in (answer, label))
    return bool(wanted) and given[: len(wanted)] == wanted


def label_log_probabilities(view: View, prompt: LabelPrompt, records: Sequence[Record], *, attack: str) -> list[float]:
    """ln P(true label | the view's demonstrations, the record's text), each at most 0."""
    return text_model(view, attack).log_likelihoods(
        [prompt.query(view.texts, record.text) for record in records],
        [f" {label_of(record)}" for record in records],
    )


def text_log_likelihoods(view: View, prompt: LabelPrompt, records: Sequence[Record], *, attack: str) -> list[float]:
    """ln P(the record's text | the view's demonstrations), summed over tokens."""
    pairs = [prompt.continuation(view.texts, record.text) for record in records]
    return text_model(view, attack).log_likelihoods([start for start, _ in pairs], [text for _, text in pairs])
