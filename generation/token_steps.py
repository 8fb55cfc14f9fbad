"""Texts, token by token: sample, ask the model, restrict to the public vocabulary, release, append.

The loop of Tang et al.'s algorithm 1 (and of Gao et al.'s, who keep it), for any ``TokenStep``: the step says what a
row becomes and how the rows of one sample become a token. It sees nothing but those rows and the permit.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.release.journal import DrawLost
from affidavit.generation.outputs import Generated, Sample
from affidavit.generation.probabilities import Grid, Support, support
from affidavit.generation.recorder import Recorder
from affidavit.generation.subsampled import SubsampledConfig, label_rows, node_path
from affidavit.generation.subset_rows import CachedRows, Encoded, fresh_logits
from affidavit.generation.subsets import Drawn, Groups, draw_subsets, fixed_groups, shown

if TYPE_CHECKING:
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.outputs import GeneratorPermit
    from affidavit.generation.prism import Progress
    from affidavit.generation.shots import ShotRows

__all__ = ["TokenStep", "write_texts"]

_Rows = Iterator[NDArray[np.float32]]


class TokenStep(Protocol):
    """What is released from one sample."""

    def weigh(self, logits: NDArray[np.float32]) -> Grid | None:
        """What one row contributes, by its logits of the public vocabulary; None for an unsound row: nothing."""
        ...

    def choose(self, recorder: Recorder, path: str, rows: list[Grid], *, width: int) -> int:
        """The index of the released token among ``width`` of them; ``path`` leads to the step's plan."""
        ...


@dataclass(frozen=True, slots=True)
class _Source:
    """The private side of one label: which records there are, and how they are asked."""

    config: SubsampledConfig
    model: LanguageModel
    rows: ShotRows
    encoded: Encoded
    relevant: tuple[bool, ...]
    size: int
    recorder: Recorder
    key: bytes

    def note_sample(self, path: str, drawn: Drawn, groups: Groups | None) -> None:
        """The trace line of a sample: of places by their record's id, or of whole groups."""
        if groups is not None and self.config.shots_per_subset > 1:
            names, population = [f"\0group {group}" for group in drawn.groups], len(groups.places)
        else:
            names = [self.encoded.name(place) for place in drawn.members]
            population = self.size if self.config.sampling == "without-replacement" else len(self.relevant)
        digests = [hmac.digest(self.key, name.encode("utf-8"), "sha256").hex() for name in names]
        self.recorder.sampled(path, digests, population=population)

    def prompt(self, places: Sequence[int]) -> tuple[int, ...] | None:
        """The prompt of a subset, or None where it would show nothing."""
        visible = shown(places, self.relevant, shots=self.config.shots_per_subset)
        return self.encoded.row(self.rows, visible) if visible else None


class _Fresh:
    """A sample and a prefill for every token."""

    def __init__(self, source: _Source) -> None:
        self._source = source
        self._generated: list[int] = []

    def next(self, vocabulary: Support) -> tuple[Drawn, _Rows]:
        source = self._source
        drawn = draw_subsets(source.config, size=source.size, held=len(source.relevant), noise=source.recorder.choice())
        prompts = [prompt for subset in drawn.subsets if (prompt := source.prompt(subset)) is not None]
        rows = fresh_logits(
            source.model,
            source.rows,
            prompts,
            generated=self._generated,
            minibatch_rows=source.config.minibatch_rows,
            tokens=vocabulary,
        )
        return drawn, rows

    def append(self, token: int) -> None:
        self._generated.append(token)


class _Cached:
    """Samples of fixed groups, all drawn before the first token; the groups they name stay in the model's cache."""

    def __init__(self, source: _Source, groups: Groups) -> None:
        noise = source.recorder.choice()
        self._drawn = [groups.draw(noise) for _ in range(source.config.max_tokens)]
        prompts = {
            group: prompt
            for group in sorted({group for drawn in self._drawn for group in drawn.groups})
            if (prompt := source.prompt(groups.places[group])) is not None
        }
        self._position = {group: index for index, group in enumerate(prompts)}
        self._rows = CachedRows(
            source.model,
            source.rows,
            list(prompts.values()),
            minibatch_rows=source.config.minibatch_rows,
            max_tokens=source.config.max_tokens,
        )
        self._used = 0

    def next(self, vocabulary: Support) -> tuple[Drawn, _Rows]:
        drawn = self._drawn[self._used]
        self._used += 1
        held = (self._position[group] for group in drawn.groups if group in self._position)
        return drawn, self._rows.logits(held, vocabulary)

    def append(self, token: int) -> None:
        self._rows.append(token)


