"""The ledger account that ``init`` opens: for several runs like the first, which is said in one line."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from affidavit.accountant import decimals
from affidavit.accountant.errors import BudgetError, BudgetExceeded, LedgerMissing, UsageError
from affidavit.accountant.keys import Keyring
from affidavit.accountant.ledger import Account, Ledger
from affidavit.accountant.ledger.sketch import sketch
from affidavit.accountant.remedies import did_you_mean, setting
from affidavit.accountant.unit import RECORD
from affidavit.accountant.validate import Relation
from affidavit.generation.dataset import Record
from affidavit.runfile import RunFile

__all__ = ["RUNS", "AccountPlan", "how_to_open", "plan_account"]

RUNS = 5
"""For so many runs, if nothing else is said, and if their δ together stay below one in the number of records."""


@dataclass(frozen=True, slots=True)
class AccountPlan:
    """An account that is there (``found``), or is to be opened with (ε, δ); ``cost`` is that of a run."""

    name: str
    relation: Relation
    epsilon: Decimal
    delta: Decimal
    cost: tuple[Decimal, Decimal]
    found: Account | None = None

    @property
    def runs(self) -> int:
        """How many runs of this cost the account pays for, from what is left."""
        if self.found is not None:
            return self.found.fits(*self.cost) or 0
        left = (self.epsilon, self.delta)
        fits = [int(have / each) for have, each in zip(left, self.cost, strict=True) if each > 0]
        return max(0, min(fits, default=0))

    def open(self, ledger: Ledger) -> str:
        """Open it where it is not there; a line for the operator."""
        pays = f"it pays for {self.runs} run{'' if self.runs == 1 else 's'} like this one"
        if self.found is not None:
            epsilon, delta = self.found.remaining
            return (
                f"The account {self.name} exists already, with (ε, δ) = ({decimals.show(epsilon)}, "
                f"{decimals.show(delta)}) left: {pays}."
            )
        ledger.init_account(self.name, relation=self.relation, unit=RECORD, epsilon=self.epsilon, delta=self.delta)
        return (
            f"Opened the account {self.name} with (ε, δ) = ({decimals.show(self.epsilon)}, "
            f"{decimals.show(self.delta)}), for good: {pays}."
        )


def plan_account(
    name: str,
    *,
    relation: Relation,
    size: int,
    epsilon: float,
    delta: float,
    account_epsilon: str | None = None,
    account_delta: str | None = None,
    records: Sequence[Record] = (),
) -> AccountPlan:
    """What account pays for runs of (``epsilon``, ``delta``) on ``records``. Writes nothing.

    Raises ``BudgetError`` where the account that is there is for another relation or budget than asked for, or
    cannot pay for one such run, or another account was charged for these records; ``UsageError`` where the budget
    asked for cannot pay.
    """
    cost = (decimals.as_written(epsilon, path="--epsilon"), decimals.as_written(delta, path="--delta"))
    runs = _runs(size, cost[1])
    asked = (
        decimals.as_written(account_epsilon, path="--account-epsilon")
        if account_epsilon is not None
        else cost[0] * runs,
        decimals.as_written(account_delta, path="--account-delta") if account_delta is not None else cost[1] * runs,
    )
    plan = AccountPlan(name, relation, *asked, cost)
    keyring = Keyring.default()
    ledger = Ledger(keyring=keyring)
    try:
        if records and keyring.exists():
            known = sketch(((one.label, one.text) for one in records), key=keyring.secret("commitment"))
            ledger.check_owner(name, records=known)
        found = ledger.account(name)
    except LedgerMissing:
        _refuse_small(plan)
        return plan
    _refuse_other(found, relation, account_epsilon=account_epsilon, account_delta=account_delta, asked=asked)
    existing = AccountPlan(name, relation, found.epsilon, found.delta, cost, found)
    if not found.admits(*cost):
        raise _cannot_pay(existing)
    return existing


def _runs(size: int, delta: Decimal) -> int:
    """As many as fit below δ = 1/size, at least one and at most ``RUNS``."""
    return RUNS if delta == 0 else max(1, min(RUNS, int(Decimal(1) / (delta * size))))


def _refuse_small(plan: AccountPlan) -> None:
    for name, have, each in (("epsilon", plan.epsilon, plan.cost[0]), ("delta", plan.delta, plan.cost[1])):
        if have < each:
            raise UsageError(
                f"an account with {name} = {decimals.show(have)} does not pay for one run of {decimals.show(each)}",
                hint=f"Use `--account-{name} {decimals.show(each)}` or more, or a smaller --{name}.",
            )


def _refuse_other(
    found: Account,
    relation: Relation,
    *,
    account_epsilon: str | None,
    account_delta: str | None,
    asked: tuple[Decimal, Decimal],
) -> None:
    shown = shlex.quote(found.dataset)
    if found.relation != relation:
        raise BudgetError(
            f"the account {found.dataset} is for {found.relation}, not {relation}; costs of the two do not add up",
            hint=f"Use `--relation {found.relation}`, or another account, with --name, for other data.",
        )
    if found.unit != RECORD:
        raise BudgetError(
            f"the account {found.dataset} is for the unit {found.unit}",
            hint=f"Open another: {setting('--name', f'{found.dataset}-2')}. See it: `affidavit ledger show {shown}`",
        )
    for name, given, have, want in (
        ("epsilon", account_epsilon, found.epsilon, asked[0]),
        ("delta", account_delta, found.delta, asked[1]),
    ):
        if given is not None and have != want:
            raise BudgetError(
                f"the account {found.dataset} exists with {name} = {decimals.show(have)}, for good, and "
                f"{decimals.show(want)} is asked for",
                hint=f"Remove `--account-{name}`. See the account: `affidavit ledger show {shown}`",
            )


def _cannot_pay(plan: AccountPlan) -> BudgetExceeded:
    epsilon, delta = plan.found.remaining if plan.found is not None else (plan.epsilon, plan.delta)
    flags = []
    if epsilon < plan.cost[0] and epsilon > 0:
        flags.append(f"`--epsilon {decimals.show(epsilon)}`")
    if delta < plan.cost[1] and delta > 0:
        flags.append(f"`--delta {decimals.show(delta)}`")
    return BudgetExceeded(
        f"the account {plan.name} has (ε, δ) = ({decimals.show(epsilon)}, {decimals.show(delta)}) left, and a run is "
        f"to cost ({decimals.show(plan.cost[0])}, {decimals.show(plan.cost[1])})",
        requested=(float(plan.cost[0]), float(plan.cost[1])),
        remaining=(float(epsilon), float(delta)),
        hint=f"What fits: {' and '.join(flags)}"
        if flags and epsilon > 0 and (delta > 0 or plan.cost[1] == 0)
        else f"Nothing is left for these data: `affidavit ledger show {shlex.quote(plan.name)}`",
    )


def how_to_open(run: RunFile, ledger: Ledger, accounts: Sequence[str], records: Sequence[str]) -> str:
    """The command for a run's account that is not among ``accounts``; first, the one of them that may be meant.

    Raises ``BudgetError`` where another account was charged for the same records: no command opens a second one.
    """
    if accounts:
        ledger.check_owner(run.data.name, records=records)
    unit = f"{run.unit.key}:{run.unit.max_records}" if run.unit.key else "record"
    near = did_you_mean(run.data.name, accounts, path="data.name")
    return (f"{near} For other data: " if near else "Run: ") + (
        f"`affidavit ledger init --dataset {shlex.quote(run.data.name)} --relation {run.relation} "
        f"--unit {shlex.quote(unit)} --epsilon {run.budget.epsilon!r} --delta {run.budget.delta!r}`"
    )
