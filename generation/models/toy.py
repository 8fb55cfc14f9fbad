"""A tiny deterministic language model in numpy, for tests: no torch, no download, no training.

It behaves enough like a real one to be worth protecting: its logits depend on the whole prompt, it
continues text by copying what followed the same words earlier (so an address in the prompt leaks when
nothing protects it), answers a request for an address with the first one it read, and ends its answers.
Words outside its small vocabulary are spelt in bytes, so that any text can be encoded and decoded.

The logits of a row are a sum of: a fixed hash of (last token, token); a bonus for tokens that the row
contains; for each k = 1..6, what followed the row's last k tokens earlier in it; the address asked for;
and an end-of-answer term that grows with the answer. All of it is a function of that row's tokens alone.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence

import numpy as np

from affidavit.accountant.errors import UsageError
from affidavit.generation.models.base import Decoding, Frame, Logits, Template, TokenModel

__all__ = ["ToyModel"]

_WORDS = (
    "the a an and or of to in on at for with from by is are was were be been has have had will would can could not no "
    "it its this that these those we you I he she they our your my his her their as but if then so than more most "
    "all some any one two three new first last time day week year today here there please thanks thank hello dear "
    "regards best team order account invoice payment refund delivery package address email phone number password "
    "login reset update question answer help support issue problem error service customer product price shipping "
    "date name text news type message mail write another example world sports business technology science game "
    "match season company market stock shares profit report said says government president minister country city "
    "people police court computer software internet data system user web phone space film movie director story "
    "building river village school album plant animal who what when where why how which does did do "
)
_CONTROL = ("<end>", "<user>", "<assistant>")
_END, _USER, _ASSISTANT = range(len(_CONTROL))
_BYTES = len(_CONTROL)
_PIECE = re.compile(r" ?[A-Za-z]+|.", re.DOTALL)
_MARKS = re.compile("|".join(map(re.escape, _CONTROL)))
_ADDRESS = re.compile(r"[A-Za-z0-9._-]+@[A-Za-z0-9.-]+")
_REQUEST = re.compile(r"\b(e-?mail|address)", re.IGNORECASE)
_ORDERS = (1, 2, 3, 4, 5, 6)
_COPY_WEIGHT = (1.5, 1.5, 1.5, 2.0, 2.0, 2.0)
_ASKED_WEIGHT = 18.0
_REPEAT_PENALTY = 4.0
_REQUEST_WINDOW = 160


def _vocabulary() -> list[bytes]:
    words = dict.fromkeys(
        form for word in _WORDS.split() for form in (f" {word}", word.capitalize(), f" {word.capitalize()}")
    )
    return [b"" for _ in _CONTROL] + [bytes([value]) for value in range(256)] + [word.encode() for word in words]


class ToyModel(TokenModel):
    """See the module. It has no weights: its digest is that of its name and vocabulary."""

    name = "toy"
    context_length = 1 << 20
    rows_apart_by_nature = True

    def __init__(self) -> None:
        self._pieces = _vocabulary()
        self._index = {piece.decode(): token for token, piece in enumerate(self._pieces) if token >= _BYTES + 256}
        self.vocabulary_size = len(self._pieces)
        self.stop_tokens = frozenset({_END})
        self.digest = hashlib.sha256(b"affidavit toy model 1\0" + b"\0".join(self._pieces)).hexdigest()
        self.versions: dict[str, str] = {}
        tokens = np.arange(self.vocabulary_size, dtype=np.int64)
        scattered = (tokens[:, None] * 7919 + tokens[None, :] * 104729 + 12345) % 1009
        self._hash: Logits = (scattered / 1009.0).astype(np.float32)
        self._hash[:, : _BYTES + 256] -= np.float32(2.5)
        self._hash[:, :_BYTES] = np.float32(-20.0)

    def frame(self, template: Template) -> Frame:
        return ("<user>", "<assistant>") if template == "chat" else ("", "")

    def encode(self, text: str, *, trusted: bool = False) -> list[int]:
        tokens: list[int] = []
        position = 0
        for mark in _MARKS.finditer(text) if trusted else ():
            tokens += self._plain(text[position : mark.start()])
            tokens.append(_CONTROL.index(mark.group()))
            position = mark.end()
        return tokens + self._plain(text[position:])

    def _plain(self, text: str) -> list[int]:
        tokens: list[int] = []
        for piece in _PIECE.findall(text):
            if piece in self._index:
                tokens.append(self._index[piece])
            else:
                tokens += [_BYTES + value for value in piece.encode("utf-8", "replace")]
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        return b"".join(self._pieces[token] for token in tokens).decode("utf-8", "replace")

    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> Decoding:
        if any(not 0 < len(row) <= width for row in rows):
            raise UsageError("a row is empty or longer than the width of its batch", hint="Cut or widen the rows.")
        return _ToyDecoding(self, rows)

    def row_logits(self, row: _Row) -> Logits:
        """The logits after a row's tokens."""
        logits: Logits = self._hash[row.tokens[-1]].copy()
        for token, count in row.counts.items():
            logits[token] += np.float32(0.3 * math.log1p(count))
        for order, weight in zip(_ORDERS, _COPY_WEIGHT, strict=True):
            followers = row.followers.get(tuple(row.tokens[-order:]), {}) if len(row.tokens) >= order else {}
            total = sum(followers.values())
            for token, count in followers.items():
                logits[token] += np.float32(weight * count / total)
        logits[row.tokens[-1]] -= np.float32(_REPEAT_PENALTY if row.tokens[-1] >= _BYTES + 256 else 0.0)
        given = row.answer
        ended = row.tokens[-1] in (_BYTES + ord("."), _BYTES + ord("?"), _BYTES + ord("\n"))
        logits[_END] = np.float32(-4.0 + 0.1 * len(given) + (3.0 if ended and given else 0.0))
        if row.asked and given == row.asked[: len(given)]:
            logits[(*row.asked, _END)[len(given)]] += np.float32(_ASKED_WEIGHT)
        logits[_USER] = logits[_ASSISTANT] = np.float32(-20.0)
        return logits


