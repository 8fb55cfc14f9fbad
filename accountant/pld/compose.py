r"""Composition around one target: δ(ε) and its inverse from a tilted convolution.

The composed P-mass at loss l is e^{K − θ l} r(l), r the tilted convolution (``transform``), so

    δ(ε) = Σ_{l > ε} e^{K − θ l} r(l) (1 − e^{ε − l})    (+ the mass at +inf).

Charged to the upper side, subtracted on the lower side:

- **FFT rounding**: E for every bin, E the transform's error bound.
- **Window**: mass above it would fold onto low losses and vanish; the upper side adds
  P(L > top) <= e^{K(t) − t top} (untilted, t at choice). Mass folded in from outside is too much on the
  lower side, which subtracts max_l e^{K−θl}(1 − e^{ε−l}) times a Chernoff bound on the tilted mass outside.
- **Underflow**: no weight on the upper side is below ``LEAST``, none on the lower side is kept there; masses of one
  use below ``LEAST`` (gradual underflow) cost the upper side as much a use.
- **Rounding of the masses**: a factor e^{±relative} on δ, a shift on ε.
- **Mass at +inf**, also from one-step grids that end below the curve: 1 − Π (1 − p_j(inf))^{count_j}.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from affidavit.accountant.pld.curve import Array, ever
from affidavit.accountant.pld.discretise import LEAST, Masses, Side
from affidavit.accountant.pld.saddle import Saddle
from affidavit.accountant.pld.transform import beyond_mass, convolve, log_moments, loss_shift
from affidavit.accountant.rounding import UNIT

__all__ = ["Tail", "compose_masses", "window"]


@dataclass(frozen=True, slots=True)
class Tail:
    """One composition, one side: δ(ε) near the target and its inverse.

    ``losses`` ascend by equal steps; with w(l) = e^{−θ(l − reference)} r(l), ``mass`` is the sum of w from each
    index on and ``near`` the same of w(l) e^{l_i − l}, so that δ(ε) = mass_i − e^{ε − l_i} near_i for
    l_{i−1} <= ε < l_i, in units of e^{log_scale}. Charges: ``extra`` >= 0 on δ (upper side), ``folded`` <= the
    tilted mass folded in from outside (lower side), ``shift`` >= 0 on ε. ``infinity`` is the mass at +inf.
    """

    side: Side
    step: float
    losses: Array
    mass: Array
    near: Array
    reference: float
    theta: float
    log_scale: float
    extra: float
    folded: float
    infinity: float
    shift: float
    covers_bottom: bool

    def delta(self, epsilon: float) -> float:
        """A bound of this side on δ(ε); the trivial one where ``epsilon`` is below the range."""
        upper = self.side == "upper"
        epsilon += -self.shift if upper else self.shift
        # Valid down to the grid point before the first loss, or to −inf if there is none.
        if epsilon < self.losses[0] - self.step and not self.covers_bottom:
            if upper:
                return 1.0
            epsilon = float(self.losses[0]) - self.step
        value = self._value(epsilon) - float(self._fold(np.array([epsilon]))[0])
        real = math.exp(min(self.log_scale + math.log(value), 700.0)) if value > 0.0 else 0.0
        return min(1.0, max(0.0, real + self.infinity + self.extra))

    def _value(self, epsilon: float) -> float:
        """δ(ε) without charges and mass at +inf, in units of e^{log_scale}."""
        i = int(np.searchsorted(self.losses, epsilon, side="right"))
        if i == self.losses.size:
            return 0.0
        return float(self.mass[i]) - math.exp(epsilon - float(self.losses[i])) * float(self.near[i])

    def epsilon(self, delta: float) -> float:
        """A bound of this side on the least ε >= 0 with δ(ε) <= ``delta``.

        +inf on the upper side if none is in range, 0 on the lower side.
        """
        upper = self.side == "upper"
        left = delta - self.infinity - self.extra
        if left < 0.0 or (left == 0.0 and upper):
            return math.inf if upper or delta < self.infinity else 0.0
        if left == 0.0:
            return max(0.0, float(self.losses[-1]) - self.shift)
        log_goal = math.log(left) - self.log_scale
        if log_goal > 700.0:
            return self._below_range()
        goal = math.exp(log_goal)
        # δ at the grid point before each index; before the first, anywhere below it.
        before = self.losses - self.step
        heights = self.mass - math.exp(-self.step) * self.near
        fold = self._fold(before)
        exceeding = np.flatnonzero(heights - fold > goal)
        if exceeding.size == 0 and not self.covers_bottom:
            return self._below_range()
        i = int(exceeding[-1]) if exceeding.size else 0
        if self.near[i] <= 0.0:
            return max(0.0, float(self.losses[i]) + self.shift) if upper else 0.0
        ratio = (float(self.mass[i]) - goal - float(fold[i])) / float(self.near[i])
        found = min(float(self.losses[i]) + math.log(ratio), float(self.losses[i])) if ratio > 0.0 else -math.inf
        if exceeding.size:
            found = max(found, float(before[i]))
        return max(0.0, found + (self.shift if upper else -self.shift))

    def outside_share(self, epsilon: float) -> float:
        """What the charges for mass outside the window make of δ(ε)."""
        value = self._value(epsilon) if math.isfinite(epsilon) else 0.0
        if value <= 0.0:
            return 0.0
        share = float(self._fold(np.array([epsilon]))[0]) / value
        return share + (self.extra / value * math.exp(min(-self.log_scale, 700.0)) if self.extra > 0.0 else 0.0)

    def _fold(self, epsilon: Array) -> Array:
        """What folding may have added to δ(ε), in units of e^{log_scale}.

        max over l > ε of e^{−θ l}(1 − e^{ε − l}) is at most e^{−θ ε}/(1 + θ).
        """
        if self.folded == 0.0:
            return np.zeros_like(epsilon)
        exponent = np.minimum(-self.theta * (epsilon - self.reference), 700.0)
        return np.exp(exponent) * (self.folded / (1.0 + self.theta))

    def _below_range(self) -> float:
        """The start of the range bounds ε from above; nothing from below is known."""
        if self.side == "lower":
            return 0.0
        return max(0.0, float(self.losses[0]) - self.step + self.shift)


class Window(NamedTuple):
    """``losses`` that a convolution of ``size`` points resolves, in order once turned back by ``first`` steps.

    ``below`` and ``above``: whether there are losses outside; those above begin at ``end``.
    """

    first: int
    size: int
    losses: Array
    below: bool
    above: bool
    end: float

    def unfolded(self, composed: Array) -> Array:
        """What a convolution gives at ``losses``."""
        return np.roll(composed, -(self.first % self.size))[: self.losses.size]


def window(parts: Sequence[tuple[Masses, int]], *, bottom: float, top: float, limit: int) -> Window:
    """The one that covers [bottom, top], or about its first ``limit`` points."""
    from scipy.fft import next_fast_len

    step = parts[0][0].step
    origin = math.fsum(count * part.origin for part, count in parts)
    last = sum(count * (part.masses.size - 1) for part, count in parts)
    first = 0 if bottom == -math.inf else min(max(0, math.floor((bottom - origin) / step)), last)
    end = last if top == math.inf else max(min(last, math.ceil((top - origin) / step)), first)
    size = int(next_fast_len(max(min(end - first + 1, limit), 2), real=True))
    losses = origin + step * (first + np.arange(min(size, last - first + 1), dtype=np.float64))
    return Window(first, size, losses, first > 0, first + size <= last, origin + step * (first + size))


def compose_masses(parts: Sequence[tuple[Masses, int]], saddle: Saddle, side: Side, *, limit: int) -> Tail:
    """Compose ``parts`` (equal steps, counts >= 1) around ``saddle`` with at most ``limit`` points."""
    upper = side == "upper"
    theta, step = saddle.theta, parts[0][0].step
    around = window(parts, bottom=saddle.bottom, top=saddle.top, limit=limit)
    infinity = ever((part.infinity, count) for part, count in parts)
    composed = convolve(parts, theta, around.size)
    error, total = composed.error, composed.log_moment
    tilted, losses = around.unfolded(composed.tilted), around.losses
    bottom = float(losses[0])
    reference = min(max(saddle.epsilon, bottom), float(losses[-1]))
    # Only losses near and above the target: below, the tilt magnifies rounding without use.
    start = 0 if theta == 0.0 else int(np.searchsorted(losses, reference - 40.0 / theta))
    start = min(start, losses.size - 1)
    tilted, losses = tilted[start:], losses[start:]
    # A grid coarser than 1/θ begins above the target: its first weight must not underflow.
    reference = max(reference, float(losses[0]))
    tilted = np.maximum(tilted, 0.0) + error if upper else np.maximum(tilted - error, 0.0)
    weight = tilted * np.exp(-theta * (losses - reference))
    weight = np.maximum(weight, LEAST) if upper else np.where(weight < LEAST, 0.0, weight)
    sums = 4.0 * UNIT * (losses.size + 800.0)
    factor = 1.0 + sums if upper else 1.0 - sums
    mass = np.cumsum(weight[::-1])[::-1] * factor
    near = _discounted(weight, step) / factor
    log_scale = total - theta * reference + (composed.relative if upper else -composed.relative)
    extra = folded = 0.0
    if upper:
        extra = LEAST * sum(count for _, count in parts)
        extra += beyond_mass(saddle.up, log_moments(parts, saddle.up), around.end) if around.above else 0.0
    else:
        outside = (False, around.below, saddle.down, bottom), (True, around.above, saddle.up, around.end)
        for above, is_there, exponents, end in outside:
            if is_there:
                moments = log_moments(parts, exponents)
                folded += beyond_mass(exponents, moments, end, above=above, theta=theta, log_moment=total)
    return Tail(
        side=side,
        step=step,
        losses=losses,
        mass=mass,
        near=near,
        reference=reference,
        theta=theta,
        log_scale=log_scale,
        extra=extra,
        folded=folded,
        infinity=infinity * (1.0 + 1e-14) if upper else infinity * (1.0 - 1e-14),
        shift=loss_shift(parts),
        covers_bottom=not around.below and start == 0,
    )


def _discounted(weight: Array, step: float) -> Array:
    """Σ_{j >= i} w_j e^{−(j − i) step}, by doubling how far it reaches: e^{−x} is off by x u, below 800 u in all.

    What is left out or underflows is below 1e-23 of Σ_{j >= i} w_j, which is charged its rounding: every w is 0 or at
    least ``LEAST``.
    """
    result, reach = weight.copy(), 1
    while reach < weight.size and step * reach < 745.0:
        result[:-reach] += math.exp(-step * reach) * result[reach:]
        reach *= 2
    return result
