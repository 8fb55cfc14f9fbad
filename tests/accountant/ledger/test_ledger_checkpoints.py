"""A ledger over a long life, on both databases: time goes on, and sums stand in checkpoints."""

from __future__ import annotations

import shutil
from decimal import Decimal
from typing import Any

import pytest

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import BudgetError, BudgetExceeded, LedgerAltered, UsageError
from affidavit.accountant.ledger import Ledger, book
from affidavit.accountant.unit import RECORD
from support.ledgers import edit

SHA = "a" * 64


def init(ledger: Ledger, epsilon: str | float = 1.0, name: str = "mail") -> None:
    ledger.init_account(name, relation="zero-out", unit=RECORD, epsilon=epsilon, delta=1)


def reserve(ledger: Ledger, epsilon: str = "0.001") -> str:
    return ledger.reserve("mail", relation="zero-out", unit=RECORD, epsilon=epsilon, delta=0, certificate_sha256=SHA)


def test_time_does_not_run_behind_the_last_entry(ledger: Ledger, clock: Any) -> None:
    init(ledger)
    clock.advance(days=100)
    entry = reserve(ledger)
    clock.advance(days=-99)
    for action in (lambda: reserve(ledger), lambda: ledger.commit(entry), lambda: init(ledger, name="post")):
        with pytest.raises(BudgetError, match="clock says 2026-03-02T12:00:00Z") as refusal:
            action()
        assert "nothing was charged" in refusal.value.hint
    assert ledger.balance("mail").runs == 1
    clock.advance(days=99, minutes=-4)  # another machine's clock may lie a little behind
    reserve(ledger)
    first, second = ledger.account("mail").reservations
    assert first.reserved == second.reserved


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> int:
    """A checkpoint at every eighth entry."""
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", 8)
    return 8


def _read_numbers(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the entries that one reservation reads, in order, without the first one's own look-up."""
    seen: list[int] = []
    read = book.read_rows

    def noting(connection: Any, first: int, *, last: int | None = None) -> Any:
        rows = read(connection, first, last=last)
        seen.extend(row.number for row in rows if last is None)
        return rows

    monkeypatch.setattr(book, "read_rows", noting)
    reserve(ledger)
    monkeypatch.setattr(book, "read_rows", read)
    return seen


def test_what_a_reservation_reads_does_not_grow(ledger: Ledger, short: int, monkeypatch: pytest.MonkeyPatch) -> None:
    init(ledger)
    for _ in range(60):
        reserve(ledger)
        seen = _read_numbers(ledger, monkeypatch)
        assert len(seen) <= short
    assert seen[-1] > 120
    account = ledger.account("mail")
    assert account.runs == len(account.reservations) == 120
    assert ledger.balance("mail").spent == account.spent == (Decimal("0.120"), 0)


def test_checkpoints_hold_a_budget_to_the_end(ledger: Ledger, short: int) -> None:
    init(ledger, "0.05")
    entries = [reserve(ledger) for _ in range(50)]
    with pytest.raises(BudgetExceeded):
        reserve(ledger)
    for entry in entries:  # the first ones lie before the last checkpoint
        ledger.commit(entry)
        with pytest.raises(UsageError, match="no open reservation"):
            ledger.commit(entry)
    with pytest.raises(UsageError, match="no open reservation"):
        ledger.commit("f" * 32)
    assert all(item.ended for item in ledger.account("mail").reservations)
    assert ledger.verify() > 102 + 102 // short


def test_a_machine_without_an_anchor_walks_the_whole_chain_first(ledger: Ledger, keyring: Keyring, short: int) -> None:
    init(ledger)
    for _ in range(40):
        reserve(ledger)
    edit(ledger, "UPDATE ledger_entries SET body = replace(body, '0.001', '0.0') WHERE number = 3")
    shutil.rmtree(keyring.home / "anchors")
    with pytest.raises(LedgerAltered) as refusal:
        reserve(ledger)
    assert refusal.value.entry == 3


@pytest.mark.parametrize("number", [33, 40, 41])
def test_what_lies_since_the_last_checkpoint_is_verified_at_every_reservation(
    ledger: Ledger, short: int, number: int
) -> None:
    init(ledger)
    while ledger.verify() < 42:
        reserve(ledger)
    respell = "UPDATE ledger_entries SET body = replace(body, '\"at\"', '\"at\" ') WHERE number = "
    edit(ledger, respell + str(number))
    check = ledger.verify if number < 40 else lambda: reserve(ledger)
    with pytest.raises(LedgerAltered) as refusal:
        check()
    assert refusal.value.entry == number


def test_a_checkpoint_with_another_sum_is_found_by_the_walk(keyring: Keyring, ledger: Ledger, short: int) -> None:
    """Written with the key, so that every MAC is right: what the sums say is compared all the same."""
    from affidavit.accountant.ledger.accounts import History

    init(ledger)
    honest = History.checkpoint
    try:
        History.checkpoint = lambda self: honest(self) | {"accounts": []}  # type: ignore[method-assign]
        for _ in range(5):
            reserve(ledger)
    finally:
        History.checkpoint = honest  # type: ignore[method-assign]
    with pytest.raises(LedgerAltered, match="entry 8 makes no sense"):
        ledger.verify()


def test_a_ledger_from_before_checkpoints_goes_on(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", 10**9)
    init(ledger)
    for _ in range(20):
        reserve(ledger)
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", 8)
    for _ in range(20):
        reserve(ledger)
    assert len(_read_numbers(ledger, monkeypatch)) <= 8
    assert ledger.account("mail").runs == 41


def test_an_id_is_reserved_once_however_long_ago(ledger: Ledger, short: int) -> None:
    """A second use of it would be granted now, and the whole walk would refuse the ledger ever after."""
    init(ledger)
    facts: dict[str, Any] = {"relation": "zero-out", "unit": RECORD, "epsilon": "0.001", "delta": 0}
    entry = ledger.reserve("mail", **facts, certificate_sha256=SHA, entry="ab" * 16)
    for _ in range(3 * short):
        reserve(ledger)
    for wrong in (entry, entry.upper(), "ab", 'x"y' + entry[3:], entry + "\n"):
        with pytest.raises(UsageError, match="used once"):
            ledger.reserve("mail", **facts, certificate_sha256=SHA, entry=wrong)
    assert ledger.account("mail").runs == 1 + 3 * short
