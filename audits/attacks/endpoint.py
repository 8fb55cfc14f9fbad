"""In-context-learning endpoints: models that put hidden demonstrations before every query.

What an attacker sees of a service, as opposed to released text. ``TextEndpoint`` answers only (and
takes any function, so a private voting or aggregating service fits); ``PromptedEndpoint`` also
tells the log-probabilities of the model behind it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from affidavit.audits.textmodel import AnsweringModel, PromptTemplate, TokenScoringModel, sampled_log_likelihoods

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Answer", "PromptedEndpoint", "TextEndpoint", "digest_of"]

Answer: TypeAlias = Callable[[Sequence[str], int], Sequence[str]]
"""(queries, most tokens of an answer) → answers."""


@dataclass(frozen=True, slots=True)
class TextEndpoint:
    """A service that answers with text; ``digest`` names it, its hidden part included."""

    name: str
    digest: str
    answer: Answer

    def generate(
        self,
        prompts: Sequence[str],
        *,
        max_tokens: int,
        template: PromptTemplate = "plain",  # noqa: ARG002 (the service frames its own prompts)
    ) -> list[str]:
        """What the service answers."""
        return list(self.answer(prompts, max_tokens))


@dataclass(frozen=True, slots=True)
class PromptedEndpoint:
    """``model`` behind ``demonstrations``, which stand before every query and are never shown."""

    model: TokenScoringModel
    demonstrations: tuple[str, ...]

    @property
    def name(self) -> str:
        """The model's, and that it is prompted."""
        return f"{self.model.name} behind {len(self.demonstrations)} demonstrations"

    @property
    def digest(self) -> str:
        """Of the model and the demonstrations: another prompt is another endpoint."""
        return digest_of(self.model, self.demonstrations)

    def __repr__(self) -> str:
        """Without the demonstrations: they are private."""
        return f"PromptedEndpoint({self.name})"

    def _behind(self, prompts: Sequence[str]) -> list[str]:
        return ["\n\n".join((*self.demonstrations, prompt)) for prompt in prompts]

    def generate(self, prompts: Sequence[str], *, max_tokens: int, template: PromptTemplate = "plain") -> list[str]:
        """The model's answers."""
        return self.model.generate(self._behind(prompts), max_tokens=max_tokens, template=template)

    def log_likelihoods(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[float]:
        """The model's."""
        return self.model.log_likelihoods(self._behind(prompts), continuations)

    def sampled_log_likelihoods(
        self, prompts: Sequence[str], continuations: Sequence[str], *, temperature: float, top_k: int | None
    ) -> list[float]:
        """The model's, if it tells them."""
        asked = self._behind(prompts)
        return sampled_log_likelihoods(self.model, asked, continuations, temperature=temperature, top_k=top_k)

    def token_scores(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[NDArray[np.float64]]:
        """The model's."""
        return self.model.token_scores(self._behind(prompts), continuations)


def digest_of(model: AnsweringModel, demonstrations: Sequence[str]) -> str:
    """SHA-256 of a model's own digest and of each demonstration's."""
    whole = hashlib.sha256(model.digest.encode())
    for text in demonstrations:
        whole.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    return whole.hexdigest()
