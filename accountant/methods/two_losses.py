r"""The most that one statement of ρ-zCDP admits: a mechanism of two losses that all but reaches the conversion.

The conversion of ``zcdp`` at the order α = 1 + x is E[e^{xL}] <= e^{ρx(x+1)} and the largest value of
(1 − e^{ε−l}) e^{−xl}, which one loss reaches: l = ρ(2x + 1), where x is the best order. So let a mechanism lose
l with chance p under P and q = p e^{−l} under Q, and otherwise −m = −ln((1−q)/(1−p)), with p just below
e^{ρx(x+1) − xl}. It is ρ-zCDP if for all x > 0 both cumulants

    h(x) = ln(p e^{xl} + (1−p) e^{−xm}),    b(x) = ln(q e^{−xl} + (1−q) e^{xm})

are at most c(x) = ρx(x + 1). All three are convex and 0 at 0. Hence, between neighbours x₀ < x₁ of a grid, h is
below its chord and c above its tangent in the middle, and two lines need only be compared at x₀ and x₁; up to the
first point x₁ it is enough that h(x₁) <= ρx₁; beyond X with c′(X) >= l nothing more can happen, as h′ <= l
everywhere. The same holds of b with m; where m <= ρ there is nothing to show. The chance p is lowered until that is so.

δ(ε) >= p − e^ε q, so ε >= l + ln(1 − δ/p): below the conversion by 1e-5 to 1e-4 of it, where the Gaussian of equal ρ
is by 5 to 20 per cent. Many statements of a small ρ each do not admit it together: this serves one, alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from affidavit.accountant.rounding import FORMULA

__all__ = ["TwoLosses", "two_losses"]

CELLS, SMALLEST = 600, 1e-6
"""Cells of x, in equal ratios, and the first point of x as a share of the last."""
HALVINGS, LOG_ORDERS = 60, (-20.0, 40.0)
"""Steps to the best order, and where ln(α − 1) is sought."""
STEPS, LOST = 12, 30.0
"""Steps to the largest p, by the share of the tangent's p that is lost; at least e^{−30} is."""
SHARES = (0.95, 1.0)
"""Of x, which are tried: where p has to be lowered much, another order is better."""
LEAST_RHO, MOST_RHO = 1e-12, 1e4
"""Outside, the losses have too few digits left."""


@dataclass(frozen=True, slots=True)
class TwoLosses:
    """Loses ``loss`` with chance ``chance``, else a little less than nothing."""

    loss: float
    chance: float

    @property
    def gain(self) -> float:
        """m."""
        return math.log1p(-self.chance * math.exp(-self.loss)) - math.log1p(-self.chance)

    def is_concentrated(self, rho: float) -> bool:
        """Whether it is proven to be ``rho``-zCDP, in both orders."""
        log_p, gain = math.log(self.chance), self.gain
        log_rest = math.log1p(-self.chance)
        return _stays_below(rho, (log_p, self.loss), (log_rest, -gain)) and _stays_below(
            rho, (log_p - self.loss, -self.loss), (log_rest + gain, gain)
        )

    def delta(self, epsilon: float) -> float:
        """A lower side of δ."""
        return (
            max(0.0, self.chance * -math.expm1(epsilon - self.loss) * (1.0 - FORMULA)) if epsilon < self.loss else 0.0
        )

    def epsilon(self, delta: float) -> float:
        """A lower side of ε."""
        left = 1.0 - delta / self.chance * (1.0 + FORMULA)
        return max(0.0, (self.loss + math.log(left)) * (1.0 - FORMULA) - FORMULA) if left > 0.0 else 0.0


def _stays_below(rho: float, first: tuple[float, float], second: tuple[float, float]) -> bool:
    """Whether ln of the sum of both e^{log + slope x} is at most ρx(x + 1) for every x > 0."""
    steepest = max(first[1], second[1])
    if steepest <= rho:  # it is 0 at 0 and nowhere steeper
        return True
    x = steepest / (2.0 * rho) * np.geomspace(SMALLEST, 1.0, CELLS + 1)
    terms = [log + slope * x for log, slope in (first, second)]
    cumulant = np.logaddexp(*terms) + FORMULA * (1.0 + np.abs(terms[0]) + np.abs(terms[1]))
    if cumulant[0] > rho * x[0] * (1.0 - FORMULA):
        return False
    middle = 0.5 * (x[1:] + x[:-1])
    slope = rho * (2.0 * middle + 1.0)
    value = rho * middle * (middle + 1.0)
    return all(
        bool(np.all(cumulant[ends] <= (value + slope * (x[ends] - middle)) * (1.0 - FORMULA)))
        for ends in (slice(0, -1), slice(1, None))
    )


def two_losses(rho: float, *, epsilon: float | None = None, delta: float | None = None) -> float:
    """A lower side of ε at ``delta``, or of δ at ``epsilon``: of the order that is best there, and of one near it."""
    if not LEAST_RHO <= rho <= MOST_RHO:
        return 0.0

    def excess(log_over: float) -> float:
        over = math.exp(log_over)
        if delta is not None:
            return rho * over * over + math.log1p(over) + math.log(delta)
        return rho * (2.0 * over + 1.0) - math.log1p(1.0 / over) - (epsilon or 0.0)

    low, high = LOG_ORDERS
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if excess(middle) > 0.0 else (middle, high)
    found = (_at(rho, math.exp(low) * share) for share in SHARES)
    sides = (one.epsilon(delta) if delta is not None else one.delta(epsilon or 0.0) for one in found if one)
    return max(sides, default=0.0)


@lru_cache(maxsize=256)
def _at(rho: float, over: float) -> TwoLosses | None:
    """That of the order 1 + ``over``, with the largest chance that is proven; None if there is none."""
    loss, log_chance = rho * (2.0 * over + 1.0), -rho * over * over
    best, low, high = None, -LOST, 0.0  # ln of the share of the tangent's chance that is lost
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        chance = math.exp(log_chance) * -math.expm1(middle)
        tried = TwoLosses(loss, chance)
        if 0.0 < chance < 1.0 and tried.is_concentrated(rho):
            best, high = tried, middle
        else:
            low = middle
    return best
