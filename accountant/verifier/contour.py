"""Composition of smooth losses by one contour integral, with every error charged.

Let M(s) = E_P e^{sL} for the whole composition (a product over its parts). For every θ > 0

    δ(ε) = (1/2πi) ∫ over Re s = θ of  M(s) e^{−sε} / (s (s+1)) ds,

because 1/(s(s+1)) is the two-sided Laplace transform of (1 − e^{−l})₊. θ is put at the saddle point,
so errors are relative to this tail, whatever δ. The integral is a trapezoid sum of step τ = 2π/W:

- aliasing. The sum equals Σ_n e^{θnW} δ(ε + nW) exactly (Poisson summation): its surplus over δ(ε) is
  positive and at most 1/(e^{θW} − 1) from n < 0 (δ <= 1) and, from n > 0, a geometric series by Chernoff's
  bound δ(ε) <= c(θ₂) M(θ₂) e^{−θ₂ε}, c(θ) = θ^θ/(1+θ)^{1+θ}, at a second tilt θ₂ > θ;
- truncation at R. |M(s)| beyond R is bounded by moving the noise integral into the complex plane, which gives a
  bound that decreases in t, and by integration by parts, |M| <= atom + V/|t|;
- quadrature: see ``smooth``; rounding: relative to every term, times the number of uses.

The event that every part falls on its atom at 0 does not decay in t; it is taken out (it costs nothing at ε >= 0).
No grid of losses, no FFT and no convolution is involved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from affidavit.accountant.verifier.balls import ComplexArray
from affidavit.accountant.verifier.bracket import Bracket
from affidavit.accountant.verifier.loss_integral import Integral
from affidavit.accountant.verifier.rounding import UNIT
from affidavit.accountant.verifier.smooth import Panels, SmoothLaw, TooFineError

__all__ = ["TailProfile", "contour_profile"]

_RUN = 64
_STRIDE = 1.4
_WORK_LIMIT = 4e7
"""Evaluations of a loss: about a second. What needs more decays too slowly for this formula."""
_SMALLEST_TILT, _LARGEST_TILT = 1e-4, 1e5
_FAR_BELOW = 20.0
_STEEPEST = 5e3
_LOG_SMALLEST = -690.0


@dataclass(frozen=True, slots=True)
class TailProfile:
    """Chernoff's bound at one tilt; its lower side is 0."""

    tilt: float
    log_chernoff: float  # rounded up

    def delta(self, epsilon: float) -> Bracket:
        shift = self.tilt * epsilon
        log_bound = self.log_chernoff - shift + 4.0 * UNIT * (abs(self.log_chernoff) + shift)
        return Bracket(0.0, min(1.0, math.exp(min(log_bound, 0.0)) * (1.0 + 1e-9)))


@dataclass(frozen=True, slots=True)
class _Part:
    """One smooth law at one tilt."""

    law: SmoothLaw
    uses: int
    log_peak: float  # log M(θ)
    atom: float  # relative to M(θ)
    mean: float  # tilted mean of L
    variance: float


def _part(law: SmoothLaw, uses: int, tilt: float) -> _Part:
    panels = [piece.panels(tilt, 0.0) for piece in law.pieces]
    top = max(float(p.log_weight.max()) for p in panels)
    weights = [np.exp(p.log_weight - top) for p in panels]
    atom = law.atom * math.exp(-top)
    total = math.fsum([float(w.sum()) for w in weights] + [atom])
    mean = math.fsum(float(w @ p.loss) for w, p in zip(weights, panels, strict=True)) / total
    spread = math.fsum(float(w @ (p.loss - mean) ** 2) for w, p in zip(weights, panels, strict=True)) + atom * mean**2
    return _Part(law, uses, top + math.log(total), atom / total, mean, spread / total)


def _rounding(part: _Part, tilt: float) -> tuple[float, float]:
    """Errors of M(θ + it)/M(θ), in units of 2⁻⁵¹: a constant, and by how much it grows with |s|."""
    at_once = by_loss = 0.0
    for piece in part.law.pieces:
        panels = piece.panels(tilt, 0.0)
        weights = np.exp(panels.log_weight - part.log_peak)
        of_weights, of_losses = piece.rounding(panels)
        at_once += float(weights @ of_weights)
        by_loss += float(weights @ of_losses)
    return 16.0 + _RUN + abs(part.log_peak) + at_once, by_loss


def _transform(part: _Part, tilt: float, first: int, stop: int, step: float) -> ComplexArray:
    """M(θ + ikτ)/M(θ) for k = ``first`` … ``stop`` − 1, τ = ``step``.

    e^{iktL} is multiplied up from k to k + 1 and computed afresh every ``_RUN`` steps.
    """
    result = np.empty(stop - first, dtype=complex)
    k = first
    while k < stop:
        # Panels must serve the highest frequency of a run; finer ones are made as it grows.
        end = min(stop, max(2 * k, k + _RUN))
        block = np.full(end - k, part.atom, dtype=complex)
        for piece in part.law.pieces:
            panels = piece.panels(tilt, step * end)
            weights = np.exp(panels.log_weight - part.log_peak)
            turn = np.exp(1j * step * panels.loss)
            for row in range(end - k):
                if row % _RUN == 0:
                    phase = weights * np.exp(1j * (step * (k + row)) * panels.loss)
                else:
                    phase *= turn
                block[row] += phase.sum()
        result[k - first : end - first] = block
        k = end
    return result


