"""What released text shares with private records: whole passages, word for word or nearly, and ROUGE-L.

A passage of 20 words is rarely written twice by chance, but letters, footers and quoted mail are
copied by everybody, so each count stands beside its counterfactual: the same count against
records that were not in the data. A passage that both sides hold is evidence of neither and is
left out. ROUGE-L asks how much of the closest record's wording a text follows in order; the
closest of many is closer than the closest of few, so both sides lend as many records.

Words are runs of letters and digits, compatibility forms folded (NFKC) and case folded, for both
measures. ROUGE-L is the F1 of the longest common subsequence (Lin 2004, "ROUGE", section 3.2); which
record is closest is found exactly, by going through records in order of a bound: no common
subsequence is longer than the bag of common words.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from affidavit.accountant.errors import DataError
from affidavit.audits.deduplicate import drop_near_copies
from affidavit.audits.leaks import Overlap, OverlapSpan
from affidavit.audits.near_copies import Written, measure_near
from affidavit.audits.pii.identifier import Pseudonyms
from affidavit.audits.statistics.auc import exact_interval
from affidavit.audits.statistics.clopper_pearson import rate_interval
from affidavit.audits.textmodel import Record
from affidavit.audits.words import Words

__all__ = ["VERBATIM_WORDS", "SharedRun", "closest_rouge_l", "measure_overlap", "shared_runs"]

VERBATIM_WORDS = 20
_METHOD = "verbatim: Clopper-Pearson over texts; margin: betting over texts; both take texts as independent"


@dataclass(frozen=True, slots=True)
class SharedRun:
    """A longest run of words that one text shares with one record."""

    text: int
    record: int
    first: int = field(repr=False)
    words: int

    def starts(self, width: int) -> range:
        """The numbers of the words at which a passage of ``width`` words begins in it."""
        return range(self.first, self.first + self.words - width + 1)


def shared_runs(texts: Sequence[Words], records: Sequence[Words], *, words: int = VERBATIM_WORDS) -> list[SharedRun]:
    """Every longest common run of at least ``words`` words, of each text with each record. Exact."""
    windows: dict[tuple[str, ...], list[tuple[int, int]]] = defaultdict(list)
    for number, text in enumerate(texts):
        for first, window in text.windows(words):
            windows[window].append((number, first))
    runs: list[SharedRun] = []
    for record, written in enumerate(records if windows else ()):
        diagonals: dict[tuple[int, int], list[int]] = defaultdict(list)
        for place, window in written.windows(words):
            for number, first in windows.get(window, ()):
                diagonals[number, first - place].append(first)
        for (number, _), starts in diagonals.items():
            runs += [
                SharedRun(number, record, first, length + words - 1) for first, length in _consecutive(sorted(starts))
            ]
    return runs


def _consecutive(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(first, length) of each stretch of consecutive whole numbers."""
    start = 0
    for i in range(1, len(numbers) + 1):
        if i == len(numbers) or numbers[i] != numbers[i - 1] + 1:
            yield numbers[start], i - start
            start = i


def closest_rouge_l(texts: Sequence[Words], records: Sequence[Words]) -> list[float]:
    """For each text the largest ROUGE-L F1 over all records; 0 for a text without words."""
    postings: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for number, record in enumerate(records):
        for word, count in Counter(record.words).items():
            postings[word].append((number, count))
    return [_closest(text, records, postings) for text in texts]


def _closest(text: Words, records: Sequence[Words], postings: Mapping[str, Sequence[tuple[int, int]]]) -> float:
    """The largest F1 = 2 LCS / (both lengths); 0 where no record shares a word."""
    common: Counter[int] = Counter()
    for word, count in Counter(text.words).items():
        for number, held in postings.get(word, ()):
            common[number] += min(count, held)
    lengths = {number: len(text.words) + len(records[number].words) for number in common}
    bounds = {number: 2.0 * shared / lengths[number] for number, shared in common.items()}
    places = _places(text)
    best = 0.0
    for number in sorted(bounds, key=bounds.__getitem__, reverse=True):
        if bounds[number] <= best:
            break
        length = _common_subsequence(places, len(text.words), records[number].words)
        best = max(best, 2.0 * length / lengths[number])
    return best


def _places(text: Words) -> dict[str, int]:
    """Each word's places in the text, as the bits of a number."""
    places: dict[str, int] = defaultdict(int)
    for place, word in enumerate(text.words):
        places[word] |= 1 << place
    return places


def _common_subsequence(places: Mapping[str, int], length: int, words: Sequence[str]) -> int:
    """The length of the longest common subsequence, a row at a time in the bits of one number.

    Hyyrö (2004), "Bit-parallel LCS-length computation revisited": V ← (V + (V ∧ M)) ∨ (V ∧ ¬M); the zeros of V
    count the steps of the row.
    """
    ones = (1 << length) - 1
    row = ones
    for word in words:
        matched = row & places.get(word, 0)
        row = ((row + matched) | (row - matched)) & ones
    return length - row.bit_count()


