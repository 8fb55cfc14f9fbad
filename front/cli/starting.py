"""``init`` and ``demo``: where a newcomer starts."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from affidavit.accountant import validate
from affidavit.accountant.errors import DataError, TableUnclear, UsageError
from affidavit.cli._again import again, ways_on
from affidavit.cli._number import NUMBER
from affidavit.cli._output import note
from affidavit.generation.dataset import Fields

if TYPE_CHECKING:
    from affidavit.tables.canonical import RecordsFile
    from affidavit.tables.columns import Chosen, Wanted
    from affidavit.tables.curation import Curated

__all__ = ["demo", "init"]

_file = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("data", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False, metavar="[DATA]")
@click.option("-o", "--out", type=_file, default=Path("run.toml"), show_default=True, help="The run file to write.")
@click.option("--relation", help="add-remove, zero-out or substitution; never assumed, asked for on a terminal.")
@click.option("--text-column", metavar="NAME|N", help="The column or field of the text: a name, or a number from 1.")
@click.option("--label-column", metavar="NAME|N", help="The same for the label.")
@click.option("--id-column", metavar="NAME|N", help="The same for the id; records without one get a random one.")
@click.option("--header/--no-header", default=None, help="Whether row one names the columns, where that is not clear.")
@click.option("--one-label", metavar="LABEL", help="The label of every record, for data without labels; a public fact.")
@click.option("--encoding", metavar="NAME", help="Where it is neither UTF-8 nor marked, for example cp1252.")
@click.option("--delimiter", metavar="C", help="What separates the cells, where it is not found: ';', tab, '|'.")
@click.option("--member", metavar="NAME|N", help="Of a JSON object: the member that holds the records.")
@click.option("--drop-incomplete", is_flag=True, help="Leave out records that are broken, or have no text or label.")
@click.option("--records", type=_file, metavar="FILE", help="Where converted records go, instead of beside DATA.")
@click.option("--records-only", is_flag=True, help="Only make records of DATA; no run file, keys or account.")
@click.option("--size", type=click.IntRange(1), help="The number of records, declared as a public fact.")
@click.option(
    "--label", "labels", multiple=True, metavar="LABEL", help="A label, declared as a public fact; repeatable."
)
@click.option("--labels-file", type=_file, metavar="FILE", help="Labels, one a line, declared as public facts.")
@click.option("--declare-public", is_flag=True, help="Declare the data's size and labels public without being asked.")
@click.option("--name", help="The ledger account; the data file's name if left out.")
@click.option("--epsilon", type=NUMBER, default=1.0, show_default=True, help="Budget of a run.")
@click.option("--delta", type=NUMBER, default=1e-5, show_default=True, help="Budget of a run.")
@click.option("--account-epsilon", metavar="E", help="Budget of the account, for good; several runs' if left out.")
@click.option("--account-delta", metavar="D", help="Budget of the account, for good; several runs' if left out.")
@click.option(
    "--filter", "filter_name", metavar="NAME", help="How its runs add up: basic (if left out), renyi, zcdp or gdp."
)
@click.option("--model", default="smollm2-135m", show_default=True)
@click.option("--generator", "kind", metavar="KIND", default="prism", show_default=True, help="What writes the texts.")
@click.option("--public", type=_file, metavar="FILE", help="Public records, for generators that use them.")
@click.option("--query", "queries", multiple=True, metavar="TEXT", help="A public question to answer; repeatable.")
@click.pass_context
def init(
    ctx: click.Context,
    *,
    data: Path | None,
    out: Path,
    relation: str | None,
    text_column: str | None,
    label_column: str | None,
    id_column: str | None,
    header: bool | None,
    one_label: str | None,
    encoding: str | None,
    delimiter: str | None,
    member: str | None,
    drop_incomplete: bool,
    records: Path | None,
    records_only: bool,
    size: int | None,
    labels: tuple[str, ...],
    labels_file: Path | None,
    declare_public: bool,
    name: str | None,
    epsilon: float,
    delta: float,
    account_epsilon: str | None,
    account_delta: str | None,
    filter_name: str | None,
    model: str,
    kind: str,
    public: Path | None,
    queries: tuple[str, ...],
) -> None:
    """Write a commented run file for DATA (CSV, TSV, JSON Lines, JSON or Parquet), with keys and a ledger account.

    The size and the labels of private data are private until you declare them public. A call that is
    refused leaves nothing behind.
    """
    from affidavit.accounts import plan_account
    from affidavit.cli._declaring import ask_relation, declare, labels_of
    from affidavit.cli._starting import fitted, said_of_noise, starter
    from affidavit.scaffold import Declared, set_up
    from affidavit.starters import answers
    from affidavit.tables.columns import Wanted

    if not records_only and out.exists():
        raise UsageError(f"{out} exists already", hint=f"Choose another name: `{again(ctx, ['-o', str(_free(out))])}`")
    if records_only and data is None:
        raise UsageError(
            "--records-only needs a file to read", hint="For example: `affidavit init letters.csv --records-only`"
        )
    chosen = None if records_only else validate.relation(relation or ask_relation(ctx), path="--relation")
    source = starter(ctx, kind, queries=queries, public=public is not None)
    stated = tuple(dict.fromkeys((*labels, *labels_of(labels_file), *((one_label,) if one_label else ()))))
    try:
        wanted = Wanted(text_column, label_column, id_column, header, one_label)
        read = [
            _read(file, wanted, encoding=encoding, delimiter=delimiter, member=member, drop_incomplete=drop_incomplete)
            for file in (data, public)
            if file is not None
        ]
        files = _files(read, target=records if data is not None else None)
        found = files[0] if data is not None else None
        if chosen is None:
            _records_only(found)
            return
        facts = declare(
            ctx, found, size=size, stated=stated, declare_public=declare_public, labelled=not answers(source)
        )
    except TableUnclear as error:
        raise DataError(error.message, hint=ways_on(ctx, error)) from None
    declared = Declared(
        name=_account(name, data),
        path=_relative(found.path, out) if found is not None else "train.jsonl",
        size=facts.size,
        labels=facts.labels,
        relation=chosen,
        epsilon=validate.real(epsilon, path="--epsilon"),
        delta=validate.fraction(delta, path="--delta"),
        model=model,
        kind=kind,
        queries=queries,
        public=None if public is None else _relative(files[-1].path, out),
        fields=files[0].fields if files else Fields(),
    )
    declared = fitted(ctx, declared)
    account = plan_account(
        declared.name,
        relation=chosen,
        size=declared.size,
        epsilon=declared.epsilon,
        delta=declared.delta,
        costs=declared.costs(),
        filter_name=filter_name,
        account_epsilon=account_epsilon,
        account_delta=account_delta,
        records=found.records if found is not None else (),
    )
    for line in set_up(declared, out, records=files, account=account):
        note(line)
    click.echo(str(out))
    for line in said_of_noise(declared):
        note(line)
    note(f"Next: affidavit plan {shlex.quote(str(out))}")


def _read(
    data: Path,
    wanted: Wanted,
    *,
    encoding: str | None,
    delimiter: str | None,
    member: str | None,
    drop_incomplete: bool,
) -> tuple[Chosen, Curated]:
    """The records of a file. Says what was found; writes nothing."""
    from affidavit.tables.columns import choose
    from affidavit.tables.curation import curate
    from affidavit.tables.reading import read_table

    table = read_table(data, encoding=encoding, delimiter=delimiter, member=member)
    chosen = choose(table, wanted)
    curated = curate(chosen, drop_incomplete=drop_incomplete)
    for line in curated.said:
        note(line)
    return chosen, curated


def _files(read: Sequence[tuple[Chosen, Curated]], *, target: Path | None) -> list[RecordsFile]:
    """Where a run will read the private and the public records, both by the same fields."""
    from affidavit.tables.canonical import beside, records_file

    targets = [target, *[None] * len(read)][: len(read)]
    found = [records_file(*one, target=place) for one, place in zip(read, targets, strict=True)]
    if len({file.fields for file in found}) > 1:
        found = [records_file(*one, target=place or beside(one[0])) for one, place in zip(read, targets, strict=True)]
    return found


def _records_only(found: RecordsFile | None) -> None:
    if found is not None:
        note(
            f"Wrote {found.path}, readable by you only." if found.write() else f"Nothing to write: {found.path} is it."
        )
        click.echo(str(found.path))


def _account(name: str | None, data: Path | None) -> str:
    """The account's name: what was given, else the data file's. Raises ``PlanError`` for what cannot be one."""
    from affidavit.accountant.ledger import account_name
    from affidavit.tables.canonical import stem

    return account_name(name or (stem(data).strip() if data is not None else "my-records"), path="--name")


def _free(out: Path) -> Path:
    """The first free name like ``out``."""
    number = 2
    while (other := out.with_name(f"{out.stem}-{number}{out.suffix}")).exists():
        number += 1
    return other


def _relative(data: Path, out: Path) -> str:
    """``data`` as the run file will name it: from its own folder where possible."""
    folder = out.resolve().parent
    target = data.resolve()
    return target.relative_to(folder).as_posix() if target.is_relative_to(folder) else str(target)


@click.command()
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default="demo-run", show_default=True)
@click.option("--model", "model_name", default="smollm2-135m", hidden=True)
@click.pass_context
def demo(ctx: click.Context, *, out: Path, model_name: str) -> None:
    """Certify, generate, attack and report on invented e-mails, offline, in a few minutes.

    Everything stays in one folder, keys and ledger too; your own are not touched.
    """
    from affidavit.accountant import decimals
    from affidavit.cli._progress import generation_progress
    from affidavit.cli.audits import print_findings
    from affidavit.demo import run_demo

    with generation_progress() as (progress, tell):
        done = run_demo(out, model_name=model_name, tell=tell, progress=progress)
    for sample in done.generated.samples:
        click.echo(f"  {sample.label}: {' '.join(sample.text.split())}")
    click.echo("")
    print_findings(done.findings)
    claim = done.certificate.claim
    click.echo(
        f"Certified: (ε, δ) = ({decimals.show(decimals.round_up(claim.epsilon, digits=4))}, "
        f"{decimals.show(claim.delta)}), {done.certificate.relation}; "
        + ("derived again by other code: it holds." if done.recomputed else "not confirmed by other code.")
    )
    click.echo(f"Took {done.seconds:.0f} s. The report: {done.report}")
    ctx.exit(done.findings.exit_code)
