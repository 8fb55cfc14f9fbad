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
from affidavit.accountant.methods.recursion import Last

if TYPE_CHECKING:
    from affidavit.accountant.pld.curve import Direction, OneStep
    from affidavit.accountant.pld.discretise import Side
    from affidavit.accountant.pld.nested import Law

    Parts = tuple[tuple[OneStep, int], ...]

__all__ = ["ComposedProfile", "fixed_profile"]

Array = NDArray[np.float64]

ROUGH = 0.1
"""How well δ must be known by which one of two directions is chosen."""


class ComposedProfile:
    """Anything with dominating pairs, in one direction, as the PLD engine composes it.

    With masses p_i at losses l_i, δ(ε) = p_∞ + Σ_{l_i > ε} p_i (1 − e^{ε − l_i}): two sums from the right, all of
    positive terms, so that each is known to ``_ROUNDING`` of P(L > ε).
    """

    _ROUNDING = 1e-11

    def __init__(self, parts: Parts, target: Target, *, direction: Literal["forward", "backward"]) -> None:
        small = math.log(max(target.delta or 1e-12, 1e-280)) - 15.0
        self._sums = lambda side: _sums(parts, direction, side, small)

    def upper(self, epsilon: Array) -> Array:
        law = self._sums("upper")
        above, scaled = law.at(epsilon)
        return np.minimum(1.0, law.infinite + above * (1.0 + self._ROUNDING) - scaled)

    def lower(self, epsilon: Array) -> Array:
        law = self._sums("lower")
        above, scaled = law.at(epsilon)
        return np.maximum(0.0, law.infinite + above * (1.0 - self._ROUNDING) - scaled)

    def lower_slope(self, epsilon: Array) -> Array:
        return self._sums("lower").at(epsilon)[1]


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
def _sums(parts: Parts, direction: Literal["forward", "backward"], side: Side, log_nothing: float) -> _Sums:
    from affidavit.accountant.pld.engine import composed_losses

    return _Sums(composed_losses(parts, direction=direction, side=side, log_nothing=log_nothing))


class LargerProfile:
    """Both directions of a composition: the larger upper side everywhere, the lower side of the one that costs more."""

    def __init__(self, parts: Parts, target: Target, *, near: float) -> None:
        self._both = tuple(ComposedProfile(parts, target, direction=way) for way in ("forward", "backward"))
        costs = (_cost(tuple((getattr(step, way), n) for step, n in parts), near) for way in ("forward", "backward"))
        self._lower = max(zip(costs, self._both, strict=True), key=lambda direction: direction[0])[1]

    def upper(self, epsilon: Array) -> Array:
        one, other = (direction.upper(epsilon) for direction in self._both)
        return np.maximum(one, other)

    def lower(self, epsilon: Array) -> Array:
        """Of one direction: a mean over what runs beside it must be over one pair of data sets."""
        return self._lower.lower(epsilon)

    def lower_slope(self, epsilon: Array) -> Array:
        return self._lower.lower_slope(epsilon)


def _cost(parts: tuple[tuple[Direction, int], ...], epsilon: float) -> float:
    """About δ at ``epsilon`` in one direction."""
    from affidavit.accountant.pld.curve import OneStep
    from affidavit.accountant.pld.engine import delta_bracket

    return delta_bracket([(OneStep(way, way), count) for way, count in parts], epsilon=epsilon, tolerance=ROUGH)[0]


def fixed_profile(parts: Parts, target: Target, *, near: float) -> Last:
    """The profile of the mechanisms with a dominating pair, sharp near ε = ``near``."""
    if all(step.symmetric for step, _ in parts):
        return ComposedProfile(parts, target, direction="forward")
    return LargerProfile(parts, target, near=near)
