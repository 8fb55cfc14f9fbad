"""``Ledger``: open, reserve, commit, verify. The one mutable thing in the accountant."""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, insert, select, text, update

from affidavit.accountant import decimals, remedies, validate
from affidavit.accountant.clock import Clock, parse_instant, show_instant, utc_now
from affidavit.accountant.errors import BudgetError, BudgetExceeded, LedgerMissing, PlanError, UsageError
from affidavit.accountant.filters.budgets import checked_filter, holding
from affidavit.accountant.filters.costs import NO_COSTS, Costs
from affidavit.accountant.keys import Keyring
from affidavit.accountant.ledger.accounts import Account, History, Reservation
from affidavit.accountant.ledger.anchors import Anchor, Anchors
from affidavit.accountant.ledger.approvals import approved, officers_of, request_bytes
from affidavit.accountant.ledger.chain import GENESIS, Head, Row, altered, link, seal, walk
from affidavit.accountant.ledger.database import Database
from affidavit.accountant.ledger.migrations import VERSION, by_id
from affidavit.accountant.ledger.sketch import SAME_DATA, merge, share
from affidavit.accountant.ledger.tables import entries, head
from affidavit.accountant.ledger.witness import Witness, default_witness
from affidavit.accountant.unit import Unit
from affidavit.accountant.validate import Relation

__all__ = ["Ledger", "account_name", "default_url"]

CHECKPOINT_EVERY = 128
"""An entry whose number is a multiple of this states every account's sums."""

CATCH_UP = 4 * CHECKPOINT_EVERY
"""A machine that is further behind reads what others wrote before it takes the write lock, not while they wait."""

MAX_CLOCK_SKEW = timedelta(minutes=5)
"""How far the clocks of machines that share a ledger may lie apart."""

_INIT_HINT = (
    "Open it, for example: `affidavit ledger init --dataset my-records --relation add-remove --unit record "
    "--epsilon 10 --delta 1e-5`"
)


def default_url(home: Path) -> str:
    """``AFFIDAVIT_LEDGER`` (an SQLAlchemy URL), or ``ledger.db`` in the home folder."""
    return os.environ.get("AFFIDAVIT_LEDGER") or f"sqlite:///{home / 'ledger.db'}"


@dataclass(frozen=True, slots=True)
class _Verified:
    """A verified ledger inside an open transaction: what it says, and how to add to it."""

    connection: Connection
    key: bytes
    at: str
    history: History
    end: Head
    macs: Mapping[int, str]

    @property
    def accounts(self) -> Mapping[str, Account]:
        return self.history.accounts

    def append(self, **facts: Any) -> _Verified:
        """Add one entry and move the seal; a checkpoint too, where one is due.

        The entry is added to the history first: it makes sense, or nothing is written.
        """
        state = self._append(facts)
        if (state.end.count + 1) % CHECKPOINT_EVERY == 0:
            state = state._append(state.history.checkpoint())
        return state

    def _append(self, facts: Mapping[str, Any]) -> _Verified:
        row = link({**facts, "at": self.at}, after=self.end, key=self.key)
        self.history.add(row, {**facts, "at": self.at})
        result = replace(self, end=Head(row.number, row.mac))
        self.connection.execute(insert(entries).values(number=row.number, body=row.body, mac=row.mac))
        change = update(head) if self.end.count else insert(head).values(id=1)
        sealed = seal(result.end, key=self.key)
        self.connection.execute(change.values(count=result.end.count, mac=result.end.mac, seal=sealed))
        return result


