r"""KSA, keyword-space aggregation: count the keywords of many private answers, choose some privately, write from them.

Wu, Panda, Wang and Mittal 2024, "Privacy-preserving in-context learning for large language models" (keyword-space
aggregation); with public data as in Joo, Koh and Jung 2025, "Public data assisted differentially private in-context
learning". For each text of a
label (``ksa``), or each answer to a public query (``ksa-answers``, the papers' own use):

    every subset of private records is one prompt; the model answers it            (``answers``: greedy, apart)
    c_w = number of answers that hold the word w, for every w of a public domain   (``keywords``)
    K keywords from c, by ``mechanism``; then the text, from the public prompt with the keywords in it.

With ``use_public`` the answers to prompts of public records are counted too, the domain of a label is the words that at
least ``least_public`` of its public records and their answers hold (else, the words of the model's vocabulary), and the
last prompt shows a public record (``public_example``). Words that the public prompt itself says are in no domain.

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
A draw is charged by its bounded range, but by ``poisson`` under substitution as ``pure``: what is known of two costs
together (``certified.replaced``) is known of pure ones.

*Text only.* Answers and the last text need no logits: a served model writes them, greedily.

*Noise* is set by the ε's of the change that the run's relation and sampling make; other changes cost less with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from affidavit.accountant.errors import RunFileError
from affidavit.accountant.plan import Parallel, Plan
from affidavit.accountant.validate import Relation
from affidavit.generation.ksa.choice import KeywordChoice
from affidavit.generation.ksa.settings import KsaConfig, KsaSettings
from affidavit.generation.remedies import fewer_records
from affidavit.generation.subsampled import change_on_sample, steps_plan

if TYPE_CHECKING:
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.outputs import Generated, GeneratorPermit

__all__ = ["ACCESS", "CONFIG", "PRESETS", "KsaConfig", "bucket_count", "check", "plan", "run", "run_choice"]

CONFIG = KsaConfig
ACCESS = "text"

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
        "keywords": 3,
        "keyword_epsilon": 4.0,
        "subsets": 100,
        "shots_per_subset": 1,
        "sampling": "disjoint",
        "use_public": True,
        "public_example": False,
        "least_public": 8,
        "max_answer_tokens": 28,
        "max_tokens": 40,
        "max_record_tokens": 96,
        "temperature": 0.5,
        "top_k": 40,
    },
}
"""``paper``: Joo et al. on ChatDoctor (100 prompts of 4 shots, k = 40); 4 for the ε of one query is ours.
``local``: for SmolLM2."""


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


def check(config: KsaSettings, model: LanguageModel, *, public: Sequence[Record]) -> None:
    """Raises ``RunFileError`` where prompts, public records or the public domain do not fit, ``NotSupported`` where
    the model does not keep private rows apart; before any charge."""
    from affidavit.generation.ksa.texts import check_public
    from affidavit.generation.ksa.topics import topics
    from affidavit.generation.models.rows import BatchShape

    check_public(config, model, public)
    model.keep_apart(
        BatchShape(config.minibatch_rows, topic.width, config.max_answer_tokens) for topic in topics(config, model)
    )


def run(
    permit: GeneratorPermit,
    config: KsaSettings,
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
    from affidavit.generation.ksa.texts import write_texts

    step = run_choice(config, permit.relation)
    return write_texts(permit, config, records, model, step=step, size=size, progress=progress, public=public)
