"""Each attack's AUC on unprotected and on protected demonstrations, of real data: one table.

    affidavit data make dbpedia14 train.csv; affidavit data make agnews test.csv
    python -m benchmarks.table_attacks data [--datasets dbpedia14 agnews] [--runs 30] [--classes 4] [--members 40] ...

The folder holds DATASET/train.jsonl: one record a line with id, text and label. A run takes --classes classes in turn
and as many records of each, drawn anew and split at random into members and non-members: both sides hold all of its
classes, so an attack that knows only the class scores one half, and no label is primed for one side more than for the
other. The prompt shows one demonstration of each class. Unprotected that is a real member (those shown against the
non-members); protected a text that PRISM writes from the class's members, calibrated to --epsilon under zero-out at
--delta (the classes are disjoint, so all texts together cost that), and --scored of all members are scored. All
attacks of a command see the same texts.

Every run is appended to the state file when it is done; a command that was stopped goes on from there, and runs of
other settings in the same file are left alone. The table is written at the end, from what the state file holds.
``--jobs``: so many processes, over this machine's GPUs in turn where ``AFFIDAVIT_DEVICE=cuda``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from affidavit.auditing import Protected
from affidavit.audits.attacks.caching import remembering_model
from affidavit.audits.attacks.prompting import LabelPrompt
from affidavit.audits.attacks.registry import MEMBERSHIP_ATTACKS, SHADOWED, MembershipName, Settings, membership_attack
from affidavit.audits.attacks.shadow import Shadows, make_shadows
from affidavit.audits.certified import Certified
from affidavit.audits.deduplicate import drop_near_copies
from affidavit.audits.experiments.membership import Demonstrated, score_runs
from affidavit.audits.statistics.auc import auc, resampled_interval
from affidavit.audits.textmodel import Record
from affidavit.generation.models import load_model, model_digest
from affidavit.generation.models.base import LanguageModel
from affidavit.generation.models.places import accelerators, take_device
from affidavit.generation.models.transformers_model import Dtype
from affidavit.runfile import RunFile, parse_run
from affidavit.solving import solve_run

TASKS = {"dbpedia14": "dbpedia", "agnews": "ag-news", "trec": "trec"}
TARGETS = ("unprotected", "protected")
PROMPT = LabelPrompt(max_characters=240)


@dataclass(frozen=True, slots=True)
class Row:
    """One attack's AUC in one run."""

    settings: str
    dataset: str
    target: str
    run: int
    attack: str
    auc: float


class State:
    """What was computed, in a file that only grows."""

    def __init__(self, path: Path, settings: str) -> None:
        self._path = path
        self._settings = settings
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        found = [Row(**json.loads(line)) for line in lines if line.strip()]
        self.rows = [row for row in found if row.settings == settings]

    def has(self, dataset: str, target: str, run: int, attack: str) -> bool:
        """Whether this was computed before."""
        return any(
            (row.dataset, row.target, row.run, row.attack) == (dataset, target, run, attack) for row in self.rows
        )

    def add(self, dataset: str, target: str, run: int, attack: str, value: float) -> None:
        """Append one result."""
        row = Row(self._settings, dataset, target, run, attack, value)
        self.rows.append(row)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({name: getattr(row, name) for name in Row.__slots__}) + "\n")

    def values(self, dataset: str, target: str, attack: str) -> list[float]:
        """An attack's AUCs, in order of runs."""
        found = {
            row.run: row.auc for row in self.rows if (row.dataset, row.target, row.attack) == (dataset, target, attack)
        }
        return [found[run] for run in sorted(found)]


