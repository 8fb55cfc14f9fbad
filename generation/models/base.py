"""What a generator needs of a language model, and what an audit needs.

Generators see tokens: ``encode``, ``start`` and the growing ``Decoding``. Audits see text: greedy
``generate``, ``log_likelihoods`` and ``token_scores`` (``TextModel`` and ``TokenScoringModel`` of
``affidavit.audits``). ``TokenModel`` gives the second from the first, so a back end implements the
first only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import NotSupported, UsageError
from affidavit.generation.models.rows import BatchShape, RowEvidence, rows_stay_apart, summary

__all__ = [
    "Decoding",
    "Frame",
    "LanguageModel",
    "Logits",
    "Shared",
    "Spread",
    "Template",
    "TokenModel",
    "common_prefix",
    "moved_rows",
]

Logits: TypeAlias = NDArray[np.float32]
Template: TypeAlias = Literal["plain", "chat"]
Frame: TypeAlias = tuple[str, str]

_GENERATE_ROWS = 16


class Decoding(Protocol):
    """Prompts that grow token by token over one cache.

    Of private rows (``start_apart``) a row's logits are a function of that row's tokens, the number of rows and the
    width alone: never of the other rows' content, nor of the row's own position. Every proof of sensitivity needs it.
    """

    @property
    def logits(self) -> Logits:
        """Next-token logits, shape (rows, vocabulary), of the tokens so far."""
        ...

    def append(self, tokens: Sequence[int]) -> None:
        """One more token for every row."""
        ...


class Shared(Protocol):
    """Tokens that many prompts begin with, read once."""

    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> Decoding:
        """As ``LanguageModel.start``, each row after the shared tokens; ``width`` is without them."""
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

    def keep_apart(self, shapes: Iterable[BatchShape]) -> None:
        """Show that rows stay apart in the batches that a run will start; its receipt then says so (``versions``).

        To be called before anything is charged. Raises ``NotSupported`` where rows move one another.
        """
        ...

    def start_apart(self, rows: Sequence[Sequence[int]], *, width: int, steps: int) -> Decoding:
        """As ``start``, for private rows, whose logits are read ``steps`` times at most.

        They stay apart, as ``keep_apart`` showed or shows now. A row that cannot be computed is NaN, never an error.
        """
        ...

    def generate(self, prompts: Sequence[str], *, max_tokens: int, template: Template = "plain") -> list[str]:
        """Greedy continuations; no privacy."""
        ...

    def log_likelihoods(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[float]:
        """ln P(continuation | prompt), summed over the continuation's tokens, in nats."""
        ...

    def choice_log_likelihoods(self, prompts: Sequence[str], choices: Sequence[str]) -> NDArray[np.float64]:
        """ln P(choice | prompt) of every pair, in nats, shape (prompts, choices)."""
        ...

    def continuations(self, prompts: Sequence[str], *, max_tokens: int, stop: str) -> list[str]:
        """Greedy continuations of plain prompts, each up to the first ``stop``."""
        ...


class Spread(ABC):
    """A model that computes in several places."""

    together: int
    """How many texts may well be written side by side."""

    @abstractmethod
    def one_place(self) -> LanguageModel:
        """The model for one text at a time: all that is started there is computed in one place."""


