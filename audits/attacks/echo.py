"""The canary's echo: who was in the data, from the released text alone.

Meeus, Wutschitz, Zanella-Béguelin, Tople and Shokri (2025, "The Canary's Echo: Auditing privacy risks of LLM-generated
synthetic text"): no model is asked. An auxiliary model of words is trained on the released text, and a canary is
scored by its likelihood there against that under a model of records which were not in the data. A canary that is all
surprise leaves no echo, since no generator writes what does not fit: its beginning is a record's, its end surprising.

One thing differs from the source: its reference comes from further synthetic sets, made from other data; here it is a
model of held-out records, which costs no generation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from affidavit.accountant.errors import DataError
from affidavit.audits.attacks.ngram import Bigrams
from affidavit.audits.textmodel import Record
from affidavit.audits.words import Words

__all__ = ["Echo", "make_echo_canaries"]

_BEGINNING = 8
_END = 12


def make_echo_canaries(records: Sequence[Record], *, count: int, seed: int) -> tuple[Record, ...]:
    """``count`` canaries: the first words of a record each, then words of all records drawn alike, rare as frequent.

    Raises ``DataError`` where there are fewer records.
    """
    if len(records) < count:
        raise DataError(
            f"{count} canaries begin like {count} records that are on no side, {len(records)} are left",
            hint=f"At most `count = {len(records)}`, or give more records.",
        )
    generator = np.random.default_rng([seed, 0x6563])
    texts = [Words.of(record.text).words for record in records]
    vocabulary = sorted({word for text in texts for word in text})
    return tuple(
        Record(
            f"echo-{number}",
            " ".join([*texts[number][:_BEGINNING], *(str(word) for word in generator.choice(vocabulary, size=_END))]),
            records[number].label,
        )
        for number in range(count)
    )


@dataclass(frozen=True, slots=True)
class Echo:
    """Scores canaries on released text; ``reference`` are texts that were not in the data."""

    reference: tuple[str, ...] = field(repr=False)

    name = "echo"

    def scores(self, released: Sequence[str], canaries: Sequence[Record]) -> list[float]:
        """ln P(end | released text) less ln P(end | reference); higher says "member"."""
        made, others = ([Words.of(text).words for text in texts] for texts in (released, self.reference))
        asked = [Words.of(canary.text).words for canary in canaries]
        vocabulary = len({word for texts in (made, others, asked) for text in texts for word in text}) + 1
        echo, base = (Bigrams.of(texts, vocabulary=vocabulary) for texts in (made, others))
        return [
            echo.log_probability(text, begin=max(0, len(text) - _END))
            - base.log_probability(text, begin=max(0, len(text) - _END))
            for text in asked
        ]
