r"""Laws of losses whose transform is a formula: a few atoms, and Laplace noise (``contour``).

M(s) = E_P e^{sL} is Σ p_i e^{s l_i} of atoms. Laplace noise has atoms ½ at ε and ½ e^{−ε} at −ε and between them the
density ¼ e^{(l−ε)/2} (``laplace``), of transform ½ e^{−ε/2} sinh(zε)/z with z = s + ½ = k + it. There
|sinh(zε)|² = sinh²(kε) + sin²(tε), and

    (S + sin² x)/(K² + x²),    S = sinh² K >= K²,

falls in x = tε up to π: its derivative has the sign of K² sin 2x + x² sin 2x − 2x S − 2x sin² x, where
K² sin 2x <= 2xK² <= 2xS and, while cos x > 0, x cos x <= sin x. So for every |t'| >= t the density's part is at most
the larger of its size at t, if tε < π, and of what cosh(kε)/|z| is at the larger of t and π/ε. Atoms alone never fade:
what bounds M far out is the share that has a density, or Gaussians beside them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from affidavit.accountant.pld.atomic import Atomic
from affidavit.accountant.pld.curve import Array, Curve, Swapped
from affidavit.accountant.pld.gaussian_pair import ComplexArray, Moments
from affidavit.accountant.pld.laplace import Laplace
from affidavit.accountant.pld.subsample import Diluted, Mixed, log_mixed
from affidavit.accountant.rounding import UNIT

__all__ = ["Closed"]

MOST_ATOMS, LARGEST = 64, 1e5
"""Losses beyond the second leave no digits of their exponentials."""
AS_NODES = 128
"""What a formula costs a term, beside nodes of a sum over x."""


@dataclass(frozen=True, slots=True, eq=False)
class Closed:
    """``losses`` with the logarithms of their P-masses, and the density of Laplace noise between ±``laplace``, if any.

    ``errors`` bound what rounding moved the losses by, ``accuracy`` the relative error of the masses; P's mass at +inf
    and Q's at −inf complete the pair.
    """

    losses: Array
    log_masses: Array
    errors: Array
    accuracy: float = 0.0
    laplace: float = 0.0
    infinity: float = 0.0
    bottom: float = 0.0

    divisible = False

    @classmethod
    def of(cls, curve: Curve) -> Closed | None:
        """What ``curve`` is, if it is such a law."""
        if max(-curve.low, curve.high) > LARGEST:
            return None
        match curve:
            case Laplace(epsilon=epsilon):
                losses, log_half = np.array([-epsilon, epsilon]), -math.log(2.0)
                return cls(losses, np.array([log_half - epsilon, log_half]), np.zeros(2), laplace=epsilon)
            case Atomic(polygon=True) if curve.losses.size <= MOST_ATOMS:
                errors = np.zeros_like(curve.losses)
                return cls(
                    curve.losses, curve.log_p, errors, curve.accuracy, infinity=curve.infinity, bottom=curve.bottom
                )
        if not isinstance(curve, (Mixed, Diluted, Swapped)):
            return None
        inner = cls.of(curve.curve)
        if inner is None or (inner.laplace and not isinstance(curve, Swapped)):
            return None
        if isinstance(curve, Swapped):
            return inner.swapped()
        return inner.mixed(curve.rate) if isinstance(curve, Mixed) else inner.diluted(curve.rate)

    def swapped(self) -> Closed:
        """In the other order; Laplace noise is its own."""
        if self.laplace:
            return self
        log_q = self.log_masses - self.losses
        accuracy = self._accuracy() + float(self.errors.max())
        return Closed(-self.losses, log_q, self.errors, accuracy, infinity=self.bottom, bottom=self.infinity)

    def mixed(self, rate: float) -> Closed:
        """(γP + (1−γ)Q, Q)."""
        kept, rest = math.log(rate), math.log1p(-rate)
        losses = log_mixed(self.losses, rate)
        log_masses = np.logaddexp(kept + self.log_masses, rest + self.log_masses - self.losses)
        errors = self.errors + 16.0 * UNIT * (np.abs(self.losses) + np.abs(losses))
        if self.bottom > 0.0:
            losses, errors = np.append(losses, rest), np.append(errors, 4.0 * UNIT * abs(rest))
            log_masses = np.append(log_masses, rest + math.log(self.bottom))
        accuracy = self._accuracy() + float(self.errors.max()) + 8.0 * UNIT * (4.0 - kept - rest)
        return Closed(losses, log_masses, errors, accuracy, infinity=rate * self.infinity)

    def diluted(self, rate: float) -> Closed:
        """Loss 0 but with probability ``rate``."""
        losses, errors = np.append(self.losses, 0.0), np.append(self.errors, 0.0)
        log_masses = np.append(self.log_masses + math.log(rate), math.log1p(-rate))
        accuracy = self._accuracy() - 8.0 * UNIT * math.log(rate)
        return Closed(losses, log_masses, errors, accuracy, infinity=rate * self.infinity, bottom=rate * self.bottom)

    def _accuracy(self) -> float:
        """With one more rounding of the logarithms."""
        sizes = np.abs(self.log_masses) + np.abs(self.losses)
        return self.accuracy + 4.0 * UNIT * (4.0 + float(sizes[self.log_masses > -750.0].max(initial=0.0)))

    def tilted(self, tilt: float, _frequency: float = 0.0) -> ClosedTilt:
        """At Re s = ``tilt``."""
        return ClosedTilt(self, tilt)

    lifted = tilted


@dataclass(frozen=True, slots=True)
class ClosedTilt:
    """M(θ + it) as a function of t."""

    law: Closed
    tilt: float

    size = AS_NODES

    def _density(self) -> tuple[float, float, float]:
        """(ε, k, ln of the density's part of M(θ)): −inf for none."""
        epsilon, k = self.law.laplace, self.tilt + 0.5
        if not epsilon:
            return 0.0, k, -math.inf
        return epsilon, k, self.tilt * epsilon - math.log(4.0 * k) + math.log(-math.expm1(-2.0 * k * epsilon))

    def moments(self) -> Moments:
        """Of one use."""
        logs = self.law.log_masses + self.tilt * self.law.losses
        epsilon, k, log_part = self._density()
        top = max(float(logs.max()), log_part)
        weights, part = np.exp(logs - top), math.exp(log_part - top)
        total = math.fsum([*weights, part])
        mean, variance = 0.0, 0.0
        if epsilon:
            x = k * epsilon
            wide = x > 1e-3
            mean = epsilon / math.tanh(x) - 1.0 / k if wide else x * epsilon / 3.0
            ratio = 2.0 * epsilon * math.exp(-x) / -math.expm1(-2.0 * x) if wide else 0.0
            variance = k**-2 - ratio**2 if wide else epsilon**2 / 3.0
        all_mean = (float(weights @ self.law.losses) + part * mean) / total
        spread = float(weights @ (self.law.losses - all_mean) ** 2) + part * (variance + (mean - all_mean) ** 2)
        return Moments(top + math.log(total), all_mean, spread / total)

    def _weights(self, log_peak: float) -> Array:
        return np.exp(self.law.log_masses + self.tilt * self.law.losses - log_peak)

    def _relative(self, log_peak: float) -> Array:
        """Error of each of the weights."""
        law = self.law
        sizes = np.abs(law.log_masses) + self.tilt * np.abs(law.losses) + abs(log_peak)
        sizes = np.where(law.log_masses > -math.inf, sizes, 0.0)
        return law.accuracy + self.tilt * law.errors + UNIT * (16.0 + len(law.losses) + 8.0 * sizes)

    def rounding(self, log_peak: float) -> tuple[float, float]:
        """(a, b): the formula at frequency t, relative to e^``log_peak``, is wrong by at most a + bt."""
        law, weights = self.law, self._weights(log_peak)
        constant = float(weights @ self._relative(log_peak))
        linear = float(weights @ (law.errors + 8.0 * UNIT * np.abs(law.losses)))
        epsilon, k, _ = self._density()
        if epsilon:
            # Two exponentials over z, which may cancel.
            each = math.exp(self.tilt * epsilon - math.log(4.0 * k) - log_peak) * 2.0
            constant += each * UNIT * (64.0 + 8.0 * (k * epsilon + abs(log_peak) + epsilon))
            linear += each * 8.0 * UNIT * epsilon
        return constant, linear

    def transform(self, first: float, step: float, count: int, log_peak: float) -> ComplexArray:
        """M(θ + it)/e^``log_peak`` at t = ``first``, ``first`` + ``step``, …"""
        t = first + step * np.arange(count, dtype=np.float64)
        found: ComplexArray = np.exp(1j * np.outer(t, self.law.losses)) @ self._weights(log_peak).astype(np.complex128)
        epsilon, k, _ = self._density()
        if epsilon:
            turn = np.exp(1j * epsilon * t)
            size = math.exp(self.tilt * epsilon - math.log(4.0) - log_peak)
            found += size * (turn - math.exp(-2.0 * k * epsilon) * turn.conj()) / (k + 1j * t)
        return found

    def beyond(self, frequency: float, log_peak: float) -> float:
        """Bound of |M(θ + it)|/e^``log_peak`` for every |t| >= ``frequency``."""
        bound = float(self._weights(log_peak) @ (1.0 + self._relative(log_peak)))
        epsilon, k, _ = self._density()
        if epsilon:
            less, more = math.exp(-2.0 * k * epsilon), -math.expm1(-2.0 * k * epsilon)

            def part(x: float, square: float) -> float:
                """2 (S + ``square``)^½ e^{−kε}/|z|."""
                return math.sqrt(more**2 + 4.0 * less * square) / math.hypot(k, x / epsilon)

            x = frequency * epsilon
            largest = part(max(x, math.pi), 1.0)
            if x < math.pi:
                largest = max(largest, part(x, math.sin(x) ** 2))
            size = math.exp(self.tilt * epsilon - math.log(4.0) - log_peak)
            bound += size * largest * (1.0 + UNIT * (64.0 + 8.0 * (k * epsilon + abs(log_peak))))
        return bound * (1.0 + 1e-12)
