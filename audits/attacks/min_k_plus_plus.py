"""Min-K %++: Min-K % with every token measured against the whole next-token distribution.

Zhang et al. (2024, "Min-K %++: improved baseline for detecting pre-training data from large
language models"): whether −3 nats are a surprise depends on what else could have come. A token's
log-probability is standardised by mean and standard deviation of ln p(v) over v drawn from p, so
that what counts is whether the text's own token is a mode of the distribution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from affidavit.audits.attacks.min_k import DEFAULT_SHARE, lowest_mean, text_token_scores
from affidavit.audits.attacks.prompting import LabelPrompt
from affidavit.audits.attacks.protocol import View, access
from affidavit.audits.textmodel import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MinKPlusPlus", "standardised"]

_LEAST_SPREAD = 1e-6


@dataclass(frozen=True, slots=True)
class MinKPlusPlus:
    """Score: mean of the ``share`` lowest (ln p − mean)/deviation over the text's tokens."""

    name = "min-k++"
    needs = access("full logits")

    prompt: LabelPrompt = field(default_factory=LabelPrompt)
    share: float = DEFAULT_SHARE

    def scores(self, view: View, records: Sequence[Record]) -> list[float]:
        """Higher says "member"."""
        found = text_token_scores(view, self.prompt, records, attack=self.name)
        return [lowest_mean(standardised(tokens), share=self.share) for tokens in found]


def standardised(tokens: NDArray[np.float64]) -> NDArray[np.float64]:
    """(ln p − mean)/deviation; a distribution without spread has nothing to say, and counts 0."""
    import numpy as np

    spread = tokens[:, 2]
    return np.where(spread > _LEAST_SPREAD, (tokens[:, 0] - tokens[:, 1]) / np.maximum(spread, _LEAST_SPREAD), 0.0)
