"""Which accounts' records are the same: a keyed sketch of each, to find a new name for old data.

A sketch is the ``SIZE`` smallest keyed digests of the records (bottom-k sketch: Cohen and Kaplan 2007, "Summarizing
data using bottom-k sketches"). Below the smaller of two sketches' ends, both hold *all* digests of their sets, and
those are a uniform sample of each: the share of one found in the other estimates how much of the smaller set lies
in the larger. Sets of at most ``SIZE`` records are compared exactly. The digests are HMACs under a key in
``AFFIDAVIT_HOME``, of the label and the words of a record (not of its id, which a new copy may change): without the
key they say nothing about any record. Behind them stands the largest of all digests, if it is not among them: whether
a whole set lies in an interval can be seen (``parts``).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence

__all__ = ["DIGITS", "SAME_DATA", "SIZE", "digest", "merge", "share", "sketch"]

SIZE = 512

SAME_DATA = 0.1
"""From this share of common records on, two accounts hold the same data."""

_DOMAIN = b"affidavit/record-digest/v1\0"
DIGITS = 16
_FEWEST = 3  # common digests, before an estimate counts


def sketch(records: Iterable[tuple[str, str]], *, key: bytes) -> tuple[str, ...]:
    """Of (label, text) pairs; sorted. Blanks and case do not count."""
    ordered = sorted({digest(label, text, key=key) for label, text in records})
    return (*ordered[:SIZE], *ordered[SIZE:][-1:])


def merge(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """The sketch of both sets together, without the largest."""
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


def digest(label: str, text: str, *, key: bytes) -> str:
    """Of one record, keyed."""
    words = "\0".join((label, " ".join(text.split()))).casefold()
    content = _DOMAIN + words.encode("utf-8", "surrogatepass")
    return hmac.new(key, content, hashlib.sha256).hexdigest()[:DIGITS]
