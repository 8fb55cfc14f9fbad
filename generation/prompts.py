"""Prompt templates, and how a record is put between public tokens.

A private prompt holds one record; the public prompt holds none. Both are a user's message (wrapped by
the model's chat template) and the beginning of the answer. What surrounds a record is tokenised apart
from it, so that every private row is ``before + record + after`` with public ``before`` and ``after``
and its greatest width is public too. Tokens of a record are never read as control tokens.

``{label}`` stands for the batch's label, ``{text}`` for the record; ``{{`` and ``}}`` for braces.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, model_validator

from affidavit.accountant.errors import RunFileError

if TYPE_CHECKING:
    from affidavit.generation.models.base import LanguageModel

__all__ = ["TASKS", "PromptRows", "PromptTemplate", "prompt_rows", "task_template"]

_HINT = "Placeholders: {label} anywhere, {text} once in `private`; double a brace to print it."


class PromptTemplate(BaseModel):
    """The wording of one task. ``private`` holds ``{text}`` exactly once; ``public`` never does."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    private: str
    public: str
    answer_prefix: str = ""

    @model_validator(mode="after")
    def _placeholders(self) -> PromptTemplate:
        for name, most in (("private", 1), ("public", 0), ("answer_prefix", 0)):
            fields = [field for _, field in _pieces(getattr(self, name), name) if field is not None]
            for field in fields:
                if field not in ("label", "text"):
                    raise _fault(name, f"unknown placeholder {{{field[:40]}}}")
            if fields.count("text") != most:
                raise _fault(name, f"{{text}} stands there {fields.count('text')} times, not {most}")
        if not self.public.strip():
            raise _fault("public", "empty")
        return self


def _fault(name: str, problem: str) -> RunFileError:
    return RunFileError(f"generator.prompts.{name}", problem, hint=_HINT)


def _pieces(template: str, name: str) -> list[tuple[str, str | None]]:
    """(literal, placeholder after it or None) pairs."""
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError:
        raise _fault(name, "a brace without its partner") from None
    if any(spec or conversion for _, _, spec, conversion in parsed):
        raise _fault(name, "a placeholder with a format")
    return [(literal, field) for literal, field, _, _ in parsed]


def _fill(template: str, name: str, *, label: str, mark: str = "") -> str:
    values = {"label": label, "text": mark}
    return "".join(literal + (values[field] if field else "") for literal, field in _pieces(template, name))


def _classification(noun: str, kind: str, prefix: str, public: str) -> PromptTemplate:
    return PromptTemplate(
        private=f"This is a {noun} of the {kind} {{label}}:\n\n{{text}}\n\n"
        f"Write a different {noun} of the same {kind}.",
        public=public,
        answer_prefix=prefix,
    )


def _movie(slot: str) -> PromptTemplate:
    return PromptTemplate(
        private=f'This is what someone says about a film whose {slot} is "{{label}}":\n\n{{text}}\n\n'
        f'Write what someone else says about another film. The words "{{label}}" must be in it, as the {slot}.',
        public="Write one sentence that someone says about a film without naming it. "
        f'The words "{{label}}" must be in it, as the {slot}.',
        answer_prefix=f'{slot.capitalize()}: "{{label}}"\nText: "',
    )


TASKS: dict[str, PromptTemplate] = {
    "generic": PromptTemplate(
        private="This is a text of the category {label}:\n\n{text}\n\nWrite a different text of the same category.",
        public="Write only a text of the category {label}.",
        answer_prefix="Text:",
    ),
    "ag-news": _classification("news text", "type", "Text:", "Write only a short news text of the type {label}."),
    "dbpedia": _classification(
        "encyclopedia entry", "category", "Entry:", "Write only a short encyclopedia entry of the category {label}."
    ),
    "trec": _classification(
        "question", "answer type", "Question:", "Write only one question whose answer is of the type {label}."
    ),
    "mit-g": _movie("genre"),
    "mit-d": _movie("director"),
    "mail": _classification(
        "support request", "topic", "Message:", "Write only a short support request of the topic {label}."
    ),
}
"""Built-in wording, by the run file's ``task``."""


def task_template(task: str) -> PromptTemplate:
    """The built-in template of a task. Raises ``RunFileError``."""
    if task not in TASKS:
        raise RunFileError("generator.task", "not known", allowed=" | ".join(TASKS))
    return TASKS[task]


@dataclass(frozen=True, slots=True)
class PromptRows:
    """The public tokens of one label's prompts, and the public width of its private rows."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    public: tuple[int, ...]
    max_record_tokens: int

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
    left, _, right = _fill(template.private, "private", label=label, mark=mark).partition(mark)
    head, tail = model.frame("chat")
    begun = tail + _fill(template.answer_prefix, "answer_prefix", label=label)
    public = _fill(template.public, "public", label=label)
    return PromptRows(
        before=tuple(model.encode(head + left, trusted=True)),
        after=tuple(model.encode(right + begun, trusted=True)),
        public=tuple(model.encode(head + public + begun, trusted=True)),
        max_record_tokens=max_record_tokens,
    )
