"""What is true of the server alone: its triggers, several users, and an address where nobody answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from affidavit.accountant.errors import BudgetError, LedgerMissing
from affidavit.accountant.keys import Keyring
from affidavit.accountant.ledger import Ledger
from support.ledgers import init, reserve, run_sql
from support.postgresql import Server


@pytest.fixture
def ledger(keyring: Keyring, postgresql: Server) -> Ledger:
    return Ledger(keyring=keyring, url=postgresql.new_place())


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_entries SET body = '{}'",
        "DELETE FROM ledger_entries",
        "TRUNCATE ledger_entries",
        "UPDATE ledger_head SET count = 1",
        "DELETE FROM ledger_head",
        "TRUNCATE ledger_head",
    ],
)
def test_the_database_refuses_to_change_history(ledger: Ledger, statement: str) -> None:
    init(ledger)
    reserve(ledger)
    with pytest.raises(DBAPIError, match="append-only"):
        run_sql(ledger, statement)
    assert ledger.verify() == 3


def test_the_session_sets_what_a_grant_rests_on(ledger: Ledger) -> None:
    """The tests' server has synchronous_commit off: what is on was put on."""
    init(ledger)
    assert run_sql(ledger, "SHOW synchronous_commit") == [("off",)]
    with ledger._database.transaction(write=True) as connection:
        settings = {
            name: connection.exec_driver_sql(f"SHOW {name}").scalar() for name in ("synchronous_commit", "lock_timeout")
        }
        locks = connection.exec_driver_sql(
            "SELECT mode FROM pg_locks WHERE relation = 'ledger_entries'::regclass AND granted"
        ).scalars()
        assert "ExclusiveLock" in set(locks)
    assert settings == {"synchronous_commit": "on", "lock_timeout": "1min"}


def test_a_database_without_our_tables_is_no_ledger(ledger: Ledger) -> None:
    run_sql(ledger, "CREATE TABLE ledger_entries (number integer)")
    with pytest.raises(LedgerMissing):
        ledger.verify()


def test_the_ledger_is_found_by_environment(ledger: Ledger, keyring: Keyring, monkeypatch: pytest.MonkeyPatch) -> None:
    init(ledger)
    monkeypatch.setenv("AFFIDAVIT_LEDGER", ledger.url)
    assert Ledger(keyring=keyring).account("mail") == ledger.account("mail")


def test_a_server_that_does_not_answer_grants_nothing(keyring: Keyring, tmp_path: Path) -> None:
    ledger = Ledger(keyring=keyring, url=f"postgresql+psycopg://somebody:canary@/ledger?host={tmp_path}")
    actions: list[Callable[[], object]] = [lambda: init(ledger), lambda: reserve(ledger), ledger.verify]
    for action in actions:
        with pytest.raises(BudgetError, match="cannot be used") as refusal:
            action()
        assert "canary" not in f"{refusal.value} {refusal.value.hint}"
