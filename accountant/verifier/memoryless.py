"""The strategy that makes the same choice at every use of an exponential mechanism: a lower side for many of them.

With the same t at every use (``adaptive``) the total loss is a binomial's: k of T uses lose t, the rest
t - η. On fresh samples of rate q the two losses are log(1 - q + qu) and log(1 - q + qu/E), u = e^t, E = e^η, or their
negatives where the record is added (``exponential_samples``). That is a strategy the plan admits, and its δ is exact;
what an adversary gains by adapting falls with η (0.1 % of ε at η = 0.2, T = 1,000), while the lattice of the
recursion gets too coarse. A t of about the largest moment is taken, found in floats, which can only cost width.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from affidavit.accountant.verifier.balls import Ball, ball, precision
from affidavit.accountant.verifier.product import ProductProfile, TwoValued, two_point_product

__all__ = ["MOST_USES", "UnderSampling", "memoryless_profile"]

BITS = 256
MOST_USES = 100_000_000
METHOD = "one choice at every exponential mechanism"


class UnderSampling(NamedTuple):
    """Each use on a fresh sample of this rate, in one direction."""

    rate: Fraction
    removed: bool


def memoryless_profile(
    spread: Fraction, count: int, t: float, *, budget: float, sampled: UnderSampling | None = None
) -> ProductProfile:
    """``count`` <= ``MOST_USES`` uses of range ``spread``, all with this ``t`` in (0, spread).

    ``budget``: the mass that may be cut off (it is charged).
    """
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
