"""A file's rows, as they stand there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from affidavit.accountant.errors import Way

__all__ = ["Row", "Table", "places"]

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Row:
    """One row: where it stands in the file, counted from 1, and its cells (None where there is none)."""

    place: int
    cells: tuple[Any, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a file.

    ``names``: the columns' names; None where row one may be a header or a record (``undecided``), or where there are
    no names at all. ``how``: format, dialect and encoding in words. ``broken``: places that hold no row.
    ``unsure``: what was assumed on the way here, with the flags that say so; it has to be said before anything is read.
    ``value_names``: for a column of whole numbers, the words that the file's own metadata give them.
    """

    path: Path
    how: str
    width: int
    rows: tuple[Row, ...] = field(repr=False)
    names: tuple[str, ...] | None = field(default=None, repr=False)
    undecided: bool = False
    place_word: str = "line"
    empty_lines: int = 0
    repeated_keys: int = 0
    broken: tuple[int, ...] = ()
    unsure: Way | None = None
    value_names: dict[int, tuple[str, ...]] = field(default_factory=dict, repr=False)

    def with_header(self, *, header: bool) -> Table:
        """Row one taken as the header, or as a record."""
        if not header or not self.rows:
            return replace(self, undecided=False, how=f"{self.how}; row 1 is a record")
        first, rest = self.rows[0], self.rows[1:]
        names = tuple("" if cell is None else str(cell).strip() for cell in first.cells)
        return replace(self, undecided=False, how=f"{self.how}; row 1 is a header", names=names, rows=rest)

    def column(self, number: int) -> list[Any]:
        """The cells of a column, counted from 0; a row that is too short has None there."""
        return [row.cells[number] if number < len(row.cells) else None for row in self.rows]


def places(word: str, found: list[int] | tuple[int, ...]) -> str:
    """``lines 3, 9 and 12``, or the first few of them and how many more."""
    shown = [str(place) for place in found[:_SHOWN]]
    if len(found) > _SHOWN:
        return f"{word}s {', '.join(shown)} and {len(found) - _SHOWN:,} more"
    if len(found) == 1:
        return f"{word} {shown[0]}"
    return f"{word}s {', '.join(shown[:-1])} and {shown[-1]}"
