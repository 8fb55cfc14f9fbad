"""Near-copies between members and non-members.

An attack that recognises a member from its near-copy among the non-members is wrong for a
reason that has nothing to do with privacy (and the other way round), so members that nearly
equal a non-member are dropped, and counted. AESLC has such copies within and across splits.

Two texts are compared as sets of runs of five words, letters and digits only, case folded:
near-copies when their Jaccard similarity reaches ``similarity``, or when one nearly contains
the other (a forwarded or quoted message). Exact, through an index of shared runs; no hashing
error to account for.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from affidavit.audits.textmodel import Record

__all__ = ["Deduplicated", "drop_near_copies", "is_near_copy", "shingles"]

_WIDTH = 5
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Deduplicated:
    """The members that stay, in their order, and how many were dropped."""

    kept: tuple[Record, ...]
    dropped: int


def shingles(text: str, *, width: int = _WIDTH) -> frozenset[tuple[str, ...]]:
    """The set of runs of ``width`` words; a shorter text is one run."""
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    if len(words) <= width:
        return frozenset([tuple(words)]) if words else frozenset()
    return frozenset(tuple(words[i : i + width]) for i in range(len(words) - width + 1))


def _close(shared: int, left: int, right: int, similarity: float, containment: float) -> bool:
    return shared >= similarity * (left + right - shared) or shared >= containment * min(left, right)


def is_near_copy(left: str, right: str, *, similarity: float = 0.5, containment: float = 0.8) -> bool:
    """Whether the two texts are near-copies. Texts without a word are near-copies of nothing."""
    a, b = shingles(left), shingles(right)
    return bool(a and b) and _close(len(a & b), len(a), len(b), similarity, containment)


def drop_near_copies(
    members: Sequence[Record],
    non_members: Sequence[Record],
    *,
    similarity: float = 0.5,
    containment: float = 0.8,
) -> Deduplicated:
    """Drop every member that is a near-copy of a non-member, or of a member before it."""
    index: dict[tuple[str, ...], list[int]] = defaultdict(list)
    sizes: list[int] = []

    def add(runs: frozenset[tuple[str, ...]]) -> None:
        for run in runs:
            index[run].append(len(sizes))
        sizes.append(len(runs))

    for record in non_members:
        add(shingles(record.text))
    kept: list[Record] = []
    for record in members:
        runs = shingles(record.text)
        shared = Counter(other for run in runs for other in index.get(run, ()))
        if any(_close(count, len(runs), sizes[other], similarity, containment) for other, count in shared.items()):
            continue
        kept.append(record)
        add(runs)
    return Deduplicated(tuple(kept), len(members) - len(kept))
