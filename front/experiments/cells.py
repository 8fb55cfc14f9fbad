"""What a grid expands to: cells, each one generation, measured at one or more numbers of shots."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from affidavit.accountant.errors import RunFileError
from affidavit.accountant.remedies import did_you_mean
from affidavit.experiments.files import Files, files
from affidavit.experiments.gridfile import Dataset, Grid, Method
from affidavit.experiments.naming import of_run, renamed
from affidavit.generation.icl.evaluation import subset
from affidavit.generation.icl.examples import Example, load_examples
from affidavit.generation.icl.tasks import Task
from affidavit.generation.registry import generator
from affidavit.runfile import Model, RunFile, parse_run

__all__ = ["Cell", "expand", "with_values"]

_FREE = 1e9
"""A run file needs a budget; before the noise is solved for, it is not looked at."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One generation: a method with its settings, on a dataset, at a target ε, for a seed.

    ``epsilon`` is 0 for what reads no private record and infinite for what is not protected.
    """

    grid: Grid
    dataset: Dataset
    method: Method
    settings: tuple[tuple[str, Any], ...]
    epsilon: float
    seed: int
    model: Model

    @property
    def answers(self) -> bool:
        """Whether the generator answers the test questions itself, instead of writing demonstrations."""
        return self.method.baseline is None and "queries" in self._known

    @property
    def shots(self) -> tuple[int, ...]:
        """At how many demonstrations the result is measured."""
        if self.method.baseline == "zero-shot" or self.answers:
            return (0,)
        return self.method.shots or self.dataset.shots or self.grid.icl.shots

    @property
    def tests(self) -> int | None:
        """On how many examples; None for all."""
        return self.method.test or self.grid.icl.test

    @property
    def task(self) -> Task:
        """The dataset's task, with its labels."""
        return self.dataset.asked

    @property
    def files(self) -> Files:
        """Where the dataset's records stand."""
        return files(self.grid, self.dataset)

    def test_examples(self) -> tuple[Example, ...]:
        """What the result is measured on. Raises ``DataError``."""
        dataset = self.dataset
        examples = load_examples(self.grid.folder / (dataset.test or dataset.path), self.task).examples
        return subset(examples if dataset.test_last is None else examples[-dataset.test_last :], self.tests)

    @property
    def _known(self) -> Collection[str]:
        """The keys that the method's generator knows."""
        kind = self.method.generator.get("kind")
        return generator(kind).config.model_fields if kind is not None else ()

    @property
    def label(self) -> str:
        """The method's name with the settings that vary."""
        varying = ", ".join(f"{key} = {value}" for key, value in self.settings)
        return f"{self.method.name} ({varying})" if varying else self.method.name

    @property
    def model_name(self) -> str:
        """The model's name: of a local folder its last part."""
        return self.model.id or Path(self.model.name).name

    @property
    def protected(self) -> bool:
        """Whether it is to run under a certificate."""
        return self.method.baseline is None and math.isfinite(self.epsilon)

    @property
    def id(self) -> str:
        """A file name: readable, and unique through a digest of everything that the cell depends on."""
        shown = f"{self.epsilon:g}"
        return f"{self.dataset.name}.{self.method.name}.eps-{shown}.seed-{self.seed}.{self._digest(with_seed=True)}"

    @property
    def setting_id(self) -> str:
        """The same without the seed: cells that share a certificate share it."""
        return f"{self.dataset.name}.{self.method.name}.eps-{self.epsilon:g}.{self._digest(with_seed=False)}"

    def run(self, solved: Mapping[str, float | int] = MappingProxyType({})) -> RunFile:
        """The cell's run file; ``solved`` are generator keys found for its ε. Raises ``RunFileError``."""
        grid, dataset = self.grid, self.dataset
        with self._named():
            table = with_values(self._table(), solved)
        data: dict[str, Any] = {"name": dataset.name, "path": self.files.private, "size": dataset.size}
        if self.files.public is not None:
            data["public"] = self.files.public
        content = {
            "relation": self.method.relation or grid.relation,
            "unit": "record",
            "budget": {"epsilon": self.epsilon if self.protected else _FREE, "delta": grid.delta},
            "data": {**data, "fields": dataset.fields.model_dump()},
            "model": self.model.model_dump(exclude_defaults=True),
            "generator": table,
        }
        with self._named():
            return parse_run(content, folder=grid.folder)

    def _table(self) -> dict[str, Any]:
        """The run file's generator table: preset, method, varying settings, and what the dataset says."""
        method, dataset = self.method, self.dataset
        texts = {key: value for key, value in dataset.texts.model_dump(exclude_none=True).items() if key in self._known}
        table = {**self._preset(), **texts, **method.generator, **dict(self.settings)}
        if "labels" in self._known:
            table.setdefault("labels", list(dataset.all_labels))
        if "task" in self._known:
            wording = dataset.wording
            if wording is not None:
                table["task"] = str(table.get("task", wording)).replace("{task}", wording)
            elif "{task}" in str({**method.generator, **dict(self.settings)}.get("task", "{task}")):
                table.pop("task", None)
        if "queries" in self._known and "queries" not in table:
            table["queries"] = list(dict.fromkeys(one.input for one in self.test_examples()))
        return table

    def _preset(self) -> Mapping[str, Any]:
        """The values that the method starts from. Raises ``RunFileError``."""
        name = self.method.preset
        if name is None:
            return {}
        source = generator(self.method.generator.get("kind"))
        if name not in source.presets:
            hint = did_you_mean(name, list(source.presets), path="methods.preset") or "Remove `methods.preset`."
            raise RunFileError(
                "preset", f"{source.kind} has no such preset", allowed=" | ".join(source.presets), hint=hint
            )
        return source.presets[name]

    def check(self) -> None:
        """That the settings are a run, with the data it needs. Raises ``RunFileError``, ``NotSupported``."""
        if self.method.baseline == "public-records" and not self.dataset.has_public:
            raise RunFileError(
                f"{self.dataset.name}, {self.label}: datasets.public",
                "missing: there are no public records to show",
                hint='For example `datasets.public = "public.jsonl"`, or `datasets.public_first = 100` of its lines.',
            )
        if self.method.generator:
            run = self.run()
            with self._named():
                run.plan()
                _check_baseline(self.method.baseline, run)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Say of which cell a run file's fault is, in the grid's keys."""
        try:
            yield
        except RunFileError as error:
            rename = of_run(varying=self.method.grid, own_labels="labels" in self.method.generator)
            raise renamed(error, rename, at=f"{self.dataset.name}, {self.label}: ") from None

    def _digest(self, *, with_seed: bool) -> str:
        """A preset counts as its values: with others under its name, it is another cell."""
        method = self.method.model_dump(mode="json", exclude={"epsilon", "datasets", "grid", "shots", "test", "beside"})
        facts = {
            "dataset": self.dataset.model_dump(mode="json", exclude={"shots"}),
            "method": {**method, "preset": None, "generator": {**self._preset(), **method["generator"]}},
            "settings": self.settings,
            "relation": self.grid.relation,
            "delta": self.grid.delta,
            "epsilon": str(self.epsilon),
            "model": self.model.settings(),
            "asked": self.tests if self.answers else None,
        }
        if with_seed:
            facts |= {"seed": self.seed, "shots": self.shots, "test": self.tests, "draws": self.grid.icl.draws}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:10]


def _check_baseline(baseline: str | None, run: RunFile) -> None:
    """That a baseline means something for a generator. Raises ``RunFileError``."""
    if baseline == "aggregation" and baseline not in run.source.baselines:
        raise RunFileError(
            "baseline",
            f"aggregation without privacy is PRISM's, and {run.kind} has its own",
            hint="Remove `methods.baseline`, and set `methods.epsilon = [inf]` for the generator.",
        )
    if baseline == "public-only" and baseline not in run.source.baselines:
        raise RunFileError(
            "baseline", f"{run.kind} has no public prompt to write from", hint='`methods.generator = {kind = "prism"}`'
        )


def with_values(table: Mapping[str, Any], values: Mapping[str, float | int]) -> dict[str, Any]:
    """A table with some keys set; ``dpm.interval`` is the key ``interval`` of the table ``dpm``."""
    result = dict(table)
    for key, value in values.items():
        name, _, inner = key.partition(".")
        result[name] = with_values(result.get(name, {}), {inner: value}) if inner else value
    return result


def expand(grid: Grid) -> tuple[Cell, ...]:
    """All cells, dataset by dataset; every generator's settings are checked. Raises ``RunFileError``."""
    cells = tuple(_cells(grid))
    for cell in cells:
        cell.check()
    return cells


def _cells(grid: Grid) -> Iterator[Cell]:
    for model, dataset, method in itertools.product(grid.model, grid.datasets, grid.methods):
        if method.datasets and dataset.name not in method.datasets:
            continue
        for settings in _settings(method):
            for epsilon, seed in itertools.product(_epsilons(grid, method), grid.seeds):
                yield Cell(grid, dataset, method, settings, epsilon, seed, model)


def _settings(method: Method) -> Iterator[tuple[tuple[str, Any], ...]]:
    keys = list(method.grid)
    for values in itertools.product(*(method.grid[key] for key in keys)):
        yield tuple(zip(keys, values, strict=True))


def _epsilons(grid: Grid, method: Method) -> tuple[float, ...]:
    if method.baseline in ("zero-shot", "public-only", "public-records"):
        return (0.0,)
    if method.baseline is not None:
        return (math.inf,)
    return method.epsilon or grid.epsilon
