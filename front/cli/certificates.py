"""``plan``, ``certify`` and ``verify``: before a run, and for whoever receives its certificate."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from affidavit.accountant import decimals
from affidavit.accountant.clock import show_instant
from affidavit.accountant.plan import to_dict
from affidavit.cli._bounds import epsilon_json, print_methods, print_risk, sentence
from affidavit.cli._output import json_option, lower_digits, note, print_json, print_table, upper_digits

if TYPE_CHECKING:
    from affidavit.certification import PlannedRun
    from affidavit.runfile import RunFile
    from affidavit.verification import Verification

__all__ = ["certify", "plan", "run_argument", "verify"]

run_argument = click.argument("run_file", type=click.Path(dir_okay=False, path_type=Path), metavar="RUN.toml")


@click.command()
@run_argument
@json_option
def plan(*, run_file: Path, as_json: bool) -> None:
    """What a run will do and cost, by every method, and how long it takes.

    Nothing but the run file has to exist yet: no data, model or keys. No number depends on the data. Where their
    file is there, how many records each label has is said on standard error: it is private, for you only.
    """
    from affidavit.accountant.tradeoff import privacy_curve
    from affidavit.audits.report.plan_words import plan_in_words
    from affidavit.certification import plan_run
    from affidavit.estimate import minutes_to_run
    from affidavit.runfile import load_run

    planned = plan_run(load_run(run_file))
    minutes = minutes_to_run(planned.run)
    _note_labels(planned.run)
    if as_json:
        print_json(
            {
                **epsilon_json(planned.cost),
                "plan": to_dict(planned.plan),
                "budget": {"epsilon": planned.run.budget.epsilon, "delta": planned.run.budget.delta},
                "certifiable": planned.certifiable,
                "fits": planned.fits,
                "minutes": minutes,
            }
        )
        return
    click.echo(f"The plan: {plan_in_words(planned.plan)}\n")
    print_methods(planned.cost)
    print_risk(privacy_curve(planned.plan, relation=planned.run.relation, delta=planned.run.budget.delta))
    click.echo(sentence(planned.cost))
    click.echo(_covered(planned))
    click.echo("How long it takes is not known for this model." if minutes is None else f"About {minutes:.2g} minutes.")


def _note_labels(run: RunFile) -> None:
    """The records of each label, or what `certify` would say to the data; nothing where they are not there yet."""
    from affidavit.accountant.errors import DataError
    from affidavit.generation.dataset import load_records
    from affidavit.labelling import refuse_unlabelled, tell_labels

    if not run.data_path.is_file():
        return
    try:
        records = load_records(run.data_path, size=run.data.size, fields=run.fields)
        tell_labels(run, records, note)
        refuse_unlabelled(run, records)
    except DataError as error:
        note(f"`affidavit certify` would refuse: {error}")


def _covered(planned: PlannedRun) -> str:
    """Whether the budget does, by the number that a certificate would state."""
    budget = planned.run.budget.epsilon
    if planned.fits:
        return f"The budget of ε = {budget:g} covers it."
    refused = f"The budget of ε = {budget:g} does not cover it"
    if not planned.certifiable and planned.cost.epsilon_upper <= budget:
        refused = "The verifier has no formula for it"
    return refused + ": `affidavit certify` would refuse."


@click.command()
@run_argument
@click.option("-o", "--out", type=click.Path(dir_okay=False, path_type=Path), required=True, metavar="CERT.json")
@json_option
def certify(*, run_file: Path, out: Path, as_json: bool) -> None:
    """Sign a certificate for a run: exit 4 if it costs more than [budget] or than its account has left.

    The number is computed twice, by two engines that share no formula, and holds by both. Valid for 90 days.
    """
    from affidavit.accountant.attestation.keys import Keyring
    from affidavit.accountant.ledger import Ledger
    from affidavit.certification import certify as issue
    from affidavit.runfile import load_run
    from affidavit.writing import refuse_to_replace, write_whole

    refuse_to_replace(out)
    certified = issue(load_run(run_file), ledger=Ledger(keyring=Keyring.default()), tell=note)
    write_whole(out, certified.envelope)
    found = certified.certificate
    if as_json:
        print_json(
            {
                "certificate": str(out),
                "sha256": found.sha256,
                "keyid": found.keyids[0],
                "epsilon": decimals.show(found.claim.epsilon),
                "delta": decimals.show(found.claim.delta),
                "relation": found.relation,
                "method": certified.cost.theorems,
                "arithmetic": found.arithmetic,
                "not_after": show_instant(found.not_after),
                "risk": {name: decimals.show(value) for name, value in found.risk.items()},
                "account": found.account or None,
                "runs": certified.runs,
            }
        )
        return
    click.echo(str(out))
    note(
        f"Certified: (ε, δ) = ({decimals.show(found.claim.epsilon)}, {decimals.show(found.claim.delta)}), "
        f"{found.relation}, until {show_instant(found.not_after)}."
    )
    note(
        f"By {certified.cost.theorems}, in {found.arithmetic}; the plan's ε is at least "
        f"{lower_digits(certified.cost.epsilon_lower)}."
    )
    if certified.account is not None and certified.runs is not None:
        note(
            f"The account {certified.account.dataset} ({certified.account.filter} filter) pays for "
            f"{certified.runs} run{'' if certified.runs == 1 else 's'} like this one."
        )
    for assumption in found.assumptions:
        note(f"Assumes: {assumption}.")


@click.command()
@click.argument("certificate", type=click.Path(dir_okay=False, path_type=Path), metavar="CERT.json")
@click.option("--recompute", is_flag=True, help="Derive the number again, by code that did not issue it.")
@click.option(
    "--receipt",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="receipt.json",
    help="Hold a run's receipt against the certificate.",
)
@click.option(
    "--text",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="synthetic.jsonl",
    help="Hold the released text against the receipt.",
)
@click.option("--ledger", "with_ledger", is_flag=True, help="Find what paid in the ledger, for whoever has its key.")
@click.option(
    "--trust",
    "also_trusted",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="KEY.pem",
    help="Accept this signer, this time.",
)
@json_option
@click.pass_context
def verify(
    ctx: click.Context,
    *,
    certificate: Path,
    recompute: bool,
    receipt: Path | None,
    text: Path | None,
    with_ledger: bool,
    also_trusted: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Check who signed a certificate and, with --recompute, whether its number is right.

    A signature proves who said it; only recomputing proves the number. With --receipt and --text: whether this
    text came from a run under it; with --ledger: whether the ledger still has the entry that paid. Exit 3 if
    certificate, receipt or text do not fit, 4 if the ledger was rewritten, 1 if recomputing refutes the number or
    the noise was seeded, 5 if it cannot decide.
    """
    from affidavit.accountant.attestation.keys import Keyring, read_pem
    from affidavit.verification import verify as check

    trusted = Keyring.default().trusted(*map(read_pem, also_trusted))
    book = None
    if with_ledger:
        from affidavit.accountant.ledger import Ledger

        book = Ledger(keyring=Keyring.default())
    result = check(certificate, receipt=receipt, text=text, ledger=book, recompute=recompute, trusted=trusted)
    if as_json:
        print_json(_verification_json(result))
    else:
        _print_verification(result, certificate)
    ctx.exit({"does not hold": 1, "no guarantee": 1, "undecided": 5}.get(result.answer, 0))


