"""What an audit asks of a language model; the generators' back ends satisfy it structurally."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

__all__ = ["PromptTemplate", "Record", "TextModel"]

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
class TextModel(Protocol):
    """A causal language model seen through text and log-probabilities."""

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

    def log_likelihoods(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[float]:
        """Natural log-probability of each continuation after its prompt, summed over its tokens."""
        ...
