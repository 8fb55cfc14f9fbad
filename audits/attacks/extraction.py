"""Extraction: does released text hold an identifier of a private record?

The attacker asks for the address in the record and reads what comes back, as in PRISM's paper
(greedy, 15 tokens); ``extraction_prompts`` says how.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from affidavit.audits.attacks.extraction_prompts import PROMPTS, ExtractionPrompt, prompt_named
from affidavit.audits.attacks.protocol import View, access
from affidavit.audits.pii import Identifier, IdentifierKind, distinct, find_mentions
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


@dataclass(frozen=True, slots=True)
class CanaryExtraction(Extraction):
    """The same of records that were made for it (``canary``)."""

    name = "canary"
