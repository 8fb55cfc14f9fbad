"""``neighbours``, and ``audit --plan``: generators that are not ours. A claim, and nothing signed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from affidavit.accountant.errors import UsageError
from affidavit.cli._formats import format_option, show, with_json
from affidavit.cli._number import NUMBER
from affidavit.cli._output import json_option, note, print_table
from affidavit.cli._progress import step_progress

if TYPE_CHECKING:
    from affidavit.accountant.validate import Relation
    from affidavit.audits.checks import CheckReport
    from affidavit.audits.findings import Findings

__all__ = ["audit_claimed", "neighbours"]

_RELATIONS = ("add-remove", "zero-out", "substitution")
CLAIM = "A claim, not a certificate: nothing is signed for a generator that is not ours."


@click.command()
@click.argument("function", metavar="MODULE:FUNCTION")
@click.argument("data", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="DATA.jsonl")
@click.option("--relation", type=click.Choice(_RELATIONS), help="Which data sets are neighbours; else the plan's.")
@click.option("--plan", metavar="PLAN.json", help="The plan that is claimed: what is drawn is held against it.")
@click.option("--claim", type=NUMBER, metavar="EPSILON", help="The ε that is claimed for it.")
@click.option("-o", "--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Write findings.")
@format_option("table")
@json_option
@click.pass_context
def neighbours(
    ctx: click.Context,
    *,
    function: str,
    data: Path,
    relation: Relation | None,
    plan: str | None,
    claim: float | None,
    out: Path | None,
    form: str | None,
    as_json: bool,
) -> None:
    """Run a generator that is not ours: once watched, twice compared, and on neighbours.

    The function takes records (id, text, label) and gives texts; docs/foreign.md says how little it has to be. What
    it draws, from which seed, what repeats, and what one record moves besides. Exit 1 for a fault, 5 where nothing
    could be compared.
    """
    form = with_json(form, as_json=as_json, default="table")
    findings, reports = _examined(function, data, relation=relation, plan=plan, claim=claim, out=out)
    _end(ctx, findings, reports, form, out)


def audit_claimed(
    ctx: click.Context,
    *,
    audit_file: Path | None,
    plan: str,
    records: Path | None,
    generator: str | None,
    release: str | None,
    model: str | None,
    claim: float | None,
    out: Path,
    form: str,
) -> None:
    """``audit --plan``."""
    from affidavit.auditing import strict_in_ci
    from affidavit.audits.auditfile import load_audit
    from affidavit.audits.findings import sourced
    from affidavit.foreign.claims import Claim, audit_claim, claim_check, merged
    from affidavit.foreign.load import load_function
    from affidavit.generation.models import load_model
    from affidavit.planfile import read_envelope
    from affidavit.records import read_all
    from affidavit.writing import writable

    if records is None:
        raise UsageError("an audit of a claim needs the records", hint="Name them: `--records letters.jsonl`")
    if audit_file is None and generator is None:
        raise UsageError("there is nothing to audit", hint="Name an audit file, or `--generator glue.py:run`")
    claimed = Claim(read_envelope(plan), claim)
    writable(out)
    reports: Sequence[CheckReport] = (claim_check(claimed),)
    attacked = None
    if generator is not None:
        _, reports = _examined(generator, records, relation=None, plan=plan, claim=claim, out=out)
    if audit_file is not None:
        settings = strict_in_ci(load_audit(audit_file))
        with step_progress("Attacking the claim") as watch:
            attacked = audit_claim(
                settings,
                claimed,
                read_all(records),
                function=None if generator is None else load_function(generator),
                release=None if release is None else load_function(release),
                model=None if model is None else load_model(model),
                tell=watch.step,
            )
    _end(ctx, sourced(merged(reports, attacked), audit_file), reports, form, out, attacked=attacked)


def _examined(
    function: str, data: Path, *, relation: Relation | None, plan: str | None, claim: float | None, out: Path | None
) -> tuple[Findings, Sequence[CheckReport]]:
    from affidavit.foreign.claims import Claim, checks_of, merged
    from affidavit.foreign.load import load_function
    from affidavit.planfile import read_envelope
    from affidavit.records import read_all
    from affidavit.writing import writable, write_whole

    if plan is None and claim is not None:
        raise UsageError("an ε is claimed for a plan", hint="Name it: `--plan plan.json`")
    claimed = None if plan is None else Claim(read_envelope(plan), claim)
    relation = relation or (None if claimed is None else claimed.envelope.relation)
    if relation is None:
        raise UsageError("which data sets are neighbours?", hint="`--relation add-remove`, or `--plan plan.json`")
    if claimed is not None and relation != claimed.envelope.relation:
        raise UsageError(
            f"the plan is for {claimed.envelope.relation}", hint=f"`--relation {claimed.envelope.relation}`"
        )
    runs = load_function(function)
    if out is not None:
        writable(out)
    with step_progress("Running the generator") as watch:
        reports, lines = checks_of(runs, read_all(data), relation=relation, claim=claimed, tell=watch.step)
    if out is not None:
        write_whole(out / "trace.jsonl", "".join(json.dumps(line) + "\n" for line in lines), private=True)
    return merged(reports, None), reports


def _end(
    ctx: click.Context,
    findings: Findings,
    reports: Sequence[CheckReport],
    form: str,
    out: Path | None,
    *,
    attacked: Findings | None = None,
) -> None:
    from affidavit.audits.findings import write
    from affidavit.audits.formats import summary

    show(findings, form, lambda: _print(reports, attacked))
    if out is not None:
        write(findings, out / "findings.json")
        note(f"Wrote {out / 'findings.json'} (private).")
    note(CLAIM)
    summary.append(findings)
    ctx.exit(findings.exit_code)


def _print(reports: Sequence[CheckReport], attacked: Findings | None) -> None:
    from affidavit.audits.checks import worst_first
    from affidavit.cli.audits import print_findings

    checks = [(report.title, check) for report in reports for check in worst_first(report.checks)]
    shown = [(title, check) for title, check in checks if check.status != "not checked"]
    print_table(
        "What running it showed",
        ("by", "check", "at", "status", "found"),
        [(title, check.name, check.path, check.status, check.detail) for title, check in shown],
    )
    missing = [f"{title}: {check.name}" for title, check in checks if check.status == "not checked"]
    if missing:
        click.echo(f"not checked: {', '.join(missing)}")
    for name in dict.fromkeys(check.slug for _, check in checks if check.status == "fault" and check.number):
        click.echo(f"{name}: see docs/faults.md")
    if attacked is not None:
        print_findings(attacked)
