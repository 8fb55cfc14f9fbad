"""The Gaussian mechanism: a vector plus independent normal noise.

*Cost.* If neighbouring data move the vector by at most ``l2_sensitivity`` in Euclidean norm, one use
is dominated by the pair N(1, σ²), N(0, σ²) with σ = standard_deviation / l2_sensitivity, in both
directions, whatever the dimension (Balle and Wang 2018, "Improving the Gaussian mechanism for
differential privacy", theorem 8; Dong, Roth and Su 2022, "Gaussian differential privacy": it is
1/σ-GDP). That is the leaf ``gaussian``. The sensitivity is *for* a relation: under sampling without
replacement it is the substitution sensitivity on the sample (docs/theory/sampling.md). Clipping is the caller's.

*Sampling.* Float64 normals from the permit's noise source, taken as real numbers: the low bits of a
float64 sum are not those of a real one (Mironov 2012), which the certificate lists as an assumption.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.decimals import float_at_most
from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import Gaussian
from affidavit.mechanisms.base import (
    Mechanism,
    Permit,
    Rational,
    Statistic,
    charge,
    positive,
    watched,
)

__all__ = ["ASSUMPTIONS", "MECHANISM", "GaussianNoise"]

ASSUMPTIONS = ("gaussian: ideal real arithmetic (float64 draws and sums are treated as real numbers)",)


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """``standard_deviation`` of the noise and ``l2_sensitivity`` of the vector, in the same units."""

    standard_deviation: Rational
    l2_sensitivity: Rational

    def leaf(self) -> Gaussian:
        """The ``gaussian`` leaf of one use: the ratio, rounded down."""
        scale = positive(self.standard_deviation, name="standard_deviation")
        return Gaussian(float_at_most(scale / positive(self.l2_sensitivity, name="l2_sensitivity")))

    def release(self, permit: Permit, path: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """``values`` plus noise in every coordinate.

        Whoever computes ``values`` guarantees that neighbouring data move them by at most ``l2_sensitivity`` in l2
        norm. Raises ``PermitViolation`` if the noise multiplier is below the certified one (compared exactly).
        """
        vector = np.asarray(values, dtype=np.float64)
        if not np.all(np.isfinite(vector)):
            raise UsageError("the values to release are not all finite", hint="Clip the values before releasing them.")
        asked, scale = self.leaf(), Fraction(self.standard_deviation)
        charge(permit, path, asked, lambda certified: asked.noise_multiplier >= certified.noise_multiplier)

        def draw() -> NDArray[np.float64]:
            return vector + float(scale) * permit.noise.standard_normal(vector.size).reshape(vector.shape)

        return watched(permit, path, Statistic("l2", (vector,), (scale,)), draw)


MECHANISM = Mechanism(Gaussian.kind, GaussianNoise, "normal noise in float64", ASSUMPTIONS)
