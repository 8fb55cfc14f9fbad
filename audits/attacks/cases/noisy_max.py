"""Report noisy max with exponential noise: two outputs A and B.

Permute and flip takes the better one, ahead by d (in units of 1/rate), with probability 1 − e^{−d}/2: the
distribution function of a Laplace number. The scores move d by ε across 0; where it ends at 0 the
probabilities of the pair are in the ratio e^ε exactly.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from affidavit.accountant.plan import Leaf
from affidavit.audits.attacks.cases.base import Case, EventCase, Inputs, Release, without_noise

if TYPE_CHECKING:
    from affidavit.mechanisms.base import Permit
    from affidavit.mechanisms.noisy_max import NoisyMax

__all__ = ["NoisyMaxCase", "noisy_max"]

_WIDTH = 1 << 10
_SHARES = (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)


@dataclass(frozen=True, slots=True)
class NoisyMaxCase(EventCase):
    """``affidavit.mechanisms.noisy_max``: A leads by ``lead`` with the record, and trails by the rest without it."""

    leaf: NoisyMax
    lead: int

    def probability(self, *, member: bool, noise: float = 1.0) -> float:
        """P(A): scores are worth 1/noise times as much."""
        lead = self.lead if member else self.lead - _WIDTH
        half = 0.5 * math.exp(-abs(lead) * self.leaf.epsilon / _WIDTH / noise)
        return 1.0 - half if lead > 0 else half

    def inputs(self, *, member: bool) -> Inputs:
        """Scores of A and B."""
        return np.asarray([self.lead if member else self.lead - _WIDTH, 0], dtype=np.int64)

    def release(self, permit: Permit, path: str, inputs: Inputs) -> float:
        """1 when A came out."""
        from affidavit.mechanisms import noisy_max

        rate = Fraction(self.leaf.epsilon) / _WIDTH
        return float(noisy_max.ExponentialNoisyMax(rate=rate, width=_WIDTH).release(permit, path, inputs) == 0)

    def noise_off(self) -> Release:
        """The better one, always."""
        return without_noise(lambda inputs: float(inputs[0] > inputs[1]))


def noisy_max(leaf: Leaf) -> tuple[Case, ...]:
    """Eight leads for a ``noisy-max`` leaf."""
    from affidavit.mechanisms.noisy_max import NoisyMax

    if not isinstance(leaf, NoisyMax) or leaf.epsilon <= 0.0:
        return ()
    return tuple(NoisyMaxCase(leaf, round(share * _WIDTH)) for share in _SHARES)
