r"""Good radius: a radius at which a ball about some point holds many points, by a noisy binary search.

Nissim, Stemmer and Vadhan 2016, "Locating a small cluster privately" (GoodRadius), as used by Gao et al. 2025
(AdaDPSyn), algorithms 4 and 5. With B_r(x) the number of points within r of x, held to t (``volume``), let

    L(r) = (1/t) · the sum of the t largest B_r(x_i)            (missing points count 0)

and search [0, √2/2] for a radius with L(r) >= t but L(r/2) < t, comparing noisy values with t. The interval is halved
⌈log2(√2/(2θ))⌉ times, θ the ``tolerance``: a public number, whatever is found; each time L(r) and L(r/2) are released.

*Sensitivity of L, per relation.* Let one point x join. Each of the other points' B rises by at most 1 and x brings
its own B <= t. If x is not among the t largest, t·L rises by at most t. If it is, it displaces the least of the old t
largest, a_t >= 0, and t·L rises by at most (t − 1) + (t − a_t) <= 2t − 1. So joining moves L by 0 to 2 − 1/t, upwards
only (add-remove, zero-out). Replacing a point is leaving and joining, two moves in *opposite* directions: again at most
2 − 1/t (substitution). "Near" has to be a symmetric relation of pairs and nothing more, so rounding does no harm.
All of it, and settings that follow from earlier outcomes, is covered by sensitivity 2: noise of standard deviation 2σ
is noise multiplier σ, and a search is 2⌈log2(√2/(2θ))⌉ adaptive uses of the leaf ``gaussian``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.decimals import float_at_most
from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import Gaussian, Repeat
from affidavit.mechanisms import gaussian
from affidavit.mechanisms.base import Permit, Rational, draw, positive, public
from affidavit.mechanisms.coverage import on_grid, squared_distances, squared_radius
from affidavit.mechanisms.gaussian import GaussianNoise

__all__ = ["LARGEST", "MECHANISM", "GoodRadius", "average_coverage"]

LARGEST = math.sqrt(2.0) / 2.0
"""Half the diameter of the probability simplex: where the search starts."""

_SENSITIVITY = 2


@dataclass(frozen=True, slots=True)
class GoodRadius:
    """``noise_multiplier`` σ: noise of 2σ on each value; ``tolerance`` θ: the width at which the search ends."""

    noise_multiplier: Rational
    tolerance: float

    @property
    def halvings(self) -> int:
        """⌈log2(√2/(2θ))⌉, and at least one."""
        if not 0.0 < self.tolerance < math.inf:
            raise UsageError("tolerance is not a finite number > 0", hint="For example `tolerance = 0.1`.")
        width, halvings = LARGEST, 0
        while width > self.tolerance:
            width, halvings = width / 2.0, halvings + 1
        return max(1, halvings)

    @property
    def uses(self) -> int:
        """Releases of a search: two a halving."""
        return 2 * self.halvings

    def leaf(self) -> Gaussian:
        """The ``gaussian`` leaf of one of the values."""
        return Gaussian(float_at_most(positive(self.noise_multiplier, name="noise_multiplier")))

    def plan(self) -> Repeat:
        """The whole search."""
        return Repeat(self.uses, self.leaf())

    def holding(self, volume: int) -> RadiusHolding:
        """The search for a ball of ``volume`` points; a public number."""
        return RadiusHolding(self, volume)


@dataclass(frozen=True, slots=True)
class RadiusHolding:
    """``spec`` for a ball that should hold ``volume`` points."""

    spec: GoodRadius
    volume: int

    def leaf(self) -> Gaussian:
        """Of each of its uses."""
        return self.spec.leaf()

    def release(self, permit: Permit, path: str, values: NDArray[np.float64]) -> float:
        """A radius, by ``spec.uses`` draws charged to the leaf at ``path`` (the leaf of ``spec.plan()``).

        ``values``: points, as rows of the probability simplex. All draws are made whatever they show.
        """
        if self.volume < 1:
            raise UsageError(
                "the volume of a ball is not a whole number >= 1", hint="Give the public number of points."
            )
        public(permit, path, self.volume)
        distances = _pairwise(values)
        deviation = _SENSITIVITY * positive(self.spec.noise_multiplier, name="noise_multiplier")
        noise = GaussianNoise(deviation, _SENSITIVITY)
        low, high = 0.0, LARGEST
        for _ in range(self.spec.halvings):
            middle = (low + high) / 2.0
            held = (average_coverage(distances, radius=r, volume=self.volume) for r in (middle, middle / 2.0))
            whole, half = (float(draw(permit, path, noise, np.array([value]))[0]) for value in held)
            if half >= self.volume or whole >= self.volume:
                high = middle
            else:
                low = middle
        return (low + high) / 2.0


def average_coverage(squared: NDArray[np.int64], *, radius: float, volume: int) -> float:
    """L(``radius``) from all pairs' squared distances (rows, rows) in squared grid units."""
    held = np.minimum((squared <= squared_radius(radius)).sum(axis=1), volume)
    return float(np.sort(held)[::-1][:volume].sum()) / volume


def _pairwise(points: NDArray[np.float64]) -> NDArray[np.int64]:
    grid = on_grid(points)
    return np.array([squared_distances(grid, row) for row in grid], dtype=np.int64).reshape(len(grid), len(grid))


MECHANISM = replace(gaussian.MECHANISM, spec=GoodRadius, name="good-radius")
