"""The command line: a thin skin over the Python API, one file a group of commands.

Results go to stdout, everything else to stderr. Exit codes: 0 holds; 1 refuted, or a policy
failed; 2 usage or a bad file; 3 the certificate is invalid, expired or for another run;
4 the budget refuses; 5 inconclusive (underpowered); 70 a fault of ours; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from affidavit.accountant.errors import AffidavitError
from affidavit.cli._lazy import LazyGroup

__all__ = ["cli", "main"]

INTERNAL = 70
INTERRUPTED = 130

COMMANDS = {
    "sigma": "affidavit.cli.bounds:sigma",
    "epsilon": "affidavit.cli.bounds:epsilon",
    "delta": "affidavit.cli.bounds:delta",
    "calibrate": "affidavit.cli.solving:calibrate",
    "init": "affidavit.cli.starting:init",
    "keys": "affidavit.cli.keys:keys",
    "ledger": "affidavit.cli.ledger:ledger",
    "plan": "affidavit.cli.certificates:plan",
    "certify": "affidavit.cli.certificates:certify",
    "verify": "affidavit.cli.certificates:verify",
    "generate": "affidavit.cli.runs:generate",
    "audit": "affidavit.cli.audits:audit",
    "check-trace": "affidavit.cli.checks:check_trace",
    "report": "affidavit.cli.audits:report",
    "icl": "affidavit.cli.icl:icl",
    "experiment": "affidavit.cli.experiments:experiment",
    "data": "affidavit.cli.data:data",
    "demo": "affidavit.cli.starting:demo",
    "claims": "affidavit.cli.claims:claims",
}


@click.group(
    cls=LazyGroup,
    commands_at=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 holds, 1 refuted or policy failed, 2 usage, 3 certificate, 4 budget, 5 inconclusive.",
)
@click.version_option(package_name="affidavit")
def cli() -> None:
    """Certify what a run on private records costs, run it, and try to prove the claim false."""
    from affidavit import mechanisms

    mechanisms.load()  # before any plan is read


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with the code of the outcome."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; every error becomes a message on stderr and an exit code."""
    try:
        outcome = cli.main(
            args=None if arguments is None else list(arguments), prog_name="affidavit", standalone_mode=False
        )
    except AffidavitError as error:
        _say(f"Error: {error.message}", error.hint)
        _trace_if_asked()
        return error.exit_code
    except click.ClickException as error:
        error.show(file=sys.stderr)
        return 2
    except (click.Abort, KeyboardInterrupt):
        _say("Interrupted. A reservation already made in the ledger stays spent.", "")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # the last resort: private text must not reach a traceback
        _internal(error)
        return INTERNAL
    return outcome if isinstance(outcome, int) else 0


def _say(message: str, hint: str) -> None:
    click.echo(message, err=True)
    if hint:
        click.echo(hint, err=True)


def _trace_if_asked() -> None:
    if os.environ.get("AFFIDAVIT_DEBUG") == "1":
        traceback.print_exc(file=sys.stderr)


def _internal(error: Exception) -> None:
    """Name the fault and its place; the message itself may hold private text and is not shown."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown place"
    _say(
        f"Internal error: {type(error).__name__} at {place}. This is a fault of affidavit, not of your input.",
        "Run again with AFFIDAVIT_DEBUG=1 to see the traceback (it may show private text).",
    )
    _trace_if_asked()
