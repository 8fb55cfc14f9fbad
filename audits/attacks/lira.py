"""LiRA with prompts as shadow models: a likelihood ratio for every record of its own.

Carlini, Chien, Nasr, Song, Terzis and Tramèr (2022, "Membership inference attacks from first
principles"). The confidence in the true label, on the logit scale ln p − ln(1 − p), is about normal
over shadow models; its mean with the record and without it is that record's own. The score is
the log ratio of the two normal densities at what the audited prompt shows.

Both normals get the same variance, for all records: Carlini et al. find a variance for each record to
be noise with few shadow models, and with one demonstration a prompt the prompts that hold the record
are all the same. A common variance divides every score alike, so it is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from affidavit.audits.attacks.prompting import LabelPrompt, label_log_probabilities
from affidavit.audits.attacks.protocol import View, access, text_model
from affidavit.audits.attacks.shadow import Shadows, ShadowScores
from affidavit.audits.textmodel import Record, TextModel

__all__ = ["LiRA", "logit"]

_LEAST_DOUBT = 1e-12


def logit(log_probability: float) -> float:
    """ln p − ln(1 − p); p is kept 1e-12 away from 1."""
    kept = min(log_probability, math.log1p(-_LEAST_DOUBT))
    return kept - math.log(-math.expm1(kept))


@dataclass(slots=True)
class LiRA:
    """Score: (x − mean without the record)² − (x − mean with it)², in logits.

    Twice the variance times ln N(x; mean with, variance) − ln N(x; mean without, variance). ``model`` answers
    the shadow prompts: the audited model unless another is named, as it must be for an endpoint.
    """

    name = "lira"
    needs = access("label probabilities")

    shadows: Shadows
    prompt: LabelPrompt = field(default_factory=LabelPrompt)
    model: TextModel | None = None
    shadow_scores: ShadowScores = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.shadow_scores = ShadowScores(self.prompt, self.name)

    def scores(self, view: View, records: Sequence[Record]) -> list[float]:
        """Higher says "member"."""
        model = self.model or text_model(view, self.name)
        apart = [[(shown, record) for shown in self.shadows.without(self.prompt)] for record in records]
        within = [[(shown, record) for shown in self.shadows.holding(record, self.prompt)] for record in records]
        asked = [pair for lists in (apart, within) for each in lists for pair in each]
        values = np.asarray([logit(value) for value in self.shadow_scores.under(model, asked)])
        out, held = values.reshape(2, len(records), len(self.shadows.prompts)).mean(axis=2)
        seen = np.asarray(
            [logit(value) for value in label_log_probabilities(view, self.prompt, records, attack=self.name)]
        )
        return [float(score) for score in (seen - out) ** 2 - (seen - held) ** 2]
