"""The database under a ledger: made once, opened for one transaction at a time.

SQLite (the default) in WAL mode with full synchronisation: a reservation is on disk before the
first model call. PostgreSQL by URL. Both take the write lock before they read, so that what was
read is still true when it is acted on.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from affidavit.accountant.errors import BudgetError, UsageError
from affidavit.accountant.extras import require
from affidavit.accountant.ledger import tables
from affidavit.accountant.ledger.chain import altered

__all__ = ["Database"]

_BUSY_SECONDS = 60.0
_MAKING = 0x6166666964617669  # the lock's number: "affidavi"
_DAMAGED = ("not a database", "malformed")

# Whatever the server's defaults are: what was granted survives its crash, and nobody waits for ever.
_ON_POSTGRESQL_READ = ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",)
_ON_POSTGRESQL_WRITE = (
    "SET LOCAL synchronous_commit = on",
    f"SET LOCAL lock_timeout = '{_BUSY_SECONDS:.0f}s'",
    "LOCK TABLE ledger_entries IN EXCLUSIVE MODE",
)


class Database:
    """One database, by URL. Holds no connection between transactions, so it may cross a fork."""

    def __init__(self, url: str) -> None:
        """Touches nothing. Raises ``UsageError`` for a URL that cannot hold a ledger, ``PackageMissing``."""
        try:
            parsed = _with_driver(make_url(url))
            self._file = _sqlite_file(parsed)
            if self._file is not None:
                parsed = parsed.set(database=str(self._file))
            self._engine = _engine(parsed)
        except (ArgumentError, NoSuchModuleError, ModuleNotFoundError):
            raise UsageError(
                "not a database URL that can be used here",
                hint="Use sqlite:////path/to/ledger.db or postgresql://user@host/database",
            ) from None
        self.address = parsed.render_as_string(hide_password=True)

    def exists(self) -> bool:
        """Whether the ledger's tables are there. Creates nothing."""
        if self._file is not None and not self._file.exists():
            return False
        with self.transaction(write=False) as connection:
            return inspect(connection).has_table(tables.head.name)

    def create(self) -> None:
        """Make the file and the tables, as far as they are missing."""
        if self._file is not None and not self._file.exists():
            _new_file(self._file)
        with self._transaction("BEGIN IMMEDIATE") as connection:
            if connection.dialect.name == "postgresql":
                # Of two that make the same tables at once, the second would fail instead of waiting.
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_MAKING})"))
            tables.METADATA.create_all(connection)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Connection]:
        """All reads in it see one state; with ``write`` nobody else writes until it ends.

        Raises ``LedgerAltered`` if the file is damaged, ``BudgetError`` if it cannot be used.
        """
        with self._transaction("BEGIN IMMEDIATE" if write else "BEGIN") as connection:
            if connection.dialect.name == "postgresql":
                for statement in _ON_POSTGRESQL_WRITE if write else _ON_POSTGRESQL_READ:
                    connection.execute(text(statement))
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Connection]:
        try:
            with self._engine.execution_options(affidavit_begin=begin).begin() as connection:
                yield connection
        except DBAPIError as error:
            reason = str(error.orig).strip().partition("\n")[0]
            if any(word in reason for word in _DAMAGED):
                raise altered(f"the file is damaged ({reason})") from None
            raise BudgetError(
                f"the ledger at {self.address} cannot be used: {reason}",
                hint="If another run holds it, try again; otherwise check that it can be written.",
            ) from None


def _with_driver(url: URL) -> URL:
    """The URL with psycopg named, where it names PostgreSQL and no driver: the extra installs that one."""
    url = url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url
    if url.drivername == "postgresql+psycopg":
        require("postgres", purpose="a ledger in PostgreSQL")
    return url


def _sqlite_file(url: URL) -> Path | None:
    if url.get_backend_name() != "sqlite":
        return None
    if not url.database or url.database == ":memory:" or url.query:
        raise UsageError(
            "a ledger in memory forgets what was spent",
            hint="For example `export AFFIDAVIT_LEDGER=sqlite:////var/lib/affidavit/ledger.db`.",
        )
    return Path(url.database).expanduser().absolute()


def _engine(url: URL) -> Engine:
    if url.get_backend_name() != "sqlite":
        return create_engine(url, poolclass=NullPool)
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": _BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: object) -> None:
        # The driver would open a transaction late, after the first read; we say BEGIN ourselves.
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options()["affidavit_begin"])

    return engine


def _new_file(path: Path) -> None:
    """An empty SQLite database in WAL mode, 0600, put in place whole; the first of several wins."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    except OSError as error:
        raise UsageError(
            f"no ledger can be made at {path}: {error.strerror}",
            hint="Name a place that can be written: `export AFFIDAVIT_LEDGER=sqlite:///ledger.db`",
        ) from None
    os.close(descriptor)
    try:
        connection = sqlite3.connect(temporary)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
