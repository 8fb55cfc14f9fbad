"""The repeat attack: give the model the first words and see whether it finishes the text.

Wen et al. (2024); Joo et al. (2025) audit their generators with it, 40 members against 40 and
against 160 non-members. The score is the similarity of the model's continuation with the record's
own. Both use sentence embeddings, for which ``similarity`` has a place; the default is the longest
common subsequence of words (ROUGE-L), which needs no second model and cannot mistake a text on
the same subject for the same text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from affidavit.audits.attacks.prompting import LabelPrompt
from affidavit.audits.attacks.protocol import View, access, answering_model
from affidavit.audits.textmodel import Record

__all__ = ["Repeat", "Similarity", "common_words"]

Similarity: TypeAlias = Callable[[str, str], float]
"""(the model's continuation, the record's own) → how alike they are; higher is more alike."""

_WORD = re.compile(r"[^\W_]+")


def common_words(one: str, other: str) -> float:
    """ROUGE-L: F1 of the longest common subsequence of words, case folded; in [0, 1]."""
    left, right = (_WORD.findall(text.casefold()) for text in (one, other))
    if not left or not right:
        return 0.0
    lengths = [0] * (len(right) + 1)
    for word in left:
        above = lengths.copy()
        for j, rival in enumerate(right, start=1):
            lengths[j] = above[j - 1] + 1 if word == rival else max(above[j], lengths[j - 1])
    return 2.0 * lengths[-1] / (len(left) + len(right))


@dataclass(frozen=True, slots=True)
class Repeat:
    """Score: similarity of continuation and record after the first ``given_words`` words.

    At most ``compared_words`` words of either are compared, so that a long record is not at a
    disadvantage against a short answer.
    """

    name = "repeat"
    needs = access("answers")

    prompt: LabelPrompt = field(default_factory=LabelPrompt)
    given_words: int = 6
    compared_words: int = 20
    max_tokens: int = 32
    similarity: Similarity = common_words

    def scores(self, view: View, records: Sequence[Record]) -> list[float]:
        """Higher says "member"."""
        words = [self.prompt.shown(record.text).split() for record in records]
        starts = [" ".join(each[: self.given_words]) for each in words]
        prompts = [self.prompt.asked(view.texts, f"{self.prompt.text_field}: {start}") for start in starts]
        answers = answering_model(view, self.name).generate(prompts, max_tokens=self.max_tokens)
        return [
            self.similarity(
                " ".join(answer.split()[: self.compared_words]),
                " ".join(each[self.given_words : self.given_words + self.compared_words]),
            )
            for answer, each in zip(answers, words, strict=True)
        ]
