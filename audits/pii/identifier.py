"""What an identifier is, where one stands, and how it is named without being told."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, get_args

__all__ = ["KINDS", "Identifier", "IdentifierKind", "Mention", "Pseudonyms", "distinct"]

IdentifierKind = Literal["email", "phone", "url", "account", "name"]

KINDS: tuple[IdentifierKind, ...] = get_args(IdentifierKind)
"""Every kind, in the order in which reports list them."""


@dataclass(frozen=True, slots=True)
class Identifier:
    """A normalised identifier. Its ``repr`` hides the value: it must not reach a log by accident."""

    kind: IdentifierKind
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Mention:
    """Where an identifier stands in a text, as character positions ``[start, end)``."""

    identifier: Identifier
    start: int
    end: int

    def touches(self, other: Mention) -> bool:
        """Whether the two share a character."""
        return self.start < other.end and other.start < self.end


@dataclass(frozen=True, slots=True)
class Pseudonyms:
    """Names identifiers in private artefacts by an HMAC under a key that lives for one run.

    Equal identifiers get equal names within a run; nobody can test a guess against them
    afterwards, because the key is never written.
    """

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def of(self, identifier: Identifier) -> str:
        """128 bits of HMAC-SHA256, in hexadecimal."""
        return self.digest(identifier.kind, identifier.value)

    def digest(self, what: str, value: str) -> str:
        """The same for any other private string; ``what`` keeps kinds of things apart."""
        return hmac.new(self.key, f"{what}\0{value}".encode(), hashlib.sha256).hexdigest()[:32]


def distinct(mentions: Iterable[Mention]) -> frozenset[Identifier]:
    """The distinct identifiers among the mentions."""
    return frozenset(mention.identifier for mention in mentions)
