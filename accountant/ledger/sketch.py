"""Which accounts' records are the same: a keyed sketch of each, to find a new name for old data.

A sketch is the ``SIZE`` smallest keyed digests of the records (bottom-k sketch: Cohen and Kaplan 2007, "Summarizing
data using bottom-k sketches"). Below the smaller of two sketches' ends, both hold *all* digests of their sets, and
those are a uniform sample of each: the share of one found in the other estimates how much of the smaller set lies
in the larger. Sets of at most ``SIZE`` records are compared exactly. The digests are HMACs under a key in
``AFFIDAVIT_HOME``: without it they say nothing about any record. They are of the letters and digits of a record's
text, whatever their case, width or composition; not of its id and label, which another copy may have otherwise.

Parts of one data set (``parts``) are told by a digest's *last* digits, its ``place``, which the order above does not
look at: the sketch of a part is a uniform sample of the part, and can be held against one of the whole or of another
part. Behind the smallest digests stand those of the first and the last place, if they are not among them: whether a
whole set lies in an bracket can be seen.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Iterable, Sequence

__all__ = ["DIGITS", "SAME_DATA", "SIZE", "digest", "merge", "place", "share", "sketch"]

SIZE = 512

SAME_DATA = 0.1
"""From this share of common records on, two accounts hold the same data."""

_DOMAIN = b"affidavit/record-digest/v2\0"
_UNREAD = re.compile(r"[\W_]+")
DIGITS = 16
_FEWEST = 3  # common digests, before an estimate counts


def sketch(texts: Iterable[str], *, key: bytes) -> tuple[str, ...]:
    """Of the records' texts: at most ``SIZE`` digests, sorted, and up to two behind them."""
    ordered = sorted({digest(text, key=key) for text in texts})
    kept, rest = ordered[:SIZE], ordered[SIZE:]
    ends = {min(ordered, key=place), max(ordered, key=place)} if rest else set()
    return (*kept, *sorted(ends - set(kept)))


def merge(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """The sketch of both sets together, without what stands behind."""
    return tuple(sorted({*first, *second})[:SIZE])


def share(first: Sequence[str], second: Sequence[str]) -> float:
    """About how much of the smaller set lies in the other, in [0, 1]; 0 where too few are seen to say."""
    first, second = first[:SIZE], second[:SIZE]
    ends = [sketched[-1] for sketched in (first, second) if len(sketched) >= SIZE]
    end = min(ends) if ends else "g"
    seen = [{digest for digest in sketched if digest <= end} for sketched in (first, second)]
    common, smaller = len(seen[0] & seen[1]), min(map(len, seen))
    if not smaller or (ends and common < _FEWEST):
        return 0.0
    return common / smaller


def place(digest: str) -> int:
    """Where a record lies in [0, 16**DIGITS), by its digest read backwards."""
    return int(digest[::-1], 16)


def digest(text: str, *, key: bytes) -> str:
    """Of one record, keyed; of all its signs where it has no letter and no digit."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    content = _DOMAIN + (_UNREAD.sub("", plain) or plain).encode("utf-8", "surrogatepass")
    return hmac.new(key, content, hashlib.sha256).hexdigest()[:DIGITS]
