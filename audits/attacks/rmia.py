"""RMIA: a record's gain in probability against the gains of records that are surely not in.

Zarifzadeh, Liu and Shokri (2024, "Low-cost high-power membership inference attacks"). With p(x|θ)
the probability of x's label under the audited prompt and p(x) that without knowledge of it, the score
is the share of a population z with

    [p(x|θ)/p(x)] / [p(z|θ)/p(z)] > γ,

strictly: a population record that gains as much counts for nothing. p(x) is estimated offline, from shadow prompts that
do not hold x: ½((1+a) p_out(x) + (1−a)), which allows for the half of all prompts that do. The same estimate is made
for z, so that a record that is not in ranks uniformly among the population.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from affidavit.accountant.errors import UsageError
from affidavit.audits.attacks.prompting import LabelPrompt, label_log_probabilities
from affidavit.audits.attacks.protocol import View, access, text_model
from affidavit.audits.attacks.shadow import Shadows, ShadowScores
from affidavit.audits.textmodel import Record, TextModel

__all__ = ["RMIA"]


@dataclass(slots=True)
class RMIA:
    """Score: the share of the population that gains less than the record, by a factor ``gamma``.

    ``offline`` is a. ``model`` answers the shadow prompts: the audited model unless another is
    named, as it must be for an endpoint.
    """

    name = "rmia"
    needs = access("label probabilities")

    shadows: Shadows
    prompt: LabelPrompt = field(default_factory=LabelPrompt)
    gamma: float = 1.0
    offline: float = 0.3
    model: TextModel | None = None
    shadow_scores: ShadowScores = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not self.shadows.prompts or not self.shadows.population:
            raise UsageError(
                "RMIA needs shadow prompts and a population", hint="At least `shadow_prompts = 1` and `population = 1`."
            )
        if not self.gamma > 0.0 or not 0.0 <= self.offline <= 1.0:
            raise UsageError("gamma or offline is out of range", hint="For example `gamma = 2.0` and `offline = 0.3`.")
        self.shadow_scores = ShadowScores(self.prompt, self.name)

    def scores(self, view: View, records: Sequence[Record]) -> list[float]:
        """Higher says "member"."""
        model = self.model or text_model(view, self.name)
        everyone = [*records, *self.shadows.population]
        with_view = label_log_probabilities(view, self.prompt, everyone, attack=self.name)
        prompts = self.shadows.without(self.prompt)
        asked = [(shown, record) for record in everyone for shown in prompts]
        shadowed = np.exp(self.shadow_scores.under(model, asked)).reshape(len(everyone), len(prompts)).mean(axis=1)
        prior = 0.5 * ((1.0 + self.offline) * shadowed + (1.0 - self.offline))
        with np.errstate(divide="ignore"):
            gains = np.asarray(with_view) - np.log(prior)
        own, others = gains[: len(records)], gains[len(records) :]
        return [float(np.mean(gain - others > np.log(self.gamma))) for gain in own]
