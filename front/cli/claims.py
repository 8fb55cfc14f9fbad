"""``claims``: what papers claimed, and what their settings come to."""

from __future__ import annotations

import click

from affidavit.accountant.errors import UsageError
from affidavit.cli._output import json_option, note, print_json, print_table

__all__ = ["claims"]


@click.command()
@click.option("--markdown", is_flag=True, help="Print a Markdown table.")
@click.option("--noise", is_flag=True, help="Also the noise that each claim would need (slower).")
@json_option
def claims(*, markdown: bool, noise: bool, as_json: bool) -> None:
    """Each published row: the claimed ε, ours from both sides, and a verdict; at the end how many of each."""
    from affidavit import claims as published

    if markdown and as_json:
        raise UsageError("--markdown and --json exclude each other", hint="Remove `--json` or `--markdown`.")
    note("Computing every row anew; this takes a while.")
    assessed = published.claims(noise=noise)
    if as_json:
        print_json(published.to_json(assessed))
        note(published.tally(assessed))
    elif markdown:
        click.echo(published.to_markdown(assessed), nl=False)
    else:
        rows = published.to_rows(assessed)
        columns = list(rows[0])
        print_table("Published claims", columns, [[row[column] for column in columns] for row in rows])
        click.echo(published.tally(assessed))
