"""The ledger account that ``init`` opens: for several runs like the first, which is said in one line."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from affidavit.accountant import decimals
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import BudgetError, BudgetExceeded, LedgerMissing, NotSupported, UsageError
from affidavit.accountant.filters.budgets import FILTERS, checked_filter
from affidavit.accountant.filters.costs import NO_COSTS, Costs
from affidavit.accountant.ledger import Account, Ledger
from affidavit.accountant.ledger.grants import check_pays
from affidavit.accountant.ledger.opening import Budget, opening
from affidavit.accountant.ledger.sketch import sketch
from affidavit.accountant.remedies import did_you_mean, setting
from affidavit.accountant.unit import RECORD
from affidavit.accountant.validate import Relation
from affidavit.generation.dataset import Record
from affidavit.runfile import RunFile

__all__ = ["RUNS", "AccountPlan", "how_to_open", "plan_account"]

RUNS = 5
"""For so many runs, if nothing else is said, and if their δ together stay below one in the number of records."""

LARGE = Decimal(10**6)
"""An ε that no account needs."""


@dataclass(frozen=True, slots=True)
class AccountPlan:
    """An account that is there (``exists``) or is to be opened; ``cost`` is a run's claim, ``costs`` by filters."""

    account: Account
    cost: tuple[Decimal, Decimal]
    costs: Costs
    exists: bool

    @property
    def runs(self) -> int:
        """How many runs of this cost the account pays for, from what is left."""
        return self.account.fits(*self.cost, self.costs) or 0

    def open(self, ledger: Ledger) -> str:
        """Open it where it is not there; a line for the operator."""
        account = self.account
        pays = f"it pays for {self.runs} run{'' if self.runs == 1 else 's'} like this one"
        by = "" if account.filter == "basic" else f" by the {account.filter} filter"
        if self.exists:
            left = _pair(*account.remaining) if account.holding is None else f"what is left of {_budget(account)}{by}"
            has = f"with (ε, δ) = {left} left" if account.holding is None else f"with {left}"
            return f"The account {account.dataset} exists already, {has}: {pays}."
        ledger.init_account(
            account.dataset,
            relation=account.relation,
            unit=account.unit,
            epsilon=account.epsilon,
            delta=account.delta,
            filter=account.filter,
            order=account.order,
        )
        return f"Opened the account {account.dataset} with (ε, δ) = {_budget(account)}{by}, for good: {pays}."


def _pair(epsilon: Decimal, delta: Decimal) -> str:
    return f"({decimals.show(epsilon)}, {decimals.show(delta)})"


def _budget(account: Account) -> str:
    return _pair(account.epsilon, account.delta)


def plan_account(
    name: str,
    *,
    relation: Relation,
    size: int,
    epsilon: float,
    delta: float,
    costs: Costs = NO_COSTS,
    filter_name: str | None = None,
    account_epsilon: str | None = None,
    account_delta: str | None = None,
    records: Sequence[Record] = (),
) -> AccountPlan:
    """What account pays for runs of (``epsilon``, ``delta``) and ``costs`` on ``records``. Writes nothing.

    ``filter_name``: how its runs add up; that of the account that is there, else basic, if left out.

    Raises ``BudgetError`` where the account that is there is for another relation, budget or filter than asked for,
    or cannot pay for one such run, or another account was charged for these records; ``UsageError`` where the budget
    asked for cannot pay; ``NotSupported`` for a filter in whose unit the run has no cost.
    """
    cost = (decimals.as_written(epsilon, path="--epsilon"), decimals.as_written(delta, path="--delta"))
    asked = (
        None if account_epsilon is None else decimals.as_written(account_epsilon, path="--account-epsilon"),
        None if account_delta is None else decimals.as_written(account_delta, path="--account-delta"),
    )
    keyring = Keyring.default()
    ledger = Ledger(keyring=keyring)
    try:
        if records and keyring.exists():
            _check_owner(ledger, name, sketch((one.text for one in records), key=keyring.secret("commitment")))
        found = ledger.account(name)
    except LedgerMissing:
        account = _new(name, relation, checked_filter(filter_name or "basic"), asked, cost, costs, _runs(size, cost[1]))
        plan = AccountPlan(account, cost, costs, exists=False)
        _refuse_small(plan)
        return plan
    _refuse_other(found, relation, filter_name=filter_name, asked=asked)
    if found.holding is not None:
        check_pays(found, *cost, costs)
    elif not found.admits(*cost):
        raise _cannot_pay(found, cost)
    return AccountPlan(found, cost, costs, exists=True)


