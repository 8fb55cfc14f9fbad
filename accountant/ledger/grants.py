"""Whether an account pays for a run: its kind, its owner, its filter; and what a refusal says would do."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NotRequired, TypedDict

from affidavit.accountant import decimals, remedies
from affidavit.accountant.errors import BudgetError, BudgetExceeded, LedgerMissing
from affidavit.accountant.filters.costs import NO_COSTS, Costs
from affidavit.accountant.ledger.accounts import Account
from affidavit.accountant.ledger.sketch import SAME_DATA, share
from affidavit.accountant.unit import Unit
from affidavit.accountant.validate import Relation

__all__ = ["INIT_HINT", "Charge", "account_of", "check_owner", "check_pays", "grant"]

INIT_HINT = (
    "Open it, for example: `affidavit ledger init --dataset my-records --relation add-remove --unit record "
    "--epsilon 10 --delta 1e-5`"
)


def account_of(accounts: Mapping[str, Account], dataset: str) -> Account:
    if dataset not in accounts:
        known = ", ".join(sorted(accounts)) or "none"
        raise LedgerMissing(
            f"the ledger has no account {dataset!r} (it has: {known})",
            hint="Which there are: `affidavit ledger show`" if accounts else INIT_HINT,
            accounts=tuple(accounts),
        )
    return accounts[dataset]


class Charge(TypedDict):
    """What a run asks of its account.

    ``costs``: what it costs in the units of filters. ``account``: the id that its certificate names, if any.
    ``data``: the keyed fingerprint of its file, ``records`` the ``sketch`` of the records that it will see.
    """

    relation: Relation
    unit: Unit
    epsilon: str | float | Decimal
    delta: str | float | Decimal
    costs: NotRequired[Costs]
    account: NotRequired[str]
    data: NotRequired[str]
    records: NotRequired[Sequence[str]]


def grant(
    accounts: Mapping[str, Account], dataset: str, charge: Charge, epsilon: Decimal, delta: Decimal, key: str
) -> Account:
    """The account, if it pays for one more such run on these records. Raises ``LedgerMissing``, ``BudgetError``.

    ``key``: the id of the key that the records' digests are under.
    """
    account = account_of(accounts, dataset)
    named, records = charge.get("account"), charge.get("records", ())
    _check_kind(account, charge["relation"], charge["unit"])
    if named and account.identity != named:
        raise BudgetError(
            f"the certificate is for the account {named[:12]}, and {dataset} is {account.identity[:12]} here",
            hint="Certify for this ledger's account: `affidavit certify RUN.toml -o CERT.json`",
        )
    _check_part(account, records, key)
    check_owner(accounts, dataset, records, charge.get("data", ""))
    check_pays(account, epsilon, delta, charge.get("costs", NO_COSTS))
    return account


def check_pays(account: Account, epsilon: Decimal, delta: Decimal, costs: Costs) -> None:
    """Whether its filter admits one more run of this cost. Raises ``BudgetError``, ``BudgetExceeded``."""
    if account.holding is not None and account.charge(costs) is None:
        raise BudgetError(
            f"the account {account.dataset} adds up runs by a {account.filter} filter, and no theorem gives this "
            "run's plan a cost in its unit",
            hint="Which mechanisms have one: docs/theory/filters.md. See the account: "
            f"`affidavit ledger show {shlex.quote(account.dataset)}`",
        )
    if not account.admits(epsilon, delta, costs):
        charge = account.charge(costs)
        raise _exceeded(account, epsilon, delta) if charge is None else _overdrawn(account, charge, epsilon, delta)


def _check_kind(account: Account, relation: Relation, unit: Unit) -> None:
    for what, held, asked in (("relation", account.relation, relation), ("unit", account.unit, unit)):
        if held != asked:
            raise BudgetError(
                f"the account {account.dataset} is for the {what} {held}, this run is certified for {asked}",
                hint=f"State `{what} = {_spelled(held)}` and certify again; costs of two {what}s do not add up.",
            )


def _check_part(account: Account, records: Sequence[str], key: str) -> None:
    """An account of a part pays for records of that part only: what it promises rests on it."""
    if account.part is None:
        return
    if not records:
        problem = "the run does not show which records it sees"
    elif key != account.part.key:
        problem = "this machine has another commitment.key than the one its parts were made with"
    elif not account.part.holds(records):
        problem = "some of these records belong to another part"
    else:
        return
    raise BudgetError(
        f"the account {account.dataset} is for part {account.part} of its data, and {problem}",
        hint="The records of the part: "
        f"`affidavit ledger part {shlex.quote(account.dataset)} RECORDS.jsonl -o PART.jsonl`",
    )


def check_owner(accounts: Mapping[str, Account], dataset: str, records: Sequence[str], data: str) -> None:
    """A new name is no new budget: the account that was charged for these records has to pay again."""
    for other in accounts.values():
        if other.dataset == dataset:
            continue
        if data and data in other.data:
            found = "this very file was"
        elif (part := share(records, other.records)) >= SAME_DATA:
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
