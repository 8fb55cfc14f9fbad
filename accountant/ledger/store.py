"""``Ledger``: open, reserve, commit, verify. The one mutable thing in the accountant."""

from __future__ import annotations

import os
import secrets
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, select, text, update
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.pool import NullPool

from affidavit.accountant import decimals, validate
from affidavit.accountant.clock import Clock, show_instant, utc_now
from affidavit.accountant.errors import BudgetError, BudgetExceeded, LedgerMissing, NotSupported, PlanError, UsageError
from affidavit.accountant.keys import Keyring
from affidavit.accountant.ledger import tables
from affidavit.accountant.ledger.accounts import Account, replay
from affidavit.accountant.ledger.anchors import Anchors
from affidavit.accountant.ledger.chain import GENESIS, Head, Row, altered, link, seal, walk
from affidavit.accountant.unit import Unit
from affidavit.accountant.validate import Relation

__all__ = ["Ledger", "default_url"]

_BUSY_SECONDS = 60.0
_INIT_HINT = "Run: affidavit ledger init --dataset NAME --relation R --unit record --epsilon E --delta D"


def default_url(home: Path) -> str:
    """``AFFIDAVIT_LEDGER`` (an SQLAlchemy URL), or ``ledger.db`` in the home folder."""
    return os.environ.get("AFFIDAVIT_LEDGER") or f"sqlite:///{home / 'ledger.db'}"


@dataclass(frozen=True, slots=True)
class _State:
    identity: str
    rows: tuple[Row, ...]
    accounts: dict[str, Account]

    @property
    def head(self) -> Head:
        return Head(len(self.rows), self.rows[-1].mac) if self.rows else Head(0, GENESIS)


