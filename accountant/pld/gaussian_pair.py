r"""Pairs of Gaussian mixtures, tilted: nodes that integrate p^{1+s} q^{−s} within a stated error (``contour``).

p and q are (1−c) N(0, 1) + c N(m, 1), r their densities against φ, so M(s) = ∫ φ(x) r_p^{1+s} r_q^{−s} dx, s = θ + it.
On x + iy, with m|y| < π, r(x) cos(my/2) <= |r| <= r(x), and arg r lies between 0 and my. So the integrand is at most
e^{y²/2 + |t|S|y|} cos(m_q y/2)^{−θ} times its size on the line, S the means' distance, and its trapezoid sum
of step h is wrong by at most twice that, times M(θ)/(e^{2πy/h} − 1) (Trefethen and Weideman 2014, theorem 5.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.pld.curve import Array, Curve, Swapped
from affidavit.accountant.pld.gaussian import Gaussian
from affidavit.accountant.pld.subsample import Mixed
from affidavit.accountant.pld.three_gaussians import Mixture, ThreeGaussians
from affidavit.accountant.pld.transform import UNIT

__all__ = ["ComplexArray", "Moments", "Pair", "Tilted", "TooFineError"]

ComplexArray = NDArray[np.complex128]

LOG_NOTHING, LOG_ENDS = 46.0, 90.0
"""−ln of what the sum over x may miss, relative to M(θ): 1e-20; of what is left out at either end."""
MISSED = 5.0 * math.exp(-LOG_NOTHING)
FEW_NODES, MOST_NODES, CELLS = 3_000, 200_000, 1_000
AT_ONCE = 128
"""Nodes that are summed in any order: rounding grows with their number, and with that of such sums."""
HEIGHTS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.1, 1.7, 2.5)
"""Of the lines that bound M far out."""


class TooFineError(Exception):
    """More nodes than a sum may have: the means are too far apart for their noise."""


@dataclass(frozen=True, slots=True)
class Pair:
    """p against q; the means of p are all at or above those of q (``rising``), or all at or below."""

    p: Mixture
    q: Mixture

    @classmethod
    def of(cls, curve: Curve) -> Pair | None:
        """What ``curve`` is, if it is such a pair."""
        match curve:
            case Mixed(curve=Gaussian(mu=mu), rate=rate):
                return cls(Mixture(rate, mu), Mixture(0.0, 0.0))
            case ThreeGaussians(p=p, q=q):
                return cls(p, q)
            case Swapped(curve=inner):
                found = cls.of(inner)
                return None if found is None else cls(found.q, found.p)
        return None

    @property
    def rising(self) -> bool:
        """Whether the loss rises in x."""
        return self.p.mean > self.q.mean

    @property
    def distance(self) -> float:
        """S of the module docstring."""
        return abs(self.p.mean - self.q.mean)

    def strip(self, tilt: float) -> float:
        """A height |y| of the strip in which the sum over x is accounted for."""
        widest = max(self.p.spread, self.q.spread)
        height = min(math.sqrt(2.0 * LOG_NOTHING), 2.0 / widest)
        return min(height, 2.0 / (self.q.spread * math.sqrt(1.0 + tilt))) if self.q.spread else height

    def tilted(self, tilt: float, frequency: float) -> Tilted:
        """Nodes for Re s = ``tilt`` and |Im s| <= ``frequency``."""
        height = self.strip(tilt)
        growth = 0.5 * height**2 + frequency * self.distance * height
        growth -= tilt * math.log(math.cos(0.5 * self.q.spread * height))
        return self._nodes(tilt, _step(height, growth))

    @property
    def _quarter(self) -> float:
        """The height at which arg r may be π/4."""
        return 0.25 * math.pi / max(self.p.spread, self.q.spread)

    def heights(self) -> tuple[float, ...]:
        """Those of the lines that bound what lies beyond some t: half of what leaves arg r rising in the height."""
        highest = min(self._quarter, math.sqrt(2.0 * LOG_NOTHING))
        return tuple(height for height in HEIGHTS if height <= highest) or (highest,)

    def lifted(self, tilt: float) -> Tilted:
        """Nodes on which the integrand's size on a line at any of ``heights`` is summed.

        As a function of x it continues to |Im x| <= v as long as (y + v)m <= π/2, where its size at most is
        e^{(y² + v²)/2} cos(m_q(y + v)/2)^{−θ} of that on the real line, whatever t, since there
        Re(arg r_p − arg r_q) >= 0.
        """
        height = self.heights()[-1]
        room = min(self._quarter, self.strip(tilt))
        growth = 0.5 * (height**2 + room**2)
        growth -= tilt * math.log(math.cos(0.5 * self.q.spread * (height + room)))
        return self._nodes(tilt, _step(room, growth))

    def _nodes(self, tilt: float, step: float) -> Tilted:
        low, high = self._end(tilt, -1.0), self._end(tilt, 1.0)
        if low + high > FEW_NODES * step:
            low, high = self._nearer(tilt, -1.0, low), self._nearer(tilt, 1.0, high)
        first, last = math.floor(-low / step), math.ceil(high / step)
        if last - first > MOST_NODES:
            raise TooFineError
        x = step * np.arange(first, last + 1, dtype=np.float64)
        log_p, log_q = self.p.log_ratio(x), self.q.log_ratio(x)
        log_height = -0.5 * x * x + (1.0 + tilt) * log_p - tilt * log_q - 0.5 * math.log(2.0 * math.pi)
        # The nodes that are dropped together weigh less than e^−LOG_NOTHING.
        kept = log_height > log_height.max() - LOG_NOTHING - math.log(len(x))
        return Tilted(self, tilt, step, x[kept], (log_p - log_q)[kept], log_height[kept])

    def _end(self, tilt: float, sign: float) -> float:
        """Where, to the ``sign``'s side, less than e^−LOG_ENDS of M(θ) >= 1 is left.

        r_p <= e^{ax} with a its larger mean there, and r_q >= b e^{nx − n²/2} for each of its parts.
        """
        a = max(sign * self.p.mean, 0.0) if self.p.share < 1.0 else sign * self.p.mean
        parts = [(1.0 - self.q.share, 0.0), (self.q.share, sign * self.q.mean)]
        ends = []
        for weight, mean in parts:
            if weight == 0.0:
                continue
            slope = (1.0 + tilt) * a - tilt * mean
            log_size = tilt * (0.5 * mean * mean - math.log(weight)) + 0.5 * slope * slope
            ends.append(max(slope, 0.0) + math.sqrt(2.0 * (LOG_ENDS + 2.0 + max(log_size, 0.0))))
        return min(ends)

    def _nearer(self, tilt: float, sign: float, end: float) -> float:
        """The same, from cells between 0 and ``end``: ln r_p, ln r_q and φ are monotone."""
        edges = np.linspace(0.0, end, CELLS)
        log_p, log_q = self.p.log_ratio(sign * edges), self.q.log_ratio(sign * edges)
        logs = -0.5 * edges[:-1] ** 2 + (1.0 + tilt) * np.maximum(log_p[:-1], log_p[1:])
        logs += math.log(edges[1]) - tilt * np.minimum(log_q[:-1], log_q[1:])
        left = np.logaddexp.accumulate(logs[::-1])[::-1]
        return float(edges[:-1][left > -LOG_ENDS].max(initial=0.0) + edges[1])


def _step(height: float, growth: float) -> float:
    """The step of a sum over x whose integrand grows by e^``growth`` up to ``height``: half of e^−LOG_NOTHING."""
    return 2.0 * math.pi * height / (LOG_NOTHING + math.log(4.0) + growth)


class Moments(NamedTuple):
    """ln M(θ), and of the loss under the tilt the mean and the variance."""

    log_peak: float
    mean: float
    variance: float


@dataclass(frozen=True, slots=True)
class Tilted:
    """The integrand on its nodes."""

    pair: Pair
    tilt: float
    step: float
    x: Array
    loss: Array
    log_height: Array  # ln φ r_p^{1+θ} r_q^{−θ}

    @property
    def size(self) -> int:
        """Multiplications a term."""
        return len(self.x)

    def moments(self) -> Moments:
        """Of one use."""
        top = float(self.log_height.max())
        weight = np.exp(self.log_height - top)
        total = float(weight.sum())
        weight /= total
        mean = float(weight @ self.loss)
        return Moments(top + math.log(total * self.step), mean, float(weight @ (self.loss - mean) ** 2))

    def weights(self, log_peak: float) -> Array:
        """What the nodes contribute to M(θ), relative to e^``log_peak``."""
        return np.exp(self.log_height - log_peak) * self.step

    def missed(self, weight: Array, log_peak: float) -> float:
        """What a sum over the nodes may miss: relative to itself, and, where 1 is meant, to e^``log_peak``."""
        return MISSED * float(weight.sum()) + math.exp(min(max(-log_peak, 0.0), 700.0) - LOG_ENDS + 6.0)

    def _relative(self, log_peak: float) -> Array:
        """Relative error of each of ``weights``, and its part in that of their sum."""
        p_size, q_size = self.pair.p.size(self.x), self.pair.q.size(self.x)
        exponents = 0.5 * self.x**2 + (1.0 + self.tilt) * p_size + self.tilt * q_size
        additions = min(len(self.x), AT_ONCE) + len(self.x) / AT_ONCE
        return 2.0 * UNIT * (32.0 + additions + 8.0 * exponents + 2.0 * abs(log_peak))

    def rounding(self, log_peak: float) -> tuple[float, float]:
        """(a, b): the sum over x at frequency t, relative to M(θ), is wrong by at most a + bt."""
        weight = self.weights(log_peak)
        p_size, q_size = self.pair.p.size(self.x), self.pair.q.size(self.x)
        return float(weight @ self._relative(log_peak)) + self.missed(weight, log_peak), 16.0 * UNIT * float(
            weight @ (p_size + q_size)
        )

    def transform(self, first: float, step: float, count: int, log_peak: float) -> ComplexArray:
        """M(θ + it)/M(θ) at t = ``first``, ``first`` + ``step``, …: e^{itL} is a coarse and a fine turn."""
        fine = 1 << (count.bit_length() // 2)
        coarse = first + step * fine * np.arange(-(-count // fine))
        turns = np.exp(1j * np.outer(coarse, self.loss)) * self.weights(log_peak)
        others = np.exp(1j * np.outer(self.loss, step * np.arange(fine)))
        result = np.zeros((len(coarse), fine), dtype=np.complex128)
        for start in range(0, len(self.x), AT_ONCE):
            result += turns[:, start : start + AT_ONCE] @ others[start : start + AT_ONCE]
        return result.reshape(-1)[:count]

    def beyond(self, frequency: float, log_peak: float) -> float:
        """Bound of |M(θ + it)|/M(θ) for every |t| >= ``frequency``, by lines at some heights."""
        p, q = self.pair.p, self.pair.q
        weight = self.weights(log_peak) * (1.0 + self._relative(log_peak))
        sign = 1.0 if self.pair.rising else -1.0
        best = float(weight.sum()) + self.missed(weight, log_peak)
        for height in self.pair.heights():
            p_angle, p_size = p.turned(self.x, sign * height)
            q_angle, q_size = q.turned(self.x, sign * height)
            turn = np.maximum(p_angle - q_angle, 0.0)
            grown = (1.0 + self.tilt) * np.log(p_size) - self.tilt * np.log(q_size) - frequency * turn
            missed = self.missed(weight, log_peak) * math.exp(
                min(-self.tilt * math.log(math.cos(0.5 * q.spread * height)), 600.0)
            )
            inside = float(weight @ np.exp(np.minimum(grown, 600.0)))
            best = min(best, math.exp(0.5 * height * height) * (inside + missed))
        return best * (1.0 + 1e-9)
