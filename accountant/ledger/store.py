"""``Ledger``: open, reserve, commit, verify. The one mutable thing in the accountant."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any, Unpack

from affidavit.accountant import decimals
from affidavit.accountant.attestation import recheck
from affidavit.accountant.attestation.statement import Certificate
from affidavit.accountant.errors import BudgetError, LedgerAltered, UsageError
from affidavit.accountant.filters.costs import NO_COSTS
from affidavit.accountant.ledger.accounts import Account, Reservation, stated
from affidavit.accountant.ledger.approvals import approved, officers_of, request_bytes
from affidavit.accountant.ledger.book import Book, Verified, default_url
from affidavit.accountant.ledger.chain import altered
from affidavit.accountant.ledger.grants import Charge, account_of, check_owner, grant
from affidavit.accountant.ledger.opening import Budget, account_name, amount, opening, raising
from affidavit.accountant.ledger.parts import key_id
from affidavit.accountant.ledger.sketch import merge
from affidavit.accountant.ledger.tables import VERSION
from affidavit.accountant.ledger.witness import Witness

__all__ = ["Ledger", "account_name", "default_url"]


class Ledger(Book):
    """One ledger, in one database. Safe to use from several threads, processes and machines at once.

    Every operation verifies before it acts, inside its own transaction; writing ones hold the database's
    write lock from before the reading until after the writing, so two runs cannot both be granted the
    last of a budget. What is verified is the chain since this machine last wrote (at least from the last
    checkpoint on), which does not grow with the ledger; what a machine missed it reads before it takes the
    lock, one of its processes for all. ``verify``, ``account`` and ``accounts`` walk all of it.

    Time does not run backwards here: an entry more than ``MAX_CLOCK_SKEW`` older than the one before is
    refused, or a clock set back would revive expired certificates.
    """

    def upgrade(self) -> tuple[int, int]:
        """Make the tables, or bring older ones up to date; the layout's number before (0: none) and now.

        Needed where accounts are opened by another database user than the tables' owner, and after a new version
        of affidavit says so. No entry is changed. Raises ``BudgetError``.
        """
        return self._database.create(), VERSION

    def init_account(self, dataset: str, **budget: Unpack[Budget]) -> Account:
        """Open an account, and the ledger with it if there is none yet. Budgets (``opening``) are fixed for good.

        Raises ``UsageError`` if the account exists, ``NotSupported`` for a filter that does not hold or cannot keep
        this budget, ``PlanError`` for a budget out of range, ``LedgerAltered`` as every operation does.
        """
        facts = self._opening(dataset, budget)
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
                    hint="Ask them: add `--request REQUEST.json`. Another officer approves what it writes.",
                )
            state = state.append(**facts)
        self._remember(state)
        return state.accounts[dataset]

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

    def request_account(self, dataset: str, **budget: Unpack[Budget]) -> bytes:
        """A request to open an account, as ``init_account`` takes it, signed with our key, for officers to approve."""
        facts = self._opening(dataset, budget)
        with self._verified(write=False) as found:
            return request_bytes(facts, ledger=found.history.identity, signer=self._keyring.signer())

    def request_raise(self, dataset: str, *, epsilon: str | float | Decimal, delta: str | float | Decimal) -> bytes:
        """A request to raise an account to (ε, δ) in all. Raises ``PlanError`` for less than it has."""
        with self._verified(write=False) as found:
            facts = raising(account_of(found.accounts, dataset), epsilon=epsilon, delta=delta)
            return request_bytes(facts, ledger=found.history.identity, signer=self._keyring.signer())

    def apply(self, request: bytes) -> Account:
        """Do what enough officers signed. Raises ``BudgetError`` where they did not, or it was done before."""
        with self._verified(write=True) as found:
            history = found.history
            facts = approved(request, ledger=history.identity, officers=history.officers)
            dataset = str(facts.get("dataset"))
            try:
                state = found.append(**facts, approvals=request.decode("ascii"))
            except LedgerAltered:  # no entry that can follow: nothing was written
                raise BudgetError(
                    f"the account {dataset} is not as it was when this was asked for: done before, or another was",
                    hint=f"See it: `affidavit ledger show {shlex.quote(dataset)}`",
                ) from None
        self._remember(state)
        return state.accounts[dataset]

    def reserve(
        self, dataset: str, *, certificate_sha256: str, entry: str | None = None, **charge: Unpack[Charge]
    ) -> str:
        """Charge a run before it starts; returns the entry's random id. It is spent from now on.

        ``charge``: see ``grants``. ``entry``: a random id of 32 hexadecimal digits, from whoever wrote it down before.
        Raises ``UsageError`` for an id that was used, ``LedgerMissing``, ``LedgerAltered``, ``BudgetExceeded``, or
        ``BudgetError`` if the account is for another relation or unit or is not the certificate's, its filter has no
        cost for the run, or another account was charged for the same records; then nothing is charged.
        """
        epsilon, delta = _amounts(charge)
        data, records = charge.get("data", ""), charge.get("records", ())
        with self._verified(write=True) as found:
            paying = self._paying(found, dataset, charge)
            entry = secrets.token_hex(16) if entry is None else _unused(entry, found)
            cost = paying.charge(charge.get("costs", NO_COSTS))
            state = found.append(
                kind="reserve",
                dataset=dataset,
                entry=entry,
                certificate_sha256=certificate_sha256,
                epsilon=decimals.show(epsilon),
                delta=decimals.show(delta),
                **({"data": data} if data else {}),
                **({} if cost is None else {"charge": decimals.show(cost)}),
                **({} if merge(paying.records, records) == paying.records else {"records": list(records)}),
            )
        self._remember(state, data=data)
        return entry

    def check(self, dataset: str, **charge: Unpack[Charge]) -> Account:
        """What ``reserve`` would answer now, without a charge: the account, or what it raises.

        Nothing is promised: another run may be granted in between.
        """
        _amounts(charge)
        with self._verified(write=False) as found:
            return self._paying(found, dataset, charge)

    def _paying(self, found: Verified, dataset: str, charge: Charge) -> Account:
        """The account, if it pays. Raises as ``reserve``, also for a file that was charged on another ledger."""
        if not self._apart:
            self._anchors.check_new(charge.get("data", ""), identity=found.history.identity)
        key = self._key_id() if charge.get("records") else ""  # a ledger is charged without a key, too
        return grant(found.accounts, dataset, charge, *_amounts(charge), key)

    def _opening(self, dataset: str, budget: Budget) -> dict[str, Any]:
        return stated(opening(dataset, budget, key="" if budget.get("part") is None else self._key_id()))

    def _key_id(self) -> str:
        return key_id(self._keyring.secret("commitment"))

    def check_owner(self, dataset: str, *, records: Sequence[str], data: str = "") -> None:
        """Before an account is opened: raises ``BudgetError`` where another was charged for the same records."""
        with self._verified(write=False) as found:
            check_owner(found.accounts, dataset, records, data)

    def confirm(self, certificate: Certificate) -> bool:
        """``recheck.confirm`` once for each certificate on this ledger; whether it was recomputed now.

        What was noted counts while the verifier's code is the same (``recheck.note``). Raises ``ClaimRefused``;
        ``LedgerMissing``, ``LedgerAltered``.
        """
        with self._verified(write=False) as found:
            if _is_noted(certificate, found):
                return False
        recheck.confirm(certificate)
        with suppress(BudgetError):  # where nothing can be noted, it is recomputed the next time
            with self._verified(write=True) as found:
                known = _is_noted(certificate, found)
                state = found if known else found.append(**recheck.note(certificate, ledger=found.history.identity))
            self._remember(state)
        return True

    def commit(self, entry: str, *, receipt_sha256: str | None = None) -> None:
        """Note that a reserved run ended well; its cost stays what was reserved.

        Raises ``UsageError`` if there is no such reservation, or it was committed before.
        """
        with self._verified(write=True) as found:
            if [facts["kind"] for _, facts in found.about(entry)] != ["reserve"]:
                raise UsageError("no open reservation has this id", hint="Which are open: `affidavit ledger show`")
            state = found.append(kind="commit", entry=entry, receipt_sha256=receipt_sha256)
        self._remember(state)

    def balance(self, dataset: str) -> Account:
        """One account without its reservations, however many. Raises ``LedgerMissing``, ``LedgerAltered``."""
        with self._verified(write=False) as found:
            return replace(account_of(found.accounts, dataset), reservations=())

    def account(self, dataset: str) -> Account:
        """One account with its reservations. Raises ``LedgerMissing``, ``LedgerAltered``."""
        with self._verified(write=False, whole=True) as found:
            return account_of(found.accounts, dataset)

    def accounts(self) -> tuple[Account, ...]:
        """All accounts, in order of opening. Raises ``LedgerMissing``, ``LedgerAltered``."""
        with self._verified(write=False, whole=True) as found:
            return tuple(found.accounts.values())

    def is_reserved(self, entry: str) -> bool:
        """Whether there is a reservation of this id, committed or not."""
        with self._verified(write=False) as found:
            return bool(found.about(entry))

    def end_after(self, entry: str) -> tuple[int, str]:
        """The ledger's end right after a reservation: its number and MAC. Raises ``UsageError`` if there is none."""
        with self._verified(write=False) as found:
            for row, facts in found.about(entry):
                if facts["kind"] == "reserve":
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


def _amounts(charge: Charge) -> tuple[Decimal, Decimal]:
    """(ε, δ) as they were written. Raises ``PlanError``."""
    return amount(charge["epsilon"], path="epsilon"), amount(charge["delta"], path="delta", maximum=1)


def _is_noted(certificate: Certificate, found: Verified) -> bool:
    """Whether this ledger has the note. Raises ``LedgerAltered`` for one that was changed."""
    wanted = recheck.note(certificate, ledger=found.history.identity)
    for _, facts in found.about(wanted["entry"]):
        if {name: facts.get(name) for name in wanted} == wanted:
            return bool(wanted["verifier"])
    return False


def _unused(entry: str, found: Verified) -> str:
    """An id for a new reservation, also where the entries that were read do not reach back to the first use of it."""
    if not re.fullmatch(r"[0-9a-f]{32}", entry) or found.about(entry):
        raise UsageError(
            "a reservation's id has 32 hexadecimal digits, and is used once",
            hint="Nothing was charged. Leave `entry` out: a new one is made, and returned.",
        )
    return entry
