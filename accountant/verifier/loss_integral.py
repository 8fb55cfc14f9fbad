r"""The contour integral of what is not big, by its trapezoid sum (``contour``), of rare samples (``rare_samples``).

Of windows' parts (M_c, M_m for each use) the measure is Π(M_c + M_m) − ΠM_c where there is a middle: not all uses are
common. Else it is ΠM_c: all that is not big. Both are positive. What the sum misses:

- *images*: those of ``contour``, by Chernoff's bound at another tilt and by the whole mass;
- *the tail* beyond t: at most Π(A + B(t)) − ΠA over t², A a bound of M_c(θ) and B(t) of |M_m| beyond t (coefficients of
  both are >= 0), or ΠB(t), B(t) <= A of |M_c|;
- *transforms*: an error e of one moves a term by at most e times the gradient of Π(|a| + |n|) − Π|a|, or of Π|a|, taken
  at sizes that include the errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from affidavit.accountant.verifier.balls import Array, ComplexArray
from affidavit.accountant.verifier.bracket import Bracket
from affidavit.accountant.verifier.loss_cells import Kind, Panels
from affidavit.accountant.verifier.rounding import UNIT

__all__ = ["Integral", "Lifted", "Outline", "Part", "Transforms", "log_c", "turned"]

LEAST_LOG = -690.0
MOST_TERMS, MOST_WORK = 60_000, 1.2e9
STRIDE, FINE, FINER = 2.0, 1.05, 30
DROPPED = 1e-25
"""Of all nodes' weight: what a node adds that is left out (it is charged)."""


class Transforms(NamedTuple):
    """At θ + ikτ: of common and middle, less the common's mass; ``common_error`` + t ``common_slope`` …"""

    common_mass: float
    common: ComplexArray
    middle: ComplexArray
    common_error: float
    common_slope: float
    middle_error: float
    middle_slope: float


@dataclass(frozen=True, slots=True)
class Lifted:
    """|transform at θ + iu| for every u >= t, from cells on lifted paths."""

    log_size: Array  # one row a lift
    argument: Array
    floor: Array

    def bound(self, t: float) -> float:
        sizes = np.exp(self.log_size - t * self.argument).sum(axis=1) + self.floor
        return float(sizes.min()) * (1.0 + 1e-9)


class Part(Protocol):
    """What is not big of one kind's losses: ``loss_windows.Windowed``, or ``added_samples.Added``."""

    @property
    def kind(self) -> Kind: ...
    @property
    def is_whole(self) -> bool: ...
    def common_bound(self, thetas: Array) -> Array: ...
    def middle_bound(self, thetas: Array) -> Array: ...
    def lifted(self, theta: float) -> Lifted: ...
    def panels(self, frequency: float) -> Panels: ...
    def transforms(self, theta: float, step: float, count: int) -> Transforms: ...


def log_c(theta: Array) -> Array:
    """log of θ^θ/(1+θ)^{1+θ}, the largest (1 − e^{−l})₊ e^{−θl}."""
    result: Array = -theta * np.log1p(1.0 / theta) - np.log1p(theta)
    return result


@dataclass(frozen=True, slots=True)
class Integral:
    """Terms f(θ + ikτ) of the sum over t, divided by e^{``log_scale``}: δ at any ε near the aim."""

    tilt: float
    step: float
    terms: ComplexArray
    log_scale: float
    error: float  # of the terms' sum and of what follows them
    second: tuple[float, float]  # another tilt, and log of Chernoff's constant there
    log_mass: float

    def delta(self, epsilon: float, size: float = 0.0) -> Bracket:
        """(lower, upper) at c = ``epsilon``, which may be a sum of numbers up to ``size``; all errors are charged."""
        log_factor = self.log_scale - self.tilt * epsilon
        if log_factor > 600.0:  # far below the aim the images are all there is, and beyond float64
            return Bracket(0.0, 1.0)
        size += abs(epsilon)
        phase = self.step * epsilon * np.arange(len(self.terms))
        real = (self.terms * np.exp(-1j * phase)).real
        real[0] *= 0.5
        factor = self.step / math.pi * math.exp(log_factor)
        value = factor * math.fsum(real.tolist())
        rounded = 16.0 + 8.0 * (self.step * size * np.arange(len(phase)) + abs(self.log_scale) + self.tilt * size)
        error = factor * (self.error + UNIT * float(np.abs(self.terms) @ rounded))
        period = 2.0 * math.pi / self.step
        other, constant = self.second
        gap = (other - self.tilt) * period
        log_images = constant - other * epsilon - gap
        images = math.exp(log_images) / -math.expm1(-gap) if log_images < 700.0 else math.inf
        images += math.exp(self.log_mass) / math.expm1(min(self.tilt * period, 700.0))
        return Bracket(max(0.0, value - error - images * (1.0 + 1e-9)), min(1.0, max(0.0, value + error)))


