"""Probabilistic discoverable extraction: how many questions until a service writes out a record's own words?

Hayes, Swanberg, Chaudhari, Yona, Shumailov, Nasr, Choquette-Choo, Lee and Cooper (2025, NAACL, "Measuring memorization
in language models via probabilistic extraction"): a record is cut into a prefix and a target; asked with the prefix, a
sampling scheme writes the target with probability p_z, and in n independent answers at least once with probability
1 − (1 − p_z)ⁿ. The record is (n, p)-discoverably extractable where that is at least p: for the n that somebody may ask
and the p that worries, or by the smallest n = ⌈ln(1 − p) / ln(1 − p_z)⌉. Greedy decoding, a yes or no for one answer,
misses what a second answer would give away.

Where the model tells token probabilities nothing is sampled: p_z is the product of the target's token probabilities
under the scheme. It is of the target's own tokens; other tokens that spell the same text would add to it.

Two things differ from the source. Here nothing was trained on the records: the service holds them in its prompt, or
holds what was made from them. And prefix and target are counted in words, as a demonstration shows the record.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from affidavit.audits.attacks.prompting import LabelPrompt
from affidavit.audits.attacks.protocol import access
from affidavit.audits.textmodel import Record, TextModel, sampled_log_likelihoods

__all__ = ["Discoverable", "Sampling", "chance_within", "queries_needed"]

_MOST_QUERIES = 10**15


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the service draws a token: at a temperature, from the ``top_k`` likeliest tokens (all of them: None)."""

    temperature: float = 1.0
    top_k: int | None = None

    def __str__(self) -> str:
        """In words."""
        tokens = "all tokens" if self.top_k is None else f"the {self.top_k} likeliest tokens"
        return f"temperature {self.temperature:g}, {tokens}"


def chance_within(log_probability: float, queries: int) -> float:
    """1 − (1 − p_z)ⁿ, without loss where p_z is small."""
    if log_probability >= 0.0:
        return 1.0
    return -math.expm1(queries * math.log1p(-math.exp(log_probability)))


def queries_needed(log_probability: float, chance: float) -> int | None:
    """The smallest n with 1 − (1 − p_z)ⁿ ≥ ``chance``; None above 10^15, which nobody asks."""
    if log_probability >= 0.0:
        return 1
    each = -math.log1p(-math.exp(log_probability))
    if each * _MOST_QUERIES < -math.log1p(-chance):
        return None
    return max(1, math.ceil(-math.log1p(-chance) / each * (1.0 - 1e-12)))


@dataclass(frozen=True, slots=True)
class Discoverable:
    """Asks for the ``target_words`` that follow a record's first ``prefix_words``."""

    prefix_words: int
    target_words: int
    sampling: Sampling = Sampling()
    prompt: LabelPrompt = field(default_factory=LabelPrompt)

    name = "discoverable"
    needs = access("log-probabilities")

    def can_ask(self, record: Record) -> bool:
        """Whether what a demonstration shows of a record is long enough."""
        return len(self.prompt.shown(record.text).split()) >= self.prefix_words + self.target_words

    def question(self, record: Record) -> tuple[str, str]:
        """The prompt that ends with the record's prefix, and the target."""
        words = self.prompt.shown(record.text).split()
        prefix, target = words[: self.prefix_words], words[self.prefix_words : self.prefix_words + self.target_words]
        return f"{self.prompt.text_field}: {' '.join(prefix)}", f" {' '.join(target)}"

    def log_probabilities(self, service: TextModel, records: Sequence[Record]) -> list[float]:
        """ln p_z of every record."""
        asked = [self.question(record) for record in records]
        prompts, targets = [prompt for prompt, _ in asked], [target for _, target in asked]
        return sampled_log_likelihoods(
            service, prompts, targets, temperature=self.sampling.temperature, top_k=self.sampling.top_k
        )