class Ledger:
    """One ledger, in one database. Safe to use from several threads, processes and machines at once.

    Every operation verifies before it acts, inside its own transaction; writing ones hold the database's
    write lock from before the reading until after the writing, so two runs cannot both be granted the
    last of a budget. What is verified is the chain since this machine last wrote (at least from the last
    checkpoint on), which does not grow with the ledger; what a machine missed it reads before it takes the
    lock. ``verify``, ``account`` and ``accounts`` walk all of it.

    Time does not run backwards here: an entry more than ``MAX_CLOCK_SKEW`` older than the one before is
    refused, or a clock set back would revive expired certificates.
    """

    def __init__(
        self, *, keyring: Keyring, url: str | None = None, clock: Clock = utc_now, witness: Witness | None = None
    ) -> None:
        """Names a ledger; touches nothing. Raises ``UsageError`` for a URL that cannot be used.

        ``witness``: where each of its ends is noted as well; ``AFFIDAVIT_WITNESS`` if left out.
        """
        self._keyring = keyring
        self._clock = clock
        self._database = Database(url or default_url(keyring.home))
        self._anchors = Anchors(keyring.home / "anchors")
        self._witness = witness or default_witness()

    @property
    def url(self) -> str:
        """Where it is, without a password."""
        return self._database.address

    def upgrade(self) -> tuple[int, int]:
        """Make the tables, or bring older ones up to date; the layout's number before (0: none) and now.

        Needed where accounts are opened by another database user than the tables' owner, and after a new version
        of affidavit says so. No entry is changed. Raises ``BudgetError``.
        """
        return self._database.create(), VERSION

    def init_account(
        self,
        dataset: str,
        *,
        relation: Relation,
        unit: Unit,
        epsilon: str | float | Decimal,
        delta: str | float | Decimal,
        filter: str = "basic",  # noqa: A002  the command line's word
        order: str | Decimal | None = None,
    ) -> Account:
        """Open an account, and the ledger with it if there is none yet. Budgets are fixed for good.

        ``order``: of a Rényi filter (``filters.budgets``). Raises ``UsageError`` if the account exists,
        ``NotSupported`` for a filter that does not hold or cannot keep this budget,
        ``PlanError`` for a budget out of range, ``LedgerAltered`` as every operation does.
        """
        facts = self._opening(dataset, relation, unit, epsilon, delta, filter, order)
        self._keyring.secret("ledger")
        if not self._is_there():
            self._database.create()
        with self._verified(write=True) as found:
            state = found if found.end.count else found.append(kind="ledger", id=secrets.token_hex(16))
            if dataset in state.accounts:
                raise UsageError(
                    f"the account {dataset} exists; its budget is fixed",
                    hint="New versions of the data are charged to the same account: "
                    f"`affidavit ledger show {shlex.quote(dataset)}`",
                )
            if state.history.officers:
                raise BudgetError(
                    "this ledger's officers open accounts",
                    hint="Ask for it: the same command with `--request REQUEST.json`, then "
                    "`affidavit ledger approve REQUEST.json` by another officer",
                )
            state = state.append(**facts)
        self._remember(state)
        return state.accounts[dataset]

    def _opening(
        self,
        dataset: str,
        relation: Relation,
        unit: Unit,
        epsilon: str | float | Decimal,
        delta: str | float | Decimal,
        name: str,
        order: str | Decimal | None,
    ) -> dict[str, Any]:
        """The facts of an entry that opens an account. Raises as ``init_account``."""
        facts: dict[str, Any] = {
            "kind": "open",
            "dataset": account_name(dataset),
            "relation": validate.relation(relation),
            "unit": unit.to_json(),
            "epsilon": decimals.show(_amount(epsilon, path="epsilon")),
            "delta": decimals.show(_amount(delta, path="delta", maximum=Decimal(1))),
            "filter": checked_filter(name),
            "account": secrets.token_hex(16),
        }
        found_order = None if order is None else decimals.as_written(order, path="--order")
        held = holding(name, epsilon=Decimal(facts["epsilon"]), delta=Decimal(facts["delta"]), order=found_order)
        if held is not None:
            facts |= {
                name: decimals.show(value)
                for name, value in zip(("order", "holding"), held, strict=True)
                if value is not None
            }
        return facts

    def set_officers(self, pems: Sequence[bytes]) -> tuple[str, ...]:
        """Name the officers, two of whom have to sign from now on before an account is opened or raised; for good.

        Returns their keyids. Raises ``UsageError`` where there are some, or too few are given.
        """
        officers = officers_of(pems)
        with self._verified(write=True) as found:
            if found.history.officers:
                raise UsageError(
                    "this ledger has officers already, for good", hint="Who opened what: `affidavit ledger show`"
                )
            state = found.append(kind="officers", officers=officers)
        self._remember(state)
        return tuple(officers)

    def request_account(self, dataset: str, **budget: Any) -> bytes:
        """A request to open an account, as ``init_account`` takes it, signed with our key, for officers to approve."""
        facts = self._opening(
            dataset,
            budget["relation"],
            budget["unit"],
            budget["epsilon"],
            budget["delta"],
            budget.get("filter", "basic"),
            budget.get("order"),
        )
        with self._verified(write=False) as found:
            return request_bytes(facts, ledger=found.history.identity, signer=self._keyring.signer())

    def request_raise(self, dataset: str, *, epsilon: str | float | Decimal, delta: str | float | Decimal) -> bytes:
        """A request to raise an account to (ε, δ) in all. Raises ``PlanError`` for less than it has."""
        with self._verified(write=False) as found:
            account = _account(found.accounts, dataset)
            larger = _amount(epsilon, path="--epsilon"), _amount(delta, path="--delta", maximum=Decimal(1))
            if larger[0] < account.epsilon or larger[1] < account.delta:
                allowed = f"at least ({decimals.show(account.epsilon)}, {decimals.show(account.delta)})"
                hint = (
                    f"For example `--epsilon {decimals.show(account.epsilon)} --delta {decimals.show(account.delta)}`."
                )
                raise PlanError("--epsilon", "a budget is not lowered", allowed=allowed, hint=hint)
            held = holding(account.filter, epsilon=larger[0], delta=larger[1], order=account.order)
            facts = {
                "kind": "raise",
                "dataset": dataset,
                "epsilon": decimals.show(larger[0]),
                "delta": decimals.show(larger[1]),
                "from_epsilon": decimals.show(account.epsilon),
                "from_delta": decimals.show(account.delta),
                **({} if held is None else {"holding": decimals.show(held[1])}),
            }
            return request_bytes(facts, ledger=found.history.identity, signer=self._keyring.signer())

    def apply(self, request: bytes) -> Account:
        """Do what enough officers signed. Raises ``BudgetError`` where they did not, or it was done before."""
        with self._verified(write=True) as found:
            history = found.history
            facts = approved(request, ledger=history.identity, officers=history.officers)
            dataset = str(facts.get("dataset"))
            stale = dataset in found.accounts
            if facts.get("kind") == "raise":
                held = found.accounts.get(dataset)
                stale = held is None or (decimals.show(held.epsilon), decimals.show(held.delta)) != (
                    facts.get("from_epsilon"),
                    facts.get("from_delta"),
                )
            if stale:
                raise BudgetError(
                    f"the account {dataset} is not as it was when this was asked for: done before, or another was",
                    hint=f"See it: `affidavit ledger show {shlex.quote(dataset)}`",
                )
            state = found.append(**facts, approvals=request.decode("ascii"))
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
        costs: Costs = NO_COSTS,
        account: str = "",
        data: str = "",
        records: Sequence[str] = (),
        entry: str | None = None,
    ) -> str:
        """Charge a run before it starts; returns the entry's random id. It is spent from now on.

        ``costs``: what it costs in the units of filters. ``account``: the id that its certificate names, if any.
        ``data``: the keyed fingerprint of its file, ``records`` the ``sketch`` of the records that it will see.
        ``entry``: a random id of 32 hexadecimal digits, from whoever wrote it down before.
        Raises ``LedgerMissing``, ``LedgerAltered``, ``BudgetExceeded``, or ``BudgetError`` if the account is for
        another relation or unit or is not the certificate's, its filter has no cost for the run, or another account
        was charged for the same records; then nothing is charged.
        """
        epsilon, delta = _amount(epsilon, path="epsilon"), _amount(delta, path="delta", maximum=Decimal(1))
        entry = entry or secrets.token_hex(16)
        with self._verified(write=True) as found:
            known = _Known(account, data, tuple(records))
            paying = _grant(found.accounts, dataset, relation, unit, epsilon, delta, costs, known)
            charge = paying.charge(costs)
            state = found.append(
                kind="reserve",
                dataset=dataset,
                entry=entry,
                certificate_sha256=certificate_sha256,
                epsilon=decimals.show(epsilon),
                delta=decimals.show(delta),
                **({"data": data} if data else {}),
                **({} if charge is None else {"charge": decimals.show(charge)}),
                **({} if merge(paying.records, records) == paying.records else {"records": list(records)}),
            )
        self._remember(state)
        return entry

    def check(
        self,
        dataset: str,
        *,
        relation: Relation,
        unit: Unit,
        epsilon: str | float | Decimal,
        delta: str | float | Decimal,
        costs: Costs = NO_COSTS,
        account: str = "",
        data: str = "",
        records: Sequence[str] = (),
    ) -> Account:
        """What ``reserve`` would answer now, without a charge: the account, or what it raises.

        Nothing is promised: another run may be granted in between.
        """
        epsilon, delta = _amount(epsilon, path="epsilon"), _amount(delta, path="delta", maximum=Decimal(1))
        with self._verified(write=False) as found:
            known = _Known(account, data, tuple(records))
            return _grant(found.accounts, dataset, relation, unit, epsilon, delta, costs, known)

    def check_owner(self, dataset: str, *, records: Sequence[str], data: str = "") -> None:
        """Before an account is opened: raises ``BudgetError`` where another was charged for the same records."""
        with self._verified(write=False) as found:
            _check_owner(found.accounts, dataset, _Known("", data, tuple(records)))

    def commit(self, entry: str, *, receipt_sha256: str | None = None) -> None:
        """Note that a reserved run ended well; its cost stays what was reserved.

        Raises ``UsageError`` if there is no such reservation, or it was committed before.
        """
        with self._verified(write=True) as found:
            is_open = found.history.open_reservation(entry)
            if is_open is None:
                is_open = _still_open(found, entry)
            if not is_open:
                raise UsageError("no open reservation has this id", hint="Which are open: `affidavit ledger show`")
            state = found.append(kind="commit", entry=entry, receipt_sha256=receipt_sha256)
        self._remember(state)

    def balance(self, dataset: str) -> Account:
        """One account without its reservations, however many. Raises ``LedgerMissing``, ``LedgerAltered``."""
        with self._verified(write=False) as found:
            return replace(_account(found.accounts, dataset), reservations=())

    def account(self, dataset: str) -> Account:
        """One account with its reservations. Raises ``LedgerMissing``, ``LedgerAltered``."""
        with self._verified(write=False, whole=True) as found:
            return _account(found.accounts, dataset)

    def accounts(self) -> tuple[Account, ...]:
        """All accounts, in order of opening. Raises ``LedgerMissing``, ``LedgerAltered``."""
        with self._verified(write=False, whole=True) as found:
            return tuple(found.accounts.values())

    def is_reserved(self, entry: str) -> bool:
        """Whether there is a reservation of this id, committed or not."""
        with self._verified(write=False) as found:
            return bool(_about(found.connection, entry))

    def end_after(self, entry: str) -> tuple[int, str]:
        """The ledger's end right after a reservation: its number and MAC. Raises ``UsageError`` if there is none."""
        with self._verified(write=False) as found:
            for row, facts in _verified_rows(found, _about(found.connection, entry)):
                if facts["kind"] == "reserve" and facts["entry"] == entry:
                    return row.number, row.mac
        raise UsageError("no reservation has this id", hint="Which there are: `affidavit ledger show`")

    def reservation(self, entry: str, *, end: tuple[int, str], certificate_sha256: str) -> Reservation:
        """What a receipt rests on, in the whole ledger: ``entry``, reserved for this certificate at ``end``.

        Raises ``LedgerAltered`` where the entry there is not the one that was, or another run's: the ledger was
        rewritten since, or is not the one that paid.
        """
        with self._verified(write=False, whole=True) as found:
            same = found.macs.get(end[0]) == end[1]
            items = (item for account in found.accounts.values() for item in account.reservations)
            item = next((item for item in items if item.entry == entry), None)
        if not same or item is None or item.certificate_sha256 != certificate_sha256:
            raise altered(
                f"entry {end[0]} is not the one that the receipt names, so it was rewritten since, or another "
                "ledger paid",
                entry=end[0],
            )
        return item

    def verify(self, *, witness: Witness | None = None) -> int:
        """Walk the chain; returns the number of entries. Raises ``LedgerAltered`` at the first bad one.

        Every end that a ``witness`` (or the ledger's own) noted has to be there.
        """
        witness = witness or self._witness
        with self._verified(write=False, whole=True) as found:
            for noted in witness.heads(found.history.identity) if witness is not None else ():
                if found.macs.get(noted.count) != noted.mac:
                    raise altered(f"entry {noted.count} is not the one that was witnessed", entry=noted.count)
            return found.end.count

    def witness(self, witness: Witness) -> int:
        """Note the end of the whole, verified ledger; returns the number of entries. Raises as ``verify`` does."""
        with self._verified(write=False, whole=True) as found:
            witness.note(found.history.identity, found.end, at=found.at)
            return found.end.count

    @contextmanager
    def _verified(self, *, write: bool, whole: bool = False) -> Iterator[_Verified]:
        """A transaction on a ledger that verifies. Raises ``LedgerMissing``, ``LedgerAltered``."""
        if not self._is_there():
            raise LedgerMissing(f"there is no ledger at {self.url}", hint=_INIT_HINT)
        key = self._keyring.secret("ledger")
        # The anchor before the entries, which may only be ahead of it.
        identity, length = self._identity(key)
        anchor = self._anchors.of(identity) if identity else None
        if write and length - (anchor.head.count if anchor is not None else 0) > CATCH_UP:
            with self._verified(write=False) as found:
                self._anchors.note(self.url, identity=found.history.identity, head=found.end)
            anchor = self._anchors.of(identity)
        with self._database.transaction(write=write) as connection:
            first = 1 if whole or anchor is None else _first_needed(connection, anchor)
            rows = _read(connection, first)
            history, end, macs = _replayed(rows, key=key, first=first)
            _check_end(connection, end, key=key)
            if anchor is not None:
                anchor.check(end, mac=macs.get(anchor.head.count))
            yield _Verified(connection, key, self._now(history.latest, write=write), history, end, macs)

    def _is_there(self) -> bool:
        """Whether there is a ledger. Raises ``LedgerAltered`` where one was written, and there is none."""
        here = self._anchors.at(self.url)  # before the look: what is made meanwhile was not there before
        there = self._database.exists()
        if here is not None and not there:
            here.check_here("")
        return there

    def _identity(self, key: bytes) -> tuple[str, int]:
        """The ledger's id, from its first entry, and its length; empty for a ledger that is just being made."""
        here = self._anchors.at(self.url)
        with self._database.transaction(write=False) as connection:
            rows = _read(connection, 1, last=1)
            length = connection.execute(select(func.max(entries.c.number))).scalar() or 0
            if not rows and length:
                raise altered("entry 1 is missing", entry=1)
        identity = History.read(walk(rows, key=key)).identity
        if here is not None:
            here.check_here(identity)
        return identity, length

    def _now(self, latest: str, *, write: bool) -> str:
        """The time to write: never before the last entry's. Raises ``BudgetError`` where the clock is behind it."""
        now = self._clock()
        if not latest:
            return show_instant(now)
        last = parse_instant(latest)
        if write and now < last - MAX_CLOCK_SKEW:
            raise BudgetError(
                f"this machine's clock says {show_instant(now)}, the ledger's last entry is from {latest}",
                hint="Set the clock right; nothing was charged.",
            )
        return show_instant(max(now, last))

    def _remember(self, state: _Verified) -> None:
        try:
            self._anchors.note(self.url, identity=state.history.identity, head=state.end)
        except OSError as error:
            raise BudgetError(
                f"the ledger was written, but not its anchor in {self._anchors.folder}: {error.strerror}",
                hint="What was charged is spent. Make the folder writable before the next run.",
            ) from None
        if self._witness is not None:
            self._witness.note(state.history.identity, state.end, at=state.at)


