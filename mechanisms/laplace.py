"""The Laplace mechanism on whole numbers: counts plus independent rounded Laplace noise, exactly.

*Cost.* If neighbouring data move the vector by at most ``l1_sensitivity`` in l1 norm, one use is dominated by one
scalar Laplace mechanism of scale b = scale / l1_sensitivity on values 0 and 1 (Dwork, McSherry, Nissim and Smith 2006,
"Calibrating noise to sensitivity", for pure 1/b-DP). That is the leaf ``laplace``, tighter than ``pure`` once composed.
*Proof for vectors.* For one coordinate moved by d (in scales), 1 − H_α = ∫ min(p, αq) = e^((ε − d)/2) where ε = ln α is
in [−d, d]. With d = Σ d_i and ε in [−d, d] choose ε_i in [−d_i, d_i] of sum ε: a minimum of products is at least the
product of minima, so 1 − H_α >= Π e^((ε_i − d_i)/2) = e^((ε − d)/2), the scalar mechanism's; elsewhere H = (1 − α)₊.

Per relation: the sensitivity is *for* the plan's relation. A count of records moves by 1 under add-remove, zero-out
and substitution; a histogram by 1 in l1 under add-remove and zero-out, by 2 under substitution.

*Sampling.* The values are whole numbers (a caller with another grid scales by it), so adding a real Laplace number
and rounding is the same as adding the rounded number: post-processing of the real mechanism, and its curve covers
the release. The rounded number K has P(K = 0) = 1 − e^(−1/(2b)) and P(|K| >= k) = e^(−(k−1/2)/b) (b in steps), and is
drawn exactly (``coins``): no float64 arithmetic touches what is released. The geometric mechanism is *not* used: its
curve is not covered by the continuous one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.decimals import float_at_most
from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import Laplace
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
from affidavit.mechanisms.coins import exponential_coin, geometric

__all__ = ["ASSUMPTIONS", "MECHANISM", "LaplaceNoise", "rounded_laplace"]

ASSUMPTIONS = ("laplace: the noise source yields independent uniform bits; the draw is exact",)


@dataclass(frozen=True, slots=True)
class LaplaceNoise:
    """``scale`` of the noise and ``l1_sensitivity`` of the vector, in the same units."""

    scale: Rational
    l1_sensitivity: Rational

    def leaf(self) -> Laplace:
        """The ``laplace`` leaf of one use: the ratio, rounded down."""
        scale = positive(self.scale, name="scale")
        return Laplace(float_at_most(scale / positive(self.l1_sensitivity, name="l1_sensitivity")))

    def release(self, permit: Permit, path: str, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """``values`` (whole numbers) plus rounded Laplace noise in every coordinate.

        Whoever computes ``values`` guarantees that neighbouring data move them by at most ``l1_sensitivity`` in l1
        norm. Raises ``PermitViolation`` if the noise multiplier is below the certified one (compared exactly).
        """
        vector = np.asarray(values)
        if not np.issubdtype(vector.dtype, np.integer):
            raise UsageError(
                "the values to release are not whole numbers", hint="Scale them to a grid of whole numbers."
            )
        asked, exact = self.leaf(), Fraction(self.scale)
        charge(permit, path, asked, lambda certified: asked.noise_multiplier >= certified.noise_multiplier)

        def draw() -> NDArray[np.int64]:
            drawn = [rounded_laplace(exact, noise=permit.noise) for _ in range(vector.size)]
            return vector.astype(np.int64) + np.array(drawn, dtype=np.int64).reshape(vector.shape)

        return watched(permit, path, Statistic("l1", (vector,), (exact,)), draw)


def rounded_laplace(scale: Fraction, *, noise: Noise) -> int:
    """A real Laplace number of scale ``scale``, rounded to the nearest whole one; exactly distributed."""
    if not exponential_coin(1 / (2 * scale), noise=noise):
        return 0
    size = 1 + geometric(1 / scale, noise=noise)
    return -size if noise.integers(0, 2, size=1)[0] else size


MECHANISM = Mechanism(Laplace.kind, LaplaceNoise, "exact rounded Laplace noise", ASSUMPTIONS)
