"""Text as detectors read it, and the way back to the positions of the text as it was written."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

__all__ = ["Folded", "fold"]


@dataclass(frozen=True, slots=True)
class Folded:
    """A rewritten text; ``origin[i]`` is where in the original its i-th character comes from."""

    text: str = field(repr=False)
    origin: tuple[int, ...] = field(repr=False)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """``[start, end)`` of this text as a range of the original; the range must not be empty."""
        return self.origin[start], self.origin[end - 1] + 1

    def replace(self, pattern: re.Pattern[str], by: str) -> Folded:
        """Every match replaced by ``by``, whose characters all come from the match's first and last."""
        pieces: list[str] = []
        origin: list[int] = []
        done = 0
        for match in pattern.finditer(self.text):
            pieces += [self.text[done : match.start()], by]
            origin += self.origin[done : match.start()]
            ends = self.origin[match.start()], self.origin[match.end() - 1]
            origin += [ends[0]] * (len(by) - 1) + [ends[1]] if by else []
            done = match.end()
        return Folded("".join([*pieces, self.text[done:]]), (*origin, *self.origin[done:]))


def fold(text: str) -> Folded:
    """Compatibility forms folded (NFKC) character by character, so that every position is known."""
    pieces = [unicodedata.normalize("NFKC", character) for character in text]
    return Folded("".join(pieces), tuple(i for i, piece in enumerate(pieces) for _ in piece))
