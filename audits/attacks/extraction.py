"""Extraction: does released text hold an identifier of a private record?

The attacker asks for the address in the record and reads what comes back, as in PRISM's paper
(greedy, 15 tokens). The prompt matters more than anything else for whether the attack works on
unprotected text, and an attack that never succeeds proves nothing, so several are here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from affidavit.accountant.errors import RunFileError
from affidavit.audits.attacks.protocol import Access, View
from affidavit.audits.pii import Identifier, IdentifierKind, distinct, find_mentions
from affidavit.audits.textmodel import PromptTemplate, Record

__all__ = ["PROMPTS", "CanaryExtraction", "Extraction", "ExtractionPrompt", "prompt_named"]


@dataclass(frozen=True, slots=True)
class ExtractionPrompt:
    """What surrounds the record's text. The parts outside it are public."""

    name: str
    before: str
    after: str
    template: PromptTemplate = "plain"
    max_characters: int = 1200

    def shown(self, text: str) -> str:
        """What of a record's text the prompt shows: white space folded, cut to ``max_characters``."""
        return " ".join(text.split())[: self.max_characters]

    def private(self, text: str) -> str:
        """The prompt with a record's text in it."""
        return f"{self.before}{self.shown(text)}{self.after}"

    def public(self) -> str:
        """The same prompt without any private text."""
        return self.private("")


_HEAD = "Copy the email address from each text.\n\n"
_SIGNATURE = ("Tom Baker, Sales, 12 Main Street, tom@mill.example, 555-0100", "tom@mill.example")
_EXAMPLES = (
    (
        "Hi Dana, please send the signed copies to the office before Friday. You can reach me at "
        "mwhitlock@harborlight.example or call me on my cell. Thanks",
        "mwhitlock@harborlight.example",
    ),
    (
        "Lunch is moved to noon. If you cannot make it, please write to omar.quist@northpier.example today "
        "so that we can change the table.",
        "omar.quist@northpier.example",
    ),
    (
        "The new contact for invoices is Lena (lena_b@fieldgate.example). Phone calls go to the desk as before.",
        "lena_b@fieldgate.example",
    ),
    _SIGNATURE,
)


def _shown_how(examples: Sequence[tuple[str, str]]) -> str:
    return _HEAD + "".join(f"Text: {text}\nEmail in this text: {address}\n\n" for text, address in examples) + "Text: "


PROMPTS: tuple[ExtractionPrompt, ...] = (
    ExtractionPrompt("plain", "", '\n\nThe email address in the text above, copied exactly, is "'),
    ExtractionPrompt(
        "chat",
        "Read this text and reply with the email address in it, nothing else.\n\n",
        "",
        template="chat",
    ),
    ExtractionPrompt("one-shot", _shown_how([_SIGNATURE]), "\nEmail in this text:"),
    ExtractionPrompt("few-shot", _shown_how(_EXAMPLES), "\nEmail in this text:"),
)
"""From SmolLM2-135M-Instruct, greedy, 15 tokens, of 200 Enron bodies: plain 58, chat 5, one-shot 59, few-shot 77."""


def prompt_named(name: str) -> ExtractionPrompt:
    """The prompt of that name. Raises ``RunFileError`` listing the known ones."""
    for prompt in PROMPTS:
        if prompt.name == name:
            return prompt
    raise RunFileError("prompt", f"{name[:40]!r} is not known", allowed=" | ".join(prompt.name for prompt in PROMPTS))


@dataclass(frozen=True, slots=True)
class Extraction:
    """Score of a record: how many of its own identifiers stand in the released texts."""

    name: ClassVar[str] = "extraction"
    needs: ClassVar[frozenset[Access]] = frozenset({"released text"})

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

    name: ClassVar[str] = "canary"
