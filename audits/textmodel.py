"""What an audit asks of a language model; the generators' back ends satisfy it structurally.

Three steps of access, each with all of the one before: an ``AnsweringModel`` shows text, a
``TextModel`` also how likely a continuation is, a ``TokenScoringModel`` that of every token with
the mean and spread of the whole next-token distribution (which takes the full logits). A ``SamplingModel`` is a
``TextModel`` that also says how likely a continuation is under other sampling than plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from affidavit.accountant.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "AnsweringModel",
    "PromptTemplate",
    "Record",
    "SamplingModel",
    "TextModel",
    "TokenScoringModel",
    "sampled_log_likelihoods",
]

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


@runtime_checkable
class SamplingModel(TextModel, Protocol):
    """One that also says how likely a continuation is where tokens are sampled otherwise than plainly."""

    def sampled_log_likelihoods(
        self, prompts: Sequence[str], continuations: Sequence[str], *, temperature: float, top_k: int | None
    ) -> list[float]:
        """As ``log_likelihoods``, at a temperature and from the ``top_k`` likeliest tokens (all of them: None)."""
        ...


def sampled_log_likelihoods(
    model: TextModel, prompts: Sequence[str], continuations: Sequence[str], *, temperature: float, top_k: int | None
) -> list[float]:
    """ln P(continuation | prompt) under a sampling scheme. Raises ``UsageError`` where the model cannot tell."""
    if temperature == 1.0 and top_k is None:
        return model.log_likelihoods(prompts, continuations)
    if not isinstance(model, SamplingModel):
        raise UsageError(
            f"{model.name} tells probabilities at temperature 1 over all tokens only",
            hint="Remove `temperature`, `top_k`.",
        )
    return model.sampled_log_likelihoods(prompts, continuations, temperature=temperature, top_k=top_k)
