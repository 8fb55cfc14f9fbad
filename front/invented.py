"""What a check of a generator runs on where no data are wanted: the run's settings at their least size, invented
records, and public ones of which every generator has enough.

No leaf of a plan depends on the size; at the least one every record is in a batch, and in every sample that holds all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from affidavit.chosen_model import WORDS
from affidavit.generation.dataset import Record

if TYPE_CHECKING:
    from affidavit.generation.configs import GeneratorConfig

__all__ = ["Invented"]

_MOST_RECORDS = 160


@dataclass(frozen=True, slots=True)
class Invented:
    """``config``: the settings, with an embedding that needs no download. ``labels``: of the records. ``most``: how
    many of them there may be, so that a sample may hold all."""

    config: GeneratorConfig
    size: int
    labels: tuple[str, ...]
    most: int

    @classmethod
    def of(cls, config: GeneratorConfig) -> Invented:
        """For the settings of a run."""
        config = _on_toy_embedding(config)
        size, most = _least_size(config)
        return cls(config, size, tuple(getattr(config, "labels", ("answer",))), min(most, _MOST_RECORDS))

    def records(self) -> list[Record]:
        """As many as there may be, labels in turn, of a few plain words each."""
        return [
            Record(f"r{n}", f"the {WORDS[n % 31]} and the {WORDS[(7 * n + 3) % 53]}", self.labels[n % len(self.labels)])
            for n in range(self.most)
        ]

    def public(self) -> list[Record]:
        """So many that every generator has enough, each with all words that may be keywords."""
        if not hasattr(self.config, "queries") and not hasattr(self.config, "use_public"):
            return []
        words = " ".join(WORDS)
        prompts = int(getattr(self.config, "ensemble", 0)) * int(getattr(self.config, "shots", 1))
        asked = int(getattr(self.config, "subsets", 0)) * int(getattr(self.config, "shots_per_subset", 1))
        count = max(prompts, min(asked, _MOST_RECORDS), int(getattr(self.config, "least_public", 1))) + 1
        each = [label for label in self.labels for _ in range(count)]
        each += self.labels[:1] * (len(each) == self.size)
        answers = not hasattr(self.config, "labels")
        return [Record(f"public-{n}", words, words if answers else label) for n, label in enumerate(each)]


def _least_size(config: GeneratorConfig) -> tuple[int, int]:
    """The least declared size, and the most records that are all in a sample."""
    from affidavit.generation.ksa.settings import KsaSettings
    from affidavit.generation.sga.settings import SgaConfig
    from affidavit.generation.subsampled import SubsampledConfig

    match config:
        case SgaConfig():
            size = config.ensemble * config.shots
            return size, size
        case SubsampledConfig() | KsaSettings(sampling="poisson" | "without-replacement"):
            scheme = config if isinstance(config, SubsampledConfig) else config.scheme
            size = scheme.subsets * scheme.shots_per_subset * scheme.shares
            return size, size
        case KsaSettings():
            scheme = config.scheme
            return len(scheme.labels) * scheme.samples_per_label * config.subsets, _MOST_RECORDS
        case _:
            fields: Any = config
            return len(fields.labels) * fields.samples_per_label * fields.batch_size, _MOST_RECORDS


def _on_toy_embedding(config: GeneratorConfig) -> GeneratorConfig:
    """The settings with an embedding that needs no download; no leaf depends on it."""
    from affidavit.generation.models.embedding import DIMENSIONS
    from affidavit.generation.sga.settings import DpmTable, SgaConfig

    if not isinstance(config, SgaConfig):
        return config

    def small(table: DpmTable) -> DpmTable:
        return table.model_copy(update={"dimensions": min(table.dimensions or DIMENSIONS["toy"], DIMENSIONS["toy"])})

    changes: dict[str, Any] = {"embedding": "toy", "dpm": small(config.dpm)}
    if config.augment is not None:
        changes["augment"] = config.augment.model_copy(update={"dpm": small(config.augment.dpm)})
    return config.model_copy(update=changes)
