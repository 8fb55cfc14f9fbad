"""What an entry says that opens or raises an account: names, amounts, filters, checked before it is written."""

from __future__ import annotations

import secrets
from dataclasses import replace
from decimal import Decimal
from typing import Any, NotRequired, TypedDict

from affidavit.accountant import decimals, remedies, validate
from affidavit.accountant.errors import PlanError
from affidavit.accountant.filters.budgets import checked_filter, holding
from affidavit.accountant.ledger.accounts import Account
from affidavit.accountant.ledger.parts import Part
from affidavit.accountant.unit import Unit
from affidavit.accountant.validate import Relation

__all__ = ["Budget", "account_name", "amount", "opening", "raising"]


class Budget(TypedDict):
    """What an account holds, of what: fixed when it is opened.

    ``filter``: basic, if left out (``filters``). ``order``: of a Rényi filter (``filters.budgets``). ``part``: such as
    ``3/8``, of a partition of the records by a commitment key (``parts``).
    """

    relation: Relation
    unit: Unit
    epsilon: str | float | Decimal
    delta: str | float | Decimal
    filter: NotRequired[str]
    order: NotRequired[str | Decimal | None]
    part: NotRequired[str | None]


def opening(dataset: str, budget: Budget, *, key: str = "") -> Account:
    """An account that is to be opened; ``key``: the id of what parts are made with.

    Raises as ``Ledger.init_account``.
    """
    relation, unit, name = budget["relation"], budget["unit"], budget.get("filter", "basic")
    written, order = budget.get("part"), budget.get("order")
    part = None if written is None else Part.read(written, key=key, relation=relation, unit=unit)
    account = Account(
        dataset=account_name(dataset),
        relation=validate.relation(relation),
        unit=unit,
        epsilon=amount(budget["epsilon"], path="epsilon"),
        delta=amount(budget["delta"], path="delta", maximum=1),
        filter=checked_filter(name),
        opened="",
        identity=secrets.token_hex(16),
        part=part,
    )
    found_order = None if order is None else decimals.as_written(order, path="--order")
    held = holding(name, epsilon=account.epsilon, delta=account.delta, order=found_order) or (None, None)
    return replace(account, order=held[0], holding=held[1])


def raising(account: Account, *, epsilon: str | float | Decimal, delta: str | float | Decimal) -> dict[str, Any]:
    """The facts of an entry that raises ``account`` to (ε, δ) in all. Raises ``PlanError`` for less than it has."""
    larger = amount(epsilon, path="--epsilon"), amount(delta, path="--delta", maximum=1)
    if larger[0] < account.epsilon or larger[1] < account.delta:
        allowed = f"at least ({decimals.show(account.epsilon)}, {decimals.show(account.delta)})"
        hint = f"For example `--epsilon {decimals.show(account.epsilon)} --delta {decimals.show(account.delta)}`."
        raise PlanError("--epsilon", "a budget is not lowered", allowed=allowed, hint=hint)
    held = holding(account.filter, epsilon=larger[0], delta=larger[1], order=account.order)
    return {
        "kind": "raise",
        "dataset": account.dataset,
        "epsilon": decimals.show(larger[0]),
        "delta": decimals.show(larger[1]),
        "from_epsilon": decimals.show(account.epsilon),
        "from_delta": decimals.show(account.delta),
        **({} if held is None else {"holding": decimals.show(held[1])}),
    }


def account_name(dataset: str, *, path: str = "dataset") -> str:
    """An account's name as it is. Raises ``PlanError`` for what cannot be one."""
    fits = isinstance(dataset, str) and 0 < len(dataset) <= 200 and dataset.isprintable() and dataset == dataset.strip()
    if not fits:
        hint = f"For example {remedies.setting(path, 'my-records')}."
        raise PlanError(path, "not a name", allowed="1 to 200 printable characters", hint=hint)
    return dataset


def amount(value: str | float | Decimal, *, path: str, maximum: int | None = None) -> Decimal:
    """A number as it is written, from 0 to ``maximum``. Raises ``PlanError``."""
    return decimals.within(decimals.as_written(value, path=path), path=path, most=maximum)
