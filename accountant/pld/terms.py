r"""The terms of the sum over t (``contour``): products of transforms, without those of what lies below a window.

Their errors are those of each use's transform (``gaussian_pair``), grown by the number of uses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from affidavit.accountant.pld.closed import Closed
from affidavit.accountant.pld.curve import Array
from affidavit.accountant.pld.gaussian_pair import ComplexArray, Moments, Pair
from affidavit.accountant.rounding import UNIT

__all__ = ["Split", "Use", "Whole", "summed"]

STRIDE = 1.3
FIRST_TERMS = 32
LEAST = 1e-300
"""For what is 0: far below all that is charged."""

Use = Pair | Closed
Split = tuple[tuple[Pair, Pair], ...]
"""The parts of each pair below a window and within it."""


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
def summed(
    whole: Whole, step: float, goal: float, split: Split | None, limit: float
) -> tuple[ComplexArray, float, float] | None:
    """Terms until what is left of their integral is below ``goal``, log_scale, error; None beyond ``limit``."""
    found: list[ComplexArray] = []
    error, work, first, count = 0.0, 0.0, 0, FIRST_TERMS
    parts: tuple[tuple[Use, ...], ...] = split or tuple((pair,) for pair, _, _ in whole.parts)
    sums = 8.0 + 2.0 * len(parts)  # each part's logarithm is in all later partial sums
    if any(isinstance(use, Closed) for use, _, _ in whole.parts):
        # Atoms may never fade: then the last of all terms that there may be has too much beyond it.
        last = step * limit / sum(use.tilted(whole.tilt, 0.0).size for use, _, _ in whole.parts)
        if _rest(whole, split, last, goal) > goal:
            return None
    scale = math.fsum(uses * abs(moments.log_peak) for _, uses, moments in whole.parts) + whole.gaussian
    while True:
        t = step * np.arange(first, first + count, dtype=np.float64)
        # ln of the product of the first parts and of the quotient by it of that of all; the errors of both, and of all.
        product = np.asarray(whole.precision * (-0.5 * t * t + 1j * t * (whole.tilt + 0.5)), dtype=np.complex128)
        rounding = sums * UNIT * (whole.precision * t * (t + whole.tilt + 0.5) + 16.0) + 4.0 * UNIT * scale
        quotient, moved, direct = np.zeros(count, dtype=np.complex128), np.zeros_like(t), rounding
        for part, (_, uses, moments) in zip(parts, whole.parts, strict=True):
            nodes = [one.tilted(whole.tilt, float(t[-1])) for one in part]
            work += count * sum(one.size for one in nodes)
            if work > limit:
                return None
            of_one = [one.transform(float(t[0]), step, count, moments.log_peak) for one in nodes]
            errors = [one.rounding(moments.log_peak) for one in nodes]
            missed = [constant + linear * t for constant, linear in errors]
            common = np.where(np.abs(of_one[0]) < LEAST, LEAST, of_one[0])
            size, logs = np.abs(common), np.log(common)
            product = product + uses * logs
            rounded = sums * UNIT * (1.0 + np.abs(logs))
            # |(m + e)^n − m^n| <= (|m| + |e|)^n − |m|^n
            rounding = rounding + uses * (np.log1p(missed[0] / size) + rounded)
            if split:
                ratio = of_one[1] / common
                ratio_size, whole_size = np.abs(ratio), np.maximum(np.abs(1.0 + ratio), LEAST)
                gained = _log1p(ratio)
                quotient = quotient + uses * gained
                of_ratio = np.log1p(
                    16.0 * UNIT * np.minimum(ratio_size / whole_size, 1.0) * ((1.0 + ratio_size) / whole_size)
                )
                of_ratio = of_ratio + sums * UNIT * np.abs(gained)
                room = np.maximum(size - missed[0], LEAST)
                relative = np.log1p((missed[1] + ratio_size * missed[0]) / room / whole_size)
                moved = moved + uses * (relative + of_ratio)
                relative = np.log1p((missed[0] + missed[1]) / np.maximum(size * whole_size, LEAST))
                direct = direct + uses * (relative + rounded + of_ratio)
        s = np.asarray(whole.tilt + 1j * t, dtype=np.complex128)
        terms, errors_here = _terms(s, product, quotient if split else None, rounding, moved, direct)
        error += float(errors_here.sum())
        found.append(terms)
        first += count
        if float(np.abs(terms[-count // 4 :]).max()) * float(t[-1]) <= goal:
            rest = _rest(whole, split, float(t[-1]), goal)
            if rest <= goal:
                break
        count = min(2 * count, 1024)
    return np.concatenate(found), whole.log_peak, error + rest / step


def _terms(
    s: ComplexArray, product: ComplexArray, quotient: ComplexArray | None, rounding: Array, moved: Array, direct: Array
) -> tuple[ComplexArray, Array]:
    """The terms, and a bound of their errors: of ``product`` and ``quotient`` or, if less, of ``product`` and of all.

    The second is for first parts that are smaller than what their sum over x may miss.
    """
    pole = s * (s + 1.0)
    base: ComplexArray = np.exp(product) / pole
    log_base = product.real - np.log(np.abs(pole))
    rounding = rounding + 16.0 * UNIT
    if quotient is None:
        return base, _changed(log_base, rounding)
    large = quotient.real > 1.0  # e^quotient may be beyond float64 where all is not
    gain = np.expm1(np.where(large, 0.0, quotient))
    terms = np.where(large, np.exp(np.where(large, product + quotient, -math.inf)) / pole - base, base * gain)
    moved, direct = moved + 16.0 * UNIT * np.abs(quotient), direct + 16.0 * UNIT * (1.0 + np.abs(quotient))
    log_all = log_base + quotient.real
    log_terms = np.where(large, log_all + 0.5, log_base + np.log(np.maximum(np.abs(gain), LEAST)))
    first = _changed(log_terms, rounding) + _changed(log_all + rounding, moved)
    second = _changed(log_base, rounding) + _changed(log_all, direct)
    return terms, np.minimum(first, second)


def _changed(logs: Array, changes: Array) -> Array:
    """e^logs (e^changes − 1), or a little more; inf where that is too large."""
    small = np.exp(logs) * np.expm1(np.minimum(changes, 1.0))
    return np.where(changes < 1.0, small, np.exp(logs + changes))


def _log1p(z: ComplexArray) -> ComplexArray:
    """ln(1 + z), accurate for small z."""
    size = np.maximum(np.abs(1.0 + z), LEAST)
    near = (size > 0.7) & (size < 2.0)
    gain = np.where(near, z.real, 0.0) * (2.0 + np.where(near, z.real, 0.0)) + np.where(near, z.imag, 0.0) ** 2
    return np.where(near, 0.5 * np.log1p(gain), np.log(size)) + 1j * np.arctan2(z.imag, 1.0 + z.real)


def _rest(whole: Whole, split: Split | None, start: float, goal: float) -> float:
    """Bound of step Σ |terms| beyond t = ``start``; |s(s+1)| >= t²."""
    parts: tuple[tuple[Use, ...], ...] = split or tuple((pair,) for pair, _, _ in whole.parts)
    nodes = [[one.lifted(whole.tilt) for one in part] for part in parts]

    def size(t: float) -> float:
        log_common, log_quotient = -0.5 * whole.precision * t * t, 0.0
        for part, (_, uses, moments) in zip(nodes, whole.parts, strict=True):
            sizes = [max(one.beyond(t, moments.log_peak), LEAST) for one in part]
            log_common += uses * math.log(sizes[0])
            log_quotient += uses * math.log1p(math.fsum(sizes[1:]) / sizes[0])
        if split and log_quotient < 1.0:
            return math.exp(min(log_common, 700.0)) * math.expm1(log_quotient)
        return math.exp(log_common + log_quotient) if log_common + log_quotient < 700.0 else math.inf

    rest, t, bound = 0.0, start, size(start)
    while bound / t > 0.1 * goal and rest <= goal and t < 1e6 * start:
        rest += bound * (1.0 / t - 1.0 / (STRIDE * t))
        t *= STRIDE
        bound = min(bound, size(t))
    return rest + bound / t
