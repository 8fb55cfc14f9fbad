"""Losses with a density: sampled Gaussians, as integrals over the noise.

Every loss here is L(x) = log p(x)/q(x) on a half-line x > ``low``, where p and q are mixtures
(1−c) N(0, σ²) + c N(m, σ²); an atom at 0 may be added. Pairs and curves (γ = m/n or the Poisson rate):

Poisson, add-remove and zero-out. ((1−γ) N(0) + γ N(1), N(0)) when the record is removed, the two
    swapped when it is added (Zhu, Dong and Wang 2022, Theorem 11; each direction composed apart).
Without replacement, add-remove. The same pairs: couple the added record with the one it displaces;
    σ is then for substitution on the sample (Lebeda, Regehr, Kamath and Steinke 2024).
Without replacement, substitution. With h the Gaussian hockey-stick of the sample (docs/theory/sampling.md; Balle,
    Barthe and Gaboardi 2018, Theorem 2; Zhu, Dong and Wang 2022, Proposition 30),
    H(α) = γ h(1 + (α−1)/γ) for α >= 1, and 1 − α + α H(1/α) below: on x > 1/2 the removal pair, its mirror
    image, and what remains, (1−γ)(1 − 2Φ(−1/2σ)), as an atom at loss 0. An upper side.
    The lower side are explicit neighbouring data, all others like the new record: the removal pair.

Poisson, substitution, where presence and replacement cost μ_a and μ_r (``three_gaussians``): mixtures with m = a and
    m = a − 1, a = μ_a/μ_r in [1/2, 1], σ = 1/μ_r: on x > a − 1/2 that pair, its mirror image, and the rest in an atom.

Poisson, substitution. Only the cost of substituting on the sample is known. By convexity
    H_α <= (1−q)(1−α)₊ + q h(α), reached where outputs without the record are disjoint from the others:
    q times the Gaussian pair, and an atom 1 − q at loss 0.

Integrals use Gauss–Legendre panels of 64 nodes. The integrand p e^{sL}, s = θ + it, is analytic for
|Im x| < πσ². On the ellipse with parameter 2 around a panel of half-width r it exceeds its largest
value on the real axis by at most exp(y²/2σ² + |t| y/σ²) cos(y/2σ²)^{−θ}, y = 3r/4, because
|A + B e^{iφ}| lies between (A+B) cos(φ/2) and A+B and has argument at most φ. With the r of
``_half_width`` that factor is below e^{45}, and the quadrature error (64/15) 2^{−128} e^{45} r max|…|
(Trefethen 2008, Theorem 4.5) is below 10⁻¹⁷ of the integral: less than rounding, which is charged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from affidavit.accountant.verifier.balls import Array, Ball, ComplexArray, ball, down, normal_tail, precision
from affidavit.accountant.verifier.bracket import Bracket, clipped
from affidavit.accountant.verifier.loss_cells import legendre

__all__ = [
    "Component",
    "Panels",
    "Piece",
    "SmoothLaw",
    "TooFineError",
    "diluted_pair",
    "removal_pair",
    "replaced_curve",
]

_LIFTS = (0.02, 0.06, 0.15, 0.35, 0.7, 1.2, 2.0)
"""Heights of the moved path in units of σ."""
_NEGLIGIBLE = 60.0
"""Natural logarithms below the peak at which a panel is dropped."""
_FARTHEST = 1e200
"""No threshold is farther out."""
_BITS, _SHARP = (256, 2_048), 1e-12
"""Of one use: what is tried, the second where its terms cancel; the relative width that is enough."""
_MOST_PANELS = 1_000_000


class TooFineError(Exception):
    """So little noise that the panels would be too many."""


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

    def rounding(self, x: Array, sigma: float) -> Array:
        """What rounding may do to ``log_ratio``, in units of 2⁻⁵¹; x itself is rounded once."""
        if self.share == 0.0:
            return np.zeros_like(x)
        z = (self.mean * x - 0.5 * self.mean**2) / sigma**2
        moved: Array = 2.0 * (np.abs(self.mean * x) + 0.5 * self.mean**2) / sigma**2
        if self.share == 1.0:
            return moved
        small = self.share * np.expm1(np.minimum(z, 30.0))
        return np.abs(self.log_ratio(x, sigma)) + np.abs(small) / (1.0 + small) + self._posterior(z) * moved

    def _posterior(self, z: Array) -> Array:
        """How much of the density the second mean has."""
        result: Array = self.share / (self.share + (1.0 - self.share) * np.exp(-np.clip(z, -700.0, 700.0)))
        return result

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
        return self._posterior(z) * self.mean / sigma**2


@dataclass(frozen=True, slots=True)
class Panels:
    """Nodes of one piece at one tilt: ``loss`` and log of (weight × p e^{θ loss})."""

    loss: Array
    log_weight: Array
    log_height: Array  # without the weight
    x: Array


@dataclass(frozen=True, slots=True)
class Piece:
    """The loss log p/q under ``weight`` times p, for x > ``low``."""

    p: Component
    q: Component
    sigma: float
    low: float = -math.inf
    weight: float = 1.0

    def loss(self, x: Array) -> Array:
        return self.p.log_ratio(x, self.sigma) - self.q.log_ratio(x, self.sigma)

    def _log_density(self, x: Array, tilt: float) -> Array:
        log_p = -0.5 * (x / self.sigma) ** 2 - math.log(self.sigma * math.sqrt(2.0 * math.pi) / self.weight)
        log_p = log_p + self.p.log_ratio(x, self.sigma)
        return log_p + tilt * self.loss(x)

    def half_width(self, tilt: float, frequency: float) -> float:
        """Panel half-width that keeps the quadrature error of the module docstring."""
        width = max(1.0, abs(self.p.mean), abs(self.q.mean))
        r = min(self.sigma, self.sigma**2 / width)
        if frequency > 0.0:
            r = min(r, 40.0 * self.sigma**2 / (0.75 * width * frequency))
        return r / max(1.0, 0.15 * math.sqrt(tilt)) if self.q.share > 0.0 else r

    def panels(self, tilt: float, frequency: float) -> Panels:
        """Nodes that integrate p e^{sL} for Re s = ``tilt``, |Im s| <= ``frequency``."""
        r = self.half_width(tilt, frequency)
        means = (0.0, self.p.mean, self.q.mean)
        reach = tilt * abs(self.p.mean)  # L grows linearly where p has its second mean, else it is bounded
        left = max(self.low, min(means) - (reach if self.falls else 0.0) - 40.0 * self.sigma)
        right = max(means) + (0.0 if self.falls else reach) + 40.0 * self.sigma
        count = math.ceil((right - left) / (2.0 * r))
        if count > _MOST_PANELS:
            raise TooFineError
        centres = left + r * (2.0 * np.arange(count, dtype=np.float64) + 1.0)
        height = self._log_density(centres, tilt)
        kept = height > height.max() - _NEGLIGIBLE - 10.0 * r / self.sigma
        centres = centres[kept]
        nodes, weights = legendre()
        x = (centres[:, None] + r * nodes[None, :]).ravel()
        log_height = self._log_density(x, tilt)
        return Panels(self.loss(x), log_height + np.tile(np.log(r * weights), len(centres)), log_height, x)

    def rounding(self, panels: Panels) -> tuple[Array, Array]:
        """Relative error of the weights and absolute error of the losses at the nodes, in units of 2⁻⁵¹."""
        p, q = (component.rounding(panels.x, self.sigma) for component in (self.p, self.q))
        constant = abs(math.log(self.sigma * math.sqrt(2.0 * math.pi) / self.weight))
        return (panels.x / self.sigma) ** 2 + constant + p + np.abs(panels.log_weight), p + q

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
        """Bound of the part over ``panels`` of |∫ p e^{sL} dx| e^{−peak} for Re s = ``tilt``, |Im s| >= ``frequency``.

        The path is moved by i·``lift``, to the side on which Im L >= 0: |e^{itL}| = e^{−t Im L} decreases in t.
        """
        lift = self.lift(share)
        log_p, loss = self._complex(np.asarray(panels.x + 1j * lift, dtype=np.complex128))
        log_phi = -0.5 * (panels.x**2 - np.square(lift)) / self.sigma**2
        log_phi -= math.log(self.sigma * math.sqrt(2.0 * math.pi) / self.weight)
        log_size = log_phi + log_p.real + tilt * loss.real - frequency * np.maximum(loss.imag, 0.0)
        log_size = log_size + (panels.log_weight - panels.log_height)
        return 1.01 * float(np.sum(np.exp(np.minimum(log_size - peak, 600.0))))

    def lift(self, share: float) -> float:
        """``share`` σ, at most 2σ²/(largest mean) (π of which is allowed), signed so that Im L >= 0 there."""
        size = min(share * self.sigma, 2.0 * self.sigma**2 / max(1.0, abs(self.p.mean), abs(self.q.mean)))
        return -size if self.falls else size

    def way_up(self, share: float) -> tuple[Array, ComplexArray, ComplexArray]:
        """Heights' weights, loss and log-density on the way from ``low`` to ``low`` + i·lift."""
        nodes, weights = legendre()
        lift = self.lift(share)
        z = np.asarray(self.low + 0.5j * lift * (nodes + 1.0), dtype=np.complex128)
        log_p, loss = self._complex(z)
        log_phi = -0.5 * (z / self.sigma) ** 2 - math.log(self.sigma * math.sqrt(2.0 * math.pi))
        return 0.5 * abs(lift) * weights, loss, log_phi + log_p

    def _complex(self, z: ComplexArray) -> tuple[ComplexArray, ComplexArray]:
        """log p against N(0, σ²), and L."""
        log_p = self.p.complex_log_ratio(z, self.sigma)
        return log_p, log_p - self.q.complex_log_ratio(z, self.sigma)


