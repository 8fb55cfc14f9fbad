"""docs/plans.md: every mechanism and node has an example, and each costs what the page says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from affidavit import mechanisms
from affidavit.accountant.plan import leaf_kinds
from affidavit.cli import run

mechanisms.load()

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "plans.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```json\n(.*?)^```\n\n```text\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
SECTIONS = re.split(r"^### ", TEXT, flags=re.MULTILINE)[1:]


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A node and all below it, in ``moves`` and ``absent`` too."""
    yield node
    for value in node.values():
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, dict):
                yield from nodes(inner)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_costs_what_the_page_says(number, tmp_path, capsys):
    plan, said = EXAMPLES[number]
    file = tmp_path / "plan.json"
    file.write_text(plan, encoding="utf-8")
    assert run(["epsilon", str(file)]) == 0
    assert capsys.readouterr().out.rstrip().splitlines()[-1] == said.strip()


def test_every_example_is_followed_by_its_cost():
    assert len(EXAMPLES) == TEXT.count("```json\n")


def test_every_mechanism_and_node_has_a_section_with_its_example():
    examples = {section.partition("\n")[0]: re.search(r"```json\n(.*?)```", section, re.DOTALL) for section in SECTIONS}
    inner = ("compose", "repeat", "parallel", "subsample, poisson", "subsample, without-replacement")
    assert set(examples) == {*leaf_kinds(), *inner}
    for title, example in examples.items():
        kind, _, scheme = title.partition(", ")
        found = list(nodes(json.loads(example[1])["plan"]))
        assert any(node["kind"] == kind and node.get("scheme", "") == scheme for node in found), title


def test_every_key_of_a_node_is_explained_and_shown():
    shown = {key for plan, _ in EXAMPLES for node in nodes(json.loads(plan)["plan"]) for key in node}
    assert {"absent", "moves", "membership", "rate", "population", "sample", "count", "parts"} <= shown
    for key in shown - {"kind", "of", "scheme"}:
        assert f"`{key}`" in TEXT, key


def test_the_same_plan_in_toml_costs_the_same(tmp_path, capsys):
    (toml,) = re.findall(r"^```text\n(relation = .*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    file = tmp_path / "plan.toml"
    file.write_text(toml, encoding="utf-8")
    assert run(["epsilon", str(file)]) == 0
    said = capsys.readouterr().out.rstrip().splitlines()[-1]
    (same,) = (cost.strip() for plan, cost in EXAMPLES if '"count": 100,' in plan)
    assert said == same
