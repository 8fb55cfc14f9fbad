"""Privacy losses with finitely many values: exact composition by sums of positive terms.

A law is the distribution, under P, of L = log dP/dQ: masses at finitely many losses and a mass at
+∞. Then δ(ε) = P(L = ∞) + Σ_{x > ε} w(x) (1 − e^{ε−x}).

Optimal composition (Kairouz, Oh and Viswanath 2015, Theorem 3.3; Murtagh and Vadhan 2016 for
unequal parameters): any (ε, δ)-DP use is a post-processing of the pair with P-masses δ at +∞,
(1−δ) e^ε/(1+e^ε) at +ε and (1−δ)/(1+e^ε) at −ε; adaptive use is no worse. That pair is itself
(ε, δ)-DP, so the composition is the exact ε of the plan, from both sides.

Only sums and products of positive numbers occur; ``relative_error`` bounds what rounding does to
a mass. Laws with too many atoms are coarsened, each side in its own direction: ``split`` moves each
atom to two neighbours so that P and Q masses are kept (a post-processing of the result gives the
original back, so δ can only grow); ``merge`` joins atoms (a post-processing: δ can only shrink).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mpmath
import numpy as np

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.recompute.bracket import Bracket

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["POINT_MASS", "AtomicLaw", "binomial_law", "laplace_law"]

_UNIT = 2.0**-53
_EXACT_USES = 2000
_MAX_USES = 2_000_000
_MAX_ATOMS = 400_000
_MAX_PRODUCT = 4_000_000
_SAME = 1e-13
_CELLS = 1024
_FEW, _MAX_TRANSFORM, _BEYOND = 256, 1 << 23, 1e-15


@dataclass(frozen=True, slots=True)
class AtomicLaw:
    """P-masses ``masses`` at the increasing ``losses`` (nats), and ``infinite`` at +∞."""

    losses: Array
    masses: Array
    infinite: float = 0.0
    relative_error: float = 0.0

    def delta(self, epsilon: float) -> Bracket:
        """δ at ``epsilon``."""
        above = self.losses > epsilon
        terms = -self.masses[above] * np.expm1(epsilon - self.losses[above])
        value = self.infinite + math.fsum(terms.tolist())
        # A loss known to a relative 2u moves 1 − e^{ε−x} by at most 2u(|x| + |ε|) in absolute terms.
        slack = 4.0 * _UNIT * float(np.sum(self.masses[above] * (np.abs(self.losses[above]) + abs(epsilon))))
        error = value * (self.relative_error + 8.0 * _UNIT) + slack
        return Bracket(max(0.0, value - error), min(1.0, value + error))

    def compose(self, other: AtomicLaw, *, upper: bool) -> AtomicLaw:
        """The law of the sum of two independent losses, coarsened to ``upper`` or lower side if large."""
        if len(self.losses) * len(other.losses) > _MAX_PRODUCT:
            side = math.isqrt(_MAX_PRODUCT)
            return self.coarsened(side, upper=upper).compose(other.coarsened(side, upper=upper), upper=upper)
        losses = np.add.outer(self.losses, other.losses).ravel()
        masses = np.multiply.outer(self.masses, other.masses).ravel()
        infinite = self.infinite + other.infinite - self.infinite * other.infinite
        order = np.argsort(losses, kind="stable")
        law = AtomicLaw(
            losses[order], masses[order], infinite, self.relative_error + other.relative_error + 4.0 * _UNIT
        )
        return law._joined(upper=upper).coarsened(_MAX_ATOMS, upper=upper)

    def power(self, uses: int, *, upper: bool) -> AtomicLaw:
        """``uses`` independent copies: one transform for a law on a uniform grid, else repeated squaring."""
        if uses > 1 and upper and self._uniform() and (len(self.losses) - 1) * uses < _MAX_TRANSFORM:
            return self._transformed(uses)
        if uses > _MAX_USES:
            raise NotSupported(f"recomputing {uses} uses one by one is out of reach", hint="Remove `--recompute`.")
        result, square = POINT_MASS, self
        while uses:
            if uses & 1:
                result = square if result is POINT_MASS else result.compose(square, upper=upper)
            uses >>= 1
            if uses:
                square = square.compose(square, upper=upper)
        return result

    def _uniform(self) -> bool:
        steps = np.diff(self.losses)
        return len(steps) > _FEW and bool(np.allclose(steps, steps[0], rtol=1e-9, atol=0.0))

    def _transformed(self, uses: int) -> AtomicLaw:
        """An upper side of ``uses`` copies: the whole convolution, so nothing wraps around.

        In the l2 norm a transform of N points errs by at most 4 u log2 N of the result, a power by 4 u a factor
        (Higham 2002, chapter 24); over any places of the result that sums to at most √N times as much
        (Cauchy–Schwarz), which is added to the mass at +∞, as is what lies above all but ``_BEYOND`` of the mass.
        """
        step = float(self.losses[-1] - self.losses[0]) / (len(self.losses) - 1)
        places = (len(self.losses) - 1) * uses + 1
        size = 1 << (places - 1).bit_length()
        masses = np.fft.irfft(np.fft.rfft(self.masses, size) ** uses, size)[:places]
        error = 4.0 * _UNIT * (uses + 2.0 * math.log2(size)) * math.sqrt(size) * float(np.linalg.norm(masses))
        masses = np.maximum(masses, 0.0)
        first = int(np.searchsorted(np.cumsum(masses), _BEYOND))
        last = places - int(np.searchsorted(np.cumsum(masses[::-1]), _BEYOND))
        kept = masses[first:last].copy()
        kept[0] += masses[:first].sum()
        infinite = -math.expm1(uses * math.log1p(-self.infinite)) + float(masses[last:].sum()) + error
        losses = uses * self.losses[0] + step * np.arange(first, last)
        # Grid points are known to a few units in the last place of the largest: losses are moved up by that.
        losses += 8.0 * _UNIT * float(np.abs(uses * self.losses[[0, -1]]).max())
        law = AtomicLaw(losses, kept, infinite, uses * self.relative_error)
        return law.coarsened(_MAX_ATOMS, upper=True)

    def _joined(self, *, upper: bool) -> AtomicLaw:
        """Atoms whose losses differ by rounding only become one, at the end of the side asked for."""
        scale = max(abs(float(self.losses[0])), abs(float(self.losses[-1])), 1e-300)
        starts = np.concatenate(([0], np.nonzero(np.diff(self.losses) > _SAME * scale)[0] + 1))
        if len(starts) == len(self.losses):
            return self
        ends = np.concatenate((starts[1:], [len(self.losses)])) - 1
        masses = np.add.reduceat(self.masses, starts)
        return AtomicLaw(self.losses[ends if upper else starts], masses, self.infinite, self.relative_error + _UNIT)

    def coarsened(self, limit: int, *, upper: bool) -> AtomicLaw:
        """The law itself if it has at most ``limit`` atoms, else one of ``limit`` on the side asked for."""
        if len(self.losses) <= limit:
            return self
        grid = np.linspace(self.losses[0], self.losses[-1], limit)
        cell = np.clip(np.searchsorted(grid, self.losses, side="right") - 1, 0, limit - 2)
        q_masses = self.masses * np.exp(-(self.losses - grid[cell]))  # relative to e^{−grid[cell]}
        if not upper:
            p = _binned(cell, self.masses, limit - 1)
            q = _binned(cell, q_masses, limit - 1)
            kept = p > 0.0
            losses = grid[:-1][kept] + np.log(p[kept] / q[kept])
            return AtomicLaw(losses, p[kept], self.infinite, self.relative_error + 64.0 * _UNIT)
        step = float(grid[1] - grid[0])
        # P mass that goes to the right end r of a cell [l, r] so that P and Q masses are kept:
        # w (1 − e^{l−x})/(1 − e^{l−r}).
        right = self.masses * np.clip(np.expm1(grid[cell] - self.losses) / math.expm1(-step), 0.0, 1.0)
        masses = _binned(cell, self.masses - right, limit) + _binned(cell + 1, right, limit)
        return AtomicLaw(grid, masses, self.infinite, self.relative_error + 64.0 * _UNIT)


def _binned(cell: NDArray[np.intp], weights: Array, length: int) -> Array:
    """Total weight in each of ``length`` cells."""
    return np.bincount(cell, weights, minlength=length).astype(np.float64, copy=False)


POINT_MASS = AtomicLaw(np.zeros(1), np.ones(1))
"""The loss of releasing nothing."""


def binomial_law(*, epsilon: float, delta: float, uses: int) -> AtomicLaw:
    """``uses`` adaptive uses of an (``epsilon``, ``delta``)-DP mechanism."""
    if uses > _MAX_USES:
        raise NotSupported(
            f"recomputing {uses} uses of a pure mechanism one by one is out of reach",
            hint=f"Remove `--recompute`, or use at most {_MAX_USES} uses.",
        )
    survive = -math.expm1(uses * math.log1p(-delta)) if delta < 1.0 else 1.0
    losses = epsilon * (2.0 * np.arange(uses + 1, dtype=np.float64) - uses)
    if uses <= _EXACT_USES:
        masses, error = _exact_binomial(epsilon, uses), 4.0 * _UNIT
    else:
        masses, error = _float_binomial(epsilon, uses), 64.0 * _UNIT * uses * math.log(uses)
    return AtomicLaw(losses, masses * (1.0 - survive), survive, error + 8.0 * _UNIT)


def laplace_law(*, scale: float, upper: bool) -> AtomicLaw:
    """One use of Laplace noise of ``scale`` × sensitivity, told apart by ``_CELLS`` intervals of the loss.

    With ε₀ = 1/scale the loss has P-mass 1/2 at ε₀, e^{−ε₀}/2 at −ε₀, and between them
    P(L > l) = 1 − e^{−(ε₀−l)/2}/2, Q(L > l) = e^{−(ε₀+l)/2}/2. Each interval is split to its ends (upper side) or
    merged into its mean, which is its middle (lower side).
    """
    largest = 1.0 / scale
    grid = np.linspace(-largest, largest, _CELLS + 1)
    step = 2.0 * largest / _CELLS
    p = 0.5 * np.exp(-0.5 * (largest - grid[:-1])) * math.expm1(0.5 * step)
    ends = np.zeros(_CELLS + 1)
    ends[0], ends[-1] = 0.5 * math.exp(-largest), 0.5
    if not upper:
        losses = np.concatenate((grid[:1], grid[:-1] + 0.5 * step, grid[-1:]))
        return AtomicLaw(losses, np.concatenate((ends[:1], p, ends[-1:])), 0.0, 32.0 * _UNIT)
    # P and Q are kept: the right end gets (1 − e^{l−x})/(1 − e^{−h}) of the mass of loss x, x = l + h/2 on average.
    right = p * (math.expm1(-0.5 * step) / math.expm1(-step))
    ends[:-1] += p - right
    ends[1:] += right
    return AtomicLaw(grid, ends, 0.0, 64.0 * _UNIT)


def _exact_binomial(epsilon: float, uses: int) -> Array:
    with mpmath.workdps(40):
        odds = mpmath.exp(epsilon)
        term = (1 + odds) ** (-uses)
        masses = []
        for i in range(uses + 1):
            masses.append(float(term))
            term = term * odds * (uses - i) / (i + 1)
    return np.array(masses)


def _float_binomial(epsilon: float, uses: int) -> Array:
    from scipy.special import gammaln

    i = np.arange(uses + 1, dtype=float)
    log_mass = gammaln(uses + 1.0) - gammaln(i + 1.0) - gammaln(uses - i + 1.0)
    log_mass += i * -math.log1p(math.exp(-epsilon)) + (uses - i) * (-epsilon - math.log1p(math.exp(-epsilon)))
    masses: Array = np.exp(log_mass)
    return masses
