"""Which column is the text, which the label, which the id; and whether row one is a header.

A first row is shown to nobody: it may be a record. It is taken as a header without a word from the operator only if
both the text's and the label's names stand in it: names that the operator gave, or names of the lists below. What
cannot be told is refused with the flags that would settle it, in which columns are numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from affidavit.accountant.errors import TableUnclear, Way
from affidavit.tables.table import Table

__all__ = ["KNOWN_NAMES", "MOST_LABELS", "Chosen", "Wanted", "choose"]

KNOWN_NAMES = {
    "text": (
        "text", "sentence", "question", "body", "content", "message", "review", "utterance", "query", "tweet",
        "comment", "article", "headline", "news", "title",
    ),
    "label": (
        "label", "labels", "category", "class", "intent", "topic", "sentiment", "emotion", "target", "answer",
    ),
    "id": ("id",),
}  # fmt: skip
"""Names that are taken without being given, if only one of them stands there; the first of a list before the others."""

_PROFILED = 5000
_NO_RECORDS = 'One a line: {"id": "...", "text": "...", "label": "..."}; or CSV, a JSON array, Parquet.'
MOST_LABELS = 200
"""More different values than this in a column are no labels."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the operator said: names or numbers (from 1) of columns, whether row one is a header, a label for all."""

    text: str | None = None
    label: str | None = None
    id: str | None = None
    header: bool | None = None
    one_label: str | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """The table with its header settled, and columns by number from 0. ``given``: what the operator called them."""

    table: Table
    text: int
    label: int | None
    id: int | None
    given: Mapping[str, str]
    one_label: str | None = None

    def name(self, role: str) -> str | None:
        """A role's column name, where it is the operator's own word or a known one; None where it may be private."""
        number: int | None = getattr(self, role)
        if number is None or self.table.names is None:
            return None
        name = self.table.names[number].strip()
        known = (*KNOWN_NAMES[role], self.given.get(role, "").strip().casefold())
        return name if name and name.casefold() in known else None

    def shown(self, role: str) -> str:
        """``column 3 (`body`)``, or without a name that may be private."""
        number, name = getattr(self, role), self.name(role)
        return f"column {number + 1}" + (f" (`{name}`)" if name is not None else "")


def choose(table: Table, wanted: Wanted) -> Chosen:
    """The columns of a table. Raises ``TableUnclear`` with the flags that would settle it."""
    if table.unsure is not None:
        ways = tuple(_ways(table, wanted)) if _safely_both(table, wanted) is None else ()
        flags = table.unsure.flags
        raise TableUnclear(
            f"{table.path}: which records are meant is not clear",
            ways=[Way(f"{table.unsure.when}. {way.when}", (*flags, *way.flags)) for way in ways] or [table.unsure],
        )
    if not table.rows:
        raise TableUnclear(f"{table.path} holds no records", hint=_NO_RECORDS)
    settled = _with_header(table, wanted)
    text = _column(settled, "text", wanted.text)
    label = None if wanted.one_label is not None else _column(settled, "label", wanted.label)
    if text is None or (label is None and wanted.one_label is None):
        raise _unclear(table, wanted, missing="text" if text is None else "label")
    identity = _column(settled, "id", wanted.id)
    if wanted.id is not None and identity is None:
        raise TableUnclear(
            f"{table.path}: no column {wanted.id[:40]!r} for the id among {_counted(table.width, 'column')}",
            hint="Remove `--id-column`: records without an id get a random one that is kept.",
        )
    if len({text, label, identity} - {None}) != sum(each is not None for each in (text, label, identity)):
        raise TableUnclear(
            f"{table.path}: text, label and id are not three columns",
            ways=tuple(_ways(table, Wanted(header=wanted.header))),
        )
    if not settled.rows:
        raise TableUnclear(f"{table.path} holds no records below its header", hint=_NO_RECORDS)
    roles = (("text", wanted.text), ("label", wanted.label), ("id", wanted.id))
    given = {role: name for role, name in roles if name is not None}
    return Chosen(settled, text, label, identity, given, wanted.one_label)


def _with_header(table: Table, wanted: Wanted) -> Table:
    """The table with row one taken as what it is. Raises ``TableUnclear`` where that cannot be told."""
    if not table.undecided:
        return table
    if wanted.header is not None:
        return table.with_header(header=wanted.header)
    named = table.with_header(header=True)
    text = _named(named, "text", wanted.text)
    label = _named(named, "label", wanted.label)
    if text is not None and (label is not None or wanted.one_label is not None) and text != label:
        return named
    if table.width == 1 and wanted.one_label is not None:
        return table.with_header(header=False)
    place = _column(table, "label", wanted.label)
    if _column(table, "text", wanted.text) is not None and place is not None and _is_record(table, place):
        return table.with_header(header=False)
    raise _unclear(table, wanted, missing="text" if text is None else "label")


def _is_record(table: Table, label: int) -> bool:
    """Whether row one is certainly a record: its label occurs again."""
    cells = table.column(label)
    return bool(cells) and cells[0] in cells[1:]


