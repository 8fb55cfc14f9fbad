"""Mechanisms with a dominating pair, run before ones that have none.

Theorem (docs/theory/exponential.md, "With other mechanisms"). Let the fixed pairs have the product loss L under P,
and let H be the hockey-stick curve of everything adaptive. If the fixed pairs run *first in time*, the adversary
sees their outcome before choosing, and the best total is δ(ε) = E_P[H(e^{ε-L})].

Order. Let V be the best value from some state on. A fixed pair met in state α turns V into
α -> E[V(α e^{-L})], an adaptive step into α -> max over t of E_t[V(α e^{-l})]. As E max >= max E, moving a fixed
pair to an earlier time never lowers the value, and moving it to a later time never raises it. Hence:
- pairs before the first step: the expectation above, exact on both sides;
- pairs after the last step: their own curve replaces H_0 as the start of the recursion, exact;
- pairs between steps: in front on the upper side, at the end on the lower side;
- parts that run side by side: all pairs in front on the upper side, which covers every interleaving.

Masses of a Gaussian are those of its lattice (``lattice``). Many losses are gathered on a grid: above, each mass is
split between the ends of its cell such that P and Q are kept, which raises every hockey-stick; below, a cell becomes
one outcome, a post-processing, whose loss is log(P/Q).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.verifier.balls import Array, Ball, ball, down, down_array, precision, up, up_array
from affidavit.accountant.verifier.bracket import Bracket
from affidavit.accountant.verifier.gaussian_cells import tails
from affidavit.accountant.verifier.lattice import LatticeMasses, from_above, from_below
from affidavit.accountant.verifier.pairs import GaussianPair
from affidavit.accountant.verifier.product import Atoms, ProductProfile
from affidavit.accountant.verifier.rounding import FLOOR, LIBM, STEP, SUM, UNIT

__all__ = [
    "NOTHING",
    "Curve",
    "Kept",
    "LossMasses",
    "MixtureProfile",
    "NoSteps",
    "begun",
    "gaussian_masses",
    "two_point_masses",
]

GAUSSIAN_CELLS, WIDE = 4_000, 1.0
"""Cells of a Gaussian, and nats beyond which one is put at its lower end, below: groups would lose all of it."""
MOST_LOSSES, CELLS, PART = 40_000, 8_000, 1 << 20
"""Losses of a product that are kept apart; cells that more are gathered in; how many are looked at together."""


Kept = Literal["both", "upper", "lower"]
"""What is asked of both sides."""
NOTHING: dict[bool, tuple[Array, Array, float]] = {
    upward: (np.zeros(1), np.zeros(1), float(upward)) for upward in (True, False)
}
"""A side that says nothing: all mass on +inf above, none below."""


@dataclass(frozen=True, slots=True)
class LossMasses:
    """A loss distribution under P seen from both sides, as float arrays.

    Upper: masses and losses rounded up, ``infinite_upper`` the mass on +inf. Lower: all rounded down;
    ``infinite_lower`` is negative where more mass may have been counted than there is.
    """

    upper_mass: Array
    upper_loss: Array
    infinite_upper: float
    lower_mass: Array
    lower_loss: Array
    infinite_lower: float = 0.0

    def gathered(self, cells: int) -> LossMasses:
        """In so many cells, or fewer losses."""
        above = _gathered((self.upper_mass, self.upper_loss), cells, upward=True)
        below = _gathered((self.lower_mass, self.lower_loss), cells, upward=False)
        return LossMasses(*above, self.infinite_upper, *below, self.infinite_lower)

    def times(self, other: LossMasses) -> LossMasses:
        """The product with an independent one."""
        return LossMasses(
            *_product((self.upper_mass, self.upper_loss), (other.upper_mass, other.upper_loss), upward=True),
            math.nextafter(self.infinite_upper + other.infinite_upper, math.inf),
            *_product((self.lower_mass, self.lower_loss), (other.lower_mass, other.lower_loss), upward=False),
            max(self.infinite_lower, other.infinite_lower, 0.0)
            + min(self.infinite_lower, 0.0)
            + min(other.infinite_lower, 0.0),
        )


Points: TypeAlias = "tuple[Array, Array]"
"""Masses and losses."""


def _product(one: Points, other: Points, *, upward: bool) -> Points:
    """Rounded up or down; gathered on a grid, a part at a time, where it would be too long."""
    if len(one[0]) * len(other[0]) <= MOST_LOSSES:
        return _outer(one, other, upward=upward)
    if not upward:
        one, other = ((masses[np.isfinite(losses)], losses[np.isfinite(losses)]) for masses, losses in (one, other))
    low, high = (pick(one[1]) + pick(other[1]) for pick in (np.min, np.max))
    grid = np.linspace(low, high, CELLS + 1)
    width = max(1, PART // len(one[0]))
    parts = (
        _outer(one, (other[0][i : i + width], other[1][i : i + width]), upward=upward)
        for i in range(0, len(other[0]), width)
    )
    return (_split if upward else _merged)(parts, grid)


def _gathered(points: Points, cells: int, *, upward: bool) -> Points:
    masses, losses = points
    kept = (masses > 0.0) & np.isfinite(losses)
    masses, losses = masses[kept], losses[kept]
    if len(losses) <= cells:
        return masses, losses
    return (_split if upward else _merged)([(masses, losses)], np.linspace(losses.min(), losses.max(), cells + 1))


def _outer(one: Points, other: Points, *, upward: bool) -> Points:
    toward = math.inf if upward else -math.inf
    masses, losses = (
        np.nextafter(f.outer(a, b).ravel(), toward) for f, a, b in zip((np.multiply, np.add), one, other, strict=True)
    )
    return np.maximum(masses, 0.0), losses


def _cells(losses: Array, grid: Array) -> NDArray[np.intp]:
    cells: NDArray[np.intp] = np.clip(np.searchsorted(grid, losses, side="right") - 1, 0, len(grid) - 2)
    return cells


def _split(parts: Iterable[Points], grid: Array) -> Points:
    """Each mass on its cell's ends, so that P and Q are kept: a convex function of e^{-loss} only rises.

    A share is off by a few units and by what the losses' last digits are of a cell. It is raised by more than both:
    that mass moves up raises what is decreasing in e^{-loss}. Sums of n terms are raised by 2n units.
    """
    total, count = np.zeros(len(grid)), 0
    widths = np.diff(grid)
    slack = 8.0 * UNIT * np.maximum(np.abs(grid[1:]), np.abs(grid[:-1])) / -np.expm1(-widths)
    for masses, losses in parts:
        cells = _cells(losses, grid)
        share = np.expm1(-np.maximum(losses - grid[cells], 0.0)) / np.expm1(-widths[cells])
        share = np.minimum(share * (1.0 + LIBM) + slack[cells], 1.0)
        for place, part in ((cells, 1.0 - share), (cells + 1, share)):
            total += np.bincount(place, masses * part * (1.0 + 4.0 * UNIT) + FLOOR, len(grid))
        count += len(masses)
    beyond = 4.0 * UNIT * max(abs(float(grid[0])), abs(float(grid[-1])))  # the largest losses, rounded up
    return total * (1.0 + 2.0 * (count + CELLS) * UNIT), grid + beyond


def _merged(parts: Iterable[Points], grid: Array) -> Points:
    """One outcome a cell: P rounded down, Q up, the loss log(P/Q)."""
    p, q, count = np.zeros(len(grid) - 1), np.zeros(len(grid) - 1), 0
    for masses, losses in parts:
        cells = _cells(losses, grid)
        p += np.bincount(cells, masses, len(p))
        # The exponent is off by a unit of its two terms; in a cell that is wide e^-loss is nothing in float64.
        q += np.bincount(cells, masses * np.exp(grid[cells] - losses) + FLOOR, len(q))
        count += len(masses)
    size = 8.0 * UNIT * (np.abs(grid[:-1]) + np.abs(grid[1:])) + LIBM
    kept, raised = p > 0.0, 2.0 * (count + CELLS) * UNIT
    p, q = p[kept] * (1.0 - raised), q[kept] * (1.0 + raised)
    return p, grid[:-1][kept] + np.log(p / q) - size[kept]


def two_point_masses(atoms: Atoms, *, keep: Kept = "both") -> LossMasses:
    """The exact product of two-point pairs (the failure becomes mass on +inf)."""
    above, below = NOTHING[True], NOTHING[False]
    with precision():
        left = 1 - atoms.failure
        masses = [left * mass for mass in atoms.masses]
        if keep != "lower":
            above = up_array(masses), up_array(atoms.losses), up(atoms.failure + left * atoms.rest)
        if keep != "upper":
            below = np.maximum(down_array(masses), 0.0), down_array(atoms.losses), max(0.0, down(atoms.failure))
    return LossMasses(*above, *below)


def gaussian_masses(mu: Ball, *, budget: float) -> LossMasses:
    """The Gaussian loss N(μ²/2, μ²) on about ``GAUSSIAN_CELLS`` cells, all but about ``budget`` of its mass."""
    with precision():
        pair, size = GaussianPair(mu), float(mu)
        middle, reach = size * size / 2, size * math.sqrt(-2 * math.log(budget))
        step = 2 * reach / GAUSSIAN_CELLS
        above = from_above(pair, ball(step), middle - reach, middle + reach)
        if step <= WIDE:
            below = from_below(pair, ball(step), middle - reach, middle + reach)
        else:
            events = [pair.above((above.first + i) * ball(step))[0] for i in range(GAUSSIAN_CELLS + 1)]
            below = LatticeMasses(above.first, tuple(one - other for one, other in pairwise(events)), ball(0))
        masses, infinite = above.upper
        losses = [(side.first + np.arange(len(side.masses))) * step for side in (above, below)]
        return LossMasses(
            masses,
            np.nextafter(losses[0], math.inf),
            infinite,
            below.lower[0],
            np.nextafter(losses[1], -math.inf),
        )


def begun(product: ProductProfile, width: Fraction, points: int, bits: int) -> tuple[Array, Array, Array]:
    """At losses i ``width``: P (at most), e^loss Q and H (at least); in floats where a Gaussian is beside the atoms."""
    atoms = product.atoms
    with precision(bits):
        if product.mu is None:
            events = [atoms.above(ball(i * width)) for i in range(points)]
            growth = [ball(i * width).exp() for i in range(points)]
            inside = np.maximum(down_array([p for p, _ in events]), 0.0)
            weight = up_array([q * g for (_, q), g in zip(events, growth, strict=True)])
            return inside, weight, up_array([p - q * g for (p, q), g in zip(events, growth, strict=True)])
        masses, losses, kept = up_array(atoms.masses), up_array(atoms.losses), 1 - atoms.failure
        least, most, surely, lost = down(kept), up(kept), max(0.0, down(atoms.lost)), up(atoms.lost)
    x = float(width) * np.arange(points)[:, None]
    amiss = 4.0 * UNIT * (np.abs(x) + np.abs(losses))
    p, log_q, error = tails(float(product.mu), x - losses, amiss)
    error += amiss + 4.0 * UNIT * (8.0 + len(losses))
    p, q = masses * p, masses * np.exp(x - losses + log_q)
    inside = least * (p * (1.0 - error)).sum(axis=1) + surely
    weight = most * (q * (1.0 + error)).sum(axis=1) + FLOOR
    upper = most * (p - q + (p + q) * error).sum(axis=1) + lost + FLOOR
    return inside * (1.0 - STEP), weight, upper * (1.0 + STEP)


class Curve(Protocol):
    """H(e^x) at any x, from both sides."""

    def upper(self, x: Array) -> Array: ...
    def lower(self, x: Array) -> Array: ...


@dataclass(frozen=True, slots=True)
class NoSteps:
    """H_0(e^x) = max(0, 1 - e^x): nothing adaptive."""

    def upper(self, x: Array) -> Array:
        return -np.expm1(np.minimum(x, 0.0)) * (1 + LIBM)

    def lower(self, x: Array) -> Array:
        return -np.expm1(np.minimum(x, 0.0)) * (1 - LIBM)


@dataclass(frozen=True, slots=True)
class MixtureProfile:
    """δ(ε) = E_P[H(e^{ε-L})], with one curve and one loss distribution (None: no loss) a side."""

    curve: Curve
    masses: LossMasses | None
    lower_curve: Curve
    lower_masses: LossMasses | None
    method: str

    def _upper(self, epsilon: float) -> float:
        if self.masses is None:
            return min(1.0, float(self.curve.upper(np.array([epsilon]))[0]))
        values = self.curve.upper(np.nextafter(epsilon - self.masses.upper_loss, -math.inf))
        total = float(np.sum(self.masses.upper_mass * values)) * (1 + SUM)
        return min(1.0, math.nextafter(total + self.masses.infinite_upper, math.inf))

    def _lower(self, epsilon: float) -> float:
        if self.lower_masses is None:
            return float(self.lower_curve.lower(np.array([epsilon]))[0])
        values = self.lower_curve.lower(np.nextafter(epsilon - self.lower_masses.lower_loss, math.inf))
        total = float(np.sum(self.lower_masses.lower_mass * values)) * (1 - SUM)
        return max(0.0, math.nextafter(total + self.lower_masses.infinite_lower, -math.inf))

    def delta(self, epsilon: float) -> Bracket:
        return Bracket(self._lower(epsilon), self._upper(epsilon))
