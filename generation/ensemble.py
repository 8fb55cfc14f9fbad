"""An ensemble's answers to a query: one for every subset of shown records, each a function of that subset alone.

The prompts' shape is public (``questions``), and so is their number; ``answers`` keeps rows apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from affidavit.accountant.errors import RunFileError
from affidavit.generation.answers import greedy_answers
from affidavit.generation.remedies import shorter_records

if TYPE_CHECKING:
    from affidavit.generation.dataset import Record
    from affidavit.generation.questions import Asking

__all__ = ["answers", "check_lengths", "complete"]


def answers(
    asking: Asking, query: str, subsets: Sequence[Sequence[Record]], *, minibatch_rows: int, private: bool
) -> list[str]:
    """The answer to ``query`` after each subset's prompt. A prompt that shows nothing is the public one."""
    found = greedy_answers(
        asking.model,
        [asking.row(subset, query) for subset in subsets],
        dummy=asking.row((), query),
        width=asking.width(query),
        max_tokens=asking.max_tokens,
        minibatch_rows=minibatch_rows,
        private=private,
        ended=asking.template.ended,
    )
    return [asking.template.clean(text) for text in found]


def complete(asking: Asking, prompt: Sequence[int]) -> str:
    """The answer to one public prompt."""
    (text,) = greedy_answers(
        asking.model,
        [prompt],
        dummy=prompt,
        width=len(prompt),
        max_tokens=asking.max_tokens,
        minibatch_rows=1,
        private=False,
        ended=asking.template.ended,
    )
    return asking.template.clean(text)


def check_lengths(asking: Asking, queries: Sequence[str], *, candidates: int) -> None:
    """Raises ``RunFileError`` where prompts and answers do not fit the model's context."""
    model = asking.model
    widths = (max(asking.width(query), asking.choice_width(query, candidates=candidates)) for query in queries)
    over = max(widths) + asking.max_tokens - model.context_length
    if over > 0:
        raise RunFileError(
            "generator.max_record_tokens",
            f"prompts and answers need {over} tokens more than {model.name} reads",
            hint=shorter_records(asking.max_record_tokens, over=over, records=asking.shots + 1),
        )
