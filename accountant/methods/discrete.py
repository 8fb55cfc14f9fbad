"""Discrete privacy profiles: a convex piecewise linear δ as losses with masses.

A profile δ as a function of α = e^ε is convex and falls from 1 to its mass at infinity. If it is
piecewise linear with kinks at α_i, then δ(ε) = p_∞ + Σ p_i (1 − e^{ε − l_i})₊ with l_i = ln α_i and
p_i = α_i × (change of slope at α_i): a mechanism with losses l_i of probability p_i under P.
Composing it with an independent mechanism of profile δ₀ is then a sum, outermost expectation:

    δ(ε) = p_∞ + Σ p_i δ₀(ε − l_i).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

__all__ = ["DiscreteProfile", "mixed_delta"]


@dataclass(frozen=True, slots=True, eq=False)
class DiscreteProfile:
    """Losses (nats, increasing), their probabilities under P, and the probability of loss ∞."""

    losses: NDArray[float64]
    masses: NDArray[float64]
    infinite: float = 0.0

    @classmethod
    def nothing(cls) -> DiscreteProfile:
        """The profile of releasing nothing: loss 0 with certainty."""
        import numpy as np

        return cls(np.zeros(1), np.ones(1))

    def delta(self, epsilon: float) -> float:
        """p_∞ + Σ p_i (1 − e^{ε − l_i})₊, all terms positive."""
        import numpy as np

        above = int(np.searchsorted(self.losses, epsilon, side="right"))
        return self.infinite + float(-(self.masses[above:] @ np.expm1(epsilon - self.losses[above:])))


def mixed_delta(
    profile: DiscreteProfile, other: Callable[[NDArray[float64]], NDArray[float64]], epsilon: float
) -> float:
    """δ(ε) of ``profile`` composed with a mechanism whose vectorised profile is ``other``."""
    return profile.infinite + float(profile.masses @ other(epsilon - profile.losses))
