"""Near copies: windows of private records that released text holds but for a few words.

Who changes every nineteenth word copies no run of twenty, and yet copies: exact matching gives a false sense of privacy
(Ippolito, Tramèr, Nasr, Zhang, Jagielski, Lee, Choquette-Choo and Carlini 2023, INLG). They call a text approximately
memorised by its BLEU or its edit similarity with what followed a prompt; here no prompt is known, so every window of a
record is looked for everywhere in a text. The measure is edit similarity (Lee, Ippolito, Nystrom, Zhang, Eck,
Callison-Burch and Carlini 2022: 1 − edits / length, near-duplicates from 0.8 on), over words: a window of 20 words with
at most 4 of them replaced, inserted or dropped.

**Exact.** If a window of w words is in a text with at most k edits, one of its k + 1 pieces of ⌊w / (k + 1)⌋ words
stands there unedited, and nothing of the alignment is more than k places from that piece's diagonal. So every shared
piece names windows and the stretch of text where each has to lie; there the least number of edits is found by the
bit-parallel row of Myers 1999 (as Hyyrö 2003 writes it), many windows at a time.

**Common phrases accuse nobody.** Everybody nearly copies letters, footers and idioms. If the text does not depend on
which records were members, then which of the nearly copied records are members is a draw without replacement: the
chance of as many members among them is hypergeometric, exactly, where held-out records are drawn as the members were.
Words that a held-out record nearly holds too are evidence of neither, and no copy that touches them is shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from affidavit.audits.leaks import NearOverlap, OverlapSpan
from affidavit.audits.pii.identifier import Pseudonyms
from affidavit.audits.words import Words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]

__all__ = ["NEAR_EDITS", "NEAR_WORDS", "NearCopy", "Written", "chance_of_members", "measure_near", "near_copies"]

NEAR_WORDS = 20
NEAR_EDITS = 4
_BITS = 32
_BATCH = 1 << 15


@dataclass(frozen=True, slots=True, order=True)
class NearCopy:
    """A window of ``record`` from word ``first`` on, nearly standing in ``text`` up to its word ``last``."""

    text: int
    record: int
    first: int
    last: int
    edits: int


def near_copies(
    texts: Sequence[Words], records: Sequence[Words], *, words: int = NEAR_WORDS, edits: int = NEAR_EDITS
) -> list[NearCopy]:
    """Every window of every record that a text holds with at most ``edits`` edits, each where it has the fewest.

    ``words`` is at most 32. A window may be in a text at several places: each where it ends is told.
    """
    if not 0 <= edits < words <= _BITS:
        raise ValueError(f"near_copies: a window of {words} words with {edits} edits is not 0 <= edits < words <= 32")
    known: dict[str, int] = {}
    written = [_numbers(text, known) for text in texts]
    private = [_numbers(record, known) for record in records]
    candidates = _candidates(written, private, words=words, edits=edits)
    found: dict[tuple[int, int, int, int], NearCopy] = {}
    while batch := list(islice(candidates, _BATCH)):
        for copy in _aligned(np.asarray(batch), written, private, words=words, edits=edits):
            key = copy.text, copy.record, copy.first, copy.last
            found[key] = min(copy, found.get(key, copy))
    return sorted(found.values())


def _numbers(text: Words, known: dict[str, int]) -> Numbers:
    """Each word as a number, 0 upwards."""
    return np.asarray([known.setdefault(word, len(known)) for word in text.words], dtype=np.int64)


def _candidates(
    texts: Sequence[Numbers], records: Sequence[Numbers], *, words: int, edits: int
) -> Iterator[tuple[int, int, int, int]]:
    """(text, record, first word of the window, its place in the text if nothing before it were edited), each once."""
    piece = words // (edits + 1)
    places: Mapping[bytes, list[tuple[int, int]]] = defaultdict(list)
    for number, text in enumerate(texts):
        for at in range(len(text) - piece + 1):
            places[text[at : at + piece].tobytes()].append((number, at))
    for number, record in enumerate(records):
        seen: set[tuple[int, int, int]] = set()
        for at in range(len(record) - piece + 1):
            for text_number, place in places.get(record[at : at + piece].tobytes(), ()):
                for before in range(0, piece * (edits + 1), piece):
                    first = at - before
                    if 0 <= first <= len(record) - words:
                        seen.add((text_number, first, place - before))
        for text_number, first, start in sorted(seen):
            yield text_number, number, first, start


def _aligned(
    batch: Numbers, texts: Sequence[Numbers], records: Sequence[Numbers], *, words: int, edits: int
) -> Iterator[NearCopy]:
    """Those candidates that lie within ``edits`` of their diagonal with at most as many edits."""
    width = words + 2 * edits
    patterns = np.full((len(batch), _BITS), -2, dtype=np.int64)
    stretches = np.full((len(batch), width), -1, dtype=np.int64)
    for row, (text, record, first, start) in enumerate(batch.tolist()):
        patterns[row, :words] = records[record][first : first + words]
        low, high = max(0, start - edits), min(len(texts[text]), start + words + edits)
        stretches[row, low - start + edits : high - start + edits] = texts[text][low:high]
    least, at = _fewest_edits(patterns, stretches, words=words)
    for close in np.flatnonzero(least <= edits).tolist():
        text, record, first, start = batch[close].tolist()
        yield NearCopy(text, record, first, start - edits + int(at[close]), int(least[close]))


def _fewest_edits(patterns: Numbers, stretches: Numbers, *, words: int) -> tuple[Numbers, Numbers]:
    """For each pattern the fewest edits to a part of its stretch, and the place where the first such part ends."""
    whole = np.uint64((1 << words) - 1)
    top, one = np.uint64(words - 1), np.uint64(1)
    up = np.full(len(patterns), whole, dtype=np.uint64)
    down = np.zeros(len(patterns), dtype=np.uint64)
    score = np.full(len(patterns), words, dtype=np.int64)
    least, at = score.copy(), np.zeros(len(patterns), dtype=np.int64)
    for place in range(stretches.shape[1]):
        matches = np.packbits(patterns == stretches[:, place, None], axis=1, bitorder="little")
        equal = matches.view("<u4")[:, 0].astype(np.uint64)
        vertical = equal | down
        horizontal = (((equal & up) + up) ^ up) | equal
        rises, falls = (down | ~(horizontal | up)) & whole, up & horizontal & whole
        score += ((rises >> top) & one).astype(np.int64) - ((falls >> top) & one).astype(np.int64)
        rises, falls = (rises << one) & whole, (falls << one) & whole
        up, down = (falls | ~(vertical | rises)) & whole, rises & vertical
        better = score < least
        least[better], at[better] = score[better], place
    return least, at


def chance_of_members(
    nearly_copied: Iterable[int], held_out_nearly_copied: Iterable[int], *, members: int, held_out: int
) -> float:
    """Of so many members among the nearly copied records, or more, if the text does not know who is a member."""
    from scipy.stats import hypergeom

    inside, outside = len(set(nearly_copied)), len(set(held_out_nearly_copied))
    return min(1.0, float(hypergeom.sf(inside - 1, members + held_out, inside + outside, members)))


@dataclass(frozen=True, slots=True)
class Written:
    """One side's records: their names, and their words."""

    ids: tuple[str, ...]
    words: tuple[Words, ...]


