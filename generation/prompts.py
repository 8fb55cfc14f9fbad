"""Prompt templates, and how a record is put between public tokens.

A private prompt holds one record; the public prompt holds none. Both are a user's message, wrapped by the
model's chat template unless ``frame`` is ``plain``, and the beginning of the answer. What surrounds a
record is tokenised apart from it, so that every private row is ``before + record + after`` with public
``before`` and ``after`` and its greatest width is public too. Tokens of a record are never read as
control tokens.

``{label}`` stands for the batch's label, ``{text}`` for the record; ``{{`` and ``}}`` for braces.

Tasks that end in ``-completion`` are the plain wordings, for models without a chat template and for small ones: they
follow the form of Tang et al. 2024 and Zhao et al. 2021 (an instruction, demonstrations "Type: … Text: …", then the
type alone) in words of our own, with no frame around them; a text ends at a line break.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from affidavit.accountant.errors import RunFileError
from affidavit.accountant.remedies import did_you_mean, setting

if TYPE_CHECKING:
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import LanguageModel

__all__ = [
    "TASKS",
    "PromptRows",
    "PromptTemplate",
    "fill",
    "placeholders",
    "prompt_rows",
    "refused",
    "task_template",
]

_TEXTS = {"private": 1, "public": 0, "answer_prefix": 0, "opening": 0, "record": 1, "between": 0}
"""How often ``{text}`` stands in each field."""

_HINT = "{label} may stand anywhere, {text} stands once in private; a brace to be printed is doubled."


class PromptTemplate(BaseModel):
    """The wording of one task. ``private`` holds ``{text}`` exactly once; ``public`` never does.

    The answer begins with ``answer_prefix`` and ``opening``; of these, only ``opening`` is part of the
    synthetic text.

    ``record``: how one record is written; ``{text}`` once, ``{label}`` is *its own* label, as private as its text.
    ``between``: public text between two records, where a prompt shows several; ``{label}`` is the label that is
    written for. ``until``: a text ends before it, where a model without chat template would go on with another one;
    empty: nowhere.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    private: str
    public: str
    answer_prefix: str = ""
    opening: str = ""
    frame: Literal["chat", "plain"] = "chat"
    record: str = "{text}"
    between: str = "\n\n"
    until: str = ""

    @model_validator(mode="after")
    def _placeholders(self) -> PromptTemplate:
        for name, most in _TEXTS.items():
            fields = placeholders(getattr(self, name), name)
            for field in fields:
                if field not in ("label", "text"):
                    raise refused(name, f"unknown placeholder {{{field[:40]}}}")
            if fields.count("text") != most:
                raise refused(name, f"{{text}} stands there {fields.count('text')} times, not {most}")
        if not self.public.strip():
            raise refused("public", "empty")
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


def refused(name: str, problem: str) -> RunFileError:
    """The error about one field of a template."""
    shown = {"record": "{text}", "between": "\n\n"}.get(name) or getattr(TASKS["generic"], name)
    hint = f"For example {setting(f'generator.prompts.{name}', shown)}. {_HINT}"
    return RunFileError(f"generator.prompts.{name}", problem, hint=hint)


def _pieces(template: str, name: str) -> list[tuple[str, str | None]]:
    """(literal, placeholder after it or None) pairs."""
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError:
        raise refused(name, "a brace without its partner") from None
    if any(spec or conversion for _, _, spec, conversion in parsed):
        raise refused(name, "a placeholder with a format")
    return [(literal, field) for literal, field, _, _ in parsed]


def placeholders(template: str, name: str) -> list[str]:
    """The placeholders of a field, in order. Raises ``RunFileError``."""
    return [field for _, field in _pieces(template, name) if field is not None]


def fill(template: str, name: str, *, label: str, text: str = "") -> str:
    """A field with its placeholders replaced."""
    values = {"label": label, "text": text}
    return "".join(literal + (values[field] if field else "") for literal, field in _pieces(template, name))


def _movie(slot: str) -> PromptTemplate:
    return PromptTemplate(
        private=f'Read what someone said about a film. The {slot} is "{{label}}".\n\n{{text}}\n\n'
        f'Now write what someone else says about another film. Use the words "{{label}}" for the {slot}.',
        public="Write one sentence that someone says about a film without naming it. "
        f'Use the words "{{label}}" for the {slot}.',
        answer_prefix=f"{slot.capitalize()}: {{label}}\nSentence:",
    )


def _completion(instruction: str, kind: str, text: str, *, opening: str = "") -> PromptTemplate:
    shown = f"{kind}: {{label}}\n{text}:"
    return PromptTemplate(
        private=f"{instruction}\n\n{shown} {{text}}\n\n",
        public=f"{instruction}\n\n",
        answer_prefix=shown + (" " if opening else ""),
        opening=opening,
        between=f"\n\n{shown} ",
        until="\n",
        frame="plain",
    )


