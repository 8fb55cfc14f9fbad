"""What an attack is: a name, what it needs to see, and scores of which a higher one says "member"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from affidavit.accountant.errors import UsageError
from affidavit.audits.textmodel import AnsweringModel, Record, TextModel, TokenScoringModel

__all__ = [
    "Access",
    "Attack",
    "MembershipAttack",
    "View",
    "access",
    "answering_model",
    "text_model",
    "token_scoring_model",
]

Access: TypeAlias = Literal[
    "released text", "answers", "label probabilities", "log-probabilities", "full logits", "mechanism"
]
"""What an attacker sees, from least to most: text that was published; what a prompted model answers;
the probability it gives to a label; to any continuation, token by token; to every token of its
vocabulary; the release function itself, on inputs he chooses."""


def access(*kinds: Access) -> frozenset[Access]:
    """What an attack needs."""
    return frozenset(kinds)


@dataclass(frozen=True, slots=True)
class View:
    """What one run shows the attacker: released ``texts``, and a ``model`` that answers.

    Two situations. Text was released: the attacker puts ``texts`` into prompts of his own, and
    ``model`` is the plain model. Or there is an in-context-learning endpoint: ``texts`` is empty,
    and ``model`` (see ``endpoint``) puts demonstrations before his queries that he does not see.
    """

    texts: tuple[str, ...]
    model: AnsweringModel | None = None


class Attack(Protocol):
    """Common to all attacks."""

    @property
    def name(self) -> str:
        """As an audit file calls it."""
        ...

    @property
    def needs(self) -> frozenset[Access]:
        """What it has to see."""
        ...


class MembershipAttack(Attack, Protocol):
    """Scores records by how much the view betrays that they were used: higher says "member" (a loss is negated)."""

    def scores(self, view: View, records: Sequence[Record]) -> list[float]:
        """One score a record, in the records' order; equal inputs give equal scores."""
        ...


def answering_model(view: View, attack: str) -> AnsweringModel:
    """The view's model. Raises ``UsageError`` when the attack is given text only."""
    if view.model is None:
        raise UsageError(
            f"{attack} needs a model to query", hint='Give the audit a model, or choose `attack = "extraction"`.'
        )
    return view.model


def text_model(view: View, attack: str) -> TextModel:
    """The view's model, if it tells log-probabilities. Raises ``UsageError``."""
    model = answering_model(view, attack)
    if not isinstance(model, TextModel):
        raise UsageError(
            f"{attack} needs log-probabilities, {model.name} shows text only",
            hint='`attack = "gap"` needs answers alone, as inquiry, repeat and brainwash do.',
        )
    return model


def token_scoring_model(view: View, attack: str) -> TokenScoringModel:
    """The view's model, if it tells them token by token. Raises ``UsageError``."""
    model = text_model(view, attack)
    if not isinstance(model, TokenScoringModel):
        raise UsageError(
            f"{attack} needs the scores of every token, {model.name} shows sums only",
            hint='`attack = "loss"` needs no more than log-probabilities, as reference and zlib do.',
        )
    return model
