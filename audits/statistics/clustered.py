"""A rate whose trials come in clusters: identifiers of one record, records of one mailbox.

What one person's records have in common leaks together, so a binomial interval over records is
too narrow. Here only the clusters are independent. With cluster sizes n_u (given), weights
w_u = n_u/Σn, hits h_u, cluster rates X_u = h_u/n_u in [0, 1] of mean p_u, the rate R = Σ w_u X_u
has mean p = Σ w_u p_u, and for r > p

    P(R ≥ r) ≤ exp(−KL(r‖p)/max w)      and      P(R ≥ r) ≤ exp(−2 (r − p)²/Σ w_u²).

The second is Hoeffding (1963), Theorem 2. The first: E e^{λ w X} ≤ 1 + p_u (e^{λw} − 1) by
convexity; K(λw)/w grows with w for a cumulant function K; log is concave in p_u; so
log E e^{λR} ≤ log(1 + p (e^{λ max w} − 1))/max w, and the best λ gives the divergence. Both bound
the same tail, so their minimum does, and inverting it at α/2 on either side gives an interval
that is valid for any dependence inside clusters and any number of them. Equal clusters of one
trial each are binomial: Clopper and Pearson then serve, and are narrower.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from affidavit.accountant.errors import UsageError
from affidavit.audits.statistics.clopper_pearson import rate_interval

__all__ = ["clustered_interval"]

_WIDTH = 1e-9


def clustered_interval(hits: Sequence[int], sizes: Sequence[int], *, alpha: float) -> tuple[float, float]:
    """Two-sided 1 − ``alpha`` interval for Σ hits / Σ sizes, one entry a cluster.

    Raises ``UsageError`` for no cluster, an empty one, or more hits than trials.
    """
    if not sizes or len(hits) != len(sizes) or any(not 0 <= h <= n or n < 1 for h, n in zip(hits, sizes, strict=True)):
        raise UsageError(
            "clusters must hold 0 to n hits of n >= 1 trials each",
            hint="Leave empty clusters out, as in `hits = [1, 2]` and `sizes = [2, 2]`.",
        )
    if not 0.0 < alpha < 1.0:
        raise UsageError(f"alpha is {alpha!r}", hint="For example `alpha = 0.05`, an error probability inside (0, 1)")
    total = sum(sizes)
    if total == len(sizes):
        return rate_interval(sum(hits), total, alpha=alpha)
    rate = sum(hits) / total
    widest = max(sizes) / total
    squares = sum(n * n for n in sizes) / total**2
    return _lower(rate, widest, squares, alpha), 1.0 - _lower(1.0 - rate, widest, squares, alpha)


def _lower(rate: float, widest: float, squares: float, alpha: float) -> float:
    """The largest p, from below, under which a rate as high as this has probability at most α/2."""
    wanted = math.log(2.0 / alpha)

    def exponent(p: float) -> float:
        return max(_divergence(rate, p) / widest, 2.0 * (rate - p) ** 2 / squares)

    low, high = 0.0, rate
    while high - low > _WIDTH:  # the lower end is returned: safe at any width
        middle = 0.5 * (low + high)
        low, high = (middle, high) if exponent(middle) >= wanted else (low, middle)
    return low


def _divergence(rate: float, p: float) -> float:
    """KL of two coins, rate against p, for 0 < p < rate ≤ 1."""
    rest = 0.0 if rate >= 1.0 else (1.0 - rate) * math.log((1.0 - rate) / (1.0 - p))
    return rate * math.log(rate / p) + rest
