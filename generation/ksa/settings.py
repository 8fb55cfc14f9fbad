"""Settings that both kinds of keyword-space aggregation read: ``ksa`` (texts of labels), ``ksa-answers`` (queries)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, field_validator, model_validator

from affidavit.accountant.errors import RunFileError, UsageError
from affidavit.accountant.remedies import setting
from affidavit.generation.configs import Count, GeneratorConfig, Labels, one_of
from affidavit.generation.ksa.choice import KeywordChoice, Mechanism
from affidavit.generation.prompts import TASKS, PromptTemplate, task_template
from affidavit.generation.questions import QUESTION_TASKS, QuestionTemplate
from affidavit.generation.sga.settings import Queries
from affidavit.generation.subsampled import SubsampledConfig

if TYPE_CHECKING:
    from affidavit.mechanisms.projected_mean import Change

__all__ = ["KsaAnswersConfig", "KsaConfig", "KsaSettings"]

_CEILING = 4
"""Counts are held to this many times the number of subsets."""


class KsaSettings(GeneratorConfig):
    """All of it is public. ``suggestion``: how the last prompt asks for keywords; ``{words}`` once.

    ``public_example``: whether it shows a public record; a small model copies that rather than use the keywords.
    """

    mechanism: Mechanism = "joint-exponential"
    keywords: Annotated[int, Field(ge=1, le=1000)] = 4
    fewest_keywords: Annotated[int, Field(ge=1, le=1000)] = 1
    keyword_epsilon: Annotated[float, Field(ge=1e-6, le=1000.0)] = 4.0
    keyword_delta: Annotated[float, Field(gt=0.0, lt=1.0)] = 1e-6
    choice_epsilon: Annotated[float, Field(ge=1e-6, le=1000.0)] = 1.0
    use_public: bool = False
    public_example: bool = True
    least_public: Count = 1
    subsets: Annotated[int, Field(ge=1, le=100_000)] = 48
    shots_per_subset: Annotated[int, Field(ge=1, le=64)] = 1
    sampling: Literal["disjoint", "poisson", "without-replacement"] = "disjoint"
    max_answer_tokens: Count = 24
    max_tokens: Count = 40
    max_record_tokens: Count = 96
    temperature: Annotated[float, Field(ge=0.1)] = 0.5
    top_k: Annotated[int, Field(ge=0)] = 40
    suggestion: Annotated[str, Field(max_length=1000)] = "Use some of these words: {words}."
    minibatch_rows: Count = 32
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"

    @field_validator("suggestion")
    @classmethod
    def _one_place(cls, suggestion: str) -> str:
        if suggestion.count("{words}") != 1 or "{" in suggestion.replace("{words}", ""):
            raise ValueError("not a suggestion; {words} stands there once, and no other brace")
        return suggestion

    @model_validator(mode="after")
    def _consistent(self) -> KsaSettings:
        if self.fewest_keywords > self.keywords:
            raise RunFileError(
                "generator.fewest_keywords",
                f"{self.fewest_keywords}, of at most {self.keywords} keywords",
                allowed=f"1 to {self.keywords}",
                hint=f"At most `generator.fewest_keywords = {self.keywords}`.",
            )
        if self.sampling == "disjoint" and self.shots_per_subset > 1:
            raise RunFileError(
                "generator.shots_per_subset",
                f"{self.shots_per_subset} records a prompt, from batches that hold no fixed number of records",
                allowed="1 with disjoint batches",
                hint='`generator.sampling = "without-replacement"`, or `generator.shots_per_subset = 1`.',
            )
        try:
            self._costs()
        except UsageError as error:
            hint = f"For example {setting('generator.keyword_epsilon', self._weighable())}, or fewer subsets."
            raise RunFileError("generator.keyword_epsilon", error.message, hint=hint) from None
        return self

    def _costs(self) -> None:
        """That the noise can be made, whatever a record's change is. Raises ``UsageError``."""
        changes: tuple[Change, ...] = ("replaced", "joins")
        for change in changes:
            self.choice(change).cost(change)

    def _weighable(self) -> float:
        """The first half of keyword_epsilon, of that, and so on, whose noise the draw can be made with."""
        epsilon = self.keyword_epsilon
        for _ in range(60):
            epsilon /= 2.0
            try:
                self.model_copy(update={"keyword_epsilon": epsilon})._costs()
            except UsageError:
                continue
            break
        return float(f"{epsilon:.3g}")

    @property
    def needs_public(self) -> bool:
        """Whether ``[data] public`` is needed."""
        return self.use_public

    @property
    @abstractmethod
    def called(self) -> str:
        """The generator's name: its ``kind``."""

    @property
    @abstractmethod
    def topics(self) -> tuple[str, ...]:
        """The labels, or the queries."""

    @property
    @abstractmethod
    def scheme(self) -> SubsampledConfig:
        """How records are sampled for one text, in the words of ``subsampled``."""

    @abstractmethod
    def numbered(self) -> Iterator[tuple[int, int]]:
        """(topic, number of the text) of every text, in the plan's order."""

    def choice(self, change: Change, *, pure: bool = False) -> KeywordChoice:
        """The private step of one text, its noise set for ``change``; ``pure``: a draw is charged as pure."""
        return KeywordChoice(
            mechanism=self.mechanism,
            most_keywords=self.keywords,
            fewest_keywords=self.fewest_keywords,
            keyword_epsilon=self.keyword_epsilon,
            keyword_delta=self.keyword_delta,
            choice_epsilon=self.choice_epsilon,
            ceiling=_CEILING * self.subsets,
            change=change,
            pure=pure,
        )

    def _scheme(self, labels: tuple[str, ...], *, texts: int, match_label: bool) -> SubsampledConfig:
        return SubsampledConfig(
            labels=labels,
            samples_per_label=texts,
            max_tokens=1,
            subsets=self.subsets,
            shots_per_subset=self.shots_per_subset,
            sampling="without-replacement" if self.sampling == "without-replacement" else "poisson",
            match_label=match_label,
        )


