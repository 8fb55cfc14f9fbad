"""What a chain of entries means: accounts, what was reserved on each, and what is left.

A run is admitted if the account's filter (``filters``) does: the sum of what all runs cost in the filter's
unit, its own included, stays within the budget that was fixed at opening. Valid for runs chosen adaptively and
overlapping in time. By the basic filter the unit is (ε, δ), and a run that fits alone is granted. Exact decimals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

from affidavit.accountant import decimals
from affidavit.accountant.errors import PlanError
from affidavit.accountant.filters.costs import NO_COSTS, Costs
from affidavit.accountant.ledger.approvals import check_approved
from affidavit.accountant.ledger.chain import Row, altered
from affidavit.accountant.ledger.parts import Part
from affidavit.accountant.ledger.sketch import merge
from affidavit.accountant.strictjson import forms_of, record
from affidavit.accountant.unit import Unit
from affidavit.accountant.validate import Relation

__all__ = ["Account", "History", "Reservation", "opened", "raised", "stated"]

NEVER_COMMITTED = "reserved, never committed: spent"


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one run was charged. ``ended`` is None as long as, or because, it never committed.

    ``charge``: its cost in the unit of the account's filter, if that is not (ε, δ).
    """

    entry: str
    certificate_sha256: str
    epsilon: Decimal
    delta: Decimal
    reserved: str
    ended: str | None = None
    receipt_sha256: str | None = None
    charge: Decimal | None = None

    @property
    def state(self) -> str:
        """For people: a run that was killed, or is still running, has spent what it reserved."""
        return NEVER_COMMITTED if self.ended is None else f"committed {self.ended}"


@dataclass(frozen=True, slots=True)
class Account:
    """One data set's budget, for one relation and unit. Budgets never grow but by officers' ``raise``.

    ``spent_epsilon``, ``spent_delta`` and ``runs`` are of all reservations, committed or not, and exact.
    ``reservations`` lists them where the whole history was read. ``records``: the sketch of all records that
    were ever charged to it, for as far as runs showed theirs; ``data``: the keyed fingerprints of their files.
    ``identity``: random, what certificates name. ``holding``: the budget in the unit of a filter that is not
    basic, ``order`` that of a Rényi filter, ``charged`` what all runs cost in that unit.
    ``part``: which records alone may be charged to it, by a function of the record (``parts``); None for any.
    """

    dataset: str
    relation: Relation
    unit: Unit
    epsilon: Decimal
    delta: Decimal
    filter: str
    opened: str
    spent_epsilon: Decimal = Decimal(0)
    spent_delta: Decimal = Decimal(0)
    runs: int = 0
    identity: str = ""
    order: Decimal | None = None
    holding: Decimal | None = None
    charged: Decimal = Decimal(0)
    part: Part | None = None
    data: tuple[str, ...] = field(default=(), repr=False)
    records: tuple[str, ...] = field(default=(), repr=False)
    reservations: tuple[Reservation, ...] = ()

    @property
    def spent(self) -> tuple[Decimal, Decimal]:
        """(ε, δ) of all reservations."""
        return self.spent_epsilon, self.spent_delta

    @property
    def remaining(self) -> tuple[Decimal, Decimal]:
        """(ε, δ) of the budget less what is spent, exact."""
        return decimals.subtract(self.epsilon, self.spent_epsilon), decimals.subtract(self.delta, self.spent_delta)

    def charge(self, costs: Costs) -> Decimal | None:
        """A run's cost in the filter's unit; None for basic, and where no theorem gives the run one."""
        match self.filter:
            case "renyi" if self.order is not None:
                return costs.rho_at(self.order)
            case "zcdp":
                return costs.zcdp
            case "gdp" if costs.gdp is not None:
                return decimals.round_up(Fraction(costs.gdp) ** 2, digits=24)
        return None

    def fits(self, epsilon: Decimal, delta: Decimal, costs: Costs = NO_COSTS) -> int | None:
        """How many more runs of this cost the account pays for; None for any number, as they cost nothing."""
        return self._fits(epsilon, delta, self.charge(costs))

    def fits_again(self, item: Reservation) -> int | None:
        """How many more runs of one's cost that was charged before."""
        return self._fits(item.epsilon, item.delta, item.charge)

    def _fits(self, epsilon: Decimal, delta: Decimal, charge: Decimal | None) -> int | None:
        pairs = list(zip(self.remaining, (epsilon, delta), strict=True))
        if self.holding is not None:
            if charge is None:
                return 0
            pairs = [(decimals.subtract(self.holding, self.charged), charge)]
        return min((int(Fraction(left) / Fraction(each)) for left, each in pairs if each > 0), default=None)

    def admits(self, epsilon: Decimal, delta: Decimal, costs: Costs = NO_COSTS) -> bool:
        """The account's filter: whether one more run of this cost stays within the budget."""
        return self.fits(epsilon, delta, costs) != 0

    def with_run(self, item: Reservation, *, records: Sequence[str] = (), data: str = "") -> Account:
        """With one more reservation, of these sketched records. Raises ``ValueError`` where the budget is too small."""
        charged = decimals.add([self.charged, item.charge or Decimal(0)])
        spent_epsilon = decimals.add([self.spent_epsilon, item.epsilon])
        spent_delta = decimals.add([self.spent_delta, item.delta])
        if self.holding is None:
            within = spent_epsilon <= self.epsilon and spent_delta <= self.delta
        else:
            within = item.charge is not None and item.charge >= 0 and charged <= self.holding
        if not within:
            raise ValueError("overdrawn")
        return replace(
            self,
            spent_epsilon=spent_epsilon,
            spent_delta=spent_delta,
            charged=charged,
            runs=self.runs + 1,
            data=tuple(sorted({*self.data, data} - {""})),
            records=merge(self.records, records) if records else self.records,
        )


