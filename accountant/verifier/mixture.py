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

Upper masses come from connecting the dots (Doroshenko et al. 2022, Theorem 4.1): the P- and Q-mass of each lattice
interval are split between its ends such that both are kept, which raises every hockey-stick; what lies
above the lattice becomes +inf. Lower masses merge each interval into one outcome, a post-processing,
whose loss is log(P/Q); what lies outside is dropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.verifier.balls import (
    Array,
    Ball,
    ball,
    down,
    down_array,
    normal_tail,
    precision,
    up,
    up_array,
)
from affidavit.accountant.verifier.bracket import Sides
from affidavit.accountant.verifier.exponential_use import LIBM
from affidavit.accountant.verifier.product import Atoms

__all__ = ["Curve", "LossMasses", "MixtureProfile", "NoSteps", "gaussian_masses", "two_point_masses"]

GAUSSIAN_CELLS = 4_000
MAX_PRODUCT = 4_000_000
SUM = 1e-9
"""Relative allowance for summing up to 4e6 non-negative floats, each sum off by 2^-53."""


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

    def times(self, other: LossMasses) -> LossMasses:
        """The product with an independent one."""
        if len(self.upper_mass) * len(other.upper_mass) > MAX_PRODUCT:
            raise NotSupported(
                "Gaussian, pure and exponential mechanisms together: the mixture has too many losses",
                hint="state the pure mechanisms as one zcdp leaf, rho = uses x epsilon^2 / 2, or fewer uses",
            )

        def outer(f: np.ufunc, a: Array, b: Array, direction: float) -> Array:
            combined: Array = np.nextafter(f.outer(a, b).ravel(), direction)
            return combined

        return LossMasses(
            outer(np.multiply, self.upper_mass, other.upper_mass, math.inf),
            outer(np.add, self.upper_loss, other.upper_loss, math.inf),
            math.nextafter(self.infinite_upper + other.infinite_upper, math.inf),
            np.maximum(outer(np.multiply, self.lower_mass, other.lower_mass, -math.inf), 0.0),
            outer(np.add, self.lower_loss, other.lower_loss, -math.inf),
            max(self.infinite_lower, other.infinite_lower, 0.0)
            + min(self.infinite_lower, 0.0)
            + min(other.infinite_lower, 0.0),
        )


def two_point_masses(atoms: Atoms) -> LossMasses:
    """The exact product of two-point pairs (the failure becomes mass on +inf)."""
    with precision():
        kept = 1 - atoms.failure
        masses = [kept * mass for mass in atoms.masses]
        return LossMasses(
            up_array(masses),
            up_array(atoms.losses),
            up(atoms.failure + kept * atoms.rest),
            np.maximum(down_array(masses), 0.0),
            down_array(atoms.losses),
            max(0.0, down(atoms.failure)),
        )


def gaussian_masses(mu: Ball, *, budget: float) -> LossMasses:
    """The Gaussian loss N(μ²/2, μ²) on ``GAUSSIAN_CELLS`` intervals, all but about ``budget`` of its mass."""
    with precision():
        reach = mu * math.sqrt(-2 * math.log(budget))
        step = ball(up(2 * reach / GAUSSIAN_CELLS))
        bottom = ball(up(mu * mu / 2 - reach))
        losses = [bottom + i * step for i in range(GAUSSIAN_CELLS + 1)]
        p_tail = [normal_tail(loss / mu - mu / 2) for loss in losses]
        q_tail = [normal_tail(loss / mu + mu / 2) for loss in losses]
        p_cells = [a - b for a, b in pairwise(p_tail)]
        q_cells = [a - b for a, b in pairwise(q_tail)]
        shrink = 1 - (-step).exp()
        upper = [ball(0)] * len(losses)
        upper[0] = 1 - p_tail[0]
        for i, (p, q) in enumerate(zip(p_cells, q_cells, strict=True)):
            right = (p - losses[i].exp() * q) / shrink
            upper[i] += p - right
            upper[i + 1] += right
        return LossMasses(
            np.maximum(up_array(upper), 0.0),
            up_array(losses),
            up(p_tail[-1]),
            np.maximum(down_array(p_cells), 0.0),
            down_array([(p / q).log() for p, q in zip(p_cells, q_cells, strict=True)]),
        )


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

    def delta(self, epsilon: float) -> Sides:
        return self._lower(epsilon), self._upper(epsilon)
