"""What an attack is: a name, what it needs to see, and scores of which a higher one says "member"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from affidavit.audits.textmodel import Record, TextModel

__all__ = ["Access", "Attack", "MembershipAttack", "View"]

Access = Literal["released text", "label probabilities", "log-probabilities", "mechanism"]
"""What an attacker sees, from least to most: text that was published; the probability of a label
from a prompted model; of any continuation; the release function itself, on inputs he chooses."""


@dataclass(frozen=True, slots=True)
class View:
    """What one run shows the attacker: the released ``texts``, and the model they are put into.

    ``texts`` are released demonstrations or generated text; ``model`` answers when prompted
    with them (an in-context-learning endpoint).
    """

    texts: tuple[str, ...]
    model: TextModel | None = None


class Attack(Protocol):
    """Common to all attacks. Scores are always oriented so that higher means "member"."""

    @property
    def name(self) -> str:
        """As an audit file calls it."""
        ...

    @property
    def needs(self) -> frozenset[Access]:
        """What it has to see."""
        ...


class MembershipAttack(Attack, Protocol):
    """Scores records by how much the view betrays that they were used."""

    def scores(self, view: View, records: Sequence[Record]) -> list[float]:
        """One score a record, in the records' order; equal inputs give equal scores."""
        ...