def measure_overlap(
    texts: Sequence[str],
    members: Sequence[Record],
    held_out: Sequence[Record],
    *,
    alpha: float,
    words: int = VERBATIM_WORDS,
    pseudonyms: Pseudonyms,
    seed: int = 0,
    rouge: bool = True,
) -> Overlap:
    """Both measures of every released text against members and against records that were not in the data.

    Members that nearly copy a held-out record are dropped first, and counted. ``seed`` chooses
    which records of the larger side are compared by ROUGE-L, ``rouge`` whether any are. Raises ``DataError`` without
    held-out records: a count without its counterfactual says nothing.
    """
    unique = drop_near_copies(members, held_out)
    if not held_out or not unique.kept:
        raise DataError(
            "overlap needs members and held-out records that are not copies of one another",
            hint="give records like the members' that were not in the data",
        )
    released = [Words.of(text) for text in texts]
    inside, outside = (_Side.of(released, side, words) for side in (unique.kept, held_out))
    long_enough = sum(len(text.words) >= words for text in released)
    own, others = inside.beyond(outside, words=words), outside.beyond(inside, words=words)
    verbatim, held_out_verbatim = ({run.text for run in runs} for runs in (own, others))
    compared, close, close_out = _both_rouge_l(released if rouge else (), inside.words, outside.words, seed=seed)
    margins = [0.5 + 0.5 * (a - b) for a, b in zip(close, close_out, strict=True)]
    interval = exact_interval(margins, alpha=alpha) if margins else None
    return Overlap(
        words=words,
        texts=long_enough,
        members=len(unique.kept),
        held_out=len(held_out),
        verbatim=len(verbatim),
        held_out_verbatim=len(held_out_verbatim),
        verbatim_interval=rate_interval(len(verbatim), long_enough, alpha=alpha) if long_enough else None,
        longest=max((run.words for run in own), default=0),
        held_out_longest=max((run.words for run in others), default=0),
        compared=compared,
        rouge_l=_mean(close),
        held_out_rouge_l=_mean(close_out),
        highest_rouge_l=max(close, default=None),
        margin=_mean([2.0 * value - 1.0 for value in margins]),
        margin_interval=None if interval is None else (2.0 * interval[0] - 1.0, 2.0 * interval[1] - 1.0),
        interval_method=_METHOD,
        dropped_near_copies=unique.dropped,
        spans=tuple(
            sorted(
                [
                    *_spans(own, released, unique.kept, pseudonyms, held_out=False),
                    *_spans(others, released, held_out, pseudonyms, held_out=True),
                ],
                key=lambda span: (span.output, span.start, -span.end, span.record_hmac),
            )
        ),
        near=measure_near(
            released,
            Written(tuple(record.id for record in unique.kept), inside.words),
            Written(tuple(record.id for record in held_out), outside.words),
            pseudonyms=pseudonyms,
        ),
    )


@dataclass(frozen=True, slots=True)
class _Side:
    """One side's records as words, and the runs that the released texts share with them."""

    words: tuple[Words, ...]
    runs: tuple[SharedRun, ...]

    @classmethod
    def of(cls, released: Sequence[Words], records: Sequence[Record], words: int) -> _Side:
        written = tuple(Words.of(record.text) for record in records)
        return cls(written, tuple(shared_runs(released, written, words=words)))

    def beyond(self, other: _Side, *, words: int) -> list[SharedRun]:
        """What is left of the runs when every passage of ``words`` words that the other side holds too is taken out."""
        theirs: dict[int, set[int]] = defaultdict(set)
        for run in other.runs:
            theirs[run.text].update(run.starts(words))
        return [
            SharedRun(run.text, run.record, first, length + words - 1)
            for run in self.runs
            for first, length in _consecutive([start for start in run.starts(words) if start not in theirs[run.text]])
        ]


def _both_rouge_l(
    released: Sequence[Words], inside: Sequence[Words], outside: Sequence[Words], *, seed: int
) -> tuple[int, list[float], list[float]]:
    compared = min(len(inside), len(outside))
    generator = np.random.default_rng(seed)
    chosen = [[side[int(i)] for i in sorted(generator.permutation(len(side))[:compared])] for side in (inside, outside)]
    written = [text for text in released if text.words]
    return compared, closest_rouge_l(written, chosen[0]), closest_rouge_l(written, chosen[1])


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _spans(
    runs: Iterable[SharedRun],
    released: Sequence[Words],
    records: Sequence[Record],
    pseudonyms: Pseudonyms,
    *,
    held_out: bool,
) -> Iterator[OverlapSpan]:
    for run in runs:
        start, end = released[run.text].span(run.first, run.words)
        name = pseudonyms.digest("record", records[run.record].id)
        yield OverlapSpan(record_hmac=name, held_out=held_out, output=run.text, start=start, end=end, words=run.words)
