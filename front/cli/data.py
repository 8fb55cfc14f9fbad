"""``data list|show|make|check``: the data sets of the examples, from the originals that a user has downloaded."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from affidavit.accountant.errors import UsageError
from affidavit.cli._lazy import Group
from affidavit.cli._output import json_option, note, print_json, print_table

__all__ = ["data"]


@click.group(cls=Group, no_args_is_help=True)
def data() -> None:
    """The public data sets of the examples: what they are, and how to make them. Uses no network."""


@data.command("list")
@click.option("--markdown", is_flag=True, help="Print Markdown tables.")
@json_option
def list_(*, markdown: bool, as_json: bool) -> None:
    """Every data set, with its origin, licence, size and digest."""
    from affidavit.datasets import catalogue
    from affidavit.datasets.page import bytes_in_words, to_json, to_markdown

    if markdown and as_json:
        raise UsageError("--markdown and --json exclude each other", hint="`affidavit data list --json`")
    if as_json:
        print_json([to_json(found) for found in catalogue()])
    elif markdown:
        click.echo(to_markdown(), nl=False)
    else:
        found = catalogue()
        print_table(
            "Data sets of the examples",
            ("name", "what it is", "origin", "licence"),
            [(each.name, each.title, each.sources[0].place, each.licence) for each in found],
        )
        print_table(
            "Their files",
            ("file", "records", "size", "SHA-256"),
            [
                (f"{each.folder}/{file.name}", f"{file.records:,}", bytes_in_words(file.size), file.sha256[:16])
                for each in found
                for file in each.files
            ],
            right=(1, 2),
        )
        note("Where to get one, and what to type then: `affidavit data show agnews`")


@data.command()
@click.argument("name")
@json_option
def show(*, name: str, as_json: bool) -> None:
    """One data set: where its originals are, and the command that makes it of them."""
    from affidavit.datasets import data_set
    from affidavit.datasets.page import bytes_in_words, to_json

    wanted = data_set(name)
    if as_json:
        print_json(to_json(wanted))
        return
    lines = [wanted.title, f"Licence: {wanted.licence}", f"Made: {wanted.processing}."]
    lines += [wanted.warning] if wanted.warning else []
    for number, source in enumerate(wanted.sources):
        unpack = " and unpack" if any(original.is_folder for original in source.originals) else ""
        lines += ["", f"Or download{unpack}:" if number else f"Download{unpack}:"]
        lines += [f"  {address}" for address in dict.fromkeys(source.downloads())]
        lines += [f"  {o.name}: {bytes_in_words(o.size)}, SHA-256 {o.sha256}" for o in source.originals]
        lines += ["and type:", f"  {wanted.command(source)}"]
    lines += ["", "Files, in data/ unless -o names another folder:"]
    lines += [
        f"  {wanted.folder}/{file.name}: {file.records:,} records, {', '.join(file.fields)}" for file in wanted.files
    ]
    click.echo("\n".join(lines))


@data.command()
@click.argument("name")
@click.argument("originals", nargs=-1, type=click.Path(path_type=Path), metavar="[ORIGINAL]...")
@click.option(
    "-o", "--out", default="data", show_default=True, type=click.Path(file_okay=False, path_type=Path),
    help="The folder of all data sets.",
)  # fmt: skip
@click.option("--any-version", is_flag=True, help="Take an original whose digest is not the known one.")
@json_option
def make(*, name: str, originals: tuple[Path, ...], out: Path, any_version: bool, as_json: bool) -> None:
    """Turn downloaded originals (files, or a folder that holds them) into JSONL. Overwrites nothing."""
    from affidavit.datasets import data_set
    from affidavit.datasets import make as make_set

    wanted = data_set(name)
    written = make_set(wanted, originals, out=out, any_version=any_version)
    if wanted.warning:
        note(wanted.warning)
    if as_json:
        print_json([{"path": str(w.path), "records": w.records, "sha256": w.sha256} for w in written])
        return
    for file in written:
        there = ", there already" if file.was_there else ""
        click.echo(f"{file.path}: {file.records:,} records, SHA-256 {file.sha256[:12]}{there}")
    note(f"Licence: {wanted.licence}. {out / wanted.folder / wanted.note} says where the records are from.")


@data.command()
@click.argument("folder", default="data", type=click.Path(path_type=Path))
@json_option
def check(*, folder: Path, as_json: bool) -> int:
    """Hold a folder of data sets against the digests; exit 1 where a file differs or is missing."""
    from affidavit.datasets import check as check_folder

    found = check_folder(folder)
    if as_json:
        print_json([{"set": f.data_set, "path": str(f.path), "verdict": f.verdict, "detail": f.detail} for f in found])
    else:
        print_table("", ("set", "file", "", ""), [(f.data_set, str(f.path), f.verdict, f.detail) for f in found])
    tally = Counter(file.verdict for file in found)
    note(", ".join(f"{count} {verdict}" for verdict, count in tally.items()) + ".")
    return 0 if set(tally) == {"as made"} else 1
