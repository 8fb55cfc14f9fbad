"""The settings of SGA: the run file's ``[generator]`` table, and the presets. All of it is public."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from affidavit.accountant.errors import RunFileError
from affidavit.generation.configs import Count, GeneratorConfig, Noise, Positive, one_of
from affidavit.generation.models.embedding import DIMENSIONS, EmbeddingName
from affidavit.generation.questions import QUESTION_TASKS, QuestionTemplate

__all__ = ["PRESETS", "AugmentTable", "DpmTable", "SgaConfig"]

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "ensemble": 100,
        "shots": 4,
        "candidates": 3,
        "selection": "generate",
        "task": "medical",
        "max_tokens": 128,
        "max_record_tokens": 256,
        "dpm": {
            "dimensions": 0,
            "radius": 1.0,
            "interval": 0.1,
            "levels": 4,
            "smallest": 12,
            "split_range": 0.12,
            "count_noise_multiplier": 8.0,
            "centre_noise_multiplier": 4.2133,
        },
    },
    "local": {
        "ensemble": 12,
        "shots": 1,
        "candidates": 3,
        "selection": "likelihood",
        "max_tokens": 40,
        "max_record_tokens": 80,
        "dpm": {
            "dimensions": 4,
            "radius": 0.5,
            "interval": 0.1,
            "levels": 1,
            "smallest": 5,
            "split_range": 1.0,
            "count_noise_multiplier": 1.2,
            "centre_noise_multiplier": 1.2,
        },
    },
}
"""``paper``: ChatDoctor at a claimed ε of 1 (100 queries, 2,600 records, δ = 2.56e-4): the separators' ε of 0.12 a
query and the centres' Gaussian are the paper's (docs/sga.md); of the counts it states nothing. ``local``: runs here."""


def _listed(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _distinct(queries: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(queries)) != len(queries):
        raise ValueError("a query stands there twice: every query is charged")
    return queries


Queries = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=100_000, pattern=r"\S")], ...],
    BeforeValidator(_listed),
    AfterValidator(_distinct),
    Field(min_length=1, max_length=10_000),
]


class DpmTable(GeneratorConfig):
    """``[generator.dpm]``: see ``mechanisms.dpm.Clustering``, and ``dpm_splits.Weights`` for the last four.

    ``dimensions`` = 0: those of the embedding.
    """

    dimensions: Annotated[int, Field(ge=0, le=4096)] = 4
    radius: Annotated[float, Field(gt=0.0, le=2.0)] = 0.5
    interval: Positive = 0.1
    levels: Annotated[int, Field(ge=0, le=12)] = 2
    smallest: Annotated[float, Field(ge=0.0)] = 4.0
    split_range: Positive = 1.0
    count_noise_multiplier: Noise = 1.0
    centre_noise_multiplier: Noise = 1.0
    emptiness: Annotated[float, Field(ge=0.0, le=1000.0)] = 5.0
    centreness: Annotated[float, Field(gt=0.0, le=1000.0)] = 1.0
    height: Annotated[float, Field(ge=0.0, le=1.0)] = 0.3
    edge: Annotated[float, Field(ge=0.001, le=0.499)] = 1.0 / 12.0

    @field_validator("smallest", mode="before")
    @classmethod
    def _number(cls, value: object) -> object:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


class AugmentTable(GeneratorConfig):
    """``[generator.augment]``: ``texts`` new public records from ``examples`` public ones for each private centre.

    ``of``: those nearest to the centres, or the furthest from all of them: noisy public data, to see what bad ones do.
    ``pool``: so many records in all, the new ones and then the others in the same order; 0: all of them.
    """

    texts: Count = 8
    examples: Count = 2
    of: Literal["nearest", "furthest"] = "nearest"
    pool: Annotated[int, Field(ge=0, le=100_000)] = 0
    temperature: Positive = 0.7
    dpm: DpmTable = DpmTable()


class SgaConfig(GeneratorConfig):
    """The run file's ``[generator]`` table for ``kind = "sga"``; all of it is public."""

    kind: Literal["sga"] = "sga"
    queries: Queries
    ensemble: Count = 10
    shots: Annotated[int, Field(ge=1, le=64)] = 1
    candidates: Annotated[int, Field(ge=1, le=64)] = 3
    selection: Literal["top-1", "generate", "likelihood"] = "generate"
    sampling: str = "without-replacement"
    embedding: EmbeddingName = "minilm"
    max_tokens: Count = 40
    max_record_tokens: Count = 80
    task: Annotated[str, one_of(QUESTION_TASKS)] = "question"
    prompts: QuestionTemplate | None = None
    minibatch_rows: Count = 16
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    dpm: DpmTable = DpmTable()
    augment: AugmentTable | None = None

    @field_validator("sampling")
    @classmethod
    def _sound(cls, sampling: str) -> str:
        if sampling == "coreset":
            raise RunFileError(
                "generator.sampling",
                "a coreset is chosen by clustering all private embeddings without noise: every record decides which "
                "ones are shown, no bound on that is known, and no sample amplifies it",
                hint='`generator.sampling = "without-replacement"`',
            )
        if sampling != "without-replacement":
            raise ValueError("not known; allowed: without-replacement")
        return sampling

    @model_validator(mode="after")
    def _room(self) -> SgaConfig:
        most = DIMENSIONS[self.embedding]
        tables = {"dpm": self.dpm} if self.augment is None else {"dpm": self.dpm, "augment.dpm": self.augment.dpm}
        for name, table in tables.items():
            if table.dimensions > most:
                raise RunFileError(
                    f"generator.{name}.dimensions",
                    f"{self.embedding} has {most}",
                    allowed=f"0 (all) to {most}",
                )
        if self.augment is not None and 0 < self.augment.pool < self.public_needed:
            raise RunFileError(
                "generator.augment.pool",
                f"{self.ensemble} prompts of {self.shots} and one example need {self.public_needed}",
                hint=f"`generator.augment.pool = {self.public_needed}`, or 0 for all.",
            )
        return self

    @property
    def public_needed(self) -> int:
        """How many public records a query reads: N·n in prompts, and one example for the choice."""
        return self.ensemble * self.shots + 1

    @property
    def needs_public(self) -> bool:
        """Always: candidates are public answers."""
        return True

    @property
    def template(self) -> QuestionTemplate:
        """The run file's own wording, else the task's."""
        return self.prompts or QUESTION_TASKS[self.task]
