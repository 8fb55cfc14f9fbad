"""The neighbour test for the generators of this package: what to record of a run, and which neighbours to try.

A run is observed from outside: the model is wrapped, so that what every row computes is seen with the shape of
the batch it was computed in; the rest is the run's own trace. Noise is seeded, and aligned by record: a fresh sample is
the same with a record and without it, but for that record.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from affidavit.accountant.plan import Leaf, Parallel, Plan
from affidavit.accountant.validate import Relation
from affidavit.aligned_noise import AlignedNoise
from affidavit.audits.neighbour import Observed, Step, combine, neighbour_test
from affidavit.audits.trace.samples import subsample_nodes
from affidavit.generation.dataset import Record
from affidavit.trial import TrialPermit

if TYPE_CHECKING:
    from affidavit.audits.checks import CheckReport
    from affidavit.generation.configs import GeneratorConfig
    from affidavit.generation.models.base import Decoding, LanguageModel, Logits
    from affidavit.generation.registry import Generator

__all__ = ["Pair", "Trial", "neighbours", "try_neighbours"]

_PHRASE = "quartz heron 7391 vellum orbit 2048 tansy"
_NOT_AN_OUTPUT = {
    "event",
    "path",
    "use",
    "members",
    "noise_sha256",
    "rows",
    "prompts",
    "unsound_rows",
    "truncated",
    "population",
}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two neighbours. ``removed``: the place in ``before`` of the record that ``after`` lacks, if it lacks one."""

    before: tuple[Record, ...]
    after: tuple[Record, ...]
    removed: int | None = None


@dataclass(slots=True)
class _AlignedPermit(TrialPermit):
    """A trial's permit that tells the noise what is drawn."""

    def use(self, path: str) -> Leaf:
        leaf = TrialPermit.use(self, path)
        if isinstance(self.noise, AlignedNoise):
            self.noise.begin(path)
        return leaf


@dataclass(frozen=True, slots=True)
class Trial:
    """A generator in one configuration, to be run on one data set after another."""

    source: Generator
    config: GeneratorConfig
    model: LanguageModel
    relation: Relation
    size: int
    public: Sequence[Record] = ()

    def plan(self) -> Plan:
        """What a run costs."""
        return self.source.plan(self.config, relation=self.relation, size=self.size)

    def observe(self, records: Sequence[Record], seed: int, *, removed: int | None = None) -> Observed:
        """One run under seeded noise; ``removed`` is the place of the record that it lacks of its neighbour's."""
        plan = self.plan()
        watched = _WatchedModel(self.model)
        held = len(records) + (removed is not None)
        done = self.source.run(
            _AlignedPermit(plan, self.relation, AlignedNoise(seed, held=held, size=self.size, removed=removed)),
            self.config,
            records,
            cast("LanguageModel", watched),
            size=self.size,
            public=self.public,
        )
        return Observed(
            facts={
                "labels and numbers of the texts": tuple((sample.label, sample.number) for sample in done.samples),
                "generator": done.generator,
            },
            steps=tuple(_steps(done.trace, plan)),
            computed=watched.computed,
            texts=tuple(sample.text for sample in done.samples),
        )


def try_neighbours(trial: Trial, records: Sequence[Record], *, seeds: Sequence[int] = (1, 2)) -> CheckReport:
    """The neighbour test over every kind of neighbour that the trial's relation knows."""
    return combine(_try(trial, pair, seeds) for pair in neighbours(records, relation=trial.relation))


def _try(trial: Trial, pair: Pair, seeds: Sequence[int]) -> CheckReport:
    def run(records: tuple[Record, ...], seed: int) -> Observed:
        return trial.observe(records, seed, removed=pair.removed if records is pair.after else None)

    return neighbour_test(run, pair.before, pair.after, secrets=(_PHRASE,), seeds=seeds)


def neighbours(records: Sequence[Record], *, relation: Relation) -> Iterator[Pair]:
    """Pairs of neighbours in which the changed record holds a secret phrase.

    The first record, one in the middle and the last is removed: what goes by position, or by what stands first,
    is seen only where a record is missing before others. Replaced ones stand in the same places, and get a longer
    text, and another id and label.
    """
    for place in sorted({0, len(records) // 2, len(records) - 1}):
        mine, before, behind = records[place], tuple(records[:place]), tuple(records[place + 1 :])
        if relation != "substitution":
            marked = dataclasses.replace(mine, text=f"{mine.text} {_PHRASE}")
            yield Pair((*before, marked, *behind), (*before, *behind), removed=place)
            continue
        longer = dataclasses.replace(mine, text=f"{_PHRASE} {mine.text} " * 3)
        yield Pair(tuple(records), (*before, longer, *behind))
        other = next((record.label for record in records if record.label != mine.label), mine.label)
        yield Pair(tuple(records), (*before, Record("another-record", _PHRASE, other), *behind))


def _steps(trace: Sequence[Mapping[str, Any]], plan: Plan) -> Iterator[Step]:
    """The trace's lines as steps. Parallel parts are streams of their own unless samples are drawn.

    Samples take noise from the one source of the run, so that what one part consumes would shift another's.
    """
    apart = isinstance(plan, Parallel) and not any(subsample_nodes(plan))
    for line in trace:
        path = str(line.get("path", ""))
        place = f"{line['event']} at {path}, use {line.get('use', 0)}"
        if line["event"] == "draw":
            yield Step(
                place,
                output=_digest({name: value for name, value in line.items() if name not in _NOT_AN_OUTPUT}),
                support=_digest(line["support"]) if "support" in line else None,
                stream=path.partition("]")[0] if apart else "",
            )
        elif "members" in line:
            batch = line["event"] == "batch"
            yield Step(
                place, members=frozenset(line["members"]), stream=f"{place} {line.get('label', '')}" if batch else ""
            )


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(slots=True)
class _WatchedModel:
    """A model whose every row of logits is noted: tokens so far to (rows, width, logits)."""

    inner: LanguageModel
    computed: dict[Hashable, set[Hashable]] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> Decoding:
        """As the model's own."""
        return _WatchedDecoding(self, self.inner.start(rows, width=width), [tuple(row) for row in rows], width)

    def start_apart(self, rows: Sequence[Sequence[int]], *, width: int, steps: int) -> Decoding:
        """As the model's own."""
        inner = self.inner.start_apart(rows, width=width, steps=steps)
        return _WatchedDecoding(self, inner, [tuple(row) for row in rows], width)


@dataclass(slots=True)
class _WatchedDecoding:
    model: _WatchedModel
    inner: Decoding
    rows: list[tuple[int, ...]]
    width: int

    @property
    def logits(self) -> Logits:
        """As the decoding's own, noted."""
        logits = self.inner.logits
        for row, values in zip(self.rows, logits, strict=True):
            result = (len(self.rows), self.width, hashlib.sha256(values.tobytes()).hexdigest())
            self.model.computed.setdefault(row, set()).add(result)
        return logits

    def append(self, tokens: Sequence[int]) -> None:
        """As the decoding's own."""
        self.inner.append(tokens)
        self.rows = [(*row, token) for row, token in zip(self.rows, tokens, strict=True)]
