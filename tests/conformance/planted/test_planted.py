"""Every planted bug is caught by the audit whose business it is, and no audit accuses a generator without one."""

from __future__ import annotations

import re

import pytest
from planted_audits import AUDITS, Case, Plant, audited
from planted_table import PAGE, PLANTS, found, page, row

from affidavit.generation.registry import kinds


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_the_bug_is_caught_and_the_page_says_so(plant: Plant) -> None:
    assert plant.caught_by in found(plant), found(plant)
    assert row(plant) in PAGE.read_text(encoding="utf-8").splitlines(), WRITE


WRITE = "run: python tests/conformance/planted/planted_table.py"

CASES = list({repr(plant.case): plant.case for plant in PLANTS}.values())


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind} {case.relation} {case.mechanism}".strip())
def test_the_same_settings_without_a_bug_are_not_accused(case: Case) -> None:
    assert audited(case) == {}


def test_there_are_many_and_every_audit_and_generator_has_some() -> None:
    assert len(PLANTS) >= 45
    assert len({plant.name for plant in PLANTS}) == len(PLANTS)
    assert {plant.caught_by for plant in PLANTS} == set(AUDITS)
    assert {plant.case.kind for plant in PLANTS} == set(kinds())


def test_the_page_has_a_row_for_each_bug_and_nothing_else() -> None:
    names = re.sub(r"(?m)^(\| `[^`]+`).*$", r"\1", PAGE.read_text(encoding="utf-8"))
    assert names == page(lambda plant: f"| `{plant.name}`"), WRITE
