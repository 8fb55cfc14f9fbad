"""Plans with a zCDP leaf: ρ adds up, then one conversion.

ρ (upper side): Gaussian 1/(2σ²), (ε, 0)-DP ε²/2, bounded range η η²/8 (Bun and Steinke 2016; Cesar and
Rogers 2021, Lemma 3.4). Conversion (Canonne, Kamath and Steinke 2020, Proposition 12), any α > 1:

    δ(ε) <= e^{(α−1)(αρ − ε)} (1 − 1/α)^α / (α − 1).

The lower side is not here: the Gaussian mechanism with Σ 1/σ² = 2ρ is ρ-zCDP, so it is one that the leaf admits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import mpmath

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Exponential, Gaussian, Laplace, Plan, Pure, ZeroConcentrated
from affidavit.accountant.recompute.bracket import Bracket, rounded_up

__all__ = ["ConcentratedProfile", "concentrated_profile"]


@dataclass(frozen=True, slots=True)
class ConcentratedProfile:
    """An upper bound of δ(ε) for ρ-zCDP."""

    rho: float

    def delta(self, epsilon: float) -> Bracket:
        """0 and the bound at a good α."""
        if self.rho == 0.0:
            certain = max(0.0, -math.expm1(epsilon))
            return Bracket(0.0, rounded_up(certain) if certain else 0.0)
        low, high = math.log(1e-9), math.log(1e12)  # of α − 1
        for _ in range(200):  # the exponent is convex in α: halve on the sign of its slope
            middle = 0.5 * (low + high)
            alpha = 1.0 + math.exp(middle)
            slope = (2.0 * alpha - 1.0) * self.rho - epsilon + math.log1p(-1.0 / alpha)
            low, high = (middle, high) if slope < 0.0 else (low, middle)
        with mpmath.workdps(40):
            excess = mpmath.exp(0.5 * (low + high))
            alpha = 1 + excess
            exponent = excess * (alpha * mpmath.mpf(self.rho) - mpmath.mpf(epsilon))
            value = mpmath.exp(exponent) * (1 - 1 / alpha) ** alpha / excess
            return Bracket(0.0, min(1.0, rounded_up(float(value))))


def concentrated_profile(steps: Iterable[tuple[Plan, int]]) -> ConcentratedProfile:
    """The profile of all ``steps`` = (leaf, uses) together."""
    total = mpmath.mpf(0)
    for leaf, uses in steps:
        match leaf:
            case ZeroConcentrated(rho=rho):
                share = mpmath.mpf(rho)
            case Gaussian(noise_multiplier=sigma):
                share = 1 / (2 * mpmath.mpf(sigma) ** 2)
            case Laplace(noise_multiplier=scale):
                share = 1 / (2 * mpmath.mpf(scale) ** 2)
            case Pure(epsilon=epsilon):
                share = mpmath.mpf(epsilon) ** 2 / 2
            case Exponential(range=eta):
                share = mpmath.mpf(eta) ** 2 / 8
            case _:
                raise NotSupported(
                    f"the verifier cannot add {leaf.kind!r} to a zCDP leaf", hint="Remove `--recompute`."
                )
        total += uses * share
    return ConcentratedProfile(rounded_up(float(total)))
