"""Text in pieces of at most four bytes, so that a cut in pieces bounds what a server's tokenizer makes of it.

A server's tokenizer is not known here. Byte-level BPE, SentencePiece with bytes to fall back on and WordPiece all make
at most one token of a byte of the text, or of the Unicode normal form that they read it in. So a character weighs as
many bytes as its longest normal form has, and a prompt of n pieces is at most 4 n tokens long, whatever it says: blanks
or none, one script or another.
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["BYTES", "pieces", "weight", "whole"]

BYTES = 4
"""What a piece weighs at most; an English token has about as many bytes."""

_SURROGATES = re.compile("[\\ud800-\\udfff]")


def whole(text: str) -> str:
    """``text``; halves of characters, which JSON can say and which are no text, become U+FFFD."""
    return _SURROGATES.sub("\ufffd", text)


def weight(text: str) -> int:
    """Bytes of ``text``, each character in the longest of its normal forms."""
    if text.isascii():
        return len(text)
    return sum(_weight(character) for character in text)


def pieces(text: str) -> list[str]:
    """``text``, made ``whole`` and cut. A character that is heavier than a piece has empty pieces before it, so that a
    cut drops it whole."""
    found: list[str] = []
    held, heavy = "", 0
    for character in whole(text):
        here = _weight(character)
        if held and heavy + here > BYTES:
            found.append(held)
            held, heavy = "", 0
        if here > BYTES:
            found += [*[""] * (-(-here // BYTES) - 1), character]
        else:
            held, heavy = held + character, heavy + here
    return [*found, held] if held else found


def _weight(character: str) -> int:
    if character.isascii():
        return 1
    forms = (character, unicodedata.normalize("NFD", character), unicodedata.normalize("NFKD", character))
    return max(len(form.encode()) for form in forms)
