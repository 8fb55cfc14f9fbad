"""``generate`` and ``close``: text under a certificate, and the end of a run that stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from affidavit.cli._output import json_option, note, print_json
from affidavit.cli._progress import generation_progress
from affidavit.cli.certificates import run_argument

if TYPE_CHECKING:
    from affidavit.synthesis import Synthesis

__all__ = ["close", "generate"]


@click.command()
@run_argument
@click.option(
    "--certificate", type=click.Path(path_type=Path), metavar="CERT.json", help="What `affidavit certify` wrote."
)
@click.option("-o", "--out", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR")
@click.option("--resume", is_flag=True, help="Go on with the run that stopped in DIR, at no further cost.")
@json_option
def generate(*, run_file: Path, certificate: Path | None, out: Path, resume: bool, as_json: bool) -> None:
    """Generate what a certificate covers: synthetic.jsonl and receipt.json (public), trace.jsonl (private).

    The ledger is charged before the first model call; a run that is stopped stays charged, until `--resume` goes on
    with it or `affidavit close DIR` ends it.
    """
    from affidavit.runfile import load_run
    from affidavit.synthesis import generate as synthesize

    run = load_run(run_file)
    with generation_progress() as (progress, tell):
        done = synthesize(run, certificate=certificate, out=out, progress=progress, tell=tell, resume=resume)
    _show(done, as_json=as_json)


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path), metavar="DIR")
@json_option
def close(*, folder: Path, as_json: bool) -> None:
    """End a run that stopped in DIR: release the texts that it had finished, and commit its charge.

    Nothing is drawn; neither model nor data are read. `generate --resume` goes on with it instead.
    """
    from affidavit.closing import close as end

    _show(end(folder), as_json=as_json)


def _show(done: Synthesis, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "synthetic": str(done.written.synthetic),
                "receipt": str(done.written.receipt),
                "trace": str(done.written.trace),
                "ledger_entry": done.entry,
                "guarantee": done.guarantee,
                "texts": len(done.generated.samples),
            }
        )
        return
    click.echo(str(done.written.synthetic))
    note(f"{len(done.generated.samples)} texts; the receipt is public, {done.written.trace.name} is private.")
    if not done.guarantee:
        note("NO GUARANTEE: the noise was seeded.")
