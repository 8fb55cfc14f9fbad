"""CSV, TSV and their kin.

The dialect is found by reading: each separator, with and without quotes, is tried by Python's strict ``csv`` reader,
and the one that gives the most rows the same number of cells is taken. Of two that do equally well the one with quotes,
unless it makes fewer rows: a quotation mark that begins a text would join it with the next lines. (``csv.Sniffer`` of
Python 3.11 named the separator of two in seven real files rightly, and CPython has since gone over to trial reading;
``clevercsv`` named all seven, was slower, and took the quotes of one for text.)
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal

from affidavit.accountant.errors import DataError, UsageError
from affidavit.tables.table import Row, Table

__all__ = ["SEPARATORS", "read_delimited", "separator"]

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_NAMED = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "bar": "|", "pipe": "|"}
_TRIED_ROWS = 20_000
_ALIKE = 0.9
"""So large a share of the rows must have as many cells as most have, or it is no table with this separator."""


@dataclass(frozen=True, slots=True)
class _Dialect:
    """How lines are cut into cells. ``delimiter`` "": they are not."""

    delimiter: str
    quoted: bool

    def rows(self, text: str) -> Iterator[tuple[int, list[str]]]:
        """Each row with the line that it begins on. Raises ``csv.Error``."""
        if not self.delimiter:
            lines = text.removesuffix("\n").split("\n")
            yield from ((number, [line.rstrip("\r")]) for number, line in enumerate(lines, start=1))
            return
        stream = io.StringIO(text, newline="")
        quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if self.quoted else csv.QUOTE_NONE
        reader = csv.reader(stream, delimiter=self.delimiter, quoting=quoting, strict=True)
        begin = 1
        for cells in reader:
            yield begin, cells
            begin = reader.line_num + 1


def separator(given: str) -> str:
    """A separator from a flag: the character, or its name. Raises ``UsageError``."""
    found = _NAMED.get(given.lower(), given)
    if len(found) != 1 or found in '"\r\n\0':
        raise UsageError(
            f"--delimiter {given[:20]!r} is not one character",
            hint="For example: `--delimiter ';'` or `--delimiter tab`",
        )
    return found


def read_delimited(text: str, path: Path, *, delimiter: str | None, encoding: str) -> Table:
    """The rows of a file of separated values, or of one text a line. Whether row one is a header is left open."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    if not text.strip():
        raise DataError(f"{path} holds no records", hint='One a line: {"id": "...", "text": "...", "label": "..."}')
    dialect = _dialect(text, delimiter)
    rows, empty = [], 0
    for line, cells in dialect.rows(text):
        if any(cell.strip() for cell in cells):
            rows.append(Row(line, tuple(cells)))
        else:
            empty += 1
    width = _usual([len(row.cells) for row in rows])
    ragged = tuple(row.place for row in rows if len(row.cells) != width)
    quotes = "" if dialect.quoted or not dialect.delimiter else ", quotation marks are part of the text"
    named = SEPARATORS.get(dialect.delimiter, f"{dialect.delimiter!r}")
    how = f"separated by {named}, {encoding}{quotes}" if dialect.delimiter else f"one text a line, {encoding}"
    kept = tuple(row for row in rows if len(row.cells) == width)
    return Table(path, how, width, kept, undecided=True, empty_lines=empty, broken=ragged)


def _dialect(text: str, delimiter: str | None) -> _Dialect:
    """The best dialect. Without quotes, every file can be read with a separator that was asked for."""
    best: tuple[float, int, bool, int] | None = None
    found: _Dialect | None = None
    for candidate in (delimiter,) if delimiter is not None else tuple(SEPARATORS):
        for quoted in (True, False):
            dialect = _Dialect(candidate, quoted)
            try:
                widths = [len(cells) for _, cells in islice(dialect.rows(text), _TRIED_ROWS) if any(cells)]
            except csv.Error:
                continue
            usual = _usual(widths)
            alike = widths.count(usual) / max(1, len(widths))
            if delimiter is None and (usual < 2 or alike < _ALIKE):
                continue
            rank = (round(alike, 4), len(widths) if alike == 1.0 else 0, quoted, usual)
            if best is None or rank > best:
                best, found = rank, dialect
    return found or _Dialect("", quoted=False)


def _usual(widths: list[int]) -> int:
    return Counter(widths).most_common(1)[0][0] if widths else 0
