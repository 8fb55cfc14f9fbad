"""The ledger's tables, which layout they have, and how an older one becomes this one.

The database itself refuses to change or delete an entry. ``ledger_entries`` and ``ledger_head`` are the ledger;
``ledger_schema`` says which layout they have. Entries are never rewritten: a step adds tables or indexes beside them,
and their chain verifies as before. There are two dialects and two tables, so the steps are these few statements;
Alembic would bring a template engine and a folder of scripts for them.
"""

from __future__ import annotations

import sqlalchemy as sql
from sqlalchemy import DDL, CheckConstraint, Column, Connection, Integer, MetaData, String, Table, Text, event

from affidavit.accountant.errors import BudgetError

__all__ = ["METADATA", "VERSION", "by_id", "check_version", "entries", "head", "schema", "upgrade", "version_of"]

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

VERSION = 2
"""1: entries and their seal. 2: the version is written down, and rows are found by the id of their reservation."""

_POSITION = {"sqlite": "instr", "postgresql": "strpos"}
_MARK = '"entry":"'


def by_id(dialect: str) -> str:
    """The SQL of the id that a row is about, cut out of its text: to find rows by, never to believe.

    Within a JSON text the mark cannot stand in a string, where its quotation marks would be escaped.
    """
    return f"substr(body, {_POSITION[dialect]}(body, '{_MARK}') + {len(_MARK)}, 32)"


def version_of(connection: Connection) -> int:
    """The layout's number; 0 where there is no ledger."""
    found = sql.inspect(connection)
    if not found.has_table(head.name):
        return 0
    if not found.has_table(schema.name):
        return 1
    return int(connection.execute(sql.select(schema.c.version)).scalar() or 1)


def check_version(version: int) -> None:
    """Raises ``BudgetError`` for a ledger that another version of affidavit keeps."""
    if version < VERSION:
        raise BudgetError(
            f"the ledger's tables are of layout {version}, this version of affidavit keeps layout {VERSION}",
            hint="Bring them up to date, which changes no entry: `affidavit ledger upgrade`",
        )
    if version > VERSION:
        raise BudgetError(
            f"the ledger's tables are of layout {version}, newer than this version of affidavit knows",
            hint="Run `pip install --upgrade affidavit`; nothing was charged.",
        )


def upgrade(connection: Connection) -> int:
    """Make what is missing; returns the layout's number before. The caller holds the database's write lock.

    Raises ``BudgetError`` for a newer layout than is known.
    """
    before = version_of(connection)
    if before > VERSION:
        check_version(before)
    if before < 1:
        METADATA.create_all(connection, tables=[entries, head])
    if before < 2:
        found = by_id(connection.dialect.name)
        connection.execute(sql.text(f"CREATE INDEX IF NOT EXISTS ledger_entries_by_id ON ledger_entries ({found})"))
        METADATA.create_all(connection, tables=[schema])
    if connection.execute(sql.select(schema.c.version)).scalar() is None:
        connection.execute(sql.insert(schema).values(id=1, version=VERSION))
    else:
        connection.execute(sql.update(schema).values(version=VERSION))
    return before
