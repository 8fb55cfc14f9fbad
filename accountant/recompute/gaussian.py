"""The Gaussian profile in closed form, with 60 decimal digits.

Theorem (Balle and Wang 2018, Theorem 8). For N(μ, 1) against N(0, 1), and for every composition of
Gaussians with Σ 1/σᵢ² = μ² (projection onto the direction of the shift),

    δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ),      every real ε.

The pair is symmetric, so one direction serves both. The difference of the two terms loses about
log₁₀(ε/μ) digits of 60; what is left is rounded outward to float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import mpmath

from affidavit.accountant.recompute.bracket import Bracket, rounded_down, rounded_up

__all__ = ["GaussianProfile"]

_DIGITS = 60


@dataclass(frozen=True, slots=True)
class GaussianProfile:
    """δ(ε) of a composition of Gaussians; ``precision`` is Σ 1/σᵢ² as a fraction of integers or float."""

    precision: mpmath.mpf

    def delta(self, epsilon: float) -> Bracket:
        """δ at ``epsilon``, rounded outward."""
        with mpmath.workdps(_DIGITS):
            mu = mpmath.sqrt(self.precision)
            if mu == 0:
                value = max(mpmath.mpf(0), 1 - mpmath.exp(epsilon))
            else:
                scaled = mpmath.mpf(epsilon) / mu
                root = mpmath.sqrt(2)
                above = mpmath.erfc((scaled - mu / 2) / root) / 2
                below = mpmath.erfc((scaled + mu / 2) / root) / 2
                value = above - mpmath.exp(epsilon) * below
            nearest = float(value)
        return Bracket(rounded_down(nearest), rounded_up(nearest))
