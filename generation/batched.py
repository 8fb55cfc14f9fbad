r"""One text from one disjoint batch of private prompts, token by token: what PRISM, private prediction and
InvisibleInk share.

Each (label, sample) has a batch of its own (``batches``): a record is in one batch or in none, whatever the others
are. So the plan is ``parallel`` over batches. Under substitution a record may leave one batch and enter
another (another label or id): the part it leaves or enters then pays what a row that comes or goes costs, its
``moves``.

A text grows until the model ends it, ``max_tokens`` are written, the generator has nothing left to spend, or a draw
is lost (``accountant.release.journal``). What
is left of its part of the plan is then left unused, and not refunded.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import chain
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar

from affidavit.accountant.errors import RunFileError
from affidavit.accountant.plan import Parallel, Plan
from affidavit.accountant.release.journal import DrawLost
from affidavit.accountant.validate import Relation
from affidavit.generation.configs import Count, GeneratorConfig, Labels, one_of
from affidavit.generation.contract import TEMPLATE_TOKENS, Work
from affidavit.generation.models.base import Spread
from affidavit.generation.models.rows import BatchShape
from affidavit.generation.prompts import TASKS, PromptTemplate, prompt_rows, task_template
from affidavit.generation.remedies import fewer_records, shorter_records

if TYPE_CHECKING:
    from affidavit.generation.batches import Batch
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.outputs import Generated, GeneratorPermit, Sample
    from affidavit.generation.prompts import PromptRows
    from affidavit.generation.recorder import Recorder

__all__ = [
    "BatchedConfig",
    "Progress",
    "Writer",
    "bucket_count",
    "check",
    "label_rows",
    "parallel_plan",
    "sample_size",
    "text_sample",
    "trial_size",
    "work",
    "write_batches",
]


class BatchedConfig(GeneratorConfig):
    """The keys of ``[generator]`` that these generators share; all of them are public.

    ``across_labels``: a batch takes records of every label (slots, open labels), each shown with its own.
    """

    labels: Labels
    samples_per_label: Count = 1
    max_tokens: Count = 40
    max_record_tokens: Count = 96
    batch_size: Count = 64
    task: Annotated[str, one_of(TASKS)] = "generic"
    prompts: PromptTemplate | None = None
    across_labels: bool = False
    minibatch_rows: Count = 32
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"

    @property
    def template(self) -> PromptTemplate:
        """The run file's own wording, else the task's."""
        return self.prompts or task_template(self.task)


Settings = TypeVar("Settings", bound=BatchedConfig)


@dataclass(frozen=True, slots=True)
class Progress:
    """After each token: which text, how far. ``text`` is released text, so it may be shown."""

    label: str
    sample: int
    done: int
    samples: int
    tokens: int
    max_tokens: int
    text: str


def bucket_count(config: BatchedConfig, *, size: int) -> int:
    """K, the buckets of each label: a batch holds about ``batch_size`` records if the labels are even.

    Raises ``RunFileError`` where there are fewer buckets than samples.
    """
    buckets = size // (len(config.labels) * config.batch_size)
    if buckets < config.samples_per_label:
        needed = len(config.labels) * config.samples_per_label * config.batch_size
        hint = fewer_records(
            "generator.batch_size", size=size, labels=len(config.labels), samples_per_label=config.samples_per_label
        )
        raise RunFileError(
            "generator.batch_size",
            f"{len(config.labels)} labels x {config.samples_per_label} samples x {config.batch_size} records need "
            f"{needed} records, more than the declared size of {size}",
            hint=hint,
        )
    return buckets


def parallel_plan(config: BatchedConfig, part: Callable[[Relation], Plan], *, relation: Relation, size: int) -> Plan:
    """All texts, from what one of them costs under a relation. Raises ``RunFileError`` where batches do not fit."""
    bucket_count(config, size=size)
    texts = len(config.labels) * config.samples_per_label
    if relation != "substitution":
        return Parallel((part(relation),) * texts)
    return Parallel((part(relation),) * texts, membership="moving", moves=(part("zero-out"),) * texts)


def sample_size(config: BatchedConfig, *, size: int) -> None:
    """None: records are in batches, none is sampled."""


def trial_size(config: BatchedConfig) -> int:
    """The least size that the batches fit."""
    return len(config.labels) * config.samples_per_label * config.batch_size


def work(config: BatchedConfig, *, size: int) -> Work:
    """Every text reads the prompts of its batch once, and the public one, and decodes all of them."""
    labels = len(config.labels)
    buckets = max(1, size // (labels * config.batch_size))
    rows = math.ceil(size / (labels * buckets) / config.minibatch_rows) * config.minibatch_rows + 1
    rows *= labels * config.samples_per_label
    return Work(rows * (config.max_record_tokens + TEMPLATE_TOKENS), rows * config.max_tokens)


def label_rows(config: BatchedConfig, model: LanguageModel) -> dict[str, PromptRows]:
    """Every label's prompts. Raises ``RunFileError`` where they do not fit the model's context."""
    rows = {
        label: prompt_rows(model, config.template, label=label, max_record_tokens=config.max_record_tokens)
        for label in config.labels
    }
    longest = max(max(row.width, len(row.public)) for row in rows.values()) + config.max_tokens
    if longest > model.context_length:
        raise RunFileError(
            "generator.max_record_tokens",
            f"prompts and answers need {longest} tokens, {model.name} reads {model.context_length}",
            hint=shorter_records(config.max_record_tokens, over=longest - model.context_length),
        )
    return rows


def check(config: BatchedConfig, model: LanguageModel, *, public: Sequence[Record]) -> None:  # noqa: ARG001
    """Raises ``RunFileError`` where prompts or ``top_k`` do not fit the model, ``NotSupported`` where it does not keep
    private rows apart; before anything is charged."""
    top_k = getattr(config, "top_k", 0)
    if top_k > model.vocabulary_size:
        raise RunFileError(
            "generator.top_k",
            f"{top_k} tokens of a vocabulary of {model.vocabulary_size}",
            allowed=f"0 (all) to {model.vocabulary_size}",
        )
    rows = label_rows(config, model)
    model.keep_apart(BatchShape(config.minibatch_rows, each.width, config.max_tokens) for each in rows.values())


class Writer(ABC, Generic[Settings]):
    """Writes the text of one batch; a generator says how the next token is found (``token``).

    ``config``: the generator's settings; ``part``: the path of the text's part of the plan. ``private`` and
    ``public`` are the prompts, grown by the tokens so far.
    """

    def __init__(
        self,
        recorder: Recorder,
        model: LanguageModel,
        batch: Batch,
        rows: PromptRows,
        *,
        part: str,
        config: Settings,
    ) -> None:
        from affidavit.generation.batches import PrivateRows

        self.recorder = recorder
        self.config = config
        self.part = part
        self.private = PrivateRows(
            model,
            rows,
            [config.template.written(member.record) for member in batch.members],
            minibatch_rows=config.minibatch_rows,
            max_tokens=config.max_tokens,
        )
        self.public = model.start([rows.public], width=len(rows.public))
        self._model = model
        self._batch = batch
        self._rows = rows
        recorder.trace.append(
            {
                "event": "batch",
                "path": part,
                "label": batch.label,
                "sample": batch.sample,
                "members": [member.digest for member in batch.members],
                "truncated": self.private.truncated,
            }
        )

    @abstractmethod
    def token(self) -> int | None:
        """The next token, or None where the text's part of the plan is spent."""

    def write(self, *, max_tokens: int, report: Callable[[Sequence[int]], None]) -> Sample:
        """The whole text."""
        template = self.config.template
        tokens: list[int] = []
        stopped = False
        while len(tokens) < max_tokens:
            if tokens:
                self.private.append(tokens[-1])
                self.public.append(tokens[-1:])
            try:
                token = self.token()
            except DrawLost:
                break
            stopped = token in self._model.stop_tokens
            if token is None or stopped:
                break
            tokens.append(token)
            report(tokens)
            if stopped := template.ended(self._rows.opening + self._model.decode(tokens)):
                break
        self.recorder.finish(self.part)
        return text_sample(self._model, self._batch, self._rows, template, tokens, stopped=stopped)


