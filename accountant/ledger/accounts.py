"""What a chain of entries means: accounts, what was reserved on each, and what is left.

Basic filter: a run is admitted if the sums of the certified ε and of the certified δ, its own
included, stay within the budget. Valid for runs chosen adaptively and overlapping in time, because
a sum does not depend on an order or on which run was asked for why (Rogers, Roth, Ullman, Vadhan
2016, "Privacy odometers and filters", section 3; Whitehouse, Ramdas, Rogers, Wu 2023, "Fully
adaptive composition in differential privacy"). A run that fits alone is granted. Exact decimals.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from affidavit.accountant import decimals, validate
from affidavit.accountant.errors import PlanError
from affidavit.accountant.ledger.chain import Row, altered
from affidavit.accountant.unit import Unit, parse_unit
from affidavit.accountant.validate import Relation

__all__ = ["Account", "Reservation", "replay"]

NEVER_COMMITTED = "reserved, never committed: spent"


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one run was charged. ``ended`` is None as long as, or because, it never committed."""

    entry: str
    certificate_sha256: str
    epsilon: Decimal
    delta: Decimal
    reserved: str
    ended: str | None = None
    receipt_sha256: str | None = None

    @property
    def state(self) -> str:
        """For people: a run that was killed, or is still running, has spent what it reserved."""
        return NEVER_COMMITTED if self.ended is None else f"committed {self.ended}"


@dataclass(frozen=True, slots=True)
class Account:
    """One data set's budget, for one relation and unit. Budgets never grow."""

    dataset: str
    relation: Relation
    unit: Unit
    epsilon: Decimal
    delta: Decimal
    filter: str
    opened: str
    reservations: tuple[Reservation, ...] = ()

    @property
    def spent(self) -> tuple[Decimal, Decimal]:
        """(ε, δ) of all reservations, committed or not, exact."""
        return (
            decimals.add(item.epsilon for item in self.reservations),
            decimals.add(item.delta for item in self.reservations),
        )

    @property
    def remaining(self) -> tuple[Decimal, Decimal]:
        """(ε, δ) of the budget less what is spent, exact."""
        epsilon, delta = self.spent
        return decimals.subtract(self.epsilon, epsilon), decimals.subtract(self.delta, delta)

    def admits(self, epsilon: Decimal, delta: Decimal) -> bool:
        """The basic filter: whether one more run of this cost stays within the budget."""
        spent_epsilon, spent_delta = self.spent
        return (
            decimals.add([spent_epsilon, epsilon]) <= self.epsilon and decimals.add([spent_delta, delta]) <= self.delta
        )


@dataclass(slots=True)
class _Tally:
    """An account while its entries are read: one pass, however many there are."""

    account: Account
    epsilon: Decimal = Decimal(0)
    delta: Decimal = Decimal(0)
    reservations: dict[str, Reservation] = field(default_factory=dict)

    def reserve(self, facts: dict[str, Any]) -> None:
        item = Reservation(
            entry=facts["entry"],
            certificate_sha256=facts["certificate_sha256"],
            epsilon=decimals.parse(facts["epsilon"], path="epsilon"),
            delta=decimals.parse(facts["delta"], path="delta"),
            reserved=facts["at"],
        )
        self.epsilon = decimals.add([self.epsilon, item.epsilon])
        self.delta = decimals.add([self.delta, item.delta])
        if self.epsilon > self.account.epsilon or self.delta > self.account.delta:
            raise ValueError("overdrawn")
        self.reservations[item.entry] = item

    def commit(self, facts: dict[str, Any]) -> None:
        item = self.reservations[facts["entry"]]
        if item.ended is not None:
            raise ValueError("committed twice")
        self.reservations[item.entry] = replace(item, ended=facts["at"], receipt_sha256=facts["receipt_sha256"])


def replay(entries: Iterable[tuple[Row, dict[str, Any]]]) -> tuple[str, dict[str, Account]]:
    """The ledger's id and its accounts. Raises ``LedgerAltered`` at an entry that cannot follow."""
    identity = ""
    tallies: dict[str, _Tally] = {}
    owner: dict[str, _Tally] = {}
    for row, facts in entries:
        try:
            if row.number == 1:
                identity = _identity(facts)
            else:
                _apply(facts, tallies, owner)
        except (KeyError, TypeError, ValueError, PlanError):
            raise altered(f"entry {row.number} makes no sense after the ones before it", entry=row.number) from None
    accounts = {
        name: replace(tally.account, reservations=tuple(tally.reservations.values())) for name, tally in tallies.items()
    }
    return identity, accounts


def _identity(facts: dict[str, Any]) -> str:
    if facts["kind"] != "ledger":
        raise ValueError("a ledger begins with its id")
    return str(facts["id"])


def _apply(facts: dict[str, Any], tallies: dict[str, _Tally], owner: dict[str, _Tally]) -> None:
    match facts["kind"]:
        case "open" if facts["dataset"] not in tallies:
            tallies[facts["dataset"]] = _Tally(_opened(facts))
        case "reserve" if facts["entry"] not in owner:
            tally = owner[facts["entry"]] = tallies[facts["dataset"]]
            tally.reserve(facts)
        case "commit":
            owner[facts["entry"]].commit(facts)
        case _:
            raise ValueError("unknown, or repeated")


def _opened(facts: dict[str, Any]) -> Account:
    return Account(
        dataset=facts["dataset"],
        relation=validate.relation(facts["relation"]),
        unit=parse_unit(facts["unit"]),
        epsilon=decimals.parse(facts["epsilon"], path="epsilon"),
        delta=decimals.parse(facts["delta"], path="delta"),
        filter=facts["filter"],
        opened=facts["at"],
    )
