"""How an answer is scored.

- exact match: equal after Unicode normalisation (NFKC), case folding, and removal of punctuation and of
  the articles a, an, the: the rule of the SQuAD evaluation (Rajpurkar et al. 2016).
- ROUGE-1, -2, -L (Lin 2004): F-measures by ``rouge-score`` with stemming; of several references the best.
- METEOR (Banerjee and Lavie 2005) by ``nltk`` with its defaults, of words that are equal or have one stem; of several
  references the best. Synonyms do not count: they would need WordNet's files. So it is at most near what papers print.
- BLEU (Papineni et al. 2002): corpus BLEU by ``sacrebleu`` with its defaults, on a scale of 0 to 100.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from affidavit.accountant.extras import require

if TYPE_CHECKING:
    from affidavit.generation.icl.tasks import Kind

__all__ = ["bleu", "exact_match", "meteor", "require_packages", "rouge"]

_ARTICLES = frozenset({"a", "an", "the"})
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


_NEEDS: dict[Kind, tuple[str, ...]] = {"write": ("nltk", "rouge_score", "sacrebleu"), "record": ("jsonschema",)}


def require_packages(kind: Kind) -> None:
    """Raises ``PackageMissing`` where answers to tasks of this kind cannot be scored with what is installed."""
    if kind in _NEEDS:
        require("icl", *_NEEDS[kind], purpose=f"scoring tasks of the kind {kind!r}")


def exact_match(answer: str, references: Sequence[str]) -> bool:
    """Whether the answer is one of the references, up to case, punctuation and articles."""
    return any(_plain(answer) == _plain(reference) for reference in references)


def _plain(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_NO_PUNCTUATION)
    return [word for word in folded.split() if word not in _ARTICLES]


def rouge(answers: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Mean F-measures ``rouge_1``, ``rouge_2`` and ``rouge_l`` over all answers."""
    require_packages("write")
    from rouge_score.rouge_scorer import RougeScorer

    names = {"rouge1": "rouge_1", "rouge2": "rouge_2", "rougeL": "rouge_l"}
    scorer = RougeScorer(list(names), use_stemmer=True)
    total = dict.fromkeys(names.values(), 0.0)
    for answer, right in zip(answers, references, strict=True):
        found = scorer.score_multi(list(right), answer)
        for name, shown in names.items():
            total[shown] += float(found[name].fmeasure)
    return {name: value / max(1, len(answers)) for name, value in total.items()}


class _NoSynonyms:
    """In place of WordNet."""

    @staticmethod
    def synsets(word: str) -> tuple[()]:  # noqa: ARG004
        return ()


def meteor(answers: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Mean METEOR over all answers, without synonyms."""
    require_packages("write")
    from nltk.translate.meteor_score import meteor_score
    from rouge_score.tokenize import tokenize

    found = (
        meteor_score([tokenize(one, None) for one in right], tokenize(answer, None), wordnet=_NoSynonyms())
        for answer, right in zip(answers, references, strict=True)
    )
    return sum(map(float, found)) / max(1, len(answers))


def bleu(answers: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Corpus BLEU, 0 to 100."""
    require_packages("write")
    from sacrebleu import corpus_bleu

    columns = [list(column) for column in zip_longest(*references)]
    return float(corpus_bleu(list(answers), columns).score)
