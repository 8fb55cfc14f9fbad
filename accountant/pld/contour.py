r"""Gaussians and Poisson samples of Gaussians by Fourier inversion: no grid of losses, whatever the number of uses.

With M(s) = E_P e^{sL} of the whole composition and any θ > 0 (1/(s(s+1)) is the two-sided Laplace transform of
(1 − e^{−l})₊, so M(s)/(s(s+1)) is that of δ),

    δ(ε) = (1/2π) ∫ M(s) e^{−sε} / (s(s+1)) dt,   s = θ + it;

θ is the saddle point of the target. Every error is charged:

- *the sum over t* of step τ = 2π/W is Σ_n e^{θnW} δ(ε + nW) exactly (Poisson summation). Its surplus is positive:
  from n < 0 at most 1/(e^{θW} − 1), from n > 0 a geometric series by Chernoff's bound at another tilt;
- *the sum over x* in M(s), relative to M(θ): ``gaussian_pair``;
- *|t| beyond R*: on a line x + iy of the sign for which arg r_p >= arg r_q, |M| is at most the integral of the
  integrand's size, which falls in t; it is a trapezoid sum again (``Pair.lifted``);
- *rounding*, term by term, times the number of uses.

The verifier has its own contour integral, with other quadratures; the lattice (``engine``) is a third way to the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from affidavit.accountant.pld.gaussian import Gaussian
from affidavit.accountant.pld.gaussian_pair import UNIT, ComplexArray, Moments, Pair, TooFineError
from affidavit.accountant.pld.grid import CurveParts

__all__ = ["Contour", "chernoff", "contour"]

ACCURACY = 1e-9
"""Of δ, relative: what the two sums over t may miss."""
LEAST_LOG = -700.0
"""ln of the smallest δ that this is asked for: float64 has no digits far below."""
WORK = 4e7
"""Multiplications that one composition may take, some tens of milliseconds; the lattice has what decays more slowly."""
STRIDE = 1.3
FIRST_TERMS = 32
LN_TILTS = (math.log(1e-4), math.log(1e5))
CLOSE = 0.05
"""How well ln θ is searched."""
OTHER_TILTS = (1.03, 1.1, 1.25, 1.6, 2.5)
STEEPEST = 5e3
"""θε beyond which ε is settled long before δ is."""
FURTHEST = 1e12
NEAR = 1e-14
"""First step outwards from a root, relative."""


@dataclass(frozen=True, slots=True)
class Whole:
    """The composition at one tilt: samples with their counts, and Gaussians whose μ² add up to ``precision``."""

    tilt: float
    parts: tuple[tuple[Pair, int, Moments], ...]
    precision: float

    @classmethod
    def at(cls, tilt: float, pairs: tuple[tuple[Pair, int], ...], precision: float) -> Whole:
        """With its moments."""
        parts = tuple((pair, count, pair.tilted(tilt, 0.0).moments()) for pair, count in pairs)
        return cls(tilt, parts, precision)

    @property
    def log_peak(self) -> float:
        """ln M(θ)."""
        gaussian = 0.5 * self.precision * (self.tilt**2 + self.tilt)
        return math.fsum(count * one.log_peak for _, count, one in self.parts) + gaussian

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


@dataclass(frozen=True, slots=True)
class Contour:
    """The terms of the sum over t; a phase a term and one sum give δ at any ε."""

    tilt: float
    step: float
    terms: ComplexArray  # M(s)/(s(s+1)) / e^{log_scale}
    log_scale: float
    error: float  # of the terms' sum, and of what was left out of it
    beyond: tuple[float, float]  # the other tilt, and ln of Chernoff's constant there

    def delta(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) δ at ``epsilon`` >= 0."""
        phase = self.step * epsilon * np.arange(len(self.terms))
        turned = (self.terms * np.exp(-1j * phase)).real
        log_factor = self.log_scale - self.tilt * epsilon
        if log_factor > 700.0:
            return 0.0, 1.0
        factor = self.step / math.pi * math.exp(log_factor)
        value = factor * (float(turned.sum()) - 0.5 * float(turned[0]))
        size = np.abs(self.terms)
        exponents = abs(self.log_scale) + self.tilt * epsilon
        error = self.error + UNIT * float(size @ (16.0 + len(size) + 4.0 * exponents + 4.0 * phase))
        period = 2.0 * math.pi / self.step
        other, log_constant = self.beyond
        gap = (other - self.tilt) * period
        surplus = math.exp(min(log_constant - other * epsilon - gap, 700.0)) / -math.expm1(-gap)
        surplus += 1.0 / math.expm1(min(self.tilt * period, 708.0))
        return max(0.0, value - factor * error - surplus * 1.001), min(1.0, value + factor * error)

    def epsilon(self, delta: float) -> tuple[float, float]:
        """(lower, upper) ε >= 0 at ``delta``; the lower one is sought near the upper one."""
        above = self._upper(delta)
        below, step = above, NEAR * above
        while below > 0.0 and self.delta(below)[0] <= delta:
            below, step = below - step, 2.0 * step
        return max(0.0, below), above

    def _upper(self, delta: float) -> float:
        from scipy.optimize import brentq

        def excess(epsilon: float) -> float:
            return math.log(max(self.delta(epsilon)[1], 1e-323) / delta)

        if excess(0.0) <= 0.0:
            return 0.0
        high = 1.0
        while excess(high) > 0.0:
            high *= 2.0
            if high > FURTHEST:
                return math.inf
        above = float(brentq(excess, 0.0, high, rtol=8.0 * UNIT))
        step = NEAR * above
        while excess(above) > 0.0:
            above, step = above + step, 2.0 * step
        return above


