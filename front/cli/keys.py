"""``keys init|show|trust|rotate|revoke``: who signs certificates here, and whom we trust."""

from __future__ import annotations

import json
from pathlib import Path

import click

from affidavit.accountant import decimals, strictjson, validate
from affidavit.accountant.attestation.keylimits import KeyLimits
from affidavit.accountant.attestation.keys import KeyInfo, Keyring, read_pem
from affidavit.accountant.clock import show_instant
from affidavit.accountant.errors import UsageError
from affidavit.cli._lazy import Group
from affidavit.cli._output import json_option, note, print_json, print_table

__all__ = ["keys"]


@click.group(cls=Group, no_args_is_help=True)
def keys() -> None:
    """Signing keys, and the keys of others that are trusted here."""


@keys.command()
@click.option("--keep-existing", is_flag=True, help="Make only what is missing.")
def init(*, keep_existing: bool) -> None:
    """Make the signing key and the secrets in AFFIDAVIT_HOME; never overwrites one."""
    ring = Keyring.default()
    click.echo(ring.init(keep_existing=keep_existing))
    note(f"Made keys in {ring.home}. Keep this folder: whoever reads it can sign in your name.")


@keys.command()
@click.option("--pem", is_flag=True, help="Print our own public key, to hand to others.")
@json_option
def show(*, pem: bool, as_json: bool) -> None:
    """The keys trusted here, our own first."""
    ring = Keyring.default()
    known = ring.show()
    if pem:
        own = [info for info in known if info.own]
        if not own:
            raise UsageError(f"there is no signing key in {ring.home}", hint="Run: `affidavit keys init`")
        click.echo(own[0].pem.decode("ascii"), nl=False)
    elif as_json:
        print_json(
            [
                {
                    "keyid": info.keyid,
                    "own": info.own,
                    "pem": info.pem.decode("ascii"),
                    "limits": json.loads(info.limits.to_json()),
                }
                for info in known
            ]
        )
    elif known:
        print_table("", ("keyid", "whose", "for"), [(info.keyid, _whose(info), _limits(info)) for info in known])
    else:
        note(f"There are no keys in {ring.home}. Run: `affidavit keys init`")


@keys.command()
@click.argument("public_key", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="KEY.pem")
@click.option("--account", "accounts", multiple=True, help="Only for this ledger account; may be given several times.")
@click.option("--relation", help="Only for this relation.")
@click.option("--max-epsilon", help="Only for claims up to this ε.")
@click.option("--max-delta", help="Only for claims up to this δ; without it, a bound on ε bounds little.")
@click.option("--expires", help="Only until then, such as 2027-01-31T00:00:00Z.")
def trust(
    *,
    public_key: Path,
    accounts: tuple[str, ...],
    relation: str | None,
    max_epsilon: str | None,
    max_delta: str | None,
    expires: str | None,
) -> None:
    """Accept certificates signed by this public key from now on; trusted already, its limits are replaced."""
    limits = KeyLimits(
        accounts,
        None if relation is None else validate.relation(relation, path="--relation"),
        None if max_epsilon is None else decimals.as_written(max_epsilon, path="--max-epsilon"),
        None if max_delta is None else decimals.as_written(max_delta, path="--max-delta"),
        None if expires is None else strictjson.instant(expires, path="--expires"),
    )
    click.echo(Keyring.default().trust(read_pem(public_key), limits=limits))


@keys.command()
@click.option("--revoke", "compromised", is_flag=True, help="Take nothing that the old key signed any more.")
def rotate(*, compromised: bool) -> None:
    """Make a new signing key; what the old one signed stays accepted here, unless it is revoked."""
    click.echo(Keyring.default().rotate(revoke=compromised))
    note("Others accept the new key once they trust it: send them what `affidavit keys show --pem` prints.")


@keys.command()
@click.argument("keyid")
def revoke(*, keyid: str) -> None:
    """Take nothing that this key signed any more, whenever it was signed; for good."""
    click.echo(Keyring.default().revoke(keyid))


def _whose(info: KeyInfo) -> str:
    return "ours" if info.own else "trusted" if info.limits.revoked is None else "revoked"


def _limits(info: KeyInfo) -> str:
    """What it may sign, in a few words."""
    limits = info.limits
    if limits.revoked is not None:
        return f"nothing, since {show_instant(limits.revoked)}"
    parts = [
        *([", ".join(limits.accounts)] if limits.accounts else []),
        *([limits.relation] if limits.relation else []),
        *([f"ε <= {decimals.show(limits.epsilon)}"] if limits.epsilon is not None else []),
        *([f"δ <= {decimals.show(limits.delta)}"] if limits.delta is not None else []),
        *([f"until {show_instant(limits.expires)}"] if limits.expires is not None else []),
    ]
    return "; ".join(parts) or "anything"
