"""How far observed rates are from a null {t ≤ g(x)}, in the divergence of coins.

D(X, Y) = min over the null of n₁ KL(X/n₁ ‖ t) + n₀ KL(Y/n₀ ‖ x): the minimum has t ≤ X/n₁ and x ≥ Y/n₀ (else move it
there: the null is closed under smaller t and larger x), so D rises with X and falls with Y.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from affidavit.audits.statistics.boundaries import Boundary
from affidavit.audits.statistics.clopper_pearson import Counts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rates = NDArray[np.float64]

__all__ = ["coin_divergence", "distance", "distance_at_least", "inverse_divergence", "perfect_distance", "rates_beyond"]


def distance(boundary: Boundary, hits: Rates, alarms: Rates, *, members: float, non_members: float) -> Rates:
    """D at observed rates, 0 inside the null; to some four digits, for choosing among attacks."""
    import numpy as np

    share = np.linspace(0.0, 1.0, 257) ** 2
    start = np.arcsin(np.sqrt(alarms))[:, None]
    rates = np.sin(start + share * (0.5 * np.pi - start)) ** 2
    allowed = np.minimum(boundary.allowed(rates), hits[:, None])
    far = members * coin_divergence(hits[:, None], allowed) + non_members * coin_divergence(alarms[:, None], rates)
    return np.asarray(far.min(axis=1))


def distance_at_least(boundary: Boundary, counts: Counts) -> float:
    """D of these counts, from below: over cells [a, b] of x, with g(b) and a."""
    import numpy as np

    hit, alarm = counts.true_positives / counts.members, counts.false_positives / counts.non_members
    best = math.inf

    def far(allowed_at: Rates, rates: Rates) -> Rates:
        hits = counts.members * coin_divergence(np.asarray(hit), np.minimum(boundary.allowed(allowed_at), hit))
        return np.asarray(hits + counts.non_members * coin_divergence(np.asarray(alarm), rates))

    angles = np.linspace(math.asin(math.sqrt(alarm)), 0.5 * math.pi, 513)
    low, high = (np.clip(np.sin(each) ** 2, alarm, 1.0) for each in (angles[:-1], angles[1:]))
    for _ in range(12):
        below = far(high, low)
        unclear = below < float(far(low, low).min()) * (1.0 - 1e-6)
        if not unclear.any():
            break
        settled = float(below[~unclear].min(initial=math.inf))
        parts = np.linspace(low[unclear], high[unclear], 5)
        low, high = parts[:-1].ravel(), parts[1:].ravel()
        best = min(best, settled)
    return min(best, float(far(high, low).min()))


def perfect_distance(boundary: Boundary, *, members: int, non_members: int) -> float:
    """D of every member found and no false alarm, from below: that outcome has probability e^−D at most.

    −D is the largest value of n₁ ln g(x) + n₀ ln(1 − x), concave in x: bounded over cells as the region's chance is.
    """
    import numpy as np

    edges = np.concatenate([[0.0], np.geomspace(1e-12, 1.0, 4097)])
    for _ in range(4):
        with np.errstate(divide="ignore"):
            above = members * np.log(boundary.allowed(edges[1:])) + non_members * np.log1p(-edges[:-1])
        best = int(np.argmax(above))
        near = slice(max(0, best - 1), min(len(edges), best + 3))
        edges = np.unique(np.concatenate([edges, np.linspace(edges[near][0], edges[near][-1], 513)]))
    return max(0.0, -float(above[best]))


def rates_beyond(alarms: Rates, divergence: float, *, across: int) -> Rates:
    """A row of rates above each of ``alarms``, to where the divergence is surely that large: KL(p ‖ x) ≥ Δθ²."""
    import numpy as np

    start = np.arcsin(np.sqrt(alarms))[:, None]
    shares = np.linspace(0.0, 1.0, across)
    return np.asarray(np.sin(np.minimum(0.5 * np.pi, start + math.sqrt(divergence) * shares)) ** 2)


def coin_divergence(first: Rates, second: Rates) -> Rates:
    """KL of two coins."""
    import numpy as np
    from scipy.special import rel_entr

    return np.asarray(rel_entr(first, second) + rel_entr(1.0 - first, 1.0 - second))


def inverse_divergence(rates: Rates, divergence: Rates, *, below: bool) -> Rates:
    """The p ≥ t with KL(p ‖ t) = r (2 where there is none); ``below``: with KL(t ‖ p) = r (at most 1)."""
    import numpy as np
    from scipy.special import logit

    low, high = rates.copy(), np.ones_like(rates)
    if below:
        for _ in range(48):
            middle = 0.5 * (low + high)
            near = coin_divergence(rates, middle) < divergence
            low, high = np.where(near, middle, low), np.where(near, high, middle)
        return high
    t = np.clip(rates, 1e-300, 1.0 - 1e-16)
    p = np.sin(np.minimum(np.arcsin(np.sqrt(t)) + np.sqrt(0.5 * divergence), 0.5 * np.pi)) ** 2
    for _ in range(12):
        p = np.clip(p, t, 1.0 - 1e-16)
        slope = logit(p) - logit(t)
        step = np.divide(coin_divergence(p, t) - divergence, slope, out=np.zeros_like(p), where=slope > 1e-12)
        p = p - step
    p = np.clip(p, t, 1.0)
    return np.asarray(np.where(rates >= 1.0, 2.0, np.where(-np.log(t) < divergence, 2.0, p)))