class TokenModel(ABC):
    """A back end that implements ``encode``, ``decode`` and ``start`` gets the text methods from here."""

    name: str
    digest: str
    vocabulary_size: int
    stop_tokens: frozenset[int]
    context_length: int
    versions: dict[str, str]
    rows_apart_by_nature: bool = False
    """Whether ``start`` computes each row by itself, so that there is nothing to show."""

    @abstractmethod
    def frame(self, template: Template) -> Frame: ...

    @abstractmethod
    def encode(self, text: str, *, trusted: bool = False) -> list[int]: ...

    @abstractmethod
    def decode(self, tokens: Sequence[int]) -> str: ...

    @abstractmethod
    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> Decoding: ...

    def keep_apart(self, shapes: Iterable[BatchShape]) -> None:
        """As ``LanguageModel.keep_apart``."""
        if self.rows_apart_by_nature:
            self.versions["rows"] = "each row computed by itself"
        else:
            self.versions["rows"] = summary([self.evidence(shape) for shape in shapes])

    def start_apart(self, rows: Sequence[Sequence[int]], *, width: int, steps: int) -> Decoding:
        """As ``LanguageModel.start_apart``."""
        if not self.rows_apart_by_nature:
            self.evidence(BatchShape(len(rows), width, steps))
        return self.start(rows, width=width)

    def evidence(self, shape: BatchShape) -> RowEvidence:
        """That rows stay apart in batches of ``shape``: tried now. Raises ``NotSupported``."""
        if not rows_stay_apart(
            lambda rows, width: self.start(rows, width=width), shape, vocabulary=self.vocabulary_size
        ):
            raise moved_rows(self.name)
        return RowEvidence(shape, self.name)

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
        return self._decoded(self.start(rows, width=max(len(row) for row in rows)), len(rows), max_tokens)

    def _decoded(self, decoding: Decoding, rows: int, max_tokens: int, stop: str = "") -> list[list[int]]:
        """Greedy tokens of every row until an end token, or the text ``stop`` if there is one."""
        answers: list[list[int]] = [[] for _ in range(rows)]
        running = [True] * rows
        for step in range(max_tokens):
            best = [int(token) for token in decoding.logits.argmax(axis=1)]
            for index, token in enumerate(best):
                running[index] = running[index] and token not in self.stop_tokens
                if running[index]:
                    answers[index].append(token)
                    running[index] = not stop or stop not in self.decode(answers[index])
            if not any(running) or step == max_tokens - 1:
                break
            decoding.append(best)
        return answers

    def log_likelihoods(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[float]:
        """Sums of log-probabilities of the continuations' tokens, in nats, one row at a time."""
        return [float(scores[:, 0].sum()) for scores in self._scored_one_by_one(prompts, continuations)]

    def token_scores(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[NDArray[np.float64]]:
        """For each continuation, a row a token: ln p(token), and mean and standard deviation of ln p under p."""
        return list(self._scored_one_by_one(prompts, continuations))

    def _scored_one_by_one(self, prompts: Sequence[str], continuations: Sequence[str]) -> Iterator[NDArray[np.float64]]:
        for prompt, continuation in _paired(prompts, continuations):
            scores = [_token_score(logits, token) for logits, token in self._read(prompt, continuation)]
            yield np.array(scores, dtype=np.float64).reshape(-1, 3)

    def _read(self, prompt: str, continuation: str) -> Iterator[tuple[NDArray[np.float64], int]]:
        """Each token of a continuation, with the logits that it was chosen from."""
        row, tokens = self.prompt_tokens(prompt, "plain"), self.encode(continuation)
        decoding = self.start([row], width=len(row)) if tokens else None
        for index, token in enumerate(tokens):
            if decoding is not None:
                if index:
                    decoding.append([tokens[index - 1]])
                yield decoding.logits[0].astype(np.float64), token

    def sampled_log_likelihoods(
        self, prompts: Sequence[str], continuations: Sequence[str], *, temperature: float, top_k: int | None
    ) -> list[float]:
        """ln of the probability that sampling at ``temperature`` from the ``top_k`` likeliest tokens gives each.

        Tokens as likely as the last of the ``top_k`` are kept with it; −inf where a token is among neither.
        """
        return [
            sum(_sampled(logits / temperature, token, top_k) for logits, token in self._read(prompt, continuation))
            for prompt, continuation in _paired(prompts, continuations)
        ]

    def share(self, tokens: Sequence[int]) -> Shared:
        """What many prompts begin with; a back end that can keep it reads it once."""
        return _Joined(self, tuple(tokens))

    def choice_log_likelihoods(self, prompts: Sequence[str], choices: Sequence[str]) -> NDArray[np.float64]:
        """ln P(choice | prompt) of every pair, in nats, shape (prompts, choices): all pairs, one after another."""
        pairs = [(prompt, choice) for prompt in prompts for choice in choices]
        found = self.log_likelihoods([prompt for prompt, _ in pairs], [choice for _, choice in pairs])
        return np.array(found, dtype=np.float64).reshape(len(prompts), len(choices))

    def continuations(self, prompts: Sequence[str], *, max_tokens: int, stop: str) -> list[str]:
        """Greedy continuations of plain prompts, at most ``max_tokens`` tokens, each up to the first ``stop``.

        What all prompts begin with is read once. Raises ``UsageError`` where they do not fit the model.
        """
        rows = [self.prompt_tokens(prompt, "plain") for prompt in prompts]
        self.check_lengths(rows, extra=max_tokens)
        begun = common_prefix(rows)
        shared = self.share(rows[0][:begun]) if begun else None
        answers = [""] * len(rows)
        by_length = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        for first in range(0, len(by_length), _GENERATE_ROWS):
            chosen = by_length[first : first + _GENERATE_ROWS]
            rest = [rows[index][begun:] for index in chosen]
            width = max(map(len, rest))
            decoding = shared.start(rest, width=width) if shared else self.start(rest, width=width)
            for index, tokens in zip(chosen, self._decoded(decoding, len(rest), max_tokens, stop), strict=True):
                answers[index] = self.decode(tokens).partition(stop)[0]
        return answers

    def check_lengths(self, rows: Sequence[Sequence[int]], *, extra: int = 0) -> None:
        """Raises ``UsageError`` when a row and ``extra`` more tokens do not fit the model."""
        longest = max((len(row) for row in rows), default=0) + extra
        if longest > self.context_length:
            raise UsageError(
                f"a prompt and its answer need {longest} tokens, {self.name} reads {self.context_length}",
                hint="Shorten the prompts or lower max_tokens.",
            )


def _token_score(logits: NDArray[np.float64], token: int) -> tuple[float, float, float]:
    shifted = logits - logits.max()
    logs = shifted - np.log(np.exp(shifted).sum())
    weights = np.exp(logs)
    possible = np.where(weights > 0.0, logs, 0.0)  # a token of probability 0 contributes 0, not 0 x -inf
    mean = float(weights @ possible)
    return float(logs[token]), mean, float(np.sqrt(weights @ (possible - mean) ** 2))


def _paired(prompts: Sequence[str], continuations: Sequence[str]) -> Iterator[tuple[str, str]]:
    if len(prompts) != len(continuations):
        raise UsageError("prompts and continuations differ in number", hint="Give one continuation a prompt.")
    return zip(prompts, continuations, strict=True)


def _sampled(logits: NDArray[np.float64], token: int, top_k: int | None) -> float:
    """ln p of a token among the ``top_k`` likeliest (all of them: None)."""
    if top_k is not None and top_k < len(logits):
        least = np.partition(logits, -top_k)[-top_k]
        logits = np.where(logits >= least, logits, -np.inf)
    shifted = logits - logits.max()
    return float(shifted[token] - np.log(np.exp(shifted).sum()))


def moved_rows(name: str, *, where: str = "this processor", hint: str = "") -> NotSupported:
    """The refusal of a model whose rows move one another."""
    return NotSupported(
        f"on {where} a row of {name} depends on the other rows of its batch, or on nothing that stays the same",
        hint=hint or 'Use a model that repeats itself, such as `model.name = "smollm2-135m"`.',
    )


class _Joined:
    """Shared tokens put before every row: what a back end without a cache to keep does."""

    def __init__(self, model: TokenModel, tokens: tuple[int, ...]) -> None:
        self._model = model
        self._tokens = tokens

    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> Decoding:
        return self._model.start([(*self._tokens, *row) for row in rows], width=len(self._tokens) + width)


def common_prefix(rows: Sequence[Sequence[int]]) -> int:
    """How many tokens all rows begin with; at least one of each row is left over."""
    first, last = min(map(tuple, rows), default=()), max(map(tuple, rows), default=())
    most = min((len(row) for row in rows), default=1) - 1
    shared = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return max(0, min(shared, most))