@dataclass(frozen=True, slots=True)
class SmoothLaw:
    """A privacy loss under P: the pieces' densities and an ``atom`` at loss 0."""

    pieces: tuple[Piece, ...]
    atom: float = 0.0

    def decay(self, panels: Sequence[Panels], peak: float, tilt: float, frequency: float) -> float:
        """Bound of |M(θ+it) − atom| e^{−peak} for θ = ``tilt`` and every |t| >= ``frequency``.

        A half-line adds the way up at its end. The two halves of ``replaced_curve`` go up on
        either side of the axis with conjugate losses, so their contributions A e^{itR} e^{−tI} and
        B e^{−itR} e^{−tI} (R, I the real and imaginary part of the first loss) almost cancel: the
        difference is at most (|A − B| + 2 min(1, t|R|) |B|) e^{−tI}. For all t >= t₀, t e^{−tI} is at
        most max(t₀, 1/I) e^{−max(t₀I, 1)}.
        """
        best = math.inf
        for share in _LIFTS:
            pairs = zip(self.pieces, panels, strict=True)
            total = math.fsum(piece.shifted(p, peak, tilt, frequency, share) for piece, p in pairs)
            if math.isfinite(self.pieces[0].low):
                total += self._ways_up(peak, tilt, frequency, share)
            best = min(best, total)
        return best

    def _ways_up(self, peak: float, tilt: float, frequency: float, share: float) -> float:
        weights, loss, log_density = self.pieces[0].way_up(share)
        _, mirrored, log_mirrored = self.pieces[1].way_up(share)
        one = np.exp(log_density + tilt * loss - peak)
        other = np.exp(log_mirrored + tilt * mirrored - peak)
        depth = np.maximum(loss.imag, 1e-300)
        fading = np.exp(-frequency * depth)
        turning = np.abs(loss.real) * np.maximum(frequency, 1.0 / depth) * np.exp(-np.maximum(frequency * depth, 1.0))
        size = np.abs(one - other) * fading + 2.0 * np.abs(other) * np.minimum(fading, turning)
        return 1.01 * float(weights @ size)

    def delta(self, epsilon: float) -> Bracket:
        """δ of one use at ``epsilon`` >= 0: that of {L > ε}, which is x > a threshold, or below it, as L is monotone.

        Only the first piece has such losses. At a point before the threshold, η = ε − L there, what is between the two
        lowers P − e^ε Q by at most e^ε (1 − e^{−η}) of Q beyond the point.
        """
        piece = self.pieces[0]
        sign = -1 if piece.falls else 1
        if 0.0 in (piece.p.share, piece.q.share):  # explicit, where the loss loses its digits in float64
            mixture, exponent = (piece.p, epsilon) if piece.q.share == 0.0 else (piece.q, -epsilon)
            with precision(_BITS[1]):
                inner = 1 + ball(exponent).expm1() / ball(mixture.share)
                if inner <= 0:
                    return Bracket(0.0, 0.0)
                mean = ball(mixture.mean)
                low = down(sign * (mean / 2 + ball(piece.sigma) ** 2 * inner.log() / mean))
        else:
            low = _threshold(piece, epsilon, sign)
        found = Bracket(0.0, 1.0)
        for bits in _BITS:
            with precision(bits):
                found = _beyond(piece, ball(epsilon).exp(), low, sign)
            if found.upper - found.lower <= _SHARP * found.upper:
                break
        return found


