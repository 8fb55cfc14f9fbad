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

from affidavit.generation.contract import Access, Baseline, Makes
from affidavit.generation.ksa.costs import noise_keys, plan, run_choice, sample_size, trial_size, work
from affidavit.generation.ksa.settings import KsaConfig, KsaSettings
from affidavit.generation.ksa.texts import check_public, write_texts
from affidavit.generation.ksa.topics import topics
from affidavit.generation.models.rows import BatchShape

if TYPE_CHECKING:
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.outputs import Generated, GeneratorPermit

__all__ = [
    "ACCESS",
    "BASELINES",
    "CONFIG",
    "MAKES",
    "PRESETS",
    "KsaConfig",
    "check",
    "noise_keys",
    "plan",
    "run",
    "run_choice",
    "sample_size",
    "trial_size",
    "work",
]

CONFIG = KsaConfig
ACCESS: Access = "text"
MAKES: Makes = "texts"
BASELINES: frozenset[Baseline] = frozenset()

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


def check(config: KsaSettings, model: LanguageModel, *, public: Sequence[Record]) -> None:
    """Raises ``RunFileError`` where prompts, public records or the public domain do not fit, ``NotSupported`` where
    the model does not keep private rows apart; before any charge."""
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
    step = run_choice(config, permit.relation)
    return write_texts(permit, config, records, model, step=step, size=size, progress=progress, public=public)