def _first_needed(connection: Connection, anchor: Anchor) -> int:
    """Where reading has to begin: at a checkpoint, no later than the entry that the anchor names."""
    count = min(anchor.head.count, connection.execute(select(func.max(entries.c.number))).scalar() or 0)
    begin = count // CHECKPOINT_EVERY * CHECKPOINT_EVERY
    body = connection.execute(select(entries.c.body).where(entries.c.number == begin)).scalar()
    return begin if body is not None and '"kind":"checkpoint"' in body else 1


def _replayed(rows: Sequence[Row], *, key: bytes, first: int) -> tuple[History, Head, Mapping[int, str]]:
    history = History.read(walk(rows, key=key, first=first))
    end = Head(rows[-1].number, rows[-1].mac) if rows else Head(0, GENESIS)
    return history, end, {row.number: row.mac for row in rows}


def _read(connection: Connection, first: int, *, last: int | None = None) -> tuple[Row, ...]:
    wanted = select(entries.c.number, entries.c.body, entries.c.mac).where(entries.c.number >= first)
    if last is not None:
        wanted = wanted.where(entries.c.number <= last)
    found = connection.execute(wanted.order_by(entries.c.number))
    return tuple(Row(number, str(body), str(mac)) for number, body, mac in found)


def _check_end(connection: Connection, end: Head, *, key: bytes) -> None:
    """The seal says that the last entry is the last."""
    sealed = [tuple(item) for item in connection.execute(select(head.c.count, head.c.mac, head.c.seal))]
    expected = [(end.count, end.mac, seal(end, key=key))] if end.count else []
    if sealed != expected:
        raise altered("its last entries are missing, or its seal was changed", entry=end.count + 1)