def _log_measure(parts: Sequence[Part], tilts: Array) -> Array:
    """log of at least the measure's moments."""
    common, gain = np.zeros_like(tilts), np.zeros_like(tilts)
    for part in parts:
        each = part.common_bound(tilts)
        common += part.kind.uses * each
        if not part.is_whole:
            gain += part.kind.uses * np.logaddexp(0.0, part.middle_bound(tilts) - each)
    if parts[0].is_whole:
        return common + 1e-12
    result: Array = common + np.where(gain > 30.0, gain, np.log(np.expm1(np.minimum(gain, 30.0)))) + 1e-12
    return result


@dataclass(frozen=True, slots=True)
class Outline:
    """Where the sum is taken and how far: ``count`` terms at ``tilt`` + ik ``step``."""

    parts: Sequence[Part]
    tilt: float
    step: float
    count: int
    log_rest: float  # of the tail's integral
    log_mass: float
    second: tuple[float, float]

    @staticmethod
    def of(parts: Sequence[Part], shift: float, tilts: Array, log_goal: float) -> Outline | None:
        """So that each charge is about e^{``log_goal``} at c = ``shift``; None where that takes too many terms."""
        log_moment = _log_measure(parts, tilts)
        chernoff = log_moment + log_c(tilts) - tilts * shift
        if not np.isfinite(chernoff[0]):
            return None
        best = int(np.nanargmin(chernoff))
        # Beyond the best tilt the largest losses may take over at once.
        fine = np.geomspace(tilts[max(best - 1, 0)], tilts[min(best + 1, len(tilts) - 1)], FINER)[1:-1]
        tilts = np.concatenate((tilts[:1], fine, tilts[best + 1 :]))
        log_moment = np.concatenate((log_moment[:1], _log_measure(parts, fine), log_moment[best + 1 :]))
        chernoff = log_moment + log_c(tilts) - tilts * shift
        best = int(np.nanargmin(chernoff))
        tilt = float(tilts[best])
        above = [i for i in range(best + 1, len(tilts)) if math.isfinite(chernoff[i])]
        if not above:
            return None
        periods = [(float(chernoff[i]) - log_goal) / (float(tilts[i]) - tilt) for i in above]
        second = above[int(np.argmin(periods))]
        log_mass = 0.0 if parts[0].is_whole else min(0.0, max(float(log_moment[0]), -700.0))
        period = max(min(periods), (log_mass - log_goal) / tilt, 1e-3 * abs(shift))
        step = 2.0 * math.pi / period
        log_rest = _log_rest(parts, tilt)
        log_room, start = log_goal + math.log(math.pi) + tilt * shift, max(tilt, step)
        end = _end(log_rest, log_room, start=start, most=MOST_TERMS * step) if log_rest else None
        if log_rest is None or end is None:
            return None
        other = float(tilts[second]), float(chernoff[second] + tilts[second] * shift)
        return Outline(parts, tilt, step, math.ceil(end / step) + 2, log_rest(end), log_mass, other)

    @property
    def work(self) -> float:
        """Nodes times terms."""
        return sum(len(part.panels(self.step * self.count)[0]) for part in self.parts) * 64.0 * self.count

    def summed(self) -> Integral | None:
        """The terms and what they miss; None if it takes too long, or leaves float64."""
        parts, tilt, step, count = self.parts, self.tilt, self.step, self.count
        if self.work > MOST_WORK:
            return None
        t = step * np.arange(count)
        log_common = np.zeros(count, dtype=np.complex128)
        log_gain = np.zeros(count, dtype=np.complex128)
        log_small, growth, rounded = np.zeros(count), np.zeros(count), np.zeros(count)
        of_parts: list[tuple[int, Array, Array, Array, Array]] = []
        for part in parts:
            n, nodes = part.kind.uses, part.transforms(tilt, step, count)
            off = nodes.common + nodes.common_mass
            common, middle = 1.0 + off, nodes.middle
            ratio = middle / common
            first, gain = _log1p(off), _log1p(ratio)
            log_common += n * first
            log_gain += n * gain
            size, other = np.abs(common), np.abs(middle)
            e_common = nodes.common_error + nodes.common_slope * t + 32.0 * UNIT * np.abs(off) / np.minimum(size, 1.0)
            e_middle = nodes.middle_error + nodes.middle_slope * t + 64.0 * UNIT * other * (1.0 + 1.0 / size)
            size, other = size + e_common, other + e_middle
            log_small += n * np.log(size)
            growth += n * np.log1p(other / size)
            rounded += n * (np.abs(first) + np.abs(gain))
            of_parts.append((n, size, other, e_common, e_middle))
        log_large = log_small + growth
        scale = float(log_large[0])
        s = tilt + 1j * t
        pole = s * (s + 1.0)
        base = np.exp(log_common - scale)
        whole, small = np.exp(log_large - scale), np.exp(log_small - scale)
        if parts[0].is_whole:
            measure = base
            error = 16.0 * UNIT * (2.0 + rounded) * np.abs(measure)
        else:  # Where Π(1 + n/a) is large, its difference from 1 is taken of the products.
            big = log_gain.real > 1.0
            products = np.exp(log_common + log_gain - scale) - base
            measure = np.where(big, products, base * np.expm1(np.where(big, 0.0, log_gain)))
            error = 16.0 * UNIT * ((2.0 + rounded) * (np.abs(measure) + np.where(big, whole, 0.0)))
            error += 16.0 * UNIT * np.abs(log_gain) * np.abs(base) * np.exp(log_gain.real)
        for n, size, other, e_common, e_middle in of_parts:
            error += n * e_middle * whole / (size + other)
            inner = np.maximum(growth - np.log1p(other / size), 0.0) + 16.0 * UNIT * len(parts) * growth
            more = np.where(inner < 1.0, small * np.expm1(np.minimum(inner, 1.0)), whole * size / (size + other))
            more = whole if parts[0].is_whole else more
            error += n * e_common * more / size * (1.0 + 1e-12)
        missed = float((error / np.abs(pole)).sum()) * (1.0 + 1e-6)
        if not (math.isfinite(missed) and np.isfinite(measure).all() and self.log_rest - scale < 600.0):
            return None  # some e^{θl} is beyond float64
        terms: ComplexArray = np.asarray(measure / pole, dtype=np.complex128)
        missed += math.exp(self.log_rest - scale) / step
        return Integral(tilt, step, terms, scale, missed, self.second, self.log_mass)


