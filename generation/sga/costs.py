"""What a run of SGA costs, from its settings and the declared size; the derivation stands in ``generator``."""

from __future__ import annotations

from typing import Literal

from affidavit.accountant.errors import RunFileError, UsageError
from affidavit.accountant.plan import Compose, Plan, Repeat, WithoutReplacement
from affidavit.accountant.validate import Relation
from affidavit.generation.contract import TEMPLATE_TOKENS, Work, whole_minibatches
from affidavit.generation.models.embedding import DIMENSIONS, EmbeddingName
from affidavit.generation.sga.settings import AugmentTable, DpmTable, SgaConfig
from affidavit.generation.subsampled import check_padding
from affidavit.mechanisms.dpm import Clustering
from affidavit.mechanisms.dpm_splits import Weights

__all__ = ["augmenting", "clustering", "noise_keys", "plan", "sample_size", "trial_size", "work"]


def clustering(table: DpmTable, *, embedding: EmbeddingName, paths: Literal[1, 2]) -> Clustering:
    """The mechanism of ``[generator.dpm]``."""
    return Clustering(
        dimensions=table.dimensions or DIMENSIONS[embedding],
        radius=table.radius,
        interval=table.interval,
        levels=table.levels,
        smallest=table.smallest,
        split_range=table.split_range,
        count_noise_multiplier=table.count_noise_multiplier,
        centre_noise_multiplier=table.centre_noise_multiplier,
        paths=paths,
        weights=Weights(emptiness=table.emptiness, centreness=table.centreness, height=table.height, edge=table.edge),
    )


def plan(config: SgaConfig, *, relation: Relation, size: int) -> Plan:
    """The plan of a run on ``size`` records. Raises ``RunFileError`` where a sample does not fit."""
    sample = config.ensemble * config.shots
    if sample > size:
        raise RunFileError(
            "generator.ensemble",
            f"{config.ensemble} prompts of {config.shots} records need {sample}, more than the declared size of {size}",
            hint=f"At most `generator.ensemble = {size // config.shots}`, or fewer shots.",
        )
    check_padding(relation)
    _check_cold(config, relation, size=size)
    answering = clustering(config.dpm, embedding=config.embedding, paths=2).plan()
    queries = Repeat(len(config.queries), WithoutReplacement(size, sample, answering))
    if config.augment is None:
        return queries
    return Compose((augmenting(config.augment, config, relation).plan(), queries))


def augmenting(table: AugmentTable, config: SgaConfig, relation: Relation) -> Clustering:
    """DPM over the records themselves: one point each, there or not, or replaced."""
    return clustering(table.dpm, embedding=config.embedding, paths=2 if relation == "substitution" else 1)


def _check_cold(config: SgaConfig, relation: Relation, *, size: int) -> None:
    cases = [("dpm", clustering(config.dpm, embedding=config.embedding, paths=2), 2 * config.ensemble)]
    if config.augment is not None:
        cases.append(("augment.dpm", augmenting(config.augment, config, relation), size))
    for name, settings, points in cases:
        try:
            settings.check(points=points)
        except UsageError as error:
            hint = error.hint.replace("`split_range", f"`generator.{name}.split_range")
            raise RunFileError(f"generator.{name}.split_range", error.message, hint=hint) from None


def noise_keys(config: SgaConfig) -> tuple[str, ...]:
    """The multipliers of every clustering, in proportion."""
    tables = ("dpm",) if config.augment is None else ("dpm", "augment.dpm")
    return tuple(f"{table}.{key}" for table in tables for key in ("count_noise_multiplier", "centre_noise_multiplier"))


def sample_size(config: SgaConfig, *, size: int) -> int:  # noqa: ARG001
    """The records that the prompts of a query show."""
    return config.ensemble * config.shots


def trial_size(config: SgaConfig) -> None:
    """None: records are sampled, no batch has to be filled."""


def work(config: SgaConfig, *, size: int) -> Work:  # noqa: ARG001
    """An answer from every private and every public prompt for each query."""
    shown = config.shots * (config.max_record_tokens + config.max_tokens)
    rows = 2 * whole_minibatches(config.ensemble, config.minibatch_rows) * len(config.queries)
    return Work(rows * (shown + config.max_record_tokens + TEMPLATE_TOKENS), rows * config.max_tokens)
