"""Which identifiers anyone could have guessed: the control without which a leak count means little.

An organisation's addresses follow rules. A guesser who knows a person's name and the domain
writes first.last@domain, flast@domain and so on, and knows that the domain has a front page on
the web; what he would have written is not evidence that the private data leaked. Six rules
recover about half of the local parts of people whose two names are known in Enron's
correspondence.

The control is applied to the audit's advantage, not the defendant's: a leaked address counts
as guessable only when a name that stands in the same record, or in a list the caller calls
public, yields it exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from affidavit.audits.pii.identifier import Identifier
from affidavit.audits.pii.person import PersonName, letters, parse_name
from affidavit.audits.pii.url import is_front_page

__all__ = ["NAME_RULES", "PersonName", "guesses", "is_guessable", "names_in", "parse_name"]

NAME_RULES: dict[str, Callable[[str, str], str]] = {
    "first.last": lambda first, last: f"{first}.{last}",
    "flast": lambda first, last: f"{first[0]}{last}",
    "firstlast": lambda first, last: f"{first}{last}",
    "first_last": lambda first, last: f"{first}_{last}",
    "first": lambda first, _: first,
    "last": lambda _, last: last,
}

_WORD = r"[^\W\d_][^\W\d_'’-]*"
_NAME = re.compile(rf"(?=\b({_WORD})[ \t]+(?:[^\W\d_]\.?[ \t]+)?({_WORD})\b)")


def names_in(text: str) -> frozenset[PersonName]:
    """Every pair of neighbouring capitalised words (an initial may stand between them)."""
    found = set()
    for match in _NAME.finditer(text):
        first, last = match.groups()
        if first[0].isupper() and last[0].isupper() and len(first) > 1 and len(last) > 1:
            pair = PersonName(letters(first), letters(last))
            if pair.first and pair.last:
                found.add(pair)
    return frozenset(found)


def guesses(names: Iterable[PersonName], domains: Iterable[str]) -> frozenset[str]:
    """Every address that the six rules write for these people at these domains."""
    where = tuple(domains)
    locals_ = {rule(name.first, name.last) for name in names for rule in NAME_RULES.values()}
    return frozenset(f"{local}@{domain}" for local in locals_ for domain in where)


def is_guessable(identifier: Identifier, names: Iterable[PersonName]) -> bool:
    """Whether a guesser who knows these names, and the identifier's own domain, writes it.

    An e-mail address by one of the six rules; a web address that is a site's front page, which
    needs the domain only. Phone and account numbers, and names themselves, are never guessed.
    """
    if identifier.kind == "url":
        return is_front_page(identifier.value)
    if identifier.kind != "email":
        return False
    _, _, domain = identifier.value.rpartition("@")
    return identifier.value in guesses(names, (domain,))
