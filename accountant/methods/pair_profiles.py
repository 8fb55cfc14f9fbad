"""Profiles of mechanisms that have one dominating pair each, as vectorised functions of ε: what a recursion ends with.

They are composed by the PLD engine, one direction and side at a time, when it is first asked for. The slope
S = −dδ/dε = e^ε Q(L > ε), which the adaptive recursion carries, is a sum likewise.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.methods.base import Target

if TYPE_CHECKING:
    from affidavit.accountant.pld.curve import OneStep
    from affidavit.accountant.pld.discretise import Side
    from affidavit.accountant.pld.nested import Law

    Parts = tuple[tuple[OneStep, int], ...]

__all__ = ["Last"]

Array = NDArray[np.float64]
Way = Literal["forward", "backward"]

ROUNDING, ROUGH = 1e-11, 0.1
"""Relative; how well δ must be known by which one of two directions is chosen."""


class Last:
    """What runs after all exponential steps (H_0): anything with dominating pairs, as the PLD engine composes it.

    With masses p_i at losses l_i, δ(ε) = p_∞ + Σ_{l_i > ε} p_i (1 − e^{ε − l_i}): two sums from the right, all of
    positive terms, so that each is known to ``ROUNDING`` of P(L > ε). The larger upper side of both directions; the
    lower side of the one that costs more ``near`` an ε: a mean over what runs beside must be of one pair of data sets.
    """

    def __init__(self, parts: Parts, target: Target, *, near: float) -> None:
        self._parts, self._small = parts, math.log(max(target.delta or 1e-12, 1e-280)) - 15.0
        symmetric = all(step.symmetric for step, _ in parts)
        self._ways: tuple[Way, ...] = ("forward",) if symmetric else ("forward", "backward")
        self._costliest = self._ways[0] if symmetric else max(self._ways, key=lambda way: _cost(parts, way, near))

    def upper(self, epsilon: Array) -> Array:
        """At or above δ."""
        result = np.zeros_like(epsilon)
        for way in self._ways:
            law = _sums(self._parts, way, "upper", self._small)
            above, scaled = law.at(epsilon)
            result = np.maximum(result, law.infinite + above * (1.0 + ROUNDING) - scaled)
        return np.minimum(1.0, result)

    def lower(self, epsilon: Array) -> Array:
        """At or below δ."""
        law = _sums(self._parts, self._costliest, "lower", self._small)
        above, scaled = law.at(epsilon)
        return np.maximum(0.0, law.infinite + above * (1.0 - ROUNDING) - scaled)

    def lower_slope(self, epsilon: Array) -> Array:
        """−dδ/dε of the lower side."""
        return _sums(self._parts, self._costliest, "lower", self._small).at(epsilon)[1]


class _Sums:
    """Σ_{l_i > ε} p_i and Σ_{l_i > ε} p_i e^{ε − l_i} for arrays of ε."""

    def __init__(self, law: Law) -> None:
        self.infinite = law.infinity
        self._losses = law.losses
        self._above = np.append(np.cumsum(law.masses[::-1])[::-1], 0.0)
        # Each sum in units of its own first term, so that nothing under- or overflows. The losses are evenly spaced:
        # sums of 1, 2, 4, ... terms.
        weight = math.exp(-(law.losses[-1] - law.losses[0]) / max(law.losses.size - 1, 1))
        scaled, terms = law.masses.copy(), 1
        while terms < scaled.size and weight > 0.0:
            scaled[:-terms] += weight * scaled[terms:]
            terms, weight = 2 * terms, weight * weight
        self._scaled = np.append(scaled, 0.0)

    def at(self, epsilon: Array) -> tuple[Array, Array]:
        """Both sums."""
        first = np.searchsorted(self._losses, epsilon, side="right")
        nearest = self._losses[np.minimum(first, self._losses.size - 1)]
        return self._above[first], self._scaled[first] * np.exp(np.minimum(epsilon - nearest, 0.0))


@lru_cache(maxsize=8)
def _sums(parts: Parts, direction: Way, side: Side, log_nothing: float) -> _Sums:
    from affidavit.accountant.pld.engine import composed_losses

    return _Sums(composed_losses(parts, direction=direction, side=side, log_nothing=log_nothing))


def _cost(parts: Parts, way: Way, epsilon: float) -> float:
    """About δ at ``epsilon`` in one direction."""
    from affidavit.accountant.pld.curve import OneStep
    from affidavit.accountant.pld.engine import delta_bracket

    steps = [(OneStep(getattr(step, way), getattr(step, way)), count) for step, count in parts]
    return delta_bracket(steps, epsilon=epsilon, tolerance=ROUGH)[0]
