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
requests apart. Nothing of a request is ever part of an error or a log.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import ModelUnavailable, NotSupported, UsageError
from affidavit.generation.models.base import Decoding, Frame, Logits, Template

__all__ = ["ServerModel", "ServerSettings", "is_url"]

MAX_TOP = 100
_TABLE = 1 << 18
_END = 0
_FILLER = -1e4
"""The log-probability of the first nameless token; e^−10000 is 0 in float64."""
_END_STRINGS = frozenset(
    {"", "<|im_end|>", "<|endoftext|>", "</s>", "<eos>", "<|eot_id|>", "<|end_of_text|>", "<end_of_turn>", "<|end|>"}
)
_PIECE = re.compile(r" ?\w+|\s+|[^\w\s]")
_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_LONGEST_WAIT_S = 30.0
_PARALLEL = 8
_PROBE = "The capital of France is"


def is_url(name: str) -> bool:
    """Whether a model's name is a server's address."""
    return name.startswith(("http://", "https://"))


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where a model is served. ``top_logprobs``: how many tokens the server gives; times in seconds."""

    url: str
    model: str
    api_key_env: str | None = None
    top_logprobs: int = 20
    context_length: int = 4096
    timeout_s: float = 60.0
    retries: int = 4

    @property
    def digest(self) -> str:
        """SHA-256 of the address and the id: it identifies the service, not the weights."""
        return hashlib.sha256(f"affidavit openai server 1\0{self.url.rstrip('/')}\0{self.model}".encode()).hexdigest()


class ServerModel:
    """See the module. Making one sends no request; ``probe`` does."""

    def __init__(self, settings: ServerSettings, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._requests = _Requests(settings, sleep)
        self._strings: list[str | None] = ["", *[None] * settings.top_logprobs]
        self._numbers: dict[str, int] = {}
        self._pieces: list[str] = []
        self._piece_numbers: dict[str, int] = {}
        self.name = f"{settings.model} at {settings.url}"
        self.digest = settings.digest
        self.vocabulary_size = _TABLE
        self.stop_tokens = frozenset({_END})
        self.context_length = settings.context_length
        self.top_logprobs = settings.top_logprobs
        self.versions = {"server": settings.url, "model": settings.model}

    def probe(self) -> None:
        """Ask for one token of a public prompt. Raises ``ModelUnavailable``, also where K is not given."""
        given = self._top(_PROBE)
        if len(given) < self.top_logprobs:
            raise ModelUnavailable(
                f"{self._settings.url} gives {len(given)} tokens, [model] top_logprobs says {self.top_logprobs}",
                hint=f"Set top_logprobs = {len(given)}, or allow more at the server.",
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
        return [_at(answer, "choices", 0, "message", "content") for answer in answers]

    def continuations(self, prompts: Sequence[str], *, max_tokens: int, stop: str) -> list[str]:
        """Greedy continuations of plain prompts, each up to the first ``stop``."""
        bodies = [{"prompt": prompt, "max_tokens": max_tokens, "stop": [stop]} for prompt in prompts]
        return [text.partition(stop)[0] for text in self._texts(bodies)]

    def _texts(self, bodies: Sequence[Mapping[str, Any]]) -> list[str]:
        answers = self._requests.post_all("/completions", [{**body, "temperature": 0} for body in bodies])
        return [_at(answer, "choices", 0, "text") for answer in answers]

    def log_likelihoods(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[float]:
        """ln P(continuation | prompt) by ``echo``. Raises ``NotSupported`` where the server echoes no scores."""
        if len(prompts) != len(continuations):
            raise UsageError("prompts and continuations differ in number", hint="Give one continuation a prompt.")
        pairs = [(prompt, text) for prompt, text in zip(prompts, continuations, strict=True) if text]
        asked = {"max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True}
        found = iter(self._requests.post_all("/completions", [{**asked, "prompt": "".join(pair)} for pair in pairs]))
        return [
            _echoed(next(found), start=len(prompt), end=len(prompt) + len(text)) if text else 0.0
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
            hint="Use a local model, or an attack on text or on label probabilities.",
        )

    def next_token_rows(self, texts: Sequence[str]) -> Logits:
        """Log-probabilities of what the server shows for each text; −∞ elsewhere."""
        body = {"max_tokens": 1, "temperature": 0, "logprobs": self.top_logprobs}
        answers = self._requests.post_all("/completions", [{**body, "prompt": text} for text in texts])
        result: Logits = np.full((len(texts), _TABLE), -np.inf, dtype=np.float32)
        for row, answer in zip(result, answers, strict=True):
            values = _distinct(_merged(_top_logprobs(answer)))
            for string, value in values:
                row[self._number(string)] = value
            for missing in range(self.top_logprobs - len(values)):
                row[1 + missing] = np.float32(_FILLER - missing)
        return result

    def _top(self, text: str) -> dict[str, float]:
        body = {"prompt": text, "max_tokens": 1, "temperature": 0, "logprobs": self.top_logprobs}
        return _merged(_top_logprobs(self._requests.post("/completions", body)))

    def _number(self, string: str) -> int:
        if string == "":
            return _END
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


class _Requests:
    """POST with retries; several at once, answers in the order of the bodies."""

    def __init__(self, settings: ServerSettings, sleep: Callable[[float], None]) -> None:
        import httpx2

        headers = {}
        if settings.api_key_env is not None:
            key = os.environ.get(settings.api_key_env, "")
            if not key:
                raise UsageError(
                    f"the environment variable {settings.api_key_env} is not set",
                    hint=f"export {settings.api_key_env}=..., the key of {settings.url}",
                )
            headers["Authorization"] = f"Bearer {key}"
        self._settings = settings
        self._sleep = sleep
        self._errors = (httpx2.TransportError, httpx2.InvalidURL)
        self._client = httpx2.Client(headers=headers, timeout=settings.timeout_s)

    def post_all(self, path: str, bodies: Sequence[Mapping[str, Any]]) -> list[Any]:
        if len(bodies) < 2:
            return [self.post(path, body) for body in bodies]
        with ThreadPoolExecutor(max_workers=_PARALLEL) as pool:
            return list(pool.map(lambda body: self.post(path, body), bodies))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The server's answer as JSON. Raises ``ModelUnavailable``; a message never holds a part of a request."""
        settings = self._settings
        url = settings.url.rstrip("/") + path
        problem = "no answer"
        for attempt in range(settings.retries + 1):
            wait = min(_LONGEST_WAIT_S, 0.5 * 2.0**attempt)
            try:
                response = self._client.post(url, json={"model": settings.model, **body})
            except self._errors as error:
                problem = type(error).__name__
            else:
                if response.status_code == 200:
                    return _json(response, url)
                problem = f"status {response.status_code}"
                if response.status_code not in _RETRIED:
                    raise ModelUnavailable(f"{url}: {problem}", hint=_advice(response.status_code, settings))
                wait = _retry_after(response.headers.get("retry-after"), wait)
            if attempt < settings.retries:
                self._sleep(wait)
        raise ModelUnavailable(
            f"{url}: {problem}, {settings.retries + 1} times",
            hint="Is the server running? [model] timeout_s and retries say how long to wait.",
        )


