"""A person's name, read the same however it is written."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

__all__ = ["PersonName", "letters", "parse_name"]


@dataclass(frozen=True, slots=True)
class PersonName:
    """First and last name, folded to lower-case ASCII letters."""

    first: str
    last: str


def letters(word: str) -> str:
    """The word's ASCII letters in lower case, accents dropped."""
    folded = unicodedata.normalize("NFKD", word).casefold()
    return "".join(character for character in folded if "a" <= character <= "z")


def parse_name(written: str) -> PersonName | None:
    """ "First [Middle] Last" or "Last, First"; None when there are not two names."""
    if "," in written:
        last, _, first = written.partition(",")
        written = f"{first} {last}"
    words = [word for word in map(letters, written.split()) if word]
    return PersonName(words[0], words[-1]) if len(words) >= 2 else None
