"""The strategy that makes the same choice at every use of an exponential mechanism: a lower side for many of them.

With the same t at every use (``adaptive``) the total loss is a binomial's: k of T uses lose t, the rest
t - η. On fresh samples of rate q the two losses are log(1 - q + qu) and log(1 - q + qu/E), u = e^t, E = e^η, or their
negatives where the record is added (``exponential_samples``). That is a strategy the plan admits, and its δ is exact;
what an adversary gains by adapting falls with η (0.1 % of ε at η = 0.2, T = 1,000), while the lattice of the
recursion gets too coarse. t is found in floats, which can only cost width.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from affidavit.accountant.verifier.balls import Ball, ball, precision
from affidavit.accountant.verifier.product import ProductProfile, TwoValued, two_point_product
from affidavit.accountant.verifier.profile import Goal

__all__ = ["MOST_USES", "UnderSampling", "memoryless_profile"]

BITS = 256
MOST_USES = 100_000_000
SHARES = np.linspace(0.45, 0.85, 21)
ROUNDS, NARROWER = 3, 0.15
METHOD = "one choice at every exponential mechanism"


class UnderSampling(NamedTuple):
    """Each use on a fresh sample of this rate, in one direction."""

    rate: Fraction
    removed: bool


def memoryless_profile(
    spread: Fraction, count: int, goal: Goal, *, budget: float, sampled: UnderSampling | None = None
) -> ProductProfile:
    """``count`` <= ``MOST_USES`` uses of range ``spread``, all with the one t that is best for the goal.

    ``budget``: the mass that may be cut off (it is charged).
    """
    t = _best_choice(float(spread), count, goal, sampled)
    with precision(BITS):
        high, low, share = _two_losses(ball(spread), ball(t), sampled)
        atoms = two_point_product([], budget=budget, others=[TwoValued(high, low, share, count)])
    return ProductProfile(None, atoms, METHOD, BITS)


def _two_losses(eta: Ball, t: Ball, sampled: UnderSampling | None) -> tuple[Ball, Ball, Ball]:
    """The larger and the smaller loss, and P's mass on the larger one."""
    rare = ((eta - t).expm1()) / eta.expm1()  # Q-mass of the ratio e^t
    if sampled is None:
        return t, t - eta, rare * t.exp()
    rate = ball(sampled.rate)
    near, far = 1 + rate * t.expm1(), 1 + rate * (t - eta).expm1()
    if sampled.removed:
        return near.log(), far.log(), rare * near
    return -far.log(), -near.log(), 1 - rare


def _best_choice(eta: float, count: int, goal: Goal, sampled: UnderSampling | None) -> float:
    """About the best t, by trying shares of η on a finer and finer grid."""

    def worth(share: float) -> float:
        with precision(64):
            high, _, chance = _two_losses(ball(eta), ball(share * eta), sampled)
            p = float(chance)
            return _worth(p, p * math.exp(-float(high)), count, goal)

    shares = SHARES
    width, best = float(SHARES[-1] - SHARES[0]), 0.5
    for _ in range(ROUNDS):
        best = max((float(share) for share in shares), key=worth)
        width *= NARROWER
        shares = np.clip(best + np.linspace(-0.5, 0.5, 9) * width, 0.01, 0.99)
    return best * eta


def _worth(p: float, q: float, count: int, goal: Goal) -> float:
    """ε at the goal's δ, or δ at its ε, in floats: the best of the events "at least k uses have the larger loss"."""
    from scipy.special import betainc

    least = max(1, math.floor(count * q))
    most = min(count, math.ceil(count * p + 60.0 * math.sqrt(count * p) + 60.0))
    k = np.unique(np.linspace(least, most, min(most, 4000)).astype(np.int64)).astype(np.float64)
    above_p, above_q = betainc(k, count - k + 1, p), betainc(k, count - k + 1, q)
    if goal.delta is None:
        return float(np.max(above_p - np.exp(min(goal.epsilon or 0.0, 700.0)) * above_q))
    excess = above_p - goal.delta
    kept = (excess > 0.0) & (above_q > 0.0)
    return float(np.max(np.log(excess[kept]) - np.log(above_q[kept]), initial=0.0))
