r"""SGA: private answers to public questions, by clusters of an ensemble's answers.

Joo, Koh and Jung 2025, "Public data assisted differentially private in-context learning", algorithms 1 and 2. For
each query, with a fresh sample of N·n records without replacement:

    N prompts of n private records each, and N of n public ones    →  2N answers  →  sentence embeddings
    DPM (``mechanisms.dpm``) over private and public points        →  centres and noisy weights
    the public answer nearest to each centre                       →  candidates, the heaviest cluster first
    the first (``top-1``), or one of the first k, chosen with a public example in the prompt

*Sensitivity.* Only the N private points depend on private records, each on the n records of its prompt, and no
record stands in two prompts of a sample. A record that takes another one's place in a sample moves one point, whatever
the relation (a record that is absent shows nothing): so DPM runs with ``paths`` = 2 inside
``subsample {without-replacement}`` (docs/theory/sampling.md), where the number N of points is public. Embeddings are
row by row, the projection and its origin come from public answers, and everything after DPM reads public answers and
what it released.

*Where the paper and this part.* Its accounting leaves out DPM's counts, amplifies by the formula for Poisson samples,
and bounds split scores by Δ_f with a probability that is not charged; here counts and splits are charged and no
bound is probable (``mechanisms.dpm_splits``). Its coreset chooses records by k-means on *private* embeddings: which
records are shown then depends on every record without noise, so it is refused. ``dimensions`` projects the answers
onto the public ones' principal axes first: noise of the same size in fewer coordinates.

*Public data* may be of the same distribution or another: that is utility, not privacy. ``augment`` makes more of them
(section 6.1): DPM over the private *records*, once, charged beside the queries; the public examples near its centres
are shown to the model, which writes new ones (``augment``). From the furthest ones come the noisy public data of
section 5.5, at the same charge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from affidavit.accountant.errors import DataError, RunFileError
from affidavit.generation.contract import Access, Baseline, Makes
from affidavit.generation.sga.answers import asking, write_answers
from affidavit.generation.sga.costs import noise_keys, plan, sample_size, trial_size, work
from affidavit.generation.sga.settings import PRESETS, SgaConfig
from affidavit.generation.sga.source import Released

if TYPE_CHECKING:
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.outputs import Generated, GeneratorPermit
    from affidavit.generation.prism import Progress

__all__ = [
    "ACCESS",
    "BASELINES",
    "CONFIG",
    "MAKES",
    "PRESETS",
    "check",
    "check_records",
    "noise_keys",
    "plan",
    "run",
    "sample_size",
    "trial_size",
    "work",
]

CONFIG = SgaConfig
ACCESS: Access = "text"
MAKES: Makes = "answers"
BASELINES: frozenset[Baseline] = frozenset()


def check(config: SgaConfig, model: LanguageModel, *, public: Sequence[Record]) -> None:
    """Raises ``RunFileError``, ``ModelMissing``, ``NotSupported`` where model or public records cannot serve."""
    from affidavit.generation.answers import served
    from affidavit.generation.ensemble import check_lengths
    from affidavit.generation.models.embedding import load_embedding
    from affidavit.generation.models.rows import BatchShape

    needed = config.public_needed
    if len(public) < needed:
        raise RunFileError(
            "data.public",
            f"{len(public)} public records; {config.ensemble} prompts of {config.shots} and one example need {needed}",
            hint=f"Give {needed} public records, or ask for fewer: "
            f"`generator.ensemble = {max(1, (len(public) - 1) // config.shots)}`.",
        )
    if config.selection == "likelihood" and served(model):
        raise RunFileError(
            "generator.selection",
            "likelihood needs the probability of a whole text, which a server does not show",
            hint='`generator.selection = "generate"` or `generator.selection = "top-1"`.',
        )
    load_embedding(config.embedding)
    prompts = asking(config, model)
    check_lengths(prompts, config.queries, candidates=config.candidates)
    model.keep_apart(
        BatchShape(config.minibatch_rows, prompts.width(query), config.max_tokens) for query in config.queries
    )


def check_records(records: Sequence[Record], *, size: int) -> None:
    """Raises ``DataError`` for more records than ``size``: their number decides who is sampled."""
    if len(records) > size:
        raise DataError(f"{len(records)} records, declared are {size}", hint="Keep the file to its declared size.")


def run(
    permit: GeneratorPermit,
    config: SgaConfig,
    records: Sequence[Record],
    model: LanguageModel,
    *,
    size: int,
    progress: Callable[[Progress], None] | None = None,
    public: Sequence[Record] = (),
) -> Generated:
    """Answer every query through ``permit``. ``size`` is the declared size; a place without a record shows nothing.

    Nothing is written here; an interrupt leaves no output and the reservation spent. Raises as ``check``,
    ``PermitViolation`` where the permit's plan is not this configuration's, ``DataError`` for more records than
    ``size``.
    """
    from affidavit.generation.outputs import Generated
    from affidavit.generation.recorder import Recorder

    check_records(records, size=size)
    check(config, model, public=public)
    recorder = Recorder(permit)
    samples, versions = write_answers(Released(recorder), config, records, public, model, size=size, progress=progress)
    return Generated(
        generator=config.kind,
        samples=samples,
        trace=tuple(recorder.trace),
        draws_per_node=dict(recorder.draws),
        protected=True,
        versions=versions,
    )
