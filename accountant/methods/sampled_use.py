"""One use of an exponential mechanism on a Poisson sample, seen in one direction: its worst pairs and their moments.

For every λ > 0 (Canonne, Kamath and Steinke 2020) H_k(α) <= M^k α^{−λ} λ^λ/(1 + λ)^{1+λ}, M the largest E[e^{λL}]
of one use (``sampled_recursion`` says what H_k is). Over a cell of u the probabilities and the powers of m are each at
most what they are at one of its ends: that bounds M.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from affidavit.accountant.methods.base import Interval

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

__all__ = ["Direction", "Estimate", "MomentProfile", "SampledUse", "Tail", "estimate"]

Direction = Literal["forward", "backward"]

MOMENT_CELLS = 2000
"""Cells of u for the moment bounds."""
ROUNDING, MOMENT_ROUNDING = 1e-13, 1e-10
"""Relative to the terms of a sum; to a moment's logarithm, as a chance next to 0 is a difference of rounded numbers."""


class Tail(NamedTuple):
    """ln of bounds on E[e^{λL}] of one use, for each λ of ``rates``."""

    rates: Array
    logs: Array

    def at(self, k: int, x: float) -> tuple[float, float]:
        """(c, λ) with H_k(e^y) <= e^{c − λ y} for every y, the least near ``x``."""
        constants = self._constants(k, x)
        best = int((constants - self.rates * x).argmin())
        return float(constants[best]), float(self.rates[best])

    def reach(self, k: int, log_small: float) -> float:
        """A loss beyond which H_k is so small."""
        return float(((self._constants(k, 0.0) - log_small) / self.rates).min())

    def _constants(self, k: int, x: float) -> Array:
        import numpy as np

        rates = self.rates
        terms = np.stack((k * self.logs, rates * np.log(rates), -(1.0 + rates) * np.log1p(rates)))
        constants: Array = terms.sum(axis=0) + ROUNDING * (1.0 + np.abs(terms).sum(axis=0) + rates * (1.0 + abs(x)))
        return constants


@dataclass(frozen=True, slots=True)
class MomentProfile:
    """What the moments of ``uses`` say."""

    use: SampledUse
    uses: int

    def delta(self, epsilon: float) -> Interval:
        constant, rate = self.use.tail().at(self.uses, epsilon)
        return Interval(0.0, math.exp(min(constant - rate * epsilon, 0.0)))

    def epsilon(self, delta: float) -> Interval:
        return Interval(0.0, max(self.use.tail().reach(self.uses, math.log(delta)), 0.0))


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
        import numpy as np

        down, up = self._log_ratio(np.array((-self.eta, self.eta)))
        return -float(down), float(up)

    @property
    def reach(self) -> tuple[float, float]:
        """The loss lies between minus the one and the other."""
        down, up = self.swing
        return (down, up) if self.direction == "forward" else (up, down)

    def pair(self, u: Array) -> tuple[Array, Array, Array]:
        """Q₁, and ln m of the near and of the far argument."""
        import numpy as np

        chance = np.clip((1.0 / u - math.exp(-self.eta)) / -math.expm1(-self.eta), 0.0, 1.0)
        near = np.log(u)
        return chance, self._log_ratio(near), self._log_ratio(near - self.eta)

    def _log_ratio(self, x: Array) -> Array:
        """ln(1 − rate + rate e^x), where e^x is below rounding, too."""
        import numpy as np

        rest = math.log1p(-self.rate) if self.rate < 1.0 else -math.inf
        far = np.logaddexp(rest, math.log(self.rate) + x)
        return np.where(np.abs(x) > 1.0, far, np.log1p(self.rate * np.expm1(x.clip(-1.0, 1.0))))

    def tail(self) -> Tail:
        """Moment bounds, for many λ at once."""
        return _tail(self)

    def moments(self, theta: Array) -> tuple[Array, Array, Array]:
        """ln of the largest E[e^{θ loss}], and mean and variance of the loss tilted by θ at that t."""
        import numpy as np

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
        import numpy as np

        if self.taken == 1.0:
            return logs
        return np.logaddexp(math.log1p(-self.taken), math.log(self.taken) + logs)

    def best_share(self, theta: float) -> float:
        """t/η at which E[e^{θ loss}] is largest, to a thousandth."""
        import numpy as np

        shares = np.linspace(0.0, 1.0, 1001)[1:-1]
        terms, _, _ = self._terms(np.array([theta]), shares)
        return float(shares[np.logaddexp(terms[0], terms[1])[0].argmax()])

    def _terms(self, theta: Array, shares: Array) -> tuple[Array, Array, Array]:
        """ln of both terms of E[e^{θ loss}], a row for each θ, and ln m of the near and of the far argument."""
        import numpy as np

        chance, near, far = self.pair(np.exp(self.eta * shares))
        power = 1.0 + theta if self.direction == "forward" else -theta
        with np.errstate(divide="ignore"):
            terms = np.stack(
                (np.log(chance) + np.multiply.outer(power, near), np.log1p(-chance) + np.multiply.outer(power, far))
            )
        return terms, near, far


@lru_cache(maxsize=64)
def _tail(use: SampledUse) -> Tail:
    import numpy as np

    rates = np.geomspace(1e-2, 1e5, 150)
    u = np.exp(use.eta * np.linspace(0.0, 1.0, MOMENT_CELLS + 1))
    chance, near, far = use.pair(u)
    power = np.multiply.outer
    # Forward m^{1+λ}, backward m^{−λ}; the chance of the near value falls with u, both values rise.
    with np.errstate(divide="ignore"):
        log_near, log_far = np.log(chance[:-1]), np.log1p(-chance[1:])
    if use.direction == "forward":
        terms = power(1.0 + rates, near[1:]) + log_near, power(1.0 + rates, far[1:]) + log_far
    else:
        terms = power(-rates, near[:-1]) + log_near, power(-rates, far[:-1]) + log_far
    logs = use.thinned(np.logaddexp(*terms).max(axis=1))
    return Tail(rates, logs + MOMENT_ROUNDING * (1.0 + np.abs(logs) + rates * use.eta))


class Estimate(NamedTuple):
    """About where the answer lies; no bound."""

    epsilon: float
    slope: float
    """−d ln δ/dε."""
    variance: float
    """Of all losses together, on the way there."""


def estimate(uses: Iterable[tuple[SampledUse, int]], *, delta: float | None, epsilon: float) -> Estimate:
    """The saddle point at ``delta``, or at ``epsilon`` where that is None; the tilted losses are taken as normal."""
    import numpy as np
    from scipy.special import erfcx

    theta = np.geomspace(1e-6, 1e6, 400)
    log_moment, mean, variance = np.sum([[n * part for part in use.moments(theta)] for use, n in uses], axis=0)
    above = epsilon - mean
    if delta is not None:
        s = np.sqrt(np.maximum(variance, 1e-300) / 2.0)
        share = 0.5 * (erfcx(theta * s) - erfcx((1.0 + theta) * s))
        above = log_moment - theta * mean + np.log(np.maximum(share, 1e-300)) - math.log(max(delta, 1e-300))
    at = min(max(int(np.argmax(np.append(above <= 0.0, True))), 1), theta.size - 1)
    part = float(np.clip(above[at - 1] / np.maximum(above[at - 1] - above[at], 1e-300), 0.0, 1.0))
    found = ((1.0 - part) * side[at - 1] + part * side[at] for side in (mean, theta, variance))
    return Estimate(*map(float, found))
