"""``--format`` and ``-o``: one result in the form that the next program reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from affidavit.accountant.errors import UsageError

if TYPE_CHECKING:
    from affidavit.audits.findings import Findings

__all__ = ["format_option", "publish", "show", "with_json"]


def format_option(*first: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``--format``, with what is particular to the command first; that is the default."""
    choices = (*first, "json", "junit", "sarif", "sarif-all", "markdown")
    return click.option(
        "--format", "form", type=click.Choice(choices), default=None, help=f"How it is written; default {first[0]}."
    )


def with_json(form: str | None, *, as_json: bool, default: str) -> str:
    """The format asked for, ``--json`` being short for ``--format json``. Raises ``UsageError``."""
    if as_json and form not in (None, "json"):
        raise UsageError(f"--json and --format {form} ask for different things", hint="Remove `--json` or `--format`.")
    return "json" if as_json else form or default


def show(findings: Findings, form: str, table: Callable[[], None]) -> None:
    """The findings on stdout, as ``form``."""
    if form == "table":
        table()
    else:
        click.echo(_rendered(findings, form), nl=False)


def publish(findings: Findings, form: str, path: Path | None) -> None:
    """The findings in a file of the owner's, or on stdout."""
    from affidavit.writing import write_whole

    if path is None:
        click.echo(_rendered(findings, form), nl=False)
    else:
        write_whole(path, _rendered(findings, form), private=True)


def _rendered(findings: Findings, form: str) -> str:
    from affidavit.audits import formats

    return formats.render(findings, cast("formats.Format", form))
