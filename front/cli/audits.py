"""``audit`` and ``report``: try to prove a certificate false, and show what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from affidavit.accountant.errors import UsageError
from affidavit.cli._formats import format_option, publish, show, with_json
from affidavit.cli._number import NUMBER
from affidavit.cli._output import json_option, note, print_table
from affidavit.cli._progress import step_progress

if TYPE_CHECKING:
    from affidavit.audits.finding import Finding
    from affidavit.audits.findings import Findings

__all__ = ["audit", "print_findings", "report"]


@click.command()
@click.argument("audit_file", required=False, type=click.Path(dir_okay=False, path_type=Path), metavar="AUDIT.toml")
@click.option("--certificate", type=click.Path(path_type=Path), metavar="CERT.json", help="What is to be refuted.")
@click.option(
    "--run",
    "run_file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="RUN.toml",
    help="The run file that was certified; run.toml beside AUDIT.toml if left out.",
)
@click.option(
    "--receipt",
    type=click.Path(exists=True, path_type=Path),
    help="Check its signature, that it is this certificate's, and that text to be searched is its own.",
)
@click.option("--plan", metavar="PLAN.json", help="Instead: the plan that is claimed for a generator not ours.")
@click.option("--records", type=click.Path(path_type=Path), metavar="DATA.jsonl", help="With --plan: its records.")
@click.option("--generator", metavar="MODULE:FUNCTION", help="With --plan: runs it (docs/foreign.md).")
@click.option("--release", metavar="MODULE:FUNCTION", help="With --plan: its mechanism, for one-step.")
@click.option("--model", metavar="NAME", help="With --plan: the model that membership attacks ask.")
@click.option("--claim", type=NUMBER, metavar="EPSILON", help="With --plan: the ε claimed.")
@click.option("-o", "--out", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR")
@format_option("table")
@json_option
@click.pass_context
def audit(
    ctx: click.Context,
    /,
    *,
    audit_file: Path | None,
    certificate: Path | None,
    run_file: Path | None,
    receipt: Path | None,
    plan: str | None,
    out: Path,
    form: str | None,
    as_json: bool,
    **claimed: Any,
) -> None:
    """Attack what was certified and write findings.json (private).

    With --plan: what is claimed for a generator that is not ours, without a certificate; nothing is signed.

    Exit 1 if the certificate is refuted or the audit's policy fails, 5 if the audit could not
    have shown a violation, 0 if it could have and did not. Where CI is set, alpha is 0.001 unless
    AUDIT.toml states one; on GitHub the findings are appended to the job's summary.
    """
    from affidavit.accountant.attestation import certificate as certificates
    from affidavit.auditing import audit as run_audit
    from affidavit.auditing import strict_in_ci
    from affidavit.audits.auditfile import load_audit
    from affidavit.audits.findings import sourced, write
    from affidavit.audits.formats import summary
    from affidavit.runfile import load_run
    from affidavit.verification import verify
    from affidavit.writing import writable

    form = with_json(form, as_json=as_json, default="table")
    if plan is not None:
        from affidavit.cli.foreign import audit_claimed

        ours = {"--certificate": certificate, "--run": run_file, "--receipt": receipt}
        if given := [name for name, value in ours.items() if value is not None]:
            raise UsageError("a claim has no certificate, run file or receipt", hint=f"Remove `{given[0]}`.")
        audit_claimed(ctx, audit_file=audit_file, plan=plan, out=out, form=form, **claimed)
        return
    if any(value is not None for value in claimed.values()):
        names = ", ".join(f"--{name}" for name, value in claimed.items() if value is not None)
        raise UsageError(f"{names} is for a claim", hint="Name its plan: `--plan plan.json`")
    if audit_file is None:
        raise UsageError(
            "no audit file is named", hint="Such as `affidavit audit audit.toml --certificate CERT.json -o DIR`"
        )
    settings = strict_in_ci(load_audit(audit_file))
    run = load_run(run_file or audit_file.parent / "run.toml")
    if receipt is not None:
        searched = settings.released_path if "released-text" in settings.attacks else None
        verify(certificates.read(certificate), receipt=receipt, text=searched)
    writable(out)
    with step_progress("Checking, and loading the model") as watch:
        findings = sourced(run_audit(settings, run, certificate=certificate, progress=watch.step), audit_file)
    show(findings, form, lambda: print_findings(findings))
    write(findings, out / "findings.json")
    note(f"Wrote {out / 'findings.json'} (private).")
    summary.append(findings)
    ctx.exit(findings.exit_code)


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@click.option("--certificate", type=click.Path(path_type=Path), metavar="CERT.json", help="If it is not in DIR.")
@click.option("--title", default="", help="The report's title.")
@click.option("--recompute", is_flag=True, help="Derive the certified number again, by other code.")
@click.option("--public", is_flag=True, help="Of certificates alone, to be shared: certificate.html.")
@format_option("html")
@click.option("-o", "--out", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Not for html.")
def report(
    *,
    folder: Path,
    certificate: Path | None,
    title: str,
    recompute: bool,
    public: bool,
    form: str | None,
    out: Path | None,
) -> None:
    """One self-contained HTML page from a run's folder: report.html (private).

    With --public: certificate.html, without anything that follows from the records.
    With another format: what the audits in DIR found, on stdout or in FILE.
    """
    from affidavit.auditing import findings_in
    from affidavit.auditing import report as write_report

    if form not in (None, "html"):
        if title or recompute or public:
            raise UsageError(
                "--title, --recompute and --public are for the HTML page",
                hint="Remove `--format`, or: `--format html`",
            )
        publish(findings_in(folder, certificate=certificate), form, out)
        return
    if out is not None:
        raise UsageError("the HTML page is always in DIR", hint="Remove `-o`.")
    page = write_report(folder, certificate=certificate, title=title, recompute=recompute, public=public)
    click.echo(str(page))


def print_findings(findings: Findings) -> None:
    """One line an attack, then every outcome with its reason."""
    print_table(
        "What the attacks found",
        ("attack", "on", "result", "ε at least", "could show", "verdict"),
        [_row(item) for item in findings.items],
        right=(3, 4),
    )
    for outcome, reason in findings.outcomes():
        click.echo(f"{outcome}: {reason}")


def _row(item: Finding) -> tuple[str, ...]:
    from affidavit.audits.finding import Tested, is_control
    from affidavit.audits.sentences import sentence

    tested = item if isinstance(item, Tested) else None
    return (
        item.attack,
        item.target + (" (control)" if is_control(item) else ""),
        sentence(item),
        "" if tested is None or tested.epsilon_lower is None else f"{tested.epsilon_lower:.3g}",
        f"{tested.ceiling:.3g}" if tested else "",
        item.badge.lower() if not item.judged or not item.is_test else item.verdict,
    )
