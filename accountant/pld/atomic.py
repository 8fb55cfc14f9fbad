r"""Pairs with finitely many losses: pure and approximate DP, and composed PLDs.

Pure (ε₀, 0)-DP is dominated by randomised response, which attains it: losses ±ε₀ with P-masses
e^{ε₀}/(1+e^{ε₀}) and 1/(1+e^{ε₀}); (ε₀, δ₀)-DP by the same scaled by 1 − δ₀ with
P-mass δ₀ at +inf and Q-mass δ₀ at −inf (Kairouz, Oh, Viswanath 2015, theorem 3.2). Both are
attained and symmetric. A few of them are multiplied out (``product``): equal losses are binomial.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from affidavit.accountant.pld.curve import Array, Curve, Logs, ever
from affidavit.accountant.rounding import ULP

__all__ = ["Atomic", "approximate", "product", "pure"]

MOST_TERMS = 2**18
"""Beyond so many δ is the difference of two tails."""
PRODUCT_LOSSES = 20_000
"""Most losses of an exact product beside other curves."""


class Atomic(Curve):
    """Losses in increasing order with the logarithms of their P-masses.

    Q's mass at a finite loss l is e^{−l} times P's; ``q_missing``, by default what is missing
    from 1, sits at loss −inf. ``infinity`` is P's mass at +inf. P-masses need not add up to 1 on
    a lower side: what is missing counts as a loss of −inf. ``atoms`` are the losses that the grid
    should hit, all of them by default; ``moved`` is what rounding may have moved the losses by.
    """

    moved = 0.0

    def __init__(
        self,
        losses: Array,
        log_p: Array,
        *,
        infinity: float = 0.0,
        q_missing: float | None = None,
        atoms: tuple[float, ...] | None = None,
    ) -> None:
        self.losses, self.log_p, self.infinity = losses, log_p, infinity
        self.low, self.high = float(losses[0]), float(losses[-1])
        self.atoms = tuple(float(x) for x in losses) if atoms is None else atoms
        self.polygon = len(self.atoms) > 0
        self.bottom = q_missing or 0.0
        log_infinity = math.log(infinity) if infinity > 0.0 else -math.inf
        log_q = log_p - losses
        self._high_p = _tails(log_p, log_infinity)
        self._high_q = np.minimum(_tails(log_q, -math.inf), 0.0)
        self._low_p = _heads(self._high_p, log_p, None)
        self._low_q = _heads(self._high_q, log_q, q_missing)
        # Two opposite losses with Q normalised: randomised response is its own swap.
        opposite = losses.size == 2 and losses[0] == -losses[1]
        self.symmetric = bool(opposite and np.allclose(log_q[::-1], log_p, rtol=0.0, atol=1e-12))

    def logs(self, loss: Array) -> Logs:
        at = np.searchsorted(self.losses, loss, side="right")
        return Logs(self._high_p[at], self._high_q[at], self._low_p[at], self._low_q[at])

    def deltas(self, epsilon: Array) -> tuple[Array, Array]:
        """δ(ε) as sums of positive terms, so accurate between the last two losses too."""
        if epsilon.size * self.losses.size > MOST_TERMS:
            return super().deltas(epsilon + self.moved)[0], super().deltas(epsilon - self.moved)[1]
        first = int(np.searchsorted(self.losses, np.min(epsilon, initial=math.inf) - self.moved))
        log_p = self.log_p[first:]
        gaps, masses = np.subtract.outer(epsilon, self.losses[first:]), np.exp(log_p)
        value = -np.expm1(np.minimum(gaps, 0.0)) @ masses
        above = gaps < self.moved
        size = np.max(np.where(above, np.abs(log_p), 0.0), axis=1, initial=0.0)
        slack = (value + self.infinity) * (ULP * (8.0 + math.log2(self.losses.size + 1) + size) + self.accuracy)
        # The rounding of l and of ε − l matters where the gap is small.
        slack += (self.moved + ULP * (np.abs(epsilon) + abs(self.high))) * (above @ masses)
        slack = np.where(epsilon >= self.high, 0.0, slack)
        value += self.infinity
        return np.maximum(value - slack, 0.0), np.minimum(value + slack, 1.0)


def _tails(log_mass: Array, log_start: float) -> Array:
    """ln of the mass strictly beyond each index, summed from the small end."""
    reversed_masses = np.concatenate(([log_start], log_mass[::-1]))
    return np.ascontiguousarray(np.logaddexp.accumulate(reversed_masses)[::-1])


def _heads(log_tail: Array, log_mass: Array, missing: float | None) -> Array:
    """ln of the mass at or below, summed from the low end; None takes what is missing from 1.

    Never the complement of a tail: an upper side may sum to a little more than 1, and bins must
    have the same mass from either end.
    """
    if missing is None:
        complement = -math.expm1(min(float(log_tail[0]), 0.0))
        missing = complement if complement > 1e-13 else 0.0
    start = math.log(missing) if missing > 0.0 else -math.inf
    summed: Array = np.logaddexp.accumulate(np.concatenate(([start], log_mass)))
    return np.minimum(summed, 0.0)


def pure(epsilon: float) -> Curve:
    """Randomised response at ``epsilon`` > 0."""
    return approximate(epsilon, 0.0)


def approximate(epsilon: float, delta: float) -> Curve:
    """The pair that dominates every (``epsilon``, ``delta``)-DP mechanism; delta < 1."""
    keep = math.log1p(-delta)
    log_low = -(epsilon + math.log1p(math.exp(-epsilon)))
    log_high = -math.log1p(math.exp(-epsilon))
    if epsilon == 0.0:
        return Atomic(np.array([0.0]), np.array([keep]), infinity=delta, q_missing=delta)
    return Atomic(np.array([-epsilon, epsilon]), keep + np.array([log_low, log_high]), infinity=delta, q_missing=delta)


def product(parts: Sequence[tuple[Curve, int]], *, most: int = PRODUCT_LOSSES) -> Atomic | None:
    """The exact composition of curves with one or two atoms, if it has at most so many losses.

    A binomial coefficient is off by the rounding of log-gamma, below 4 units of the largest twice: with a part's other
    roundings below 12 units of what its logarithms are sums of, and one unit for each sum over parts.
    """
    losses, log_p, moved, accuracy = np.zeros(1), np.zeros(1), 0.0, 0.0
    if math.prod(count + 1 for _, count in parts) > most:
        return None
    for curve, count in parts:
        if not (isinstance(curve, Atomic) and curve.polygon and curve.losses.size <= 2):
            return None
        highs = np.arange(count + 1.0) if curve.losses.size == 2 else np.zeros(1)
        lows = count - highs
        ways = gammaln(count + 1.0) - gammaln(highs + 1.0) - gammaln(lows + 1.0) if highs.size > 1 else highs
        added = lows * curve.losses[0] + highs * curve.losses[-1]
        weight = ways + lows * curve.log_p[0] + highs * curve.log_p[-1]
        losses, log_p = np.add.outer(losses, added).ravel(), np.add.outer(log_p, weight).ravel()
        moved += count * float(np.abs(curve.losses).max())
        accuracy += 1.0 + float(gammaln(count + 1.0)) - count * float(curve.log_p.min())
    order = np.argsort(losses, kind="stable")
    infinity = ever((curve.infinity, count) for curve, count in parts)
    missing = ever((curve.bottom, count) for curve, count in parts)
    result = Atomic(losses[order], log_p[order], infinity=infinity, q_missing=missing, atoms=())
    unit = 0.5 * ULP
    result.accuracy, result.moved = unit * (len(parts) + 12) * accuracy, unit * (len(parts) + 2) * moved
    result.low, result.high = result.low - result.moved, result.high + result.moved
    return result