def _verification_json(result: Verification) -> dict[str, Any]:
    found = result.certificate
    return {
        "answer": result.answer,
        "guarantee": result.guarantee,
        "signature": "valid",
        "keyids": list(found.keyids),
        "sha256": found.sha256,
        "number": "recomputed" if result.checks else "not recomputed",
        "relation": found.relation,
        "unit": found.unit.to_json(),
        "claims": [
            {"epsilon": decimals.show(claim.epsilon), "delta": decimals.show(claim.delta)} for claim in found.claims
        ],
        "checks": [
            {
                "answer": check.answer,
                "epsilon_lower": check.recomputed.epsilon_lower,
                "epsilon_upper": check.recomputed.epsilon_upper,
                "how": check.recomputed.method,
            }
            for check in result.checks
        ],
        "receipt": "not given" if result.receipt is None else "signed, and this certificate's",
        "ledger": "not asked" if result.reservation is None else result.reservation.state,
        "text": "not given" if result.text_lines is None else "the receipt's, to the byte",
        "not_before": show_instant(found.not_before),
        "not_after": show_instant(found.not_after),
        "assumptions": list(found.assumptions),
    }


def _print_verification(result: Verification, path: Path) -> None:
    found = result.certificate
    rows = [
        ("claim", f"(ε, δ) = ({decimals.show(found.claim.epsilon)}, {decimals.show(found.claim.delta)})"),
        *([] if result.guarantee else [("NO GUARANTEE", "the noise can be reproduced: the claim protects nobody")]),
        ("relation, unit", f"{found.relation}, {found.unit}"),
        ("signature", f"valid: signed by {found.keyids[0][:16]}"),
        ("valid", f"{show_instant(found.not_before)} to {show_instant(found.not_after)}"),
    ]
    for check in result.checks:
        low, high = lower_digits(check.recomputed.epsilon_lower), upper_digits(check.recomputed.epsilon_upper)
        rows.append(("number", f"recomputed: {check.answer}; ε is between {low} and {high}"))
        rows.append(("how", check.recomputed.method))
    if not result.checks:
        rows.append(("number", "not recomputed"))
    if result.receipt is not None:
        rows.append(("receipt", f"signed by {result.receipt.keyid[:16]}, of a run under this certificate"))
        rows.append(("guarantee", result.receipt.guarantee))
    if result.text_lines is not None:
        rows.append(("text", f"{result.text_lines} lines, to the byte what the receipt names"))
    if result.reservation is not None:
        rows.append(("ledger", f"has the entry that paid ({result.reservation.reserved}; {result.reservation.state})"))
    rows += [("assumes", assumption) for assumption in found.assumptions]
    print_table(f"Certificate {found.sha256[:16]}", ("", ""), rows)
    if not result.checks:
        note(f"To check the number as well: `affidavit verify {shlex.quote(str(path))} --recompute`")
