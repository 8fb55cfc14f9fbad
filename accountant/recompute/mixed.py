"""Atoms and Gaussians together: a mixture of shifted closed forms.

If L is the sum of an independent atomic loss (masses w_i at x_i, ``infinite`` at +∞) and the loss of
a Gaussian with mean μ²/2, then conditioning on the atom gives

    δ(ε) = P(L = ∞) + Σ_i w_i δ_Gauss(ε − x_i).

δ_Gauss is evaluated in float64 through log Φ; the error of each logarithm times its term is charged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from affidavit.accountant.recompute.atoms import AtomicLaw
from affidavit.accountant.recompute.bracket import Bracket

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["MixedProfile"]

_UNIT = 2.0**-53


@dataclass(frozen=True, slots=True)
class MixedProfile:
    """``law`` composed with Gaussians of Σ 1/σ² = ``precision``."""

    law: AtomicLaw
    precision: float = 0.0

    def delta(self, epsilon: float) -> Bracket:
        """δ at ``epsilon``."""
        law = self.law
        if self.precision == 0.0:
            return law.delta(epsilon)
        from scipy.special import log_ndtr

        mu = math.sqrt(self.precision)
        gap = epsilon - law.losses
        log_above = log_ndtr(mu / 2.0 - gap / mu)
        log_below = gap + log_ndtr(-mu / 2.0 - gap / mu)
        above, below = np.exp(log_above), np.exp(np.minimum(log_below, 0.0))
        terms = law.masses * np.maximum(above - below, 0.0)
        # Condition: the argument of Φ carries a relative error of a few u, which its logarithm
        # magnifies by at most |argument| · (|argument| + 1).
        spread = 1.0 + (np.abs(gap) / mu + mu) ** 2 + np.abs(gap)
        error = 8.0 * _UNIT * float(np.sum(law.masses * (above + below) * spread))
        value = law.infinite + math.fsum(terms.tolist())
        error += value * (law.relative_error + 16.0 * _UNIT)
        return Bracket(max(0.0, value - error), min(1.0, value + error))
