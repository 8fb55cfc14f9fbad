"""Each attack's AUC on unprotected and on protected demonstrations, of real data: one table.

    affidavit data make dbpedia14 train.csv; affidavit data make agnews test.csv
    python -m benchmarks.table_attacks data [--datasets dbpedia14 agnews] [--runs 20] [--members 20] ...

The folder holds DATASET/train.jsonl: one record a line with id, text and label. A run picks a class in turn; its
members and non-members are records of that class, drawn anew, so an attack that knows only the class scores one half.
Unprotected is one real member in the prompt (that member against the non-members); protected is one text that PRISM
writes from all members, calibrated to --epsilon under zero-out at --delta. All attacks of a command see the same text.

Every run is appended to the state file when it is done; a command that was stopped goes on from there, and runs of
other settings in the same file are left alone. The table is written at the end, from what the state file holds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
from affidavit.generation.models import load_model
from affidavit.generation.models.base import LanguageModel
from affidavit.runfile import RunFile, parse_run
from affidavit.solving import solve_run

TASKS = {"dbpedia14": "dbpedia", "agnews": "ag-news", "trec": "trec"}
TARGETS = ("unprotected", "protected")
PROMPT = LabelPrompt()


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
        self._shown = remembering_model(model)  # type: ignore[arg-type]
        lines = (asked.data / name / "train.jsonl").read_text(encoding="utf-8").splitlines()
        found = [json.loads(line) for line in lines]
        records = drop_near_copies([Record(each["id"], each["text"], each["label"]) for each in found], ()).kept
        self._labels = tuple(sorted({record.label or "" for record in records}))
        self._by_label = {label: [r for r in records if r.label == label] for label in self._labels}

    def runs(self, state: State, attacks: Sequence[MembershipName]) -> Iterator[str]:
        """Compute what is missing; a line for each run."""
        for run in range(self._asked.runs):
            for target in TARGETS:
                missing = [name for name in attacks if not state.has(self._name, target, run, name)]
                if missing:
                    start = time.perf_counter()
                    for name, value in list(self._run(run, target, missing)):  # all of a run or none of it
                        state.add(self._name, target, run, name, value)
                    yield f"{self._name} {target} run {run}: {time.perf_counter() - start:.0f} s"

    def _run(self, run: int, target: str, attacks: Sequence[MembershipName]) -> Iterator[tuple[MembershipName, float]]:
        asked, seed = self._asked, self._asked.seed * 100_003 + run
        label = self._labels[run % len(self._labels)]
        order = np.random.default_rng(seed).permutation(len(self._by_label[label]))
        drawn = [self._by_label[label][int(i)] for i in order]
        needed = asked.members + asked.non_members
        made: list[Demonstrated] = []

        def demonstrate(members: Sequence[Record], _seed: int) -> Demonstrated:
            if not made:
                made.append(self._demonstration(target, members, label))
            return made[0]

        settings = self._settings(drawn[needed:], attacks, seed)
        for name in attacks:
            (scored,) = score_runs(
                drawn[:needed],
                demonstrate,
                membership_attack(name, settings),
                self._shown,
                members=asked.members,
                non_members=asked.non_members,
                runs=1,
                seed=seed,
            )
            yield name, auc(scored.members, scored.non_members)

    def _settings(self, rest: Sequence[Record], attacks: Sequence[MembershipName], seed: int) -> Settings:
        shadows = Shadows(())
        if SHADOWED & set(attacks):
            asked = self._asked
            shadows = make_shadows(rest, prompts=asked.shadow_prompts, shots=1, population=asked.population, seed=seed)
        return Settings(PROMPT, labels=self._labels, shadows=shadows)

    def _demonstration(self, target: str, members: Sequence[Record], label: str) -> Demonstrated:
        if target == "unprotected":
            return Demonstrated((PROMPT.demonstration(members[0]),), (members[0],))
        run = self._run_file(label)
        certified = Certified.of_plan(run.plan(), relation=run.relation, delta=run.budget.delta)
        protected = Protected(run, self._model, certified)
        released = protected.demonstrate(members, epsilon=certified.epsilon, seed=0)
        return Demonstrated(tuple(PROMPT.demonstration(record) for record in released), tuple(members))

    def _run_file(self, label: str) -> RunFile:
        """PRISM on the members alone, at the temperature that costs --epsilon."""
        asked = self._asked
        run = parse_run(
            {
                "relation": "zero-out",
                "unit": "record",
                "budget": {"epsilon": asked.epsilon, "delta": asked.delta},
                "data": {"name": "table", "path": "train.jsonl", "size": asked.members},
                "model": {"name": asked.model},
                "generator": {
                    "kind": "prism",
                    "task": TASKS.get(self._name, "generic"),
                    "labels": [label],
                    "batch_size": asked.members,
                    "max_tokens": asked.tokens,
                    "max_record_tokens": asked.record_tokens,
                    "minibatch_rows": min(32, asked.members),
                },
            }
        )
        solved = solve_run(run, epsilon=asked.epsilon, key="temperature")
        return run.with_generator(temperature=float(solved.value))


def markdown(asked: argparse.Namespace, state: State, attacks: Sequence[MembershipName]) -> str:
    """The table, with the command that made it."""
    head = [f"{name}, {target}" for name in asked.datasets for target in TARGETS]
    lines = [
        "# Each attack's AUC, unprotected and protected",
        "",
        "Mean over runs, in brackets an approximate 95 % interval (bootstrap over runs). Unprotected: a real record",
        "in a one-shot prompt. Protected: one text that PRISM wrote from all members, zero-out,",
        f"ε = {asked.epsilon:g}, δ = {asked.delta:g}. {asked.runs} runs, {asked.members} members and",
        f"{asked.non_members} non-members of one class, model {asked.model}.",
        "An AUC near one half of an attack that fails without protection says nothing; [how to read it](../audits.md).",
        "",
        "| attack | " + " | ".join(head) + " |",
        "|---" * (len(head) + 1) + "|",
    ]
    for name in attacks:
        cells = [_cell(state.values(dataset, target, name)) for dataset in asked.datasets for target in TARGETS]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", f"Made by `python -m benchmarks.table_attacks DATA {_flags(asked)}`.", ""])


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    low, high = resampled_interval(values, alpha=0.05, generator=np.random.default_rng(0))
    return f"{np.mean(values):.2f} [{max(0.0, low):.2f}, {min(1.0, high):.2f}]"


def _flags(asked: argparse.Namespace) -> str:
    skipped = {"data", "state", "out"}
    shown = {name: value for name, value in vars(asked).items() if name not in skipped}
    return " ".join(
        f"--{name.replace('_', '-')} {' '.join(value) if isinstance(value, list) else value}"
        for name, value in shown.items()
        if value
    )


def _settings_digest(asked: argparse.Namespace, model: LanguageModel) -> str:
    """Everything that a result depends on, but for how many runs and which attacks and data sets are asked for."""
    free = {"data", "datasets", "attacks", "runs", "state", "out"}
    fixed: dict[str, Any] = {name: value for name, value in vars(asked).items() if name not in free}
    return hashlib.sha256(json.dumps([fixed, model.digest], sort_keys=True).encode()).hexdigest()[:16]


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("--datasets", nargs="+", default=["dbpedia14", "agnews"])
    parser.add_argument("--attacks", nargs="+", default=list(MEMBERSHIP_ATTACKS), choices=MEMBERSHIP_ATTACKS)
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--non-members", type=int, default=20)
    parser.add_argument("--shadow-prompts", type=int, default=8)
    parser.add_argument("--population", type=int, default=16)
    parser.add_argument("--epsilon", type=float, default=4.0)
    parser.add_argument("--delta", type=float, default=1e-3)
    parser.add_argument("--tokens", type=int, default=30)
    parser.add_argument("--record-tokens", type=int, default=96)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--state", type=Path, default=Path("build/attacks.jsonl"))
    parser.add_argument("--out", type=Path, help="where the table goes; left out: printed only")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute what is missing and write the table."""
    asked = _asked(arguments)
    attacks = cast("list[MembershipName]", asked.attacks)
    model = load_model(asked.model, dtype=asked.dtype)
    state = State(asked.state, _settings_digest(asked, model))
    for name in asked.datasets:
        for line in Table(asked, name, model).runs(state, attacks):
            print(line, file=sys.stderr, flush=True)
    text = markdown(asked, state, attacks)
    print(text)
    if asked.out is not None:
        temporary = asked.out.with_suffix(".new")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(asked.out)


if __name__ == "__main__":
    main()
