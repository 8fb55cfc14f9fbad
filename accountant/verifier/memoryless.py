"""The strategy that makes the same choice at every use of an exponential mechanism: a lower side for many of them.

With the same t at every use (``adaptive``) the total loss is a binomial's: k of T uses lose t, the rest
t - η. On fresh samples of rate q the two losses are log(1 - q + qu) and log(1 - q + qu/E), u = e^t, E = e^η, or their
negatives where the record is added (``exponential_samples``). That is a strategy the plan admits, and its δ is exact;
what an adversary gains by adapting falls with η (0.1 % of ε at η = 0.2, T = 1,000), while the lattice of the
recursion gets too coarse. A t of about the largest moment is taken, found in floats, which can only cost width. At
250 uses it reaches all but .2 to .6 % of ε, at a thousand all but .2 %, whatever the range. As each use has one pair
then, order is immaterial, and other pairs may run anywhere beside them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from affidavit.accountant.verifier.balls import Ball, ball, precision
from affidavit.accountant.verifier.product import ProductProfile, TwoValued, two_point_product
from affidavit.accountant.verifier.profile import SMALLEST, Target

__all__ = ["METHOD", "MOST_USES", "Estimate", "Kind", "estimate", "memoryless_profile", "two_losses"]

BITS = 256
MOST_USES = 20_000_000
"""Whose losses are listed together."""
METHOD = "one choice at every exponential mechanism"


class Kind(NamedTuple):
    """So many ``uses`` of a ``range``, on fresh samples of this ``rate``; ``taken`` as in ``adaptive.recursion``."""

    range: Fraction
    rate: Fraction
    uses: int
    taken: Fraction = Fraction(1)


class Estimate(NamedTuple):
    """Where one direction's answer lies, in floats: it sizes lattices, never a bound."""

    epsilon: float
    log_delta: float
    tilt: float
    """About -d ln δ/dε there."""
    deviations: tuple[float, ...]
    """Of the loss of one use of each kind."""
    choices: tuple[float, ...]
    """The t of the largest moment."""


TILTS = np.geomspace(1e-2, 1e6, 240)
SHARES = np.linspace(0.0, 1.0, 202)[1:-1]
FARTHEST = 1e300
"""An ε whose multiples float64 holds."""


def estimate(kinds: Iterable[Kind], target: Target, *, removed: bool = True, beside: float = 0.0) -> Estimate:
    """By Chernoff's bound: the largest moment of one use over t, to the power ``uses``; ``beside``: zCDP of others."""
    places = np.arange(len(TILTS))
    moment = TILTS * np.log(TILTS) - (1.0 + TILTS) * np.log1p(TILTS) + TILTS * (1.0 + TILTS) * beside
    power = 1.0 + TILTS if removed else -TILTS
    found, most = [], 0.0
    for kind in kinds:
        eta, rate, uses = float(kind.range), float(kind.rate), kind.uses
        t = eta * SHARES
        masses = np.stack([np.log(-np.expm1(t - eta)) - t, np.log(-np.expm1(-t))]) - math.log(-math.expm1(-eta))
        losses = np.stack([t, t - eta])
        losses = losses if rate == 1.0 else np.log1p(rate * np.expm1(losses))
        terms = np.multiply.outer(power, losses) + masses
        logs = np.logaddexp(terms[:, 0], terms[:, 1])
        best = logs.argmax(axis=1)
        highest = logs[places, best]
        if kind.taken < 1:
            highest = np.logaddexp(math.log1p(-float(kind.taken)), math.log(kind.taken) + highest)
        moment += uses * highest
        found.append((t, losses, np.exp(terms[places, 0, best] - logs[places, best]), best))
        most = max(most, float(losses.max()))
    log_delta = min(0.0, math.log(target.expected or target.delta or 1.0))
    if target.delta is None:
        epsilon = min(target.epsilon or 0.0, FARTHEST)
        at = int(np.argmin(moment - TILTS * epsilon))
        log_delta = min(0.0, max(math.log(SMALLEST), float(moment[at]) - float(TILTS[at]) * epsilon))
    else:
        crossed = (moment - log_delta) / TILTS
        at = int(np.argmin(crossed))
        epsilon = max(0.0, float(crossed[at]))
    gaps = [float(losses[0, best[at]] - losses[1, best[at]]) for _, losses, _, best in found]
    shares = [float(share[at]) for _, _, share, _ in found]
    deviations = tuple(gap * math.sqrt(share * (1.0 - share)) for gap, share in zip(gaps, shares, strict=True))
    choices = tuple(float(t[best[at]]) for t, _, _, best in found)
    return Estimate(epsilon, log_delta, min(float(TILTS[at]), 300.0 / most), deviations, choices)


def memoryless_profile(kind: Kind, t: float, *, budget: float, removed: bool = True) -> ProductProfile:
    """All uses with this ``t`` in (0, range), in one direction; without a sample they are one.

    ``budget``: the mass that may be cut off (it is charged). Raises ``NotSupported`` where there are too many losses.
    """
    with precision(BITS):
        losses = two_losses(ball(kind.range), ball(kind.rate), ball(t), removed=removed)
        atoms = two_point_product([], budget=budget, others=[TwoValued(*losses, kind.uses)])
    return ProductProfile(None, atoms, METHOD, BITS)


def two_losses(eta: Ball, rate: Ball, t: Ball, *, removed: bool) -> tuple[Ball, Ball, Ball, Ball]:
    """The larger and the smaller loss, and P's masses on them; t = η/2 is a pure mechanism of ε = η/2."""
    rare, other = (t - eta).expm1() * (-t).exp() / (-eta).expm1(), (-t).expm1() / (-eta).expm1()  # Q of ratio e^t
    near, far = 1 + rate * t.expm1(), 1 - rate + rate * (t - eta).exp()
    return (near.log(), far.log(), rare * near, other * far) if removed else (-far.log(), -near.log(), other, rare)