class Ledger:
    """One ledger, in one database. Safe to use from several threads, processes and machines at once.

    Every operation reads and verifies the whole chain first, inside its own transaction; writing
    ones hold the database's write lock from before the reading until after the writing, so two
    runs cannot both be granted the last of a budget.
    """

    def __init__(self, *, keyring: Keyring, url: str | None = None, clock: Clock = utc_now) -> None:
        """Names a ledger; touches nothing. Raises ``UsageError`` for a URL that cannot be used."""
        self._keyring = keyring
        self._clock = clock
        self._engine, self._file = _engine(url or default_url(keyring.home))
        self._address = self._engine.url.render_as_string(hide_password=True)
        self._anchors = Anchors(keyring.home / "anchors")

    @property
    def url(self) -> str:
        """Where it is, without a password."""
        return self._address

    def init_account(
        self,
        dataset: str,
        *,
        relation: Relation,
        unit: Unit,
        epsilon: str | float | Decimal,
        delta: str | float | Decimal,
        filter: str = "basic",  # noqa: A002  the command line's word
    ) -> Account:
        """Open an account, and the ledger with it if there is none yet. Budgets are fixed for good.

        Raises ``UsageError`` if the account exists, ``NotSupported`` for another filter than basic,
        ``PlanError`` for a budget out of range, ``LedgerAltered`` as every operation does.
        """
        if filter != "basic":
            raise NotSupported(
                f"the filter {str(filter)[:20]!r} is not available: certificates state (ε, δ), not a Rényi curve",
                hint="Use: --filter basic",
            )
        facts = {
            "kind": "open",
            "dataset": _name(dataset),
            "relation": validate.relation(relation),
            "unit": unit.to_json(),
            "epsilon": decimals.show(_amount(epsilon, path="epsilon")),
            "delta": decimals.show(_amount(delta, path="delta", maximum=Decimal(1))),
            "filter": filter,
        }
        key = self._keyring.secret("ledger")
        self._create()
        with self._transaction(write=True) as connection:
            state = self._read(connection, key)
            if not state.rows:
                state = self._append(connection, state, {"kind": "ledger", "id": secrets.token_hex(16)}, key)
            if dataset in state.accounts:
                raise UsageError(
                    f"the account {dataset} exists; its budget is fixed",
                    hint="Run: affidavit ledger show. New versions of the data are charged to the same account.",
                )
            state = self._append(connection, state, facts, key)
        self._remember(state)
        return state.accounts[dataset]

    def reserve(
        self,
        dataset: str,
        *,
        relation: Relation,
        unit: Unit,
        epsilon: str | float | Decimal,
        delta: str | float | Decimal,
        certificate_sha256: str,
    ) -> str:
        """Charge a run before it starts; returns the entry's random id. It is spent from now on.

        Raises ``LedgerMissing``, ``LedgerAltered``, ``BudgetExceeded``, or ``BudgetError`` if the
        account is for another relation or unit; then nothing is charged.
        """
        epsilon, delta = _amount(epsilon, path="epsilon"), _amount(delta, path="delta", maximum=Decimal(1))
        entry = secrets.token_hex(16)
        facts = {
            "kind": "reserve",
            "dataset": dataset,
            "entry": entry,
            "certificate_sha256": certificate_sha256,
            "epsilon": decimals.show(epsilon),
            "delta": decimals.show(delta),
        }
        key = self._existing_key()
        with self._transaction(write=True) as connection:
            state = self._read(connection, key)
            account = self._account(state, dataset)
            _check_kind(account, relation, unit)
            if not account.admits(epsilon, delta):
                raise _exceeded(account, epsilon, delta)
            state = self._append(connection, state, facts, key)
        self._remember(state)
        return entry

    def commit(self, entry: str, *, receipt_sha256: str | None = None) -> None:
        """Note that a reserved run ended well; its cost stays what was reserved.

        Raises ``UsageError`` if there is no such reservation, or it was committed before.
        """
        facts = {"kind": "commit", "entry": entry, "receipt_sha256": receipt_sha256}
        key = self._existing_key()
        with self._transaction(write=True) as connection:
            state = self._read(connection, key)
            items = (item for account in state.accounts.values() for item in account.reservations)
            if not any(item.entry == entry and item.ended is None for item in items):
                raise UsageError("no open reservation has this id", hint="Run: affidavit ledger show")
            state = self._append(connection, state, facts, key)
        self._remember(state)

    def account(self, dataset: str) -> Account:
        """One account. Raises ``LedgerMissing``, ``LedgerAltered``."""
        return self._account(self._state(), dataset)

    def accounts(self) -> tuple[Account, ...]:
        """All accounts, in order of opening. Raises ``LedgerMissing``, ``LedgerAltered``."""
        return tuple(self._state().accounts.values())

    def verify(self) -> int:
        """Walk the chain; returns the number of entries. Raises ``LedgerAltered`` at the first bad one."""
        return len(self._state().rows)

    def _state(self) -> _State:
        key = self._existing_key()
        with self._transaction(write=False) as connection:
            return self._read(connection, key)

    def _existing_key(self) -> bytes:
        key = self._keyring.secret("ledger")
        if self._file is not None and not self._file.exists():
            self._anchors.check_absent(self._address)
            raise LedgerMissing(f"there is no ledger at {self._address}", hint=_INIT_HINT)
        return key

    def _account(self, state: _State, dataset: str) -> Account:
        try:
            return state.accounts[dataset]
        except KeyError:
            known = ", ".join(sorted(state.accounts)) or "none"
            raise LedgerMissing(f"the ledger has no account {dataset!r} (it has: {known})", hint=_INIT_HINT) from None

    def _create(self) -> None:
        if self._file is not None and not self._file.exists():
            self._anchors.check_absent(self._address)
            _new_file(self._file)
        with self._transaction(write=True, lock_table=False) as connection:
            tables.METADATA.create_all(connection)

    def _read(self, connection: Connection, key: bytes) -> _State:
        if not inspect(connection).has_table(tables.entries.name):
            self._anchors.check_absent(self._address)
            raise LedgerMissing(f"there is no ledger at {self._address}", hint=_INIT_HINT)
        found = connection.execute(select(tables.entries).order_by(tables.entries.c.number))
        rows = tuple(Row(number, str(body), str(mac)) for number, body, mac in found)
        identity, accounts = replay(walk(rows, key=key))
        state = _State(identity, rows, accounts)
        heads = connection.execute(select(tables.head.c.count, tables.head.c.mac, tables.head.c.seal)).all()
        if rows or heads:
            sealed = [(state.head.count, state.head.mac, seal(state.head, key=key))]
            if [tuple(item) for item in heads] != sealed:
                raise altered("its last entries are missing, or its seal was changed", entry=len(rows) + 1)
        self._anchors.check(self._address, identity=identity, rows=rows)
        return state

    def _append(self, connection: Connection, state: _State, facts: dict[str, Any], key: bytes) -> _State:
        row = link({**facts, "at": show_instant(self._clock())}, after=state.head, key=key)
        rows = (*state.rows, row)
        identity, accounts = replay(walk(rows, key=key))
        result = _State(identity, rows, accounts)
        connection.execute(insert(tables.entries).values(number=row.number, body=row.body, mac=row.mac))
        values = {"count": result.head.count, "mac": result.head.mac, "seal": seal(result.head, key=key)}
        connection.execute(
            update(tables.head).values(**values) if state.rows else insert(tables.head).values(id=1, **values)
        )
        return result

    def _remember(self, state: _State) -> None:
        self._anchors.note(self._address, identity=state.identity, head=state.head)

    @contextmanager
    def _transaction(self, *, write: bool, lock_table: bool = True) -> Iterator[Connection]:
        """A transaction whose reads and writes are one step for everybody else."""
        engine = self._engine.execution_options(affidavit_write=write)
        try:
            with engine.begin() as connection:
                if write and lock_table and engine.dialect.name == "postgresql":
                    connection.execute(text("LOCK TABLE ledger_entries IN EXCLUSIVE MODE"))
                yield connection
        except DBAPIError as error:
            reason = str(error.orig).splitlines()[0] if error.orig else type(error).__name__
            if "not a database" in reason or "malformed" in reason:
                raise altered(f"the file is damaged ({reason})") from None
            raise BudgetError(f"the ledger at {self._address} cannot be used: {reason}", hint="Try again.") from None


