r"""What few-shot generation and AdaDPSyn share: settings, sampling schemes, and the plan around one token's step.

Every token sees its own sample of the records, in M subsets of up to N that are one prompt each (Tang et al. 2024,
"Privacy-preserving in-context learning with differentially private few-shot generation", algorithm 1). A step is what
is released from the sample; its cost depends on what one record does to the list of subsets' vectors ("change"):

    joins      one vector is there or is not
    replaced   one vector becomes another

=====================  ==================  =========================  ==========================================
sampling               relation            on the sample              plan
=====================  ==================  =========================  ==========================================
poisson, N = 1         add-remove,         joins                      Poisson(q, joins)
                       zero-out
poisson, N = 1         substitution        replaced; absent: joins    Poisson(q, replaced, absent = joins)
poisson, N > 1         add-remove,         its subset's vector:       Poisson(q, replaced)
                       zero-out            replaced
poisson, N > 1         substitution        replaced; absent: replaced Poisson(q, replaced, absent = replaced)
without-replacement    any (add-remove     replaced                   WithoutReplacement(n, m, replaced)
                       in parts only)
fixed-groups, N = 1    as poisson, N = 1: every record is a group of its own
fixed-groups, N > 1    substitution        one group's vector:        Poisson(q, replaced, absent = joins), over
                                           replaced; absent: joins    groups
=====================  ==================  =========================  ==========================================

*poisson*: each record is in with probability q = M·N·L/n, and (N > 1) in a uniformly random one of M subsets, by a
choice of its own; one record more changes that subset's vector only. *without-replacement*: m = M·N·L of the n places,
in random order, cut into M subsets; the places are as many as were declared, so that a missing record leaves an empty
one, and add-remove is zero-out (the accountant reads it so inside a part; alone it is refused). *fixed-groups*: the
records are shared out once, at random, into groups that keep their prompts (so the model's cache serves all tokens),
and each token Poisson-samples *groups*. Replacing a record leaves all others where they are. With N > 1 a record's
group is there with or without it: the substitution row, also under zero-out, where it is refused; ``relation =
"substitution"`` covers it, as one may replace a record by nothing.

**Labels.** L is the number of labels (``match_label``): every record is sampled whatever its label, and one of another
label contributes nothing. So a sample holds about M·N of the label where labels are even, nothing depends on how many
there really are, and the rate M·N·L/n is that of sampling M·N from n/L. Labels see disjoint records: the plan is
``parallel`` over them, moving under substitution (a replaced record may leave one label for another; each costs what a
vector that joins or leaves costs) unless ``keeps_label`` assumes it away. Sampling *within* a label would need both
that assumption and public class sizes. Without ``match_label`` (slots, open labels) every text sees all records: one
``repeat``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field

from affidavit.accountant.errors import RunFileError
from affidavit.accountant.plan import Parallel, Plan, Poisson, Repeat, WithoutReplacement
from affidavit.accountant.validate import Relation
from affidavit.generation.configs import Count, GeneratorConfig, Labels, one_of
from affidavit.generation.contract import TEMPLATE_TOKENS, Work, whole_minibatches
from affidavit.generation.models.rows import BatchShape
from affidavit.generation.prompts import TASKS, PromptTemplate, task_template
from affidavit.generation.remedies import shorter_records
from affidavit.generation.shots import ShotRows, shot_rows

if TYPE_CHECKING:
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import LanguageModel
    from affidavit.mechanisms.projected_mean import Change

__all__ = [
    "Sampling",
    "SubsampledConfig",
    "change_on_sample",
    "check",
    "check_padding",
    "group_count",
    "label_rows",
    "node_path",
    "sample_size",
    "sampling_rate",
    "steps_plan",
    "trial_size",
    "work",
]

Sampling: TypeAlias = Literal["poisson", "without-replacement", "fixed-groups"]
Step: TypeAlias = "Callable[[Change], Plan]"


class SubsampledConfig(GeneratorConfig):
    """The keys of ``[generator]`` that both generators read; all of them are public."""

    labels: Labels
    samples_per_label: Count = 1
    max_tokens: Count = 40
    max_record_tokens: Count = 96
    subsets: Count = 20
    shots_per_subset: Annotated[int, Field(ge=1, le=64)] = 1
    top_k: Annotated[int, Field(ge=0)] = 100
    sampling: Sampling = "poisson"
    match_label: bool = True
    keeps_label: bool = False
    task: Annotated[str, one_of(TASKS)] = "generic"
    prompts: PromptTemplate | None = None
    minibatch_rows: Count = 32
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"

    @property
    def template(self) -> PromptTemplate:
        """The run file's own wording, else the task's."""
        return self.prompts or task_template(self.task)

    @property
    def shares(self) -> int:
        """L: by how much a sample is larger than M·N, because other labels' records contribute nothing."""
        return len(self.labels) if self.match_label else 1


