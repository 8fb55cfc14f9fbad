"""Every refusal ends with a remedy that works: each is made, its remedy is done as printed, and the call made again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from remedy_cases import Api, Case, Place, check, check_api
from remedy_catalogue import API, CASES, EXECUTED, PAGE, page
from remedy_sites import KINDS, Recorder, sites


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_remedy_works_as_printed(case: Case, new_place: Callable[[], Place], recorder: Recorder) -> None:
    assert check(case, new_place, recorder) > 0


@pytest.mark.parametrize("case", API, ids=str)
def test_the_remedy_of_a_call_works_as_printed(case: Api, recorder: Recorder) -> None:
    assert check_api(case, recorder) > 0


def test_every_refusal_has_a_case() -> None:
    """No refusal is without one, and no case is for one that is gone."""
    assert {site.name for site in sites()} - EXECUTED == set()
    assert EXECUTED - {site.name for site in sites()} == set()


def test_every_error_has_a_hint() -> None:
    """Or ``allowed``, of which the hint gives an example; the readers of data sets are told theirs by their caller,
    an unclear table its ways."""
    without = {
        site.name
        for site in sites()
        if site.hint in (None, "") and site.allowed is None and site.kind != "TableUnclear"
    }
    assert {name for name in without if not name.startswith("front/datasets/")} == set()
    for kind in ("PlanError", "RunFileError"):
        assert KINDS[kind]("key", "wrong", allowed="anything else").hint


def test_the_page_of_refusals_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python tests/front/remedies/remedy_catalogue.py"


def test_a_remedy_is_the_one_that_stands_before_its_refusal() -> None:
    """Several stand under one name in a function: the page gave all of them the last one."""
    hints = {site.name: site.hint for site in sites()}
    assert hints["audits/auditfile.py:_consistent#2"] == 'For example `kinds = ["email"]`.'
    assert hints["audits/auditfile.py:_consistent#8"] == 'Remove `thresholds`, or play `game = "per-run"`.'
