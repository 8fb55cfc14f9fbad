"""Bytes to text.

In this order: the encoding that was asked for; a byte order mark; UTF-8 if every byte is; UTF-16 if every other byte
of the beginning is zero; else the guess of ``charset-normalizer``, which is said to be one.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field

from affidavit.accountant.errors import DataError, TableUnclear, UsageError, Way

__all__ = ["Decoded", "decode"]

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig", "UTF-8"),
    (codecs.BOM_UTF32_LE, "utf-32", "UTF-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16"),
)
_SAMPLE = 1 << 20
_COMMON = "cp1252"
_TIE = 0.01
_LIKELY = ("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp932", "gb18030", "big5", "euc_kr", "koi8_r")
"""What old files are written in (the WHATWG Encoding Standard's common ones); rarer ones are named by --encoding."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The text, and the encoding's name; ``guessed``: nothing in the file says so."""

    text: str = field(repr=False)
    encoding: str
    guessed: bool = False


def decode(content: bytes, *, name: str, encoding: str | None = None) -> Decoded:
    """A file's text. Raises ``UsageError`` for an unknown encoding, ``DataError`` where it does not fit the file."""
    if encoding is not None:
        return _as_asked(content, name, encoding)
    for mark, codec, shown in _MARKS:
        if content.startswith(mark):
            try:
                return Decoded(content.decode(codec), shown)
            except UnicodeDecodeError as error:
                raise _cut(content, error, name, f"begins as {shown}, and goes on otherwise") from None
    if (wide := _without_mark(content)) is not None:
        return wide
    try:
        return Decoded(content.decode("utf-8"), "UTF-8")
    except UnicodeDecodeError:
        return _guess(content, name)


def _as_asked(content: bytes, name: str, encoding: str) -> Decoded:
    try:
        text = content.decode(encoding)
    except LookupError:  # also for what is known and gives no text, such as rot13
        raise UsageError(
            f"--encoding {encoding[:40]!r} is not known", hint="For example: `--encoding utf-8` or `--encoding cp1252`"
        ) from None
    except UnicodeError as error:
        raise _cut(content, error, name, f"is not {codecs.lookup(encoding).name}") from None
    return Decoded(text.removeprefix("\ufeff"), codecs.lookup(encoding).name)


def _without_mark(content: bytes) -> Decoded | None:
    """UTF-16 without a mark: Latin text has a zero in every other byte, which no other encoding of text has."""
    head = content[:4096]
    for codec, offset in (("utf-16-le", 1), ("utf-16-be", 0)):
        if len(head) >= 4 and head[offset::2].count(0) > 0.4 * len(head) / 2 and head[1 - offset :: 2].count(0) == 0:
            try:
                return Decoded(content.decode(codec), codec.upper(), guessed=True)
            except UnicodeDecodeError:
                return None
    return None


def _guess(content: bytes, name: str) -> Decoded:
    """The likeliest encoding; Windows-1252, by far the commonest, wherever another is no likelier."""
    from charset_normalizer import from_bytes

    found = list(from_bytes(content[:_SAMPLE], cp_isolation=list(_LIKELY)))
    least, most = (
        min((match.chaos for match in found), default=0.0),
        max((match.coherence for match in found), default=0.0),
    )
    common = any(
        _COMMON in match.could_be_from_charset and match.chaos <= least + _TIE and match.coherence >= most - _TIE
        for match in found
    )
    guesses = [_COMMON] if common else [match.encoding for match in found[:1]]
    for codec in (*guesses, _COMMON):
        try:
            return Decoded(content.decode(codec), codec, guessed=True)
        except (UnicodeDecodeError, LookupError):
            continue
    raise TableUnclear(
        f"{name} is not text in an encoding that can be told",
        ways=(Way("Every byte is a character of", ("--encoding", "latin-1")),),
    )


def _cut(content: bytes, error: UnicodeError, name: str, problem: str) -> DataError:
    line = content.count(b"\n", 0, error.start if isinstance(error, UnicodeDecodeError) else 0) + 1
    return TableUnclear(
        f"{name}, line {line}: the file {problem}",
        ways=(Way("If it was written on Windows", ("--encoding", _COMMON)),),
    )