def sample_size(config: SubsampledConfig, *, size: int) -> int:
    """M·N·L, the expected or exact number of sampled records. Raises ``RunFileError`` above ``size``."""
    sample = config.subsets * config.shots_per_subset * config.shares
    if sample > size:
        largest = size // (config.shots_per_subset * config.shares)
        labels = f" x {config.shares} labels" if config.shares > 1 else ""
        raise RunFileError(
            "generator.subsets",
            f"{config.subsets} subsets x {config.shots_per_subset} shots{labels} need {sample} records, "
            f"more than the declared size of {size}",
            hint=f"At most `generator.subsets = {largest}`." if largest else "`generator.shots_per_subset = 1`",
        )
    return sample


def group_count(config: SubsampledConfig, *, size: int) -> int:
    """The groups of ``fixed-groups``: one a record for N = 1, else ⌊n/(N·L)⌋ of N·L places each."""
    places = config.shots_per_subset * config.shares
    return size if config.shots_per_subset == 1 else size // places


def trial_size(config: SubsampledConfig) -> None:
    """None: records are sampled, no batch has to be filled."""


def work(config: SubsampledConfig, *, size: int) -> Work:
    """Prompts read anew for every token, or, in fixed groups, those kept that any token samples."""
    width = config.shots_per_subset * config.max_record_tokens + TEMPLATE_TOKENS
    if config.sampling == "fixed-groups":
        rate = sampling_rate(config, size=size)
        groups = group_count(config, size=size) / (config.shares if config.shots_per_subset == 1 else 1)
        rows = whole_minibatches(groups * (1.0 - (1.0 - rate) ** config.max_tokens), config.minibatch_rows)
        read, decoded = float(rows * width), rows * config.max_tokens
    else:
        rows = whole_minibatches(config.subsets, config.minibatch_rows)
        read, decoded = config.max_tokens * rows * (width + config.max_tokens / 2), 0
    texts = len(config.labels) * config.samples_per_label
    return Work(texts * read, texts * (decoded + config.max_tokens))


def sampling_rate(config: SubsampledConfig, *, size: int) -> float:
    """q: of records, or of groups. What the plan states is what the sampler uses."""
    sample = sample_size(config, size=size)
    if config.sampling == "fixed-groups" and config.shots_per_subset > 1:
        return float(Fraction(config.subsets, group_count(config, size=size)))
    return float(Fraction(sample, size))


def change_on_sample(config: SubsampledConfig, relation: Relation) -> Change:
    """What one record does to the vectors of a sample that holds it: see the module's table."""
    if config.sampling == "without-replacement" or relation == "substitution":
        return "replaced"
    return _coming_or_going(config)


def steps_plan(config: SubsampledConfig, step: Step, *, relation: Relation, size: int) -> Plan:
    """The whole run, from what one token's step costs for each change. Raises ``RunFileError``."""
    _check_scheme(config, relation)
    sample_size(config, size=size)
    each = config.samples_per_label * config.max_tokens
    use = _sampled(config, step, relation=relation, size=size)
    if not config.match_label:
        return Repeat(each * len(config.labels), use)
    parts = (Repeat(each, use),) * len(config.labels)
    if relation != "substitution":
        return Parallel(parts)
    if config.keeps_label:
        return Parallel(parts, membership="fixed")
    moved = Repeat(each, _moved(config, step, size=size))
    return Parallel(parts, membership="moving", moves=(moved,) * len(parts))


def node_path(config: SubsampledConfig, label: int) -> str:
    """The path of the subsample node for the ``label``-th label; its ``of`` is the step."""
    return f"plan.parts[{label}].of" if config.match_label else "plan.of"


def _sampled(config: SubsampledConfig, step: Step, *, relation: Relation, size: int) -> Plan:
    if config.sampling == "without-replacement":
        return WithoutReplacement(size, sample_size(config, size=size), step("replaced"))
    rate = sampling_rate(config, size=size)
    if relation == "substitution":
        return Poisson(rate, step("replaced"), absent=step(_absent(config)))
    return Poisson(rate, step(_coming_or_going(config)))


