"""What somebody changes who can write the database, on both: found at the first bad entry."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import BudgetError, LedgerAltered, UsageError
from affidavit.accountant.ledger import Ledger
from support.ledgers import contents, destroy, edit, init, overwrite, reserve


def forget_anchor(keyring: Keyring) -> None:
    shutil.rmtree(keyring.home / "anchors")


@pytest.mark.parametrize(
    ("statements", "entry"),
    [
        (["UPDATE ledger_entries SET body = replace(body, '0.25', '0.01') WHERE number = 3"], 3),
        (["UPDATE ledger_entries SET body = replace(body, '\"1\"', '\"9\"') WHERE number = 2"], 2),
        (["UPDATE ledger_entries SET mac = replace(mac, substr(mac, 1, 1), 'z') WHERE number = 4"], 4),
        (["DELETE FROM ledger_entries WHERE number = 3"], 3),
        (["DELETE FROM ledger_entries WHERE number = 1"], 1),
        (
            [
                "UPDATE ledger_entries SET number = 99 WHERE number = 3",
                "UPDATE ledger_entries SET number = 3 WHERE number = 4",
                "UPDATE ledger_entries SET number = 4 WHERE number = 99",
            ],
            3,
        ),
        (["UPDATE ledger_entries SET body = 'é' WHERE number = 3"], 3),
        (["UPDATE ledger_entries SET mac = 'é' WHERE number = 3"], 3),
        (["INSERT INTO ledger_entries SELECT 6, body, substr(mac, 2) || '0' FROM ledger_entries WHERE number = 5"], 6),
        (["UPDATE ledger_head SET seal = '0'"], 6),
        (["DELETE FROM ledger_head"], 6),
        (["DELETE FROM ledger_entries WHERE number = 5", "UPDATE ledger_head SET count = 4"], 5),
        (["DELETE FROM ledger_entries", "DELETE FROM ledger_head"], None),
    ],
)
def test_every_alteration_is_found_at_the_first_bad_entry(
    ledger: Ledger, statements: list[str], entry: int | None
) -> None:
    init(ledger)
    for _ in range(3):
        reserve(ledger)
    edit(ledger, *statements)
    for action in (ledger.verify, lambda: reserve(ledger), ledger.accounts):
        with pytest.raises(LedgerAltered) as refusal:
            action()
        assert refusal.value.entry == entry
        assert refusal.value.exit_code == 4


def test_a_dropped_tail_is_found_by_the_seal_even_without_the_anchor(ledger: Ledger, keyring: Keyring) -> None:
    init(ledger)
    reserve(ledger)
    reserve(ledger)
    edit(ledger, "DELETE FROM ledger_entries WHERE number = 4")
    forget_anchor(keyring)
    with pytest.raises(LedgerAltered) as refusal:
        ledger.verify()
    assert refusal.value.entry == 4


def test_a_deleted_ledger_is_not_opened_anew_by_itself(ledger: Ledger, keyring: Keyring) -> None:
    init(ledger)
    destroy(ledger)
    actions: list[Callable[[], object]] = [lambda: init(ledger), lambda: reserve(ledger), ledger.verify]
    for action in actions:
        with pytest.raises(LedgerAltered, match="is gone") as refusal:
            action()
    [anchor] = (keyring.home / "anchors").iterdir()
    assert str(anchor) in refusal.value.message
    anchor.unlink()
    assert init(ledger).reservations == ()


def test_another_ledger_in_its_place_is_found(
    ledger: Ledger, keyring: Keyring, new_url: Callable[[], str], clock: Any
) -> None:
    init(ledger)
    other = Ledger(keyring=keyring, url=new_url(), clock=clock)
    init(other)
    overwrite(ledger, contents(other))
    with pytest.raises(LedgerAltered, match="another ledger stands in its place"):
        ledger.verify()


def test_an_older_state_of_all_tables_is_found_by_the_anchor(ledger: Ledger, keyring: Keyring) -> None:
    init(ledger)
    reserve(ledger)
    older = contents(ledger)
    reserve(ledger)
    overwrite(ledger, older)
    with pytest.raises(LedgerAltered, match="had 4 entries and has 3"):
        reserve(ledger)
    forget_anchor(keyring)
    assert ledger.verify() == 3  # in itself it is whole: only the anchor knows of the fourth


def test_without_the_key_nothing_verifies(ledger: Ledger, keyring: Keyring, tmp_path: Path) -> None:
    init(ledger)
    stranger = Keyring(tmp_path / "stranger")
    stranger.init()
    with pytest.raises(LedgerAltered, match="another key") as refusal:
        Ledger(keyring=stranger, url=ledger.url).verify()
    assert refusal.value.entry == 1
    (keyring.home / "ledger.key").unlink()
    with pytest.raises(UsageError, match="affidavit keys init"):
        ledger.verify()


def test_the_anchor_never_runs_ahead_and_may_lag(ledger: Ledger, keyring: Keyring) -> None:
    init(ledger)
    [anchor] = (keyring.home / "anchors").iterdir()
    before = anchor.read_text()
    entry = reserve(ledger)
    anchor.write_text(before)  # as if the machine had stopped between the two writes
    ledger.commit(entry)
    assert ledger.verify() == 4


def test_an_anchor_that_cannot_be_read_grants_nothing(ledger: Ledger, keyring: Keyring) -> None:
    init(ledger)
    forget_anchor(keyring)
    (keyring.home / "anchors").write_text("in the way of the folder")
    with pytest.raises(BudgetError, match="cannot be read"):
        reserve(ledger)
    (keyring.home / "anchors").unlink()
    assert ledger.account("mail").reservations == ()


def test_an_anchor_that_cannot_be_written_is_said_and_the_charge_stands(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    init(ledger)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("affidavit.accountant.files.os.replace", full)
    with pytest.raises(BudgetError, match="No space left") as refusal:
        reserve(ledger)
    assert "What was charged is spent" in refusal.value.hint
    assert len(ledger.account("mail").reservations) == 1