def _still_open(found: _Verified, entry: str) -> bool:
    """Whether a reservation from before the entries that were read is there and not committed."""
    rows = _about(found.connection, entry)
    about = [facts for _, facts in _verified_rows(found, rows)]
    return [facts["kind"] for facts in about if facts.get("entry") == entry] == ["reserve"]


def _verified_rows(found: _Verified, rows: Sequence[Row]) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Single entries, each verified on its own."""
    for row in rows:
        yield from walk([row], key=found.key, first=row.number)


def _about(connection: Connection, entry: str) -> tuple[Row, ...]:
    """The rows that name this reservation, by the index of ids; what they say is not verified yet."""
    same = text(f"{by_id(connection.dialect.name)} = :entry").bindparams(entry=entry)
    found = connection.execute(
        select(entries.c.number, entries.c.body, entries.c.mac).where(same).order_by(entries.c.number)
    )
    return tuple(Row(number, str(body), str(mac)) for number, body, mac in found)


def _account(accounts: Mapping[str, Account], dataset: str) -> Account:
    if dataset not in accounts:
        known = ", ".join(sorted(accounts)) or "none"
        raise LedgerMissing(
            f"the ledger has no account {dataset!r} (it has: {known})",
            hint="Which there are: `affidavit ledger show`" if accounts else _INIT_HINT,
            accounts=tuple(accounts),
        )
    return accounts[dataset]


def account_name(dataset: str, *, path: str = "dataset") -> str:
    """An account's name as it is. Raises ``PlanError`` for what cannot be one."""
    fits = isinstance(dataset, str) and 0 < len(dataset) <= 200 and dataset.isprintable() and dataset == dataset.strip()
    if not fits:
        hint = f"For example {remedies.setting(path, 'my-records')}."
        raise PlanError(path, "not a name", allowed="1 to 200 printable characters", hint=hint)
    return dataset


