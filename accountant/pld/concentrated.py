r"""The pair of a composition of which only ρ-zCDP is known.

Every ρ-zCDP mechanism has, at each order α > 1 (Canonne, Kamath, Steinke 2020, proposition 12),

    δ(ε) <= h_α(ε) = e^{(α−1)(αρ−ε)} (1 − 1/α)^α/(α − 1).

The least over α, at ε = (2α − 1)ρ + ln(1 − 1/α), is h = e^{−(α−1)²ρ}/α. As α runs from 1 to ∞, ε runs over all real
numbers, h falls from 1 to 0, and with x = e^ε

    −dh/dx = (α − 1) h/x = e^{−α²ρ},    d²h/dx² = h/x² (α(α − 1) − dα/dε) > 0,    dα/dε = 1/(2ρ + 1/(α(α − 1))),

so h is convex in x, starts at 1 with a slope above −1, and its tails are

    p = h − x dh/dx = e^{−(α−1)²ρ},    q = −dh/dx = e^{−α²ρ}.

It bounds both orders of the data, so the profile also lies under the mirror image 1 − x + x h(1/x), and, being convex,
under the convex minorant H of the two, which is its own mirror image: h up from a loss g, the mirror image below −g,
and a line between. The line touches both and is its own mirror image, p(g) − x q(g) with p(g) + q(g) = 1. So H is the
profile of a pair with one law of the loss in both orders, without losses between −g and g.

It dominates whatever is ρ-zCDP as a whole, in both orders, an adaptive composition of concentrated mechanisms with
Σρ_i = ρ too (Bun, Steinke 2016, lemma 2.3). Beside it may run what has dominating pairs, in any order: each of those
is a post-processing of its pair (Zhu, Dong, Wang 2022), whose outcome may be drawn, and shown, before all else; given
it, what is left is ρ-zCDP, and costs H(ε − l) after a loss of l, which is the product of the pairs. Uses are not: the
product of two of these pairs is more than the pair of 2ρ. No data set reaches it. All that runs on one sample is such
a composition, and is sampled as any pair is (``subsample``); fresh samples are products of sampled pairs.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from affidavit.accountant.pld.curve import Array, Curve, FullLoss, Logs, OneStep, log_complement
from affidavit.accountant.rounding import ULP

__all__ = ["Concentrated", "concentrated_step"]

TURNS, HALVINGS = 60, 100
CLOSE, TINY, FARTHEST = 2.0**-40, 1e-290, 1e100
"""A change of ln(α − 1), relative to its size, that ends the search; an α − 1 that is nothing; a loss beyond all."""
MOST_RHO = 1e6
"""Beyond it the pair has few digits, and ε is of no use to anyone."""


@lru_cache(maxsize=256)
def concentrated_step(rho: float) -> OneStep:
    """All that is ``rho``-zCDP, rho > 0, together."""
    return OneStep.dominated(FullLoss() if rho > MOST_RHO else Concentrated(rho), symmetric=True)


class Concentrated(Curve):
    """All that is ``rho``-zCDP, rho > 0."""

    symmetric = True

    def __init__(self, rho: float) -> None:
        self.rho = rho
        over, self.gap = self._touching()
        self.gap_tail = -rho * (1.0 + over) * (1.0 + over)
        # ln(α − 1) is good to some units of ε, of its own size and of ρ; the first two are charged with the tails.
        self.accuracy = 32.0 * ULP * (1.0 + rho)

    def logs(self, loss: Array) -> Logs:
        size = np.abs(loss)
        inside = size <= self.gap
        with np.errstate(over="ignore", under="ignore"):
            over = self._over(np.clip(size, self.gap, FARTHEST))
            q_tail = np.where(inside, self.gap_tail, -self.rho * (1.0 + over) * (1.0 + over))
            p_tail = np.where(inside, log_complement(q_tail), -self.rho * over * over)
        return Logs.reflected(loss < 0.0, p_tail, q_tail).ended(loss == -math.inf, loss == math.inf)

    def _touching(self) -> tuple[float, float]:
        """α − 1 and the loss where p + q is 1: halved in ln(α − 1), of 2 ln(α − 1) = ln(−ln(1 − q)/ρ)."""

        def excess(log: float) -> float:
            over = math.exp(min(log, 700.0))
            exponent = self.rho * (1.0 + over) * (1.0 + over)
            rest = -exponent if exponent > 600.0 else math.log(-float(log_complement(np.array(-exponent))))
            return 2.0 * log + math.log(self.rho) - rest

        high = max(0.0, -0.5 * math.log(self.rho)) + 5.0
        low = -0.5 * math.log(self.rho) - 3.0 * self.rho - 5.0
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if excess(middle) < 0.0 else (low, middle)
        over = math.exp(low)
        return over, self.rho + 2.0 * self.rho * over - float(np.logaddexp(0.0, -low))

    def _over(self, loss: Array) -> Array:
        """α − 1 where (2α − 1)ρ + ln(1 − 1/α) is ``loss``: Newton's steps for its logarithm, in a bracket."""
        rho = self.rho
        # Two sides of ln(1 + 1/x): for x above 1/2 about 1/(x + 1/2); below, the root is near ln x = loss − ρ.
        half = np.abs(loss) + np.sqrt(loss * loss + 8.0 * rho)
        middle = np.where(loss >= 0.0, half / (4.0 * rho), 2.0 / half)
        log = np.where(middle > 1.0, np.log(np.maximum(middle - 0.5, 0.5)), np.minimum(loss - rho, 0.0))
        low = np.minimum(loss - rho, log) - 3.0 * rho - 3.0
        high = np.maximum(np.log(np.maximum(np.abs(loss) / rho, 1.0)), -0.5 * math.log(rho)) + 3.0
        high = np.maximum(high, log + 1.0)
        for _ in range(TURNS):
            over = np.exp(np.minimum(log, 700.0))
            excess = rho + 2.0 * rho * over - np.logaddexp(0.0, -log) - loss
            low, high = np.where(excess < 0.0, log, low), np.where(excess < 0.0, high, log)
            step = log - excess / (2.0 * rho * over + 1.0 / (1.0 + over))
            step = np.where((step >= low) & (step <= high), step, 0.5 * (low + high))
            moved, log = np.abs(step - log), step
            if not np.any(moved > CLOSE * (1.0 + np.abs(log))):
                break
        over = np.exp(np.minimum(log, 700.0))
        # The logarithm's own rounding is taken back where it is large.
        last = rho + 2.0 * rho * over - np.log1p(1.0 / np.maximum(over, TINY)) - loss
        return np.where(over > TINY, over * (1.0 - last / (2.0 * rho * over + 1.0 / (1.0 + over))), over)
