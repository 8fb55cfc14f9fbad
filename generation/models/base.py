"""What a generator needs of a language model, and what an audit needs.

Generators see tokens: ``encode``, ``start`` and the growing ``Decoding``. Audits see text: greedy
``generate`` and ``log_likelihoods`` (the ``TextModel`` of ``affidavit.audits``). ``TokenModel``
gives the second from the first, so a back end implements the first only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import UsageError

__all__ = ["Decoding", "Frame", "LanguageModel", "Logits", "Template", "TokenModel"]

Logits: TypeAlias = NDArray[np.float32]
Template: TypeAlias = Literal["plain", "chat"]
Frame: TypeAlias = tuple[str, str]

_GENERATE_ROWS = 16


class Decoding(Protocol):
    """Prompts that grow token by token over one cache.

    A row's logits are a function of that row's tokens, the number of rows and the width alone:
    never of the other rows' content, nor of the row's own position. PRISM's proof needs it.
    """

    @property
    def logits(self) -> Logits:
        """Next-token logits, shape (rows, vocabulary), of the tokens so far."""
        ...

    def append(self, tokens: Sequence[int]) -> None:
        """One more token for every row."""
        ...


class LanguageModel(Protocol):
    """A causal language model over a fixed vocabulary."""

    @property
    def name(self) -> str: ...

    @property
    def digest(self) -> str:
        """SHA-256 of the *source* weights, as hex."""
        ...

    @property
    def vocabulary_size(self) -> int: ...

    @property
    def stop_tokens(self) -> frozenset[int]:
        """Tokens that end an answer."""
        ...

    @property
    def context_length(self) -> int:
        """The most tokens that a row may grow to."""
        ...

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the libraries that compute the logits, for the receipt."""
        ...

    def frame(self, template: Template) -> Frame:
        """The text before and after a user's message, up to where the answer begins."""
        ...

    def encode(self, text: str, *, trusted: bool = False) -> list[int]:
        """Tokens of ``text``; control tokens are recognised in ``trusted`` text only."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without control tokens."""
        ...

    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> Decoding:
        """Prefill: every row padded to ``width`` tokens. Raises ``UsageError`` on a longer row."""
        ...

    def generate(self, prompts: Sequence[str], *, max_tokens: int, template: Template = "plain") -> list[str]:
        """Greedy continuations; no privacy."""
        ...

    def log_likelihoods(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[float]:
        """ln P(continuation | prompt), summed over the continuation's tokens, in nats."""
        ...


class TokenModel(ABC):
    """A back end that implements ``encode``, ``decode`` and ``start`` gets the text methods from here."""

    name: str
    digest: str
    vocabulary_size: int
    stop_tokens: frozenset[int]
    context_length: int
    versions: dict[str, str]

    @abstractmethod
    def frame(self, template: Template) -> Frame: ...

    @abstractmethod
    def encode(self, text: str, *, trusted: bool = False) -> list[int]: ...

    @abstractmethod
    def decode(self, tokens: Sequence[int]) -> str: ...

    @abstractmethod
    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> Decoding: ...

    def prompt_tokens(self, prompt: str, template: Template) -> list[int]:
        """A whole prompt: the frame is trusted, the prompt is not."""
        head, tail = self.frame(template)
        return [*self.encode(head, trusted=True), *self.encode(prompt), *self.encode(tail, trusted=True)]

    def generate(self, prompts: Sequence[str], *, max_tokens: int, template: Template = "plain") -> list[str]:
        """Greedy continuations, at most ``max_tokens`` tokens each, in the order of ``prompts``."""
        rows = [self.prompt_tokens(prompt, template) for prompt in prompts]
        self.check_lengths(rows, extra=max_tokens)
        answers: list[str] = [""] * len(rows)
        by_length = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        for first in range(0, len(by_length), _GENERATE_ROWS):
            chosen = by_length[first : first + _GENERATE_ROWS]
            for index, tokens in zip(chosen, self._greedy([rows[i] for i in chosen], max_tokens), strict=True):
                answers[index] = self.decode(tokens)
        return answers

    def _greedy(self, rows: list[list[int]], max_tokens: int) -> list[list[int]]:
        decoding = self.start(rows, width=max(len(row) for row in rows))
        answers: list[list[int]] = [[] for _ in rows]
        running = [True] * len(rows)
        for step in range(max_tokens):
            best = [int(token) for token in decoding.logits.argmax(axis=1)]
            for index, token in enumerate(best):
                running[index] = running[index] and token not in self.stop_tokens
                if running[index]:
                    answers[index].append(token)
            if not any(running) or step == max_tokens - 1:
                break
            decoding.append(best)
        return answers

    def log_likelihoods(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[float]:
        """Sums of log-probabilities of the continuations' tokens, in nats, one row at a time."""
        if len(prompts) != len(continuations):
            raise UsageError("prompts and continuations differ in number", hint="Give one continuation a prompt.")
        return [self._log_likelihood(p, c) for p, c in zip(prompts, continuations, strict=True)]

    def _log_likelihood(self, prompt: str, continuation: str) -> float:
        row, tokens = self.prompt_tokens(prompt, "plain"), self.encode(continuation)
        if not tokens:
            return 0.0
        decoding = self.start([row], width=len(row))
        total = 0.0
        for index, token in enumerate(tokens):
            if index:
                decoding.append([tokens[index - 1]])
            logits = decoding.logits[0].astype(np.float64)
            peak = logits.max()
            total += float(logits[token] - peak - np.log(np.exp(logits - peak).sum()))
        return total

    def check_lengths(self, rows: Sequence[Sequence[int]], *, extra: int = 0) -> None:
        """Raises ``UsageError`` when a row and ``extra`` more tokens do not fit the model."""
        longest = max((len(row) for row in rows), default=0) + extra
        if longest > self.context_length:
            raise UsageError(
                f"a prompt and its answer need {longest} tokens, {self.name} reads {self.context_length}",
                hint="Shorten the prompts or lower max_tokens.",
            )
