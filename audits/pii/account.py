"""Account numbers: what carries its own check, so that it can be told from any other digits.

    iban      ISO 13616, check digits and the country's own form (``python-stdnum``)
    card      ISO/IEC 7812: an issuer's range, its lengths, and the Luhn digit (``python-stdnum``)
    us-ssn    as its printed form 3-2-4, and never a number that was not issued (``python-stdnum``)
    bitcoin   Base58Check or Bech32 (``python-stdnum``)

A bare account number without check digits looks like any number and is not found: a number that
is secret by its context only needs a detector that knows the context.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from affidavit.audits.pii.folding import fold
from affidavit.audits.pii.identifier import Identifier, Mention

__all__ = ["account_mentions"]

_IBAN = re.compile(r"(?<![^\W_])[A-Z]{2}\d{2}(?:[ \-]?[A-Z0-9]{1,4}){3,9}(?![^\W_])", re.IGNORECASE)
_CARD = re.compile(r"(?<![\w.])\d(?:[ \-]?\d){12,18}(?![\w])")
_SSN = re.compile(r"(?<![\w.\-])\d{3}([ \-])\d{2}\1\d{4}(?![\w\-])")
_BITCOIN = re.compile(r"(?<![^\W_])(?:[13][1-9A-HJ-NP-Za-km-z]{25,34}|bc1[02-9ac-hj-np-z]{11,71})(?![^\W_])")
_SEPARATOR = re.compile(r"[ \-]")
_ISSUERS: tuple[tuple[re.Pattern[str], frozenset[int]], ...] = (
    (re.compile("4"), frozenset({13, 16, 19})),
    (re.compile("5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), frozenset({16})),
    (re.compile("3[47]"), frozenset({15})),
    (re.compile("30[0-5]|3[689]"), frozenset(range(14, 20))),
    (re.compile("35(?:2[89]|[3-8])"), frozenset(range(16, 20))),
    (re.compile("6011|64[4-9]|65|62"), frozenset(range(16, 20))),
)


def account_mentions(text: str) -> Iterator[Mention]:
    """Every account number in the text, each once: a longer reading hides a shorter one inside it."""
    folded = fold(text)
    taken: list[tuple[int, int]] = []
    for pattern, read in ((_IBAN, _iban), (_CARD, _card), (_SSN, _ssn), (_BITCOIN, _bitcoin)):
        for match in pattern.finditer(folded.text):
            found = read(match.group())
            if found is None:
                continue
            value, length = found
            span = match.start(), match.start() + length
            if not any(span[0] < end and start < span[1] for start, end in taken):
                taken.append(span)
                yield Mention(Identifier("account", value), *folded.span(*span))


def _shorter(written: str) -> Iterator[str]:
    """The text, then what is left of it when whole groups are taken from the end."""
    yield written
    for match in reversed(list(_SEPARATOR.finditer(written))):
        yield written[: match.start()]


def _checked(check: Callable[[str], bool], written: str) -> str | None:
    """The longest beginning of ``written``, in whole groups, that passes the check."""
    return next((reading for reading in _shorter(written) if check(_SEPARATOR.sub("", reading))), None)


def _iban(written: str) -> tuple[str, int] | None:
    from stdnum import iban

    reading = _checked(lambda number: bool(iban.is_valid(number)), written)
    return None if reading is None else (f"iban:{_SEPARATOR.sub('', reading).upper()}", len(reading))


def _is_card(number: str) -> bool:
    from stdnum import luhn

    issued = any(pattern.match(number) and len(number) in lengths for pattern, lengths in _ISSUERS)
    return issued and bool(luhn.is_valid(number))


def _card(written: str) -> tuple[str, int] | None:
    reading = _checked(_is_card, written)
    return None if reading is None else (f"card:{_SEPARATOR.sub('', reading)}", len(reading))


def _ssn(written: str) -> tuple[str, int] | None:
    from stdnum.us import ssn

    digits = _SEPARATOR.sub("", written)
    return (f"us-ssn:{digits}", len(written)) if ssn.is_valid(digits) else None


def _bitcoin(written: str) -> tuple[str, int] | None:
    from stdnum import bitcoin

    return (f"bitcoin:{written}", len(written)) if bitcoin.is_valid(written) else None
