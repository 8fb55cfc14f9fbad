r"""Pairs of Gaussian mixtures, tilted: nodes that integrate p^{1+s} q^{−s} within a stated error (``contour``).

p and q are (1−c) N(0, 1) + c N(m, 1), r their densities against φ, so M(s) = ∫ φ(x) r_p^{1+s} r_q^{−s} dx, s = θ + it.
On x + iy, with m|y| < π, r(x) cos(my/2) <= |r| <= r(x), and arg r lies between 0 and my. So the integrand is at most
e^{y²/2 + |t|S|y|} cos(m_q y/2)^{−θ} times its size on the line, S the means' distance, and its trapezoid sum
of step h is wrong by at most twice that, times M(θ)/(e^{2πy/h} − 1) (Trefethen and Weideman 2014, theorem 5.1).

A ``Window`` w is one more factor, so that a use is the sum of a common and a rare part. With Φ(z) = ∫_{−∞}^z φ taken
along a line of constant height, |φ(u + iy)| = e^{y²/2} φ(u) gives |Φ(z + iy)| <= e^{y²/2} Φ(z): a window of width v
only makes e^{y²/2} above e^{y²(1 + 1/v²)/2}, everything else relative to the part's own integral.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.pld.curve import Array, Curve, Swapped
from affidavit.accountant.pld.gaussian import Gaussian
from affidavit.accountant.pld.mixture import CELLS, Mixture, Window, cells
from affidavit.accountant.pld.subsample import Mixed
from affidavit.accountant.pld.three_gaussians import ThreeGaussians
from affidavit.accountant.rounding import UNIT

__all__ = ["WIDTH", "ComplexArray", "Moments", "Pair", "Tilted", "TooFineError"]

ComplexArray = NDArray[np.complex128]

LOG_NOTHING = 46.0
"""−ln of what the sum over x may miss, relative to M(θ): 1e-20."""
LOG_DEEP, LOG_ENDS = 66.0, 90.0
"""−ln of what a coarse sum misses of a part below a window's end; of what is left out at either end."""
LEFT_OUT = 5.0 * math.exp(-LOG_NOTHING)
FEW_NODES, MOST_NODES = 3_000, 200_000
WIDTH = 1.0 / 20.0
"""Of a window, times p's mean. Behind narrower ones M decays more slowly; wider ones let more large losses by."""
FEW_TURNS = 40.0
"""t times the means' distance below which a uniform step has few nodes."""
AT_ONCE = 128
"""Nodes that are summed in any order: rounding grows with their number, and with that of such sums."""
GUESSED_END, GUESSED_NODES = 60.0, 300.0
LOW_HEIGHTS = (0.0003, 0.0006, 0.0012, 0.0025, 0.005, 0.01)
HEIGHTS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.1, 1.7, 2.5)
"""Of the lines that bound M far out."""


class TooFineError(Exception):
    """More nodes than a sum may have: the means are too far apart for their noise."""


