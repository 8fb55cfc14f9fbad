"""Adaptive exponential mechanisms, upper side: the envelope of secants of a call price.

Let M be the likelihood ratio P/Q of what was released so far. Under Q it is a martingale, and a use
of bounded range η multiplies it by a factor whose support has ratio at most E = e^η between its
largest and smallest value (Durfee and Rogers 2019, Definition 3.1). Write V_k(m) for the largest
E_Q (m M_k − 1)₊ that k adaptive uses can reach; then δ(ε) = e^ε V_T(e^{−ε}) and

    V_0(m) = (m − 1)₊,     V_k(m) = sup over a of the secant of V_{k−1} through a and aE, taken at m,

because the factor that spreads m to two values a <= m <= aE is the most spread one in convex order
(all others of range η have smaller E of every convex function). V_k is convex, V_k(m) >= m − 1, and
V_k(m)/m increases. So V_k is the upper envelope of the secants of log-width η.

Nodes m_i = e^{x_i} with any spacing h. Between nodes V_{k−1} is replaced by its chords, left of the
first node by the ray through the origin, right of the last by slope 1: all lie above it. While a
stays in one cell and aE in one (not necessarily aligned) cell, both ends of the secant move on
straight lines, and its height at m is c₀ − c₁ u − c₂/u in u = a/m_c: concave, so its maximum is
explicit. The step takes the largest over all cells, hence the supremum over all a. Values are stored
as V/m, which lies in [0, 1] and keeps its relative accuracy where it is small.

Rounding: each step forms convex combinations of non-negative numbers (relative error below 64u); an
inexact u lowers the value only to second order. ``_ALLOWANCE`` per step covers both many times over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from affidavit.accountant.recompute.atoms import AtomicLaw

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["CallPrice", "envelope", "nodes"]

_ALLOWANCE = 1e-13


@dataclass(frozen=True, slots=True)
class CallPrice:
    """An upper bound of V(m)/m at the nodes ``x`` = log m (uniform)."""

    x: Array
    ratio: Array

    def delta(self, epsilon: float) -> float:
        """δ_upper(ε) = V(m)/m at m = e^{−ε}, on the chord between nodes."""
        at = -epsilon
        if at <= self.x[0]:
            return float(self.ratio[0])
        if at >= self.x[-1]:
            return min(1.0, 1.0 - (1.0 - float(self.ratio[-1])) * math.exp(float(self.x[-1]) - at))
        c = min(int(np.searchsorted(self.x, at, side="right")) - 1, len(self.x) - 2)
        step = float(self.x[c + 1] - self.x[c])
        u = math.exp(at - float(self.x[c]))
        g = math.exp(step)
        near, far = float(self.ratio[c]), float(self.ratio[c + 1])
        return ((g - u) * near + (u - 1.0) * g * far) / ((g - 1.0) * u) * (1.0 + _ALLOWANCE)

    def law(self) -> AtomicLaw:
        """The loss whose call price is the chord function: P-mass at −x_i = change of slope at m_i."""
        g = math.exp(float(self.x[1] - self.x[0]))
        slopes = (g * self.ratio[1:] - self.ratio[:-1]) / (g - 1.0)
        slopes = np.concatenate(([self.ratio[0]], np.minimum(slopes, 1.0), [1.0]))
        slopes = np.maximum.accumulate(slopes)
        return AtomicLaw(-self.x[::-1], np.diff(slopes)[::-1], float(self.ratio[0]), _ALLOWANCE * 100.0)


def nodes(spacing: float, left: float, right: float) -> Array:
    """Multiples of ``spacing`` that cover [``left``, ``right``]; 0 is one of them."""
    first, last = math.floor(left / spacing), math.ceil(right / spacing)
    return spacing * np.arange(first, last + 1, dtype=np.float64)


def envelope(
    ranges: Sequence[tuple[float, int]], *, spacing: float, x: Array, terminal: Array | None = None
) -> CallPrice:
    """V_T/m at the nodes ``x`` for ``ranges`` = (η, uses) in the order of execution.

    ``terminal``: an upper bound of V_0/m at the nodes if other mechanisms run afterwards. Wherever the
    nodes end, the result is an upper bound.
    """
    ratio = np.maximum(0.0, -np.expm1(-x)) if terminal is None else np.minimum(terminal, 1.0)
    for eta, uses in reversed(ranges):  # the last use acts on V_0
        step = _Secants(eta, spacing, len(x))
        for _ in range(uses):
            ratio = step(ratio)
    return CallPrice(x, ratio)


class _Secants:
    """One use of range η: the highest secant over every node."""

    def __init__(self, eta: float, spacing: float, nodes: int) -> None:
        self.spread = math.exp(eta)
        self.g = math.exp(spacing)
        self.nodes = nodes
        self.whole = math.floor(eta / spacing + 1e-9)
        self.split = math.exp((self.whole + 1) * spacing - eta)  # u at which aE enters the next cell
        self.aligned = abs(eta / spacing - self.whole) < 1e-9
        self.spacing = spacing
        self.pad = self.whole + 3

    def __call__(self, ratio: Array) -> Array:
        padded = self._padded(ratio)
        slope = (self.g * padded[1:] - padded[:-1]) / (self.g - 1.0)
        intercept = padded[:-1] - slope
        best = ratio.copy()
        pieces = [(self.whole, 1.0, min(self.split, self.g))]
        if not self.aligned:
            pieces.append((self.whole + 1, self.split, self.g))
        for shift, u_from, u_to in pieces:
            scale = math.exp(shift * self.spacing)
            span = len(slope) - shift
            height = intercept[:span] - scale * intercept[shift:]
            bend = self.spread * (slope[shift:] - slope[:span])
            peak = np.sqrt(np.maximum(height, 0.0) / np.maximum(bend, 1e-300))
            last = self.whole if u_from == 1.0 else self.whole + 1
            for back in range(1, last + 1):
                np.maximum(best, self._piece(padded, peak, back, shift, u_from, u_to), out=best)
        return np.minimum(best * (1.0 + _ALLOWANCE), 1.0)

    def _piece(self, padded: Array, peak: Array, back: int, shift: int, u_from: float, u_to: float) -> Array:
        """Highest secant with a in [u_from, u_to] · m_c, where node i = c + back."""
        start = self.pad - back
        near = slice(start, start + self.nodes)
        target = math.exp(back * self.spacing)
        lowest = max(u_from, target / self.spread)
        u = np.clip(math.sqrt(target) * peak[near], lowest, u_to)
        a_value = self._line(padded, start, u)
        scale = math.exp(shift * self.spacing)
        v = np.clip(u * (self.spread / scale), 1.0, self.g)
        b_value = self._line(padded, start + shift, v)
        b_value *= scale
        a_value *= u * self.spread - target
        b_value *= target - u
        a_value += b_value
        a_value /= u * (target * (self.spread - 1.0))
        return a_value

    def _line(self, padded: Array, start: int, u: Array) -> Array:
        """Chord of V in the cells from ``start`` on, at u, in units of the cell's left node."""
        value = (self.g - u) * padded[start : start + self.nodes]
        value += (u - 1.0) * (self.g * padded[start + 1 : start + 1 + self.nodes])
        value /= self.g - 1.0
        return value

    def _padded(self, ratio: Array) -> Array:
        beyond = np.arange(1, self.pad + 2) * self.spacing
        right = 1.0 - (1.0 - ratio[-1]) * np.exp(-beyond)
        return np.concatenate((np.full(self.pad, ratio[0]), ratio, right))
