"""The sensitivity check for the generators of this package: which neighbours to rehearse, and on which model.

The run's own settings, its plan as signed, and its own code from ``run`` down; but a model whose answers are chosen
(``chosen_model``), records and public records that are invented, and samples that hold everybody (``chosen_noise``). So
no data set, no key and no language model is needed, and nothing is released. The declared size is the least at which
the settings fit, so that every record is in a batch; no leaf depends on it.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice, product
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from affidavit.accountant.plan import Gaussian, Leaf, Parallel, Plan, WithoutReplacement, leaves
from affidavit.accountant.validate import Relation
from affidavit.audits.sensitivity import Change, Neighbours, Rehearsal, Rehearse, sensitivity_check
from affidavit.chosen_model import MARKS, WORDS, ChosenModel, Part, Scenario, scenarios, script
from affidavit.chosen_noise import ChosenNoise
from affidavit.generation.dataset import Record
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.sga.settings import SgaConfig
from affidavit.invented import Invented
from affidavit.mechanisms.above_threshold import AboveThreshold
from affidavit.trial import TrialPermit

if TYPE_CHECKING:
    from affidavit.audits.checks import CheckReport
    from affidavit.generation.configs import GeneratorConfig
    from affidavit.generation.registry import Generator

__all__ = ["Rehearsed", "try_sensitivity"]

Place: TypeAlias = Literal["first", "middle", "last"]
History: TypeAlias = Literal["drawn", "plain", "passing"]
Words: TypeAlias = Sequence[str]

_ENDS: tuple[Place, ...] = ("first", "last")


@dataclass(slots=True)
class _RehearsalPermit(TrialPermit):
    """A trial's permit that is watched, and tells its watch what is charged."""

    watch: Rehearsal = field(default_factory=Rehearsal)

    def use(self, path: str) -> Leaf:
        leaf = TrialPermit.use(self, path)
        self.watch.began(path)
        return leaf


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """A generator in one configuration; ``plan``: what was signed for it."""

    source: Generator
    config: GeneratorConfig
    relation: Relation
    plan: Plan

    def pairs(self) -> Iterator[Neighbours]:
        """Everything that is tried: every scenario on few records, and both ends of many."""
        setting = _Setting.of(self)
        middle: Place = "middle"
        tries: list[tuple[Scenario, Place, int]] = []
        for scenario in setting.scenarios:
            tries.append((scenario, middle, 2))
        for scenario in setting.scenarios[:2]:
            for place in _ENDS:
                tries.append((scenario, place, setting.many))
        for count in setting.counts:
            tries.append((setting.scenarios[2], middle, count))
        for seed, ((scenario, place, each), history) in enumerate(product(tries, _histories(self.plan))):
            yield from setting.neighbours(scenario, place, each=each, seed=seed, history=history)


def try_sensitivity(rehearsed: Rehearsed) -> CheckReport:
    """The sensitivity check over all of ``rehearsed.pairs``. Raises as the generator's ``check``."""
    return sensitivity_check(rehearsed.pairs(), plan=rehearsed.plan, relation=rehearsed.relation)


