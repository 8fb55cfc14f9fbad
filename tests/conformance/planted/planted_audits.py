"""A bug, planted into a generator of this package by replacing one function, and the audits that are then run on it.

Every audit runs as a user would run it: on the run's own settings, under the plan as it was before the bug.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant.errors import AffidavitError
from affidavit.accountant.plan import Plan
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.accountant.validate import Relation
from affidavit.audits.certified import Certified
from affidavit.audits.checks import CheckReport
from affidavit.audits.experiments.one_step import OneStepAudit, prepare
from affidavit.audits.trace.check import check_trace
from affidavit.audits.trace.events import parse
from affidavit.generation.configs import GeneratorConfig
from affidavit.generation.dataset import Record
from affidavit.generation.models import load_model
from affidavit.generation.registry import Generator, generator
from affidavit.neighbours import Trial, try_neighbours
from affidavit.sensitivity import Rehearsed, try_sensitivity
from affidavit.trial import TrialPermit

__all__ = ["AUDITS", "Case", "Plant", "audited"]

AUDITS = ("permit", "trace check", "neighbour test", "sensitivity check", "one-step audit")
FOLDER = Path(__file__).parents[1] / "generators"
_WORDS = ("company", "river", "school", "market", "village", "police", "film")
TRIALS, ALPHA = 400, 1e-4


@dataclass(frozen=True, eq=False)
class Case:
    """A generator's settings: those of ``generators/KIND.toml`` with some of them changed. ``mechanism``: which one
    of its plan the one-step audit runs; empty: the one of the leaf with the most uses."""

    kind: str
    relation: Relation = "zero-out"
    changes: Mapping[str, Any] = field(default_factory=dict)
    mechanism: str = ""

    @property
    def table(self) -> dict[str, Any]:
        return tomllib.loads((FOLDER / f"{self.kind}.toml").read_text(encoding="utf-8"))

    @property
    def source(self) -> Generator:
        return generator(self.kind)

    @property
    def config(self) -> GeneratorConfig:
        return self.source.config.model_validate({**self.table["generator"], **self.changes})

    @property
    def size(self) -> int:
        return int(self.table["size"])

    def plan(self) -> Plan:
        return self.source.plan(self.config, relation=self.relation, size=self.size)

    def records(self, kind: str = "private") -> list[Record]:
        labels = self.table.get("labels") or self.table["generator"]["labels"]
        count = self.size if kind == "private" else int(self.table.get("public", 0))
        texts = (f"the {_WORDS[n % 7]} and the {_WORDS[(3 * n + 2) % 7]}, message {n}" for n in range(count))
        return [Record(f"{kind}-{n}", text, labels[n % len(labels)]) for n, text in enumerate(texts)]

    def one_step(self) -> OneStepAudit:
        """Prepared once for all bugs in one plan."""
        return _one_step(self.plan(), self.relation, self.mechanism)


@cache
def _one_step(plan: Plan, relation: Relation, mechanism: str) -> OneStepAudit:
    certified = Certified.of_plan(plan, relation=relation, delta=1e-5)
    return prepare(certified, SeededNoise(5), trials=TRIALS, alpha=ALPHA, mechanism=mechanism)


@dataclass(frozen=True, eq=False)
class Plant:
    """``caught_by``: the audit whose business it is; others may see it too. ``signed``: the plan that is signed has
    the bug already, as where code that states a sensitivity is wrong."""

    name: str
    what: str
    case: Case
    plant: Callable[[pytest.MonkeyPatch], None]
    caught_by: str
    signed: bool = False


def audited(
    case: Case, plant: Callable[[pytest.MonkeyPatch], None] | None = None, *, signed: bool = False
) -> dict[str, str]:
    """Each audit that found something, with the names of what it found; the bug is there while they run."""
    plan, prepared = case.plan(), case.one_step()
    with pytest.MonkeyPatch.context() as patch:
        if plant is not None:
            plant(patch)
        if signed:
            plan, prepared = case.plan(), case.one_step()
        return dict(_found(case, plan, prepared))


def _found(case: Case, plan: Plan, prepared: OneStepAudit) -> Iterator[tuple[str, str]]:
    config, source, relation = case.config, case.source, case.relation
    permit = TrialPermit(plan, relation, SeededNoise(3))
    try:
        made = source.run(
            permit, config, case.records(), load_model("toy"), size=case.size, public=case.records("public")
        )
    except AffidavitError as error:
        yield "permit", type(error).__name__
        return
    trial = Trial(source, config, load_model("toy"), relation, case.size, case.records("public"))
    reports: dict[str, CheckReport] = {
        "trace check": check_trace(parse(made.trace), plan, relation=relation),
        "neighbour test": try_neighbours(trial, case.records(), seeds=(1,)),
        "sensitivity check": try_sensitivity(Rehearsed(source, config, relation, plan)),
    }
    for name, report in reports.items():
        if report.faults:
            yield name, ", ".join(dict.fromkeys(check.slug for check in report.faults))
    settled = prepared.design.case
    if prepared.run(settled.release).violated:
        yield "one-step audit", "certified-curve"