@dataclass(frozen=True, slots=True)
class Pair:
    """p against q; the means of p are all at or above those of q (``rising``), or all at or below."""

    p: Mixture
    q: Mixture
    window: Window | None = None

    @property
    def divisible(self) -> bool:
        """Whether p has two parts, so that windows can cut rare losses off."""
        return 0.0 < self.p.share < 1.0

    def between(self, low: float | None, high: float | None) -> Window:
        """The window between two places, given by the ln of the odds there of the moved part of a divisible p."""
        rate, mean = self.p
        even = (math.log1p(-rate) - math.log(rate)) / mean + 0.5 * mean
        first, last = (None if odds is None else even + odds / mean for odds in (low, high))
        return Window(first, last, WIDTH / mean)

    def within(self, window: Window) -> Pair:
        """Its part within ``window``."""
        return Pair(self.p, self.q, window)

    @property
    def curvature(self) -> float:
        """2/y² times ln of what a line at height y costs by φ and the window."""
        return 1.0 if self.window is None else 1.0 + self.window.width**-2

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
        height = min(math.sqrt(2.0 * LOG_NOTHING / self.curvature), 2.0 / widest)
        return min(height, 2.0 / (self.q.spread * math.sqrt(1.0 + tilt))) if self.q.spread else height

    def tilted(self, tilt: float, frequency: float) -> Tilted:
        """Nodes for Re s = ``tilt`` and |Im s| <= ``frequency``."""
        height = self.strip(tilt)
        growth = 0.5 * self.curvature * height**2 + frequency * self.distance * height
        growth -= tilt * math.log(math.cos(0.5 * self.q.spread * height))
        step = _step(height, growth)
        if frequency * self.distance > FEW_TURNS:
            step = max(step, self._low_step(tilt, frequency, height))
        return self._nodes(tilt, step)

    def _low_step(self, tilt: float, frequency: float, highest: float) -> float:
        """A step for what a window leaves below its high end, where the integrand hardly turns.

        At height y >= 0 it is at most e^{|t|(|arg r_p| + |arg r_q|)} for e^{|t|Sy} of the module docstring; p's angle
        is largest at a cell's high end, q's at its low end, −∞ of the first. Beyond the last cell w r_p^{1+θ} falls
        (ln r_p rises by less than m, ln w falls by z/width) and r_q >= 1 − c. The bound is absolute: e^{−LOG_DEEP}.
        """
        if self.window is None or self.window.high is None:
            return 0.0
        widths = 60.0 + (1.0 + tilt) / 3.0
        end = max(math.copysign(self.window.high, self.window.high * self.p.mean), 0.0) + widths * abs(
            self.window.width
        )
        low, high, log_mass, _ = cells(self.p, end)
        share = self.window._replace(low=None).log_share(low)
        share[0] = 0.0
        log_p = self.p.log_ratio(high)
        logs = log_mass + share + tilt * (log_p - self.q.log_ratio(high))
        far = float(self.window._replace(low=None).log_share(high[-1:])[0]) - tilt * math.log1p(-self.q.share)
        far += (1.0 + tilt) * float(log_p[-1])
        best = 0.0
        for height in (*LOW_HEIGHTS, *HEIGHTS):
            if height > highest:
                break
            q_turn = np.abs(self.q.turned(low, height)[0])
            q_turn[0] = self.q.spread * height
            turn = np.abs(self.p.turned(high, height)[0]) + q_turn
            size = float(
                np.logaddexp(np.logaddexp.reduce(logs + frequency * turn), far + frequency * self.distance * height)
            )
            grown = 0.5 * self.curvature * height**2 - tilt * math.log(math.cos(0.5 * self.q.spread * height))
            best = max(best, _step(height, grown + max(size, 0.0) + LOG_DEEP - LOG_NOTHING))
        return best

    def guessed_work(self, step: float) -> float:
        """About how many terms of step ``step`` a rare part needs, times nodes; it only tells what is worth a try."""
        if self.window is None or self.window.low is None:
            return 0.0
        high = self.window.high
        ends = np.array([self.window.low, self.window.low + 6.0 / self.p.mean if high is None else high])
        low_share, high_share = self.p.second(ends)
        furthest = GUESSED_END / float(low_share)
        return furthest / step * (GUESSED_NODES + furthest * float(high_share * abs(ends[1] - ends[0])) * self.distance)

    @property
    def _quarter(self) -> float:
        """The height at which arg r may be π/4."""
        return 0.25 * math.pi / max(self.p.spread, self.q.spread)

    def heights(self) -> tuple[float, ...]:
        """Those of the lines that bound what lies beyond some t: half of what leaves arg r rising in the height."""
        highest = min(self._quarter, math.sqrt(2.0 * LOG_NOTHING / self.curvature))
        return tuple(height for height in HEIGHTS if height <= highest) or (highest,)

    def lifted(self, tilt: float) -> Tilted:
        """Nodes on which the integrand's size on a line at any of ``heights`` is summed.

        As a function of x it continues to |Im x| <= v as long as (y + v)m <= π/2, where its size at most is
        e^{(y² + v²)/2} cos(m_q(y + v)/2)^{−θ} (a window aside) of that on the real line, whatever t, since there
        Re(arg r_p − arg r_q) >= 0.
        """
        height = self.heights()[-1]
        room = min(self._quarter, self.strip(tilt))
        growth = 0.5 * self.curvature * (height**2 + room**2)
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
        if self.window is not None:
            log_height += self.window.log_share(x)
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
        """The same, from cells between 0 and ``end``: ln r_p, ln r_q, φ and a window's high end are monotone."""
        edges = np.linspace(0.0, end, CELLS)
        log_p, log_q = self.p.log_ratio(sign * edges), self.q.log_ratio(sign * edges)
        logs = -0.5 * edges[:-1] ** 2 + (1.0 + tilt) * np.maximum(log_p[:-1], log_p[1:])
        logs += math.log(edges[1]) - tilt * np.minimum(log_q[:-1], log_q[1:])
        if self.window is not None and self.window.high is not None:
            share = self.window._replace(low=None).log_share(sign * edges)
            logs += np.maximum(share[:-1], share[1:])
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
        absolute = math.exp(-LOG_ENDS + 6.0) + (0.0 if self.pair.window is None else math.exp(-LOG_DEEP))
        return LEFT_OUT * float(weight.sum()) + absolute * math.exp(min(max(-log_peak, 0.0), 700.0))

    def _relative(self, log_peak: float) -> Array:
        """Relative error of each of ``weights``, and its part in that of their sum."""
        p_size, q_size = self.pair.p.size(self.x), self.pair.q.size(self.x)
        exponents = 0.5 * self.x**2 + (1.0 + self.tilt) * p_size + self.tilt * q_size
        if self.pair.window is not None:
            exponents += self.pair.window.size(self.x)
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
            best = min(best, math.exp(0.5 * self.pair.curvature * height * height) * (inside + missed))
        return best * (1.0 + 1e-9)