class Table:
    """All runs of one data set."""

    def __init__(self, asked: argparse.Namespace, name: str, model: LanguageModel) -> None:
        self._asked = asked
        self._name = name
        self._model = model
        self._shown = remembering_model(model)
        lines = (asked.data / name / "train.jsonl").read_bytes().splitlines()
        found = [json.loads(line) for line in lines]
        records = drop_near_copies([Record(each["id"], each["text"], each["label"]) for each in found], ()).kept
        self._labels = tuple(sorted({record.label or "" for record in records}))
        self._by_label = {label: [r for r in records if r.label == label] for label in self._labels}

    def run(self, run: int, target: str, attacks: Sequence[MembershipName]) -> Iterator[tuple[MembershipName, float]]:
        """Each attack's AUC in one run."""
        asked, seed = self._asked, self._asked.seed * 100_003 + run
        pool, rest = self._drawn(run, np.random.default_rng(seed))
        made: list[Demonstrated] = []

        def demonstrate(members: Sequence[Record], _seed: int) -> Demonstrated:
            if not made:
                made.append(self._demonstrations(target, members))
            return made[0]

        settings = self._settings(rest, attacks, seed)
        for name in attacks:
            (scored,) = score_runs(
                pool,
                demonstrate,
                membership_attack(name, settings),
                self._shown,
                members=asked.members,
                non_members=asked.non_members,
                runs=1,
                seed=seed,
            )
            yield name, auc(scored.members, scored.non_members)

    def _drawn(self, run: int, generator: np.random.Generator) -> tuple[list[Record], list[Record]]:
        """As many records of each of the run's classes, and what is left of these classes, in random order."""
        asked, labels = self._asked, self._labels
        count = min(asked.classes, len(labels))
        each, more = divmod(asked.members + asked.non_members, count)
        pool: list[Record] = []
        rest: list[Record] = []
        for place in range(count):
            records = self._by_label[labels[(run * count + place) % len(labels)]]
            order = [records[int(i)] for i in generator.permutation(len(records))]
            wanted = each + (place < more)
            pool += order[:wanted]
            rest += order[wanted:]
        return pool, [rest[int(i)] for i in generator.permutation(len(rest))]

    def _settings(self, rest: Sequence[Record], attacks: Sequence[MembershipName], seed: int) -> Settings:
        shadows = Shadows(())
        if SHADOWED & set(attacks):
            asked = self._asked
            shadows = make_shadows(rest, prompts=asked.shadow_prompts, shots=1, population=asked.population, seed=seed)
        return Settings(PROMPT, labels=self._labels, shadows=shadows)

    def _demonstrations(self, target: str, members: Sequence[Record]) -> Demonstrated:
        by_label: dict[str, list[Record]] = {}
        for record in members:
            by_label.setdefault(record.label or "", []).append(record)
        if target == "unprotected":
            shown = tuple(records[0] for records in by_label.values())
            return Demonstrated(tuple(PROMPT.demonstration(record) for record in shown), shown)
        released = [text for label, records in by_label.items() for text in self._released(label, records)]
        used = tuple(members[: self._asked.scored])
        return Demonstrated(tuple(PROMPT.demonstration(record) for record in released), used)

    def _released(self, label: str, members: Sequence[Record]) -> list[Record]:
        run = self._run_file(label, size=len(members))
        certified = Certified.of_plan(run.plan(), relation=run.relation, delta=run.budget.delta)
        return Protected(run, self._model, certified).demonstrate(members, epsilon=certified.epsilon, seed=0)

    def _run_file(self, label: str, *, size: int) -> RunFile:
        """PRISM on the class's members alone, at the temperature that costs --epsilon."""
        asked = self._asked
        run = parse_run(
            {
                "relation": "zero-out",
                "unit": "record",
                "budget": {"epsilon": asked.epsilon, "delta": asked.delta},
                "data": {"name": "table", "path": "train.jsonl", "size": size},
                "model": {"name": asked.model},
                "generator": {
                    "kind": "prism",
                    "task": TASKS.get(self._name, "generic"),
                    "labels": [label],
                    "batch_size": size,
                    "max_tokens": asked.tokens,
                    "max_record_tokens": asked.record_tokens,
                    "minibatch_rows": min(32, size),
                },
            }
        )
        solved = solve_run(run, epsilon=asked.epsilon, key="temperature")
        return run.with_generator(temperature=float(solved.value))


@dataclass(frozen=True, slots=True)
class Task:
    """What is missing of one run."""

    dataset: str
    target: str
    run: int
    attacks: tuple[MembershipName, ...]

    def __call__(self, asked: argparse.Namespace) -> tuple[Task, float, list[tuple[MembershipName, float]]]:
        """Itself, seconds, and each attack's AUC: all of a run or none of it."""
        start = time.perf_counter()
        found = list(_table(asked, self.dataset).run(self.run, self.target, self.attacks))
        return self, time.perf_counter() - start, found


_TABLES: dict[tuple[str, str], Table] = {}
"""Of this process, by settings and data set."""


def _table(asked: argparse.Namespace, dataset: str) -> Table:
    key = str(sorted(vars(asked).items())), dataset
    if key not in _TABLES:
        _TABLES[key] = Table(asked, dataset, _model(asked.model, asked.dtype))
    return _TABLES[key]


@cache
def _model(name: str, dtype: Dtype) -> LanguageModel:
    return load_model(name, dtype=dtype)


def missing(asked: argparse.Namespace, state: State) -> list[Task]:
    """In order of runs: a command that is stopped has as many of every data set."""
    found = []
    for run in range(asked.runs):
        for dataset in asked.datasets:
            for target in TARGETS:
                attacks = tuple(name for name in asked.attacks if not state.has(dataset, target, run, name))
                if attacks:
                    found.append(Task(dataset, target, run, attacks))
    return found