class History:
    """What the entries so far mean. Begun with the first entry, or with a checkpoint in its place.

    A checkpoint is an entry that states every account's sums: what an operation needs that only asks what is
    left. Read from the first entry on, each is compared with the sums of the entries before it.
    """

    def __init__(self) -> None:
        self.identity = ""
        self.latest = ""
        self.officers: dict[str, str] = {}
        self._accounts: dict[str, Account] = {}
        self._reservations: dict[str, tuple[str, Reservation]] = {}
        self._whole = False

    @classmethod
    def read(cls, entries: Iterable[tuple[Row, dict[str, Any]]]) -> History:
        """Of verified entries. Raises ``LedgerAltered`` at one that cannot follow."""
        history = cls()
        for row, facts in entries:
            history.add(row, facts)
        return history

    def add(self, row: Row, facts: dict[str, Any]) -> None:
        """One more verified entry. Raises ``LedgerAltered`` if it cannot follow."""
        try:
            if not self.identity:
                self._begin(row, facts)
            else:
                self._apply(facts)
            self.latest = max(self.latest, str(facts.get("at", "")))
        except (KeyError, TypeError, ValueError, PlanError):
            raise altered(f"entry {row.number} makes no sense after the ones before it", entry=row.number) from None

    @property
    def accounts(self) -> dict[str, Account]:
        """By name, in order of opening; with their reservations if the history is whole."""
        made: dict[str, list[Reservation]] = {name: [] for name in self._accounts}
        for name, item in self._reservations.values():
            made[name].append(item)
        return {name: replace(one, reservations=tuple(made[name])) for name, one in self._accounts.items()}

    def checkpoint(self) -> dict[str, Any]:
        """The facts of an entry that stands for all before it."""
        sums = [_sums(account) for account in self._accounts.values()]
        officers = {"officers": dict(self.officers)} if self.officers else {}
        return {"kind": "checkpoint", "id": self.identity, "accounts": sums, **officers}

    def _begin(self, row: Row, facts: dict[str, Any]) -> None:
        match facts["kind"]:
            case "ledger" if row.number == 1:
                self._whole = True
            case "checkpoint":
                self.officers = dict(facts.get("officers", {}))
                for sums in facts["accounts"]:
                    self._accounts[sums["dataset"]] = _WITH_SUMS.read(sums, path="checkpoint")
            case _:
                raise ValueError("a ledger begins with its id")
        self.identity = str(facts["id"])

    def _apply(self, facts: dict[str, Any]) -> None:
        match facts["kind"]:
            case "officers" if not self.officers:
                self.officers = dict(facts["officers"])
            case "open" if facts["dataset"] not in self._accounts:
                if self.officers:
                    check_approved(facts, ledger=self.identity, officers=self.officers)
                self._accounts[facts["dataset"]] = opened(facts)
            case "raise" if self.officers:
                check_approved(facts, ledger=self.identity, officers=self.officers)
                self._accounts[facts["dataset"]] = raised(self._accounts[facts["dataset"]], facts)
            case "reserve" if facts["entry"] not in self._reservations:
                self._reserve(facts)
            case "commit":
                self._commit(facts)
            case "confirm" if facts["ledger"] == self.identity:
                pass
            case "checkpoint" if {k: v for k, v in facts.items() if k != "at"} == self.checkpoint():
                pass
            case _:
                raise ValueError("unknown, repeated, or another sum")

    def _reserve(self, facts: dict[str, Any]) -> None:
        item = _RESERVED.read({name: value for name, value in facts.items() if name not in _CHARGED_TO}, path="entry")
        dataset = facts["dataset"]
        known = {"records": facts.get("records", ()), "data": facts.get("data", "")}
        self._accounts[dataset] = self._accounts[dataset].with_run(item, **known)
        self._reservations[item.entry] = dataset, item

    def _commit(self, facts: dict[str, Any]) -> None:
        entry = facts["entry"]
        if entry not in self._reservations and not self._whole:
            return  # reserved before the checkpoint; it was looked up when this was written
        dataset, item = self._reservations[entry]
        if item.ended is not None:
            raise ValueError("committed twice")
        self._reservations[entry] = dataset, replace(item, ended=facts["at"], receipt_sha256=facts["receipt_sha256"])