def gaussian_pairs(parts: CurveParts) -> tuple[tuple[tuple[Pair, int], ...], float] | None:
    """Samples of Gaussians with counts, and Σ μ² of the others; None with anything else, or without samples."""
    pairs: list[tuple[Pair, int]] = []
    precision = 0.0
    for curve, count in parts:
        if isinstance(curve, Gaussian):
            precision += count * curve.mu**2
        elif (pair := Pair.of(curve)) is None:
            return None
        else:
            pairs.append((pair, count))
    return (tuple(pairs), precision) if pairs else None


def chernoff(parts: CurveParts, *, delta: float) -> float:
    """An upper side of ε from Chernoff's bound alone, inf where ``contour`` does not apply; cheap."""
    found = gaussian_pairs(parts)
    if found is None or not delta > 0.0:
        return math.inf
    try:
        whole = _aimed(*found, delta, None)
    except TooFineError:
        return math.inf
    rounding = (count * pair.tilted(whole.tilt, 0.0).rounding(one.log_peak)[0] for pair, count, one in whole.parts)
    return max(0.0, (whole.log_chernoff - math.log(delta) + math.fsum(rounding)) / whole.tilt * (1.0 + 1e-12))


def contour(parts: CurveParts, *, delta: float | None, epsilon: float | None) -> Contour | None:
    """The sum for ``parts`` near ``delta`` or ``epsilon``; None where it does not apply or would take too long."""
    found = gaussian_pairs(parts)
    try:
        return None if found is None else _contour(*found, delta, epsilon)
    except TooFineError:
        return None


def _contour(
    pairs: tuple[tuple[Pair, int], ...], precision: float, delta: float | None, epsilon: float | None
) -> Contour | None:
    whole = _aimed(pairs, precision, delta, epsilon)
    target = max(whole.epsilon if epsilon is None else epsilon, 0.0)
    log_goal = min(whole.log_delta(target), 0.0 if delta is None else math.log(delta)) + math.log(ACCURACY)
    if log_goal - math.log(ACCURACY) < LEAST_LOG:
        return None
    log_goal = max(log_goal, LEAST_LOG)
    # Chernoff's bound at another tilt puts the period where the images above are negligible.
    others = [Whole.at(factor * whole.tilt, pairs, precision) for factor in OTHER_TILTS]
    periods = [(one.log_chernoff - one.tilt * target - log_goal) / (one.tilt - whole.tilt) for one in others]
    period, other = min(zip(periods, others, strict=True), key=lambda found: found[0])
    period = max(period, (1.0 - log_goal) / whole.tilt)
    return _summed(whole, 2.0 * math.pi / period, target, log_goal, (other.tilt, other.log_chernoff))


