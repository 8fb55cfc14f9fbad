"""What a grid expands to: cells, each one generation, measured at one or more numbers of shots."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from affidavit.accountant.errors import RunFileError
from affidavit.experiments.gridfile import Dataset, Grid, Method
from affidavit.generation.registry import generator
from affidavit.runfile import RunFile, parse_run

__all__ = ["Cell", "expand"]

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

    @property
    def shots(self) -> tuple[int, ...]:
        """At how many demonstrations the result is measured."""
        return (0,) if self.method.baseline == "zero-shot" else self.method.shots or self.grid.icl.shots

    @property
    def label(self) -> str:
        """The method's name with the settings that vary."""
        varying = ", ".join(f"{key} = {value}" for key, value in self.settings)
        return f"{self.method.name} ({varying})" if varying else self.method.name

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

    def run(self, **solved: float | int) -> RunFile:
        """The cell's run file; ``solved`` are generator keys found for its ε. Raises ``RunFileError``."""
        grid, dataset = self.grid, self.dataset
        table = {**self.method.generator, **dict(self.settings), **solved}
        known = generator(table.get("kind")).config.model_fields
        filled = {"labels": list(dataset.all_labels), "task": dataset.task}
        table = {**{key: value for key, value in filled.items() if key in known}, **table}
        data: dict[str, Any] = {"name": dataset.name, "path": dataset.path, "size": dataset.size}
        if dataset.public is not None:
            data["public"] = dataset.public
        content = {
            "relation": self.method.relation or grid.relation,
            "unit": "record",
            "budget": {"epsilon": self.epsilon if self.protected else _FREE, "delta": grid.delta},
            "data": {**data, "fields": dataset.fields.model_dump()},
            "model": grid.model.model_dump(exclude_defaults=True),
            "generator": table,
        }
        with self._named():
            return parse_run(content, folder=grid.folder)

    def check(self) -> None:
        """That the settings are a run. Raises ``RunFileError``, ``NotSupported``."""
        if self.method.generator:
            run = self.run()
            with self._named():
                run.plan()

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Say of which cell a run file's fault is."""
        try:
            yield
        except RunFileError as error:
            problem = error.message.removeprefix(f"{error.key}: ")
            raise RunFileError(f"{self.dataset.name}, {self.label}: {error.key}", problem, hint=error.hint) from None

    def _digest(self, *, with_seed: bool) -> str:
        facts = {
            "dataset": self.dataset.model_dump(mode="json"),
            "method": self.method.model_dump(mode="json", exclude={"epsilon", "datasets", "grid", "shots"}),
            "settings": self.settings,
            "relation": self.grid.relation,
            "delta": self.grid.delta,
            "epsilon": str(self.epsilon),
            "model": self.grid.model.settings(),
        }
        if with_seed:
            facts |= {"seed": self.seed, "shots": self.shots, "test": self.grid.icl.test}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:10]


def expand(grid: Grid) -> tuple[Cell, ...]:
    """All cells, dataset by dataset; every generator's settings are checked. Raises ``RunFileError``."""
    cells = tuple(_cells(grid))
    if not cells:
        raise RunFileError("methods", "no method is for any dataset")
    for cell in cells:
        cell.check()
    return cells


def _cells(grid: Grid) -> Iterator[Cell]:
    for dataset, method in itertools.product(grid.datasets, grid.methods):
        if method.datasets and dataset.name not in method.datasets:
            continue
        for settings in _settings(method):
            for epsilon, seed in itertools.product(_epsilons(grid, method), grid.seeds):
                yield Cell(grid, dataset, method, settings, epsilon, seed)


def _settings(method: Method) -> Iterator[tuple[tuple[str, Any], ...]]:
    keys = list(method.grid)
    for values in itertools.product(*(method.grid[key] for key in keys)):
        yield tuple(zip(keys, values, strict=True))


def _epsilons(grid: Grid, method: Method) -> tuple[float, ...]:
    if method.baseline in ("zero-shot", "public-only"):
        return (0.0,)
    if method.baseline is not None:
        return (math.inf,)
    return method.epsilon or grid.epsilon