def _threshold(piece: Piece, epsilon: float, sign: int) -> float:
    """About where L = ``epsilon``, x turned by ``sign``."""

    def exceeds(x: float) -> bool:
        return bool(piece.loss(np.asarray(sign * x)) > epsilon)

    low, high = -1.0, 1.0
    while exceeds(low) and low > -_FARTHEST:
        low *= 2.0
    while not exceeds(high) and high < _FARTHEST:
        high *= 2.0
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (low, middle) if exceeds(middle) else (middle, high)
    return low


def _beyond(piece: Piece, growth: Ball, low: float, sign: int) -> Bracket:
    """P − e^ε Q beyond a point that is about ``low`` and before the threshold, and what it lacks."""
    sigma, step = ball(piece.sigma), math.ulp(low)
    while True:
        above, below = (_density(component, ball(low), sigma, sign) for component in (piece.p, piece.q))
        if above <= growth * below:
            break
        low, step = low - step, 2.0 * step
    p, q = (_tail(component, ball(low), sigma, sign) for component in (piece.p, piece.q))
    value, missed = p - growth * q, (growth - above / below) * q
    return Bracket(clipped(piece.weight * value).lower, clipped(piece.weight * (value + missed)).upper)


def _tail(component: Component, at: Ball, sigma: Ball, sign: int) -> Ball:
    """Mass beyond ``at``, x turned by ``sign``."""
    share, mean = ball(component.share), sign * ball(component.mean)
    return (1 - share) * normal_tail(at / sigma) + share * normal_tail((at - mean) / sigma)