def _amount(value: str | float | Decimal, *, path: str, maximum: Decimal | None = None) -> Decimal:
    amount = decimals.as_written(value, path=path)
    if amount < 0 or (maximum is not None and amount > maximum):
        allowed = "a finite number >= 0" if maximum is None else f"a number in [0, {maximum}]"
        raise PlanError(path, f"{amount} is out of range", allowed=allowed)
    return amount


@dataclass(frozen=True, slots=True)
class _Known:
    """What ties a run to its account: the id that its certificate names, its file's fingerprint, its records."""

    account: str
    data: str
    records: tuple[str, ...]


def _grant(
    accounts: Mapping[str, Account],
    dataset: str,
    relation: Relation,
    unit: Unit,
    epsilon: Decimal,
    delta: Decimal,
    costs: Costs,
    known: _Known,
) -> Account:
    """The account, if it pays for one more such run on these records. Raises ``LedgerMissing``, ``BudgetError``."""
    account = _account(accounts, dataset)
    _check_kind(account, relation, unit)
    if known.account and account.identity != known.account:
        raise BudgetError(
            f"the certificate is for the account {known.account[:12]}, and {dataset} is {account.identity[:12]} here",
            hint="Certify for this ledger's account: `affidavit certify RUN.toml -o CERT.json`",
        )
    _check_owner(accounts, dataset, known)
    if account.holding is not None and account.charge(costs) is None:
        raise BudgetError(
            f"the account {dataset} adds up runs by a {account.filter} filter, and no theorem gives this run's plan a "
            "cost in its unit",
            hint="Which mechanisms have one: docs/theory/filters.md. See the account: "
            f"`affidavit ledger show {shlex.quote(dataset)}`",
        )
    if not account.admits(epsilon, delta, costs):
        charge = account.charge(costs)
        raise _exceeded(account, epsilon, delta) if charge is None else _overdrawn(account, charge, epsilon, delta)
    return account


