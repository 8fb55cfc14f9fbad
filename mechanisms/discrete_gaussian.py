"""The discrete Gaussian mechanism: a whole number plus discrete Gaussian noise, exactly.

*Cost.* If neighbouring data move the value by at most ``sensitivity`` grid steps, one use is dominated by the pair
N_Z(k, s²), N_Z(0, s²) with k = sensitivity and s = standard_deviation, both in steps (Canonne, Kamath and Steinke 2020,
"The discrete Gaussian for differential privacy"; the law is log-concave, so the largest shift is worst and the pair
is symmetric: ``accountant.pld.discrete_gaussian``). That is the leaf ``discrete-gaussian`` with noise_multiplier s/k
and granularity 1/k. The continuous curve is not an upper bound of it: δ is 35 % larger at s = 2.

Per relation: the sensitivity is *for* the plan's relation; a count moves by 1 under all three. One number a use:
several coordinates are several uses, since rounding a vector enlarges its l2 distance.

*Sampling.* Their algorithm 3 on exact coins: a discrete Laplace Y of scale t = ⌊s⌋ + 1, kept with probability
exp(−(|Y| − s²/t)²/(2s²)). Rational arithmetic throughout, so no float64 reaches what is released. (opendp offers
the same law; its sampler draws from a source of its own, which a permit could neither digest nor replay.)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from affidavit.accountant.decimals import float_at_least, float_at_most
from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import DiscreteGaussian
from affidavit.mechanisms.base import (
    Mechanism,
    Noise,
    Permit,
    Rational,
    Statistic,
    charge,
    positive,
    watched,
)
from affidavit.mechanisms.coins import exponential_coin, two_sided_geometric

__all__ = ["ASSUMPTIONS", "MECHANISM", "DiscreteGaussianNoise", "discrete_gaussian"]

ASSUMPTIONS = ("discrete-gaussian: the noise source yields independent uniform bits; the draw is exact",)


@dataclass(frozen=True, slots=True)
class DiscreteGaussianNoise:
    """``standard_deviation`` of the noise and ``sensitivity`` of the value, both in grid steps."""

    standard_deviation: Rational
    sensitivity: int = 1

    def leaf(self) -> DiscreteGaussian:
        """The ``discrete-gaussian`` leaf of one use, rounded so that s = noise_multiplier / granularity is not larger.

        1/granularity is the sensitivity: within 1e-9 of a whole number, which the accountant takes for it.
        """
        deviation = positive(self.standard_deviation, name="standard_deviation")
        steps = _whole(self.sensitivity)
        granularity = float_at_least(Fraction(1, steps))
        return DiscreteGaussian(float_at_most(deviation * Fraction(1, steps)), granularity)

    def release(self, permit: Permit, path: str, values: int) -> int:
        """One whole number plus noise.

        Whoever computes it guarantees that neighbouring data move it by at most ``sensitivity`` steps. Raises
        ``PermitViolation`` if the grid is another than certified or the noise is less, compared exactly.
        """
        if isinstance(values, bool) or not isinstance(values, int):
            raise UsageError("the value to release is not a whole number", hint="Count in grid steps.")
        asked, deviation = self.leaf(), Fraction(self.standard_deviation)

        def covers(certified: DiscreteGaussian) -> bool:
            same = asked.granularity == certified.granularity
            return same and asked.noise_multiplier >= certified.noise_multiplier

        charge(permit, path, asked, covers)
        statistic = Statistic("l1", (np.array([values]),), (deviation,))
        return watched(permit, path, statistic, lambda: values + discrete_gaussian(deviation, noise=permit.noise))


def discrete_gaussian(standard_deviation: Fraction, *, noise: Noise) -> int:
    """X with P(X = x) ∝ exp(−x²/(2·standard_deviation²)), exactly."""
    variance = standard_deviation**2
    scale = standard_deviation.numerator // standard_deviation.denominator + 1
    while True:
        drawn = two_sided_geometric(Fraction(1, scale), noise=noise)
        excess = abs(drawn) - variance / scale
        if exponential_coin(excess * excess / (2 * variance), noise=noise):
            return drawn


def _whole(sensitivity: int) -> int:
    if isinstance(sensitivity, bool) or not isinstance(sensitivity, int) or sensitivity < 1:
        raise UsageError("sensitivity is not a whole number of grid steps >= 1", hint="Count in grid steps.")
    return sensitivity


MECHANISM = Mechanism(DiscreteGaussian.kind, DiscreteGaussianNoise, "exact discrete Gaussian noise", ASSUMPTIONS)
