"""``export``: a run's certificate and receipt in the forms that registries and hubs take."""

from __future__ import annotations

from pathlib import Path

import click

__all__ = ["export"]

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("certificate", type=_FILE, metavar="CERT.json")
@click.option("--receipt", type=_FILE, required=True, metavar="RECEIPT.json", help="The run's receipt.")
@click.option("--text", type=_FILE, metavar="synthetic.jsonl", help="The released text, held against the receipt.")
@click.option("--to", "form", type=click.Choice(("opendp", "croissant", "card", "nist", "slsa", "scai")), required=True)
@click.option("--name", help="The release's name.")
@click.option("--curator", help="Who publishes it.")
@click.option("--use", help="What it is meant for.")
@click.option("--region", help="What region the records are from.")
@click.option("--licence", help="Under which it is published.")
@click.option("--url", help="Where.")
def export(*, certificate: Path, receipt: Path, text: Path | None, form: str, **stated: str | None) -> None:
    """Print a registry entry, metadata, a dataset card, a checklist or a signed attestation. Nothing private is read.

    Signatures are checked first. What the files do not say, and you do not, is "not stated".
    """
    from affidavit.exports import Stated
    from affidavit.exports import export as written

    known = Stated(**{name: value for name, value in stated.items() if value is not None})
    click.echo(written(certificate, receipt=receipt, text=text, form=form, stated=known), nl=False)
