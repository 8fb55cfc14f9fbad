"""Roles on the server: each does its own work with the tables, and nothing else; the owner makes them."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy.exc import DBAPIError

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import BudgetError
from affidavit.accountant.ledger import Ledger, book, store
from affidavit.accountant.ledger.roles import ROLES, sql
from affidavit.accountant.unit import RECORD
from support.ledgers import init, reserve, run_sql
from support.postgresql import Server

As = Callable[[str], Ledger]


@pytest.fixture
def user(keyring: Keyring, clock: Any, postgresql: Server) -> As:
    """The ledger as a new member of a role sees it; the tables are made by their owner, and empty."""
    url = postgresql.new_place()
    namespace = url.rpartition("%3D")[2]
    assert Ledger(keyring=keyring, url=url, clock=clock).upgrade() == (0, store.VERSION)
    for _ in range(2):
        postgresql.run(sql(namespace=namespace))

    def member(role: str) -> Ledger:
        name = f"user_{secrets.token_hex(4)}"
        return Ledger(keyring=keyring, url=postgresql.as_user(url, name, role=role), clock=clock)

    return member


def test_each_role_does_its_work(user: As) -> None:
    init(user("affidavit_officer"), 1, 1)
    operator = user("affidavit_operator")
    operator.commit(reserve(operator))
    for role in ("affidavit_reader", "affidavit_issuer"):
        assert user(role).verify() == 4
        facts: Any = {"relation": "zero-out", "unit": RECORD, "epsilon": "0.1", "delta": 0}
        assert user(role).check("mail", **facts).runs == 1


@pytest.mark.parametrize("role", [role for role in ROLES if role != "affidavit_operator"])
def test_nobody_else_charges(user: As, role: str) -> None:
    init(user("affidavit_officer"), 1, 1)
    with pytest.raises(BudgetError, match="cannot be used") as refusal:
        reserve(user(role))
    assert "affidavit ledger roles" in refusal.value.hint
    assert user("affidavit_reader").balance("mail").runs == 0


@pytest.mark.parametrize("role", [role for role in ROLES if role != "affidavit_officer"])
def test_nobody_else_opens_an_account(user: As, role: str) -> None:
    """An operator has the key and may add entries: the server looks at their kind."""
    init(user("affidavit_officer"), 1, 1)
    with pytest.raises(BudgetError, match="cannot be used") as refusal:
        user(role).init_account("post", relation="zero-out", unit=RECORD, epsilon=9, delta=1)
    assert "affidavit ledger roles" in refusal.value.hint
    assert [account.dataset for account in user("affidavit_reader").accounts()] == ["mail"]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_entries SET body = '{}'",
        "DELETE FROM ledger_entries",
        "TRUNCATE ledger_entries",
        "DELETE FROM ledger_head",
        "TRUNCATE ledger_head",
        "DROP TABLE ledger_entries",
        "ALTER TABLE ledger_entries DISABLE TRIGGER USER",
        "ALTER TABLE ledger_entries DISABLE ROW LEVEL SECURITY",
        "DROP POLICY ledger_open ON ledger_entries",
        "UPDATE ledger_schema SET version = 9",
        "CREATE TABLE mine (a integer)",
        "SET ROLE ledger",
    ],
)
def test_no_role_gets_at_history_or_tables(user: As, role: str, statement: str) -> None:
    init(user("affidavit_officer"), 1, 1)
    member = user(role)
    with pytest.raises(DBAPIError, match=r"permission denied|must be owner|no schema has been selected"):
        run_sql(member, statement)
    assert member.verify() == 2


def test_an_operator_writes_the_checkpoints_that_are_due(user: As, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", 4)
    init(user("affidavit_officer"), 1, 1)
    operator = user("affidavit_operator")
    for _ in range(5):
        reserve(operator, "0.01", 0)
    assert operator.verify() == 2 + 5 + 2
