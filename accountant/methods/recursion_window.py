"""The corridor of losses that matter in the adaptive recursion, and moment bounds.

The recursion (``recursion``) starts from H_0 and ends with H_T at α = e^ε. The corridor holds at each step the losses
that the uses still to come can reach, as far as they are likely to. It decides how narrow the result is, never whether
it is valid: outside, the recursion continues both sides by bounds that hold for every x = ln α. On the upper side that
is, for any λ > 0,

    H_k(α) <= E_P[(1 − α e^{−L})₊] <= e^{λ(λ+1)ρ_k} α^{−λ} λ^λ / (1 + λ)^{1+λ},

because (1 − 1/y)₊ <= y^λ λ^λ/(1+λ)^{1+λ} for y > 0 (the conversion of Canonne, Kamath and Steinke 2020), and because
the loss L of a mechanism of bounded range η has, for every λ > 0,

    E_P[e^{λL}] <= e^{λ(λ+1) η²/8}

(bounded range η implies η²/8-zCDP: Cesar and Rogers 2021, Lemma 3.4), adaptively composed by adding: ρ_k is Σ η²/8 of
the k last uses (Bun and Steinke 2016, Lemma 2.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import NDArray

    Array = NDArray[float64]

__all__ = ["Corridor", "Runs", "whole"]

Runs = Sequence[tuple[float, int]]
"""(range, uses) in the order of execution. Of equal arguments a corridor is one object: recursions are kept by it."""

ROUNDING = 1e-13


@dataclass(frozen=True, slots=True, eq=False)
class Corridor:
    """Lattice points ``low[k]`` to ``high[k]``, at spacing ``spacing``, for k = 0 … T uses still to come.

    ``concentrated[k]`` is ρ_k of the exponential uses; ``alone`` says that nothing else runs after them, so that the
    moment bound holds. ``slope`` is about −d ln δ/dε at the answer: how fast the functions of the recursion fall.
    """

    spacing: float
    low: NDArray[int64]
    high: NDArray[int64]
    concentrated: Array
    alone: bool
    slope: float

    @property
    def points(self) -> int:
        """Lattice points of all steps together: what the recursion's time is proportional to."""
        return int((self.high - self.low + 1).sum())

    def tail(self, k: int, x: float) -> tuple[float, float]:
        """(c, λ) with H_k(e^y) <= e^{c − λ y} for every y, good near ``x``; λ = 0 if nothing is known."""
        rho = float(self.concentrated[k]) * (1.0 + 1e-12)
        if not self.alone or rho <= 0.0 or x <= rho:
            return 0.0, 0.0
        # A value of λ near the best one; any λ > 0 is valid.
        rate = (x - rho) / (2.0 * rho)
        terms = rate * (rate + 1.0) * rho, rate * math.log(rate), -(1.0 + rate) * math.log1p(rate)
        return sum(terms) + ROUNDING * (1.0 + sum(map(abs, terms))), rate


def _cumulative(runs: Runs) -> tuple[Array, Array]:
    """ρ_k = Σ η²/8 and Σ η over the last k uses, k = 0 … T."""
    import numpy as np

    ranges = np.array([eta for eta, _ in reversed(runs)])
    steps = np.repeat(ranges, [uses for _, uses in reversed(runs)])
    return (
        np.concatenate(([0.0], np.cumsum(steps * steps / 8.0))),
        np.concatenate(([0.0], np.cumsum(steps))),
    )


@lru_cache(maxsize=32)
def whole(runs: Runs, spacing: float, *, width: float, bounded: bool, slope: float) -> Corridor:
    """The same window −``width`` … ``width`` at every step; if ``bounded``, from 0 to what the uses can reach."""
    import numpy as np

    rho, reach = _cumulative(runs)
    lows, highs = np.full(len(rho), -width - spacing), np.full(len(rho), width + spacing)
    if bounded:
        lows, highs = np.zeros(len(rho)), np.minimum(highs, reach + spacing)
    low = np.floor(lows / spacing).astype(np.int64)
    high = np.maximum(np.ceil(highs / spacing).astype(np.int64), low + 1)  # two points at least
    return Corridor(spacing, low, high, rho, bounded, slope)
