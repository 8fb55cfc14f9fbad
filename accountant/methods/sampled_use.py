"""One use of an exponential mechanism, on a Poisson sample or not, in one direction: its worst pairs, their moments.

For every λ > 0, H_k(α) <= E_P[(1 − α e^{−L})₊] <= M α^{−λ} λ^λ/(1 + λ)^{1+λ}, M the product of the largest E[e^{λL}] of
its uses (``recursion`` says what H_k is), because (1 − 1/y)₊ <= y^λ λ^λ/(1 + λ)^{1+λ} for y > 0 (Canonne, Kamath and
Steinke 2020). Without a sample it is a Rényi divergence in closed form (``rdp``). On one, over a cell of t the
probabilities and the powers of m are each at most what they are at one of its ends: that bounds it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.leaves import bounded_range
from affidavit.accountant.rounding import FORMULA, MOMENT

__all__ = ["RATES", "Direction", "Estimate", "Moments", "Runs", "SampledUse", "estimate"]

Array = NDArray[np.float64]
Direction = Literal["forward", "backward"]

MOMENT_CELLS = 2000
"""Cells of t for the moment bounds."""
RATES = np.geomspace(1e-2, 1e9, 190)
"""λ that are tried."""
PARTS = np.stack((RATES * np.log(RATES), -(1.0 + RATES) * np.log1p(RATES)))
CONSTANT, SIZE = PARTS.sum(axis=0), 1.0 + np.abs(PARTS).sum(axis=0)


class Moments(NamedTuple):
    """ln of bounds on E[e^{λL}] of several uses, for each λ of ``RATES``."""

    logs: Array

    @classmethod
    def of(cls, runs: Runs) -> Moments:
        """Of all of them together."""
        return cls(np.sum([uses * use.log_moments() for use, uses in runs], axis=0))

    def at(self, x: float) -> tuple[float, float]:
        """(c, λ) with H(e^y) <= e^{c − λ y} for every y, the least near ``x``."""
        constants = self._constants(x)
        best = int((constants - RATES * x).argmin())
        return float(constants[best]), float(RATES[best])

    def delta(self, epsilon: float) -> float:
        """An upper side."""
        constant, rate = self.at(epsilon)
        return math.exp(min(constant - rate * epsilon, 0.0))

    def epsilon(self, delta: float) -> float:
        """An upper side."""
        return max(float(((self._constants(0.0) - math.log(delta)) / RATES).min()), 0.0)

    def _constants(self, x: float) -> Array:
        slack = SIZE + np.abs(self.logs) + RATES * (1.0 + abs(x))
        constants: Array = self.logs + CONSTANT + FORMULA * slack
        return constants


@dataclass(frozen=True, slots=True)
class SampledUse:
    """One use at range ``eta`` > 0 on a sample that a record joins at 0 < ``rate`` <= 1, seen in one direction.

    ``taken`` is the chance that it sees the record at all, where both neighbours hold one: else it loses nothing.
    """

    eta: float
    rate: float
    direction: Direction
    taken: float = 1.0

    @property
    def swing(self) -> tuple[float, float]:
        """The largest |ln m| below 1 and above 1."""
        down, up = self._log_ratio(np.array((-self.eta, self.eta)))
        return -float(down), float(up)

    @property
    def reach(self) -> tuple[float, float]:
        """The loss lies between minus the one and the other."""
        down, up = self.swing
        return (down, up) if self.direction == "forward" else (up, down)

    def pair(self, t: Array) -> tuple[Array, Array, Array]:
        """Q₁, and ln m of the near and of the far argument, 0 <= t <= η."""
        chance: Array = np.exp(-t) * (np.expm1(t - self.eta) / math.expm1(-self.eta))
        return chance, self._log_ratio(t), self._log_ratio(t - self.eta)

    def _log_ratio(self, x: Array) -> Array:
        """ln(1 − rate + rate e^x), where e^x is below rounding, too."""
        rest = math.log1p(-self.rate) if self.rate < 1.0 else -math.inf
        far = np.logaddexp(rest, math.log(self.rate) + x)
        return np.where(np.abs(x) > 1.0, far, np.log1p(self.rate * np.expm1(x.clip(-1.0, 1.0))))

    def log_moments(self) -> Array:
        """ln of bounds on E[e^{λL}], for each λ of ``RATES``."""
        return _log_moments(self)

    def moments(self, theta: Array) -> tuple[Array, Array, Array]:
        """ln of the largest E[e^{θ loss}], and mean and variance of the loss tilted by θ at that t."""
        terms, near, far = self._terms(theta, np.linspace(0.0, 1.0, 130)[1:-1])
        logs = np.logaddexp(terms[0], terms[1])
        best = logs.argmax(axis=1)
        rows = np.arange(theta.size)
        share = np.exp(terms[0][rows, best] - logs[rows, best])
        sign = 1.0 if self.direction == "forward" else -1.0
        gap = near[best] - far[best]
        mean, variance = sign * (far[best] + share * gap), share * (1.0 - share) * gap * gap
        if self.taken == 1.0:
            return logs[rows, best], mean, variance
        whole = self.thinned(logs[rows, best])
        seen = np.exp(math.log(self.taken) + logs[rows, best] - whole)
        return whole, seen * mean, seen * (variance + (1.0 - seen) * mean * mean)

    def thinned(self, logs: Array) -> Array:
        """ln of moments where the record is seen or not, from those where it is."""
        if self.taken == 1.0:
            return logs
        return np.logaddexp(math.log1p(-self.taken), math.log(self.taken) + logs)

    def best_share(self, theta: float) -> float:
        """t/η at which E[e^{θ loss}] is largest, to a thousandth."""
        shares = np.linspace(0.0, 1.0, 1001)[1:-1]
        terms, _, _ = self._terms(np.array([theta]), shares)
        return float(shares[np.logaddexp(terms[0], terms[1])[0].argmax()])

    def _terms(self, theta: Array, shares: Array) -> tuple[Array, Array, Array]:
        """ln of both terms of E[e^{θ loss}], a row for each θ, and ln m of the near and of the far argument."""
        chance, near, far = self.pair(self.eta * shares)
        power = 1.0 + theta if self.direction == "forward" else -theta
        with np.errstate(divide="ignore"):
            terms = np.stack(
                (np.log(chance) + np.multiply.outer(power, near), np.log1p(-chance) + np.multiply.outer(power, far))
            )
        return terms, near, far


Runs = Sequence[tuple[SampledUse, int]]
"""Uses and how many of each, in the order of execution."""


@lru_cache(maxsize=64)
def _log_moments(use: SampledUse) -> Array:
    if use.rate == 1.0:
        logs = RATES * np.array([bounded_range(1.0 + rate, use.eta) for rate in RATES.tolist()])
    else:
        chance, near, far = use.pair(use.eta * np.linspace(0.0, 1.0, MOMENT_CELLS + 1))
        power = np.multiply.outer
        # Forward m^{1+λ}, backward m^{−λ}; the chance of the near value falls with t, both values rise.
        with np.errstate(divide="ignore"):
            log_near, log_far = np.log(chance[:-1]), np.log1p(-chance[1:])
        if use.direction == "forward":
            terms = power(1.0 + RATES, near[1:]) + log_near, power(1.0 + RATES, far[1:]) + log_far
        else:
            terms = power(-RATES, near[:-1]) + log_near, power(-RATES, far[:-1]) + log_far
        logs = np.logaddexp(*terms).max(axis=1)
    logs = use.thinned(logs)
    return logs + MOMENT * (1.0 + np.abs(logs) + RATES * use.eta)


class Estimate(NamedTuple):
    """About where the answer lies; no bound."""

    epsilon: float
    slope: float
    """−d ln δ/dε."""
    variance: float
    """Of all losses together, on the way there."""


def estimate(uses: Iterable[tuple[SampledUse, int]], *, delta: float | None, epsilon: float) -> Estimate:
    """The saddle point at ``delta``, or at ``epsilon`` where that is None; the tilted losses are taken as normal."""
    from scipy.special import erfcx

    theta = np.geomspace(1e-6, 1e6, 400)
    each = Counter[SampledUse]()
    for use, count in uses:
        each[use] += count
    moments = [[count * part for part in use.moments(theta)] for use, count in each.items()]
    log_moment, mean, variance = np.sum(moments, axis=0)
    above = epsilon - mean
    if delta is not None:
        s = np.sqrt(np.maximum(variance, 1e-300) / 2.0)
        share = 0.5 * (erfcx(theta * s) - erfcx((1.0 + theta) * s))
        above = log_moment - theta * mean + np.log(np.maximum(share, 1e-300)) - math.log(max(delta, 1e-300))
    at = min(max(int(np.argmax(np.append(above <= 0.0, True))), 1), theta.size - 1)
    part = float(np.clip(above[at - 1] / np.maximum(above[at - 1] - above[at], 1e-300), 0.0, 1.0))
    found = ((1.0 - part) * side[at - 1] + part * side[at] for side in (mean, theta, variance))
    return Estimate(*map(float, found))
