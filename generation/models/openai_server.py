r"""A model behind an OpenAI-compatible server that returns the K most likely next tokens.

    POST /completions        a token's top log-probabilities, greedy text, and scores of given text (echo)
    POST /chat/completions   the same after a user's message and what of the answer has begun

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
- *No tokenizer.* Records are cut by pieces of four bytes (``served_pieces``), so that the longest prompt fits whatever
  a record says.
- *It may refuse.* What a server does with a private prompt may follow from the record in it. So a private prompt that
  is refused, or whose answer is not what was asked for, is a row that contributes nothing, and the run goes on as its
  neighbour's does. A public prompt that is refused ends the run.

Each row is a request of its own, sent when the one before it was answered, unless the run file declares the server
independent and public prompts do not show otherwise (``served_together``): a row's answer is a function of that row, as
far as the server keeps its requests apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import ModelUnavailable, NotSupported, UsageError
from affidavit.generation.models.base import Decoding, Frame, Logits, Template
from affidavit.generation.models.rows import BatchShape
from affidavit.generation.models.served_answers import (
    END,
    distinct,
    echoed_score,
    likely_chat_tokens,
    likely_tokens,
    text_at,
)
from affidavit.generation.models.served_pieces import BYTES, pieces, weight
from affidavit.generation.models.served_requests import Requests, ServerSettings
from affidavit.generation.models.served_together import PROMPTS, alike

__all__ = ["ServerModel"]

_TABLE = 1 << 18
_FILLER = -1e4
"""The log-probability of the first nameless token; e^−10000 is 0 in float64."""
_LONGEST = 16
"""Bytes of a token that may be released: prompts grow by no more a token."""
_ANSWER = _TABLE
"""The number of the mark where a chat's answer begins."""
_MARK = "\x02answer\x03"
_AROUND = {"completions": 16, "chat": 256}
"""Tokens that a server may put around a prompt: where it begins, who speaks, its own instruction."""
_PROBE = "The capital of France is"
_FEW_WORDS = 8
"""Tokens of a text by which a server is tried that shows no numbers."""
_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt's text; ``begun``: what of the answer stands there already."""

    asked: str
    begun: str = ""

    def body(self, *, chat: bool) -> dict[str, Any]:
        """The part of a request for text. Few servers go on with an answer that has begun: the user says it."""
        if not chat:
            return {"prompt": self.asked + self.begun}
        content = f"{self.asked}\n\n{self.begun.strip()}" if self.begun.strip() else self.asked
        return {"messages": [{"role": "user", "content": content}]}

    def continued(self, *, chat: bool) -> dict[str, Any]:
        """The part of a request for the next token of an answer that has begun."""
        if not chat or not self.begun:
            return self.body(chat=chat)
        messages = [{"role": "user", "content": self.asked}, {"role": "assistant", "content": self.begun}]
        return {"messages": messages, "add_generation_prompt": False, "continue_final_message": True}


