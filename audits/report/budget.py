"""The ledger accounts' part of the page: what is spent, on what, and when."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from affidavit.accountant.clock import parse_instant
from affidavit.audits.report import budget_figures, words
from affidavit.audits.report.drawings import Drawing
from affidavit.audits.report.numbers import fixed_upper, lower, short, upper
from affidavit.audits.report.svg import inline_svg

if TYPE_CHECKING:
    from affidavit.accountant.ledger.accounts import Account, Reservation

__all__ = ["account_context"]

_SHOWN_CHARGES = 12


def account_context(
    account: Account, *, key: str, entries: Collection[str], certificates: Collection[str], made: datetime
) -> dict[str, Any]:
    """An account's sentence, drawings and charges.

    A charge is this page's when its ledger entry is one of ``entries``, or, for certificates
    whose receipt is not here, when its certificate is one of ``certificates``.
    """
    mine = [
        item
        for item in account.reservations
        if item.entry in entries or (item.certificate_sha256 in certificates and not entries)
    ]
    left_epsilon, left_delta = account.remaining
    hidden = max(0, len(account.reservations) - _SHOWN_CHARGES)
    return {
        "name": account.dataset,
        "sentence": f"Account {account.dataset}: {account.filter} filter, opened on "
        f"{words.instant_in_words(parse_instant(account.opened))}. "
        f"ε = {lower(left_epsilon)} of {short(account.epsilon, digits=6)} and "
        f"δ = {lower(left_delta)} of {short(account.delta, digits=6)} are left for all further runs on these data."
        + (f" The {hidden:,} oldest charges are not listed." if hidden else ""),
        "drawing": _draw_spent(account, mine, key=key),
        "timeline": _draw_timeline(account, mine, key=key, made=made) if len(account.reservations) > 1 else None,
        "charges": [
            {
                "certificate": item.certificate_sha256[:12],
                "ours": item in mine,
                "state": "reserved, never committed: spent" if item.ended is None else "committed",
                "when": words.instant_in_words(parse_instant(item.reserved)),
                "epsilon": fixed_upper(item.epsilon),
                "delta": upper(item.delta),
            }
            for item in account.reservations[-_SHOWN_CHARGES:]
        ],
    }


def _draw_spent(account: Account, mine: Sequence[Reservation], *, key: str) -> Drawing:
    """What other runs spent, what ``mine`` spent, and what is left."""
    rows = []
    for symbol, total, spent, left, own in zip(
        ("ε", "δ"),
        (account.epsilon, account.delta),
        account.spent,
        account.remaining,
        (sum((item.epsilon for item in mine), Decimal(0)), sum((item.delta for item in mine), Decimal(0))),
        strict=True,
    ):
        scale = total or Decimal(1)
        left_words = f"{lower(left)} of {short(total, digits=6)} left"
        rows.append(budget_figures.SpentRow(symbol, float((spent - own) / scale), float(own / scale), left_words))
    ours = "this run" if len(mine) == 1 else "the runs on this page"
    return Drawing(
        heading="What is left",
        svg=inline_svg(
            budget_figures.spent_budget(rows, ours=ours),
            name=f"{key}budget",
            title="Budget of the ledger account",
            description="; ".join(f"{row.label}: {row.left}" for row in rows) + ".",
        ),
        caption=f"Grey: other runs. Filled: {ours}. Empty: left.",
    )


def _draw_timeline(account: Account, mine: Sequence[Reservation], *, key: str, made: datetime) -> Drawing:
    """How the budget was spent over time."""
    epsilon, delta, charges = Decimal(0), Decimal(0), []
    for item in account.reservations:
        epsilon, delta = epsilon + item.epsilon, delta + item.delta
        charges.append(
            budget_figures.Charge(
                when=parse_instant(item.reserved),
                epsilon=float(epsilon / (account.epsilon or Decimal(1))),
                delta=float(delta / (account.delta or Decimal(1))),
                ours=item in mine,
                committed=item.ended is not None,
            )
        )
    opened = parse_instant(account.opened)
    told = f"{len(charges)} runs since {words.instant_in_words(opened)}"
    return Drawing(
        heading="How it was spent",
        svg=inline_svg(
            budget_figures.budget_timeline(charges, opened=opened, until=max(made, charges[-1].when)),
            name=f"{key}timeline",
            title="Budget spent over time",
            description=f"{told}: {short(100 * charges[-1].epsilon)} % of ε and {short(100 * charges[-1].delta)} % "
            "of δ are spent.",
        ),
        caption="Each run is charged its worst case before it begins; a run that was killed has spent it as well. "
        "The budget never grows: the lines may not pass 100 %.",
    )
