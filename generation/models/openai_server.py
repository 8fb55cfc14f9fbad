r"""A model behind an OpenAI-compatible server that returns the K most likely next tokens.

    POST /completions        a token's top log-probabilities, greedy text, and scores of given text (echo)
    POST /chat/completions   greedy text after a user's message

What such a server does not show shapes this back end:

- *No weights.* ``digest`` is of the URL and the model's id: a certificate says which service was asked, and
  lists as an assumption that its weights could not be digested.
- *No vocabulary.* Tokens are strings. The table gives each string that was seen a number, in order of
  appearance. Numbers are names: a row's values never tie (equal log-probabilities are told apart by their
  strings), so what a generator that treats tokens alike releases, as text, does not depend on them. That
  matters because which string appeared first may depend on a private row.
- *No full distribution.* ``logits`` holds log-probabilities of K tokens and −∞ elsewhere. Where a server
  gives fewer, nameless tokens that decode to nothing fill the K places with next to no probability, so that
  the best K of a public prompt are never tokens that only a private prompt has shown.
- *No tokenizer.* Records are cut by pieces (a word, a run of blanks, a mark), which stand for tokens.

Each row is a request of its own: a row's answer is a function of that row, as far as the server keeps its
requests apart.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import ModelUnavailable, NotSupported, UsageError
from affidavit.generation.models.base import Decoding, Frame, Logits, Template
from affidavit.generation.models.served_answers import END, distinct, echoed_score, likely_tokens, text_at
from affidavit.generation.models.served_requests import Requests, ServerSettings

__all__ = ["ServerModel"]

_TABLE = 1 << 18
_FILLER = -1e4
"""The log-probability of the first nameless token; e^−10000 is 0 in float64."""
_PIECE = re.compile(r" ?\w+|\s+|[^\w\s]")
_PROBE = "The capital of France is"


class ServerModel:
    """See the module. Making one sends no request; ``probe`` does."""

    def __init__(self, settings: ServerSettings, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._requests = Requests(settings, sleep)
        self._strings: list[str | None] = ["", *[None] * settings.top_logprobs]
        self._numbers: dict[str, int] = {}
        self._pieces: list[str] = []
        self._piece_numbers: dict[str, int] = {}
        self.name = f"{settings.model} at {settings.url}"
        self.digest = settings.digest
        self.vocabulary_size = _TABLE
        self.stop_tokens = frozenset({0})
        self.context_length = settings.context_length
        self.top_logprobs = settings.top_logprobs
        self.versions = {"server": settings.url, "model": settings.model}

    def probe(self) -> None:
        """Ask for one token of a public prompt. Raises ``ModelUnavailable``, also where K is not given."""
        given = self._top(_PROBE)
        if len(given) < self.top_logprobs:
            raise ModelUnavailable(
                f"{self._settings.url} gives {len(given)} tokens, [model] top_logprobs says {self.top_logprobs}",
                hint=f"`model.top_logprobs = {len(given)}`, or allow more at the server.",
            )

    def frame(self, template: Template) -> Frame:
        """A server's completions know no roles: a chat prompt is the message and an empty line."""
        return ("", "\n\n") if template == "chat" else ("", "")

    def encode(self, text: str, *, trusted: bool = False) -> list[int]:  # noqa: ARG002
        """Pieces of ``text``. Their numbers lie above the vocabulary: they stand in prompts only."""
        tokens = []
        for piece in _PIECE.findall(text):
            number = self._piece_numbers.setdefault(piece, len(self._pieces))
            if number == len(self._pieces):
                self._pieces.append(piece)
            tokens.append(_TABLE + number)
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self._string(token) for token in tokens)

    def _string(self, token: int) -> str:
        if token >= _TABLE:
            return self._pieces[token - _TABLE]
        return (self._strings[token] if token < len(self._strings) else None) or ""

    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> Decoding:
        if any(not 0 < len(row) <= width for row in rows):
            raise UsageError("a row is empty or longer than the width of its batch", hint="Cut or widen the rows.")
        return _ServerDecoding(self, rows)

    def generate(self, prompts: Sequence[str], *, max_tokens: int, template: Template = "plain") -> list[str]:
        """Greedy continuations, written by the server."""
        if template == "plain":
            return self._texts([{"prompt": prompt, "max_tokens": max_tokens} for prompt in prompts])
        bodies = [
            {"messages": [{"role": "user", "content": prompt}], "max_tokens": max_tokens, "temperature": 0}
            for prompt in prompts
        ]
        answers = self._requests.post_all("/chat/completions", bodies)
        return [text_at(answer, "choices", 0, "message", "content") for answer in answers]

    def continuations(self, prompts: Sequence[str], *, max_tokens: int, stop: str) -> list[str]:
        """Greedy continuations of plain prompts, each up to the first ``stop``."""
        bodies = [{"prompt": prompt, "max_tokens": max_tokens, "stop": [stop]} for prompt in prompts]
        return [text.partition(stop)[0] for text in self._texts(bodies)]

    def _texts(self, bodies: Sequence[Mapping[str, Any]]) -> list[str]:
        answers = self._requests.post_all("/completions", [{**body, "temperature": 0} for body in bodies])
        return [text_at(answer, "choices", 0, "text") for answer in answers]

    def log_likelihoods(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[float]:
        """ln P(continuation | prompt) by ``echo``. Raises ``NotSupported`` where the server echoes no scores."""
        if len(prompts) != len(continuations):
            raise UsageError("prompts and continuations differ in number", hint="Give one continuation a prompt.")
        pairs = [(prompt, text) for prompt, text in zip(prompts, continuations, strict=True) if text]
        asked = {"max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True}
        found = iter(self._requests.post_all("/completions", [{**asked, "prompt": "".join(pair)} for pair in pairs]))
        return [
            echoed_score(next(found), start=len(prompt), end=len(prompt) + len(text)) if text else 0.0
            for prompt, text in zip(prompts, continuations, strict=True)
        ]

    def choice_log_likelihoods(self, prompts: Sequence[str], choices: Sequence[str]) -> NDArray[np.float64]:
        """ln P(choice | prompt) of every pair, by ``echo``."""
        pairs = [(prompt, choice) for prompt in prompts for choice in choices]
        found = self.log_likelihoods([prompt for prompt, _ in pairs], [choice for _, choice in pairs])
        return np.array(found, dtype=np.float64).reshape(len(prompts), len(choices))

    def token_scores(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[NDArray[np.float64]]:  # noqa: ARG002
        """Not shown by a server: it would take the whole distribution of every token."""
        raise NotSupported(
            "this attack needs the probabilities of all tokens, a server shows a few",
            hint='`attack = "loss"` needs log-probabilities alone, as reference and zlib do; or audit a local model.',
        )

    def next_token_rows(self, texts: Sequence[str]) -> Logits:
        """Log-probabilities of what the server shows for each text; −∞ elsewhere."""
        body = {"max_tokens": 1, "temperature": 0, "logprobs": self.top_logprobs}
        answers = self._requests.post_all("/completions", [{**body, "prompt": text} for text in texts])
        result: Logits = np.full((len(texts), _TABLE), -np.inf, dtype=np.float32)
        for row, answer in zip(result, answers, strict=True):
            values = distinct(likely_tokens(answer))
            for string, value in values:
                row[self._number(string)] = value
            for missing in range(self.top_logprobs - len(values)):
                row[1 + missing] = np.float32(_FILLER - missing)
        return result

    def _top(self, text: str) -> dict[str, float]:
        body = {"prompt": text, "max_tokens": 1, "temperature": 0, "logprobs": self.top_logprobs}
        return likely_tokens(self._requests.post("/completions", body))

    def _number(self, string: str) -> int:
        if string == END:
            return 0
        number = self._numbers.setdefault(string, len(self._strings))
        if number == len(self._strings):
            if number >= _TABLE:
                raise ModelUnavailable(
                    f"the server has shown more than {_TABLE} different tokens", hint="Its tokens are not tokens."
                )
            self._strings.append(string)
        return number


class _ServerDecoding:
    """Prompts as text that grows; the server is asked when logits are wanted."""

    def __init__(self, model: ServerModel, rows: Sequence[Sequence[int]]) -> None:
        self._model = model
        self._texts = [model.decode(row) for row in rows]
        self._logits: Logits | None = None

    @property
    def logits(self) -> Logits:
        if self._logits is None:
            self._logits = self._model.next_token_rows(self._texts)
        return self._logits

    def append(self, tokens: Sequence[int]) -> None:
        pieces = [self._model.decode([token]) for token in tokens]
        self._texts = [text + piece for text, piece in zip(self._texts, pieces, strict=True)]
        self._logits = None
