"""Both sides of what a recursion found, alone or beside what runs first: what they say of δ at ε, and of ε at δ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from affidavit.accountant.methods.base import LARGEST_EPSILON, Bracket, certain_delta
from affidavit.accountant.methods.discrete import DiscreteProfile
from affidavit.accountant.rounding import RECURSION

if TYPE_CHECKING:
    from affidavit.accountant.methods.pair_profiles import Parts
    from affidavit.accountant.pld.curve import Curve, Direction

__all__ = ["Composed", "Sides"]


@dataclass(frozen=True, slots=True)
class Composed:
    """Mechanisms that run first, and the pair of the exponential ones, from one side."""

    parts: Parts
    is_upper: bool
    tolerance: float

    @classmethod
    def of(cls, others: Parts, curve: Curve, *, is_upper: bool, tolerance: float) -> Composed:
        from affidavit.accountant.pld.curve import Direction, OneStep

        def way(direction: Direction) -> Direction | None:
            side = direction.upper if is_upper else direction.lower
            return None if side is None else Direction(side, None if is_upper else side)

        both = ((way(step.forward), way(step.backward), count) for step, count in others)
        parts = [(OneStep(forward, backward), count) for forward, backward, count in both if forward and backward]
        own = Direction(curve, None if is_upper else curve)
        return cls((*parts, (OneStep(own, own), 1)), is_upper, tolerance)

    def delta(self, epsilon: float) -> float:
        """δ at ``epsilon``."""
        from affidavit.accountant.pld.engine import delta_bracket

        return delta_bracket(self.parts, epsilon=epsilon, tolerance=self.tolerance)[self.is_upper]

    def epsilon(self, delta: float) -> float:
        """ε at ``delta``."""
        return _epsilon(self, delta) * (1.0 + (RECURSION if self.is_upper else -RECURSION))


@lru_cache(maxsize=64)
def _epsilon(composed: Composed, delta: float) -> float:
    from affidavit.accountant.pld.engine import epsilon_bracket

    return epsilon_bracket(composed.parts, delta=delta, tolerance=composed.tolerance)[composed.is_upper]


@dataclass(frozen=True, slots=True)
class Sides:
    """Both profiles of all that runs, whose losses together are ``most`` at most.

    At ``most`` the places of a lattice may be rounded to say that there is more.
    """

    lower: DiscreteProfile | Composed
    upper: DiscreteProfile | Composed
    most: float = math.inf

    def delta(self, epsilon: float) -> Bracket:
        """Both sides at ``epsilon``."""
        return Bracket(self._lower(epsilon), self._upper(epsilon))

    def epsilon(self, delta: float, *, near: float, close: float = RECURSION) -> Bracket:
        """Where each side falls to ``delta``, each safe by itself; the search begins ``near`` an ε."""
        from affidavit.accountant.pld.inverse import inverse

        def root(which: int) -> float:
            side, at = ((self.lower, self._lower), (self.upper, self._upper))[which]
            if isinstance(side, Composed):
                return side.epsilon(delta)

            def both(epsilon: float) -> tuple[float, float]:
                return (found := at(epsilon)), found

            return inverse(both, delta, furthest=LARGEST_EPSILON, near=max(near, 1e-9), close=close)[which]

        return Bracket(root(0), root(1))

    def _lower(self, epsilon: float) -> float:
        found = self.lower.delta(epsilon) * (1.0 - RECURSION) if epsilon < self.most * (1.0 - RECURSION) else 0.0
        return max(certain_delta(epsilon), found)

    def _upper(self, epsilon: float) -> float:
        return max(certain_delta(epsilon), min(1.0, self.upper.delta(epsilon) * (1.0 + RECURSION)))