@dataclass(frozen=True, slots=True)
class _Whole:
    """The composition at one tilt: smooth parts and Gaussians."""

    parts: tuple[_Part, ...]
    precision: float
    tilt: float
    log_peak: float
    mean: float
    variance: float

    @staticmethod
    def of(laws: Sequence[tuple[SmoothLaw, int]], precision: float, tilt: float) -> _Whole:
        parts = tuple(_part(law, uses, tilt) for law, uses in laws)
        log_peak = math.fsum(p.uses * p.log_peak for p in parts) + 0.5 * precision * (tilt**2 + tilt)
        mean = math.fsum(p.uses * p.mean for p in parts) + precision * (tilt + 0.5)
        variance = math.fsum(p.uses * p.variance for p in parts) + precision
        return _Whole(parts, precision, tilt, log_peak, mean, variance)

    @property
    def log_chernoff(self) -> float:
        """log of c(θ) M(θ), rounded up: δ(ε) <= c(θ) M(θ) e^{−θε}."""
        shape = self.tilt * math.log(self.tilt) - (1.0 + self.tilt) * math.log1p(self.tilt)
        sizes = math.fsum(p.uses * abs(p.log_peak) for p in self.parts) + 2.0 * self.precision * self.tilt
        sizes += self.precision * self.tilt**2 + (1.0 + self.tilt) * (1.0 + abs(math.log(self.tilt)))
        rounding = 4.0 * UNIT * sizes
        for part in self.parts:
            at_once, by_loss = _rounding(part, self.tilt)
            rounding += part.uses * 4.0 * UNIT * (at_once + self.tilt * by_loss)
        return self.log_peak + shape + rounding

    @property
    def saddle(self) -> float:
        """The ε whose saddle point is this tilt (the poles at 0 and −1 included)."""
        return self.mean - 1.0 / self.tilt - 1.0 / (1.0 + self.tilt)

    @property
    def log_delta(self) -> float:
        """Saddle-point estimate of log δ there."""
        curvature = self.variance + 1.0 / self.tilt**2 + 1.0 / (1.0 + self.tilt) ** 2
        size = math.log(self.tilt) + math.log1p(self.tilt) + 0.5 * math.log(2.0 * math.pi * curvature)
        return self.log_peak - self.tilt * self.saddle - size


def contour_profile(
    laws: Sequence[tuple[SmoothLaw, int]],
    *,
    precision: float,
    delta: float,
    epsilon: float | None,
    accuracy: float = 1e-7,
) -> Integral | TailProfile | None:
    """The profile of ``laws`` = (law, uses), and Gaussians of Σ 1/σ² = ``precision``.

    Sharp near ``epsilon`` if given, else near the ε of ``delta``, to a relative ``accuracy`` of ε. Where
    Chernoff's bound already puts δ at ``epsilon`` far below ``delta``, that bound is the profile. None where the
    transform decays so slowly that the sum would be too long.
    """

    def at(tilt: float) -> _Whole:
        return _Whole.of(laws, precision, tilt)

    try:
        tilt = _aimed_tilt(at, delta, epsilon)
        whole = at(tilt)
        if epsilon is not None and whole.log_chernoff - tilt * epsilon < math.log(delta) - _FAR_BELOW:
            return TailProfile(tilt, whole.log_chernoff)
        target = max(whole.saddle if epsilon is None else epsilon, 0.0)
        log_size = whole.log_peak - tilt * target - math.log(tilt) - math.log1p(tilt)
        # A relative error r of δ moves ε by r/θ.
        accuracy = min(max(accuracy * tilt * target, 1e-3 * accuracy), 0.01)
        log_goal = max(min(whole.log_delta, log_size, math.log(delta)) + math.log(accuracy), _LOG_SMALLEST)
        second, period = _second_tilt(at, tilt, target, log_goal)
        return _summed(whole, second, 2.0 * math.pi / period, target, log_goal)
    except TooFineError:
        return None


def _aimed_tilt(at: Callable[[float], _Whole], delta: float, epsilon: float | None) -> float:
    """The tilt whose saddle point is ``epsilon``, or whose estimate of δ is ``delta`` (ε >= 0)."""

    def beyond(whole: _Whole) -> bool:
        if whole.tilt * whole.saddle > _STEEPEST:  # ε is settled long before δ is
            return True
        if epsilon is not None:
            return whole.saddle > epsilon
        return whole.log_delta < math.log(delta) and whole.saddle > 0.0

    low, high = math.log(_SMALLEST_TILT), math.log(_LARGEST_TILT)
    while high - low > 1e-3:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if beyond(at(math.exp(middle))) else (middle, high)
    return math.exp(0.5 * (low + high))


