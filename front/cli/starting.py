"""``init`` and ``demo``: where a newcomer starts."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from affidavit.accountant import validate
from affidavit.accountant.errors import UsageError
from affidavit.cli._output import note

__all__ = ["demo", "init"]


@click.command()
@click.argument("data", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False, metavar="[DATA]")
@click.option(
    "-o", "--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("run.toml"), show_default=True
)
@click.option("--relation", help="add-remove, zero-out or substitution; asked for on a terminal.")
@click.option("--name", help="The ledger account; the data file's name if left out.")
@click.option("--size", type=int, help="The number of records, declared as a public fact.")
@click.option("--labels", help="The labels, separated by commas, declared as public facts.")
@click.option("--declare-public", is_flag=True, help="Declare the data's size and labels public without being asked.")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="Budget of the run and of the account.")
@click.option("--delta", type=float, default=1e-5, show_default=True, help="Budget of the run and of the account.")
@click.option("--model", default="smollm2-135m", show_default=True)
@click.option("--text-column", default="text", show_default=True, help="Of a CSV file.")
@click.option("--label-column", default="label", show_default=True, help="Of a CSV file.")
@click.option("--id-column", help="Of a CSV file; random ids are given where there is none.")
def init(
    *,
    data: Path | None,
    out: Path,
    relation: str | None,
    name: str | None,
    size: int | None,
    labels: str | None,
    declare_public: bool,
    epsilon: float,
    delta: float,
    model: str,
    text_column: str,
    label_column: str,
    id_column: str | None,
) -> None:
    """Write a commented run file for DATA (JSON Lines or CSV), with keys and a ledger account.

    The size and the labels of private data are private until you declare them public.
    """
    from affidavit.scaffold import READABLE_TEMPERATURE, Declared, convert_csv, run_text, set_up
    from affidavit.writing import write_new

    if out.exists():
        raise UsageError(f"{out} exists already", hint="Choose another name: affidavit init -o OTHER.toml")
    chosen = validate.relation(relation or _asked_relation(), path="--relation")
    if data is not None and data.suffix.lower() == ".csv":
        columns = {"text": text_column, "label": label_column} | ({"id": id_column} if id_column else {})
        data = convert_csv(data, data.with_suffix(".jsonl"), columns=columns)
        note(f"Wrote {data}, readable by you only.")
    public_size, public_labels = _declared(data, size=size, labels=labels, declare_public=declare_public)
    declared = Declared(
        name=name or (data.stem if data is not None else "my-records"),
        path=_relative(data, out) if data is not None else "train.jsonl",
        size=public_size,
        labels=public_labels,
        relation=chosen,
        epsilon=validate.real(epsilon, path="--epsilon"),
        delta=validate.fraction(delta, path="--delta"),
        model=model,
    )
    declared = declared.with_batches().within_budget()
    write_new(out, run_text(declared))
    for line in set_up(declared):
        note(line)
    click.echo(str(out))
    if declared.temperature > READABLE_TEMPERATURE:
        note(
            f"With ε = {epsilon:g} and {declared.batch_size} records behind each text, the temperature has to be "
            f"{declared.temperature:g}: expect poor text. More records or a larger ε would help."
        )
    note(f"Next: affidavit plan {out}")


def _asked_relation() -> str | None:
    if not sys.stdin.isatty():
        return None
    options = click.Choice(validate.RELATIONS)
    return str(
        click.prompt("Which data sets are neighbours? (docs/relations.md says which to choose)", type=options, err=True)
    )


def _declared(
    data: Path | None, *, size: int | None, labels: str | None, declare_public: bool
) -> tuple[int, tuple[str, ...]]:
    """The public size and labels: from flags, or from the data if the operator says that they are public."""
    from affidavit.scaffold import look_at

    named = tuple(part.strip() for part in labels.split(",") if part.strip()) if labels else None
    if size is not None and named:
        return size, named
    if data is None:
        return size or 2400, named or ("First label", "Second label")
    found_size, found_labels = look_at(data)
    proposed = (size or found_size, named or found_labels)
    flags = f"--size {proposed[0]} --labels '{','.join(proposed[1])}'"
    note(f"The data hold {found_size} records with the labels {', '.join(found_labels)}.")
    note(
        "A run file states size and labels as public facts: anyone may know them, and the guarantee does not hide them."
    )
    if declare_public or (
        sys.stdin.isatty() and click.confirm("Do you declare them public facts?", default=False, err=True)
    ):
        return proposed
    raise UsageError(
        "size and labels were not declared public", hint=f"Declare them: --declare-public, or {flags} (or your own)."
    )


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

    with generation_progress() as progress:
        done = run_demo(out, model_name=model_name, tell=note, progress=progress)
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