def _column(table: Table, role: str, given: str | None) -> int | None:
    """A role's column: by name, else by number, else by a known name."""
    found = _named(table, role, given)
    if found is None and given is not None and given.isdecimal() and 1 <= int(given) <= table.width:
        return int(given) - 1
    return found


def _named(table: Table, role: str, given: str | None) -> int | None:
    """A role's column by its name. Raises ``TableUnclear`` where several have it."""
    if table.names is None:
        return None
    names = [name.strip() for name in table.names]
    folded = [name.casefold() for name in names]
    if given is not None:
        exact = [place for place, name in enumerate(names) if name == given.strip()]
        alike = exact or [place for place, name in enumerate(folded) if name == given.strip().casefold()]
        if len(alike) > 1:
            raise TableUnclear(
                f"{table.path}: {len(alike)} columns are called {given[:40]!r}",
                ways=[Way(f"Column {place + 1}", (f"--{role}-column", str(place + 1))) for place in alike],
            )
        return alike[0] if alike else None
    first, *others = KNOWN_NAMES[role]
    for known in ([first], others):
        places = [place for place, name in enumerate(folded) if name in known]
        if places:
            return places[0] if len(places) == 1 else None
    return None


def _unclear(table: Table, wanted: Wanted, *, missing: str) -> TableUnclear:
    """What cannot be told, and the flags that this file may need."""
    what = _counted(table.width, "column")
    given: str | None = getattr(wanted, missing, None)
    named = (
        f"no column {given[:40]!r} for the {missing}"
        if given is not None
        else f"which column is the {missing} is not clear"
    )
    hidden = " (row 1 is not shown: it may be a record)" if table.undecided and wanted.header is None else ""
    ways = tuple(_ways(table, wanted))
    return TableUnclear(
        f"{table.path}: {named} among {what}{hidden}",
        ways=ways,
        hint="" if ways else "Name the columns, by name or number: `--text-column 1` and `--label-column 2`",
    )


def _ways(table: Table, wanted: Wanted) -> Iterator[Way]:
    text, label = _guessed(table, wanted)
    if text is None:
        return
    flags: tuple[str, ...] = ("--text-column", str(text + 1))
    if label is not None:
        flags = (*flags, "--label-column", str(label + 1))
    elif wanted.one_label is None:
        flags = (*flags, "--one-label", "text")
    condition = (
        "If these are the columns" if label is not None else "No column looks like labels; one for all of them is"
    )
    if not table.undecided or wanted.header is not None:
        yield Way(condition, flags)
        return
    if label is None or not _is_record(table, label):
        yield Way("If row 1 is a header", ("--header", *flags))
    yield Way("If row 1 is a record", ("--no-header", *flags))


def _guessed(table: Table, wanted: Wanted) -> tuple[int | None, int | None]:
    """Which columns look like the text and the label: what was given, else the longest and the least varied."""
    named = table.with_header(header=True) if table.undecided else table
    profiles = [_Profile.of(named.column(place)[:_PROFILED]) for place in range(table.width)]
    fixed = {role: _safely(named, role, getattr(wanted, role)) for role in ("text", "label")}
    texts = sorted(
        (place for place, one in enumerate(profiles) if one.filled > 0.5 and place != fixed["label"]),
        key=lambda place: -profiles[place].mean_length,
    )
    text = fixed["text"] if fixed["text"] is not None else next(iter(texts), None)
    if wanted.one_label is not None:
        return text, None
    labels = sorted(
        (place for place, one in enumerate(profiles) if one.like_labels and place != text),
        key=lambda place: profiles[place].distinct,
    )
    label = fixed["label"] if fixed["label"] is not None else next(iter(labels), None)
    return text, label


def _safely_both(table: Table, wanted: Wanted) -> tuple[int, int | None] | None:
    """Text and label as they would be chosen; None where that is not clear."""
    text, label = _safely(table, "text", wanted.text), _safely(table, "label", wanted.label)
    return None if text is None or (label is None and wanted.one_label is None) else (text, label)


def _safely(table: Table, role: str, given: str | None) -> int | None:
    try:
        return _column(table, role, given)
    except TableUnclear:
        return None


@dataclass(frozen=True, slots=True)
class _Profile:
    """What a column's cells look like."""

    filled: float
    distinct: int
    mean_length: float
    count: int
    single: bool

    @classmethod
    def of(cls, cells: list[Any]) -> _Profile:
        single = all(cell is None or isinstance(cell, (str, int, float)) for cell in cells)
        shown = [str(cell) for cell in cells if cell is not None and str(cell).strip()] if single else []
        count = max(1, len(shown))
        return cls(len(shown) / max(1, len(cells)), len(set(shown)), sum(map(len, shown)) / count, len(shown), single)

    @property
    def like_labels(self) -> bool:
        return self.single and self.filled > 0.9 and 2 <= self.distinct <= min(MOST_LABELS, self.count // 2)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
