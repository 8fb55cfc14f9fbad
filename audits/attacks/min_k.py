"""Min-K %: the least likely tokens of a text tell whether it was seen.

Shi et al. (2024, "Detecting pretraining data from large language models"): in a text that a model
has not seen a few tokens surprise it a lot; in one that it has seen none does. The score is the
mean log-probability of the k % least likely tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from affidavit.accountant.errors import UsageError
from affidavit.audits.attacks.prompting import LabelPrompt
from affidavit.audits.attacks.protocol import View, access, token_scoring_model
from affidavit.audits.textmodel import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["DEFAULT_SHARE", "MinK", "lowest_mean", "text_token_scores"]

DEFAULT_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class MinK:
    """Score: mean ln p of the ``share`` least likely tokens of the text, given the context."""

    name = "min-k"
    needs = access("log-probabilities")

    prompt: LabelPrompt = field(default_factory=LabelPrompt)
    share: float = DEFAULT_SHARE

    def scores(self, view: View, records: Sequence[Record]) -> list[float]:
        """Higher says "member"."""
        found = text_token_scores(view, self.prompt, records, attack=self.name)
        return [lowest_mean(tokens[:, 0], share=self.share) for tokens in found]


def text_token_scores(
    view: View, prompt: LabelPrompt, records: Sequence[Record], *, attack: str
) -> list[NDArray[np.float64]]:
    """Every token of the records' texts, given the view's demonstrations: see ``TokenScoringModel``."""
    pairs = [prompt.continuation(view.texts, record.text) for record in records]
    return token_scoring_model(view, attack).token_scores([start for start, _ in pairs], [text for _, text in pairs])


def lowest_mean(values: NDArray[np.float64], *, share: float) -> float:
    """The mean of the lowest ``share`` of the values, at least one of them; 0 of no values."""
    import numpy as np

    if not 0.0 < share <= 1.0:
        raise UsageError(f"share is {share!r}", hint="For example `share = 0.2`, at most 1.")
    if values.size == 0:
        return 0.0
    kept = max(1, int(share * values.size))
    return float(np.partition(values, kept - 1)[:kept].mean())
