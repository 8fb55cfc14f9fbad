r"""KSA, keyword-space aggregation: count the keywords of many private answers, choose some privately, write from them.

Wu, Panda, Wang and Mittal 2024, "Privacy-preserving in-context learning for large language models" (keyword-space
aggregation); with public data as in Joo, Koh and Jung 2025, "Public data assisted differentially private in-context
learning". For each text:

    every subset of private records is one prompt; the model answers it            (``answers``: greedy, apart)
    c_w = number of answers that hold the word w, for every w of a public domain   (``keywords``)
    K keywords from c, by ``mechanism``; then the text, from the public prompt with the keywords in it.

With ``use_public`` the answers to prompts of public records are counted too, the domain of a label is the words that at
least ``least_public`` of its public records and their answers hold (else, the words of the model's vocabulary), and the
last prompt shows a public record.

*Sensitivity.* An answer adds 0 or 1 to each count; public counts are constants; counts are held to a public ceiling,
which moves no two of them further apart. What one record does to the list of answers (``subsampled``):

=========  ======================  =====================  ============================
change     joint utility: width    gap, PTR: Δ            choice among gaps: width
=========  ======================  =====================  ============================
joins      2                       1                      2
replaced   4                       2                      4
=========  ======================  =====================  ============================

"joins": the record has an answer of its own (one shot a subset) and comes or goes. "replaced": substitution, or
several shots a subset, or sampling without replacement. Derivations: ``mechanisms.joint_exponential`` and
``propose_test_release``.

- ``joint-exponential``: K keywords in order of count, one draw of range ``keyword_epsilon``.
- ``propose-test-release``: first the size k between ``fewest_keywords`` and K whose gap is largest, by noisy max with
  ``choice_epsilon`` (the published method looks for the largest gap too); then the set of the k most frequent words,
  iff the gap that guards *it* passes a test with ``keyword_epsilon`` and ``keyword_delta``. Where it does not, the text
  is written without keywords: never from a private answer.

*Sampling.* ``disjoint``: each text has a batch of its own of about ``subsets`` records (``batches``), so all texts cost
as much as one. ``poisson`` and ``without-replacement``: a fresh sample for each text, of all labels (``subsampled``).
Under sampling a draw of bounded range is charged as ``pure``: amplification does not know bounded range.

*Text only.* Answers and the last text need no logits: a served model writes them, greedily.

*Noise* is set by the ε's of the change that the run's relation and sampling make; other changes cost less with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from affidavit.accountant.errors import RunFileError, UsageError
from affidavit.accountant.plan import Parallel, Plan
from affidavit.accountant.validate import Relation
from affidavit.generation.configs import Count, GeneratorConfig, Labels
from affidavit.generation.keyword_choice import KeywordChoice, Mechanism
from affidavit.generation.shots import SHOT_TASKS, ShotTemplate
from affidavit.generation.subsampled import SubsampledConfig, change_on_sample, steps_plan

if TYPE_CHECKING:
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.outputs import Generated, GeneratorPermit
    from affidavit.mechanisms.projected_mean import Change

__all__ = ["ACCESS", "CONFIG", "PRESETS", "KsaConfig", "check", "choice", "plan", "run"]

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "mechanism": "joint-exponential",
        "keywords": 40,
        "keyword_epsilon": 4.0,
        "subsets": 100,
        "shots_per_subset": 4,
        "sampling": "without-replacement",
        "use_public": True,
        "max_answer_tokens": 200,
        "max_tokens": 200,
        "max_record_tokens": 256,
    },
    "local": {
        "mechanism": "joint-exponential",
        "keywords": 6,
        "keyword_epsilon": 4.0,
        "subsets": 48,
        "shots_per_subset": 1,
        "sampling": "disjoint",
        "use_public": True,
        "max_answer_tokens": 24,
        "max_tokens": 40,
        "max_record_tokens": 96,
        "temperature": 0.5,
        "top_k": 40,
    },
}
"""``paper``: Joo et al. on ChatDoctor (100 prompts of 4 shots, k = 40); 4 for the ε of one query is ours.
``local``: for SmolLM2."""

_CEILING = 4
"""Counts are held to this many times the number of subsets."""


class KsaConfig(GeneratorConfig):
    """The run file's ``[generator]`` table for ``kind = "ksa"``; all of it is public.

    ``suggestion``: how the last prompt asks for keywords; ``{words}`` once.
    """

    kind: Literal["ksa"] = "ksa"
    labels: Labels
    samples_per_label: Count = 1
    mechanism: Mechanism = "joint-exponential"
    keywords: Annotated[int, Field(ge=1, le=1000)] = 6
    fewest_keywords: Annotated[int, Field(ge=1, le=1000)] = 1
    keyword_epsilon: Annotated[float, Field(ge=1e-6, le=1000.0)] = 4.0
    keyword_delta: Annotated[float, Field(gt=0.0, lt=1.0)] = 1e-6
    choice_epsilon: Annotated[float, Field(ge=1e-6, le=1000.0)] = 1.0
    use_public: bool = False
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
    task: str = "generic"
    prompts: ShotTemplate | None = None
    minibatch_rows: Count = 32
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"

    @field_validator("task")
    @classmethod
    def _known(cls, task: str) -> str:
        if task not in SHOT_TASKS:
            raise ValueError(f"not known; allowed: {' | '.join(SHOT_TASKS)}")
        return task

    @field_validator("suggestion")
    @classmethod
    def _one_place(cls, suggestion: str) -> str:
        if suggestion.count("{words}") != 1 or "{" in suggestion.replace("{words}", ""):
            raise ValueError("not a suggestion; {words} stands there once, and no other brace")
        return suggestion

    @model_validator(mode="after")
    def _consistent(self) -> KsaConfig:
        if self.fewest_keywords > self.keywords:
            raise RunFileError(
                "generator.fewest_keywords",
                f"{self.fewest_keywords}, of at most {self.keywords} keywords",
                allowed=f"1 to {self.keywords}",
                hint=f"Set fewest_keywords to {self.keywords} or less.",
            )
        if self.sampling == "disjoint" and self.shots_per_subset > 1:
            raise RunFileError(
                "generator.shots_per_subset",
                f"{self.shots_per_subset} records a prompt, from batches that hold no fixed number of records",
                allowed="1 with disjoint batches",
                hint='Set sampling = "without-replacement" or "poisson", or shots_per_subset = 1.',
            )
        try:
            choice(self, "replaced").cost("replaced")
        except UsageError as error:
            raise RunFileError(
                "generator.keyword_epsilon",
                error.message,
                hint="Lower keyword_epsilon, or subsets.",
            ) from None
        return self

    @property
    def needs_public(self) -> bool:
        """Whether ``[data] public`` is needed."""
        return self.use_public

    @property
    def template(self) -> ShotTemplate:
        """The run file's own wording, else the task's."""
        return self.prompts or SHOT_TASKS[self.task]

    @property
    def scheme(self) -> SubsampledConfig:
        """How records are sampled for one text, in the words of ``subsampled``."""
        return SubsampledConfig(
            labels=self.labels,
            samples_per_label=self.samples_per_label,
            max_tokens=1,
            subsets=self.subsets,
            shots_per_subset=self.shots_per_subset,
            sampling="without-replacement" if self.sampling == "without-replacement" else "poisson",
        )


CONFIG = KsaConfig
ACCESS = "text"


def choice(config: KsaConfig, change: Change) -> KeywordChoice:
    """The private step of one text, its noise set for ``change``."""
    return KeywordChoice(
        mechanism=config.mechanism,
        most_keywords=config.keywords,
        fewest_keywords=config.fewest_keywords,
        keyword_epsilon=config.keyword_epsilon,
        keyword_delta=config.keyword_delta,
        choice_epsilon=config.choice_epsilon,
        ceiling=_CEILING * config.subsets,
        change=change,
        sampled=config.sampling != "disjoint",
    )


def run_choice(config: KsaConfig, relation: Relation) -> KeywordChoice:
    """The private step as it runs under ``relation``."""
    if config.sampling == "disjoint":
        return choice(config, "replaced" if relation == "substitution" else "joins")
    return choice(config, change_on_sample(config.scheme, relation))


def plan(config: KsaConfig, *, relation: Relation, size: int) -> Plan:
    """The plan of a run on ``size`` records. Raises ``RunFileError`` where the subsets do not fit."""
    step = run_choice(config, relation)
    if config.sampling != "disjoint":
        return steps_plan(config.scheme, step.cost, relation=relation, size=size)
    bucket_count(config, size=size)
    texts = len(config.labels) * config.samples_per_label
    if relation != "substitution":
        return Parallel((step.cost("joins"),) * texts)
    return Parallel((step.cost("replaced"),) * texts, membership="moving", moves=(step.cost("joins"),) * texts)


def bucket_count(config: KsaConfig, *, size: int) -> int:
    """The buckets of each label, of about ``subsets`` records. Raises ``RunFileError`` where they are too few."""
    buckets = size // (len(config.labels) * config.subsets)
    if buckets < config.samples_per_label:
        largest = size // (len(config.labels) * config.samples_per_label)
        raise RunFileError(
            "generator.subsets",
            f"{len(config.labels)} labels x {config.samples_per_label} samples x {config.subsets} records are more "
            f"than the declared size of {size}",
            hint=f"With this size, subsets can be at most {largest}." if largest else "The data set is too small.",
        )
    return buckets


def check(config: KsaConfig, model: LanguageModel, *, public: Sequence[Record]) -> None:
    """Raises ``RunFileError`` where prompts, public records or the public domain do not fit, before any charge."""
    from affidavit.generation.ksa_texts import check_public

    check_public(config, model, public)


def run(
    permit: GeneratorPermit,
    config: KsaConfig,
    records: Sequence[Record],
    model: LanguageModel,
    *,
    size: int,
    progress: Callable[[Any], None] | None = None,
    public: Sequence[Record] = (),
) -> Generated:
    """Generate every text through ``permit``: one private step each, at the paths of ``plan``.

    ``size`` is the declared size; ``public`` records are used with ``use_public``. Raises ``PermitViolation`` where
    the permit's plan is not this configuration's, ``RunFileError`` where settings do not fit model or public data.
    """
    from affidavit.generation.ksa_texts import write_texts

    step = run_choice(config, permit.relation)
    return write_texts(permit, config, records, model, step=step, size=size, progress=progress, public=public)