def _density(component: Component, at: Ball, sigma: Ball, sign: int) -> Ball:
    """Against N(0, σ²)."""
    share, mean = ball(component.share), sign * ball(component.mean)
    return (1 - share) + share * (mean * (at - mean / 2) / sigma**2).exp()


def removal_pair(*, rate: float, sigma: float, removed: bool, before: float = 1.0) -> SmoothLaw:
    """The sum moves by ``before`` = a with the old record, by a − 1 with a new one (a = 1: by none); or swapped."""
    old, new = _mixtures(rate, before)
    return SmoothLaw((Piece(old, new, sigma) if removed else Piece(new, old, sigma),))


def replaced_curve(*, rate: float, sigma: float, before: float = 1.0) -> SmoothLaw:
    """That pair above loss 0, its mirror image below, the rest in an atom at 0."""
    old, new = _mixtures(rate, before)
    middle = before - 0.5  # where the loss is 0
    halves = Piece(old, new, sigma, middle), Piece(new, old, sigma, middle)
    with precision():
        beyond = sum(_tail(component, ball(middle), ball(sigma), 1) for component in (old, new))
        return SmoothLaw(halves, max(0.0, float(1 - beyond)))


def _mixtures(rate: float, before: float) -> tuple[Component, Component]:
    return Component(rate, before), Component(rate, before - 1.0) if before < 1.0 else Component(0.0, 0.0)


def diluted_pair(*, rate: float, sigma: float) -> SmoothLaw:
    """Poisson sampling under substitution: with probability 1 − q the place is empty on both sides."""
    return SmoothLaw((Piece(Component(1.0, 1.0), Component(0.0, 0.0), sigma, weight=rate),), 1.0 - rate)
