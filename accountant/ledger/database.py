"""The database under a ledger: made once, opened for one transaction at a time.

SQLite (the default) in WAL mode with full synchronisation: a reservation is on disk before the
first model call. PostgreSQL by URL, with whatever libpq takes there (``sslmode``, ``sslrootcert``, …). Both
take the write lock before they read, so that what was read is still true when it is acted on.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from affidavit.accountant import files
from affidavit.accountant.errors import BudgetError, UsageError
from affidavit.accountant.extras import require
from affidavit.accountant.ledger import tables
from affidavit.accountant.ledger.chain import altered

__all__ = ["Database"]

_BUSY_SECONDS = 60.0
_MAKING = 0x6166666964617669  # the lock's number: "affidavi"
_DAMAGED = ("not a database", "malformed")
_PLACE = "For example `export AFFIDAVIT_LEDGER=sqlite:////var/lib/affidavit/ledger.db`."

_FULL = ("too many clients", "connection slots", "too many connections")
_NO_RIGHT = "42501"
_NOT_WHO_IT_SHOULD_BE = ("certificate", "SSL", "TLS")

# Whatever the server's defaults are: what was granted survives its crash, nobody waits for ever, and a machine that
# stops in the middle does not hold the others up. What a writer reads, it reads after it has the lock.
_SETTINGS = {
    "synchronous_commit": "on",
    "lock_timeout": "1min",
    "statement_timeout": "5min",
    "idle_in_transaction_session_timeout": "5min",
}
_READ = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_WRITE = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE"
_LOCK = "LOCK TABLE ledger_head IN EXCLUSIVE MODE"  # which whoever may move the seal may take


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
            self.address = parsed.render_as_string(hide_password=True)
        except (ArgumentError, NoSuchModuleError, ModuleNotFoundError, ValueError, RuntimeError):
            raise UsageError(
                "not a database URL that can be used here",
                hint="Use sqlite:////path/to/ledger.db or postgresql://user@host/database",
            ) from None

    def exists(self) -> bool:
        """Whether the ledger's tables are there. Creates nothing. Raises ``BudgetError`` for another layout."""
        if not self._is_file():
            return False
        with self._transaction("BEGIN") as connection:
            version = tables.version_of(connection)
        if version:
            tables.check_version(version)
        return version > 0

    def create(self) -> int:
        """Make the file and the tables, as far as they are missing or older; returns the layout's number before."""
        if self._file is not None and not self._is_file():
            _new_file(self._file)
        with self._transaction("BEGIN IMMEDIATE") as connection:
            if connection.dialect.name == "postgresql":
                # Of two that make the same tables at once, the second would fail instead of waiting.
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_MAKING})"))
            return tables.upgrade(connection)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Connection]:
        """All reads in it see one state; with ``write`` nobody else writes until it ends.

        Raises ``LedgerAltered`` if the file is damaged, ``BudgetError`` if it cannot be used.
        """
        with self._transaction("BEGIN IMMEDIATE" if write else "BEGIN") as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text(_WRITE if write else _READ))
                _check_session(_session(connection), write=write)
                if write:
                    connection.execute(text(_LOCK))
            yield connection

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Connection]:
        try:
            with self._connected(begin) as connection, connection.begin():
                yield connection
        except UnicodeDecodeError:  # SQLite quotes what it found in a damaged file
            raise altered("the file is damaged") from None
        except (DBAPIError, self._engine.dialect.loaded_dbapi.Error) as error:  # the second while it connects
            cause = error.orig if isinstance(error, DBAPIError) else error
            reason = str(cause).strip().partition("\n")[0]
            if any(word in reason for word in _DAMAGED):
                raise altered(f"the file is damaged ({reason})") from None
            hint = "If another run holds it, try again; otherwise check that it can be written."
            if getattr(cause, "sqlstate", None) == _NO_RIGHT:
                hint = "Ask its owner for the role that this takes: `affidavit ledger roles` prints the SQL."
            elif any(word in reason for word in _NOT_WHO_IT_SHOULD_BE):
                hint = (
                    "Do not go on without TLS. If it is the right server, its address has to name the host as its "
                    "certificate does, and in sslrootcert the file of the authority that signed it."
                )
            raise BudgetError(f"the ledger at {self.address} cannot be used: {reason}", hint=hint) from None

    def _connected(self, begin: str) -> Connection:
        """A connection, to be closed. Waits where a server has no room for one more, as it would for a lock."""
        deadline = time.monotonic() + _BUSY_SECONDS
        engine = self._engine.execution_options(affidavit_begin=begin)
        while True:
            try:
                return engine.connect()
            except DBAPIError as error:
                if time.monotonic() > deadline or not any(word in str(error.orig) for word in _FULL):
                    raise
            time.sleep(random.uniform(0.02, 0.2))  # noqa: S311 (no secret: so that not all ask at once)

    def _is_file(self) -> bool:
        """Whether there is a file where there has to be one. Raises ``UsageError`` for what none can be called."""
        if self._file is None:
            return True
        try:
            self._file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or "not a name that a file can have"
            raise UsageError(f"there can be no ledger at {self.address[:200]}: {said}", hint=_PLACE) from None
        return True


def _session(connection: Connection) -> dict[str, str]:
    """Sets what a grant rests on, for this transaction; what the server says then."""
    asked = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in _SETTINGS.items())
    said = connection.execute(text(f"SELECT {asked}, current_setting('fsync')")).one()
    return dict(zip((*_SETTINGS, "fsync"), map(str, said), strict=True))


def _check_session(said: Mapping[str, str], *, write: bool) -> None:
    """Raises ``BudgetError`` where a server does not do as it was asked, or keeps no grant through a power cut."""
    for name, value in {**_SETTINGS, "fsync": "on" if write else said["fsync"]}.items():
        if said[name] != value:
            raise BudgetError(
                f"the ledger's server has {name} = {said[name]}: what it grants might be lost, or waited for",
                hint=f"Its administrator can change that: `ALTER SYSTEM SET {name} = '{value}'`, then "
                "`SELECT pg_reload_conf()`",
            )


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
        raise UsageError("a ledger in memory forgets what was spent", hint=_PLACE)
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
        made = files.draft(path, b"")
    except OSError as error:
        raise UsageError(
            f"no ledger can be made at {path}: {error.strerror}",
            hint="Name a place that can be written: `export AFFIDAVIT_LEDGER=sqlite:///ledger.db`",
        ) from None
    try:
        connection = sqlite3.connect(made)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
        with suppress(FileExistsError):
            os.link(made, path)
    finally:
        made.unlink()
