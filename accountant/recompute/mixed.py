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
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class MixedProfile:
    """``law`` composed with Gaussians of Σ 1/σ² = ``precision``."""

    law: AtomicLaw
    precision: float = 0.0

    def delta(self, epsilon: float) -> Bracket:
        """δ at ``epsilon``."""
        if self.precision == 0.0:
            return self.law.delta(epsilon)
        low, high = self.deltas(np.array([epsilon]))
        return Bracket(float(low[0]), float(high[0]))

    def deltas(self, epsilons: Array) -> tuple[Array, Array]:
        """Both sides at many ``epsilons``."""
        if self.precision == 0.0:
            found = [self.law.delta(float(epsilon)) for epsilon in epsilons]
            return np.array([b.lower for b in found]), np.array([b.upper for b in found])
        from scipy.special import log_ndtr

        law, mu = self.law, math.sqrt(self.precision)
        value, error = np.zeros(len(epsilons)), np.zeros(len(epsilons))
        rows = max(1, _CHUNK // len(law.losses))
        for start in range(0, len(epsilons), rows):
            part = slice(start, start + rows)
            gap = epsilons[part, None] - law.losses[None, :]
            above = np.exp(log_ndtr(mu / 2.0 - gap / mu))
            below = np.exp(np.minimum(gap + log_ndtr(-mu / 2.0 - gap / mu), 0.0))
            # Condition: the argument of Φ carries a relative error of a few u, which its logarithm
            # magnifies by at most |argument| · (|argument| + 1). A sum of n terms adds n u.
            spread = 32.0 + (np.abs(gap) / mu + mu) ** 2 + np.abs(gap)
            value[part] = np.maximum(above - below, 0.0) @ law.masses
            error[part] = 8.0 * _UNIT * (((above + below) * spread) @ law.masses)
        value += law.infinite
        error += value * (law.relative_error + _UNIT * (16.0 + len(law.losses)))
        return np.maximum(0.0, value - error), np.minimum(1.0, value + error)
