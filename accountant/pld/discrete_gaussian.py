r"""The discrete Gaussian pair, for a scalar release.

Noise on the grid g·Z with mass proportional to exp(−x²/(2σ²)); σ and g in units of the
sensitivity, s = σ/g. Neighbours' values, both on the grid, differ by at most k = 1/g steps. The noise
is log-concave, so the loss is increasing in the output and the profile is largest for the largest
shift: P = N_Z(k, s²), Q = N_Z(0, s²), with loss (2x − k) k/(2 s²) at grid index x, an arithmetic
progression. Symmetric (x → k − x). Where 1/g is no whole number the upper side takes the next
whole number, which also covers a value rounded to the grid, and the lower side the one before.

The continuous Gaussian is *not* an upper bound: it is exceeded by 35 % in δ at s = 2. Several
coordinates at once are not covered by this pair (rounding them enlarges the l2 distance).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from affidavit.accountant.pld.atomic import Atomic
from affidavit.accountant.pld.curve import Array, Curve, FullLoss, Logs, NoLoss, OneStep

__all__ = ["discrete_gaussian"]

NEARLY_WHOLE = 1e-9
"""1/g this close to a whole number is meant to be it: g is written in decimals."""
EXPLICIT = 1000.0
"""Widest s, in grid steps, for which every atom is kept; wider ones are summed in closed form."""


def discrete_gaussian(noise_multiplier: float, granularity: float) -> OneStep:
    """One use at shift 1/``granularity`` steps; noise 0 reveals the value."""
    steps = 1.0 / granularity
    whole = round(steps)
    if abs(steps - whole) <= NEARLY_WHOLE * steps:
        return OneStep.attained(_pair(noise_multiplier * whole, whole), symmetric=True)
    upper, lower = (_pair(noise_multiplier / granularity, shift) for shift in (math.ceil(steps), math.floor(steps)))
    return OneStep.dominated(upper, lower=lower, symmetric=True)


def _pair(deviation: float, shift: int) -> Curve:
    if shift == 0:
        return NoLoss()
    if deviation == 0.0 or shift / deviation > 1e150:
        return FullLoss()
    if deviation > EXPLICIT:
        return _Wide(deviation, shift)
    # Beyond 39 deviations the masses are below the least float64 number.
    reach = math.ceil(39.0 * deviation) + 1
    index = np.arange(-reach, shift + reach + 1, dtype=np.float64)
    log_weight = -0.5 * ((index - shift) / deviation) ** 2
    log_total = math.log(float(np.sum(np.exp(log_weight))))
    losses = (2.0 * index - shift) * (shift / (2.0 * deviation**2))
    spacing = shift / deviation**2
    atoms = float(losses[0]), float(losses[0]) + spacing
    curve = Atomic(losses, log_weight - log_total, q_missing=0.0, atoms=atoms)
    curve.symmetric = True
    return curve


class _Wide(Curve):
    """The same for s > ``EXPLICIT``: tail sums by the midpoint rule with two corrections.

    Σ_{j >= c} f(j) = ∫_{c−½}^∞ f + f'(c−½)/24 − 7 f'''(c−½)/5760 + R; for f = e^{−x²/(2s²)} within 40 deviations R is
    below (40/s)⁶/10⁴ of the sum, and Σ f over Z is s√(2π) to better than float64.
    """

    symmetric = True

    def __init__(self, deviation: float, shift: int) -> None:
        self.deviation, self.shift = deviation, float(shift)
        self.accuracy = 1e-4 * (40.0 / deviation) ** 6 + 1e-15

    def _log_tail(self, index: Array) -> Array:
        """ln P(noise >= index)."""
        s = self.deviation
        x = (index - 0.5) / s
        log_integral: Array = log_ndtr(-x)
        # φ(x)/Φ(−x), the tail's hazard; f' = −x f/s and f''' = (3x − x³) f/s³ in units of deviations.
        hazard = np.exp(np.maximum(-0.5 * x * x - log_integral, -700.0)) / math.sqrt(2.0 * math.pi)
        relative = hazard * (-x / (24.0 * s * s) - 7.0 * (3.0 * x - x**3) / (5760.0 * s**4))
        corrected: Array = log_integral + np.log1p(relative)
        return np.minimum(corrected, 0.0)

    def logs(self, loss: Array) -> Logs:
        # The least index whose loss exceeds l; infinities stay themselves.
        first = np.floor(loss * (self.deviation / self.shift * self.deviation) + 0.5 * self.shift) + 1.0
        far = 38.0 * self.deviation
        first = np.clip(first, -far, far + self.shift)
        p_tail, q_tail = self._log_tail(first - self.shift), self._log_tail(first)
        p_head, q_head = self._log_tail(1.0 - first + self.shift), self._log_tail(1.0 - first)
        return Logs(p_tail, q_tail, p_head, q_head).ended(loss == -math.inf, loss == math.inf)
