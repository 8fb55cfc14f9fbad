"""Every generator states the whole contract, and what it states is so."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.errors import RunFileError
from affidavit.generation import registry
from affidavit.generation.contract import Generator, GeneratorModule, Work
from affidavit.mechanisms.base import registered

FACTOR = 2.0
ROOT = Path(__file__).parents[2]


def _scaled(case: Any, factor: float) -> dict[str, object]:
    """The case's changes that scale every noise key, a dotted one within its table."""
    table = case.config().model_dump()
    changes: dict[str, object] = {}
    for key in case.source.noise_keys(case.config()):
        *outer, last = key.split(".")
        if not outer:
            changes[last] = table[last] * factor
            continue
        inner = changes.setdefault(outer[0], table[outer[0]])
        for step in outer[1:]:
            inner = inner[step]  # type: ignore[index]
        inner[last] = inner[last] * factor  # type: ignore[index]
    return changes


def test_the_noise_keys_set_the_cost(generator_case: Any) -> None:
    """All of them together, in proportion: one way costs more, the other less."""
    relation = generator_case.relations[0]
    costs = []
    for factor in (1.0 / FACTOR, 1.0, FACTOR):
        try:
            plan = generator_case.plan(relation, **_scaled(generator_case, factor))
        except RunFileError:
            continue
        costs.append(bound(plan, relation=relation, delta=1e-3).epsilon_upper)
    assert generator_case.source.noise_keys(generator_case.config())
    assert len(costs) >= 2
    assert costs in (sorted(costs), sorted(costs, reverse=True))
    assert len(set(costs)) == len(costs)


def test_a_trial_size_is_the_least_that_batches_fit(generator_case: Any) -> None:
    config, source = generator_case.config(), generator_case.source
    least = source.trial_size(config)
    if least is None:
        assert source.sample_size(config, size=generator_case.size) is not None
        return
    relation = generator_case.relations[0]
    source.plan(config, relation=relation, size=least)
    with pytest.raises(RunFileError):
        source.plan(config, relation=relation, size=least - 1)


def test_work_grows_with_what_is_asked(generator_case: Any) -> None:
    source, size = generator_case.source, generator_case.size
    work = source.work(generator_case.config(), size=size)
    assert isinstance(work, Work)
    assert work.read > 0
    assert work.decoded > 0
    longer = source.work(generator_case.config(max_tokens=generator_case.config().max_tokens * 3), size=size)
    assert longer.decoded > work.decoded


def test_what_is_made_is_what_is_stated(generator_case: Any) -> None:
    fields = type(generator_case.config()).model_fields
    assert (generator_case.source.makes == "answers") == ("queries" in fields)
    assert set(fields) >= {"max_tokens", "max_record_tokens", "minibatch_rows", "dtype", "task", "prompts"}


def test_a_module_that_leaves_a_name_out_is_refused() -> None:
    """Nothing of the contract has a default, so that the front door never has to guess."""
    assert all(field.default is dataclasses.MISSING for field in dataclasses.fields(Generator))
    named = {name for name in vars(GeneratorModule) if not name.startswith("_")}
    assert named == {
        *("CONFIG", "PRESETS", "ACCESS", "MAKES", "BASELINES"),
        *("noise_keys", "sample_size", "trial_size", "work", "check", "plan", "run"),
    }

    class Incomplete:
        CONFIG = PRESETS = ACCESS = MAKES = BASELINES = noise_keys = sample_size = trial_size = work = plan = run = None

    with pytest.raises(AttributeError, match="check"):
        Generator.of("incomplete", Incomplete)  # type: ignore[arg-type]


def test_the_type_checker_sees_every_registered_module() -> None:
    source = inspect.getsource(registry)
    held = source.partition("_CHECKED: tuple[GeneratorModule, ...] = (")[2].partition(")")[0]
    assert len([line for line in held.splitlines() if line.strip()]) == len(registry.kinds())


def test_a_generator_draws_by_its_recorder_alone() -> None:
    """No mechanism's ``release`` and no noise of the permit's: what is drawn otherwise is written down nowhere."""
    named = {mechanism.spec.__module__ for mechanism in registered()} | {"affidavit.mechanisms.dpm"}
    for path in sorted((ROOT / "generation").rglob("*.py")):
        if path.name in {"recorder.py", "baselines.py"}:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            where = f"{path.relative_to(ROOT)}, line {getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Attribute) and node.attr == "noise":
                assert ast.unparse(node.value) not in {"permit", "recorder", "self.recorder"}, where
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "release":
                assert ast.unparse(node.func) == "dpm.release", (
                    where
                )  # whose draws are made by ``mechanisms.base.draw``
            if isinstance(node, ast.ImportFrom) and node.module in named:
                assert "release" not in {name.name for name in node.names}, where
