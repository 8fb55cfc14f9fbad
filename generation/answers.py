"""The model's answers to many prompts at once, each a function of its own prompt alone.

Minibatches have a fixed number of rows and a public width; rows that no prompt fills are dummy rows. Answers are
greedy. A row that has ended goes on with a fixed token, and what that gives is not looked at. So no prompt, however
long its answer, changes a bit of another's: what the sensitivity of anything counted over answers rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from affidavit.generation.models.base import Decoding, LanguageModel

__all__ = ["greedy_answers", "served", "written"]


def greedy_answers(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    *,
    dummy: Sequence[int],
    width: int,
    max_tokens: int,
    minibatch_rows: int,
    private: bool,
    ended: Callable[[str], bool] | None = None,
) -> Iterator[str]:
    """One answer a prompt, in order. ``dummy``: a public prompt that fills a minibatch up; ``width``: public.
    ``ended``: whether more text could not change what is kept of an answer; it saves time.

    A served model writes each answer by itself, in a request of its own; a ``private`` prompt that it refuses has the
    empty answer.
    """
    if served(model):
        yield from written(model, prompts, max_tokens=max_tokens, private=private)
        return
    for first in range(0, len(prompts), minibatch_rows):
        chosen = list(prompts[first : first + minibatch_rows])
        filled = chosen + [dummy] * (minibatch_rows - len(chosen))
        if private:
            decoding = model.start_apart(filled, width=width, steps=max_tokens)
        else:
            decoding = model.start(filled, width=width)
        yield from _minibatch(model, decoding, len(filled), max_tokens=max_tokens, ended=ended)[: len(chosen)]


def served(model: LanguageModel) -> bool:
    """Whether the model stands behind a server, which is asked for text and shows no vocabulary."""
    return getattr(model, "top_logprobs", None) is not None


def written(
    model: LanguageModel, prompts: Sequence[Sequence[int]], *, max_tokens: int, private: bool = False
) -> list[str]:
    """A served model's answers to tokenised prompts; it knows which part of a prompt is the answer's beginning."""
    answer: Callable[..., list[str]] = model.answer_rows  # type: ignore[attr-defined]  # of served models only
    return answer(prompts, max_tokens=max_tokens, private=private)


def _minibatch(
    model: LanguageModel,
    decoding: Decoding,
    rows: int,
    *,
    max_tokens: int,
    ended: Callable[[str], bool] | None,
) -> list[str]:
    filler = min(model.stop_tokens, default=0)
    answers: list[list[int]] = [[] for _ in range(rows)]
    running = [True] * rows
    for step in range(max_tokens):
        best = [int(token) for token in decoding.logits.argmax(axis=1)]
        for index, token in enumerate(best):
            running[index] = running[index] and token not in model.stop_tokens
            if running[index]:
                answers[index].append(token)
                running[index] = ended is None or not ended(model.decode(answers[index]))
        if not any(running) or step == max_tokens - 1:
            break
        decoding.append([token if running[index] else filler for index, token in enumerate(best)])
    return [model.decode(answer) for answer in answers]
