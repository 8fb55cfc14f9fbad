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
from scipy.special import erfcx, log_ndtr

from affidavit.accountant.pld.curve import Array, Curve, Logs

__all__ = ["Gaussian"]


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
        """δ(ε) without the cancellation of the general formula (Balle, Wang 2018, theorem 8).

        With a = ε/μ − μ/2 and b = ε/μ + μ/2: δ = ½ e^{−a²/2} (w(a) − w(b)), w(x) = erfcx(x/√2),
        because e^{ε − b²/2} = e^{−a²/2}.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            shift = epsilon / self.mu - 0.5 * self.mu
            a = np.maximum(shift, 0.0)
            b = a + self.mu
            at_a, at_b = erfcx(a / math.sqrt(2.0)), erfcx(b / math.sqrt(2.0))
            front = 0.5 * np.exp(-0.5 * a * a)
            # a carries a relative error of about (1 + |ε|/(μ a)) u, which a²/2 in the exponent magnifies.
            relative = 2.0**-50 * (4.0 + a * (a + np.abs(epsilon) / self.mu + self.mu))
            slack = front * ((at_a + at_b) * 2.0**-50 + (at_a - at_b) * relative)
            value = front * (at_a - at_b)
        gone = front == 0.0
        lower, upper = (
            np.where(gone, 0.0, np.maximum(value - slack, 0.0)),
            np.where(gone, 0.0, np.minimum(value + slack, 1.0)),
        )
        if np.all(shift >= 0.0):
            return lower, upper
        near = super().deltas(epsilon)
        return np.where(shift < 0.0, near[0], lower), np.where(shift < 0.0, near[1], upper)
