"""Keywords of texts, over a domain that is public.

A keyword is a run of at least three letters, in lower case, that is no function word. The *domain* is fixed before any
private text is read: the words of public records, or the words that the model's own vocabulary holds whole. A private
answer's word outside the domain counts for nothing; a domain word that no answer holds counts 0. (Counting only words
that occur, as published code does, shows by the mere set of candidates which words some record made possible.)
Words that the prompt itself says, the label's among them, are no keywords: a model repeats them whatever it is shown.

One answer adds 0 or 1 to each count, however often it repeats a word.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from affidavit.generation.models.base import LanguageModel

__all__ = ["count_words", "text_domain", "vocabulary_domain", "words"]

_WORD = re.compile(r"[^\W\d_]{3,}")
_LONGEST = 40

_COMMON = """
about above after again against all also although always among and another any anyone anything are aren around away
back because been before being below best better between both but came can cannot come could couldn did didn does
doesn doing done don down during each either else enough especially etc even ever every everyone everything few
find first for from further gave get gets getting give given gives goes going gone got had hadn has hasn have haven
having hello her here hers herself him himself his how however into isn its itself just keep kind know known last
least less let like likely little long look made make makes making many may maybe might mine more most much must
myself near need never next nor not nothing now off often once one ones only onto other others our ours ourselves
out over own part per perhaps please put quite rather really said same saw say says see seem seems seen several
shall she should shouldn since some someone something sometimes soon still such sure take taken takes taking than
that the their theirs them themselves then there these they thing things think this those though three through thus
till together too took toward two under until upon use used using usually various very via want was wasn way ways
well went were weren what whatever when where whether which while who whole whom whose why will with within without
won would wouldn yet you your yours yourself
"""
_FUNCTION_WORDS = frozenset(_COMMON.split())


def words(text: str) -> frozenset[str]:
    """The distinct keywords of a text."""
    found = (match.group() for match in _WORD.finditer(text.lower()))
    return frozenset(word for word in found if len(word) <= _LONGEST and word not in _FUNCTION_WORDS)


def text_domain(texts: Iterable[str], *, least: int = 1, said: Collection[str] = ()) -> tuple[str, ...]:
    """The keywords that at least ``least`` of some public texts hold, but those ``said``; in alphabetical order."""
    holding = Counter(word for text in texts for word in words(text))
    return tuple(sorted(word for word, count in holding.items() if count >= least and word not in said))


def vocabulary_domain(model: LanguageModel) -> tuple[str, ...]:
    """The keywords that are one token of the model, with the space before them; in alphabetical order."""
    pieces = (model.decode([token]) for token in range(model.vocabulary_size))
    whole = (piece[1:] for piece in pieces if piece.startswith(" ") and _WORD.fullmatch(piece[1:]))
    return text_domain(whole)


def count_words(answers: Iterable[str], domain: Sequence[str]) -> NDArray[np.int64]:
    """How many of ``answers`` hold each word of ``domain``."""
    place = {word: index for index, word in enumerate(domain)}
    counts = np.zeros(len(domain), dtype=np.int64)
    for answer in answers:
        counts[[place[word] for word in words(answer) if word in place]] += 1
    return counts
