r"""The terms of the sum over t (``contour``): products of transforms.

Their errors are those of each use's transform (``gaussian_pair``), grown by the number of uses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from affidavit.accountant.pld.closed import Closed
from affidavit.accountant.pld.gaussian_pair import ComplexArray, Moments, Pair
from affidavit.accountant.pld.transform import UNIT

__all__ = ["Use", "Whole", "summed"]

STRIDE = 1.3
FIRST_TERMS = 32
LEAST = 1e-300
"""For what is 0: far below all that is charged."""

Use = Pair | Closed


@dataclass(frozen=True, slots=True)
class Whole:
    """The composition at one tilt: uses with their counts, and Gaussians whose μ² add up to ``precision``."""

    tilt: float
    parts: tuple[tuple[Use, int, Moments], ...]
    precision: float

    @classmethod
    def at(cls, tilt: float, pairs: tuple[tuple[Use, int], ...], precision: float) -> Whole:
        """With its moments."""
        parts = tuple((pair, count, pair.tilted(tilt, 0.0).moments()) for pair, count in pairs)
        return cls(tilt, parts, precision)

    @property
    def gaussian(self) -> float:
        """ln of the Gaussians' part of M(θ)."""
        return 0.5 * self.precision * (self.tilt**2 + self.tilt)

    @property
    def log_peak(self) -> float:
        """ln M(θ)."""
        return math.fsum(count * one.log_peak for _, count, one in self.parts) + self.gaussian

    @property
    def variance(self) -> float:
        """Of the loss under the tilt."""
        return math.fsum(count * one.variance for _, count, one in self.parts) + self.precision

    @property
    def epsilon(self) -> float:
        """The ε whose saddle point this tilt is."""
        mean = math.fsum(count * one.mean for _, count, one in self.parts) + self.precision * (self.tilt + 0.5)
        return mean - 1.0 / self.tilt - 1.0 / (1.0 + self.tilt)

    def log_delta(self, epsilon: float) -> float:
        """The saddle point's guess of ln δ."""
        curvature = self.variance + 1.0 / self.tilt**2 + 1.0 / (1.0 + self.tilt) ** 2
        pole = math.log(self.tilt) + math.log1p(self.tilt) + 0.5 * math.log(2.0 * math.pi * curvature)
        return self.log_peak - self.tilt * epsilon - pole

    @property
    def log_chernoff(self) -> float:
        """ln c(θ) M(θ), c(θ) = θ^θ/(1+θ)^{1+θ}: δ(ε) <= c(θ) M(θ) e^{−θε}."""
        return self.log_peak + self.tilt * math.log(self.tilt) - (1.0 + self.tilt) * math.log1p(self.tilt)


@np.errstate(over="ignore")  # where an error is beyond float64 it is inf
def summed(whole: Whole, step: float, goal: float, limit: float) -> tuple[ComplexArray, float, float] | None:
    """Terms until what is left of their integral is below ``goal``, log_scale, error; None beyond ``limit``."""
    found: list[ComplexArray] = []
    error, work, first, count = 0.0, 0.0, 0, FIRST_TERMS
    sums = 8.0 + 2.0 * len(whole.parts)  # each part's logarithm is in all later partial sums
    if any(isinstance(use, Closed) for use, _, _ in whole.parts):
        # Atoms may never fade: then the last of all terms that there may be has too much beyond it.
        last = step * limit / sum(use.tilted(whole.tilt, 0.0).size for use, _, _ in whole.parts)
        if _rest(whole, last, goal) > goal:
            return None
    scale = math.fsum(uses * abs(moments.log_peak) for _, uses, moments in whole.parts) + whole.gaussian
    while True:
        t = step * np.arange(first, first + count, dtype=np.float64)
        product = np.asarray(whole.precision * (-0.5 * t * t + 1j * t * (whole.tilt + 0.5)), dtype=np.complex128)
        rounding = sums * UNIT * (whole.precision * t * (t + whole.tilt + 0.5) + 16.0) + 4.0 * UNIT * scale
        for use, uses, moments in whole.parts:
            nodes = use.tilted(whole.tilt, float(t[-1]))
            work += count * nodes.size
            if work > limit:
                return None
            of_one = nodes.transform(float(t[0]), step, count, moments.log_peak)
            constant, linear = nodes.rounding(moments.log_peak)
            of_one = np.where(np.abs(of_one) < LEAST, LEAST, of_one)
            logs = np.log(of_one)
            product = product + uses * logs
            # |(m + e)^n − m^n| <= (|m| + |e|)^n − |m|^n
            missed = np.log1p((constant + linear * t) / np.abs(of_one))
            rounding = rounding + uses * (missed + sums * UNIT * (1.0 + np.abs(logs)))
        s = np.asarray(whole.tilt + 1j * t, dtype=np.complex128)
        pole = s * (s + 1.0)
        terms: ComplexArray = np.exp(product) / pole
        sizes, changes = product.real - np.log(np.abs(pole)), rounding + 16.0 * UNIT
        # e^sizes (e^changes − 1), or a little more; inf where that is too large.
        small = np.exp(sizes) * np.expm1(np.minimum(changes, 1.0))
        error += float(np.where(changes < 1.0, small, np.exp(sizes + changes)).sum())
        found.append(terms)
        first += count
        if float(np.abs(terms[-count // 4 :]).max()) * float(t[-1]) <= goal:
            rest = _rest(whole, float(t[-1]), goal)
            if rest <= goal:
                break
        count = min(2 * count, 1024)
    return np.concatenate(found), whole.log_peak, error + rest / step


def _rest(whole: Whole, start: float, goal: float) -> float:
    """Bound of step Σ |terms| beyond t = ``start``; |s(s+1)| >= t²."""
    nodes = [(use.lifted(whole.tilt), uses, moments.log_peak) for use, uses, moments in whole.parts]

    def size(t: float) -> float:
        logs = (uses * math.log(max(one.beyond(t, log_peak), LEAST)) for one, uses, log_peak in nodes)
        log_size = -0.5 * whole.precision * t * t + math.fsum(logs)
        return math.exp(log_size) if log_size < 700.0 else math.inf

    rest, t, bound = 0.0, start, size(start)
    while bound / t > 0.1 * goal and rest <= goal and t < 1e6 * start:
        rest += bound * (1.0 / t - 1.0 / (STRIDE * t))
        t *= STRIDE
        bound = min(bound, size(t))
    return rest + bound / t
