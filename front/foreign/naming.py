"""Which record a value in somebody's code is: the text itself, or a dictionary, tuple or object that holds it.

Names are ids, and stay in this process: a trace holds them under a key, a report holds counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import FrameType
from typing import Any, cast

from affidavit.generation.dataset import Record

__all__ = ["Names"]

_DEEP = 32
_LONGEST = 10**6


class Names:
    """The records of one run, found by their text."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._by_text: dict[str, str] = {}
        for record in records:
            for text in (record.text, record.text.strip()):
                self._by_text.setdefault(text, record.id)

    def of(self, value: object) -> str | None:
        """The record's id, or None where the value holds no record's text."""
        if isinstance(value, str):
            return self._by_text.get(value) if value in self._by_text else self._by_text.get(value.strip())
        if isinstance(value, Record):
            return value.id
        for part in _parts(value):
            if isinstance(part, str) and part and (name := self.of(part)) is not None:
                return name
        return None

    def all_of(self, values: object) -> list[str] | None:
        """The ids of a sequence whose every element is a record; None where one is not, or where it is no sequence."""
        if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__len__"):
            return None
        found = cast("Collection[object]", values)
        if not 0 < len(found) <= _LONGEST or not hasattr(values, "__iter__"):
            return None
        names = []
        for value in found:
            name = self.of(value)
            if name is None:
                return None
            names.append(name)
        return names

    def flat(self, values: object, *, depth: int = 4) -> list[str] | None:
        """The ids in a sequence of records, or of sequences of records; None where something in it is neither."""
        name = self.of(values) if not isinstance(values, (list, tuple)) else None
        if name is not None:
            return [name]
        if depth == 0 or isinstance(values, (str, bytes)):
            return None
        if not hasattr(values, "__iter__"):
            return None
        names: list[str] = []
        for value in cast("Iterable[object]", values):
            found = self.flat(value, depth=depth - 1)
            if found is None:
                return None
            names += found
        return names

    def in_frame(self, frame: FrameType | None) -> str | None:
        """The record that a loop at this place is at: of a comprehension's frame, or of the function's own."""
        return None if frame is None else next(filter(None, map(self.of, _locals(frame))), None)

    def sequence_in_frame(self, frame: FrameType | None, length: int, *, at_least: bool = False) -> list[str] | None:
        """The ids of a sequence of that length that the frame, or the one that a comprehension stands in, holds.

        Itself, or as an attribute of what it holds; ``at_least``: or a longer one.
        """
        while frame is not None:
            values = _locals(frame)
            for value in (*values, *(part for each in values for part in _attributes(each))):
                found = _length(value)
                if found == length or (at_least and found is not None and found > length):
                    names = self.all_of(value)
                    if names is not None:
                        return names
            if not frame.f_code.co_name.startswith("<") or frame.f_code.co_name == "<module>":
                return None
            frame = frame.f_back
        return None


def _locals(frame: FrameType) -> Sequence[object]:
    """Values of the names that the code of the frame sets; of a module, those are its globals."""
    return list(frame.f_locals.values())


def _length(value: Any) -> int | None:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
        return None
    try:
        return len(value)
    except Exception:  # an object of theirs, which may raise anything
        return None


def _attributes(value: object) -> Sequence[object]:
    return list(vars(value).values())[:_DEEP] if hasattr(value, "__dict__") and not isinstance(value, type) else ()


def _parts(value: object) -> Sequence[object]:
    if isinstance(value, Mapping):
        return list(value.values())[:_DEEP]
    if isinstance(value, (tuple, list)):
        return value[:_DEEP] if len(value) <= _DEEP else ()
    return list(vars(value).values())[:_DEEP] if hasattr(value, "__dict__") else ()
