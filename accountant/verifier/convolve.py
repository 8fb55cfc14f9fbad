r"""Many independent losses on one lattice, summed by a discrete Fourier transform in balls.

The transform, the powers and the inverse are computed in ball arithmetic (``flint.acb.dft``), so every
rounding error is in the radii; the working precision is chosen so that the radii are far below
the mass that matters. What is left is *aliasing*: the transform of N points returns, at lattice
place k, the sum of the true masses at k, k ± N, k ± 2N, ... With a window [bottom, top] of N
places,
- upper side: true mass above the window may appear low, so P(L > top) is charged to +inf; mass from
  below may appear higher, which only adds;
- lower side: mass from below may appear high, so P(L < bottom) is subtracted; mass from above appears at
  a lower loss or not at all, which only loses.
Both are bounded by Chernoff: P(L > top) <= min over θ > 0 of e^{-θ top} Π E[e^{θ L_i}]^{n_i}, evaluated in balls at a θ
found in floats. Mass +inf composes to 1 - Π(1 - f_i)^{n_i}.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import acb, arb, arb_poly

from affidavit.accountant.verifier.balls import Array, Ball
from affidavit.accountant.verifier.lattice import LatticeMasses

__all__ = ["Composed", "Window", "chernoff", "compose", "log_tail_bound", "window_of"]

Uses = Sequence[tuple[LatticeMasses, int]]


@dataclass(frozen=True, slots=True)
class Window:
    """Lattice places first .. first + size - 1."""

    first: int
    size: int

    @property
    def last(self) -> int:
        """The highest place."""
        return self.first + self.size - 1


@dataclass(frozen=True, slots=True)
class Composed:
    """P-masses of the sum at losses (first + i) * spacing + offset; ``infinite`` at +inf; ``outside`` bounds the
    true mass beyond the window on the side that matters (above for an upper, below for a lower side).
    """

    first: int
    masses: tuple[Ball, ...]
    infinite: Ball
    outside: Ball
    offset: Ball


def _log_moments(uses: Uses, step: float, thetas: Array) -> Array:
    """log E[e^{θ L}] of the sum at each θ, in floats (search only)."""
    total = np.zeros_like(thetas)
    for part, count in uses:
        # With the radii: a θ so large that it lifts the rounding errors of empty places would show nothing.
        masses = np.array([max(0.0, float(mass.upper())) for mass in part.masses])
        places = step * (part.first + np.arange(len(masses)))
        keep = masses > 0
        logs = np.log(masses[keep])[None, :] + thetas[:, None] * places[keep][None, :]
        peak = logs.max(axis=1)
        total += count * (peak + np.log(np.exp(logs - peak[:, None]).sum(axis=1)))
    return total


def log_tail_bound(uses: Uses, step: float, epsilon: float) -> float:
    """log of the Chernoff bound on P(L > ε), in floats (search only)."""
    thetas = _thetas(uses, step)
    return float(np.min(_log_moments(uses, step, thetas) - thetas * epsilon))


def _thetas(uses: Uses, step: float) -> Array:
    return np.geomspace(1e-3, 1e4, 120) / (step * max(len(part.masses) for part, _ in uses))


def window_of(uses: Uses, step: float, negligible: float) -> tuple[Window, float, float]:
    """A window that holds all but about ``negligible`` at each end, and the θ's that show it."""
    thetas = _thetas(uses, step)
    limit = -math.log(negligible)
    with np.errstate(over="ignore", invalid="ignore"):  # beyond float64 a θ shows nothing
        tops = np.nan_to_num((_log_moments(uses, step, thetas) + limit) / thetas / step, nan=math.inf)
        bottoms = np.nan_to_num(-(_log_moments(uses, step, -thetas) + limit) / thetas / step, nan=-math.inf)
    above, below = int(np.argmin(tops)), int(np.argmax(bottoms))
    greatest = sum(count * (part.first + len(part.masses) - 1) for part, count in uses)
    least = sum(count * part.first for part, count in uses)
    first = math.floor(max(least, float(bottoms[below])))
    last = math.ceil(min(greatest, float(tops[above])))
    size = 1 << max(4, (last - first).bit_length())
    return Window(first, size), float(thetas[above]), float(thetas[below])


def chernoff(uses: Uses, step: Ball, theta: float, place: int) -> Ball:
    """A bound on the P-mass of the sum at or beyond a lattice place: above it for θ > 0, below for θ < 0."""
    factor = (step * theta).exp()
    log = -place * theta * step
    for part, count in uses:
        moment = arb_poly(list(part.masses))(factor).upper()
        log = log + count * (moment.log() + part.first * theta * step)
    bound = log.exp()
    return bound.min(arb(1)) if bound.is_finite() else arb(1)


def compose(uses: Uses, step: Ball, window: Window, *, theta: float) -> Composed:
    """The composition; θ > 0 makes it an upper side, θ < 0 a lower side (see the module)."""
    size = window.size
    total: list[Ball] | None = None
    shift = 0
    resolved = arb(1)
    for part, count in uses:
        folded = [arb(0)] * size
        for i, mass in enumerate(part.masses):
            folded[i % size] += mass
        # Of real masses: the other half is conjugate.
        transform = acb.dft([acb(mass) for mass in folded])[: size // 2 + 1]
        powers = [value**count for value in transform] if count > 1 else transform
        total = powers if total is None else [a * b for a, b in zip(total, powers, strict=True)]
        shift += count * part.first
        resolved *= (1 - part.infinite) ** count
    spectrum = total or [acb(1)] * (size // 2 + 1)
    result = acb.dft([*spectrum, *(value.conjugate() for value in spectrum[-2:0:-1])], inverse=True)
    # Place `shift` of the sum sits at index 0, modulo the size.
    masses = tuple(result[(window.first + i - shift) % size].real.nonnegative_part() for i in range(size))
    beyond = window.last if theta > 0 else window.first
    greatest = sum(count * (part.first + len(part.masses) - 1) for part, count in uses)
    inside = greatest <= window.last if theta > 0 else window.first <= shift
    outside = arb(0) if inside else chernoff(uses, step, theta, beyond)
    offset = sum((count * part.offset for part, count in uses), arb(0))
    return Composed(window.first, masses, 1 - resolved, outside, offset)
