"""A labelling task of one's own, written in a file: its labels, and the wording that asks for them.

    labels = ["Billing", "Delivery"]
    instruction = "Say which team the letter is for: Billing or Delivery."

It is the ``task`` of a data set in a grid file, and a file of its own for ``affidavit icl --task FILE.toml``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from affidavit.accountant.errors import RunFileError
from affidavit.accountant.remedies import setting
from affidavit.generation.icl.tasks import Task, own_task
from affidavit.strict import StrictTable, checked, read_toml

__all__ = ["OwnTask", "load_task"]

Word = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
Words = Annotated[int, Field(ge=1, le=10_000)]


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


class OwnTask(StrictTable):
    """Labels, and how they are asked for.

    ``instruction`` begins every prompt; if left out it lists the labels. ``input`` and ``answer`` are the words before
    a text and its label. ``words``: what stands for a label in a prompt, where it is not the label itself. Texts are
    cut to ``max_input_words`` words.
    """

    labels: Annotated[tuple[Word, ...], BeforeValidator(_as_tuple), Field(min_length=2)]
    instruction: Word | None = None
    input: Word = "Text"
    answer: Word = "Answer"
    words: dict[str, Word] = Field(default_factory=dict)
    max_input_words: Words = 100

    @model_validator(mode="after")
    def _whole(self) -> OwnTask:
        if len(set(self.labels)) != len(self.labels):
            once = setting("labels", list(dict.fromkeys(self.labels)))
            raise RunFileError("labels", "one stands there twice", hint=f"Name each once: {once}.")
        if unknown := set(self.words) - set(self.labels):
            key = f"words.{min(unknown)[:40]}"
            raise RunFileError(
                key, "no label of the task", allowed=" | ".join(self.labels), hint=f"Remove `{key}`, or name a label."
            )
        return self

    def task(self) -> Task:
        """As it is asked."""
        return own_task(
            {label: self.words.get(label, label) for label in self.labels},
            instruction=self.instruction,
            input_name=self.input,
            answer_name=self.answer,
            max_input_words=self.max_input_words,
        )


def load_task(path: Path) -> Task:
    """A task from a TOML file. Raises ``RunFileError`` naming the key."""
    return checked(OwnTask, read_toml(path)).task()
