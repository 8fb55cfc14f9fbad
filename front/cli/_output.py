"""What a command prints: results on stdout, notes and progress on stderr.

JSON has no infinities: they are the text ``"Infinity"``, which ``float`` reads. What no number is known of is ``null``.
"""

from __future__ import annotations

import json
import math
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from affidavit.accountant import decimals

__all__ = ["json_option", "lower_digits", "note", "print_json", "print_table", "upper_digits"]

json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def print_json(result: Mapping[str, Any] | Sequence[Any]) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(_sayable(result), indent=2, ensure_ascii=False, allow_nan=False))


def _sayable(value: Any) -> Any:
    """As JSON has it: it has no number for infinities and NaN, and other languages' readers refuse Python's."""
    if isinstance(value, Mapping):
        return {key: _sayable(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_sayable(each) for each in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


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
    """A table on stdout, as wide as its content when stdout is not a terminal.

    On a terminal too narrow for the longest word of each column, every row is a list of its cells instead: no
    number is cut or broken.
    """
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 120, highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(columns))
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    if (
        sys.stdout.isatty()
        and Measurement.get(console, console.options.update(width=10_000), table).minimum > console.width
    ):
        click.echo("\n".join([title, *_as_lists(columns, rows, width=console.width)]).lstrip("\n"))
        return
    with console.capture() as drawn:
        console.print(table)
    click.echo(
        "\n".join([title, *(line.rstrip() for line in drawn.get().rstrip().lstrip("\n").splitlines()), ""]).lstrip("\n")
    )


def _as_lists(columns: Sequence[str], rows: Sequence[Sequence[str]], *, width: int) -> Iterator[str]:
    """Each row as lines ``column: cell``, empty cells left out; words are kept whole."""
    for row in rows:
        yield ""
        for index, (column, cell) in enumerate(zip(columns, row, strict=True)):
            if cell:
                line = f"{column}: {cell}" if column else cell
                yield textwrap.fill(
                    line,
                    width,
                    initial_indent="  " if index else "",
                    subsequent_indent="    ",
                    break_long_words=False,
                    break_on_hyphens=False,
                )
    yield ""
