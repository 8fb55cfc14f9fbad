"""What tests of the ledger do to it: open and charge accounts, and what somebody does who can write the database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, insert, inspect, update
from sqlalchemy.engine import make_url
from sqlalchemy.pool import NullPool

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.ledger import Account, Ledger, book
from affidavit.accountant.ledger.chain import GENESIS, Head, link, seal
from affidavit.accountant.ledger.tables import entries, head
from affidavit.accountant.unit import RECORD

SHA = "a" * 64
TABLES = ("ledger_entries", "ledger_head")


def init(ledger: Ledger, epsilon: str | float = 1.0, delta: str | float = 1e-5, **changes: Any) -> Account:
    facts = {"relation": "zero-out", "unit": RECORD, "epsilon": epsilon, "delta": delta}
    return ledger.init_account("mail", **(facts | changes))


def reserve(ledger: Ledger, epsilon: str | float = "0.25", delta: str | float = "1e-6", **changes: Any) -> str:
    facts = {"relation": "zero-out", "unit": RECORD, "epsilon": epsilon, "delta": delta, "certificate_sha256": SHA}
    return ledger.reserve("mail", **(facts | changes))


def fill(ledger: Ledger, size: int) -> None:
    """``size`` reservations of cost 1e-6 on the account ``mail``, as ``reserve`` would write them, in one go."""
    key, rows = ledger._keyring.secret("ledger"), []
    with ledger._verified(write=True) as found:
        end, history = found.end, found.history

        def add(end: Head, facts: dict[str, Any]) -> Head:
            row = link({**facts, "at": found.at}, after=end, key=key)
            history.add(row, {**facts, "at": found.at})
            rows.append({"number": row.number, "body": row.body, "mac": row.mac})
            return Head(row.number, row.mac)

        facts = {"kind": "reserve", "dataset": "mail", "certificate_sha256": SHA, "epsilon": "0.000001", "delta": "0"}
        for number in range(size):
            end = add(end, {**facts, "entry": f"{number:032x}"})
            if (end.count + 1) % book.CHECKPOINT_EVERY == 0:
                end = add(end, history.checkpoint())
        if not rows:
            return
        found.connection.execute(insert(entries), rows)
        values = {"count": end.count, "mac": end.mac, "seal": seal(end, key=key)}
        found.connection.execute(update(head).values(**values))


def is_sqlite(ledger: Ledger) -> bool:
    return make_url(ledger.url).get_backend_name() == "sqlite"


def file_of(ledger: Ledger) -> Path:
    return Path(ledger.url.removeprefix("sqlite:///"))


def run_sql(ledger: Ledger, *statements: str) -> list[Any]:
    """One transaction in a connection of its own; the rows of the last statement, if it gives any."""
    with create_engine(ledger.url, poolclass=NullPool).begin() as connection:
        results = [connection.exec_driver_sql(statement) for statement in statements]
        return list(results[-1]) if results and results[-1].returns_rows else []


def exists(ledger: Ledger) -> bool:
    """Whether there is a file with tables, or are tables. Creates nothing."""
    if is_sqlite(ledger) and not file_of(ledger).exists():
        return False
    return inspect(create_engine(ledger.url, poolclass=NullPool)).has_table(TABLES[0])


def edit(ledger: Ledger, *statements: str) -> None:
    """The triggers go first."""
    if is_sqlite(ledger):
        names = run_sql(ledger, "SELECT name FROM sqlite_master WHERE type = 'trigger'")
        first = [f"DROP TRIGGER {name}" for (name,) in names]
    else:
        first = [f"ALTER TABLE {table} DISABLE TRIGGER USER" for table in TABLES]
    run_sql(ledger, *first, *statements)


def contents(ledger: Ledger) -> dict[str, list[Any]]:
    """All rows, by table."""
    return {table: run_sql(ledger, f"SELECT * FROM {table}") for table in TABLES}  # noqa: S608


def overwrite(ledger: Ledger, rows: dict[str, list[Any]]) -> None:
    """Put other rows in the place of all."""
    edit(ledger, *(f"DELETE FROM {table}" for table in TABLES))  # noqa: S608
    quoted = {
        table: [", ".join(f"'{value}'" if isinstance(value, str) else str(value) for value in row) for row in found]
        for table, found in rows.items()
    }
    run_sql(ledger, *(f"INSERT INTO {table} VALUES ({row})" for table in TABLES for row in quoted[table]))  # noqa: S608


def rewrite(ledger: Ledger, keyring: Keyring, cost: str) -> None:
    """The same entries with another cost of the last one, by the holder of the key; the anchor goes as well."""
    key, rows, end = keyring.secret("ledger"), [], Head(0, GENESIS)
    for number, body, _ in contents(ledger)["ledger_entries"]:
        facts = {name: value for name, value in json.loads(body).items() if name not in ("number", "previous")}
        if facts["kind"] == "reserve":
            facts["epsilon"] = cost
        row = link(facts, after=end, key=key)
        end = Head(number, row.mac)
        rows.append((row.number, row.body, row.mac))
    overwrite(ledger, {"ledger_entries": rows, "ledger_head": [(1, end.count, end.mac, seal(end, key=key))]})
    for path in (keyring.home / "anchors").iterdir():
        path.unlink()


def destroy(ledger: Ledger) -> None:
    """Remove the ledger."""
    if is_sqlite(ledger):
        for path in file_of(ledger).parent.glob(file_of(ledger).name + "*"):
            path.unlink()
    else:
        run_sql(ledger, *(f"DROP TABLE {table}" for table in TABLES))