def _json(response: Any, url: str) -> Any:
    try:
        return response.json()
    except ValueError:
        raise ModelUnavailable(f"{url}: not JSON", hint="Is it an OpenAI-compatible server?") from None


def _advice(status: int, settings: ServerSettings) -> str:
    if status in (401, 403):
        return "Set [model] api_key_env to the environment variable that holds the key."
    if status == 404:
        return "[model] name is the address up to and with /v1, id one of the models that it serves."
    return (
        f"The server refused the request. It may give fewer than {settings.top_logprobs} log-probabilities "
        "(top_logprobs), serve no model of this id, or read fewer tokens."
    )


def _retry_after(header: str | None, otherwise: float) -> float:
    try:
        asked = float(header or "")
    except ValueError:
        return otherwise
    return min(_LONGEST_WAIT_S, asked) if asked >= 0.0 else otherwise


def _at(answer: Any, *path: str | int) -> str:
    """The string at a place of an answer. Raises ``ModelUnavailable``."""
    for step in path:
        try:
            answer = answer[step]
        except (KeyError, IndexError, TypeError):
            answer = None
            break
    if not isinstance(answer, str):
        raise ModelUnavailable(
            f"the server's answer has no text at {'.'.join(map(str, path))}",
            hint="Is it an OpenAI-compatible server?",
        )
    return answer


def _scores_of(answer: Any) -> Mapping[str, Any]:
    try:
        found = answer["choices"][0]["logprobs"]
    except (KeyError, IndexError, TypeError):
        found = None
    if not isinstance(found, dict):
        raise ModelUnavailable(
            "the server returns no log-probabilities",
            hint="The completions end point must support logprobs. Text-only methods (ksa, sga) do without.",
        )
    return found


def _top_logprobs(answer: Any) -> Mapping[str, float]:
    """What is shown of the first token's distribution; an answer that ended at once is the end token."""
    scores = _scores_of(answer)
    shown = scores.get("top_logprobs")
    if isinstance(shown, list) and not shown and answer["choices"][0].get("finish_reason") == "stop":
        return {"": 0.0}
    first = shown[0] if isinstance(shown, list) and shown else None
    if not isinstance(first, dict) or not first or not all(_is_log_probability(value) for value in first.values()):
        raise ModelUnavailable(
            "the server returns no list of likely tokens", hint="Its completions must support logprobs = K."
        )
    return first


def _is_log_probability(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value) and value <= 1e-3


def _merged(shown: Mapping[str, float]) -> dict[str, float]:
    """Probabilities by string, all ways to end an answer as one; what has probability 0 is left out."""
    found: dict[str, float] = {}
    for string, value in shown.items():
        if value > -math.inf:
            name = "" if string in _END_STRINGS else string
            found[name] = float(np.logaddexp(found.get(name, -math.inf), value))
    return found


def _distinct(values: Mapping[str, float]) -> list[tuple[str, np.float32]]:
    """The same, best first, no two values equal: ties fall by string."""
    result: list[tuple[str, np.float32]] = []
    below = np.float32(np.inf)
    for string, value in sorted(values.items(), key=lambda item: (-item[1], item[0])):
        here = min(np.float32(value), np.nextafter(below, np.float32(-np.inf)))
        result.append((string, here))
        below = here
    return result


def _echoed(answer: Any, *, start: int, end: int) -> float:
    """The sum of the log-probabilities of the tokens that begin in [start, end) of the text."""
    scores = _scores_of(answer)
    values, places = scores.get("token_logprobs"), scores.get("text_offset")
    if isinstance(values, list) and isinstance(places, list) and len(values) == len(places):
        chosen = [value for value, place in zip(values, places, strict=True) if start <= place < end]
        if chosen and all(_is_log_probability(value) for value in chosen):
            return float(sum(chosen))
    raise NotSupported(
        "the server does not score given text (completions with echo and logprobs)",
        hint="Use a server that does, for example vLLM, or a local model.",
    )
