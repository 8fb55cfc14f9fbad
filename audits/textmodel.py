"""What an audit asks of a language model; the generators' back ends satisfy it structurally.

Three steps of access, each with all of the one before: an ``AnsweringModel`` shows text, a
``TextModel`` also how likely a continuation is, a ``TokenScoringModel`` that of every token with
the mean and spread of the whole next-token distribution (which takes the full logits).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["AnsweringModel", "PromptTemplate", "Record", "TextModel", "TokenScoringModel"]

PromptTemplate = Literal["plain", "chat"]


@dataclass(frozen=True, slots=True)
class Record:
    """One record under audit: a unique intrinsic ``id``, its ``text``, and its label if it has one."""

    id: str
    text: str
    label: str | None = None

    def __repr__(self) -> str:
        """Without the text: a traceback must not print a private record."""
        return "Record(...)"


@runtime_checkable
class AnsweringModel(Protocol):
    """A causal language model seen through the text that it answers with."""

    @property
    def name(self) -> str:
        """The model's name, as the certificate states it."""
        ...

    @property
    def digest(self) -> str:
        """SHA-256 of the source weights."""
        ...

    def generate(self, prompts: Sequence[str], *, max_tokens: int, template: PromptTemplate = "plain") -> list[str]:
        """Greedy continuations, one a prompt; ``template="chat"`` wraps each prompt as a user's message."""
        ...


@runtime_checkable
class TextModel(AnsweringModel, Protocol):
    """One that also says how likely a given continuation is."""

    def log_likelihoods(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[float]:
        """Natural log-probability of each continuation after its prompt, summed over its tokens."""
        ...


@runtime_checkable
class TokenScoringModel(TextModel, Protocol):
    """One that also says so token by token, and how likely the tokens were that it did not get."""

    def token_scores(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[NDArray[np.float64]]:
        """For each continuation one row a token, three columns.

        ln p of the token, and mean and standard deviation of ln p(v) over tokens v drawn from the
        next-token distribution p itself. Natural logarithms; the first column sums to the
        continuation's ``log_likelihoods``.
        """
        ...
