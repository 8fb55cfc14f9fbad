"""Prompts that show a few answered questions and ask a new one, and their fixed shape.

A record is a question (``text``) with its answer (``label``): a patient's message and a doctor's reply, a dialogue
and its summary, a news story and its topic. A prompt shows up to n records, then the query. Public text surrounds the
two halves of a record and is tokenised apart from them; halves are cut, the question to ``max_record_tokens`` tokens
and the answer to ``max_tokens``; rows are padded to one width. So neither length nor number shows in the shape of
anything. The query is public, and cut like a question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from affidavit.accountant.errors import RunFileError
from affidavit.generation.dataset import Record

if TYPE_CHECKING:
    from affidavit.generation.models.base import LanguageModel

__all__ = ["QUESTION_TASKS", "Asking", "QuestionTemplate"]

_TEXT, _LABEL, _CANDIDATES = "{text}", "{label}", "{candidates}"


class QuestionTemplate(BaseModel):
    """The wording of one task.

    ``shown``: one answered question, ``{text}`` once and after it ``{label}`` once. What stands before ``{label}``
    also asks the query. ``choose``: what follows the query where candidates are given; ``{candidates}`` once.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    instruction: str
    shown: str = "Question: {text}\nAnswer: {label}"
    choose: str = "Possible answers, the most frequent first: {candidates}\nThe most accurate of them"
    frame: Literal["chat", "plain"] = "plain"

    @model_validator(mode="after")
    def _placeholders(self) -> QuestionTemplate:
        ordered = self.shown.count(_TEXT) == self.shown.count(_LABEL) == 1
        if not ordered or self.shown.index(_TEXT) > self.shown.index(_LABEL):
            raise RunFileError(
                "generator.prompts.shown",
                "not a question and its answer",
                hint='For example `generator.prompts.shown = "Question: {text}\\nAnswer: {label}"`.',
            )
        if self.choose.count(_CANDIDATES) != 1:
            hint = 'For example `generator.prompts.choose = "One of {candidates}. The answer"`.'
            raise RunFileError("generator.prompts.choose", "{candidates} does not stand there once", hint=hint)
        return self

    @property
    def pieces(self) -> tuple[str, str, str]:
        """The public text before a question, between it and its answer, and after the answer."""
        opening, _, rest = self.shown.partition(_TEXT)
        middle, _, closing = rest.partition(_LABEL)
        return opening, middle, closing

    def written(self, record: Record) -> str:
        """One answered question as text, for an embedding."""
        opening, middle, closing = self.pieces
        return f"{opening}{record.text}{middle}{record.label}{closing}"

    def clean(self, answer: str) -> str:
        """An answer up to its first blank line, or up to where it begins to ask the next question."""
        return self._cut(answer).strip()

    def ended(self, answer: str) -> bool:
        """Whether what follows cannot change ``clean`` any more."""
        return self._cut(answer) != answer.lstrip()

    def _cut(self, answer: str) -> str:
        opening = self.pieces[0].strip()
        kept = answer.lstrip().split("\n\n", 1)[0]
        return kept.split(f"\n{opening}", 1)[0] if opening else kept


QUESTION_TASKS: dict[str, QuestionTemplate] = {
    "question": QuestionTemplate(instruction="Answer the question as in the examples."),
    "medical": QuestionTemplate(
        instruction="You are a doctor. Answer the patient's question.",
        shown="Patient: {text}\nDoctor: {label}",
        choose="Possible answers, the most frequent first: {candidates}\nThe most accurate answer",
    ),
    "dialogue": QuestionTemplate(
        instruction="Summarise the dialogue in one or two sentences.",
        shown="Dialogue: {text}\nSummary: {label}",
        choose="Possible summaries, the most frequent first: {candidates}\nThe most accurate summary",
    ),
    "news-topic": QuestionTemplate(
        instruction="Name the topic of the news story: World, Sports, Business or Technology.",
        shown="Story: {text}\nTopic: {label}",
        choose="Possible topics, the most frequent first: {candidates}\nThe most accurate topic",
    ),
}
"""Built-in wording, by the run file's ``task``."""


