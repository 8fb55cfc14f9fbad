r"""A Gaussian's losses on a lattice, in float64 with a proven charge.

In y, standard normal under P, the loss of N(μ, 1) against N(0, 1) is λ(y) = μ y + μ²/2. All masses are integrals of
positive functions over the cells between ``knots`` in y, and so known to a relative error, where differences of tails
would have to be known to many digits. With a, b the ends of a cell, h = μ(b - a) and c its centre:

- Connect the dots (``lattice``): outcome y goes to the right end with P-share (1 - e^{-μ(y-a)})/(1 - e^{-h}), to the
  left end with the rest, (e^{μ(b-y)} - 1)/(e^h - 1). P and Q are kept: in Q the shares are affine in e^λ. A knot a
  little below its place in the lattice, or a μ that is larger, only raises the curve.
- Groups: outcomes between t_i and t_{i+1} are merged and put at the loss of knot y_i. That lowers the curve if their
  ratio is no smaller than the place's, i.e. if D = ∫ φ(y) (1 - e^{-μ(y - y_i)}) dy >= 0, as is looked at for each
  group. The t_i for which D is all but 0 (tangents to the curve at these meet above the knots) are found by steps that
  leave the second difference of what is left. A group that fails goes one place down, if all of its losses lie above.

Quadrature. Gauss–Legendre with n nodes is exact for polynomials of degree 2n - 1, and its weights are positive: with
the Taylor polynomial at c, the error over a cell of half-width τ is at most 2 · 2τ Σ_{k >= 2n} |f_k| τ^k. The
coefficients of φ(c + s)/φ(c) are at most those of e^{|c| s + s²/2}, those of (e^{μ s} - 1) φ(c + s)/φ(c) at most those
of μ s e^{κ s + s²/2}, κ = |c| + μ, and a series with positive coefficients has tail Σ_{k >= N} F_k τ^k <= (τ/R)^N F(R)
for any R >= τ. With K = |c| + μ + 6, R = N/K, N = 2n - 1 that is at most T = (Kτ/N)^N e^{N + N²/72}: 6e-15 for
n = 8, Kτ <= 1/2 and 5e-15 for n = 4, Kτ <= 1/50. Relative to the integrals:
- of φ: the integral is at least 2τ φ(c) e^{-|c|τ - τ²/2}; the error at most 2 e^{.51} T;
- of a share: it has values u + v (e^{μs} - 1) times φ (a mirror image for the left one), |u|, μτ v at most 1.7 times
  twice its own mean over the cell, as it is convex, or concave and 0 at one end: at most 20 T;
- of D, |c - y_i| <= τ: 1 - e^{-μ(y - y_i)} is u + v (e^{-μs} - 1), |u| and v at most 2μτ and 2: at most 16 T μτ of
  the mass.
Rounding. A node is off by 8 units of τ, φ(c) by (c² + 4) units, c <= ``FARTHEST``, ``exp`` and ``expm1`` by a relative
2^-40, a sum of n by n units. A mass has four such factors: all that is less than ``CHARGE`` of it. D is a sum of terms
of at most 2μτ e^{2μτ} <= 6μτ times φ, each off by three times 2^-40 of itself: with what the nodes are off less than
``AMISS`` μτ of the mass; the factor φ(c) is common to both.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from flint import arb

from affidavit.accountant.verifier.balls import Array, Ball, down, normal_tail, up
from affidavit.accountant.verifier.loss_cells import legendre
from affidavit.accountant.verifier.rounding import AMISS, CHARGE, FLOOR, LIBM, UNIT

__all__ = ["grouped", "places", "split", "tails"]

FARTHEST = 36.0
RULES = ((4, 1 / 25), (8, 1.0))
"""Nodes for cells as wide as that over |c| + μ + 6."""
ROUNDS, SETTLED = 8, 1e-12
"""Steps towards tangents, and the distance in cells that is left."""


def places(mu: float, step: Ball, first: int, last: int, *, upward: bool) -> Array:
    """y of the losses i ``step``, rounded."""
    losses = np.arange(first, last + 1, dtype=np.float64) * float(step) / mu
    margin = 16.0 * UNIT * (np.abs(losses) + mu)
    found: Array = losses - mu / 2.0 + (margin if upward else -margin)
    return found


def _rule(mu: float, knots: Array) -> int | None:
    """How many nodes are enough; None where cells are too wide, or too far out."""
    widths = np.diff(knots)
    if not (np.all(np.isfinite(knots)) and len(widths) and np.all(widths > 0.0) and np.abs(knots).max() <= FARTHEST):
        return None
    wide = float(np.max(widths * (np.maximum(np.abs(knots[1:]), np.abs(knots[:-1])) + mu + 6.0)))
    return next((nodes for nodes, most in RULES if wide <= most), None)


class _Cells(NamedTuple):
    """``weights``: of φ at each node of each cell; all of a cell times ``height`` is its P-mass."""

    low: Array
    high: Array
    centre: Array
    height: Array
    weights: Array
    nodes: Array

    @staticmethod
    def of(ends: Array, nodes: int) -> _Cells:
        low, high = ends[:-1], ends[1:]
        centre = (low + high) / 2.0
        at, weights = legendre(nodes)
        at, weights = (1.0 + at) / 2.0, weights / 2.0
        aside = (low - centre)[:, None] + (high - low)[:, None] * at
        height = np.exp(-centre * centre / 2.0) * (high - low) / math.sqrt(2.0 * math.pi)
        return _Cells(low, high, centre, height, weights * np.exp(-aside * (centre[:, None] + aside / 2.0)), at)

    def mass(self) -> Array:
        found: Array = self.height * self.weights.sum(axis=1)
        return found

    def above(self, mu: float, knots: Array) -> Array:
        """D of each cell, relative to its mass and over μ: how far its mean loss is above that of its knot, in y."""
        aside = (self.low - knots)[:, None] + (self.high - self.low)[:, None] * self.nodes
        found: Array = (self.weights * -np.expm1(-mu * aside)).sum(axis=1) / self.weights.sum(axis=1) / mu
        return found


def split(mu: float, knots: Array) -> tuple[Array, float] | None:
    """P-masses on the knots that dominate the pair, and on +inf, rounded up; what is below goes to the first one."""
    nodes = _rule(mu, knots)
    if nodes is None:
        return None
    cells = _Cells.of(knots, nodes)
    widths = cells.high - cells.low
    right = (cells.weights * np.expm1(-mu * widths[:, None] * cells.nodes)).sum(axis=1) / np.expm1(-mu * widths)
    left = (cells.weights * np.expm1(mu * widths[:, None] * (1.0 - cells.nodes))).sum(axis=1) / np.expm1(mu * widths)
    masses = np.append(cells.height * left, 0.0) + np.append(0.0, cells.height * right)
    masses[0] += up(normal_tail(arb(-float(knots[0]))))
    return masses * (1.0 + CHARGE) + FLOOR, up(normal_tail(arb(float(knots[-1]))))


def grouped(mu: float, knots: Array) -> Array | None:
    """P-masses on the knots that the pair dominates, rounded down."""
    nodes = _rule(mu, knots)
    if nodes is None or len(knots) < 3:
        return None
    half = float(np.mean(np.diff(knots))) / 2.0
    ends = np.append(knots - half, knots[-1] + half)
    nodes = _rule(mu, ends)
    if nodes is None:
        return None
    for _ in range(ROUNDS):
        above = _Cells.of(ends, nodes).above(mu, knots)
        ends = ends - _between(above)
        if float(np.abs(above).max()) <= SETTLED * half:
            break
    error = AMISS * half
    lacking = np.maximum(2.0 * error - _Cells.of(ends, nodes).above(mu, knots), 0.0)
    ends = ends + np.maximum(np.append(lacking, 0.0), np.append(0.0, lacking))
    if _rule(mu, ends) != nodes:
        return None
    cells = _Cells.of(ends, nodes)
    masses = np.maximum(cells.mass() * (1.0 - CHARGE) - FLOOR, 0.0)
    near = np.abs(cells.centre - knots) <= (cells.high - cells.low) / 2.0
    certain = near & (cells.above(mu, knots) >= error * np.maximum((cells.high - cells.low) / half / 2.0, 1.0))
    masses[-1] += down(normal_tail(arb(float(ends[-1])))) if certain[-1] else 0.0
    lower = ~certain & (cells.low >= np.append(math.inf, knots[:-1]))
    kept = np.where(certain, masses, 0.0)
    kept[:-1] += np.where(lower, masses, 0.0)[1:]
    return kept * (1.0 - 4.0 * UNIT)


def tails(mu: float, losses: Array, amiss: Array) -> tuple[Array, Array, Array]:
    """P and log Q of the losses above each, known to ``amiss``, and the relative errors of P and Q.

    The tail at z, off by dz, is off by (|z| + 2) dz of itself at most, as φ/Φ(-z) < z + 2; ``log_ndtr`` is trusted to
    2^-40 of its own size and of 1 (a test holds both against balls over the whole range).
    """
    from scipy.special import log_ndtr

    near = losses / mu - mu / 2.0
    log_p, log_q = log_ndtr(-near), log_ndtr(-(near + mu))
    moved = amiss / mu + 8.0 * UNIT * (np.abs(losses) / mu + mu)
    error = moved * (np.abs(near) + mu + 2.0) + LIBM * (4.0 - log_p - log_q)
    return np.exp(log_p), log_q, error


def _between(values: Array) -> Array:
    """At the ends of cells, from what is in them: means, so that neighbours' sum leaves a second difference."""
    first, last = 1.5 * values[0] - 0.5 * values[1], 1.5 * values[-1] - 0.5 * values[-2]
    return np.concatenate([[first], (values[1:] + values[:-1]) / 2.0, [last]])
