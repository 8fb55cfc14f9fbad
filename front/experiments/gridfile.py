"""The grid file: datasets × methods × ε × seeds × settings, in TOML, strict.

Every combination becomes a cell. A method is a generator, with the keys to solve for its noise, or a
baseline. Everything is checked here, before a model is loaded or anything is charged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AllowInfNan, BeforeValidator, Field, WrapValidator, model_validator

from affidavit.accountant.errors import RunFileError
from affidavit.accountant.remedies import did_you_mean, near_file, setting
from affidavit.accountant.validate import Relation
from affidavit.experiments.naming import of_task, renamed
from affidavit.generation.icl.tasks import TASKS, Task
from affidavit.generation.icl.tasks import task as named_task
from affidavit.owntask import OwnTask
from affidavit.runfile import FieldNames, Model, Name
from affidavit.strict import StrictTable, checked, read_toml

__all__ = ["Baseline", "Dataset", "Grid", "Icl", "Method", "load_grid", "parse_grid"]

Baseline = Literal["zero-shot", "public-only", "public-records", "real", "aggregation"]
_SHOWN_AS_THEY_ARE = ("zero-shot", "public-records", "real")


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _tables(value: object) -> object:
    """One table, or an array of tables."""
    return tuple(value) if isinstance(value, list) else (value,)


def _several(value: object) -> object:
    return tuple(value) if isinstance(value, list) else (value,) if isinstance(value, str) else value


def _said_here(value: object, checked: Callable[[object], object]) -> object:
    """A task of one's own, whose faults are said with the grid's keys."""
    try:
        return checked(value)
    except RunFileError as error:
        raise renamed(error, of_task) from None


Epsilon = Annotated[float, Field(gt=0.0), AllowInfNan(True)]
Epsilons = Annotated[tuple[Epsilon, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Seeds = Annotated[tuple[Annotated[int, Field(ge=0)], ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Shots = Annotated[tuple[Annotated[int, Field(ge=1, le=64)], ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Text = Annotated[str, Field(min_length=1, max_length=2000)]
Names = Annotated[tuple[Name, ...], BeforeValidator(_several)]


class Asked(StrictTable):
    """How a data set's questions are put, where it is not as its task has it: the wording of the ICL prompt."""

    instruction: Text | None = None
    input: Text | None = None
    answer: Text | None = None

    def applied(self, task: Task) -> Task:
        """The task in this wording."""
        return replace(
            task,
            instruction=self.instruction or task.instruction,
            input_name=self.input or task.input_name,
            answer_name=self.answer or task.answer_name,
        )