def _log_rest(parts: Sequence[Part], tilt: float) -> Callable[[float], float] | None:
    """log of a bound of what follows t, which falls in t; None where common parts are beyond float64."""
    commons = [float(part.common_bound(np.array([tilt]))[0]) for part in parts]
    if min(commons) < LEAST_LOG:
        return None
    paths = [(part.kind.uses, part.lifted(tilt), common) for part, common in zip(parts, commons, strict=True)]

    def log_rest(t: float) -> float:
        trio = [(uses, path.bound(t), common) for uses, path, common in paths]
        if parts[0].is_whole:
            found = math.fsum(uses * min(common, math.log(max(size, 1e-300))) for uses, size, common in trio)
            return found - math.log(t)
        gain = math.fsum(uses * math.log1p(size * math.exp(-common)) for uses, size, common in trio)
        base = math.fsum(uses * common for uses, _, common in trio)
        log_gain = math.log(math.expm1(gain)) if 0.0 < gain < 30.0 else gain if gain > 0.0 else -1e300
        return base + log_gain - math.log(t)

    return log_rest


def _end(log_rest: Callable[[float], float], log_room: float, *, start: float, most: float) -> float | None:
    """About the first t from where on no more than that is left."""
    end, low = start, start
    while log_rest(end) > log_room:
        low, end = end, STRIDE * end
        if low > most:
            return None
    while end > FINE * low:
        middle = math.sqrt(low * end)
        low, end = (middle, end) if log_rest(middle) > log_room else (low, middle)
    return end if end <= most else None


def turned(weight: Array, loss: Array, step: float, count: int) -> tuple[ComplexArray, Array]:
    """Σ weight (e^{iktl} − 1) at t = ``step``, k < ``count``, and the weights of what was left out."""
    block = math.isqrt(count) + 1
    rows = -(-count // block)
    kept = weight * loss > DROPPED * float(weight @ loss)
    coarse = _turned(np.outer(step * block * np.arange(rows), loss[kept]))
    fine = _turned(np.outer(step * np.arange(block), loss[kept]))
    heavy = weight[kept]
    found = (coarse * heavy) @ fine.T + (coarse @ heavy)[:, None] + (fine @ heavy)[None, :]
    result: ComplexArray = found.ravel()[:count]
    return result, np.where(kept, 0.0, weight)


def _turned(phase: Array) -> ComplexArray:
    """e^{i phase} − 1."""
    half = np.sin(0.5 * phase)
    result: ComplexArray = -2.0 * half * half + 1j * np.sin(phase)
    return result


def _log1p(z: ComplexArray) -> ComplexArray:
    """log(1 + z), its error relative to z where |1 + z| >= 1/2."""
    gain = z.real * (2.0 + z.real) + z.imag * z.imag
    size = np.abs(1.0 + z)
    near = (size > 0.7) & (size < 1.5)
    real = np.where(near, 0.5 * np.log1p(np.where(near, gain, 0.0)), np.log(np.maximum(size, 1e-300)))
    result: ComplexArray = real + 1j * np.arctan2(z.imag, 1.0 + z.real)
    return result
