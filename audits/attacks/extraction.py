"""Extraction: does released text hold an identifier of a private record?

The attacker asks for the address in the record and reads what comes back, as in PRISM's paper
(greedy, 15 tokens); ``extraction_prompts`` says how.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from affidavit.audits.attacks.extraction_prompts import PROMPTS, ExtractionPrompt, prompt_named
from affidavit.audits.attacks.protocol import View, access
from affidavit.audits.leaks import Leak
from affidavit.audits.pii import Identifier, IdentifierKind, Pseudonyms, distinct, find_mentions
from affidavit.audits.textmodel import Record

__all__ = ["PROMPTS", "CanaryExtraction", "Extraction", "ExtractionPrompt", "prompt_named"]


@dataclass(frozen=True, slots=True)
class Extraction:
    """Score of a record: how many of its own identifiers stand in the released texts."""

    name = "extraction"
    needs = access("released text")

    kinds: tuple[IdentifierKind, ...] = ("email",)
    region: str = "US"

    def identifiers(self, texts: Iterable[str]) -> frozenset[Identifier]:
        """The distinct identifiers in some texts."""
        return distinct(
            mention for text in texts for mention in find_mentions(text, kinds=self.kinds, region=self.region)
        )

    def scores(self, view: View, records: Sequence[Record]) -> list[float]:
        """Higher says "member"."""
        released = self.identifiers(view.texts)
        return [float(len(self.identifiers([record.text]) & released)) for record in records]

    def leaks(
        self,
        texts: Sequence[str],
        leaked: Set[Identifier],
        *,
        guessable: Set[Identifier],
        pseudonyms: Pseudonyms,
    ) -> tuple[Leak, ...]:
        """Where every leaked identifier stands in the texts, without telling it."""
        return tuple(
            Leak(
                identifier_hmac=pseudonyms.of(mention.identifier),
                kind=mention.identifier.kind,
                guessable=mention.identifier in guessable,
                output=number,
                start=mention.start,
                end=mention.end,
            )
            for number, text in enumerate(texts)
            for mention in find_mentions(text, kinds=self.kinds, region=self.region)
            if mention.identifier in leaked
        )


@dataclass(frozen=True, slots=True)
class CanaryExtraction(Extraction):
    """The same of records that were made for it (``canary``)."""

    name = "canary"
