r"""Asking a model, with demonstrations already chosen.

*Contextual calibration* (Zhao, Wallace, Feng, Klein and Singh 2021, "Calibrate Before Use: Improving
Few-Shot Performance of Language Models", section 5). With p(y | x) the model's probability of label y
for input x, normalised over the labels, and p_cf the same averaged over inputs without content ("N/A",
"[MASK]" and nothing), the answer is

    argmax over y of  p(y | x) / p_cf(y),

their W = diag(p_cf)⁻¹, b = 0. The probability of a label is that of all its tokens after the prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from affidavit.generation.icl.examples import Example
from affidavit.generation.icl.prompting import prompt
from affidavit.generation.icl.scores import bleu, exact_match, meteor, rouge
from affidavit.generation.icl.structured import check_record, rates
from affidavit.generation.icl.tasks import Task
from affidavit.generation.models.base import LanguageModel

__all__ = ["CONTENT_FREE", "Answered", "answer", "calibrated", "marks", "named_label", "score"]

CONTENT_FREE = ("N/A", "[MASK]", "")
"""Inputs that say nothing."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Answered:
    """A model's answers; for ``choose`` also what they would be without calibration."""

    answers: tuple[str, ...]
    uncalibrated: tuple[str, ...] = ()


def answer(
    model: LanguageModel, task: Task, demonstrations: Sequence[Example], examples: Sequence[Example]
) -> Answered:
    """The model's answer to every example. Raises ``UsageError`` where prompts do not fit the model."""
    prompts = [prompt(task, demonstrations, one.input) for one in examples]
    if task.kind != "choose":
        found = model.continuations(prompts, max_tokens=task.max_tokens, stop="\n")
        return Answered(tuple(" ".join(text.split()) for text in found))
    labels = list(task.words)
    free = [prompt(task, demonstrations, text) for text in CONTENT_FREE]
    scores = model.choice_log_likelihoods(prompts + free, [f" {word}" for word in task.words.values()])
    asked, blank = scores[: len(prompts)], scores[len(prompts) :]
    best = calibrated(asked, blank).argmax(axis=1)
    return Answered(tuple(labels[index] for index in best), tuple(labels[index] for index in asked.argmax(axis=1)))


def named_label(task: Task, text: str) -> str:
    """What a written answer says: for ``choose`` the label whose word it begins with, else the text itself."""
    if task.kind != "choose":
        return text
    said = text.casefold().lstrip(" \"'*")
    return next((label for label, word in task.words.items() if said.startswith(word.casefold())), "")


def calibrated(log_likelihoods: Floats, content_free: Floats) -> Floats:
    """ln [p(y | x) / p_cf(y)], shape (inputs, labels), from unnormalised log-likelihoods of both kinds."""
    context: Floats = np.log(np.exp(_normalised(content_free)).mean(axis=0))
    return _normalised(log_likelihoods) - context


def _normalised(scores: Floats) -> Floats:
    peak = scores.max(axis=1, keepdims=True)
    log_total: Floats = peak + np.log(np.exp(scores - peak).sum(axis=1, keepdims=True))
    return scores - log_total


def score(task: Task, given: Answered, examples: Sequence[Example]) -> dict[str, float]:
    """Every score of the task's kind, the one that a table shows first. Shares are between 0 and 1."""
    right = [one.answers for one in examples]
    pairs = list(zip(given.answers, right, strict=True))
    match task.kind:
        case "choose":
            plain = zip(given.uncalibrated, right, strict=True)
            return {
                "accuracy": _share(found == answers[0] for found, answers in pairs),
                "accuracy_uncalibrated": _share(found == answers[0] for found, answers in plain),
            }
        case "extract":
            return {"exact_match": _share(exact_match(found, answers) for found, answers in pairs)}
        case "write":
            found = rouge(given.answers, right)
            return {
                "rouge_l": found.pop("rouge_l"),
                **found,
                "meteor": meteor(given.answers, right),
                "bleu": bleu(given.answers, right),
            }
        case "record":
            made = rates(given.answers, task.schema)
            fields = [_agreement(task, found, answers[0]) for found, answers in pairs]
            return {
                "valid_rate": made.valid_rate,
                "parse_rate": made.parse_rate,
                "fields_right": float(np.mean(fields)) if fields else 0.0,
            }


def marks(task: Task, given: Answered, examples: Sequence[Example]) -> tuple[bool, ...]:
    """Whether each answer is right, where that is a matter of yes or no; else nothing."""
    pairs = list(zip(given.answers, (one.answers for one in examples), strict=True))
    match task.kind:
        case "choose":
            return tuple(found == answers[0] for found, answers in pairs)
        case "extract":
            return tuple(exact_match(found, answers) for found, answers in pairs)
        case _:
            return ()


def _share(outcomes: Iterable[bool]) -> float:
    values = list(outcomes)
    return sum(values) / len(values) if values else 0.0


def _agreement(task: Task, found: str, expected: str) -> float:
    """The share of a record's keys that hold the expected value; 0 for what is no valid record."""
    made, right = check_record(found, task.schema), check_record(expected, task.schema)
    if not made.valid or not isinstance(right.value, dict):
        return 0.0
    keys = list(task.keys.values())
    return _share(bool(made.value.get(key) == right.value.get(key)) for key in keys)