def _second_tilt(at: Callable[[float], _Whole], tilt: float, target: float, log_goal: float) -> tuple[_Whole, float]:
    found: list[tuple[float, _Whole]] = []
    for factor in (1.03, 1.07, 1.15, 1.3, 1.6, 2.0, 3.0, 5.0):
        other = at(tilt * factor)
        found.append(((other.log_peak - other.tilt * target - log_goal) / (other.tilt - tilt), other))
    needed, best = min(found, key=lambda item: item[0])
    return best, max(needed, (-log_goal + 1.0) / tilt, 1e-6)


def _summed(whole: _Whole, second: _Whole, step: float, target: float, log_goal: float) -> Integral | None:
    tilt = whole.tilt
    # Allowed rest of ∫ |f| dt, in units of M(θ): goal · π · e^{θε} / M(θ).
    goal = math.exp(min(log_goal + math.log(math.pi) + tilt * target - whole.log_peak, 700.0))
    joint_atom = 0.0
    if whole.precision == 0.0 and all(p.atom > 0.0 for p in whole.parts):
        joint_atom = math.exp(math.fsum(p.uses * math.log(p.atom) for p in whole.parts))
    roundings = [_rounding(part, tilt) for part in whole.parts]
    values: list[ComplexArray] = []
    errors = 0.0
    block, k, tail, work = 8, 0, math.inf, 0.0
    while True:
        for piece in (piece for part in whole.parts for piece in part.law.pieces):
            finer = piece.half_width(tilt, 0.0) / piece.half_width(tilt, step * (k + block))
            work += block * int(len(piece.panels(tilt, 0.0).x) * finer)
        if work > _WORK_LIMIT:
            return None
        index = np.arange(k, k + block)
        t = step * index
        product = np.exp(whole.precision * (0.5 * (1j * t) ** 2 + 1j * t * (tilt + 0.5)))
        # |(m + e)^n − m^n| <= (|m| + |e|)^n − |m|^n, also where m is less than its rounding errors.
        log_size = -0.5 * whole.precision * t * t
        growth = 4.0 * UNIT * whole.precision * t * (t + tilt + 1.0)
        for part, (at_once, by_loss) in zip(whole.parts, roundings, strict=True):
            m = _transform(part, tilt, k, k + block, step)
            size = np.maximum(np.abs(m), 1e-300)
            product = product * np.exp(part.uses * np.log(np.where(m == 0.0, 1e-300, m)))
            rounding = 4.0 * UNIT * (at_once + (t + tilt) * by_loss)
            log_size += part.uses * np.log(size)
            growth += part.uses * np.log1p(rounding / size)
        small = np.exp(log_size) * np.expm1(np.minimum(growth, 1.0))
        error = np.where(growth < 1.0, small, np.exp(np.minimum(log_size + growth, 700.0)))
        s: ComplexArray = np.asarray(tilt + 1j * t, dtype=np.complex128)
        shape = 1.0 / (s * (s + 1.0))
        errors += float(np.sum(np.abs(shape) * error))
        values.append((product - joint_atom) * shape)
        k += block
        last = float(np.abs(product[-block // 4 :] - joint_atom).max())
        if last / (step * k) <= goal:
            tail = _rest(whole, joint_atom, step * (k - 1), goal)
            if tail <= goal:
                break
        block = min(2 * block, 2048)
    return Integral(
        tilt,
        step,
        np.concatenate(values),
        whole.log_peak,
        tail / step + errors,
        (second.tilt, second.log_chernoff),
        0.0,
    )


def _rest(whole: _Whole, joint_atom: float, start: float, goal: float) -> float:
    """Bound of τ Σ over kτ > ``start`` of |f(θ + ikτ)|, in units of M(θ)."""
    parts: list[tuple[_Part, list[Panels], float]] = []
    for part in whole.parts:
        panels = [piece.panels(whole.tilt, 0.0) for piece in part.law.pieces]
        pairs = zip(part.law.pieces, panels, strict=True)
        parts.append((part, panels, math.fsum(piece.variation(p, part.log_peak) for piece, p in pairs)))

    def beyond(t: float) -> float:
        """Bound of |M(θ+iu) − joint atom|/M(θ) for all u >= t, decreasing in t."""
        log_bound = -0.5 * whole.precision * t * t
        for part, panels, variation in parts:
            moved = min(variation / t, part.law.decay(panels, part.log_peak, whole.tilt, t))
            log_bound += part.uses * math.log(min(1.0, max(part.atom + moved, 1e-300)))
        return max(0.0, math.exp(log_bound) - joint_atom * (1.0 - 1e-9))

    rest, t = 0.0, start
    bound = beyond(t)
    while bound / t > 0.1 * goal and rest <= goal and t < 1e6 * start:
        rest += bound * (1.0 / t - 1.0 / (_STRIDE * t))
        t *= _STRIDE
        bound = min(bound, beyond(t))
    return rest + bound / t
