"""Web addresses: found by ``linkify-it-py`` without a network, compared by their normal form.

Two spellings name one address when these agree (RFC 3986, section 6.2, and what browsers do):
host in lower-case ASCII without a leading ``www.``, no default port, no fragment, ``%7E`` read as
``~`` and other escapes in capitals, no slash at the end. ``http`` and ``https`` are one;
``hxxp`` and ``example[.]com`` are read as meant. Paths and queries keep their case: they may name
different pages. A user name in the address stays in it, being private itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from affidavit.audits.pii.folding import fold
from affidavit.audits.pii.identifier import Identifier, Mention

if TYPE_CHECKING:
    from linkify_it import LinkifyIt

__all__ = ["is_front_page", "normalise_url", "url_mentions"]

_HIDDEN_SCHEME = re.compile(r"\bhxxp(?=s?://)", re.IGNORECASE)
_HIDDEN_DOT = re.compile(r"\s?[\[({]\s*(?:dot|\.)\s*[\])}]\s?", re.IGNORECASE)
_BARE_HOST = re.compile(r"(?<![\w/@.:\-])www\.(?=[^\W_])", re.IGNORECASE)
_RESERVED = ["example", "invalid", "test", "localhost"]  # top-level names that corpora written for tests use
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_DEFAULT_PORTS = {"http": 80, "https": 443, "ftp": 21}
_SCHEMES = ("http:", "https:", "ftp:", "//", "")


@cache
def _linkifier() -> LinkifyIt:
    from linkify_it import LinkifyIt

    return LinkifyIt().tlds(_RESERVED, keep_old=True)


def normalise_url(written: str) -> str | None:
    """The normal form of one address, or None when it is none.

    >>> normalise_url("HTTP://www.Example.com:80/a/#top")
    'example.com/a'
    >>> normalise_url("https://example.com/%7ejane?x=1") == normalise_url("example.com/~jane?x=1")
    True
    """
    mention = next(url_mentions(written.strip()), None)
    return None if mention is None else mention.identifier.value


def is_front_page(value: str) -> bool:
    """Whether a normal form names a host and nothing on it."""
    return not set(value.removeprefix("ftp://")) & set("/?@")


def url_mentions(text: str) -> Iterator[Mention]:
    """Every web address in the text. A scheme is not needed after ``www.``, or where the ending says what it is."""
    folded = fold(text).replace(_HIDDEN_SCHEME, "http").replace(_HIDDEN_DOT, ".").replace(_BARE_HOST, "http://www.")
    for match in _linkifier().match(folded.text) or ():
        value = _normal_form(match.url) if match.schema in _SCHEMES else None
        if value is not None:
            yield Mention(Identifier("url", value), *folded.span(match.index, match.last_index))


def _normal_form(url: str) -> str | None:
    try:
        parts = urlsplit(f"http:{url}" if url.startswith("//") else url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host:
        return None
    scheme = parts.scheme.lower()
    where = _ascii(host).removeprefix("www.")
    if port is not None and port != _DEFAULT_PORTS.get(scheme):
        where = f"{where}:{port}"
    user, at, _ = parts.netloc.rpartition("@")
    path = _unescaped(parts.path).rstrip("/")
    query = f"?{_unescaped(parts.query)}" if parts.query else ""
    return ("ftp://" if scheme == "ftp" else "") + user + at + where + path + query


def _ascii(host: str) -> str:
    import idna

    try:
        return idna.encode(host, uts46=True).decode("ascii").lower()
    except idna.IDNAError:
        return host.casefold()


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        character = chr(int(match.group(1), 16))
        return character if character in _UNRESERVED else match.group(0).upper()

    return _ESCAPE.sub(plain, text)
