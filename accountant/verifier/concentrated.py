r"""What is only known to be ρ-zCDP, as a symmetric pair: to be sampled, or composed with others on a sample.

For every order α > 1, D_α <= αρ both ways gives δ(ε) <= e^{(α-1)(αρ-ε)} (1 - 1/α)^α/(α - 1) (Canonne, Kamath, Steinke
2020, Proposition 12). With t = α - 1 the exponent's derivative in α is 0 where ε(t) = (1 + 2t)ρ - log(1 + 1/t), which
rises from -inf to +inf; the bound is there h = e^{-ρt²}/(1 + t), and as dh/dε = -t h,
    Q(L > ε) = -dh/de^ε = e^{-ρ(1+t)²},    P(L > ε) = h + e^ε Q(L > ε) = e^{-ρt²}.
Both fall as ε rises, so h is convex in e^ε and the curve of a pair.

Symmetry. The curve H of the mechanism is convex, below h, and so is that of the two data sets exchanged; hence also
H(x) <= 1 - x + x h(1/x). Take any s >= 0 with P(L > s) + Q(L > s) <= 1: H is below h for x >= e^s, below the reflection
of h for x <= e^-s, and between the two points below the chord that connects them. That is one convex curve, its own
reflection: at s the chord's slope is -(1 - h)/(1 + e^s) <= -Q(L > s). It is the curve of a symmetric pair without
losses in (-s, s), with atoms at its ends that vanish for the least s, which is taken.

All that is concentrated on one sample is one such pair of Σρ (Bun, Steinke 2016, Lemma 2.3); what else runs there is
composed with it: its outcomes may be drawn from its own pairs first, and given them the rest is ρ-zCDP.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from flint import arb

from affidavit.accountant.verifier.balls import Array, Ball, ball
from affidavit.accountant.verifier.pairs import Reflected
from affidavit.accountant.verifier.product import Tails
from affidavit.accountant.verifier.zcdp import LOG_T, best_at

__all__ = ["ConcentratedPair"]

HALVINGS = 48


@dataclass(frozen=True, slots=True)
class ConcentratedPair(Reflected):
    """Everything that is ``rho``-zCDP as a whole; between the losses ``edge`` = s and -s there is none."""

    rho: Ball
    edge: Ball
    middle: Tails

    @staticmethod
    def of(rho: Fraction) -> ConcentratedPair:
        """For ρ > 0."""
        size = ball(rho)
        low, high = 0.0, 1.0
        while not _sum(size, high) <= 1:
            low, high = high, 2.0 * high
        for _ in range(HALVINGS):
            half = (low + high) / 2
            low, high = (low, half) if _sum(size, half) <= 1 else (half, high)
        p, q = _tails(size, arb(high))
        growth = arb(high).exp()
        share = (1 - p + growth * q) / (1 + growth)
        return ConcentratedPair(size, arb(high), (1 - share, share))

    def right(self, loss: Ball) -> Tails:
        """See ``Reflected``."""
        if loss < self.edge:
            return self.middle
        p, q = _tails(self.rho, loss)
        return (p, q) if loss >= self.edge else (p.union(self.middle[0]), q.union(self.middle[1]))


def _sum(rho: Ball, loss: float) -> Ball:
    p, q = _tails(rho, arb(loss))
    return p + q


def _tails(rho: Ball, loss: Ball) -> Tails:
    """(e^{-ρt²}, e^{-ρ(1+t)²}) where ε(t) is ``loss``."""
    t = _log_t(rho, loss).exp()
    return (-rho * t * t).exp(), (-rho * (1 + t) ** 2).exp()


def _log_t(rho: Ball, loss: Ball) -> Ball:
    """u = log t: one of Newton's steps from a float, and a radius.

    F(u) = ρ + 2ρe^u - log(1 + e^-u) - loss has F'(u) = 2ρe^u + 1/(1 + e^u), and |F''| <= F', so F' changes at most by
    e^{|v|} from u to u + v. After a step v = -F(u)/F'(u), |F| is at most F'(u) v² e^{|v|}/2, and F' within v² of there
    at least F'(u) e^{-|v| - v²}. So where |v| <= 1/4, F has a zero within v² of u + v.
    """
    u = arb(_roughly(float(rho), float(loss)))
    t = u.exp()
    step = (loss - rho - 2 * rho * t + (1 / t).log1p()) / (2 * rho * t + 1 / (1 + t))
    size = abs(step).upper()
    return u + step + size * size * arb(0, 1) if size <= 0.25 else arb.neg_inf().union(arb.pos_inf())


@lru_cache(maxsize=64)
def _table(rho: float) -> Array:
    return best_at(rho, np.exp(LOG_T))


def _roughly(rho: float, loss: float) -> float:
    """``_log_t`` in floats (search only)."""
    losses = _table(rho)
    u = float(np.interp(loss, losses, LOG_T)) if loss < losses[-1] else math.log(loss / (2.0 * rho))
    for _ in range(2):
        t = math.exp(u)
        u -= (rho + 2.0 * rho * t - float(np.logaddexp(0.0, -u)) - loss) / (2.0 * rho * t + 1.0 / (1.0 + t))
    return u
