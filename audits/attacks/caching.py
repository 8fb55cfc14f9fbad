"""Computed once, looked up ever after.

Most of what an audit asks of a language model does not depend on the run: the clean output of a
record (without any private context, or under a shadow prompt), the null pair's fixed
demonstration, the unprotected answer to a prompt. An answer costs a thousand times its look-up.
``computed`` against ``asked`` says how much was saved.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from affidavit.audits.attacks.protocol import Access, MembershipAttack, View
from affidavit.audits.textmodel import AnsweringModel, PromptTemplate, Record, TextModel, TokenScoringModel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Memory", "Remembering", "remembering_model"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True)
class Memory(Generic[K, V]):
    """Values by key; those that are missing are computed together, each once."""

    asked: int = field(default=0, init=False)
    _values: dict[K, V] = field(default_factory=dict, init=False, repr=False)

    @property
    def computed(self) -> int:
        """How many values were computed, of ``asked``."""
        return len(self._values)

    def get(self, keys: Sequence[K], compute: Callable[[list[K]], Sequence[V]]) -> list[V]:
        """The values of ``keys``, in their order; ``compute`` is given those not seen before, once each."""
        self.asked += len(keys)
        fresh = [key for key in dict.fromkeys(keys) if key not in self._values]
        if fresh:
            self._values.update(zip(fresh, compute(fresh), strict=True))
        return [self._values[key] for key in keys]


_Key: TypeAlias = tuple[tuple[str, ...], str, Record]


@dataclass(slots=True)
class Remembering:
    """``attack`` with a memory, keyed by everything that its score may depend on."""

    attack: MembershipAttack
    memory: Memory[_Key, float] = field(default_factory=Memory, init=False, repr=False)

    @property
    def name(self) -> str:
        """The attack's own."""
        return self.attack.name

    @property
    def needs(self) -> frozenset[Access]:
        """The attack's own."""
        return self.attack.needs

    def scores(self, view: View, records: Sequence[Record]) -> list[float]:
        """As the attack scores them."""
        model = "" if view.model is None else view.model.digest

        def fresh(keys: list[_Key]) -> list[float]:
            return self.attack.scores(view, [record for _, _, record in keys])

        return self.memory.get([(view.texts, model, record) for record in records], fresh)


def remembering_model(model: AnsweringModel) -> AnsweringModel:
    """``model`` with a memory of its answers and scores, and of just as much as it shows.

    Several attacks ask the same questions: ``loss``, ``zlib`` and ``reference`` want one likelihood, ``gap`` and
    the first round of ``brainwash`` one answer.
    """
    if isinstance(model, TokenScoringModel):
        return _TokenScoring(model)
    if isinstance(model, TextModel):
        return _Scoring(model)
    return _Answering(model)


class _Answering:
    def __init__(self, answering: AnsweringModel) -> None:
        self.name = answering.name
        self.digest = answering.digest
        self.answers: Memory[tuple[str, int, PromptTemplate], str] = Memory()
        self._answering = answering

    def generate(self, prompts: Sequence[str], *, max_tokens: int, template: PromptTemplate = "plain") -> list[str]:
        """The model's."""

        def fresh(keys: list[tuple[str, int, PromptTemplate]]) -> list[str]:
            return self._answering.generate([key[0] for key in keys], max_tokens=max_tokens, template=template)

        return self.answers.get([(prompt, max_tokens, template) for prompt in prompts], fresh)


class _Scoring(_Answering):
    def __init__(self, scoring: TextModel) -> None:
        super().__init__(scoring)
        self.likelihoods: Memory[tuple[str, str], float] = Memory()
        self._scoring = scoring

    def log_likelihoods(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[float]:
        """The model's."""

        def fresh(keys: list[tuple[str, str]]) -> list[float]:
            return self._scoring.log_likelihoods([start for start, _ in keys], [text for _, text in keys])

        return self.likelihoods.get(list(zip(prompts, continuations, strict=True)), fresh)


class _TokenScoring(_Scoring):
    def __init__(self, tokens: TokenScoringModel) -> None:
        super().__init__(tokens)
        self.tokens: Memory[tuple[str, str], NDArray[np.float64]] = Memory()
        self._tokens = tokens

    def token_scores(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[NDArray[np.float64]]:
        """The model's."""

        def fresh(keys: list[tuple[str, str]]) -> list[NDArray[np.float64]]:
            return self._tokens.token_scores([start for start, _ in keys], [text for _, text in keys])

        return self.tokens.get(list(zip(prompts, continuations, strict=True)), fresh)