def _check_owner(ledger: Ledger, name: str, records: Sequence[str]) -> None:
    """As ``Ledger.check_owner``; there is no run file yet that could name the account."""
    try:
        ledger.check_owner(name, records=records)
    except LedgerMissing:
        raise
    except BudgetError as error:
        raise BudgetError(error.message, hint=error.hint.replace("`data.name", "`name")) from None


def _runs(size: int, delta: Decimal) -> int:
    """As many as fit below δ = 1/size, at least one and at most ``RUNS``."""
    return RUNS if delta == 0 else max(1, min(RUNS, int(Decimal(1) / (delta * size))))


def _new(
    name: str,
    relation: Relation,
    filter_name: str,
    asked: tuple[Decimal | None, Decimal | None],
    cost: tuple[Decimal, Decimal],
    costs: Costs,
    runs: int,
) -> Account:
    """An account as asked for; for so many runs, where its ε is left open."""
    delta = cost[1] * runs if asked[1] is None else asked[1]

    def account(epsilon: Decimal) -> Account:
        budget = Budget(relation=relation, unit=RECORD, epsilon=epsilon, delta=delta, filter=filter_name)
        return opening(name, budget)

    if asked[0] is not None:
        return account(asked[0])
    if filter_name == "basic":
        return account(cost[0] * runs)
    if account(LARGE).charge(costs) is None:
        others = [f"`--filter {each}`" for each in FILTERS if each == "basic" or _has_cost(each, costs)]
        raise NotSupported(
            f"no theorem gives this run's plan a cost in the unit of a {filter_name} filter",
            hint=f"Use {' or '.join(others)}.",
        )
    low, high = Decimal(0), LARGE
    while decimals.round_up(low, digits=3) < decimals.round_up(high, digits=3):
        middle = (low + high) / 2
        low, high = (low, middle) if _pays(account, middle, cost, costs, runs) else (middle, high)
    return account(decimals.round_up(high, digits=3))


def _pays(
    account: Callable[[Decimal], Account], epsilon: Decimal, cost: tuple[Decimal, Decimal], costs: Costs, runs: int
) -> bool:
    """Whether an account of this ε holds enough in its filter's unit."""
    try:
        fits = account(epsilon).fits(*cost, costs)
    except NotSupported:  # so small that it holds nothing
        return False
    return fits is None or fits >= runs


def _has_cost(filter_name: str, costs: Costs) -> bool:
    return bool({"renyi": costs.renyi, "zcdp": costs.zcdp, "gdp": costs.gdp}.get(filter_name))


def _refuse_small(plan: AccountPlan) -> None:
    account = plan.account
    if account.holding is not None:
        check_pays(account, *plan.cost, plan.costs)
        return
    for name, have, each in (("epsilon", account.epsilon, plan.cost[0]), ("delta", account.delta, plan.cost[1])):
        if have < each:
            raise UsageError(
                f"an account with {name} = {decimals.show(have)} does not pay for one run of {decimals.show(each)}",
                hint=f"Use `--account-{name} {decimals.show(each)}` or more, or a smaller --{name}.",
            )


def _refuse_other(
    found: Account,
    relation: Relation,
    *,
    filter_name: str | None,
    asked: tuple[Decimal | None, Decimal | None],
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
    if filter_name is not None and filter_name != found.filter:
        raise BudgetError(
            f"the account {found.dataset} adds up its runs by the {found.filter} filter, for good",
            hint=f"Remove `--filter`. See the account: `affidavit ledger show {shown}`",
        )
    for name, have, want in (("epsilon", found.epsilon, asked[0]), ("delta", found.delta, asked[1])):
        if want is not None and have != want:
            raise BudgetError(
                f"the account {found.dataset} exists with {name} = {decimals.show(have)}, for good, and "
                f"{decimals.show(want)} is asked for",
                hint=f"Remove `--account-{name}`. See the account: `affidavit ledger show {shown}`",
            )


def _cannot_pay(found: Account, cost: tuple[Decimal, Decimal]) -> BudgetExceeded:
    epsilon, delta = found.remaining
    flags = []
    if epsilon < cost[0] and epsilon > 0:
        flags.append(f"`--epsilon {decimals.show(epsilon)}`")
    if delta < cost[1] and delta > 0:
        flags.append(f"`--delta {decimals.show(delta)}`")
    return BudgetExceeded(
        f"the account {found.dataset} has (ε, δ) = {_pair(epsilon, delta)} left, and a run is to cost {_pair(*cost)}",
        requested=(float(cost[0]), float(cost[1])),
        remaining=(float(epsilon), float(delta)),
        hint=f"What fits: {' and '.join(flags)}"
        if flags and epsilon > 0 and (delta > 0 or cost[1] == 0)
        else f"Nothing is left for these data: `affidavit ledger show {shlex.quote(found.dataset)}`",
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