def _moved(config: SubsampledConfig, step: Step, *, size: int) -> Plan:
    """What a label costs that a replaced record leaves or enters: on the sample it comes or goes.

    Without replacement another record is sampled in its place where it is not: a replaced vector. A fixed group of
    several records is there with the record or without, and a sample may miss it: two costs.
    """
    if config.sampling == "without-replacement":
        return WithoutReplacement(size, sample_size(config, size=size), step("replaced"))
    return Poisson(sampling_rate(config, size=size), step(_coming_or_going(config)), absent=step(_absent(config)))


def _coming_or_going(config: SubsampledConfig) -> Change:
    """A record with and without its text: its own vector joins, or that of its subset is another one."""
    return "joins" if config.shots_per_subset == 1 else "replaced"


def _absent(config: SubsampledConfig) -> Change:
    """A sample with the record (or its group) against the same without it."""
    return "joins" if config.shots_per_subset == 1 or config.sampling == "fixed-groups" else "replaced"


def check_padding(relation: Relation) -> None:
    """Refuse add-remove for one sample of ``size`` places: where a record is missing, an empty one stands in its place.

    So data of one record fewer differ by a record that became empty, and that is zero-out; samples of n and of n − 1
    records, which add-remove is stated for, are never drawn. Raises ``RunFileError``.
    """
    if relation == "add-remove":
        raise RunFileError(
            "relation",
            "add-remove, but samples without replacement are drawn from the declared number of places, where an empty "
            "record stands for a missing one",
            hint='Set `relation = "zero-out"`: it is what is run.',
        )


def _check_scheme(config: SubsampledConfig, relation: Relation) -> None:
    if relation == "substitution":
        return
    if config.sampling == "without-replacement" and not config.match_label:
        check_padding(relation)
    if config.keeps_label:
        raise RunFileError(
            "generator.keeps_label",
            f"an assumption about replaced records, of which {relation} has none",
            hint='Remove `generator.keeps_label`, or `relation = "substitution"`.',
        )
    if config.sampling == "fixed-groups" and config.shots_per_subset > 1:
        raise RunFileError(
            "generator.sampling",
            f"fixed groups of several records cost the same under {relation} as under substitution",
            hint='`relation = "substitution"` covers it; or `generator.sampling = "poisson"`, '
            "or `generator.shots_per_subset = 1`.",
        )


def check(config: SubsampledConfig, model: LanguageModel, *, public: Sequence[Record]) -> None:  # noqa: ARG001
    """Raises ``RunFileError`` where the model cannot serve the settings, ``NotSupported`` where it does not keep
    private rows apart; before anything is charged."""
    if not callable(getattr(model, "start", None)):
        raise RunFileError(
            "model.name",
            f"{getattr(model, 'name', 'the model')} gives text only, and this generator needs next-token logits",
            hint='`model.name = "smollm2-135m"`, or a server that returns top log-probabilities.',
        )
    if config.top_k > model.vocabulary_size:
        raise RunFileError(
            "generator.top_k",
            f"{config.top_k} tokens of a vocabulary of {model.vocabulary_size}",
            allowed=f"0 (all) to {model.vocabulary_size}",
        )
    model.keep_apart(_shapes(config, [row.width for row in label_rows(config, model).values()]))


def _shapes(config: SubsampledConfig, widths: Sequence[int]) -> Iterator[BatchShape]:
    """The batches that a run starts: kept ones once a text, others anew for every token, one wider each."""
    for width in widths:
        if config.sampling == "fixed-groups":
            yield BatchShape(config.minibatch_rows, width, config.max_tokens)
            continue
        for written in range(config.max_tokens):
            yield BatchShape(config.minibatch_rows, width + written, 1)


def label_rows(config: SubsampledConfig, model: LanguageModel) -> dict[str, ShotRows]:
    """Every label's prompts. Raises ``RunFileError`` where they do not fit the model's context."""
    rows = {
        label: shot_rows(
            model,
            config.template,
            label=label,
            shots=config.shots_per_subset,
            max_record_tokens=config.max_record_tokens,
        )
        for label in config.labels
    }
    room = config.max_tokens * getattr(model, "longest_token", 1)  # a served model's tokens count for several
    longest = max(max(row.width, len(row.public)) for row in rows.values()) + room
    if longest > model.context_length:
        over = longest - model.context_length
        raise RunFileError(
            "generator.max_record_tokens",
            f"prompts and answers need {longest} tokens, {model.name} reads {model.context_length}",
            hint=shorter_records(config.max_record_tokens, over=over, records=config.shots_per_subset),
        )
    return rows
