"""A text as a sequence of words, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from affidavit.audits.pii.folding import fold

__all__ = ["Words"]

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Words:
    """Runs of letters and digits, NFKC and case folded; ``places[i]`` is ``[start, end)`` in the text as written."""

    words: tuple[str, ...] = field(repr=False)
    places: tuple[tuple[int, int], ...] = field(repr=False)

    @classmethod
    def of(cls, text: str) -> Words:
        """Read a text."""
        folded = fold(text)
        found = list(_WORD.finditer(folded.text))
        return cls(
            tuple(match.group().casefold() for match in found), tuple(folded.span(*match.span()) for match in found)
        )

    def windows(self, width: int) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Every run of ``width`` words, with the number of its first word."""
        for first in range(len(self.words) - width + 1):
            yield first, self.words[first : first + width]

    def span(self, first: int, count: int) -> tuple[int, int]:
        """Where ``count`` words from number ``first`` on stand in the text."""
        return self.places[first][0], self.places[first + count - 1][1]