class Texts(StrictTable):
    """Generator keys that belong to a data set: how many texts of which length, from how many records.

    Each generator takes those that it knows, over its preset and under what the method says itself.
    """

    samples_per_label: Annotated[int, Field(ge=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_record_tokens: Annotated[int, Field(ge=1)] | None = None
    batch_size: Annotated[int, Field(ge=1)] | None = None
    across_labels: bool | None = None
    match_label: bool | None = None


class Dataset(StrictTable):
    """Private records, a labelled test file, and the task that they are for.

    ``public_first``: so many lines at the head of ``path`` are declared public. They are the public records, and no
    private ones: ``size`` counts the others. ``test_last``: so many lines at its end are the test examples, instead of
    a file ``test``, and no private records either.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,60}$")]
    task: Annotated[str | OwnTask, WrapValidator(_said_here)]
    path: Name
    size: Annotated[int, Field(ge=1)]
    test: Name | None = None
    test_last: Annotated[int, Field(ge=1)] | None = None
    public: Name | None = None
    public_first: Annotated[int, Field(ge=1)] | None = None
    labels: Annotated[tuple[Name, ...] | None, BeforeValidator(_as_tuple)] = None
    prompt: Asked = Asked()
    texts: Texts = Texts()
    shots: Shots | None = None
    fields: FieldNames = FieldNames()

    @model_validator(mode="after")
    def _known(self) -> Dataset:
        if isinstance(self.task, OwnTask):
            if self.labels is not None:
                raise RunFileError("datasets.labels", "stand in the task as well", hint="Remove `datasets.labels`.")
        elif self.task not in TASKS or self.task == "generic":
            known = [name for name in TASKS if name != "generic"]
            own = 'task = {labels = ["spam", "ham"], instruction = "Say if it is spam or ham."}'
            hint = did_you_mean(self.task, known, path="datasets.task") or f"For example `datasets.{own}`, of your own."
            raise RunFileError("datasets.task", "not known", allowed=" | ".join(known), hint=hint)
        elif self.labels is None and not TASKS[self.task].words:
            hint = 'For example `datasets.labels = ["spam", "ham"]`.'
            raise RunFileError("datasets.labels", f"missing: the task {self.task} has no labels of its own", hint=hint)
        if self.public is not None and self.public_first is not None:
            raise RunFileError(
                "datasets.public_first",
                "public names a file as well",
                hint="Remove `datasets.public_first` or `datasets.public`.",
            )
        if self.test is not None and self.test_last is not None:
            raise RunFileError(
                "datasets.test_last",
                "test names a file as well",
                hint="Remove `datasets.test_last` or `datasets.test`.",
            )
        if self.test is None and self.test_last is None:
            raise RunFileError(
                "datasets.test",
                "missing: there is nothing to test on",
                hint='For example `datasets.test = "test.jsonl"`, or `datasets.test_last = 100` of its lines.',
            )
        return self

    @property
    def has_public(self) -> bool:
        """Whether there are public records."""
        return self.public is not None or self.public_first is not None

    @property
    def is_divided(self) -> bool:
        """Whether ``path`` holds more than the private records."""
        return self.public_first is not None or self.test_last is not None

    @property
    def all_labels(self) -> tuple[str, ...]:
        """The stated labels, else the task's."""
        return self.labels or tuple(self.asked.words)

    @property
    def asked(self) -> Task:
        """The task, with the data set's labels and field names."""
        task = self.task.task() if isinstance(self.task, OwnTask) else named_task(self.task)
        if self.labels is not None and task.kind == "choose":
            task = task.with_labels(self.labels)
        task = self.prompt.applied(task)
        usual = FieldNames()
        return task if self.fields == usual else task.with_fields(text=self.fields.text, label=self.fields.label)

    @property
    def wording(self) -> str | None:
        """The generators' built-in wording of this name; None for a task of one's own, which has their plain one."""
        return None if isinstance(self.task, OwnTask) else self.task


class Method(StrictTable):
    """A generator with its settings, or a baseline. ``grid``: generator keys that take several values.

    ``preset``: the generator's own settings to start from. ``solve``: the key, or keys (then scaled
    together), that are to meet each ε; ``dpm.count_noise_multiplier`` names a key of a table within.
    ``test``: on how many examples, where it is not ``icl.test``. ``beside``: the method it is compared with, else the
    first ``public-only`` one: it should have the same wording.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,60}$")]
    baseline: Baseline | None = None
    preset: Name | None = None
    generator: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, list[Any]] = Field(default_factory=dict)
    solve: Names = ()
    relation: Relation | None = None
    epsilon: Epsilons | None = None
    shots: Shots | None = None
    test: Annotated[int, Field(ge=1)] | None = None
    datasets: Names = ()
    beside: Name | None = None

    @model_validator(mode="after")
    def _whole(self) -> Method:
        where = f"methods.{self.name}"
        if self.baseline in _SHOWN_AS_THEY_ARE:
            if self.generator or self.grid or self.preset:
                hint = "Remove " + ", ".join(
                    f"`methods.{key}`" for key in ("generator", "grid", "preset") if getattr(self, key)
                )
                raise RunFileError(where, f"the baseline {self.baseline} has no generator, grid or preset", hint=hint)
        elif "kind" not in self.generator:
            raise RunFileError(
                f"{where}.generator.kind", "missing", hint='For example `methods.generator = {kind = "prism"}`.'
            )
        if self.baseline is not None and (self.solve or self.epsilon):
            raise RunFileError(
                where,
                "a baseline has no ε to meet",
                hint="Remove " + ", ".join(f"`methods.{key}`" for key in ("solve", "epsilon") if getattr(self, key)),
            )
        for key, values in self.grid.items():
            if not values or key in self.generator:
                raise RunFileError(
                    f"{where}.grid.{key}", "empty, or in generator as well", hint=f"Remove `methods.grid.{key}`."
                )
        return self


class Icl(StrictTable):
    """How the result is used: ``shots`` demonstrations, ``test`` examples (None: all).

    ``draws``: how often the demonstrations are chosen and ordered, for a mean over them.
    """

    shots: Shots = (4,)
    test: Annotated[int, Field(ge=1)] | None = None
    draws: Annotated[int, Field(ge=1, le=1000)] = 1


class Grid(StrictTable):
    """A whole grid file. ``model``: one, or several (``[[model]]``), of which each makes and reads texts of its own.

    Relative paths start at ``folder``, where the file stands; divided data go to ``parts``."""

    title: str = ""
    relation: Relation
    delta: Annotated[float, Field(gt=0.0, lt=1.0)]
    epsilon: Epsilons
    seeds: Seeds = (0, 1, 2)
    model: Annotated[tuple[Model, ...], BeforeValidator(_tables), Field(min_length=1)]
    icl: Icl = Icl()
    datasets: Annotated[tuple[Dataset, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
    methods: Annotated[tuple[Method, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
    folder: Annotated[Path, Field(exclude=True)] = Path()
    parts: Annotated[Path, Field(exclude=True)] = Path()

    @model_validator(mode="after")
    def _distinct(self) -> Grid:
        for what, names in (
            ("datasets", [one.name for one in self.datasets]),
            ("methods", [one.name for one in self.methods]),
            ("model", [json.dumps(one.settings()) for one in self.model]),
            ("seeds", list(map(str, self.seeds))),
            ("epsilon", list(map(str, self.epsilon))),
        ):
            if len(set(names)) != len(names):
                raise RunFileError(what, "the same one twice", hint=_apart(what))
        known = {one.name for one in self.datasets}
        for method in self.methods:
            if unknown := set(method.datasets) - known:
                raise RunFileError(
                    f"methods.{method.name}.datasets",
                    f"no dataset {min(unknown)}",
                    allowed=" | ".join(sorted(known)),
                    hint=f"For example {setting('methods.datasets', sorted(known))}.",
                )
        methods = [one.name for one in self.methods]
        for method in self.methods:
            if method.beside is not None and method.beside not in methods:
                raise RunFileError(
                    f"methods.{method.name}.beside",
                    "no method of the grid",
                    hint=did_you_mean(method.beside, methods, path="methods.beside") or "Remove `methods.beside`.",
                )
        return self

    def beside(self, method: Method) -> str:
        """The method that another is compared with; empty: none."""
        public = [one.name for one in self.methods if one.baseline == "public-only"]
        return method.beside or next(iter(public), "")


def _apart(what: str) -> str:
    """What makes a list's names or values distinct."""
    if what in ("datasets", "methods", "model"):
        return f'Give each another name, such as `{what}.name = "other"`.'
    return "For example " + setting(what, {"seeds": [0, 1, 2], "epsilon": [1.0, 4.0]}[what]) + "."


def load_grid(path: Path) -> Grid:
    """Read a grid file. Raises ``RunFileError`` naming the key."""
    if not path.is_file():
        raise RunFileError(str(path), "no such file", hint=f"{near_file(path)} docs/experiments.md shows whole ones.")
    return parse_grid(read_toml(path), folder=path.parent)


def parse_grid(content: Mapping[str, Any], *, folder: Path = Path()) -> Grid:
    """``load_grid`` of a parsed TOML document; relative paths start at ``folder``."""
    for name in ("folder", "parts"):
        if name in content:
            raise RunFileError(name, "unknown key", hint=f"Remove `{name}`.")
    return checked(Grid, {**content, "folder": folder.resolve()})
