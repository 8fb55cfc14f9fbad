r"""One-step privacy curves, one direction of a pair of output laws (P, Q) at a time.

The *loss* is L = ln dP/dQ. Everything the engine needs of a pair is the law of L under P and
under Q, which :meth:`Curve.logs` returns as logarithms of tails (L > l) *and* of heads
(L <= l), so that both ends keep their relative accuracy down to 1e-300. The hockey-stick
divergence, hence the privacy profile of one use, is

    δ(ε) = P(L > ε) − e^ε Q(L > ε).

A pair *dominates* a mechanism if its profile is at least the mechanism's for every ε in
(−∞, ∞) and every ordered pair of neighbours; dominating pairs compose (Zhu, Dong, Wang 2022,
theorem 10). The two orders of neighbours are two directions and never mixed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.rounding import ULP

__all__ = ["Array", "Curve", "Direction", "FullLoss", "Logs", "NoLoss", "OneStep", "Swapped", "ever", "log_complement"]

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Logs(NamedTuple):
    """Natural logarithms of the four tails at given losses; arrays of one shape."""

    p_tail: Array  # ln P(L > l), with the mass at +inf
    q_tail: Array  # ln Q(L > l)
    p_head: Array  # ln P(L <= l)
    q_head: Array  # ln Q(L <= l), with Q's mass at -inf

    def ended(self, before: Flags, after: Flags) -> Logs:
        """With all mass above the losses in ``before``, and none above those in ``after``."""
        nothing = (-math.inf, -math.inf, 0.0, 0.0)
        ends = zip(self, (0.0, 0.0, -math.inf, -math.inf), nothing, strict=True)
        return Logs(*(np.where(after, last, np.where(before, first, part)) for part, first, last in ends))

    @classmethod
    def reflected(cls, negative: Flags, p_tail: Array, q_tail: Array) -> Logs:
        """Of a loss with one law in both orders, from its tails at |l|: P(L <= −l) is Q(L >= l)."""
        p_head, q_head = log_complement(p_tail), log_complement(q_tail)
        swapped = (q_head, p_tail), (p_head, q_tail), (q_tail, p_head), (p_tail, q_head)
        return cls(*(np.where(negative, below, above) for below, above in swapped))


def ever(chances: Iterable[tuple[float, int]]) -> float:
    """1 − Π (1 − p)^n: that something of chance p happens, in n tries of each."""
    return -math.expm1(math.fsum(n * (math.log1p(-p) if p < 1.0 else -math.inf) for p, n in chances if n))


def log_complement(log_mass: Array) -> Array:
    """ln(1 − e^x) for x <= 0, accurate at both ends."""
    with np.errstate(divide="ignore"):
        x = np.minimum(log_mass, 0.0)
        return np.where(x > -math.log(2.0), np.log(-np.expm1(x)), np.log1p(-np.exp(x)))


class Curve(ABC):
    """The law of the loss of one ordered pair (P, Q).

    ``low`` and ``high`` enclose the finite losses (may be infinite), ``infinity`` is P's mass at
    loss +inf, ``bottom`` Q's mass at loss −inf as far as it is certain, ``atoms`` are the finite
    losses of positive probability as far as the grid should put a point on them.

    ``convex`` is False for an upper bound on a profile that is not a profile itself; its "tails"
    then need not fall, and its convex minorant is what counts. ``accuracy`` is the relative error
    of the tails beyond that of float64 functions. ``polygon`` is True if all finite losses are
    atoms on one lattice: a grid through them is exact. ``symmetric``: the loss has the same law in the other order.
    """

    low: float = -math.inf
    high: float = math.inf
    infinity: float = 0.0
    bottom: float = 0.0
    atoms: tuple[float, ...] = ()
    convex: bool = True
    accuracy: float = 0.0
    polygon: bool = False
    symmetric: bool = False

    @abstractmethod
    def logs(self, loss: Array) -> Logs:
        """Tails and heads at ``loss`` (finite or ±inf)."""

    def delta(self, epsilon: float) -> tuple[float, float]:
        """δ(ε) of one use as (lower, upper)."""
        lower, upper = self.deltas(np.array([epsilon]))
        return float(lower[0]), float(upper[0])

    def deltas(self, epsilon: Array) -> tuple[Array, Array]:
        """The same at several ε: the float64 values, widened by their rounding errors."""
        at = self.logs(epsilon)
        p, q = np.exp(at.p_tail), np.exp(np.minimum(epsilon + at.q_tail, 0.0))
        slack = 8.0 * ULP * (p * (4.0 + _size(at.p_tail)) + q * (4.0 + _size(at.q_tail) + np.abs(epsilon)))
        slack += self.accuracy * (p + q)
        # Nothing but the mass at +inf is above the largest loss.
        left = np.where(epsilon >= self.high, 0.0, p - q)
        slack = np.where(epsilon >= self.high, 0.0, slack)
        return np.maximum(left - slack, self.infinity), np.minimum(np.maximum(left + slack, self.infinity), 1.0)

    def swapped(self) -> Curve:
        """The same pair in the other order, (Q, P)."""
        return self if self.symmetric else Swapped(self)


def _size(log_mass: Array) -> Array:
    return np.where(np.isfinite(log_mass), np.abs(log_mass), 0.0)


class Swapped(Curve):
    """The pair (Q, P): its loss is −L, and P and Q change places."""

    def __init__(self, curve: Curve) -> None:
        self.curve, self.accuracy, self.polygon, self.convex = curve, curve.accuracy, curve.polygon, curve.convex
        self.low, self.high = -curve.high, -curve.low
        self.infinity, self.bottom = curve.bottom, curve.infinity
        self.atoms = tuple(sorted(-atom for atom in curve.atoms))

    def logs(self, loss: Array) -> Logs:
        # -L > l is L < -l, that is, L <= the next float below -l.
        with np.errstate(over="ignore"):  # the last one is followed by -inf
            below = self.curve.logs(np.nextafter(-loss, -math.inf))
        return Logs(below.q_head, below.p_head, below.q_tail, below.p_tail)

    def swapped(self) -> Curve:
        return self.curve


class NoLoss(Curve):
    """P = Q: nothing is released. The loss is 0 with certainty."""

    symmetric = True
    low = 0.0
    high = 0.0
    atoms = (0.0,)

    def logs(self, loss: Array) -> Logs:
        return Logs(loss, loss, loss, loss).ended(loss < 0.0, loss >= 0.0)


class FullLoss(Curve):
    """Disjoint P and Q: everything is released. The loss is +inf with certainty."""

    symmetric = True
    high = -math.inf
    infinity = 1.0
    bottom = 1.0

    def logs(self, loss: Array) -> Logs:
        never = np.full_like(loss, -math.inf)
        always = np.zeros_like(loss)
        return Logs(always, never, never, always)


@dataclass(frozen=True, slots=True)
class Direction:
    """One order of neighbours.

    ``upper`` dominates the mechanism. ``lower``, if not None, is a pair that the mechanism (or
    an explicit mechanism of the declared kind) attains: what it composes to is reached.
    """

    upper: Curve
    lower: Curve | None

    def through(self, change: Callable[[Curve], Curve]) -> Direction:
        """Both curves changed; what is attained stays one object."""
        upper = change(self.upper)
        if self.lower is None:
            return Direction(upper, None)
        return Direction(upper, upper if self.lower is self.upper else change(self.lower))


_NO_LOSS = NoLoss()


@dataclass(frozen=True, slots=True)
class OneStep:
    """What one use costs, both orders of neighbours.

    ``forward`` is (record present, record absent or replaced), ``backward`` the reverse. For a
    symmetric mechanism the two are the same object, and the engine composes once.
    """

    forward: Direction
    backward: Direction

    @property
    def symmetric(self) -> bool:
        """Whether one composition answers for both directions."""
        return self.forward is self.backward

    @property
    def tight(self) -> bool:
        """Whether the lower side is the dominating pair itself, in both directions."""
        return self.forward.lower is self.forward.upper and self.backward.lower is self.backward.upper

    def each(self, change: Callable[[Direction], Direction]) -> OneStep:
        """Both directions changed; one that answers for both is changed once."""
        forward = change(self.forward)
        return OneStep(forward, forward if self.symmetric else change(self.backward))

    @property
    def least(self) -> OneStep:
        """The lower side alone: what it costs at most is said elsewhere."""
        return self.each(lambda one: Direction(_NO_LOSS, one.lower))

    @property
    def reached(self) -> OneStep:
        """The pairs that are attained, by themselves; those of nothing released where none is known."""
        return self.each(lambda one: Direction(one.lower or _NO_LOSS, one.lower or _NO_LOSS))

    @classmethod
    def attained(cls, curve: Curve, *, symmetric: bool = False) -> OneStep:
        """A dominating pair that is attained; ``symmetric`` if its loss has one law in both orders."""
        return cls.dominated(curve, lower=curve, symmetric=symmetric)

    @classmethod
    def dominated(cls, curve: Curve, *, lower: Curve | None = None, symmetric: bool = False) -> OneStep:
        """A dominating pair; ``lower`` is a pair that is attained, None if none is known."""
        forward = Direction(curve, lower)
        return cls(forward, forward if symmetric else forward.through(lambda one: one.swapped()))