def _check_kind(account: Account, relation: Relation, unit: Unit) -> None:
    for what, held, asked in (("relation", account.relation, relation), ("unit", account.unit, unit)):
        if held != asked:
            raise BudgetError(
                f"the account {account.dataset} is for the {what} {held}, this run is certified for {asked}",
                hint=f"State `{what} = {_spelled(held)}` and certify again; costs of two {what}s do not add up.",
            )


def _check_owner(accounts: Mapping[str, Account], dataset: str, known: _Known) -> None:
    """A new name is no new budget: the account that was charged for these records has to pay again."""
    for other in accounts.values():
        if other.dataset == dataset:
            continue
        if known.data and known.data in other.data:
            found = "this very file was"
        elif (part := share(known.records, other.records)) >= SAME_DATA:
            found = f"about {part:.0%} of these records were"
        else:
            continue
        raise BudgetError(
            f"{found} charged to the account {other.dataset} before: the same data under another name have no budget "
            "of their own",
            hint=f"Charge that account: {remedies.setting('data.name', other.dataset)}",
        )


def _spelled(held: str | Unit) -> str:
    """As a run file states it."""
    if isinstance(held, str) or held.key is None:
        return f'"{held}"'
    return f'{{key = "{held.key}", max_records = {held.max_records}}}'


