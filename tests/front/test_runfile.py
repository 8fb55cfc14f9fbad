"""Run files: each wrong key is named with what is allowed; the digest covers what runs and nothing else."""

from __future__ import annotations

import copy
import tomllib
from typing import Any

import pytest

from affidavit.accountant.errors import NotSupported, RunFileError
from affidavit.accountant.plan import Exponential, Parallel, leaves
from affidavit.runfile import load_run, parse_run

GOOD = tomllib.loads("""
relation = "zero-out"
unit = "record"
[budget]
epsilon = 4.0
delta = 1e-3
[data]
name = "letters"
path = "train.jsonl"
size = 24
[model]
name = "toy"
[generator]
kind = "prism"
labels = ["north", "south"]
batch_size = 10
clip = 4.0
temperature = 1.0
""")


def _with(path: str, value: Any) -> dict[str, Any]:
    content = copy.deepcopy(GOOD)
    *tables, key = path.split(".")
    here = content
    for table in tables:
        here = here.setdefault(table, {})
    if value is None:
        del here[key]
    else:
        here[key] = value
    return content


@pytest.mark.parametrize(
    ("path", "value", "key", "says"),
    [
        ("relation", None, "relation", "missing; allowed: add-remove | zero-out | substitution"),
        ("relation", "add", "relation", "'add-remove', 'zero-out' or 'substitution'"),
        ("unit", "person", "unit", 'allowed: "record"'),
        ("unit", {"key": "user_id", "max_records": 0}, "unit", "max_records"),
        ("budget.epsilon", float("nan"), "budget.epsilon", "finite"),
        ("budget.epsilon", -1.0, "budget.epsilon", "greater than or equal to 0"),
        ("budget.epsilon", "1", "budget.epsilon", "number"),
        ("budget.delta", 1.5, "budget.delta", "less than or equal to 1"),
        ("budget.gamma", 1.5, "budget.gamma", "unknown key; allowed: epsilon, delta"),
        ("data.size", 24.5, "data.size", "integer"),
        ("data.size", 0, "data.size", "greater than or equal to 1"),
        ("data.size", None, "data.size", "missing"),
        ("generator", None, "generator", "missing"),
        ("generator.kind", "prison", "generator.kind", "prism"),
        ("generator.kind", None, "generator.kind", "prism"),
        ("generator.temprature", 1.0, "generator.temprature", "unknown key"),
        ("generator.temperature", 0.0, "generator.temperature", "greater than 0"),
        ("generator.temperature", 1e-3, "generator.temperature", "at most"),
        ("generator.labels", ["a", "a"], "generator.labels", "twice"),
        ("generator.labels", ["a", 3], "generator.labels[1]", "string"),
        ("generator.labels", [], "generator.labels", "at least 1"),
        ("randomness.noise", 7, "randomness.noise", "seed"),
        ("randomness.noise", {"seed": -1}, "randomness.noise", "seed"),
        ("randomness.noise", {"seed": True}, "randomness.noise", "seed"),
        ("folder", "/", "folder", "unknown key"),
        ("extra", 1, "extra", "unknown key; allowed: relation, unit, budget, data, model, generator, randomness"),
    ],
)
def test_a_wrong_key_is_named(path, value, key, says):
    with pytest.raises(RunFileError) as caught:
        parse_run(_with(path, value))
    assert caught.value.key == key
    assert says in str(caught.value)
    assert caught.value.exit_code == 2


def test_the_plan_is_the_generators(tmp_path):
    run = parse_run(GOOD)
    plan = run.plan()
    assert isinstance(plan, Parallel)
    for _, leaf, uses in leaves(plan):
        assert isinstance(leaf, Exponential)
        assert leaf.range == pytest.approx(4.0 / (10 * 1.0), rel=1e-9)
        assert leaf.range >= 4.0 / (10 * 1.0), "a range is rounded to the safe side"
        assert uses == 40


def test_batches_larger_than_the_size_are_refused():
    with pytest.raises(RunFileError, match="more than the declared size of 24") as caught:
        parse_run(_with("generator.batch_size", 13)).plan()
    assert "At most `generator.batch_size = 12`" in caught.value.hint


def test_a_unit_without_a_theorem_is_refused():
    run = parse_run(_with("unit", {"key": "user_id", "max_records": 5}))
    with pytest.raises(NotSupported, match="user_id") as caught:
        run.plan()
    assert 'unit = "record"' in caught.value.hint


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("relation", "add-remove"),
        ("budget.epsilon", 3.0),
        ("data.name", "postcards"),
        ("data.size", 25),
        ("generator.temperature", 1.5),
        ("generator.labels", ["south", "north"]),
        ("randomness", {"noise": {"seed": 7}}),
    ],
)
def test_the_digest_changes_with_what_runs(path, value):
    assert parse_run(_with(path, value)).sha256() != parse_run(GOOD).sha256()


def test_the_digest_does_not_depend_on_where_the_files_are(tmp_path):
    moved = parse_run(_with("data.path", "elsewhere/train.jsonl"), folder=tmp_path)
    assert moved.sha256() == parse_run(GOOD).sha256()
    assert moved.data_path == tmp_path / "elsewhere/train.jsonl"


def test_defaults_are_in_the_digest():
    """A default written out is the same run; another version's other default would be another one."""
    spelt = _with("generator.max_tokens", 40)
    assert parse_run(spelt).sha256() == parse_run(GOOD).sha256()
    assert parse_run(GOOD).settings()["generator"]["max_tokens"] == 40


def test_relative_paths_start_at_the_file(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('relation = "zero-out"\n', encoding="utf-8")
    with pytest.raises(RunFileError):
        load_run(path)


@pytest.mark.parametrize(
    ("generator", "wrong"),
    [
        ({"kind": "prism", "clip": 1e-308}, "generator.clip"),
        ({"kind": "private-prediction", "clip": 1e-308}, "generator.clip"),
        ({"kind": "few-shot", "mechanism": "gaussian", "noise_multiplier": 1e-300}, "generator.noise_multiplier"),
        ({"kind": "few-shot", "mechanism": "gaussian", "noise_multiplier": 1e300}, "generator.noise_multiplier"),
        ({"kind": "few-shot", "mechanism": "noisy-max", "noise_epsilon": 1e300}, "generator.noise_epsilon"),
        ({"kind": "adadpsyn", "radius_noise_multiplier": 1e300}, "generator.radius_noise_multiplier"),
    ],
)
def test_a_number_that_no_run_could_want_is_refused_by_its_own_name(generator, wrong):
    """It was told as ``width``, which no file has, or was an overflow in a formula."""
    with pytest.raises(RunFileError) as refused:
        parse_run({**GOOD, "generator": {"labels": ["a"], **generator}})
    assert refused.value.key == wrong
    assert refused.value.hint
