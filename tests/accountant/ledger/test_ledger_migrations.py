"""Layouts of the tables: an older one is refused until it is upgraded, and says the same then; a newer one is left."""

from __future__ import annotations

from typing import Any

import pytest

from affidavit.accountant.errors import BudgetError, LedgerAltered, LedgerMissing
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.ledger.tables import VERSION, by_id
from support.ledgers import contents, destroy, edit, init, is_sqlite, reserve, run_sql

# A ledger as the first versions made it: these two tables, and no word about their layout.
FIRST = ("DROP TABLE ledger_schema", "DROP INDEX ledger_entries_by_id")


def test_an_older_layout_is_upgraded_and_says_what_it_said(ledger: Ledger) -> None:
    init(ledger)
    entry = reserve(ledger)
    run_sql(ledger, *FIRST)
    before = contents(ledger)
    actions: list[Any] = [ledger.verify, lambda: reserve(ledger), lambda: init(ledger), lambda: ledger.account("mail")]
    for action in actions:
        with pytest.raises(BudgetError, match=r"layout 1, .* keeps layout 2") as refusal:
            action()
        assert "`affidavit ledger upgrade`" in refusal.value.hint
    assert contents(ledger) == before
    assert ledger.upgrade() == (1, VERSION)
    assert ledger.upgrade() == (VERSION, VERSION)
    assert contents(ledger) == before
    ledger.commit(entry)
    assert ledger.verify() == 4


def test_a_newer_layout_is_left_alone(ledger: Ledger) -> None:
    init(ledger)
    run_sql(ledger, "UPDATE ledger_schema SET version = 99")
    before = contents(ledger)
    for action in (ledger.verify, lambda: reserve(ledger), ledger.upgrade):
        with pytest.raises(BudgetError, match="newer than this version"):
            action()
    assert contents(ledger) == before


def test_tables_made_beforehand_are_no_ledger_yet(ledger: Ledger) -> None:
    assert ledger.upgrade() == (0, VERSION)
    with pytest.raises(LedgerMissing):
        reserve(ledger)
    init(ledger)
    assert ledger.verify() == 2


def test_new_tables_in_the_place_of_a_ledger_are_no_new_budget(ledger: Ledger) -> None:
    init(ledger)
    destroy(ledger)
    ledger.upgrade()
    for action in (ledger.verify, lambda: reserve(ledger), lambda: init(ledger)):
        with pytest.raises(LedgerAltered, match="is gone"):
            action()


def test_a_reservation_is_found_without_reading_the_rest(ledger: Ledger) -> None:
    """The database's own plan for the look-up: by the index, at whatever length."""
    init(ledger)
    entry = reserve(ledger)
    ledger.commit(entry)
    found_by = by_id("sqlite" if is_sqlite(ledger) else "postgresql")
    query = f"SELECT number FROM ledger_entries WHERE {found_by} = '{entry}'"  # noqa: S608
    explain = ("EXPLAIN QUERY PLAN ",) if is_sqlite(ledger) else ("SET enable_seqscan = off", "EXPLAIN ")
    found = run_sql(ledger, *explain[:-1], explain[-1] + query)
    assert "ledger_entries_by_id" in " ".join(map(str, found))
    assert len(run_sql(ledger, query)) == 2


def test_an_index_that_lies_grants_nothing_twice(ledger: Ledger) -> None:
    """What is found by it is verified as any entry is."""
    init(ledger)
    entry = reserve(ledger)
    ledger.commit(entry)
    edit(ledger, "UPDATE ledger_entries SET body = replace(body, 'commit', 'reject') WHERE number = 4")
    with pytest.raises(LedgerAltered):
        ledger.commit(entry)
