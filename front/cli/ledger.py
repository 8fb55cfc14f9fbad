"""``ledger init|show|verify|witness|upgrade|roles``: what may be spent on which data, and what was."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from affidavit.accountant import decimals, validate
from affidavit.accountant.errors import UsageError
from affidavit.accountant.keys import Keyring
from affidavit.accountant.remedies import setting
from affidavit.accountant.unit import Unit, parse_unit
from affidavit.cli._lazy import Group
from affidavit.cli._output import json_option, note, print_json, print_table

if TYPE_CHECKING:
    from affidavit.accountant.ledger import Account, Ledger

__all__ = ["ledger"]


def _ledger() -> Ledger:
    from affidavit.accountant.ledger import Ledger

    return Ledger(keyring=Keyring.default())


@click.group(cls=Group, no_args_is_help=True)
def ledger() -> None:
    """The budget of each data set: opened once, never raised, append-only."""


@ledger.command()
@click.option("--dataset", required=True, help="The account's name, as [data] name in run files.")
@click.option("--relation", required=True, help="add-remove, zero-out or substitution.")
@click.option("--unit", required=True, help="record, or KEY:MAX_RECORDS such as user_id:5.")
@click.option("--epsilon", required=True, help="Budget for all runs together; for good.")
@click.option("--delta", required=True, help="Budget for all runs together; for good.")
@click.option("--filter", "filter_name", default="basic", show_default=True, help="How runs add up.")
@json_option
def init(*, dataset: str, relation: str, unit: str, epsilon: str, delta: str, filter_name: str, as_json: bool) -> None:
    """Open an account. New versions of the data are charged to the same one."""
    account = _ledger().init_account(
        dataset,
        relation=validate.relation(relation, path="--relation"),
        unit=_unit(unit),
        epsilon=decimals.as_written(epsilon, path="--epsilon"),
        delta=decimals.as_written(delta, path="--delta"),
        filter=filter_name,
    )
    if as_json:
        print_json(_as_json(account))
    else:
        note(f"Opened the account {account.dataset}: {_left(account)} ({account.relation}, unit {account.unit}).")


@ledger.command()
@click.argument("dataset", required=False)
@json_option
def show(*, dataset: str | None, as_json: bool) -> None:
    """Every account, what was charged to it, and what is left."""
    book = _ledger()
    accounts = book.accounts() if dataset is None else (book.account(dataset),)
    if as_json:
        print_json([_as_json(account) for account in accounts])
        return
    for account in accounts:
        print_table(
            f"{account.dataset}: {_left(account)} ({account.relation}, unit {account.unit}, {account.filter} filter)",
            ("reserved", "ε", "δ", "state", "entry", "certificate"),
            [
                (
                    item.reserved,
                    decimals.show(item.epsilon),
                    decimals.show(item.delta),
                    item.state,
                    item.entry[:12],
                    item.certificate_sha256[:12],
                )
                for item in account.reservations
            ],
            right=(1, 2),
        )
    if any(item.ended is None for account in accounts for item in account.reservations):
        note(
            "A run that was reserved and never committed is running, or was killed. It stays spent: nobody can know "
            "what it showed before it ended."
        )


_WITNESS = click.Path(path_type=Path)


@ledger.command()
@click.option("--witness", type=_WITNESS, metavar="PLACE", help="Every end noted there has to be in the ledger.")
@json_option
def verify(*, witness: Path | None, as_json: bool) -> None:
    """Walk the whole chain of entries; exit 4 at the first one that was altered."""
    from affidavit.accountant.ledger.witness import Witness

    book = _ledger()
    entries = book.verify(witness=None if witness is None else Witness(witness))
    if as_json:
        print_json({"entries": entries, "url": book.url, "intact": True})
    else:
        click.echo(f"{entries} entries, unaltered: {book.url}")


@ledger.command()
@click.argument("place", type=_WITNESS)
@json_option
def witness(*, place: Path, as_json: bool) -> None:
    """Verify the ledger and note its end in PLACE: a file, or a git repository's folder."""
    from affidavit.accountant.ledger.witness import Witness

    book = _ledger()
    entries = book.witness(Witness(place))
    if as_json:
        print_json({"entries": entries, "url": book.url, "witness": str(place)})
    else:
        click.echo(f"{entries} entries, noted in {place}: {book.url}")


@ledger.command()
@json_option
def upgrade(*, as_json: bool) -> None:
    """Make the database's tables, or bring older ones up to date; no entry is changed."""
    book = _ledger()
    before, now = book.upgrade()
    if as_json:
        print_json({"before": before, "now": now, "url": book.url})
    elif before == now:
        note(f"The tables are up to date (layout {now}): {book.url}")
    else:
        note(f"The tables were brought {f'from layout {before} ' if before else ''}to layout {now}: {book.url}")


@ledger.command()
@click.option("--schema", "namespace", default="public", show_default=True, help="Where the tables are.")
def roles(*, namespace: str) -> None:
    """Print the SQL that makes least-privilege roles on a PostgreSQL server, for psql."""
    from affidavit.accountant.ledger.roles import sql

    click.echo(sql(namespace=namespace), nl=False)


def _unit(text: str) -> Unit:
    key, separator, most = text.rpartition(":")
    if not separator:
        return parse_unit(text, path="--unit")
    if not most.isdecimal():
        raise UsageError(
            f"--unit: {most!r} is not a whole number",
            hint=f"For example `--unit record` or {setting('--unit', f'{key}:5')}.",
        )
    return parse_unit({"key": key, "max_records": int(most)}, path="--unit")


def _left(account: Account) -> str:
    epsilon, delta = account.remaining
    return (
        f"(ε, δ) = ({decimals.show(epsilon)}, {decimals.show(delta)}) left "
        f"of ({decimals.show(account.epsilon)}, {decimals.show(account.delta)})"
    )


def _as_json(account: Account) -> dict[str, Any]:
    epsilon, delta = account.remaining
    return {
        "dataset": account.dataset,
        "relation": account.relation,
        "unit": account.unit.to_json(),
        "filter": account.filter,
        "epsilon": decimals.show(account.epsilon),
        "delta": decimals.show(account.delta),
        "epsilon_remaining": decimals.show(epsilon),
        "delta_remaining": decimals.show(delta),
        "reservations": [
            {
                "entry": item.entry,
                "certificate_sha256": item.certificate_sha256,
                "epsilon": decimals.show(item.epsilon),
                "delta": decimals.show(item.delta),
                "reserved": item.reserved,
                "ended": item.ended,
                "receipt_sha256": item.receipt_sha256,
                "state": item.state,
            }
            for item in account.reservations
        ],
    }