def _overdrawn(account: Account, charge: Decimal, epsilon: Decimal, delta: Decimal) -> BudgetExceeded:
    """As ``_exceeded``, in the unit of a filter that is not basic."""
    show = decimals.show
    holds = account.holding or Decimal(0)
    left = decimals.subtract(holds, account.charged)
    return BudgetExceeded(
        f"the account {account.dataset} has {show(left)} left of {show(holds)} by its {account.filter} "
        f"filter, for (ε, δ) = ({show(account.epsilon)}, {show(account.delta)}) in all; "
        f"this run costs {show(charge)}",
        requested=(float(epsilon), float(delta)),
        remaining=(0.0, 0.0),
        hint=f"A run that costs less may fit. What is left: `affidavit ledger show {shlex.quote(account.dataset)}`",
    )


def _exceeded(account: Account, epsilon: Decimal, delta: Decimal) -> BudgetExceeded:
    show = decimals.show
    epsilon_left, delta_left = account.remaining
    if epsilon > epsilon_left > 0:
        hint = f"What fits: `affidavit calibrate RUN.toml --epsilon {show(epsilon_left)}`"
    elif epsilon <= epsilon_left and delta_left > 0:
        hint = f"What fits: `budget.delta = {show(delta_left)}`, certified again"
    else:
        hint = "Nothing is left for these data, under this name or another: `affidavit ledger show`"
    return BudgetExceeded(
        f"the account {account.dataset} has (ε, δ) = ({show(epsilon_left)}, {show(delta_left)}) left of "
        f"({show(account.epsilon)}, {show(account.delta)}); this run costs ({show(epsilon)}, {show(delta)})",
        requested=(float(epsilon), float(delta)),
        remaining=(float(epsilon_left), float(delta_left)),
        hint=hint,
    )