def _aimed(pairs: tuple[tuple[Pair, int], ...], precision: float, delta: float | None, epsilon: float | None) -> Whole:
    """At the tilt whose saddle point is ``epsilon``, or the ε >= 0 at which δ is guessed to be ``delta``."""

    def beyond(whole: Whole) -> bool:
        if whole.tilt * whole.epsilon > STEEPEST:
            return True
        if epsilon is not None:
            return whole.epsilon > epsilon
        return whole.epsilon > 0.0 and whole.log_delta(whole.epsilon) < math.log(delta or 0.0)

    low, high = LN_TILTS
    while True:
        middle = Whole.at(math.exp(0.5 * (low + high)), pairs, precision)
        if high - low < CLOSE:
            return middle
        low, high = (low, math.log(middle.tilt)) if beyond(middle) else (math.log(middle.tilt), high)


def _summed(whole: Whole, step: float, target: float, log_goal: float, beyond: tuple[float, float]) -> Contour | None:
    """Terms until what is left is below e^``log_goal`` of δ."""
    # What is left of ∫ |terms| dt may be this, in units of e^{log M(θ)}.
    goal = math.exp(min(log_goal + math.log(math.pi) + whole.tilt * target - whole.log_peak, 700.0))
    found: list[ComplexArray] = []
    error, work, first, count = 0.0, 0.0, 0, FIRST_TERMS
    while True:
        t = step * np.arange(first, first + count)
        exponent = whole.precision * (-0.5 * t * t + 1j * t * (whole.tilt + 0.5))
        sums = 8.0 + 2.0 * len(whole.parts)  # each part's logarithm is in all later partial sums
        rounding = sums * UNIT * (whole.precision * t * (t + whole.tilt + 0.5) + 16.0)
        for pair, uses, moments in whole.parts:
            tilted = pair.tilted(whole.tilt, float(t[-1]))
            work += count * len(tilted.x)
            if work > WORK:
                return None
            of_one = tilted.transform(float(t[0]), step, count, moments.log_peak)
            size = np.maximum(np.abs(of_one), 1e-300)
            logs = np.log(np.where(of_one == 0.0, 1e-300, of_one))
            constant, linear = tilted.rounding(moments.log_peak)
            exponent = exponent + uses * logs
            relative = np.log1p((constant + linear * t) / size)  # |(m + e)^n − m^n| <= (|m| + |e|)^n − |m|^n
            rounding = rounding + uses * (relative + sums * UNIT * (1.0 + np.abs(logs)))
        s = whole.tilt + 1j * t
        terms: ComplexArray = np.exp(exponent) / (s * (s + 1.0))
        error += float(np.abs(terms) @ np.expm1(np.minimum(rounding, 700.0)))
        found.append(terms)
        first += count
        if float(np.abs(terms[-count // 4 :]).max()) * float(t[-1]) <= goal:
            rest = _rest(whole, float(t[-1]), goal)
            if rest <= goal:
                break
        count = min(2 * count, 1024)
    return Contour(whole.tilt, step, np.concatenate(found), whole.log_peak, error + rest / step, beyond)


def _rest(whole: Whole, start: float, goal: float) -> float:
    """Bound of step Σ |terms| beyond t = ``start``; |s(s+1)| >= t²."""
    nodes = [(pair.lifted(whole.tilt), uses, moments.log_peak) for pair, uses, moments in whole.parts]

    def size(t: float) -> float:
        logs = (uses * math.log(max(one.beyond(t, log_peak), 1e-300)) for one, uses, log_peak in nodes)
        return math.exp(math.fsum(logs) - 0.5 * whole.precision * t * t)

    rest, t, bound = 0.0, start, size(start)
    while bound / t > 0.1 * goal and rest <= goal and t < 1e6 * start:
        rest += bound * (1.0 / t - 1.0 / (STRIDE * t))
        t *= STRIDE
        bound = min(bound, size(t))
    return rest + bound / t
