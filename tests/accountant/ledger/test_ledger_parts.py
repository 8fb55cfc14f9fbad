"""Accounts for parts of one data set: whatever is charged to one holds no record of another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import BudgetError, LedgerAltered, NotSupported, PlanError
from affidavit.accountant.ledger import Ledger, book
from affidavit.accountant.ledger.parts import Part, key_id
from affidavit.accountant.ledger.sketch import SIZE, digest, sketch
from affidavit.accountant.unit import RECORD, Unit

KEY = bytes(range(32))
COUNT = 4


def letters(size: int) -> list[str]:
    return [f"letter number {n} about the harbour" for n in range(size)]


def parts(count: int = COUNT) -> list[Part]:
    return [Part(index, count, key_id(KEY)) for index in range(1, count + 1)]


def within(part: Part, records: list[str], *, key: bytes) -> list[str]:
    return [one for one in records if part.holds([digest(one, key=key)])]


@given(st.integers(0, 16**16 - 1), st.integers(1, 1024))
def test_each_digest_is_in_exactly_one_part(value: int, count: int) -> None:
    holding = [part.index for part in parts(count) if part.holds([f"{value:016x}"])]
    assert len(holding) == 1


@pytest.mark.parametrize("size", [3, 40, SIZE, 5_000])
def test_one_foreign_record_shows_in_a_sketch_of_any_size(size: int) -> None:
    """Where its digest lies between those that are kept, too: it cannot, as the others are all in the interval."""
    records = letters(COUNT * size)
    for part in parts():
        own = within(part, records, key=KEY)
        assert part.holds(sketch(own, key=KEY))
        foreign = [one for one in records[: 200 if size < SIZE else 20] if one not in own]
        for one in foreign:
            assert not part.holds(sketch([*own, one], key=KEY))


@pytest.fixture
def books(ledger: Ledger) -> Ledger:
    for index in range(1, COUNT + 1):
        ledger.init_account(
            f"letters {index}", relation="zero-out", unit=RECORD, epsilon=1, delta=0, part=f"{index}/{COUNT}"
        )
    return ledger


def _charge(ledger: Ledger, name: str, records: list[str], *, key: bytes, epsilon: str = "0.5") -> str:
    facts: dict[str, Any] = {"relation": "zero-out", "unit": RECORD, "epsilon": epsilon, "delta": 0}
    return ledger.reserve(name, **facts, certificate_sha256="a" * 64, records=sketch(records, key=key))


def test_a_part_pays_for_its_own_records_only(books: Ledger, keyring: Keyring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", 8)
    key, records = keyring.secret("commitment"), letters(3_000)
    own = {n: within(Part(n, COUNT, ""), records, key=key) for n in range(1, COUNT + 1)}
    assert sum(map(len, own.values())) == len(records)
    for n, inside in own.items():  # every part has the whole budget: twice a half
        for _ in range(2):
            _charge(books, f"letters {n}", inside, key=key)
        with pytest.raises(BudgetError, match="left of"):
            _charge(books, f"letters {n}", inside, key=key)
    entries = books.verify()
    for wrong in (records, own[2], [*own[1], own[2][0]], [*own[1], own[4][-1]]):
        with pytest.raises(BudgetError, match="some of these records belong to another part"):
            _charge(books, "letters 1", wrong, key=key, epsilon="0")
    with pytest.raises(BudgetError, match="does not show which records"):
        _charge(books, "letters 1", [], key=key, epsilon="0")
    assert books.verify() == entries
    assert [str(account.part) for account in books.accounts()] == ["1/4", "2/4", "3/4", "4/4"]


@pytest.mark.parametrize(
    ("first", "second"), [("2/2", "2/3"), ("2/3", "2/2"), (None, "2/2"), ("2/2", None), ("1/4", "1/3"), ("3/4", "3/4")]
)
def test_parts_that_overlap_do_not_pay_twice(
    ledger: Ledger, keyring: Keyring, first: str | None, second: str | None
) -> None:
    """Of partitions into other numbers, and of the whole; in sets far larger than what a sketch holds."""
    key, records = keyring.secret("commitment"), letters(6_000)
    held: dict[str, list[str]] = {}
    for name, part in (("first", first), ("second", second)):
        account = ledger.init_account(name, relation="zero-out", unit=RECORD, epsilon=1, delta=0, part=part)
        held[name] = records if account.part is None else within(account.part, records, key=key)
    _charge(ledger, "first", held["first"], key=key)
    with pytest.raises(BudgetError, match="charged to the account first before"):
        _charge(ledger, "second", held["second"], key=key)
    assert ledger.balance("second").runs == 0


def test_another_key_makes_other_parts(books: Ledger, keyring: Keyring) -> None:
    key = keyring.secret("commitment")
    own = within(Part(1, COUNT, ""), letters(400), key=key)
    path = keyring.home / "commitment.key"
    path.unlink()
    keyring.init(keep_existing=True)
    with pytest.raises(BudgetError, match=r"another commitment\.key"):
        _charge(books, "letters 1", own, key=key)


@pytest.mark.parametrize("changed", [{"relation": "substitution"}, {"unit": Unit("user_id", 3)}])
def test_no_parts_where_a_unit_may_be_in_two(ledger: Ledger, changed: dict[str, Any]) -> None:
    facts: dict[str, Any] = {"relation": "zero-out", "unit": RECORD, "epsilon": 1, "delta": 0} | changed
    with pytest.raises(NotSupported, match="may"):
        ledger.init_account("letters", **facts, part="1/2")


@pytest.mark.parametrize("part", ["0/2", "3/2", "1", "1/2000", "-1/2", "1/2/3", "a/b", "01/2", ""])
def test_what_is_no_part_is_refused(ledger: Ledger, part: str) -> None:
    with pytest.raises(PlanError):
        ledger.init_account("letters", relation="zero-out", unit=RECORD, epsilon=1, delta=0, part=part)


def test_an_entry_with_an_odd_part_makes_no_sense(books: Ledger) -> None:
    changes: list[Callable[[dict[str, Any]], object]] = [
        lambda part: part.update(index=0),
        lambda part: part.update(index=5),
        lambda part: part.update(count=True),
        lambda part: part.pop("key"),
    ]
    facts = {
        "kind": "open", "relation": "zero-out", "unit": RECORD.to_json(), "epsilon": "1", "delta": "0",
        "filter": "basic", "account": "0" * 32,
    }  # fmt: skip
    for number, change in enumerate(changes):
        part = asdict(parts()[0])
        change(part)
        with books._verified(write=True) as found, pytest.raises(LedgerAltered, match="makes no sense"):
            found.append(**facts, dataset=f"odd {number}", part=part)
