"""The command line: a thin skin over the Python API, one file a group of commands.

Results go to stdout, everything else to stderr. Exit codes: 0 holds; 1 refuted, or a policy
failed; 2 usage or a bad file; 3 the certificate is invalid, expired or for another run;
4 the budget refuses; 5 inconclusive (underpowered); 70 a fault of ours; 130 interrupted; 141 the
reader of the output went away.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import click
from click.exceptions import NoArgsIsHelpError

from affidavit.accountant.errors import AffidavitError
from affidavit.cli._lazy import LazyGroup
from affidavit.cli._remedies import interrupted, unusable

__all__ = ["cli", "main"]

INTERNAL = 70
INTERRUPTED = 130
PIPE_CLOSED = 141  # as a shell reports SIGPIPE: never 0 or 1, which would be an answer

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
    "close": "affidavit.cli.runs:close",
    "audit": "affidavit.cli.audits:audit",
    "neighbours": "affidavit.cli.foreign:neighbours",
    "check-trace": "affidavit.cli.checks:check_trace",
    "report": "affidavit.cli.audits:report",
    "export": "affidavit.cli.export:export",
    "icl": "affidavit.cli.icl:icl",
    "experiment": "affidavit.cli.experiments:experiment",
    "data": "affidavit.cli.data:data",
    "demo": "affidavit.cli.starting:demo",
    "claims": "affidavit.cli.claims:claims",
}


class _PipeClosed(Exception):
    """Standard output or error was closed by who reads it. (click makes exit code 1 of an ``EPIPE``.)"""


class _Commands(LazyGroup):
    """The whole command line."""

    def make_context(self, *arguments: Any, **keywords: Any) -> click.Context:
        try:
            return super().make_context(*arguments, **keywords)
        except BrokenPipeError:  # of --help and --version, which print while the call is read
            raise _PipeClosed from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise _PipeClosed from None


@click.group(
    cls=_Commands,
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
    given = None if arguments is None else list(arguments)
    try:
        code = _outcome(given)
        sys.stdout.flush()
    except (_PipeClosed, BrokenPipeError):
        _close_pipes()
        return PIPE_CLOSED
    return code


def _outcome(arguments: list[str] | None) -> int:
    try:
        outcome = cli.main(args=arguments, prog_name="affidavit", standalone_mode=False)
    except AffidavitError as error:
        _say(f"Error: {error.message}", error.hint)
        _trace_if_asked()
        return error.exit_code
    except click.ClickException as error:
        _refuse(error)
        return 2
    except (click.Abort, KeyboardInterrupt):
        _say(*interrupted(arguments))
        return INTERRUPTED
    except (_PipeClosed, BrokenPipeError):
        raise
    except OSError as error:
        if error.filename is None or error.strerror is None:
            _internal(error)
            return INTERNAL
        _say(*unusable(error, arguments))
        _trace_if_asked()
        return 2
    except (Exception, SystemExit) as error:  # the last resort: private text must not reach a traceback, nor may
        _internal(error)  # code that is not ours say what came out
        return INTERNAL
    return outcome if isinstance(outcome, int) else 0


def _refuse(error: click.ClickException) -> None:
    """What click says of an option, and where all of them are listed; the help itself where nothing was asked."""
    if not isinstance(error, click.UsageError) or isinstance(error, NoArgsIsHelpError):
        error.show(file=sys.stderr)
        return
    if isinstance(error, click.NoSuchOption):
        near = [name for name in error.possibilities or () if name != "--help"]
        error = click.NoSuchOption(error.option_name, possibilities=near, ctx=error.ctx)
    message, command = error.format_message(), "affidavit" if error.ctx is None else error.ctx.command_path
    _say(f"Error: {message}", "" if "`" in message else f"All options: `{command} --help`")


def _close_pipes() -> None:
    """Point the closed ends elsewhere, so that the interpreter's last flush says nothing."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _say(message: str, hint: str) -> None:
    for line in (message, hint):
        if line:  # a name may hold what no encoding can write: half of a surrogate pair, a byte of a file's name
            click.echo(line.encode("utf-8", "backslashreplace").decode(), err=True)


def _trace_if_asked() -> None:
    if os.environ.get("AFFIDAVIT_DEBUG") == "1":
        traceback.print_exc(file=sys.stderr)


def _internal(error: BaseException) -> None:
    """Name the fault and its place; the message itself may hold private text and is not shown."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown place"
    _say(
        f"Internal error: {type(error).__name__} at {place}. This is a fault of affidavit, not of your input.",
        "Run again with AFFIDAVIT_DEBUG=1 to see the traceback (it may show private text).",
    )
    _trace_if_asked()
