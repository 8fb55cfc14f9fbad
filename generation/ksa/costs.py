"""What a run of KSA costs, from its settings and the declared size; the derivation stands in ``generator``."""

from __future__ import annotations

from affidavit.accountant.errors import RunFileError
from affidavit.accountant.plan import Parallel, Plan
from affidavit.accountant.validate import Relation
from affidavit.generation import subsampled
from affidavit.generation.contract import TEMPLATE_TOKENS, Work, whole_minibatches
from affidavit.generation.ksa.choice import KeywordChoice
from affidavit.generation.ksa.settings import KsaAnswersConfig, KsaSettings
from affidavit.generation.remedies import fewer_records
from affidavit.generation.subsampled import change_on_sample, steps_plan

__all__ = ["bucket_count", "noise_keys", "plan", "run_choice", "sample_size", "trial_size", "work"]


def run_choice(config: KsaSettings, relation: Relation) -> KeywordChoice:
    """The private step as it runs under ``relation``."""
    if config.sampling == "disjoint":
        return config.choice("replaced" if relation == "substitution" else "joins")
    pure = config.sampling == "poisson" and relation == "substitution"
    return config.choice(change_on_sample(config.scheme, relation), pure=pure)


def plan(config: KsaSettings, *, relation: Relation, size: int) -> Plan:
    """The plan of a run on ``size`` records. Raises ``RunFileError`` where the subsets do not fit."""
    step = run_choice(config, relation)
    if config.sampling != "disjoint":
        return steps_plan(config.scheme, step.cost, relation=relation, size=size)
    bucket_count(config, size=size)
    joins, texts = step.cost("joins"), len(list(config.numbered()))
    if relation != "substitution":
        return Parallel((joins,) * texts)
    return Parallel((step.cost("replaced"),) * texts, membership="moving", moves=(joins,) * texts)


def bucket_count(config: KsaSettings, *, size: int) -> int:
    """The buckets, of each label, of about ``subsets`` records. Raises ``RunFileError`` where they are too few."""
    scheme = config.scheme
    buckets = size // (len(scheme.labels) * config.subsets)
    if buckets < scheme.samples_per_label:
        texts = len(scheme.labels) * scheme.samples_per_label
        hint = fewer_records(
            "generator.subsets", size=size, labels=len(scheme.labels), samples_per_label=scheme.samples_per_label
        )
        raise RunFileError(
            "generator.subsets",
            f"{texts} texts x {config.subsets} records are more than the declared size of {size}",
            hint=hint,
        )
    return buckets


def noise_keys(config: KsaSettings) -> tuple[str, ...]:
    """The keywords' ε; and that of their number, where it is drawn."""
    if config.mechanism == "joint-exponential" or config.fewest_keywords == config.keywords:
        return ("keyword_epsilon",)
    return ("keyword_epsilon", "choice_epsilon")


def sample_size(config: KsaSettings, *, size: int) -> int | None:
    """How many records are sampled for a text; None from disjoint batches."""
    return None if config.sampling == "disjoint" else subsampled.sample_size(config.scheme, size=size)


def trial_size(config: KsaSettings) -> int | None:
    """The least size that disjoint batches fit."""
    if config.sampling != "disjoint":
        return None
    return len(config.scheme.labels) * config.scheme.samples_per_label * config.subsets


def work(config: KsaSettings, *, size: int) -> Work:  # noqa: ARG001
    """An answer from every subset for each text, and once a topic from as many public records."""
    answer = config.max_answer_tokens if isinstance(config, KsaAnswersConfig) else 0
    width = config.shots_per_subset * (config.max_record_tokens + answer) + TEMPLATE_TOKENS
    texts = len(list(config.numbered()))
    batches = texts + (len(config.topics) if config.use_public else 0)
    asked = batches * whole_minibatches(config.subsets, config.minibatch_rows)
    return Work(asked * width, asked * config.max_answer_tokens + texts * config.max_tokens)
