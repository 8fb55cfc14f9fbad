"""What is true of the server alone: its triggers, several users, and an address where nobody answers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import create_engine
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import BudgetError, LedgerMissing
from affidavit.accountant.ledger import Ledger, database
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


SESSION = {
    "synchronous_commit": "on",
    "lock_timeout": "1min",
    "statement_timeout": "5min",
    "idle_in_transaction_session_timeout": "5min",
    "transaction_isolation": "read committed",
    "transaction_read_only": "off",
}


def test_the_session_sets_what_a_grant_rests_on(ledger: Ledger, postgresql: Server) -> None:
    """Against the defaults of the server and of the user, which are all otherwise here."""
    init(ledger)
    defaults = {
        "lock_timeout": "0",
        "statement_timeout": "0",
        "idle_in_transaction_session_timeout": "0",
        "default_transaction_isolation": "serializable",
        "default_transaction_read_only": "on",
    }
    assert run_sql(ledger, "SHOW synchronous_commit") == [("off",)]
    for name, value in defaults.items():
        postgresql.run(f"ALTER ROLE ledger SET {name} = '{value}'")
    try:
        with ledger._database.transaction(write=True) as connection:
            said = {name: connection.exec_driver_sql(f"SHOW {name}").scalar() for name in SESSION}
            locks = connection.exec_driver_sql(
                "SELECT mode FROM pg_locks WHERE relation = 'ledger_head'::regclass AND granted"
            ).scalars()
            assert "ExclusiveLock" in set(locks)
        with ledger._database.transaction(write=False) as connection:
            assert connection.exec_driver_sql("SHOW transaction_isolation").scalar() == "repeatable read"
    finally:
        for name in defaults:
            postgresql.run(f"ALTER ROLE ledger RESET {name}")
    assert said == SESSION


@pytest.mark.parametrize("name", ["synchronous_commit", "lock_timeout", "fsync"])
def test_a_server_that_does_not_do_as_asked_grants_nothing(
    ledger: Ledger, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a proxy that swallows settings would not."""
    init(ledger)
    honest = database._session
    monkeypatch.setattr(database, "_session", lambda connection: {**honest(connection), name: "off"})
    with pytest.raises(BudgetError, match=f"has {name} = off"):
        reserve(ledger)
    monkeypatch.undo()
    assert ledger.balance("mail").runs == 0


def test_a_writer_waits_for_another_and_then_sees_what_it_wrote(ledger: Ledger) -> None:
    init(ledger, 1, 1)
    with ThreadPoolExecutor(1) as pool:
        with ledger._database.transaction(write=True):
            waiting = pool.submit(reserve, ledger, "0.5", 0)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.5)
        waiting.result()
    assert ledger.balance("mail").runs == 1


def test_a_server_with_no_room_for_one_more_is_waited_for(ledger: Ledger, postgresql: Server) -> None:
    init(ledger, 1, 1)
    postgresql.run("ALTER ROLE ledger CONNECTION LIMIT 1")
    try:
        held = create_engine(ledger.url, poolclass=NullPool).connect()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(reserve, ledger, "0.5", 0)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.5)
            held.close()
            waiting.result()
    finally:
        postgresql.run("ALTER ROLE ledger CONNECTION LIMIT -1")
    assert ledger.balance("mail").runs == 1


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
