"""E-mail addresses: a generous scan, and ``email-validator`` (syntax only, never DNS) to decide.

Two spellings are the same address exactly when their normal forms are equal: Unicode
compatibility forms folded, ``mailto:`` and angle brackets dropped, case folded on both sides of
the @, sentence punctuation at the end dropped, the domain in its ASCII form, "name [at] domain
[dot] com" and "name at domain dot com" read as written. At gmail.com and googlemail.com, which
ignore them, dots and "+tags" are dropped too; elsewhere they may name different people and stay.

Reserved domains (``.invalid``, ``.example``, ``.test``) count: corpora written for tests use
them, and an address need not be deliverable to be a secret.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from affidavit.audits.pii.folding import fold
from affidavit.audits.pii.identifier import Identifier, Mention

__all__ = ["email_mentions", "normalise_email"]

_MAX_LOCAL = 64
_MAX_DOMAIN = 253

_AT = r"(?:\s?@\s?|\s*[\[({<]\s*(?:at|@)\s*[\])}>]\s*|%40)"
_DOT = r"(?:\.|\s*[\[({<]\s*(?:dot|\.)\s*[\])}>]\s*)"
_LOCAL = r"[^\W_](?:[\w.!#$%&'*+/=?^`{|}~-]{0,63})?"
_LABEL = r"[^\W_](?:[\w-]{0,61}[^\W_])?"
_ADDRESS = re.compile(rf"(?<![^\W_])({_LOCAL}){_AT}({_LABEL}(?:{_DOT}{_LABEL}){{1,8}})", re.IGNORECASE)
_SPOKEN_ENDS = "com|org|net|edu|gov|mil|int|info|biz|example|invalid|test"  # "noon dot then" is no address
_SPOKEN = re.compile(
    rf"(?<![^\W_])([^\W_][\w+-]*(?:(?:\.|\s+dot\s+)[\w+-]+)*)\s+at\s+"
    rf"({_LABEL}(?:(?:\.|\s+dot\s+){_LABEL})*\s+dot\s+(?:{_SPOKEN_ENDS}))\b",
    re.IGNORECASE,
)
_BRACKETED_DOT = re.compile(r"\s*[\[({<]\s*(?:dot|\.)\s*[\])}>]\s*|\s+dot\s+", re.IGNORECASE)
_IGNORES_DOTS = frozenset({"gmail.com", "googlemail.com"})


def normalise_email(written: str) -> str | None:
    """The normal form of one address, or None when it is no address.

    >>> normalise_email("mailto:Jane.Roe@Example.COM.") == normalise_email("jane.roe [at] example [dot] com")
    True
    >>> normalise_email("x@y.invalid")
    'x@y.invalid'
    """
    text = unicodedata.normalize("NFKC", written).strip()
    text = re.sub(r"^(?:mailto|e-?mail|smtp)\s*:\s*", "", text.strip("<>\"'()[] \t"), flags=re.IGNORECASE)
    match = _ADDRESS.search(text) or _SPOKEN.search(text)
    return None if match is None else _address(match.group(1), match.group(2))


def _address(local: str, domain: str) -> str | None:
    local = re.sub(r"\s+dot\s+", ".", local, flags=re.IGNORECASE).strip("._'`*-").casefold()
    domain = _BRACKETED_DOT.sub(".", domain).rstrip(".-").casefold()
    if not local or len(local) > _MAX_LOCAL or len(domain) > _MAX_DOMAIN:
        return None
    local, domain = _validated(local, domain)
    if not domain:
        return None
    if domain in _IGNORES_DOTS:
        local = local.split("+", 1)[0].replace(".", "")
        domain = "gmail.com"
    return f"{local}@{domain}" if local else None


def _validated(local: str, domain: str) -> tuple[str, str]:
    """Both sides as email-validator spells them, or two empty strings.

    Reserved top-level domains are refused there whatever the options, so a neutral one is
    appended for the check and taken off again: the syntax of every label is still examined.
    """
    from email_validator import EmailNotValidError, validate_email

    suffix = ".org" if _reserved(domain) else ""
    try:
        checked = validate_email(f"{local}@{domain}{suffix}", check_deliverability=False)
    except EmailNotValidError:
        return "", ""
    ascii_domain = checked.ascii_domain.casefold()
    return checked.local_part.casefold(), ascii_domain[: len(ascii_domain) - len(suffix)]


def _reserved(domain: str) -> bool:
    from email_validator import SPECIAL_USE_DOMAIN_NAMES

    return any(domain == name or domain.endswith(f".{name}") for name in SPECIAL_USE_DOMAIN_NAMES)


def email_mentions(text: str) -> Iterator[Mention]:
    """Every address in the text."""
    folded = fold(text)
    taken: list[tuple[int, int]] = []
    for pattern in (_ADDRESS, _SPOKEN):
        for match in pattern.finditer(folded.text):
            if any(match.start() < end and start < match.end() for start, end in taken):
                continue
            value = _address(match.group(1), match.group(2))
            if value is not None:
                taken.append(match.span())
                yield Mention(Identifier("email", value), *folded.span(*match.span()))