def done(
    asked: argparse.Namespace, tasks: Sequence[Task]
) -> Iterable[tuple[Task, float, list[tuple[MembershipName, float]]]]:
    """Every task's outcome as it comes, here or in ``--jobs`` processes."""
    if asked.jobs == 1:
        yield from (task(asked) for task in tasks)
        return
    context = multiprocessing.get_context("spawn")
    placing = (context.Value("i", 0), accelerators())
    with ProcessPoolExecutor(asked.jobs, mp_context=context, initializer=take_device, initargs=placing) as pool:
        for future in as_completed([pool.submit(task, asked) for task in tasks]):
            yield future.result()


def markdown(asked: argparse.Namespace, state: State, attacks: Sequence[MembershipName]) -> str:
    """The table, with the command that made it."""
    head = [f"{name}, {target}" for name in asked.datasets for target in TARGETS]
    lines = [
        "# Each attack's AUC, unprotected and protected",
        "",
        "Mean over runs, in brackets an approximate 95 % interval (bootstrap over runs). A prompt shows one",
        "demonstration of each class. Unprotected: real members. Protected: texts that PRISM wrote from all members,",
        f"zero-out, ε = {asked.epsilon:g}, δ = {asked.delta:g}. {asked.members} members and {asked.non_members}",
        f"non-members of {asked.classes} classes mixed, model {asked.model}; runs: {_counts(asked, state, attacks)}.",
        "An AUC near one half of an attack that fails without protection says nothing; [how to read it](../audits.md).",
        "",
        "| attack | " + " | ".join(head) + " |",
        "|---" * (len(head) + 1) + "|",
    ]
    for name in attacks:
        cells = [_cell(state.values(dataset, target, name)) for dataset in asked.datasets for target in TARGETS]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", f"Made by `python -m benchmarks.table_attacks DATA {_flags(asked)}`.", ""])


def _counts(asked: argparse.Namespace, state: State, attacks: Sequence[MembershipName]) -> str:
    """How many runs stand behind each column: fewer than were asked for where the command was stopped."""
    found = []
    for dataset in asked.datasets:
        for target in TARGETS:
            runs = {len(state.values(dataset, target, name)) for name in attacks}
            found.append(f"{dataset} {target} {'/'.join(map(str, sorted(runs)))}")
    return ", ".join(found)


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    low, high = resampled_interval(values, alpha=0.05, generator=np.random.default_rng(0))
    return f"{np.mean(values):.2f} [{max(0.0, low):.2f}, {min(1.0, high):.2f}]"


def _flags(asked: argparse.Namespace) -> str:
    skipped = {"data", "state", "out", "only_table", "jobs"}
    shown = {name: value for name, value in vars(asked).items() if name not in skipped}
    return " ".join(
        f"--{name.replace('_', '-')} {' '.join(value) if isinstance(value, list) else value}"
        for name, value in shown.items()
        if value
    )


def _settings_digest(asked: argparse.Namespace) -> str:
    """Everything that a result depends on, but for how many runs and which attacks and data sets are asked for."""
    free = {"data", "datasets", "attacks", "runs", "state", "out", "only_table", "jobs"}
    fixed: dict[str, Any] = {name: value for name, value in vars(asked).items() if name not in free}
    return hashlib.sha256(json.dumps([fixed, model_digest(asked.model)], sort_keys=True).encode()).hexdigest()[:16]


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("--datasets", nargs="+", default=["dbpedia14", "agnews"])
    parser.add_argument("--attacks", nargs="+", default=list(MEMBERSHIP_ATTACKS), choices=MEMBERSHIP_ATTACKS)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--classes", type=int, default=4)
    parser.add_argument("--members", type=int, default=40)
    parser.add_argument("--non-members", type=int, default=12)
    parser.add_argument("--scored", type=int, default=12)
    parser.add_argument("--shadow-prompts", type=int, default=8)
    parser.add_argument("--population", type=int, default=16)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--delta", type=float, default=1e-3)
    parser.add_argument("--tokens", type=int, default=30)
    parser.add_argument("--record-tokens", type=int, default=96)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--state", type=Path, default=Path("build/attacks.jsonl"))
    parser.add_argument("--only-table", action="store_true", help="compute nothing: the table of what is there")
    parser.add_argument("--out", type=Path, help="where the table goes; left out: printed only")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute what is missing and write the table."""
    asked = _asked(arguments)
    attacks = cast("list[MembershipName]", asked.attacks)
    state = State(asked.state, _settings_digest(asked))
    for task, seconds, found in done(asked, [] if asked.only_table else missing(asked, state)):
        for name, value in found:
            state.add(task.dataset, task.target, task.run, name, value)
        print(f"{task.dataset} {task.target} run {task.run}: {seconds:.0f} s", file=sys.stderr, flush=True)
    text = markdown(asked, state, attacks)
    print(text)
    if asked.out is not None:
        temporary = asked.out.with_suffix(".new")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(asked.out)


if __name__ == "__main__":
    main()