class ServerModel:
    """See the module. Making one sends no request; ``probe`` does. Lengths are in pieces (``served_pieces``)."""

    longest_token = _LONGEST // BYTES

    def __init__(self, settings: ServerSettings, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._requests = Requests(settings, sleep)
        self._strings: list[str | None] = ["", *[None] * settings.top_logprobs]
        self._numbers: dict[str, int] = {}
        self._tried = 0
        self._pieces: list[str] = []
        self._piece_numbers: dict[str, int] = {}
        self.name = f"{settings.model} at {settings.url}"
        self.digest = settings.digest
        self.vocabulary_size = _TABLE
        self.stop_tokens = frozenset({0})
        self.context_length = (settings.context_length - _AROUND[settings.endpoint]) // BYTES
        self.top_logprobs = settings.top_logprobs
        self.versions = {"server": settings.url, "model": settings.model}

    def probe(self) -> None:
        """Ask for one token of a public prompt. Raises ``ModelUnavailable``, also where K is not given."""
        if not self.top_logprobs:
            self._texts([Prompt(_PROBE)], max_tokens=1)
            return
        (given,) = self._next_tokens([Prompt(_PROBE)], len, otherwise=None)
        if given < self.top_logprobs:
            raise ModelUnavailable(
                f"{self._settings.url} gives {given} tokens, [model] top_logprobs says {self.top_logprobs}",
                hint=f"`model.top_logprobs = {given}`, or allow more at the server.",
            )

    def frame(self, template: Template) -> Frame:
        """At a chat end point, a mark where the answer begins. Completions know no roles: an empty line."""
        if template == "plain":
            return ("", "")
        return ("", _MARK) if self._settings.endpoint == "chat" else ("", "\n\n")

    def encode(self, text: str, *, trusted: bool = False) -> list[int]:
        """Pieces of ``text``. Their numbers lie above the vocabulary: they stand in prompts only."""
        tokens: list[int] = []
        for place, part in enumerate(text.split(_MARK) if trusted else (text,)):
            tokens += [_ANSWER] * (place > 0)
            for piece in pieces(part):
                number = self._piece_numbers.setdefault(piece, len(self._pieces))
                if number == len(self._pieces):
                    self._pieces.append(piece)
                tokens.append(_ANSWER + 1 + number)
        return tokens

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self._string(token) for token in tokens)

    def _string(self, token: int) -> str:
        if token > _ANSWER:
            return self._pieces[token - _ANSWER - 1]
        return (self._strings[token] if token < len(self._strings) else None) or ""

    def keep_apart(self, shapes: Iterable[BatchShape]) -> None:
        """What a receipt says: rows are requests, and how a server computes them is not shown to anybody.

        One that is declared independent is tried (``served_together``). Raises ``NotSupported`` where it is not so.
        """
        said = "one at a time"
        if self._settings.independent:
            said = f"declared independent, and {PROMPTS} public prompts were answered alike alone and at once"
            longest = BYTES * max((shape.width for shape in shapes), default=1)
            if longest > self._tried and not alike(self._answers, longest=longest):
                raise NotSupported(
                    f"{self._settings.url} answers a prompt otherwise when it is asked others at once, or asked again",
                    hint="Remove `model.independent`: one prompt is then asked at a time.",
                )
            self._tried = max(longest, self._tried)
        self.versions["rows"] = f"each prompt in a request of its own, {said}"

    def _answers(self, prompts: Sequence[str], at_once: bool) -> list[Any]:
        """What the server says after public prompts: likely tokens with their numbers, or a few words."""
        asked = [Prompt(prompt) for prompt in prompts]
        if not self.top_logprobs:
            return self._texts(asked, alone=not at_once, max_tokens=_FEW_WORDS)
        return self._next_tokens(asked, dict, otherwise=None, alone=not at_once)

    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> Decoding:
        return self._started(rows, width, private=False)

    def start_apart(self, rows: Sequence[Sequence[int]], *, width: int, steps: int) -> Decoding:  # noqa: ARG002
        """As ``start``, for private rows: one that the server refuses is NaN, and none of them names a token."""
        return self._started(rows, width, private=True)

    def _started(self, rows: Sequence[Sequence[int]], width: int, *, private: bool) -> Decoding:
        if any(not 0 < len(row) <= width for row in rows):
            raise UsageError("a row is empty or longer than the width of its batch", hint="Cut or widen the rows.")
        return _ServerDecoding(self, [self._prompt(row) for row in rows], private=private)

    def _prompt(self, row: Sequence[int]) -> Prompt:
        place = row.index(_ANSWER) if _ANSWER in row else len(row)
        return Prompt(self.decode(row[:place]), self.decode(row[place:]))

    def generate(self, prompts: Sequence[str], *, max_tokens: int, template: Template = "plain") -> list[str]:
        """Greedy continuations, or a chat's answers, written by the server."""
        chat = template == "chat" or self._settings.endpoint == "chat"
        return self._texts([Prompt(prompt) for prompt in prompts], max_tokens=max_tokens, chat=chat)

    def answer_rows(self, rows: Sequence[Sequence[int]], *, max_tokens: int, private: bool) -> list[str]:
        """As ``generate``, of tokenised prompts; a ``private`` one that the server refuses has the empty answer."""
        prompts = [self._prompt(row) for row in rows]
        return self._texts(prompts, max_tokens=max_tokens, otherwise=("",) if private else None)

    def continuations(self, prompts: Sequence[str], *, max_tokens: int, stop: str) -> list[str]:
        """Greedy continuations of plain prompts, each up to the first ``stop``."""
        texts = self._texts([Prompt(prompt) for prompt in prompts], max_tokens=max_tokens, stop=[stop])
        return [text.partition(stop)[0] for text in texts]

    def _texts(
        self,
        prompts: Sequence[Prompt],
        *,
        chat: bool | None = None,
        otherwise: tuple[str] | None = None,
        alone: bool = False,
        **asked: Any,
    ) -> list[str]:
        chat = self._settings.endpoint == "chat" if chat is None else chat
        path, field = ("/chat/completions", ("message", "content")) if chat else ("/completions", ("text",))
        bodies = [{**prompt.body(chat=chat), **asked, "temperature": 0} for prompt in prompts]
        return self._requests.each(
            path, bodies, lambda answer: text_at(answer, "choices", 0, *field), otherwise=otherwise, alone=alone
        )

    def log_likelihoods(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[float]:
        """ln P(continuation | prompt) by ``echo``. Raises ``NotSupported`` where the server echoes no scores."""
        if len(prompts) != len(continuations):
            raise UsageError("prompts and continuations differ in number", hint="Give one continuation a prompt.")
        pairs = [(prompt, text) for prompt, text in zip(prompts, continuations, strict=True) if text]
        asked = {"max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True}
        bodies = [{**asked, "prompt": "".join(pair)} for pair in pairs]
        found = iter(self._requests.each("/completions", bodies, lambda answer: answer, otherwise=None))
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

    def next_token_rows(self, prompts: Sequence[Prompt], *, private: bool) -> Logits:
        """Log-probabilities of what the server shows after each prompt; −∞ elsewhere, NaN for a refused private one.

        Only public prompts give tokens their numbers: a string that no public prompt has shown is in no support.
        """

        def ranked(shown: Mapping[str, float]) -> list[tuple[str, np.float32]] | None:
            """None so long that a prompt could outgrow the model."""
            return distinct({name: value for name, value in shown.items() if weight(name) <= _LONGEST})

        found = self._next_tokens(prompts, ranked, otherwise=(None,) if private else None)
        result: Logits = np.full((len(prompts), _TABLE), -np.inf, dtype=np.float32)
        for row, values in zip(result, found, strict=True):
            if values is None:
                row[:] = np.nan
                continue
            for string, value in values:
                number = self._numbers.get(string) if private and string != END else self._number(string)
                if number is not None:
                    row[number] = value
            for missing in range(self.top_logprobs - len(values)):
                row[1 + missing] = np.float32(_FILLER - missing)
        return result

    def _next_tokens(
        self,
        prompts: Sequence[Prompt],
        read: Callable[[Mapping[str, float]], _Read],
        *,
        otherwise: tuple[_Read] | None,
        alone: bool = False,
    ) -> list[_Read]:
        """What ``read`` makes of the next token's likeliest strings, after each prompt."""
        chat = self._settings.endpoint == "chat"
        path, likely = ("/chat/completions", likely_chat_tokens) if chat else ("/completions", likely_tokens)
        asked: dict[str, Any] = {"logprobs": self.top_logprobs}
        if chat:
            asked = {"logprobs": True, "top_logprobs": self.top_logprobs}
        bodies = [{**prompt.continued(chat=chat), **asked, "max_tokens": 1, "temperature": 0} for prompt in prompts]
        return self._requests.each(path, bodies, lambda answer: read(likely(answer)), otherwise=otherwise, alone=alone)

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

    def __init__(self, model: ServerModel, prompts: Sequence[Prompt], *, private: bool) -> None:
        self._model = model
        self._prompts = list(prompts)
        self._private = private
        self._logits: Logits | None = None

    @property
    def logits(self) -> Logits:
        if self._logits is None:
            self._logits = self._model.next_token_rows(self._prompts, private=self._private)
        return self._logits

    def append(self, tokens: Sequence[int]) -> None:
        pieces = [self._model.decode([token]) for token in tokens]
        self._prompts = [
            replace(prompt, begun=prompt.begun + piece) for prompt, piece in zip(self._prompts, pieces, strict=True)
        ]
        self._logits = None
