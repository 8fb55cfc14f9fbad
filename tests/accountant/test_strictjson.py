"""Forms: what is shown is read back, and nothing else is read."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from affidavit.accountant import strictjson
from affidavit.accountant.attestation.keylimits import KeyLimits
from affidavit.accountant.errors import PlanError
from affidavit.accountant.filters.costs import Costs, RenyiPoint
from affidavit.accountant.ledger import accounts

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Pair(NamedTuple):
    left: str
    right: int = 0


PAIR = strictjson.record(Pair, called={"right": "to"}, later={"right": 0})


@pytest.mark.parametrize(
    "item",
    [
        KeyLimits(),
        KeyLimits(("a", "b"), "zero-out", Decimal("1.5"), Decimal("0.00001"), NOON, NOON),
        Costs(),
        Costs((RenyiPoint(Decimal(2), Decimal("0.1")),), Decimal(0), Decimal("0.25")),
        Pair("a"),
        Pair("a", 3),
    ],
)
def test_what_is_shown_is_read_back(item: Any) -> None:
    form = PAIR if isinstance(item, Pair) else strictjson.record(type(item))
    assert form.read(form.show(item), path="item") == item


def test_a_field_that_came_later_is_left_out_where_it_says_nothing() -> None:
    assert PAIR.show(Pair("a")) == {"left": "a"}
    assert PAIR.show(Pair("a", 1)) == {"left": "a", "to": 1}


@pytest.mark.parametrize(
    ("value", "at"),
    [
        ([], "item"),
        ({}, "item.left"),
        ({"left": "a", "right": 1}, "item.right"),
        ({"left": 1}, "item.left"),
        ({"left": "a", "to": True}, "item.to"),
        ({"left": "a", "to": 1.0}, "item.to"),
        ({"left": "a", "to": -1}, "item.to"),
    ],
)
def test_nothing_else_is_read(value: object, at: str) -> None:
    with pytest.raises(PlanError) as refusal:
        PAIR.read(value, path="item")
    assert refusal.value.path == at


@pytest.mark.parametrize("text", ["eA", "eA=", "eB==", "eA==\n", "e-A=", 1, None])
def test_base64_has_one_spelling(text: object) -> None:
    assert strictjson.BASE64.read("eA==", path="value") == b"x"
    with pytest.raises(PlanError):
        strictjson.BASE64.read(text, path="value")


# As ledgers of November 2026 state them in a checkpoint.
SUMS: list[dict[str, Any]] = [
    {
        "account": "0" * 32, "at": "2026-03-01T12:00:00Z", "data": [], "dataset": "mail", "delta": "0.001",
        "epsilon": "10", "filter": "basic", "records": ["0" * 16], "relation": "zero-out", "runs": 3,
        "spent_delta": "0", "spent_epsilon": "0.3", "unit": "record",
    },
    {
        "account": "1" * 32, "at": "2026-03-01T12:00:00Z", "charged": "0", "data": ["f" * 64], "dataset": "cards",
        "delta": "0.00001", "epsilon": "3", "filter": "renyi", "holding": "1.3", "order": "8",
        "part": {"count": 2, "index": 1, "key": "0" * 16}, "records": [], "relation": "add-remove", "runs": 0,
        "spent_delta": "0", "spent_epsilon": "0", "unit": "record",
    },
]  # fmt: skip


@pytest.mark.parametrize("sums", SUMS, ids=["basic", "renyi"])
def test_an_accounts_sums_are_spelled_as_ever(sums: dict[str, Any]) -> None:
    assert accounts._sums(accounts._WITH_SUMS.read(sums, path="sums")) == sums


def test_another_kind_of_document_is_told_so_before_what_it_says() -> None:
    form = strictjson.record(
        dict, {"said": strictjson.listed(strictjson.exactly("a")), "kind": strictjson.exactly("k")}
    )
    with pytest.raises(PlanError, match=r"x\.kind"):
        form.read({"said": 1, "kind": "other"}, path="x")
