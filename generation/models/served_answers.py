"""What an OpenAI-compatible server's answers hold: text, likely tokens, scores of given text.

Every function takes an answer as it was parsed from JSON and raises ``ModelUnavailable`` where it is not what
was asked for, without showing any of it. What it gives is text: no halves of characters, at which whoever reads an
answer would fail, and so a run by what a private prompt was answered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

import numpy as np

from affidavit.accountant.errors import ModelUnavailable, NotSupported
from affidavit.generation.models.served_pieces import whole

__all__ = ["END", "distinct", "echoed_score", "likely_chat_tokens", "likely_tokens", "text_at"]

END = ""
"""The name of the token that ends an answer, however a server spells it."""

_END_STRINGS = frozenset(
    {END, "<|im_end|>", "<|endoftext|>", "</s>", "<eos>", "<|eot_id|>", "<|end_of_text|>", "<end_of_turn>", "<|end|>"}
)


def likely_tokens(answer: Any) -> dict[str, float]:
    """Log-probabilities of the first token's likeliest strings, all ways to end an answer as one.

    What has probability 0 is left out. An answer that ended at once is the end token.
    """
    return _merged(_top_logprobs(answer).items())


def likely_chat_tokens(answer: Any) -> dict[str, float]:
    """As ``likely_tokens``, of a chat answer."""
    content = _scores_of(answer).get("content")
    if isinstance(content, list) and not content and answer["choices"][0].get("finish_reason") == "stop":
        return {END: 0.0}
    shown = content[0].get("top_logprobs") if isinstance(content, list) and isinstance(content[0], dict) else None
    pairs = [(each.get("token"), each.get("logprob")) for each in shown or () if isinstance(each, dict)]
    sound = [(name, value) for name, value in pairs if isinstance(name, str) and _is_log_probability(value)]
    if not sound or len(sound) < len(pairs):
        raise _no_tokens()
    return _merged(sound)


def text_at(answer: Any, *path: str | int) -> str:
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
            hint='Name an OpenAI-compatible server, up to its /v1: `model.name = "http://localhost:8000/v1"`',
        )
    return whole(answer)


def _scores_of(answer: Any) -> Mapping[str, Any]:
    try:
        found = answer["choices"][0]["logprobs"]
    except (KeyError, IndexError, TypeError):
        found = None
    if not isinstance(found, dict):
        raise ModelUnavailable(
            "the server returns no log-probabilities",
            hint="The completions end point must support logprobs. The kinds ksa and sga need text only.",
        )
    return found


def _top_logprobs(answer: Any) -> Mapping[str, float]:
    """What is shown of the first token's distribution; an answer that ended at once is the end token."""
    scores = _scores_of(answer)
    shown = scores.get("top_logprobs")
    if isinstance(shown, list) and not shown and answer["choices"][0].get("finish_reason") == "stop":
        return {END: 0.0}
    first = shown[0] if isinstance(shown, list) and shown else None
    if not isinstance(first, dict) or not first or not all(_is_log_probability(value) for value in first.values()):
        raise _no_tokens()
    return first


def _no_tokens() -> ModelUnavailable:
    return ModelUnavailable(
        "the server returns no list of likely tokens", hint="Its completions must support logprobs = K."
    )


def _is_log_probability(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value) and value <= 1e-3


def _merged(shown: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Probabilities by string, all ways to end an answer as one; what has probability 0 is left out."""
    found: dict[str, float] = {}
    for string, value in shown:
        if value > -math.inf:
            name = END if string in _END_STRINGS else whole(string)
            found[name] = float(np.logaddexp(found.get(name, -math.inf), value))
    return found


def distinct(values: Mapping[str, float]) -> list[tuple[str, np.float32]]:
    """The same, best first, no two values equal: ties fall by string."""
    result: list[tuple[str, np.float32]] = []
    below = np.float32(np.inf)
    for string, value in sorted(values.items(), key=lambda item: (-item[1], item[0])):
        here = min(np.float32(value), np.nextafter(below, np.float32(-np.inf)))
        result.append((string, here))
        below = here
    return result


def echoed_score(answer: Any, *, start: int, end: int) -> float:
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
