"""Which layout a ledger's tables have, and how an older one becomes this one.

Entries are never rewritten: a step adds tables or indexes beside them, and their chain verifies as before.
There are two dialects and two tables, so the steps are these few statements; Alembic would bring a template
engine and a folder of scripts for them.
"""

from __future__ import annotations

from sqlalchemy import Connection, insert, inspect, select, text, update

from affidavit.accountant.errors import BudgetError
from affidavit.accountant.ledger import tables

__all__ = ["VERSION", "by_id", "check_version", "upgrade", "version_of"]

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
    found = inspect(connection)
    if not found.has_table(tables.head.name):
        return 0
    if not found.has_table(tables.schema.name):
        return 1
    return int(connection.execute(select(tables.schema.c.version)).scalar() or 1)


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
        tables.METADATA.create_all(connection, tables=[tables.entries, tables.head])
    if before < 2:
        found = by_id(connection.dialect.name)
        connection.execute(text(f"CREATE INDEX IF NOT EXISTS ledger_entries_by_id ON ledger_entries ({found})"))
        tables.METADATA.create_all(connection, tables=[tables.schema])
    if connection.execute(select(tables.schema.c.version)).scalar() is None:
        connection.execute(insert(tables.schema).values(id=1, version=VERSION))
    else:
        connection.execute(update(tables.schema).values(version=VERSION))
    return before
