"""Profiles of mechanisms that have one dominating pair each, as vectorised functions of ε: what a recursion ends with.

They are composed by the PLD engine, one direction and side at a time, when it is first asked for. The slope
S = −dδ/dε = e^ε Q(L > ε), which the adaptive recursion carries, is a tail likewise.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.methods.base import Target
from affidavit.accountant.rounding import RECURSION

if TYPE_CHECKING:
    from affidavit.accountant.pld.curve import Curve, OneStep
    from affidavit.accountant.pld.discretise import Side
    from affidavit.accountant.pld.engine import Way

    Parts = tuple[tuple[OneStep, int], ...]

__all__ = ["Last"]

Array = NDArray[np.float64]

ROUGH = 0.1
"""Relative, of P(L > ε), a sum of positive terms; how well δ must be known by which one of two directions is chosen."""


class Last:
    """What runs after all exponential steps (H_0): anything with dominating pairs, as the PLD engine composes it.

    The larger upper side of both directions; the lower side of the one that costs more ``near`` an ε: a mean over what
    runs beside must be of one pair of data sets.
    """

    def __init__(self, parts: Parts, target: Target, *, near: float) -> None:
        self._parts, self._small = parts, math.log(max(target.delta or 1e-12, 1e-280)) - 15.0
        symmetric = all(step.symmetric for step, _ in parts)
        self._ways: tuple[Way, ...] = ("forward",) if symmetric else ("forward", "backward")
        self._costliest: Way = self._ways[0] if symmetric else max(self._ways, key=lambda way: _cost(parts, way, near))

    def upper(self, epsilon: Array) -> Array:
        """At or above δ."""
        sides = [self._tails(way, "upper", epsilon) for way in self._ways]
        largest: Array = np.max([above * (1.0 + RECURSION) - scaled for above, scaled in sides], axis=0)
        return np.minimum(1.0, largest)

    def lower(self, epsilon: Array) -> Array:
        """At or below δ."""
        above, scaled = self._tails(self._costliest, "lower", epsilon)
        return np.maximum(0.0, above * (1.0 - RECURSION) - scaled)

    def lower_slope(self, epsilon: Array) -> Array:
        """−dδ/dε of the lower side."""
        return self._tails(self._costliest, "lower", epsilon)[1]

    def _tails(self, way: Way, side: Side, epsilon: Array) -> tuple[Array, Array]:
        """P(L > ε), with the mass at +inf, and e^ε Q(L > ε)."""
        tails = _composed(self._parts, way, side, self._small).logs(epsilon)
        return np.exp(tails.p_tail), np.exp(np.minimum(epsilon + tails.q_tail, 0.0))


@lru_cache(maxsize=8)
def _composed(parts: Parts, way: Way, side: Side, log_nothing: float) -> Curve:
    from affidavit.accountant.pld.engine import one_way
    from affidavit.accountant.pld.nested import composed_curve

    upper, lower = one_way(parts, way)
    return composed_curve(upper if side == "upper" else lower, side=side, log_nothing=log_nothing, ordered=True)


def _cost(parts: Parts, way: Way, epsilon: float) -> float:
    """About δ at ``epsilon`` in one direction."""
    from affidavit.accountant.pld.curve import OneStep
    from affidavit.accountant.pld.engine import delta_bracket

    steps = [(OneStep(getattr(step, way), getattr(step, way)), count) for step, count in parts]
    return delta_bracket(steps, epsilon=epsilon, tolerance=ROUGH)[0]
