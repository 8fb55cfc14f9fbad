r"""The coverage count: how many points lie within a radius of a public centre, plus Gaussian noise.

Gao et al. 2025 (AdaDPSyn), algorithm 1, lines 11 and 12. Centre and radius are public or released before, and may
depend on earlier outcomes.

*Sensitivity, per relation.* A point counts 0 or 1. One point replaced, added or taken away changes the count by at
most 1: sensitivity 1 under add-remove, zero-out and substitution alike, and noise multiplier σ = standard deviation.

*Arithmetic.* Whether a point counts is decided in whole numbers on the grid 2^-26, so it is a function of that point
alone. The noise is that of ``gaussian``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.decimals import float_at_most
from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import Gaussian
from affidavit.mechanisms import gaussian
from affidavit.mechanisms.base import Permit, Rational, positive, public
from affidavit.mechanisms.gaussian import GaussianNoise

__all__ = [
    "MECHANISM",
    "CoverageCount",
    "covered",
    "on_grid",
    "squared_distances",
    "squared_radius",
]

_GRID = 1 << 26  # squares of differences of points within 2 of each other sum to less than 2^56


@dataclass(frozen=True, slots=True)
class CoverageCount:
    """``noise_multiplier``: the standard deviation of the noise on the count."""

    noise_multiplier: Rational

    def leaf(self) -> Gaussian:
        """The ``gaussian`` leaf of one use: sensitivity 1."""
        return Gaussian(float_at_most(positive(self.noise_multiplier, name="noise_multiplier")))

    def inside(self, centre: NDArray[np.float64], *, radius: float) -> CoverageInside:
        """How many points are in a ball that is public, or was released."""
        return CoverageInside(self, centre, radius)


@dataclass(frozen=True, slots=True, eq=False)
class CoverageInside:
    """``spec`` for the ball of ``radius`` about ``centre``."""

    spec: CoverageCount
    centre: NDArray[np.float64]
    radius: float

    def leaf(self) -> Gaussian:
        """As of ``spec``."""
        return self.spec.leaf()

    def release(self, permit: Permit, path: str, values: NDArray[np.float64]) -> float:
        """The noisy number of points within the ball."""
        public(permit, path, self.centre, self.radius)
        count = float(covered(values, centre=self.centre, radius=self.radius).sum())
        return float(GaussianNoise(self.spec.noise_multiplier, 1).release(permit, path, np.array([count]))[0])


def covered(points: NDArray[np.float64], *, centre: NDArray[np.float64], radius: float) -> NDArray[np.bool_]:
    """Which points lie within ``radius`` of ``centre``."""
    near: NDArray[np.bool_] = squared_distances(on_grid(points), on_grid(centre)) <= squared_radius(radius)
    return near


def squared_radius(radius: float) -> int:
    """A radius's square in squared grid units, rounded down."""
    steps = int(max(0.0, min(radius, 2.0)) * _GRID)
    return steps * steps


def on_grid(points: NDArray[np.float64]) -> NDArray[np.int64]:
    """Whole multiples of 2^-26. Points are of l1 norm <= 1, so that squared distances fit 64 bits."""
    values = np.asarray(points, dtype=np.float64)
    if not np.all(np.isfinite(values)) or np.any(np.abs(values).sum(axis=-1) > 1.0 + 2.0**-20):
        raise UsageError("points are not finite, or of l1 norm above 1", hint="Give points of the simplex.")
    return np.rint(values * _GRID).astype(np.int64)


def squared_distances(points: NDArray[np.int64], centre: NDArray[np.int64]) -> NDArray[np.int64]:
    """Exact squared distances of grid points to one of them."""
    distances: NDArray[np.int64] = np.square(points - centre).sum(axis=-1)
    return distances


MECHANISM = replace(gaussian.MECHANISM, spec=CoverageCount, name="coverage")
