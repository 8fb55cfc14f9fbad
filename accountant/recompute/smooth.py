"""Losses with a density: sampled Gaussians, as integrals over the noise.

Every loss here is L(x) = log p(x)/q(x) on a half-line x > ``low``, where p and q are mixtures
(1−c) N(0, σ²) + c N(m, σ²); an atom at 0 may be added. Pairs and curves (γ = m/n or the Poisson rate):

Poisson, add-remove and zero-out. ((1−γ) N(0) + γ N(1), N(0)) when the record is removed, the two
    swapped when it is added (Zhu, Dong and Wang 2022, Theorem 11; each direction composed apart).
Without replacement, add-remove. The same pairs: couple the added record with the one it displaces;
    σ is then for substitution on the sample (Lebeda, Regehr, Kamath and Steinke 2024).
Without replacement, substitution. With h the Gaussian hockey-stick of the sample (THEORY 4; Balle,
    Barthe and Gaboardi 2018, Theorem 2; Zhu, Dong and Wang 2022, Proposition 30),
    H(α) = γ h(1 + (α−1)/γ) for α >= 1, and 1 − α + α H(1/α) below: on x > 1/2 the removal pair, its mirror
    image, and what remains, (1−γ)(1 − 2Φ(−1/2σ)), as an atom at loss 0. An upper side.
    The lower side are explicit neighbouring data: all unsampled-like records contribute 0, the
    replaced one a before and a − 1 after: mixtures with m = a and m = a − 1, for 0 <= a <= 1.

Integrals use Gauss–Legendre panels of 64 nodes. The integrand p e^{sL}, s = θ + it, is analytic for
|Im x| < πσ². On the ellipse with parameter 2 around a panel of half-width r it exceeds its largest
value on the real axis by at most exp(y²/2σ² + |t| y/σ²) cos(y/2σ²)^{−θ}, y = 3r/4, because
|A + B e^{iφ}| lies between (A+B) cos(φ/2) and A+B and has argument at most φ. With the r of
``_half_width`` that factor is below e^{45}, and the quadrature error (64/15) 2^{−128} e^{45} r max|…|
(Trefethen 2008, Theorem 4.5) is below 10⁻¹⁷ of the integral: less than rounding, which is charged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import mpmath
import numpy as np

from affidavit.accountant.recompute.bracket import Bracket, rounded_down, rounded_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    ComplexArray = NDArray[np.complex128]

__all__ = ["Component", "Piece", "SmoothLaw", "explicit_pair", "removal_pair", "replacement_curve"]

_ORDER = 64
_NEGLIGIBLE = 60.0
"""Natural logarithms below the peak at which a panel is dropped."""


@dataclass(frozen=True, slots=True)
class Component:
    """The density (1 − ``share``) N(0, σ²) + ``share`` N(``mean``, σ²)."""

    share: float
    mean: float

    def log_ratio(self, x: Array, sigma: float) -> Array:
        """log of the density against N(0, σ²)."""
        if self.share == 0.0:
            return np.zeros_like(x)
        z = (self.mean * x - 0.5 * self.mean**2) / sigma**2
        if self.share == 1.0:
            return z
        small = np.log1p(self.share * np.expm1(np.minimum(z, 30.0)))
        large = z + math.log(self.share) + np.log1p((1.0 - self.share) / self.share * np.exp(-np.maximum(z, 0.0)))
        return np.where(z < 30.0, small, large)

    def complex_log_ratio(self, x: ComplexArray, sigma: float) -> ComplexArray:
        """``log_ratio`` at complex x with |Im x| < π σ²/|mean|."""
        if self.share == 0.0:
            return np.zeros_like(x)
        z = (self.mean * x - 0.5 * self.mean**2) / sigma**2
        shift = np.maximum(z.real, 0.0)
        result: ComplexArray = shift + np.log((1.0 - self.share) * np.exp(-shift) + self.share * np.exp(z - shift))
        return result

    def slope(self, x: Array, sigma: float) -> Array:
        """d/dx of ``log_ratio``."""
        if self.share == 0.0:
            return np.zeros_like(x)
        z = (self.mean * x - 0.5 * self.mean**2) / sigma**2
        odds = math.inf if self.share == 1.0 else self.share / (1.0 - self.share)
        posterior = 1.0 if math.isinf(odds) else 1.0 / (1.0 + np.exp(-np.clip(z, -700.0, 700.0)) / odds)
        result: Array = posterior * self.mean / sigma**2 * np.ones_like(x)
        return result

    def tail(self, x: mpmath.mpf, sigma: float) -> mpmath.mpf:
        """Probability of (x, ∞)."""
        if mpmath.isinf(x):
            return mpmath.mpf(0) if x > 0 else mpmath.mpf(1)
        root = sigma * mpmath.sqrt(2)
        near, far = mpmath.erfc(x / root) / 2, mpmath.erfc((x - self.mean) / root) / 2
        return near + self.share * (far - near)


@dataclass(frozen=True, slots=True)
class Panels:
    """Nodes of one piece at one tilt: ``loss`` and log of (weight × p e^{θ loss})."""

    loss: Array
    log_weight: Array
    log_height: Array  # without the weight
    x: Array


@dataclass(frozen=True, slots=True)
class Piece:
    """The loss log p/q under p, for x > ``low``."""

    p: Component
    q: Component
    sigma: float
    low: float = -math.inf

    def loss(self, x: Array) -> Array:
        return self.p.log_ratio(x, self.sigma) - self.q.log_ratio(x, self.sigma)

    def _log_density(self, x: Array, tilt: float) -> Array:
        log_p = -0.5 * (x / self.sigma) ** 2 - math.log(self.sigma * math.sqrt(2.0 * math.pi))
        log_p = log_p + self.p.log_ratio(x, self.sigma)
        return log_p + tilt * self.loss(x)

    def half_width(self, tilt: float, frequency: float) -> float:
        """Panel half-width that keeps the quadrature error of the module docstring."""
        width = max(1.0, abs(self.p.mean), abs(self.q.mean))
        r = min(self.sigma, self.sigma**2 / width)
        if frequency > 0.0:
            r = min(r, 40.0 * self.sigma**2 / (0.75 * width * frequency))
        return r / max(1.0, 0.35 * math.sqrt(tilt)) if self.q.share > 0.0 else r

    def panels(self, tilt: float, frequency: float) -> Panels:
        """Nodes that integrate p e^{sL} for Re s = ``tilt``, |Im s| <= ``frequency``."""
        r = self.half_width(tilt, frequency)
        means = (0.0, self.p.mean, self.q.mean)
        reach = tilt * abs(self.p.mean)  # L grows linearly where p has its second mean, else it is bounded
        left = max(self.low, min(means) - (reach if self.falls else 0.0) - 40.0 * self.sigma)
        right = max(means) + (0.0 if self.falls else reach) + 40.0 * self.sigma
        count = math.ceil((right - left) / (2.0 * r))
        centres = left + r * (2.0 * np.arange(count, dtype=np.float64) + 1.0)
        height = self._log_density(centres, tilt)
        kept = height > height.max() - _NEGLIGIBLE - 10.0 * r / self.sigma
        centres = centres[kept]
        nodes, weights = _legendre()
        x = (centres[:, None] + r * nodes[None, :]).ravel()
        log_height = self._log_density(x, tilt)
        return Panels(self.loss(x), log_height + np.tile(np.log(r * weights), len(centres)), log_height, x)

    @property
    def falls(self) -> bool:
        """Whether L decreases in x (the means of p and q never lie on the same side of 0)."""
        return self.p.mean < 0.0 or self.q.mean > 0.0

    def variation(self, panels: Panels, peak: float) -> float:
        """|∫ p e^{sL} dx| <= variation · e^{peak} / |Im s|: by parts, with G = p e^{θL}/|L′|.

        log G has slope (linear + bounded monotone terms)/σ², so G has few extrema; between nodes a
        64th of a panel apart a maximum is missed by less than the 10 % that are added.
        """
        slope = np.abs(self.p.slope(panels.x, self.sigma) - self.q.slope(panels.x, self.sigma))
        g = np.exp(panels.log_height - peak) / np.maximum(slope, 1e-300)
        total = float(np.sum(np.abs(np.diff(g)))) + float(g[0]) + float(g[-1])
        return 1.1 * total

    def shifted(self, panels: Panels, peak: float, tilt: float, frequency: float, share: float) -> float:
        """Bound of |∫ p e^{sL} dx| e^{−peak} for Re s = ``tilt`` and every |Im s| >= ``frequency``.

        The path of integration is moved by i·a, a = ``share`` σ²/(largest mean), to the side on which
        Im L >= 0, so |e^{itL}| = e^{−t Im L} decreases in t; a half-line adds the way up at its end.
        """
        lift = share * self.sigma**2 / max(1.0, abs(self.p.mean), abs(self.q.mean))
        sign = -1.0 if self.falls else 1.0
        x = panels.x
        total = float(
            np.sum(np.exp(panels.log_weight - panels.log_height + self._lifted(x, sign * lift, tilt, frequency) - peak))
        )
        if math.isfinite(self.low):
            nodes, weights = _legendre()
            heights = 0.5 * lift * (nodes + 1.0)
            at_end = np.full(_ORDER, self.low)
            total += float(
                np.sum(0.5 * lift * weights * np.exp(self._lifted(at_end, sign * heights, tilt, frequency) - peak))
            )
        return 1.01 * total

    def _lifted(self, x: Array, lift: Array | float, tilt: float, frequency: float) -> Array:
        """log |p e^{sL}| at x + i·lift."""
        z: ComplexArray = np.asarray(x + 1j * lift, dtype=np.complex128)
        log_p = self.p.complex_log_ratio(z, self.sigma)
        loss = log_p - self.q.complex_log_ratio(z, self.sigma)
        log_phi = -0.5 * (x**2 - np.square(lift)) / self.sigma**2 - math.log(self.sigma * math.sqrt(2.0 * math.pi))
        result: Array = log_phi + log_p.real + tilt * loss.real - frequency * np.maximum(loss.imag, 0.0)
        return result


@dataclass(frozen=True, slots=True)
class SmoothLaw:
    """A privacy loss under P: the pieces' densities and an ``atom`` at loss 0."""

    pieces: tuple[Piece, ...]
    atom: float = 0.0

    def delta(self, epsilon: float) -> Bracket:
        """δ of one use, in 60-digit arithmetic: the likelihood-ratio test with threshold ε."""
        with mpmath.workdps(60):
            value = sum((_one_use(piece, mpmath.mpf(epsilon)) for piece in self.pieces), mpmath.mpf(0))
            if epsilon < 0.0:
                value += self.atom * (1 - mpmath.exp(epsilon))
            nearest = float(value)
        return Bracket(rounded_down(nearest), min(1.0, rounded_up(nearest)))


