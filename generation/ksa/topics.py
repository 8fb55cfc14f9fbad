"""What texts are written about: a label of the records, or a public query. One class each, the same questions.

A topic says which records count, how the prompt of a subset reads and how wide it is, and how the last prompt reads:
the public instruction, a public record or none, and the keywords. All of a topic is public.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from affidavit.accountant.errors import RunFileError
from affidavit.generation.ksa.keywords import words
from affidavit.generation.ksa.settings import KsaAnswersConfig, KsaConfig, KsaSettings
from affidavit.generation.prompts import PromptTemplate, fill
from affidavit.generation.questions import Asking
from affidavit.generation.remedies import shorter_records
from affidavit.generation.shots import ShotRows, shot_rows

if TYPE_CHECKING:
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import LanguageModel

__all__ = ["LabelTopic", "QueryTopic", "Topic", "topics"]

_EXAMPLE = "Here is an example:\n\n"


@dataclass(frozen=True, slots=True)
class Topic(ABC):
    """``name``: the texts' label. ``suggestion``: how the last prompt asks for keywords."""

    name: str
    suggestion: str

    @abstractmethod
    def concerns(self, record: Record) -> bool:
        """Whether the record may be shown."""

    @abstractmethod
    def prompt(self, shown: Sequence[Record]) -> tuple[int, ...]:
        """The prompt that shows these records; with none, a prompt that fills a minibatch up."""

    @property
    @abstractmethod
    def said(self) -> frozenset[str]:
        """The words of the prompt that shows nothing."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Tokens that every prompt is padded to."""

    @abstractmethod
    def last(self, example: Record | None, keywords: Sequence[str]) -> tuple[int, ...]:
        """The last prompt."""

    @abstractmethod
    def text(self, written: str) -> str:
        """A whole text, from what the model wrote after the last prompt."""

    @property
    def query(self) -> str:
        """The query that is answered, if any."""
        return ""

    @abstractmethod
    def words_of(self, record: Record) -> str:
        """The part of a public record whose words may be keywords."""

    def asked(self, keywords: Sequence[str]) -> str:
        """The sentence about keywords, or nothing."""
        return " " + self.suggestion.replace("{words}", ", ".join(keywords)) if keywords else ""

    def fitting(self, example: Record | None, keywords: Sequence[str], *, longest: int) -> tuple[int, ...]:
        """``last``, without the last keywords where it would exceed ``longest`` tokens."""
        for kept in range(len(keywords), 0, -1):
            prompt = self.last(example, keywords[:kept])
            if len(prompt) <= longest:
                return prompt
        return self.last(example, ())


@dataclass(frozen=True, slots=True)
class LabelTopic(Topic):
    """Another text of a label, after records of that label."""

    model: LanguageModel
    template: PromptTemplate
    rows: ShotRows
    max_record_tokens: int

    def concerns(self, record: Record) -> bool:
        return record.label == self.name

    def words_of(self, record: Record) -> str:
        return record.text

    def prompt(self, shown: Sequence[Record]) -> tuple[int, ...]:
        return self.rows.row([self.model.encode(self.template.written(record)) for record in shown])

    @property
    def said(self) -> frozenset[str]:
        return words(self.model.decode(self.prompt(())))

    @property
    def width(self) -> int:
        return self.rows.width

    def last(self, example: Record | None, keywords: Sequence[str]) -> tuple[int, ...]:
        """Public records and keywords are never read as control tokens."""
        encode, template = self.model.encode, self.template
        head, tail = self.model.frame(template.frame)
        begun = tail + fill(template.answer_prefix, "answer_prefix", label=self.name) + self.rows.opening
        before = encode(head, trusted=True)
        if example is not None:
            before += [*encode(_EXAMPLE), *encode(example.text)[: self.max_record_tokens], *encode("\n\n")]
        instruction = fill(template.public, "public", label=self.name).rstrip()
        return (*before, *encode(instruction + self.asked(keywords)), *encode(begun, trusted=True))

    def text(self, written: str) -> str:
        return self.template.kept(self.rows.opening + written)


@dataclass(frozen=True, slots=True)
class QueryTopic(Topic):
    """An answer to a public query, after records that are answered questions. Keywords stand in the instruction."""

    asking: Asking
    wanted: str

    def concerns(self, record: Record) -> bool:  # noqa: ARG002
        return True

    def words_of(self, record: Record) -> str:
        return record.label

    def prompt(self, shown: Sequence[Record]) -> tuple[int, ...]:
        return self.asking.row(shown, self.wanted)

    @property
    def said(self) -> frozenset[str]:
        return words(self.asking.model.decode(self.prompt(())))

    @property
    def width(self) -> int:
        return self.asking.width(self.wanted)

    def last(self, example: Record | None, keywords: Sequence[str]) -> tuple[int, ...]:
        asking = self.asking
        instruction = asking.template.instruction + self.asked(keywords)
        template = asking.template.model_copy(update={"instruction": instruction})
        worded = Asking(asking.model, template, 1, asking.max_record_tokens, asking.max_tokens)
        return worded.row(() if example is None else (example,), self.wanted)

    def text(self, written: str) -> str:
        return self.asking.template.clean(written)

    @property
    def query(self) -> str:
        return self.wanted


def topics(config: KsaSettings, model: LanguageModel) -> tuple[Topic, ...]:
    """A topic a label, or a query. Raises ``RunFileError`` where prompts do not fit the model's context."""
    found = tuple(_topic(config, model, name) for name in config.topics)
    room = config.max_record_tokens + config.max_tokens + len(model.encode(_EXAMPLE)) + len(model.encode("\n\n"))
    longest = max(
        max(topic.width + config.max_answer_tokens, len(topic.last(None, ())) + room + config.max_tokens)
        for topic in found
    )
    if longest > model.context_length:
        raise RunFileError(
            "generator.max_record_tokens",
            f"prompts and answers need {longest} tokens, {model.name} reads {model.context_length}",
            hint=shorter_records(
                config.scheme.max_record_tokens, over=longest - model.context_length, records=config.shots_per_subset
            ),
        )
    return found


def _topic(config: KsaSettings, model: LanguageModel, name: str) -> Topic:
    shots, longest = config.shots_per_subset, config.max_record_tokens
    if isinstance(config, KsaAnswersConfig):
        asking = Asking(model, config.template, shots, longest, config.max_tokens)
        return QueryTopic("answer", config.suggestion, asking, name)
    if not isinstance(config, KsaConfig):
        raise TypeError(type(config).__name__)
    rows = shot_rows(model, config.template, label=name, shots=shots, max_record_tokens=longest)
    return LabelTopic(name, config.suggestion, model, config.template, rows, longest)
