"""Whether a server answers prompts that it is asked at once as it answers each of them alone: tried on public ones.

A run file may declare a server ``independent``; several private prompts are then asked at once. Servers put such
prompts into one batch, and keep what they computed for earlier ones that begin alike: either can move the last bits of
an answer, or its words (docs/served-models.md). So before anything is charged, made-up prompts, half of which begin
alike, are asked alone, again (now they are known), at once, at once in other company and order; every answer must be
the same, number for number. That is evidence, not a proof: which prompts shared a batch, nobody is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

__all__ = ["PROMPTS", "alike"]

PROMPTS = 8
_TEXT = (
    "the letter came by night and the reader of it went from one town to another in a winter when every road was long "
    "and no house kept a light for those who had to know what a stranger wrote of corn and iron and the price of wool"
)
_Answer = TypeVar("_Answer")


def alike(ask: Callable[[Sequence[str], bool], list[_Answer]], *, longest: int) -> bool:
    """Whether the answers to made-up prompts of up to ``longest`` characters are the same in any company.

    ``ask(prompts, at_once)``: the answers to prompts, one after another or at once.
    """
    prompts = [_prompt(number, kind=0, longest=longest) for number in range(PROMPTS)]
    others = [_prompt(number, kind=1, longest=longest) for number in range(PROMPTS)]
    alone = ask(prompts, False)
    mixed = [
        other if number % 2 else prompt for number, (prompt, other) in enumerate(zip(prompts, others, strict=True))
    ]
    return (
        ask(prompts, False) == alone
        and ask(prompts, True) == alone
        and ask(prompts[::-1], True) == alone[::-1]
        and ask(mixed, True)[::2] == alone[::2]
    )


def _prompt(number: int, *, kind: int, longest: int) -> str:
    """Made up: every second one begins as the others do; of many lengths, one as long as can be."""
    words, step = _TEXT.split(), 1 + 2 * (number + PROMPTS * kind)
    begun = [words[place % len(words)] for place in range(longest // 8 if number % 2 else 1)]
    rest = [words[(step * place + 7 * number + kind) % len(words)] for place in range(longest)]
    shorter = longest if number == 0 else max(1, longest * (1 + (5 * number + 3 * kind) % PROMPTS) // PROMPTS)
    return " ".join([*begun, *rest])[:shorter]