def text_sample(
    model: LanguageModel,
    batch: Batch,
    rows: PromptRows,
    template: PromptTemplate,
    tokens: Sequence[int],
    *,
    stopped: bool,
) -> Sample:
    """The synthetic text of a batch: the prompt's public opening, and what was released after it, up to its end."""
    from affidavit.generation.outputs import Sample

    text = template.kept(rows.opening + model.decode(tokens))
    return Sample(batch.label, batch.sample, text, tuple(tokens), stopped)


def write_batches(
    permit: GeneratorPermit,
    config: Settings,
    records: Sequence[Record],
    model: LanguageModel,
    writer: type[Writer[Settings]],
    *,
    kind: str,
    size: int,
    progress: Callable[[Any], None] | None,
) -> Generated:
    """Every text, in the order of the plan's parts; several at a time where the model is in several places and the plan
    allows it. Raises ``RunFileError``, ``PermitViolation``."""
    from affidavit.generation.batches import assign
    from affidavit.generation.outputs import Generated
    from affidavit.generation.recorder import Recorder

    rows = label_rows(config, model)
    recorder = Recorder(permit)
    batches = assign(
        records,
        labels=config.labels,
        samples_per_label=config.samples_per_label,
        buckets=bucket_count(config, size=size),
        key=recorder.key(),
        across_labels=config.across_labels,
    )
    parts = [recorder.part(f"plan.parts[{index}]") for index in range(len(batches))]
    finished: list[int] = []
    telling = Lock()

    def written(index: int, model: LanguageModel) -> Sample:
        batch, part = batches[index], parts[index]

        def report(tokens: Sequence[int]) -> None:
            if progress is not None:
                text = model.decode(tokens)
                with telling:
                    progress(
                        Progress(
                            batch.label, batch.sample, len(finished), len(batches), len(tokens), config.max_tokens, text
                        )
                    )

        def write() -> Sample:
            text = writer(part, model, batch, rows[batch.label], part=f"plan.parts[{index}]", config=config)
            return text.write(max_tokens=config.max_tokens, report=report)

        sample = part.text(write)
        finished.append(index)
        return sample

    if isinstance(model, Spread) and recorder.side_by_side and len(batches) > 1:
        samples = _side_by_side(recorder, model, written, len(batches))
    else:
        samples = [written(index, model) for index in range(len(batches))]
    return Generated(
        generator=kind,
        samples=tuple(samples),
        trace=(*recorder.trace, *chain.from_iterable(part.trace for part in parts)),
        draws_per_node=dict(recorder.draws),
        protected=True,
        versions=dict(model.versions),
    )


def _side_by_side(
    recorder: Recorder, model: Spread, written: Callable[[int, LanguageModel], Sample], count: int
) -> list[Sample]:
    """Several texts at a time, each with all its prompts in one place; they draw one after another, as they come."""
    together = min(model.together, count)
    places: SimpleQueue[LanguageModel] = SimpleQueue()
    for _ in range(together):
        places.put(model.one_place())

    def somewhere(index: int) -> Sample:
        place = places.get()
        try:
            return written(index, place)
        finally:
            places.put(place)

    with ThreadPoolExecutor(together) as threads:
        waiting = [threads.submit(somewhere, index) for index in range(count)]
        try:
            for done in as_completed(waiting):
                done.result()
        except BaseException:
            recorder.end()
            for one in waiting:
                one.cancel()
            raise
    return [one.result() for one in waiting]