class KsaConfig(KsaSettings):
    """The run file's ``[generator]`` table for ``kind = "ksa"``: ``samples_per_label`` texts of each label."""

    kind: Literal["ksa"] = "ksa"
    labels: Labels
    samples_per_label: Count = 1
    task: Annotated[str, one_of(TASKS)] = "generic"
    prompts: PromptTemplate | None = None

    @property
    def template(self) -> PromptTemplate:
        """The run file's own wording, else the task's."""
        return self.prompts or task_template(self.task)

    @property
    def called(self) -> str:
        return self.kind

    @property
    def topics(self) -> tuple[str, ...]:
        return self.labels

    def numbered(self) -> Iterator[tuple[int, int]]:
        """Label by label; the texts of each are counted from 0."""
        return product(range(len(self.labels)), range(self.samples_per_label))

    @property
    def scheme(self) -> SubsampledConfig:
        """Every record is sampled whatever its label; one of another label shows nothing."""
        return self._scheme(self.labels, texts=self.samples_per_label, match_label=True)


class KsaAnswersConfig(KsaSettings):
    """The run file's ``[generator]`` table for ``kind = "ksa-answers"``: an answer to each of ``queries``.

    A record is a question (its text) with its answer (its label).
    """

    kind: Literal["ksa-answers"] = "ksa-answers"
    queries: Queries
    suggestion: Annotated[str, Field(max_length=1000)] = "Use some of these words in your answer: {words}."
    task: Annotated[str, one_of(QUESTION_TASKS)] = "question"
    prompts: QuestionTemplate | None = None

    @property
    def template(self) -> QuestionTemplate:
        """The run file's own wording, else the task's."""
        return self.prompts or QUESTION_TASKS[self.task]

    @property
    def called(self) -> str:
        return self.kind

    @property
    def topics(self) -> tuple[str, ...]:
        return self.queries

    def numbered(self) -> Iterator[tuple[int, int]]:
        """An answer has the number of its query."""
        return ((query, query) for query in range(len(self.queries)))

    @property
    def scheme(self) -> SubsampledConfig:
        """Every record may be shown before any query."""
        return self._scheme(("query",), texts=len(self.queries), match_label=False)