@dataclass(frozen=True)
class Asking:
    """A template, tokenised for one model: rows of up to ``shots`` answered questions before a query."""

    model: LanguageModel
    template: QuestionTemplate
    shots: int
    max_record_tokens: int
    max_tokens: int

    def row(self, shown: Sequence[Record], query: str) -> tuple[int, ...]:
        """The prompt that shows these records. With none it is public: the instruction and the query."""
        answered = [token for record in shown[: self.shots] for token in self._answered(record)]
        return (*self._before, *answered, *self._asked(query), *self._tail)

    def width(self, query: str) -> int:
        """The public number of tokens that every row before this query is padded to."""
        each = sum(map(len, self._pieces)) + self.max_record_tokens + self.max_tokens
        return len(self.row((), query)) + self.shots * each

    def choice(self, example: Record, query: str, candidates: Sequence[str]) -> tuple[int, ...]:
        """The prompt of the last step: a public example, the query, the candidates; all of it is public by then."""
        before, _, after = self.template.choose.partition(_CANDIDATES)
        listed: list[int] = []
        for number, candidate in enumerate(candidates, start=1):
            listed += [*self.model.encode(f"\n{number}."), *self._half(" " + candidate, self.max_tokens)]
        opening, _, _ = self._pieces
        asked = [
            *opening,
            *self._half(self._lead[0] + query, self.max_record_tokens),
            *self.model.encode("\n" + before),
        ]
        ending = self.model.encode(f"{after}:")
        return (*self._before, *self._answered(example), *asked, *listed, *ending, *self._tail)

    def another(self, shown: Sequence[Record]) -> tuple[int, ...]:
        """A plain prompt that shows public records and begins one more."""
        answered = [token for record in shown for token in self._answered(record)]
        return (*answered, *self._pieces[0])

    def plain(self, example: Record, query: str) -> str:
        """The query after a public example, as plain text, up to where the answer begins."""
        opening, middle, closing = self.template.pieces
        cut = self.model.decode(self._half(query, self.max_record_tokens))
        shown = f"{opening}{example.text}{middle}{example.label}{closing}"
        return f"{self.template.instruction}\n\n{shown}\n\n{opening}{cut}{middle.removesuffix(' ')}"

    def choice_width(self, query: str, *, candidates: int) -> int:
        """The most tokens that ``choice`` can have."""
        bare = self.choice(_NOTHING, query, ("",) * candidates)
        return len(bare) + self.max_record_tokens + (candidates + 1) * self.max_tokens

    def text(self, tokens: Sequence[int]) -> str:
        """An answer's text, cleaned."""
        return self.template.clean(self.model.decode(tokens))

    def _answered(self, record: Record) -> tuple[int, ...]:
        opening, middle, closing = self._pieces
        text = self._half(self._lead[0] + record.text, self.max_record_tokens)
        label = self._half(self._lead[1] + record.label, self.max_tokens)
        return (*opening, *text, *middle, *label, *closing)

    def _asked(self, query: str) -> tuple[int, ...]:
        opening, middle, _ = self._pieces
        return (*opening, *self._half(self._lead[0] + query, self.max_record_tokens), *middle)

    def _half(self, text: str, longest: int) -> tuple[int, ...]:
        return tuple(self.model.encode(text)[:longest])

    @cached_property
    def _lead(self) -> tuple[str, str]:
        """The space before a question and before an answer: it is part of the first word's token."""
        opening, middle, _ = self.template.pieces
        return " " * opening.endswith(" "), " " * middle.endswith(" ")

    @cached_property
    def _pieces(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        opening, middle, closing = self.template.pieces
        encode = self.model.encode
        return (
            tuple(encode(opening.removesuffix(" "))),
            tuple(encode(middle.removesuffix(" "))),
            tuple(encode(f"{closing}\n\n")),
        )

    @cached_property
    def _before(self) -> tuple[int, ...]:
        head, _ = self.model.frame(self.template.frame)
        return tuple(self.model.encode(f"{head}{self.template.instruction}\n\n", trusted=True))

    @cached_property
    def _tail(self) -> tuple[int, ...]:
        return tuple(self.model.encode(self.model.frame(self.template.frame)[1], trusted=True))


_NOTHING = Record("", "", "")