def measure_near(
    texts: Sequence[Words],
    members: Written,
    held_out: Written,
    *,
    pseudonyms: Pseudonyms,
    words: int = NEAR_WORDS,
    edits: int = NEAR_EDITS,
) -> NearOverlap:
    """Near copies of either side in the released texts, and the chance that members are among them so often."""
    inside, outside = (near_copies(texts, side.words, words=words, edits=edits) for side in (members, held_out))
    own, others = _beyond(inside, outside, words), _beyond(outside, inside, words)
    nearly = {copy.record for copy in inside}, {copy.record for copy in outside}
    spans = [
        *_spans(own, texts, members, words, pseudonyms, held_out=False),
        *_spans(others, texts, held_out, words, pseudonyms, held_out=True),
    ]
    return NearOverlap(
        words=words,
        edits=edits,
        texts=sum(len(text.words) >= words - edits for text in texts),
        near=len({copy.text for copy in own}),
        held_out_near=len({copy.text for copy in others}),
        records=len(nearly[0]),
        held_out_records=len(nearly[1]),
        chance=chance_of_members(*nearly, members=len(members.words), held_out=len(held_out.words)),
        spans=tuple(sorted(spans, key=lambda span: (span.output, span.start, -span.end, span.record_hmac))),
    )


def _stretch(copy: NearCopy, words: int) -> range:
    return range(max(0, copy.last + 1 - words), copy.last + 1)


def _beyond(copies: Sequence[NearCopy], others: Sequence[NearCopy], words: int) -> list[NearCopy]:
    """Those that touch no word that the other side nearly holds too."""
    theirs: dict[int, set[int]] = defaultdict(set)
    for copy in others:
        theirs[copy.text].update(_stretch(copy, words))
    return [copy for copy in copies if theirs[copy.text].isdisjoint(_stretch(copy, words))]


def _spans(
    copies: Iterable[NearCopy],
    texts: Sequence[Words],
    side: Written,
    words: int,
    pseudonyms: Pseudonyms,
    *,
    held_out: bool,
) -> Iterator[OverlapSpan]:
    """Copies of one record that overlap in a text as one span, with the edits of its closest window."""
    joined: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    for copy in sorted(copies, key=lambda copy: copy.last):
        stretch, spans = _stretch(copy, words), joined[copy.text, copy.record]
        if spans and stretch.start <= spans[-1][1]:
            first, _, edits = spans.pop()
            spans.append((first, copy.last, min(edits, copy.edits)))
        else:
            spans.append((stretch.start, copy.last, copy.edits))
    for (text, record), spans in joined.items():
        name = pseudonyms.digest("record", side.ids[record])
        for first, last, edits in spans:
            start, end = texts[text].span(first, last - first + 1)
            yield OverlapSpan(
                record_hmac=name,
                held_out=held_out,
                output=text,
                start=start,
                end=end,
                words=last - first + 1,
                edits=edits,
            )