def _one_use(piece: Piece, epsilon: mpmath.mpf) -> mpmath.mpf:
    """P(A) − e^ε Q(A) for A = {x > low: L(x) > ε}; L is monotone, so A is one interval."""
    growth = mpmath.exp(epsilon)
    low = mpmath.mpf(piece.low) if math.isfinite(piece.low) else -mpmath.inf
    start, end = low, mpmath.inf
    if piece.falls:
        end = _threshold(piece, growth)
    else:
        start = max(low, _threshold(piece, growth))
    if end <= start:
        return mpmath.mpf(0)

    def mass(c: Component) -> mpmath.mpf:
        return c.tail(start, piece.sigma) - c.tail(end, piece.sigma)

    return max(mpmath.mpf(0), mass(piece.p) - growth * mass(piece.q))


def _threshold(piece: Piece, growth: mpmath.mpf) -> mpmath.mpf:
    """The x at which p/q = ``growth`` (±∞ if it is nowhere reached).

    For (N(0) and one mixture) explicit. Else by bisection to 1e-25: at the exact threshold δ is
    stationary in x, so an inexact one changes it by about 1e-50 only.
    """
    variance = mpmath.mpf(piece.sigma) ** 2
    if 0.0 in (piece.p.share, piece.q.share):
        mixture, ratio = (piece.p, growth) if piece.q.share == 0.0 else (piece.q, 1 / growth)
        if ratio <= 1 - mixture.share:
            return -mpmath.inf if mixture.mean > 0.0 else mpmath.inf
        z = mpmath.log1p((ratio - 1) / mixture.share)
        return mpmath.mpf(mixture.mean) / 2 + variance * z / mixture.mean

    def excess(x: mpmath.mpf) -> mpmath.mpf:
        def density(c: Component) -> mpmath.mpf:
            return 1 - c.share + c.share * mpmath.exp((c.mean * x - mpmath.mpf(c.mean) ** 2 / 2) / variance)

        return density(piece.p) - growth * density(piece.q)

    low, high = mpmath.mpf(-1), mpmath.mpf(1)
    rising = -1 if piece.falls else 1
    while rising * excess(low) > 0 and low > -1e6:
        low *= 2
    while rising * excess(high) < 0 and high < 1e6:
        high *= 2
    while high - low > mpmath.mpf(10) ** -25:
        middle = (low + high) / 2
        low, high = (low, middle) if rising * excess(middle) > 0 else (middle, high)
    return high