def write_texts(
    permit: GeneratorPermit,
    config: SubsampledConfig,
    step: TokenStep,
    records: Sequence[Record],
    model: LanguageModel,
    *,
    kind: str,
    size: int,
    progress: Callable[[Progress], None] | None = None,
) -> Generated:
    """Every text of a run. Nothing is written to disk; an interrupt leaves no output and the reservation spent."""
    recorder = Recorder(permit)
    prompts = label_rows(config, model)
    key = recorder.key()
    encoded = Encoded(model, records, config.template)
    groups = None
    if config.sampling == "fixed-groups":
        groups = fixed_groups(config, size=size, held=len(records), noise=recorder.choice())
    texts: list[Sample] = []
    for index, label in enumerate(config.labels):
        relevant = tuple(not config.match_label or record.label == label for record in records)
        source = _Source(config, model, prompts[label], encoded, relevant, size, recorder, key)
        path = node_path(config, index)
        for number in range(config.samples_per_label):
            report = _reporter(progress, config, model, label=label, number=number, done=len(texts))
            write = partial(_text, source, step, groups, path, label=label, number=number, report=report)
            texts.append(recorder.text(write))
        if config.match_label and recorder.samples[path] < config.samples_per_label * config.max_tokens:
            recorder.finish(path.removesuffix(".of"))
    return Generated(
        generator=kind,
        samples=tuple(texts),
        trace=tuple(recorder.trace),
        draws_per_node=dict(recorder.draws),
        protected=True,
        versions=dict(model.versions),
    )


def _text(
    source: _Source,
    step: TokenStep,
    groups: Groups | None,
    path: str,
    *,
    label: str,
    number: int,
    report: Callable[[Sequence[int]], None],
) -> Sample:
    """One text: at most ``max_tokens`` tokens, up to the first end token or to what ends a text of this task.

    Both ends follow from released tokens, and a draw that was lost is the third end; the uses left are not drawn.
    """
    model, recorder, config = source.model, source.recorder, source.config
    public = model.start([source.rows.public], width=len(source.rows.public))
    private = _Fresh(source) if groups is None else _Cached(source, groups)
    tokens: list[int] = []
    stopped = False
    while not stopped and len(tokens) < config.max_tokens:
        if tokens:
            public.append(tokens[-1:])
            private.append(tokens[-1])
        vocabulary = support(public.logits[0], top_k=config.top_k)
        drawn, logits = private.next(vocabulary)
        source.note_sample(path, drawn, groups)
        weighed = [step.weigh(row) for row in logits]
        sound = [row for row in weighed if row is not None]
        try:
            token = int(vocabulary[step.choose(recorder, f"{path}.of", sound, width=vocabulary.size)])
        except DrawLost:
            recorder.finish(path)
            break
        recorder.note(token=token, unsound_rows=len(weighed) - len(sound))
        stopped = token in model.stop_tokens
        if not stopped:
            tokens.append(token)
            report(tokens)
            stopped = config.template.ended(source.rows.opening + model.decode(tokens))
    text = config.template.kept(source.rows.opening + model.decode(tokens))
    return Sample(label, number, text, tuple(tokens), stopped)


def _reporter(
    progress: Callable[[Progress], None] | None,
    config: SubsampledConfig,
    model: LanguageModel,
    *,
    label: str,
    number: int,
    done: int,
) -> Callable[[Sequence[int]], None]:
    """What tells ``progress`` about each token; released text only."""
    from affidavit.generation.prism import Progress

    every = len(config.labels) * config.samples_per_label

    def report(tokens: Sequence[int]) -> None:
        if progress is not None:
            progress(Progress(label, number, done, every, len(tokens), config.max_tokens, model.decode(tokens)))

    return report
