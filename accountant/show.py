"""How results look at a prompt and in a notebook: one line, and a small table.

A class says what is worth showing (``facts``), and gets ``__repr__`` and ``_repr_html_`` from ``Shown``. Facts are
numbers, names that the operator chose, and verdicts; never texts of records, labels or identifiers of them. Everything
is escaped. Upper sides are rounded up, lower sides down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import Protocol

from affidavit.accountant import decimals

__all__ = ["Facts", "Shown", "between", "lower", "table", "upper"]

MOST_ROWS = 40
LONGEST = 300
"""Characters of one cell."""


@dataclass(frozen=True, slots=True)
class Facts:
    """``line``: the whole in a few words. ``rows``: more of it, under ``columns`` if they need names."""

    line: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


class Shown:
    """A value with ``facts``. A dataclass among these is made with ``repr=False``."""

    __slots__ = ()

    def facts(self) -> Facts:
        """What is worth showing."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.facts().line})"

    def _repr_html_(self) -> str:
        """For notebooks: self-contained, without scripts or links."""
        found = self.facts()
        return table(f"{type(self).__name__}: {found.line}", found.columns, found.rows)


def table(title: str, columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> str:
    """A small HTML table under its title; what is beyond ``MOST_ROWS`` is counted, not shown."""
    parts = [f"<p>{_cut(title)}</p>"]
    if rows:
        head = "".join(f"<th>{_cut(name)}</th>" for name in columns)
        body = "".join("<tr>" + "".join(f"<td>{_cut(cell)}</td>" for cell in row) + "</tr>" for row in rows[:MOST_ROWS])
        parts.append(f"<table>{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>")
    if len(rows) > MOST_ROWS:
        parts.append(f"<p>and {len(rows) - MOST_ROWS} more</p>")
    return f"<div>{''.join(parts)}</div>"


def _cut(text: str) -> str:
    return escape(text if len(text) <= LONGEST else text[: LONGEST - 1] + "…")


def upper(value: float, *, digits: int = 6) -> str:
    """Never below the value."""
    return decimals.show(decimals.round_up(value, digits=digits)) if math.isfinite(value) else str(value)


def lower(value: float) -> str:
    """Never above the value."""
    return decimals.show(decimals.round_down(value, digits=6)) if math.isfinite(value) else str(value)


def between(found: Bracketed) -> str:
    """A bracket of ε at a δ, or of δ at an ε: the question is what both sides repeat."""
    if found.delta_lower == found.delta_upper and found.epsilon_lower == found.epsilon_upper:
        return f"ε = {found.epsilon_upper:.12g}, δ = {found.delta_upper:.12g}"
    if found.delta_lower == found.delta_upper:
        return f"{_sides('ε', found.epsilon_lower, found.epsilon_upper)} at δ = {found.delta_upper:g}"
    return f"{_sides('δ', found.delta_lower, found.delta_upper)} at ε = {found.epsilon_upper:g}"


class Bracketed(Protocol):
    """Both sides of ε and of δ."""

    @property
    def epsilon_lower(self) -> float: ...
    @property
    def epsilon_upper(self) -> float: ...
    @property
    def delta_lower(self) -> float: ...
    @property
    def delta_upper(self) -> float: ...


def _sides(symbol: str, low: float, high: float) -> str:
    """A lower side of 0 says nothing, and is left out."""
    return f"{f'{lower(low)} <= ' if low > 0.0 else ''}{symbol} <= {upper(high)}"
