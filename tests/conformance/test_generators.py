"""What must hold of every registered generator, whatever it does."""

from __future__ import annotations

import dataclasses
from collections import Counter

from affidavit.accountant.plan import canonical_json, leaves, parse_plan, to_dict
from affidavit.audits.trace.check import check_trace
from affidavit.audits.trace.events import parse as parse_trace
from affidavit.generation.models import load_model
from affidavit.generation.registry import kinds
from affidavit.neighbours import Trial, try_neighbours


def test_every_configuration_belongs_to_a_registered_generator(request):
    files = {path.stem for path in (request.path.parent / "generators").glob("*.toml")}
    assert files == set(kinds())


def test_the_plan_is_pure_data_and_a_function_of_public_settings(generator_case):
    for relation in generator_case.relations:
        plan = generator_case.plan(relation)
        assert plan == generator_case.plan(relation)
        assert parse_plan(to_dict(plan)) == plan


def test_no_setting_that_costs_privacy_is_inert(generator_case):
    assert generator_case.must_cost, "name the settings that the plan depends on"
    for relation in generator_case.relations:
        stated = canonical_json(generator_case.plan(relation))
        for name, other in generator_case.must_cost.items():
            assert canonical_json(generator_case.plan(relation, **{name: other})) != stated, (relation, name)


def test_a_run_uses_what_its_plan_states(generator_case):
    """The permit counts and orders; the receipt's counts and the trace's draws are what it counted."""
    for relation in generator_case.relations:
        generated, permit = generator_case.run(relation)
        allowed = {path: uses for path, _, uses in leaves(permit.plan)}
        used = Counter(line["path"] for line in generated.trace if line["event"] == "draw")
        assert used, relation
        assert generated.draws_per_node == used
        assert all(used[path] <= allowed[path] for path in used)


def test_every_draw_says_what_was_in_force_and_what_came_out(generator_case):
    """``Recorder.draw`` writes both: what was in force is what the plan states, to the last bit."""
    for relation in generator_case.relations:
        generated, permit = generator_case.run(relation)
        certified = {path: leaf for path, leaf, _ in leaves(permit.plan)}
        for line in generated.trace:
            if line["event"] == "draw":
                leaf = certified[line["path"]]
                stated = {name: value for name, value in dataclasses.asdict(leaf).items() if value not in (True, False)}
                assert stated.items() <= line.items(), (relation, line["path"])
                told = "value" in line or {"above", "passed"} & line.keys()
                assert told or leaf.kind == "gaussian", (relation, line["path"])  # of a long vector


def test_the_trace_is_of_the_plan(generator_case):
    for relation in generator_case.relations:
        generated, permit = generator_case.run(relation)
        report = check_trace(parse_trace(generated.trace), permit.plan, relation=relation)
        assert not report.faults, (relation, report.faults)


def test_a_neighbour_moves_nothing_but_itself(generator_case):
    case = generator_case
    for relation in case.relations:
        trial = Trial(case.source, case.config(), load_model("toy"), relation, case.size, case.public())
        report = try_neighbours(trial, case.records(), seeds=(1,))
        assert not report.faults, (relation, report.faults)
        compared = {check.name for check in report.checks if check.status == "consistent"}
        assert {"public facts", "other records' rows", "raw text"} <= compared
