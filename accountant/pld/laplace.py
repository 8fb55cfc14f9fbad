r"""The Laplace pair.

P = Lap(0, b), Q = Lap(1, b), b = noise_multiplier, ε₀ = 1/b. The loss (|x − 1| − |x|)/b lies in
[−ε₀, ε₀]; L > l happens for x < (1 − l b)/2, so for −ε₀ <= l < ε₀

    P(L > l) = 1 − ½ e^{−(ε₀ − l)/2},     Q(L > l) = ½ e^{−(ε₀ + l)/2},

with an atom of P-mass ½ at ε₀ and ½ e^{−ε₀} at −ε₀. Attained at l1 distance 1 in one dimension,
which dominates any smaller distance and any split over coordinates (Zhu, Dong, Wang 2022).
Symmetric: x → 1 − x swaps P and Q.
"""

from __future__ import annotations

import math

import numpy as np

from affidavit.accountant.pld.curve import Array, Curve, Logs, log_complement

__all__ = ["Laplace"]


class Laplace(Curve):
    """One-dimensional Laplace noise at distance ``epsilon`` = 1/noise_multiplier > 0."""

    symmetric = True

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon
        self.low, self.high = -epsilon, epsilon
        self.atoms = (-epsilon, epsilon)

    def logs(self, loss: Array) -> Logs:
        inside = np.clip(loss, self.low, self.high)
        p_head = -math.log(2.0) - 0.5 * (self.epsilon - inside)
        q_tail = -math.log(2.0) - 0.5 * (self.epsilon + inside)
        inner = Logs(log_complement(p_head), q_tail, p_head, log_complement(q_tail))
        return inner.ended(loss < self.low, loss >= self.high)
