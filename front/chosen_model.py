"""A model whose next-token logits are chosen: worst rows, by construction.

A row's logits follow from whom it shows. Records carry a mark (a control character, which no prompt's wording has), and
a row that holds a record's mark answers as that record's *part* says: the record that changes, before and after; all
others; and what shows no record at all: public prompts and the rows that fill a minibatch up.

A proof of sensitivity bounds what *any* row may do. So rows are taken to its corners: all mass on one token against all
mass on another, or on the token that the public prompt prefers; logits of 10^4 and −∞, constants added to a row, values
that are not finite; the other records agreeing with the changed one, or against it. For generators that count or embed
answers, a part is a list of words that is written one after another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

import numpy as np

from affidavit.generation.models.base import Decoding, Frame, Logits, Template, TokenModel
from affidavit.generation.models.toy import ToyModel

__all__ = ["MARKS", "WORDS", "ChosenModel", "Part", "Scenario", "scenarios", "script"]

Part: TypeAlias = Literal["changed", "replacement", "other", "nobody"]
Steps: TypeAlias = tuple[Logits, ...]

MARKS: Mapping[Part, str] = {"changed": "\x11", "replacement": "\x12", "other": "\x13"}
_LOW = np.float32(-1e4)

_WORDS = (
    "account invoice payment refund delivery package phone number password login reset update issue problem error "
    "service customer product price shipping date name news message mail world sports business technology science "
    "game match season company market stock shares profit report government president minister country city police "
    "court computer software internet data system film movie director story building river village school album"
)
WORDS: Sequence[str] = tuple(_WORDS.split())
"""Words that are one token after a space, and may be keywords."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """``parts``: for each, its logits at every step, over and over; or the words that it writes. ``telling``: what
    shows no record begins with two letters that hang on the whole prompt, so that no prompt changes unseen."""

    name: str
    parts: Mapping[Part, Steps]
    telling: bool = False


class ChosenModel(TokenModel):
    """The toy model's words with a scenario's logits; it never ends a text by itself."""

    name = "chosen"
    context_length = 1 << 24
    rows_apart_by_nature = True

    def __init__(self, scenario: Scenario, *, vocabulary_size: int) -> None:
        self._scenario = scenario
        self._toy = _toy()
        self._marks: dict[int, Part] = {self._toy.encode(mark)[0]: part for part, mark in MARKS.items()}
        self.vocabulary_size = vocabulary_size
        self.stop_tokens = frozenset[int]()
        self.digest = hashlib.sha256(f"chosen logits\0{scenario.name}\0{vocabulary_size}".encode()).hexdigest()
        self.versions: dict[str, str] = {}

    def frame(self, template: Template) -> Frame:
        return self._toy.frame(template)

    def encode(self, text: str, *, trusted: bool = False) -> list[int]:
        return self._toy.encode(text, trusted=trusted)

    def decode(self, tokens: Sequence[int]) -> str:
        return self._toy.decode([token for token in tokens if token < self._toy.vocabulary_size])

    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> Decoding:  # noqa: ARG002
        return _ChosenDecoding([self._steps(row) for row in rows])

    def _steps(self, row: Sequence[int]) -> Steps:
        part = self._part(row)
        steps = self._scenario.parts[part]
        if part != "nobody" or not self._scenario.telling:
            return steps
        drawn = hashlib.sha256(repr(tuple(row)).encode()).digest()
        word = " " + "".join(chr(ord("a") + byte % 26) for byte in drawn[:2])
        letters = (self._toy.encode(letter)[0] for letter in word)
        return (*(_row(self.vocabulary_size, {letter: 0.0}) for letter in letters), *steps)

    def _part(self, row: Sequence[int]) -> Part:
        """Whom a row shows: the changed record before anybody else."""
        tokens = set(row)
        for mark, part in self._marks.items():
            if mark in tokens:
                return part
        return "nobody"


class _ChosenDecoding:
    def __init__(self, parts: Sequence[Steps]) -> None:
        self._parts = parts
        self._step = 0

    @property
    def logits(self) -> Logits:
        return np.stack([steps[self._step % len(steps)] for steps in self._parts])

    def append(self, tokens: Sequence[int]) -> None:  # noqa: ARG002
        self._step += 1


@cache
def _toy() -> ToyModel:
    return ToyModel()


def _row(size: int, peaks: Mapping[int, float], *, low: np.float32 = _LOW, offset: float = 0.0) -> Logits:
    row = np.full(size, low, dtype=np.float32)
    for token, value in peaks.items():
        row[token] = value
    return row + np.float32(offset)


def script(words: Sequence[str], *, size: int) -> Steps:
    """The logits of a row that writes ``words``, one a step, over and over."""
    toy = _toy()
    return tuple(_row(size, {toy.encode(f" {word}")[0]: 0.0}) for word in words)


def scenarios(*, size: int, depth: float) -> tuple[Scenario, ...]:
    """For generators that release tokens. ``depth``: how far the public prompt's second best lies below its best;
    more than the generator clips at, so that a private row can be as far above the public one as it may count."""
    toy = _toy()
    one, two, best = (toy.encode(f" {word}")[0] for word in WORDS[:3])
    public = (_row(size, {best: 0.0, one: -depth, two: -depth}),)
    high, low = (_row(size, {one: 0.0}, offset=50.0),), (_row(size, {two: 0.0}, offset=-50.0),)
    like_public = (_row(size, {best: 0.0}),)
    masked = (_row(size, {one: 0.0}, low=np.float32(-np.inf)),)
    broken, infinite = (_row(size, {one: np.nan}),), (_row(size, {one: np.inf}),)
    flat = (np.zeros(size, dtype=np.float32),)
    ranked = np.linspace(0.0, -depth - 20.0, size, dtype=np.float32)
    ranked[[one, two, best]] = -depth, -depth, 1.0
    level = (_row(size, {best: 0.0, one: 0.0, two: 0.0}, low=np.float32(-0.01)),)
    unheard = (_row(size, {size - 1: 0.0}),)

    def scenario(name: str, changed: Steps, replacement: Steps, other: Steps, nobody: Steps = public) -> Scenario:
        return Scenario(name, {"changed": changed, "replacement": replacement, "other": other, "nobody": nobody})

    return (
        scenario("against all others", high, low, low),
        scenario("against the public prompt", high, like_public, like_public),
        scenario("with all others", high, low, high),
        scenario("masked", masked, low, low),
        scenario("not finite", broken, infinite, high),
        scenario("flat", flat, high, flat),
        scenario("alone", high, low, level, level),
        scenario("off the public list", unheard, low, flat, (ranked,)),
    )
