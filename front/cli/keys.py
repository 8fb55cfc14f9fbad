"""``keys init|show|trust``: who signs certificates here, and whom we trust."""

from __future__ import annotations

from pathlib import Path

import click

from affidavit.accountant.errors import UsageError
from affidavit.accountant.keys import Keyring, read_pem
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
        print_json([{"keyid": info.keyid, "own": info.own, "pem": info.pem.decode("ascii")} for info in known])
    elif known:
        print_table("", ("keyid", "whose"), [(info.keyid, "ours" if info.own else "trusted") for info in known])
    else:
        note(f"There are no keys in {ring.home}. Run: `affidavit keys init`")


@keys.command()
@click.argument("public_key", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="KEY.pem")
def trust(*, public_key: Path) -> None:
    """Accept certificates signed by this public key from now on."""
    click.echo(Keyring.default().trust(read_pem(public_key)))
