"""What a command prints: results on stdout, notes and progress on stderr.

JSON keeps infinities as ``Infinity`` (as Python's ``json`` reads and writes them).
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import click

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
    return _rounded(value, digits=digits, rounding=ROUND_CEILING)


def lower_digits(value: float, *, digits: int = 6) -> str:
    """A decimal string of ``digits`` significant digits, never above ``value``."""
    return _rounded(value, digits=digits, rounding=ROUND_FLOOR)


def _rounded(value: float, *, digits: int, rounding: str) -> str:
    if not math.isfinite(value):
        return str(value)
    exact = Decimal(value)
    shown = Context(prec=digits, rounding=rounding).create_decimal(exact).normalize()
    return f"{shown:f}" if -5 <= shown.adjusted() < digits + 2 else f"{shown:e}"


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """A table on stdout, as wide as its content when stdout is not a terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 140, highlight=False)
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