class _Row:
    """What the logits depend on, kept up to date token by token.

    ``answer`` is what followed the last place where an answer begins; ``asked`` the tokens of the address
    that was asked for there, if any. What is copied is the text before the first answer.
    """

    def __init__(self, model: ToyModel, tokens: Sequence[int]) -> None:
        self._model = model
        self.tokens: list[int] = []
        self.counts: dict[int, int] = {}
        self.followers: dict[tuple[int, ...], dict[int, int]] = {}
        self.answer: tuple[int, ...] = ()
        self.asked: tuple[int, ...] = ()
        self._answering = False
        for token in tokens:
            self.append(token)

    def append(self, token: int) -> None:
        if not self._answering:
            self.counts[token] = self.counts.get(token, 0) + 1
            for order in _ORDERS[: len(self.tokens)]:
                following = self.followers.setdefault(tuple(self.tokens[-order:]), {})
                following[token] = following.get(token, 0) + 1
        self.tokens.append(token)
        self.answer = (*self.answer, token)
        if token in (_ASSISTANT, _BYTES + ord(":")):
            self._answering = self._answering or token == _ASSISTANT
            self.answer = ()
            self.asked = self._requested()

    def _requested(self) -> tuple[int, ...]:
        """The first address read, if one was asked for shortly before."""
        text = self._model.decode(self.tokens)
        found = _ADDRESS.search(text)
        if found is None or not _REQUEST.search(text[-_REQUEST_WINDOW:]):
            return ()
        return tuple(self._model.encode(found.group().rstrip(".")))


class _ToyDecoding:
    def __init__(self, model: ToyModel, rows: Sequence[Sequence[int]]) -> None:
        self._model = model
        self._rows = [_Row(model, row) for row in rows]

    @property
    def logits(self) -> Logits:
        return np.stack([self._model.row_logits(row) for row in self._rows])

    def append(self, tokens: Sequence[int]) -> None:
        for row, token in zip(self._rows, tokens, strict=True):
            row.append(token)
