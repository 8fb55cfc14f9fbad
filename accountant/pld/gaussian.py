r"""The Gaussian pair.

P = N(μ, 1), Q = N(0, 1) with μ = (l2 sensitivity)/σ = 1/noise_multiplier. The loss at x is
μx − μ²/2, so it is N(μ²/2, μ²) under P and N(−μ²/2, μ²) under Q. The pair dominates, and is
attained by, every Gaussian mechanism of that sensitivity in any dimension and under any
relation (the law of the loss depends on the distance of the two means only: Balle, Wang 2018,
theorem 8). It is symmetric: the loss of (Q, P) has the same law.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from affidavit.accountant.pld.curve import Array, Curve, Logs
from affidavit.accountant.rounding import PLACE, UNIT

__all__ = ["Gaussian"]

TINY = 1e-320
"""Of the place at which δ is taken; what gradual underflow may cost."""


class Gaussian(Curve):
    """The pair N(μ, 1), N(0, 1); ``mu`` > 0. Composition adds the squares of μ."""

    symmetric = True

    def __init__(self, mu: float) -> None:
        self.mu = mu

    def logs(self, loss: Array) -> Logs:
        with np.errstate(over="ignore"):
            scaled = loss / self.mu
        half = 0.5 * self.mu
        return Logs(log_ndtr(half - scaled), log_ndtr(-half - scaled), log_ndtr(scaled - half), log_ndtr(scaled + half))

    def deltas(self, epsilon: Array) -> tuple[Array, Array]:
        """δ(ε) by ``beyond``."""
        with np.errstate(over="ignore"):
            return self.beyond(epsilon / self.mu - 0.5 * self.mu)

    def beyond(self, a: Array) -> tuple[Array, Array]:
        """(lower, upper) δ at ε = μ(a + μ/2), without the general formula's cancellation (Balle, Wang 2018, theorem 8).

        With b = a + μ and w(x) = erfcx(x/√2): δ = Φ(−a) − e^ε Φ(−b), and ½ e^{−a²/2} w(b) is the second, as
        e^{ε − b²/2} = e^{−a²/2}; for a > 0 the first is ½ e^{−a²/2} w(a). δ falls in a: what rounding does to a, and
        to μ, in units of |a| + μ, is charged by an a that is more, or less.
        """
        moved = PLACE * (np.abs(a) + self.mu)
        return self._sides(a + moved)[0], self._sides(a - moved)[1]

    def _sides(self, a: Array) -> tuple[Array, Array]:
        """The same for exact a and μ."""
        with np.errstate(over="ignore", invalid="ignore"):
            b, front = a + self.mu, 0.5 * np.exp(-0.5 * a * a)
            first = np.where(a > 0.0, front * _scaled_tail(a), ndtr(-a))
            second = np.where(b > 0.0, front * _scaled_tail(b), np.exp(0.5 * self.mu * (a + b)) * ndtr(-b))
            # a² is rounded, in the exponent: for a > 0 of both alike.
            slack = 8.0 * UNIT * (first + second + (4.0 + a * a) * np.where(a > 0.0, first - second, second))
            slack = np.where(second > 0.0, slack, 8.0 * UNIT * first) + TINY
        return np.maximum(first - second - slack, 0.0), np.minimum(first - second + slack, 1.0)


def _scaled_tail(x: Array) -> Array:
    """2 e^{x²/2} Φ(−x), x >= 0."""
    result: Array = erfcx(np.maximum(x, 0.0) / math.sqrt(2.0))
    return result