def _engine(url: str) -> tuple[Engine, Path | None]:
    """An engine, and the file behind it if it is SQLite."""
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() != "sqlite":
            return create_engine(parsed, poolclass=NullPool, isolation_level="READ COMMITTED"), None
        if not parsed.database or parsed.database == ":memory:" or parsed.query:
            raise UsageError("a ledger in memory forgets what was spent", hint="Use: sqlite:////path/to/ledger.db")
        engine = create_engine(parsed, poolclass=NullPool, connect_args={"timeout": _BUSY_SECONDS})
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError):
        raise UsageError(
            "not a database URL that can be used here",
            hint="Use sqlite:////path/to/ledger.db, or install the postgres extra: pip install 'affidavit[postgres]'",
        ) from None

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: object) -> None:
        # The driver would open transactions late, after a read; we say BEGIN ourselves.
        connection.isolation_level = None
        connection.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        write = connection.get_execution_options().get("affidavit_write", True)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return engine, Path(parsed.database)


def _new_file(path: Path) -> None:
    """An empty SQLite database in WAL mode, 0600, put in place whole; the first of several wins."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    os.close(descriptor)
    try:
        connection = sqlite3.connect(temporary)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.close()
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)


def _name(dataset: str) -> str:
    fits = isinstance(dataset, str) and 0 < len(dataset) <= 100 and dataset.isprintable() and dataset == dataset.strip()
    if not fits:
        raise PlanError("dataset", "not a name", allowed="1 to 100 printable characters")
    return dataset


def _amount(value: str | float | Decimal, *, path: str, maximum: Decimal | None = None) -> Decimal:
    amount = decimals.as_written(value, path=path)
    if amount < 0 or (maximum is not None and amount > maximum):
        allowed = "a finite number >= 0" if maximum is None else f"a number in [0, {maximum}]"
        raise PlanError(path, f"{amount} is out of range", allowed=allowed)
    return amount


def _check_kind(account: Account, relation: Relation, unit: Unit) -> None:
    for what, held, asked in (("relation", account.relation, relation), ("unit", account.unit, unit)):
        if held != asked:
            raise BudgetError(
                f"the account {account.dataset} is for the {what} {held}, this run is certified for {asked}",
                hint=f"State {what} = {held} in the run file and certify it again; costs of two {what}s do not add up.",
            )


def _exceeded(account: Account, epsilon: Decimal, delta: Decimal) -> BudgetExceeded:
    epsilon_left, delta_left = account.remaining
    show = decimals.show
    if epsilon > epsilon_left > 0:
        hint = f"What fits: affidavit calibrate RUN.toml --epsilon {show(epsilon_left)}"
    elif epsilon <= epsilon_left and delta_left > 0:
        hint = f"What fits: delta = {show(delta_left)} in the run file's [budget], certified again"
    else:
        hint = "Nothing is left for these data: affidavit ledger show"
    return BudgetExceeded(
        f"the account {account.dataset} has (ε, δ) = ({show(epsilon_left)}, {show(delta_left)}) left of "
        f"({show(account.epsilon)}, {show(account.delta)}); this run costs ({show(epsilon)}, {show(delta)})",
        requested=(float(epsilon), float(delta)),
        remaining=(float(epsilon_left), float(delta_left)),
        hint=hint,
    )
