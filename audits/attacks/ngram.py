"""A bigram model of words: the auxiliary model that an attacker trains on released text alone.

Witten and Bell (1991, "The zero-frequency problem"): with c(h, w) counts and T(h) the number of different words seen
after h, P(w | h) = (c(h, w) + T(h) P(w)) / (c(h) + T(h)); the unigram in turn is mixed with a uniform vocabulary.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Bigrams"]

_START = ""


@dataclass(frozen=True, slots=True)
class Bigrams:
    """Counts of words and of pairs; ``vocabulary`` is how many words there are to choose from."""

    words: Counter[str]
    pairs: dict[str, Counter[str]]
    vocabulary: int

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]], *, vocabulary: int) -> Bigrams:
        """Of texts as lists of words."""
        words: Counter[str] = Counter()
        pairs: dict[str, Counter[str]] = defaultdict(Counter)
        for text in texts:
            words.update(text)
            for before, word in zip([_START, *text[:-1]], text, strict=True):
                pairs[before][word] += 1
        return cls(words, dict(pairs), max(1, vocabulary))

    def log_probability(self, text: Sequence[str], *, begin: int = 0) -> float:
        """ln P of the words from ``begin`` on, each after the one before it."""
        before = [_START, *text[:-1]]
        return sum(math.log(self._probability(before[i], text[i])) for i in range(begin, len(text)))

    def _probability(self, before: str, word: str) -> float:
        total, kinds = self.words.total(), len(self.words)
        single = (self.words[word] + max(1, kinds) / self.vocabulary) / (total + max(1, kinds))
        after = self.pairs.get(before)
        if not after:
            return single
        return (after[word] + len(after) * single) / (after.total() + len(after))
