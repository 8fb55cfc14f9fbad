"""The ledger's tables. The database itself refuses to change or delete an entry.

``ledger_entries`` and ``ledger_head`` are the ledger; ``ledger_schema`` says which layout they have (``migrations``).
"""

from __future__ import annotations

from sqlalchemy import DDL, CheckConstraint, Column, Integer, MetaData, String, Table, Text, event

__all__ = ["METADATA", "entries", "head", "schema"]

METADATA = MetaData()

entries = Table(
    "ledger_entries",
    METADATA,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    Column("mac", String(64), nullable=False),
)

head = Table(
    "ledger_head",
    METADATA,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    Column("count", Integer, nullable=False),
    Column("mac", String(64), nullable=False),
    Column("seal", String(64), nullable=False),
)

schema = Table(
    "ledger_schema",
    METADATA,
    Column("id", Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
)

# What SQLite aborts. The insert triggers stop REPLACE, which deletes without asking the delete triggers.
_ON_SQLITE = (
    (entries, "UPDATE", ""),
    (entries, "DELETE", ""),
    (entries, "INSERT", "WHEN NEW.number <> (SELECT coalesce(max(number), 0) + 1 FROM ledger_entries)"),
    (head, "UPDATE", "WHEN NEW.count <= OLD.count"),
    (head, "DELETE", ""),
    (head, "INSERT", "WHEN EXISTS (SELECT 1 FROM ledger_head)"),
)

# The same on PostgreSQL, where only superusers and the tables' owner can get past it.
_ON_POSTGRESQL = (
    (entries, "UPDATE OR DELETE", "ROW", ""),
    (entries, "TRUNCATE", "STATEMENT", ""),
    (head, "UPDATE", "ROW", "WHEN (NEW.count <= OLD.count)"),
    (head, "DELETE", "ROW", ""),
    (head, "TRUNCATE", "STATEMENT", ""),
)


_POSTGRESQL_FUNCTION = (
    "CREATE OR REPLACE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$"
)


def _ddl(statement: str) -> DDL:
    return DDL(statement)  # type: ignore[no-untyped-call]


for _table, _action, _condition in _ON_SQLITE:
    _trigger = (
        f"CREATE TRIGGER {_table.name}_{_action.lower()} BEFORE {_action} ON {_table.name} {_condition} "
        "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
    )
    event.listen(_table, "after_create", _ddl(_trigger).execute_if(dialect="sqlite"))

event.listen(METADATA, "before_create", _ddl(_POSTGRESQL_FUNCTION).execute_if(dialect="postgresql"))
for _table, _action, _each, _condition in _ON_POSTGRESQL:
    _trigger = (
        f"CREATE TRIGGER {_table.name}_{_action.lower().replace(' ', '_')} BEFORE {_action} ON {_table.name} "
        f"FOR EACH {_each} {_condition} EXECUTE FUNCTION ledger_refuse()"
    )
    event.listen(_table, "after_create", _ddl(_trigger).execute_if(dialect="postgresql"))
