"""What a claim allows: for every false positive rate x of a test, the largest true positive rate g(x) = 1 − f(x).

g is concave and non-decreasing and lies on or above the diagonal (Dong, Roth and Su 2022, Proposition 2.2), so what a
claim allows, {(x, t): t ≤ g(x)}, is a convex region. Three sources of g:

* a certificate's own curve: the minimum over its points (ε, δ) of two lines each (``accountant.tradeoff``);
* one (ε, δ): a curve of one point;
* Gaussian noise, μ = sensitivity over standard deviation: Φ(Φ⁻¹(x) + μ) (Dong, Roth and Su 2022, (6)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Boundary", "CurveBoundary", "GaussianBoundary", "TradeoffCurve", "of_curve"]

_LARGEST_EPSILON = 700.0
"""e^ε is no float beyond: of such a point only δ, at x = 0, is known."""
_OUTWARD = 1e-13
"""Of rounding: the region of a null is made larger by it, never smaller."""


class TradeoffCurve(Protocol):
    """What is needed of a certified curve (``affidavit.accountant.tradeoff.PrivacyCurve``)."""

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """(ε, δ), each a valid guarantee."""
        ...


class Boundary(Protocol):
    """A concave non-decreasing g; hashable, so that what was computed for it is kept."""

    def __hash__(self) -> int: ...

    def allowed(self, rates: NDArray[np.float64], /) -> NDArray[np.float64]:
        """g at every one of ``rates``."""
        ...


@dataclass(frozen=True, slots=True)
class CurveBoundary:
    """The least of the lines intercept + slope · x, and 1."""

    lines: tuple[tuple[float, float], ...]

    def allowed(self, rates: NDArray[np.float64], /) -> NDArray[np.float64]:
        """g at every one of ``rates``."""
        import numpy as np

        best = np.ones_like(rates)
        for intercept, slope in self.lines:
            np.minimum(best, intercept + slope * rates + _OUTWARD, out=best)
        return best


@dataclass(frozen=True, slots=True)
class GaussianBoundary:
    """μ-GDP."""

    mu: float

    def allowed(self, rates: NDArray[np.float64], /) -> NDArray[np.float64]:
        """g at every one of ``rates``."""
        import numpy as np
        from scipy.special import ndtr, ndtri

        return np.asarray(np.minimum(1.0, ndtr(ndtri(rates) + self.mu) + _OUTWARD))

    def epsilon(self, *, delta: float) -> float:
        """The ε of this noise at ``delta``, from below.

        δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) falls with ε (Balle and Wang 2018, Theorem 8).
        """
        from scipy.special import log_ndtr, ndtr

        if self.mu <= 0.0 or delta >= 1.0:
            return 0.0
        if delta <= 0.0:
            return math.inf

        def spent(epsilon: float) -> float:
            above, below = self.mu / 2.0 - epsilon / self.mu, -self.mu / 2.0 - epsilon / self.mu
            return float(ndtr(above)) - math.exp(epsilon + float(log_ndtr(below)))

        low, high = 0.0, 1.0
        if spent(low) <= delta:
            return 0.0
        while spent(high) > delta:
            high *= 2.0
        while high - low > 1e-9 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if spent(middle) > delta else (low, middle)
        return low


@lru_cache(maxsize=256)
def _of_points(points: tuple[tuple[float, float], ...]) -> CurveBoundary:
    lines = []
    for epsilon, delta in points:
        if epsilon < _LARGEST_EPSILON:
            lines.append((delta, math.exp(epsilon)))
        lines.append((1.0 - math.exp(-epsilon) * (1.0 - delta), math.exp(-epsilon)))
    return CurveBoundary(tuple(lines))


def of_curve(curve: TradeoffCurve) -> CurveBoundary:
    """The boundary of a certified curve."""
    return _of_points(tuple(curve.points))
