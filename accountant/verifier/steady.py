"""The strategy that makes the same choice at every exponential step: a lower side for many of them.

With the same t at every step (``adaptive``) the total loss is a binomial's: k of T steps lose t, the rest
t - η. That is a strategy the plan admits, and its δ is exact; what an adversary gains by adapting falls with η
(0.1 % of ε at η = 0.2, T = 1,000), while the lattice of the recursion gets too coarse. t is found in floats,
which can only cost width.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from affidavit.accountant.verifier.balls import ball, precision
from affidavit.accountant.verifier.combine import Goal
from affidavit.accountant.verifier.product import ProductProfile, TwoValued, two_point_product

__all__ = ["MOST_STEPS", "steady_profile"]

BITS = 256
MOST_STEPS = 1_000_000
SHARES = np.linspace(0.45, 0.85, 21)
ROUNDS, NARROWER = 3, 0.15


def steady_profile(spread: Fraction, count: int, goal: Goal, *, budget: float) -> ProductProfile:
    """``count`` <= ``MOST_STEPS`` uses of range ``spread``, all with the one t that is best for the goal.

    ``budget``: the mass that may be cut off (it is charged).
    """
    loss = _best_loss(float(spread), count, goal)
    with precision(BITS):
        eta, high = ball(spread), ball(loss)
        share = (eta - high).expm1() / ((-high).exp() * eta.expm1())
        atoms = two_point_product([], budget=budget, others=[TwoValued(high, high - eta, share, count)])
    return ProductProfile(None, atoms, "one choice at every exponential mechanism", BITS)


def _best_loss(eta: float, count: int, goal: Goal) -> float:
    """About the best t, by trying shares of η on a finer and finer grid."""
    shares = SHARES
    width, best = float(SHARES[-1] - SHARES[0]), 0.5
    for _ in range(ROUNDS):
        best = max((float(share) for share in shares), key=lambda share: _worth(share * eta, eta, count, goal))
        width *= NARROWER
        shares = np.clip(best + np.linspace(-0.5, 0.5, 9) * width, 0.01, 0.99)
    return best * eta


def _worth(loss: float, eta: float, count: int, goal: Goal) -> float:
    """ε at the goal's δ, or δ at its ε, in floats: the best of the events "at least k steps lose t"."""
    from scipy.special import betainc

    p = math.expm1(eta - loss) / (math.exp(-loss) * math.expm1(eta))
    q = p * math.exp(-loss)
    least = max(1, math.floor(count * q))
    k = np.unique(np.linspace(least, count, min(count, 4000)).astype(np.int64)).astype(np.float64)
    above_p, above_q = betainc(k, count - k + 1, p), betainc(k, count - k + 1, q)
    if goal.delta is None:
        return float(np.max(above_p - np.exp(min(goal.epsilon or 0.0, 700.0)) * above_q))
    excess = above_p - goal.delta
    kept = (excess > 0.0) & (above_q > 0.0)
    return float(np.max(np.log(excess[kept]) - np.log(above_q[kept]), initial=0.0))
