"""Rejection regions of two binomial counts, and the largest chance that a null gives them.

X ~ Bin(n₁, t) hits and Y ~ Bin(n₀, x) false alarms; a region is {X ≥ k(Y)}. P(X ≥ k(Y)) rises with t and, with k
non-decreasing, falls with x. So its supremum over a null {t ≤ g(x)} is on the boundary, and for x in a cell [a, b] it
is at most its value at (a, g(b)): cells are halved until this is at most α, or some point of the boundary is found to
exceed it. Sums leave out no mass: what lies beyond the summed window is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from affidavit.audits.statistics.boundaries import Boundary
from affidavit.audits.statistics.clopper_pearson import Counts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rates = NDArray[np.float64]

__all__ = ["ROUNDING", "Region", "largest_chance_found", "largest_chance_is_at_most"]

ROUNDING = 1e-8
"""Of binomial probabilities by log-gamma functions, relative; they are taken larger by it."""
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Reject when there are at least ``needed[Y]`` hits with Y false alarms; ``radius`` is the d that made it."""

    members: int
    non_members: int
    radius: float
    needed: NDArray[np.int64] = field(repr=False)

    def rejects(self, counts: Counts) -> bool:
        """Whether these counts are in it."""
        return counts.true_positives >= int(self.needed[counts.false_positives])

    def chance(self, true_positive_rate: float, false_positive_rate: float) -> float:
        """Of rejecting, at these rates."""
        import numpy as np

        return float(_chances(self, np.asarray([false_positive_rate]), np.asarray([true_positive_rate]))[0])


def largest_chance_is_at_most(alpha: float, region: Region, boundary: Boundary) -> bool:
    """Whether the null nowhere makes the region likelier than ``alpha``; False also where that is too close to tell."""
    import numpy as np

    angles = np.linspace(0.0, 0.5 * np.pi, 65)
    low, high, small = angles[:-1], angles[1:], 1e-3 * alpha
    while low.size:
        from_, to = np.sin(low) ** 2, np.sin(high) ** 2
        unclear = _chances(region, from_, boundary.allowed(to), negligible=small) > alpha
        low, high, to = low[unclear], high[unclear], to[unclear]
        if low.size and bool((_chances(region, to, boundary.allowed(to), negligible=small) > alpha).any()):
            return False
        if low.size and float((high - low).min()) < 1e-9:
            return False
        parts = np.linspace(low, high, 5)
        low, high = parts[:-1].ravel(), parts[1:].ravel()
    return True


def largest_chance_found(region: Region, boundary: Boundary, *, negligible: float) -> float:
    """The largest chance that was found under the null: a guide, from below."""
    import numpy as np

    low, high, best = 0.0, 0.5 * np.pi, 0.0
    for across in (97, 25, 25):
        angles = np.linspace(low, high, across)
        rates = np.sin(angles) ** 2
        found = _chances(region, rates, boundary.allowed(rates), negligible=negligible)
        at = int(np.argmax(found))
        best = max(best, float(found[at]))
        low, high = angles[max(0, at - 1)], angles[min(across - 1, at + 1)]
    return best


def _chances(region: Region, false_positive: Rates, true_positive: Rates, *, negligible: float = 1e-15) -> Rates:
    """P(X ≥ k(Y)) at every pair of rates, from above; by ``negligible`` at most where that saves work."""
    import numpy as np

    found = np.empty(len(false_positive))
    widths = 2 * _reach(region.non_members, false_positive) + 1
    order = np.argsort(widths)
    start = 0
    while start < len(order):
        stop = min(len(order), start + max(1, _CHUNK // int(widths[order[-1]])))
        chosen = order[start:stop]
        found[chosen] = _chunk(region, false_positive[chosen], true_positive[chosen], negligible)
        start = stop
    return found


def _reach(trials: int, rates: Rates) -> NDArray[np.int64]:
    import numpy as np

    return np.minimum(trials, np.ceil(8.5 * np.sqrt(trials * rates * (1.0 - rates)) + 20.0)).astype(np.int64)


def _chunk(region: Region, false_positive: Rates, true_positive: Rates, negligible: float) -> Rates:
    """Numbers of false alarms are taken in blocks of a share of their spread, with what the least of them needs."""
    import numpy as np
    from scipy.special import bdtr, bdtrc, xlog1py, xlogy

    n, m = region.non_members, region.members
    block = max(1, int(math.sqrt(n * float((false_positive * (1.0 - false_positive)).max())) / 40.0))
    blocks = -(-min(n + 1, 2 * int(_reach(n, false_positive).max()) + 1) // block)
    width = blocks * block
    first = np.clip(np.floor(n * false_positive).astype(np.int64) - width // 2, 0, max(0, n + 1 - width))
    alarms = first[:, None] + np.arange(width)
    there = alarms <= n
    alarms = np.minimum(alarms, n)
    x = false_positive[:, None]
    weights = np.where(there, np.exp(_ways(n)[alarms] + xlogy(alarms, x) + xlog1py(n - alarms, -x)), 0.0)
    weights = weights.reshape(len(first), blocks, block).sum(axis=2)
    needed = region.needed[alarms[:, ::block]]
    counted = (weights > negligible / blocks) & (needed >= 1) & (needed <= m)
    reached = np.where(needed > m, 0.0, 1.0)
    rates = np.broadcast_to(true_positive[:, None], needed.shape)
    reached[counted] = bdtrc(needed[counted] - 1.0, m, rates[counted])
    last = first + width - 1
    beyond = np.where(first > 0, bdtr(np.maximum(first - 1.0, 0.0), n, false_positive), 0.0)
    beyond = beyond + np.where(last < n, bdtrc(np.minimum(last, n - 1.0), n, false_positive), 0.0)
    return np.asarray((weights * reached).sum(axis=1) * (1.0 + ROUNDING) + beyond)


@lru_cache(maxsize=64)
def _ways(trials: int) -> Rates:
    """ln of the binomial coefficients."""
    import numpy as np
    from scipy.special import gammaln

    of = np.arange(trials + 1.0)
    return np.asarray(gammaln(trials + 1.0) - gammaln(of + 1.0) - gammaln(trials - of + 1.0))
