"""Prompts that show several records, and their fixed shape.

A private prompt shows up to N records of one subset; the public prompt shows none and is the *instruction alone*, from
which the vocabulary may be reduced. Public text surrounds and separates the records and is tokenised apart from them.
Every record is cut to ``max_record_tokens`` tokens, a prompt shows at most N, and every row is padded to one public
width: so neither length nor number shows in the shape of anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from affidavit.generation.prompts import PromptRows, PromptTemplate, fill, prompt_rows

if TYPE_CHECKING:
    from affidavit.generation.models.base import LanguageModel

__all__ = ["ShotRows", "shot_rows"]


@dataclass(frozen=True, slots=True)
class ShotRows:
    """The public tokens of one label's prompts, and the public width of its private rows."""

    one: PromptRows
    between: tuple[int, ...]
    shots: int

    @property
    def public(self) -> tuple[int, ...]:
        """The instruction-only prompt."""
        return self.one.public

    @property
    def opening(self) -> str:
        """What the synthetic text begins with."""
        return self.one.opening

    @property
    def width(self) -> int:
        """Tokens that a private row is padded to before any are generated."""
        extra = (self.shots - 1) * (len(self.between) + self.one.max_record_tokens)
        return self.one.width + extra

    def row(self, records: Sequence[Sequence[int]]) -> tuple[int, ...]:
        """The row of up to N records' tokens, each cut; with none it is a dummy row, whose outcome is not used."""
        shown: list[int] = []
        for index, tokens in enumerate(records[: self.shots]):
            shown += (
                (*self.between, *tokens[: self.one.max_record_tokens])
                if index
                else tokens[: self.one.max_record_tokens]
            )
        return (*self.one.before, *shown, *self.one.after)


def shot_rows(
    model: LanguageModel, template: PromptTemplate, *, label: str, shots: int, max_record_tokens: int
) -> ShotRows:
    """Tokenise a template for one label."""
    between = fill(template.between, "between", label=label)
    return ShotRows(
        prompt_rows(model, template, label=label, max_record_tokens=max_record_tokens),
        tuple(model.encode(between, trusted=True)),
        shots,
    )