_CHARGED_TO = {"kind", "dataset", "records", "data"}
_RESERVED = record(
    Reservation,
    {name: form for name, form in forms_of(Reservation).items() if name not in {"ended", "receipt_sha256"}},
    called={"reserved": "at"},
    later={"charge": None},
)
_KEPT = {name: form for name, form in forms_of(Account).items() if name != "reservations"}
_SUMS = {"spent_epsilon", "spent_delta", "runs", "charged", "data", "records"}
_OPENED = {name: form for name, form in _KEPT.items() if name not in _SUMS}
_CALLED = {"opened": "at", "identity": "account"}
_LATER = {"order": None, "holding": None, "part": None}
_FORM = record(Account, _OPENED, called=_CALLED, later=_LATER | {"identity": ""})
_WITH_SUMS = record(Account, _KEPT, called=_CALLED, later=_LATER | {"charged": Decimal(0)})


def opened(facts: dict[str, Any]) -> Account:
    """The account that an entry opens."""
    return _FORM.read({name: value for name, value in facts.items() if name not in {"kind", "approvals"}}, path="entry")


def stated(account: Account) -> dict[str, Any]:
    """What the entry that opens it says, but for the time."""
    return {"kind": "open", **{name: value for name, value in _FORM.show(account).items() if name != "at"}}


def raised(account: Account, facts: dict[str, Any]) -> Account:
    """With a larger budget, in the same filter and order. Raises ``ValueError`` where it starts elsewhere."""
    epsilon, delta = (decimals.parse(facts[name], path=name) for name in ("epsilon", "delta"))
    began = (facts["from_epsilon"], facts["from_delta"]) == (
        decimals.show(account.epsilon),
        decimals.show(account.delta),
    )
    if not began or epsilon < account.epsilon or delta < account.delta:
        raise ValueError("a raise starts from the budget there is, and does not lower it")
    holding = decimals.parse(facts["holding"], path="holding") if "holding" in facts else None
    return replace(account, epsilon=epsilon, delta=delta, holding=holding)


def _sums(account: Account) -> dict[str, Any]:
    charged = {} if account.holding is None else {"charged": decimals.show(account.charged)}
    return {**_WITH_SUMS.show(account), **charged}
