r"""The projected mean: points drawn into a ball about a public centre, summed, plus Gaussian noise.

    d_i = (p_i − centre) · min(1, R / ‖p_i − centre‖),      mean = centre + (Σ d_i + N(0, (2Rσ)² I)) / count

Gao et al. 2025 (AdaDPSyn), algorithm 1, lines 19 and 20. Centre, R and ``count`` are public or released before;
they may have been chosen from earlier outcomes, since the cost does not depend on them.

*Sensitivity, per relation.* ‖d_i‖ <= R for every point, and nothing else depends on the data.

- one point replaced (substitution; a sample without replacement, whatever the relation; a prompt of several records of
  which one changes): Σ d_i moves by at most 2R. Noise multiplier σ.
- one point joins or leaves (add-remove, zero-out, one record a point): by at most R. Noise multiplier 2σ.

The sum is *about the centre* and ``count`` fixed: were it a sum of the points themselves, a joining point would move it
by ‖p_i‖, up to 1, and noise in proportion to R would not hide it.

*Arithmetic.* Each d_i is truncated to whole multiples of 2^-40, after shrinking by a factor 1 − 2^-30 that exceeds all
float64 rounding of norm and quotient (under 2^-34 for 2^17 coordinates), so the bound R holds for what is summed; the
sum is one of integers, in any order. The noise is that of ``gaussian``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.decimals import float_at_most
from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import Gaussian
from affidavit.mechanisms import gaussian
from affidavit.mechanisms.base import Permit, Rational, positive, public
from affidavit.mechanisms.gaussian import GaussianNoise

__all__ = ["GRID", "MECHANISM", "Change", "ProjectedMean", "projected"]

Change: TypeAlias = Literal["replaced", "joins"]
"""What one record does to a sum of points: replaces one by another, or adds one that was absent."""

GRID = 1 << 40
"""Grid points per unit."""

_SHRINK = 1.0 - 2.0**-30
_MAX_COORDINATES = 1 << 17
_MOST = float(1 << 22)
"""Of all points together: 2^62 grid points."""


@dataclass(frozen=True, slots=True)
class ProjectedMean:
    """Noise of standard deviation 2 · radius · ``noise_multiplier``; ``change``: what one record does to the sum."""

    noise_multiplier: Rational
    change: Change

    @property
    def l2_sensitivity_in_radii(self) -> int:
        """2 or 1: how far one record moves the sum, in units of the ball's radius."""
        return 2 if self.change == "replaced" else 1

    def leaf(self) -> Gaussian:
        """The ``gaussian`` leaf of one use: σ, or 2σ where a record only joins; rounded down."""
        deviation = 2 * positive(self.noise_multiplier, name="noise_multiplier")
        return Gaussian(float_at_most(deviation / self.l2_sensitivity_in_radii))

    def about(self, centre: NDArray[np.float64], *, radius: Rational, count: int) -> MeanAbout:
        """The mean of points drawn into a ball that is public, or was released."""
        return MeanAbout(self, centre, radius, count)


@dataclass(frozen=True, slots=True, eq=False)
class MeanAbout:
    """``spec`` about a ``centre``, in ``radius``, by the public denominator ``count``."""

    spec: ProjectedMean
    centre: NDArray[np.float64]
    radius: Rational
    count: int

    def leaf(self) -> Gaussian:
        """As of ``spec``."""
        return self.spec.leaf()

    def release(self, permit: Permit, path: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The noisy mean of points (rows, coordinates) drawn into the ball.

        Raises ``PermitViolation`` where ``spec`` has less noise than certified.
        """
        exact, spec = positive(self.radius, name="radius"), self.spec
        if self.count < 1:
            raise UsageError("the denominator of a mean is not a whole number >= 1", hint="Give the public count.")
        public(permit, path, self.centre, float(exact), self.count)
        total = projected(values, centre=self.centre, radius=float_at_most(exact)).sum(axis=0, dtype=np.int64)
        noise = GaussianNoise(2 * exact * Fraction(spec.noise_multiplier), spec.l2_sensitivity_in_radii * exact)
        noisy = noise.release(permit, path, total.astype(np.float64) / GRID)
        return np.asarray(self.centre, dtype=np.float64) + noisy / self.count


def projected(points: NDArray[np.float64], *, centre: NDArray[np.float64], radius: float) -> NDArray[np.int64]:
    """d_i of every row in grid units: l2 norm at most ``radius`` · 2^40. A row's result depends on that row alone."""
    rows = np.asarray(points, dtype=np.float64)
    middle = np.asarray(centre, dtype=np.float64)
    if rows.ndim != 2 or middle.shape != rows.shape[1:] or middle.size > _MAX_COORDINATES:
        raise UsageError("points are not rows of the centre's length", hint=f"At most {_MAX_COORDINATES} coordinates.")
    if not np.all(np.isfinite(rows)) or not np.all(np.isfinite(middle)):
        raise UsageError("points or centre are not all finite", hint="Leave rows without finite values out.")
    if len(rows) * radius > _MOST:
        raise UsageError(
            f"{len(rows)} points in a ball of radius {radius:g} may add up to more than 64 bits hold",
            hint=f"Scale them down with it: at most `radius = {_MOST / len(rows)!r}`.",
        )
    result = np.zeros(rows.shape, dtype=np.int64)
    for index in range(len(rows)):
        offset = rows[index] - middle
        length = float(np.sqrt(np.square(offset).sum()))
        limit = radius * _SHRINK
        if length > limit:
            offset *= limit / length
        result[index] = np.trunc(offset * GRID).astype(np.int64)
    return result


MECHANISM = replace(gaussian.MECHANISM, spec=ProjectedMean, name="projected-mean")
