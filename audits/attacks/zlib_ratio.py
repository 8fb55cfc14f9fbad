"""The zlib attack: a text's likelihood against what a compressor makes of it.

Carlini et al. (2021, "Extracting training data from large language models"): the bytes that zlib
needs measure how much there is to predict in a text without any knowledge of the language; a low
loss on a text that compresses badly is what memory looks like.

One thing differs from the source: it divides the log-perplexity, a mean over tokens, by the compressed length, which
makes long texts score low for their length alone. Here the sum over tokens is divided: nats a compressed byte. For
texts of one length the two rank alike.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from affidavit.audits.attacks.prompting import LabelPrompt, text_log_likelihoods
from affidavit.audits.attacks.protocol import View, access
from affidavit.audits.textmodel import Record

__all__ = ["ZlibRatio"]


@dataclass(frozen=True, slots=True)
class ZlibRatio:
    """Score: ln P(text | context), summed over tokens, / (compressed length in bytes); at most 0."""

    name = "zlib"
    needs = access("log-probabilities")

    prompt: LabelPrompt = field(default_factory=LabelPrompt)

    def scores(self, view: View, records: Sequence[Record]) -> list[float]:
        """Higher says "member"."""
        values = text_log_likelihoods(view, self.prompt, records, attack=self.name)
        return [
            value / len(zlib.compress(self.prompt.shown(record.text).encode("utf-8")))
            for value, record in zip(values, records, strict=True)
        ]
