"""``ledger init|show|verify|part|witness|upgrade|roles|officers|raise|approve|apply``: what may be and was spent."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from affidavit.accountant import decimals, validate
from affidavit.accountant.attestation.keys import Keyring, read_pem
from affidavit.accountant.errors import UsageError
from affidavit.accountant.remedies import setting
from affidavit.accountant.unit import Unit, parse_unit
from affidavit.cli._lazy import Group
from affidavit.cli._output import json_option, note, print_json, print_table
from affidavit.writing import write_new, write_whole

if TYPE_CHECKING:
    from affidavit.accountant.ledger import Account, Ledger

__all__ = ["ledger"]

_FILE = click.Path(dir_okay=False, path_type=Path)
_READABLE = click.Path(exists=True, dir_okay=False, path_type=Path)


_UNITS = {"renyi": "ρ", "zcdp": "ρ", "gdp": "μ²"}


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
@click.option(
    "--filter", "filter_name", default="basic", show_default=True, help="How runs add up: basic, renyi, zcdp or gdp."
)
@click.option("--order", help="Of a renyi filter; by default the one that suits (ε, δ) best.")
@click.option("--part", metavar="I/N", help="Only for part I of N of the records, as their keyed digests divide them.")
@click.option("--request", type=_FILE, metavar="REQUEST.json", help="Write a request for the officers instead.")
@json_option
def init(
    *,
    dataset: str,
    relation: str,
    unit: str,
    epsilon: str,
    delta: str,
    filter_name: str,
    order: str | None,
    part: str | None,
    request: Path | None,
    as_json: bool,
) -> None:
    """Open an account. New versions of the data are charged to the same one."""
    budget: dict[str, Any] = {
        "relation": validate.relation(relation, path="--relation"),
        "unit": _unit(unit),
        "epsilon": decimals.as_written(epsilon, path="--epsilon"),
        "delta": decimals.as_written(delta, path="--delta"),
        "filter": filter_name,
        "order": None if order is None else decimals.as_written(order, path="--order"),
        "part": part,
    }
    if request is not None:
        _write_request(request, _ledger().request_account(dataset, **budget))
        return
    account = _ledger().init_account(dataset, **budget)
    if as_json:
        print_json(_as_json(account))
    else:
        note(f"Opened the account {account.dataset}: {_left(account)} ({_kind(account)}).")


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
            f"{account.dataset}: {_left(account)} ({_kind(account)}, {account.filter} filter){_more(account)}",
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


@ledger.command()
@click.argument("public_keys", nargs=-1, required=True, type=_READABLE, metavar="KEY.pem...")
def officers(*, public_keys: tuple[Path, ...]) -> None:
    """Name officers, for good: two of them have to sign before an account is opened or raised."""
    for keyid in _ledger().set_officers([read_pem(path) for path in public_keys]):
        click.echo(keyid)


@ledger.command("raise")
@click.argument("dataset")
@click.option("--epsilon", required=True, help="The new budget in all.")
@click.option("--delta", required=True, help="The new budget in all.")
@click.option("--request", type=_FILE, required=True, metavar="REQUEST.json", help="Where the request is written.")
def raise_(*, dataset: str, epsilon: str, delta: str, request: Path) -> None:
    """Ask the officers for a larger budget. What was promised is then the larger (ε, δ)."""
    _write_request(request, _ledger().request_raise(dataset, epsilon=epsilon, delta=delta))


@ledger.command()
@click.argument("request", type=_READABLE, metavar="REQUEST.json")
def approve(*, request: Path) -> None:
    """Sign a request with our key, after showing what it asks for."""
    from affidavit.accountant.ledger.approvals import approve as sign
    from affidavit.verification import content_of

    signed, facts = sign(content_of(request), signer=Keyring.default().signer())
    print_table("Approved", ("", ""), [(name, str(value)) for name, value in facts.items()])
    write_whole(request, signed)


@ledger.command()
@click.argument("request", type=_READABLE, metavar="REQUEST.json")
def apply(*, request: Path) -> None:
    """Open or raise the account that enough officers signed for."""
    from affidavit.verification import content_of

    account = _ledger().apply(content_of(request))
    note(f"The account {account.dataset}: {_left(account)}.")


@ledger.command()
@click.argument("dataset")
@click.argument("records", type=_READABLE, metavar="RECORDS.jsonl")
@click.option("-o", "--out", type=_FILE, required=True, metavar="PART.jsonl", help="Where they are written, 0600.")
def part(*, dataset: str, records: Path, out: Path) -> None:
    """Write those records that belong to the account's part of the data."""
    from affidavit.records import in_part

    book, ring = _ledger(), Keyring.default()
    found = book.balance(dataset).part
    if found is None:
        raise UsageError(
            f"the account {dataset} is for all records", hint=f"See it: `affidavit ledger show {shlex.quote(dataset)}`"
        )
    write_new(out, in_part(records, found, key=ring.secret("commitment")), private=True)
    click.echo(str(out))


def _write_request(path: Path, content: bytes) -> None:
    write_whole(path, content)
    note(f"Wrote {path}. Another officer signs it with `affidavit ledger approve {shlex.quote(str(path))}`.")


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


def _kind(account: Account) -> str:
    part = "" if account.part is None else f", part {account.part} of the records"
    return f"{account.relation}, unit {account.unit}{part}"


def _more(account: Account) -> str:
    """How many more runs fit that cost what the last one did."""
    if not account.reservations:
        return ""
    last = account.reservations[-1]
    more = account.fits_again(last)
    return "" if more is None else f"; {more} more run{'' if more == 1 else 's'} like the last"


def _left(account: Account) -> str:
    if account.holding is not None:
        left, unit = decimals.subtract(account.holding, account.charged), _UNITS[account.filter]
        at = "" if account.order is None else f" at order {account.order}"
        return (
            f"{unit} = {decimals.show(left)} left of {decimals.show(account.holding)}{at}, for (ε, δ) = "
            f"({decimals.show(account.epsilon)}, {decimals.show(account.delta)}) in all"
        )
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
        "account": account.identity,
        "filter": account.filter,
        "part": None if account.part is None else str(account.part),
        "order": None if account.order is None else decimals.show(account.order),
        "holding": None if account.holding is None else decimals.show(account.holding),
        "charged": None if account.holding is None else decimals.show(account.charged),
        "runs_like_the_last": account.fits_again(account.reservations[-1]) if account.reservations else None,
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
                "charge": None if item.charge is None else decimals.show(item.charge),
                "reserved": item.reserved,
                "ended": item.ended,
                "receipt_sha256": item.receipt_sha256,
                "state": item.state,
            }
            for item in account.reservations
        ],
    }
