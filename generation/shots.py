"""Prompts that show several records, and their fixed shape.

A private prompt shows up to N records of one subset; the public prompt shows none and is the *instruction alone*, from
which the vocabulary may be reduced. Public text surrounds and separates the records and is tokenised apart from them.
Every record is cut to ``max_record_tokens`` tokens, a prompt shows at most N, and every row is padded to one public
width: so neither length nor number shows in the shape of anything.

The wording follows the papers' form (an instruction, demonstrations "Type: … Text: …", then the type alone) in words of
our own: tasks that end in ``-completion``, for models without a chat template. The others are ``prompts.TASKS``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import model_validator

from affidavit.generation.prompts import TASKS, PromptRows, PromptTemplate, fill, placeholders, prompt_rows, refused

if TYPE_CHECKING:
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import LanguageModel

__all__ = ["SHOT_TASKS", "ShotRows", "ShotTemplate", "shot_rows"]


class ShotTemplate(PromptTemplate):
    """A ``PromptTemplate`` whose ``{text}`` stands for all records of a subset.

    ``record``: how one record is written; ``{text}`` once, ``{label}`` is *its own* label, as private as its text.
    ``between``: public text between two records; ``{label}`` is the label that is written for.
    ``until``: a text ends before it, where a model without chat template would go on with another one; empty: nowhere.
    """

    record: str = "{text}"
    between: str = "\n\n"
    until: str = ""

    @model_validator(mode="after")
    def _shots(self) -> ShotTemplate:
        for name, most in (("record", 1), ("between", 0)):
            found = placeholders(getattr(self, name), name)
            if found.count("text") != most or any(field not in {"text", "label"} for field in found):
                raise refused(name, f"{{text}} stands there {found.count('text')} times, not {most}")
        return self

    def written(self, record: Record) -> str:
        """One record as it stands in a prompt: private text."""
        return fill(self.record, "record", label=record.label, text=record.text)

    def ended(self, answer: str) -> bool:
        """Whether what is written so far holds a whole text: nothing that follows is kept."""
        return bool(self.until) and self.until in answer.lstrip()

    def kept(self, answer: str) -> str:
        """What of an answer is the text, without white space around it."""
        begun = answer.lstrip()
        return (begun.partition(self.until)[0] if self.until else begun).rstrip()


def _completion(instruction: str, kind: str, text: str) -> ShotTemplate:
    shown = f"{kind}: {{label}}\n{text}:"
    return ShotTemplate(
        private=f"{instruction}\n\n{shown} {{text}}\n\n",
        public=f"{instruction}\n\n",
        answer_prefix=shown,
        between=f"\n\n{shown} ",
        until="\n",
        frame="plain",
    )


def _slot(slot: str) -> ShotTemplate:
    """Any record may stand in the prompt, with its own slot value."""
    name = slot.capitalize()
    instruction = f"Write what someone says about a film. Use the words that are given for the {slot}.\n\n"
    return ShotTemplate(
        private=f"{instruction}{name}: {{text}}\n\n",
        public=instruction,
        record="{label}\nSentence: {text}",
        between=f"\n\n{name}: ",
        answer_prefix=f"{name}: {{label}}\nSentence:",
        until="\n",
        frame="plain",
    )


SHOT_TASKS: dict[str, ShotTemplate] = {
    **{name: ShotTemplate(**template.model_dump()) for name, template in TASKS.items()},
    "generic-completion": _completion("Write a text of the given category.", "Category", "Text"),
    "ag-news-completion": _completion("Write a news story of the given type.", "News type", "Text"),
    "dbpedia-completion": _completion(
        "Write the beginning of an encyclopedia article. The type of its subject is given.", "Type", "Text"
    ),
    "trec-completion": _completion("Write a question. The type of its answer is given.", "Answer type", "Question"),
    "mit-g-completion": _slot("genre"),
    "mit-d-completion": _slot("director"),
}
"""Built-in wording, by the run file's ``task``."""


@dataclass(frozen=True, slots=True)
class ShotRows:
    """The public tokens of one label's prompts, and the public width of its private rows."""

    one: PromptRows
    between: tuple[int, ...]
    shots: int

    @property
    def public(self) -> tuple[int, ...]:
        """The instruction-only prompt."""
        return self.one.public

    @property
    def opening(self) -> str:
        """What the synthetic text begins with."""
        return self.one.opening

    @property
    def width(self) -> int:
        """Tokens that a private row is padded to before any are generated."""
        extra = (self.shots - 1) * (len(self.between) + self.one.max_record_tokens)
        return self.one.width + extra

    def row(self, records: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """The row of up to N records' tokens, each cut; with none it is a dummy row, whose outcome is not used."""
        shown: list[int] = []
        for index, tokens in enumerate(records[: self.shots]):
            shown += (
                (*self.between, *tokens[: self.one.max_record_tokens])
                if index
                else tokens[: self.one.max_record_tokens]
            )
        return (*self.one.before, *shown, *self.one.after)


def shot_rows(
    model: LanguageModel, template: ShotTemplate, *, label: str, shots: int, max_record_tokens: int
) -> ShotRows:
    """Tokenise a template for one label."""
    between = fill(template.between, "between", label=label)
    return ShotRows(
        prompt_rows(model, template, label=label, max_record_tokens=max_record_tokens),
        tuple(model.encode(between, trusted=True)),
        shots,
    )
