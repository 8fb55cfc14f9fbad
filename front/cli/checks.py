"""``check-trace``: whether a run was made as its plan says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from affidavit.cli._formats import format_option, show, with_json
from affidavit.cli._number import NUMBER
from affidavit.cli._output import json_option, note, print_table

if TYPE_CHECKING:
    from affidavit.audits.checks import CheckReport

__all__ = ["check_trace"]


@click.command("check-trace")
@click.argument("trace", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="TRACE.jsonl")
@click.option("--certificate", type=click.Path(path_type=Path), metavar="CERT.json", help="Whose plan it must follow.")
@click.option("--plan", metavar="PLAN.json", help="Instead: a plan file, for a generator without a certificate.")
@click.option("--alpha", type=NUMBER, default=None, help="Chance of any false fault in the report; default 0.001.")
@click.option(
    "-o", "--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Write findings.json."
)
@format_option("table")
@json_option
@click.pass_context
def check_trace(
    ctx: click.Context,
    *,
    trace: Path,
    certificate: Path | None,
    plan: str | None,
    alpha: float | None,
    out: Path | None,
    form: str | None,
    as_json: bool,
) -> None:
    """Hold what a generator says that it drew against its plan (the format: docs/trace.md).

    Exit 1 for a fault, 5 where the trace is too short to show one, 0 if what it records is as planned.
    """
    from affidavit.audits.findings import sourced, write
    from affidavit.audits.formats import summary
    from affidavit.checking import check_trace as check

    form = with_json(form, as_json=as_json, default="table")
    report = check(trace, certificate=certificate, plan=plan, alpha=alpha)
    findings = sourced(report.findings(), certificate or (None if plan is None else Path(plan)))
    if out is not None:
        write(findings, out / "findings.json")
        note(f"Wrote {out / 'findings.json'} (private).")
    show(findings, form, lambda: _print(report))
    summary.append(findings)
    ctx.exit(findings.exit_code)


def _print(report: CheckReport) -> None:
    from affidavit.audits.checks import worst_first

    print_table(
        f"What the trace says, at alpha {report.alpha:g}",
        ("check", "at", "status", "found"),
        [(check.name, check.path, check.status, check.detail) for check in worst_first(report.checks)],
    )
    for name in dict.fromkeys(check.slug for check in report.faults if check.number is not None):
        click.echo(f"{name}: see docs/faults.md")
