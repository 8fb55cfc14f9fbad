"""Entries with right MACs in wrong places: what the chain and its meaning refuse by themselves."""

from __future__ import annotations

from typing import Any

import pytest

from affidavit.accountant.errors import LedgerAltered
from affidavit.accountant.ledger.accounts import History
from affidavit.accountant.ledger.chain import GENESIS, Head, Row, link, seal, walk

KEY = bytes(32)
LEDGER = {"kind": "ledger", "id": "1"}
OPEN = {
    "kind": "open", "dataset": "mail", "relation": "zero-out", "unit": "record",
    "epsilon": "1", "delta": "0", "filter": "basic", "at": "t",
}  # fmt: skip
RESERVE = {
    "kind": "reserve", "dataset": "mail", "entry": "e", "certificate_sha256": "c",
    "epsilon": "1", "delta": "0", "at": "t",
}  # fmt: skip
COMMIT = {"kind": "commit", "entry": "e", "receipt_sha256": None, "at": "t"}


def chained(*facts: dict[str, Any]) -> list[Row]:
    rows: list[Row] = []
    for item in facts:
        after = Head(len(rows), rows[-1].mac) if rows else Head(0, GENESIS)
        rows.append(link(item, after=after, key=KEY))
    return rows


def first_bad(rows: list[Row]) -> int | None:
    with pytest.raises(LedgerAltered) as refusal:
        History.read(walk(rows, key=KEY))
    assert "affidavit ledger verify" in refusal.value.hint
    return refusal.value.entry


def test_a_right_history_is_read() -> None:
    history = History.read(walk(chained(LEDGER, OPEN, RESERVE, COMMIT), key=KEY))
    assert history.identity == "1"
    assert history.accounts["mail"].remaining == (0, 0)
    assert history.accounts["mail"].reservations[0].state == "committed t"


def test_an_entry_of_another_branch_does_not_fit() -> None:
    # Two histories written under the same key, as after restoring a copy: their entries cannot be mixed.
    one = chained(LEDGER, OPEN, RESERVE)
    other = chained(LEDGER, {**OPEN, "epsilon": "2"}, {**RESERVE, "epsilon": "0.5"})
    assert first_bad([*one[:2], other[2]]) == 3
    assert first_bad([other[0], one[1], other[2]]) == 3


def test_an_entry_cannot_be_moved_or_repeated() -> None:
    rows = chained(LEDGER, OPEN, RESERVE, COMMIT)
    moved = Row(3, rows[3].body, rows[3].mac)
    assert first_bad([*rows[:2], moved]) == 3
    assert first_bad([*rows[:3], Row(4, rows[2].body, rows[2].mac)]) == 4


@pytest.mark.parametrize(
    "history",
    [
        (OPEN,),
        (LEDGER, LEDGER),
        (LEDGER, RESERVE),
        (LEDGER, OPEN, OPEN),
        (LEDGER, OPEN, COMMIT),
        (LEDGER, OPEN, {**RESERVE, "epsilon": "1.1"}),
        (LEDGER, OPEN, {**RESERVE, "delta": "1e-300"}),
        (LEDGER, OPEN, {**RESERVE, "epsilon": 1}),
        (LEDGER, {**OPEN, "relation": "both"}),
        (LEDGER, {**OPEN, "unit": {}}),
        (LEDGER, {"kind": "gift", "dataset": "mail"}),
        (LEDGER, OPEN, RESERVE, {**RESERVE, "entry": "f", "epsilon": "0.1"}),
        (LEDGER, OPEN, RESERVE, {**RESERVE, "epsilon": "0"}),
        (LEDGER, OPEN, RESERVE, COMMIT, COMMIT),
    ],
)
def test_a_history_that_makes_no_sense_is_refused_at_its_last_entry(history: tuple[dict[str, Any], ...]) -> None:
    assert first_bad(chained(*history)) == len(history)


def test_the_seal_depends_on_everything() -> None:
    seals = {seal(Head(count, mac), key=key) for count in (1, 2) for mac in ("a", "b") for key in (KEY, b"k" * 32)}
    assert len(seals) == 8