def _slot(slot: str) -> PromptTemplate:
    """Any record may stand in the prompt, with its own slot value."""
    name = slot.capitalize()
    instruction = f"Write what someone says about a film. Use the words that are given for the {slot}.\n\n"
    return PromptTemplate(
        private=f"{instruction}{name}: {{text}}\n\n",
        public=instruction,
        record="{label}\nSentence: {text}",
        between=f"\n\n{name}: ",
        answer_prefix=f"{name}: {{label}}\nSentence:",
        until="\n",
        frame="plain",
    )


# Tried on SmolLM2-135M: an answer that has begun keeps a small model from talking about itself or
# repeating the label, and the same beginning in both prompts lets their best tokens agree.
TASKS: dict[str, PromptTemplate] = {
    "generic": PromptTemplate(
        private="Here is a text of the category {label}:\n\n{text}\n\n"
        "Write another text of the same category, in one or two sentences.",
        public="Write a text of the category {label}, in one or two sentences.",
        answer_prefix="The text:",
    ),
    "ag-news": PromptTemplate(
        private="Read this {label} news story:\n\n{text}\n\n"
        "Now write another {label} news story in one or two sentences.",
        public="Write a {label} news story in one or two sentences.",
        answer_prefix="News story:",
    ),
    "dbpedia": PromptTemplate(
        private="This is the beginning of an encyclopedia article. The subject is of the kind {label}.\n\n{text}\n\n"
        "Write the beginning of an article about another subject of the same kind.",
        public="Write the beginning of an encyclopedia article. The subject is of the kind {label}.",
        answer_prefix="The article begins:",
    ),
    "trec": PromptTemplate(
        private="Here is a quiz question. Its answer is of the type {label}.\n\n{text}\n\n"
        "Write another quiz question. Its answer must be of the same type.",
        public="Write one short quiz question. Its answer must be of the type {label}.",
        answer_prefix="Quiz question:",
    ),
    "mit-g": _movie("genre"),
    "mit-d": _movie("director"),
    "wikimovies": PromptTemplate(
        private="Here is the record of a {label} film:\n\n{text}\n\n"
        "Write the record of another {label} film in the same form, on one line.",
        public="Write the record of an invented {label} film on one line of JSON "
        "with the keys title, year, genre and plot.",
        answer_prefix="Record: ",
        opening='{{"title": "',
    ),
    "mail": PromptTemplate(
        private="Here is an e-mail from a customer to a support team about {label}:\n\n{text}\n\n"
        "Write an e-mail from another customer about {label}, in one or two sentences.",
        public="Write an e-mail from a customer to a support team about {label}, in one or two sentences.",
        answer_prefix="The customer writes:\n\n",
        opening="Hello, I",
    ),
    "generic-completion": _completion("Write a text of the given category.", "Category", "Text"),
    "ag-news-completion": _completion("Write a news story of the given type.", "News type", "Text"),
    "dbpedia-completion": _completion(
        "Write the beginning of an encyclopedia article. The type of its subject is given.", "Type", "Text"
    ),
    "trec-completion": _completion("Write a question. The type of its answer is given.", "Answer type", "Question"),
    "mit-g-completion": _slot("genre"),
    "mit-d-completion": _slot("director"),
    "wikimovies-completion": _completion(
        "Write the record of a film of the given genre, on one line of JSON with the keys title, year, genre and plot.",
        "Genre",
        "Record",
        opening='{{"title": "',
    ),
    "mail-completion": _completion(
        "Write an e-mail from a customer to a support team. What it is about is given.", "About", "E-mail"
    ),
}
"""Built-in wording, by the run file's ``task``."""


def task_template(task: str) -> PromptTemplate:
    """The built-in template of a task. Raises ``RunFileError``."""
    if task not in TASKS:
        hint = did_you_mean(task, list(TASKS), path="generator.task")
        raise RunFileError("generator.task", "not known", allowed=" | ".join(TASKS), hint=hint)
    return TASKS[task]


@dataclass(frozen=True, slots=True)
class PromptRows:
    """The public tokens of one label's prompts, and the public width of its private rows."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    public: tuple[int, ...]
    max_record_tokens: int
    opening: str = ""

    @property
    def width(self) -> int:
        """Tokens that a private row is padded to."""
        return len(self.before) + self.max_record_tokens + len(self.after)

    def row(self, record: Sequence[int]) -> tuple[int, ...]:
        """The row of a record's tokens, of which the first ``max_record_tokens`` are kept."""
        return (*self.before, *record[: self.max_record_tokens], *self.after)


def prompt_rows(model: LanguageModel, template: PromptTemplate, *, label: str, max_record_tokens: int) -> PromptRows:
    """Tokenise a template for one label."""
    mark = "\x02record\x03"
    left, _, right = fill(template.private, "private", label=label, text=mark).partition(mark)
    head, tail = model.frame(template.frame)
    opening = fill(template.opening, "opening", label=label)
    begun = tail + fill(template.answer_prefix, "answer_prefix", label=label) + opening
    public = fill(template.public, "public", label=label)
    return PromptRows(
        before=tuple(model.encode(head + left, trusted=True)),
        after=tuple(model.encode(right + begun, trusted=True)),
        public=tuple(model.encode(head + public + begun, trusted=True)),
        max_record_tokens=max_record_tokens,
        opening=opening,
    )