@lru_cache(maxsize=1)
def _legendre() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(_ORDER)
    return nodes, weights


def removal_pair(*, rate: float, sigma: float, removed: bool) -> SmoothLaw:
    """((1−γ)N(0) + γN(1), N(0)), or the two swapped."""
    mixture, plain = Component(rate, 1.0), Component(0.0, 0.0)
    return SmoothLaw((Piece(mixture, plain, sigma) if removed else Piece(plain, mixture, sigma),))


def replacement_curve(*, rate: float, sigma: float) -> SmoothLaw:
    """The curve for substitution without replacement; its own mirror image."""
    mixture, plain = Component(rate, 1.0), Component(0.0, 0.0)
    tail = 0.5 * math.erfc(0.5 / (sigma * math.sqrt(2.0)))
    return SmoothLaw(
        (Piece(mixture, plain, sigma, 0.5), Piece(plain, mixture, sigma, 0.5)), (1.0 - rate) * (1.0 - 2.0 * tail)
    )


def explicit_pair(*, rate: float, sigma: float, before: float) -> SmoothLaw:
    """Neighbours whose changed record contributes ``before`` = a, then a − 1, in [0, 1]."""
    p = Component(rate, before) if before > 0.0 else Component(0.0, 0.0)
    q = Component(rate, before - 1.0) if before < 1.0 else Component(0.0, 0.0)
    return SmoothLaw((Piece(p, q, sigma),))
