"""What a command prints: results on stdout, notes and progress on stderr.

JSON keeps infinities as ``Infinity`` (as Python's ``json`` reads and writes them).
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from affidavit.accountant import decimals

__all__ = ["json_option", "lower_digits", "note", "print_json", "print_table", "upper_digits"]

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def print_json(result: Mapping[str, Any] | Sequence[Any]) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(result, indent=2, ensure_ascii=False))


def note(message: str) -> None:
    """A line for the person at the terminal, on stderr."""
    click.echo(message, err=True)


def upper_digits(value: float, *, digits: int = 6) -> str:
    """A decimal string of ``digits`` significant digits, never below ``value``."""
    return decimals.show(decimals.round_up(value, digits=digits)) if math.isfinite(value) else str(value)


def lower_digits(value: float, *, digits: int = 6) -> str:
    """A decimal string of ``digits`` significant digits, never above ``value``."""
    return decimals.show(decimals.round_down(value, digits=digits)) if math.isfinite(value) else str(value)


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()
) -> None:
    """A table on stdout, as wide as its content when stdout is not a terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 120, highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(columns))
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    with console.capture() as drawn:
        console.print(table)
    click.echo(
        "\n".join([title, *(line.rstrip() for line in drawn.get().rstrip().lstrip("\n").splitlines()), ""]).lstrip("\n")
    )
