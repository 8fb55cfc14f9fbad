"""Design hints: each named change, made and certified, costs what the hint says, and less than the run as it is."""

from __future__ import annotations

import pytest

from affidavit.accountant.settle import known
from affidavit.designs import cheaper_designs
from affidavit.runfile import parse_run

RUN = {
    "relation": "substitution",
    "unit": "record",
    "budget": {"epsilon": 4.0, "delta": 1e-4},
    "data": {"name": "questions", "path": "train.jsonl", "size": 5452},
    "model": {"name": "toy"},
    "generator": {
        "kind": "few-shot",
        "labels": ["a", "b"],
        "subsets": 10,
        "shots_per_subset": 2,
        "noise_multiplier": 0.6,
        "sampling": "without-replacement",
    },
}


def test_every_hint_is_what_its_change_costs():
    run = parse_run(RUN)
    present = known(run.plan(), relation=run.relation, delta=run.budget.delta)[0].epsilon_upper
    found = {design.change: design for design in cheaper_designs(run)}
    assert set(found) == {
        'relation = "add-remove"',
        'relation = "zero-out"',
        'sampling = "fixed-groups"',
        "shots_per_subset = 1",
    }
    for change, design in found.items():
        key, _, value = change.partition(" = ")
        value = int(value) if value.isdigit() else value.strip('"')
        other = {**RUN, key: value} if key == "relation" else {**RUN, "generator": {**RUN["generator"], key: value}}
        changed = parse_run(other)
        cost = known(changed.plan(), relation=changed.relation, delta=changed.budget.delta)[0].epsilon_upper
        assert design.epsilon_upper == pytest.approx(cost)
        assert cost < present


def test_a_run_that_is_cheapest_as_it_is_gets_no_hint():
    generator = {"kind": "prism", "labels": ["a"], "batch_size": 20, "clip": 4.0, "temperature": 1.0, "max_tokens": 10}
    assert cheaper_designs(parse_run({**RUN, "relation": "zero-out", "generator": generator})) == ()