@dataclass(frozen=True, slots=True)
class _Setting:
    """What all pairs of one generator share. ``words``: of the changed record's text, and of its replacement's."""

    of_whom: Rehearsed
    invented: Invented
    vocabulary_size: int
    scenarios: tuple[Scenario, ...]
    words: tuple[Words, Words]
    changes: tuple[Change, ...]

    @classmethod
    def of(cls, rehearsed: Rehearsed) -> _Setting:
        invented = Invented.of(rehearsed.config)
        config = invented.config
        words = _far_apart(config) if isinstance(config, SgaConfig) else (WORDS[:1], WORDS[1:2])
        vocabulary = max(ToyModel().vocabulary_size, int(getattr(config, "top_k", 0)) + 3)
        scenarios = _scenarios(config, words, vocabulary)
        return cls(rehearsed, invented, vocabulary, scenarios, words, tuple(_changes(rehearsed)))

    @property
    def config(self) -> GeneratorConfig:
        """The generator's settings."""
        return self.invented.config

    @property
    def many(self) -> int:
        """Records of a label that fill more than a minibatch, and more than a batch."""
        return max(int(getattr(self.config, name, 1)) for name in ("minibatch_rows", "batch_size")) + 2

    @property
    def counts(self) -> tuple[int, ...]:
        """Records of a label of which one more or fewer decides: those that a ball is to hold; and ``many``."""
        subsets, shares = getattr(self.config, "subsets", 0), ("fraction", "coverage")
        found = {math.ceil(getattr(self.config, share, 0.0) * subsets) for share in shares} - {0}
        return (*sorted(found), self.many)

    def neighbours(
        self, scenario: Scenario, place: Place, *, each: int, seed: int, history: History
    ) -> Iterator[Neighbours]:
        """One data set of so many records a label, and what can become of one of its records."""
        records = self._records(each)
        where = {"first": 0, "middle": len(records) // 2, "last": len(records) - 1}[place]
        mine = self._record(where, "changed", longer=place == "last")
        before = (*records[:where], mine, *records[where + 1 :])
        model = ChosenModel(scenario, vocabulary_size=self.vocabulary_size)
        rehearse = self._rehearse(model, before, seed, history)
        for change in self.changes:
            name = f"{place} of {len(before)} records {change}, {scenario.name}"
            if change == "dropped":
                after = self._rehearse(model, (*before[:where], *before[where + 1 :]), seed, history, removed=where)
            else:
                other = self._record(where, "replacement", longer=place != "last")
                if change == "moved" or not _label_is_slot(self.config):
                    label = next((label for label in self.invented.labels if label != mine.label), mine.label)
                    other = dataclasses.replace(other, label=label)
                after = self._rehearse(model, (*before[:where], other, *before[where + 1 :]), seed, history)
            yield Neighbours(name, change, rehearse, after)

    def _records(self, each: int) -> list[Record]:
        count = min(max(3, each * len(self.invented.labels)), self.invented.most)
        return [self._record(number, "other") for number in range(count)]

    def _record(self, number: int, part: Part, *, longer: bool = False) -> Record:
        words = {"changed": self.words[0], "replacement": self.words[1]}.get(part, WORDS[4:5])
        length = int(getattr(self.config, "max_record_tokens", 8))
        count = 3 * length if longer else max(1, length // 4)
        text = " ".join((MARKS[part], *islice(cycle(words), count)))
        return Record(f"r{number}", text, self.invented.labels[number % len(self.invented.labels)])

    def _rehearse(
        self, model: ChosenModel, records: Sequence[Record], seed: int, history: History, *, removed: int | None = None
    ) -> Rehearse:
        held = len(records) + (removed is not None)

        def run(watch: Rehearsal) -> Hashable:
            single = {"drawn": None, "plain": 0.0, "passing": 4.0}[history]
            source = ChosenNoise(seed, held=held, size=self.invented.size, removed=removed, single=single)
            watch.drawing = source.drawing
            if history != "drawn":
                watch.chosen = _below
            plan = self.of_whom.source.plan(self.config, relation=self.of_whom.relation, size=self.invented.size)
            permit = _RehearsalPermit(plan, self.of_whom.relation, source, watch=watch)
            done = self.of_whom.source.run(
                permit, self.config, records, model, size=self.invented.size, public=self.invented.public()
            )
            return tuple((each.label, each.number, each.text, each.tokens, each.query) for each in done.samples)

        return run


def _changes(rehearsed: Rehearsed) -> Iterator[Change]:
    """Those of which any leaf of the plan speaks."""
    yield "dropped"
    if rehearsed.relation == "substitution" or _draws_without_replacement(rehearsed.plan):
        yield "replaced"
        labels = getattr(rehearsed.config, "labels", ())
        if isinstance(rehearsed.plan, Parallel) and len(labels) > 1 and _label_is_slot(rehearsed.config):
            yield "moved"


def _label_is_slot(config: GeneratorConfig) -> bool:
    """Whether a record's label decides in which part it is; else it may change as its text does."""
    return not getattr(config, "across_labels", False)


def _histories(plan: Plan) -> tuple[History, ...]:
    """Which earlier outcomes to suppose: ``drawn``; and where later releases on the same records hang on them,
    ``plain``, normal noise of 0 and every sparse vector's answer "below", and ``passing``, where counts are large."""
    below = {re.sub(r"^plan\.parts\[\d+\]", "", path): leaf for path, leaf, _ in leaves(plan)}
    if sum(isinstance(leaf, Gaussian) for leaf in below.values()) > 1:
        return ("drawn", "plain", "passing")
    return ("drawn", "plain") if any(isinstance(leaf, AboveThreshold) for leaf in below.values()) else ("drawn",)


def _below(outcome: Any) -> Any:
    return False if isinstance(outcome, bool) else outcome


def _draws_without_replacement(plan: Plan) -> bool:
    if isinstance(plan, WithoutReplacement):
        return True
    below = (getattr(plan, "of", None), *getattr(plan, "parts", ()))
    return any(_draws_without_replacement(node) for node in below if node is not None)


def _scenarios(config: GeneratorConfig, words: tuple[Words, Words], size: int) -> tuple[Scenario, ...]:
    if not hasattr(config, "queries") and not hasattr(config, "keywords"):
        return scenarios(size=size, depth=float(getattr(config, "clip", 1.0)) + 1.0)
    count = max(2, min(20, int(getattr(config, "keywords", 2))))
    agreed, tied = WORDS[48 : 48 + count], sorted(WORDS[48 : 48 + count + 1])
    one: dict[Part, Words] = {"changed": words[0], "replacement": words[1], "other": WORDS[4:5], "nobody": WORDS[4:5]}
    said: dict[str, dict[Part, Words]] = {
        "many words": {"changed": WORDS[8:28], "replacement": WORDS[28:48], "other": WORDS[4:8], "nobody": WORDS[4:5]},
        "opposite words": one,
        "the others' word": {**one, "other": words[0]},
        "alone": {"changed": WORDS[8:28], "replacement": WORDS[28:48], "other": ("the",), "nobody": ("the",)},
        "agreed words": {"changed": agreed[-1:], "replacement": agreed[:1], "other": agreed, "nobody": agreed},
        "tied words": {"changed": tied[-1:], "replacement": tied[:1], "other": tied, "nobody": ("the",)},
    }
    return tuple(
        Scenario(
            name,
            {part: script(written, size=size) for part, written in parts.items()},
            telling=hasattr(config, "keywords"),
        )
        for name, parts in said.items()
    )


def _far_apart(config: SgaConfig) -> tuple[Words, Words]:
    """The words of two answers that lie far apart in the toy embedding, as the mechanism sees them.

    Of all ends of an axis, by so many of the words that point there most: the two texts furthest from each other.
    """
    from affidavit.generation.models.embedding import load_embedding
    from affidavit.generation.sga.candidates import Projection
    from affidavit.mechanisms.dpm import clipped

    dimensions, radius, longest = config.dpm.dimensions, config.dpm.radius, config.max_tokens
    embedding = load_embedding("toy")
    projection = Projection.of(embedding.embed([WORDS[4]] * 2), dimensions=dimensions)
    single = projection(embedding.embed(WORDS))
    texts = [
        [WORDS[int(index)] for index in np.argsort(-sign * single[:, axis], kind="stable")[:count]]
        for axis, sign, count in product(range(dimensions), (1, -1), range(1, min(longest, 8) + 1))
    ]
    points = clipped(projection(embedding.embed([" ".join(text) for text in texts])), radius=radius)
    apart = np.linalg.norm(points[:, None] - points[None], axis=2)
    one, two = np.unravel_index(int(apart.argmax()), apart.shape)
    return texts[int(one)], texts[int(two)]
