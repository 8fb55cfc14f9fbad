r"""Sampled Gaussians where the record is added: S = Σ l under Q, which costs δ(ε) = E_Q (1 − e^{S−g})₊, g = m − ε.

m = −Σ log(1−γ) is the largest loss. No loss is large here, so there are no windows: M(s) = E_Q e^{−sl} for each use;
δ is the integral of ``loss_integral`` at c = −g. Beside the facts of ``loss_windows``, for a > 0 and 0 <= v <= π/2:

- |1 + a e^{iv}|² = (1+a)² (1 − 2 (1 − cos v) a/(1+a)²) >= 1, so that |(1+z)^{−s}| <= e^{|t| arg} for z = a e^{iv}, and
  |(1+z)^{−s} − 1| <= |s| a e^{|t| arg}: the quadrature's error is as small as the rate;
- a/(1+a)² <= min(1/4, a₂/(1+a₁)²) where a is between a₁ and a₂.

On the line x − ih, t >= 0, |(1+z)^{−s}| is (1+a)^{−θ} times the first of these to the −θ/2, times e^{−t arg}.
Above −``START`` two times Q's mass is charged, |e^{−sl} − 1| <= 2; below ``START`` |s| a.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_ndtr

from affidavit.accountant.verifier.loss_cells import FALLING_CELLS, START, Kind, cells_of
from affidavit.accountant.verifier.loss_windows import (
    EXPONENTS,
    GROWTH,
    MISSED,
    ORDER,
    STEEPEST,
    SWAY,
    UNIT,
    Lifted,
    Nodes,
    turned,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Added"]


@dataclass(frozen=True, slots=True)
class Added:
    """A kind to which the record is added."""

    kind: Kind
    is_whole: bool = True

    def common_bound(self, thetas: Array) -> Array:
        """log of at least M(θ) at each θ."""
        return self.kind.log_falling(thetas)

    def lifted(self, theta: float) -> Lifted:
        """|M(θ + iu)| for every u >= t."""
        cells, mu = cells_of(self.kind, -START, FALLING_CELLS), self.kind.mu
        heights = np.sqrt(2.0 * EXPONENTS / self.kind.uses)
        heights = heights[heights * mu <= STEEPEST][:, None]
        turn = -2.0 * (1.0 - np.cos(heights * mu))
        a = np.exp(np.minimum(self.kind.log_a(cells.high), 300.0)) * (1.0 + 1e-9)
        least = np.concatenate(([0.0], a[:-1] * (1.0 - 2e-9)))
        bend = -0.5 * theta * np.log1p(turn * np.minimum(0.25, a / (1.0 + least) ** 2))
        argument = np.arctan2(least * np.sin(heights * mu), 1.0 + least * np.cos(heights * mu)) * (1.0 - 1e-9)
        rise = 0.5 * heights**2
        last = float(log_ndtr(START)) - theta * float(cells.loss_high[-1]) * (1.0 - 1e-9)
        beyond = np.exp(rise + last - 0.5 * theta * np.log1p(0.25 * turn))[:, 0]
        return Lifted(rise + bend + cells.log_chord(-theta), argument, beyond)

    def panels(self, frequency: float) -> tuple[Array, Array]:
        """Centres and half-widths from ``START`` to −``START``."""
        mu, centres, halves, x = self.kind.mu, [], [], START
        while True:
            rest = 0.5 * (-START - x)
            r = min(1.0, 1.3 / mu, rest)
            while frequency * mu * min(1.0, self.kind.a(x + 2.25 * r)) * 0.75 * r > SWAY:
                r *= 0.7
            centres.append(x + r)
            halves.append(r)
            if r == rest:
                return np.array(centres), np.array(halves)
            x += 2.0 * r

    def deviations(self, theta: float, step: float, count: int) -> Nodes:
        """M(θ + ikτ) − 1 for k < ``count``, τ = ``step``, and what it may miss."""
        kind = self.kind
        centres, halves = self.panels(step * count)
        points, weights = np.polynomial.legendre.leggauss(ORDER)
        x = (centres[:, None] + halves[:, None] * points).ravel()
        loss = kind.loss(x)
        low = np.exp(np.log((halves[:, None] * weights).ravel()) - 0.5 * x * x - 0.5 * math.log(2.0 * math.pi))
        grown, tilted = low * np.expm1(-theta * loss), low * np.exp(-theta * loss)
        terms = np.abs(kind.mu * x) + kind.mu**2 + abs(kind.log_odds)
        relative = 256.0 + 4.0 * (0.5 * x * x + theta * loss * (2.0 + terms))
        relative += 4.0 * np.abs(x) / np.repeat(halves, ORDER)  # panels' ends, rounded, leave gaps
        found, left = turned(tilted, loss, step, count)
        cells = cells_of(kind, -START, FALLING_CELLS)
        missed = MISSED * math.exp(GROWTH) * -START * float(np.exp((cells.log_height + kind.log_a(cells.high)).max()))
        missed += math.exp(float(log_ndtr(START))) * kind.a(START) * (1.0 + 1e-9)
        dot = 3.0 * (len(x) + 32.0)
        error = 2.1 * math.exp(float(log_ndtr(START))) + theta * missed
        error += UNIT * float(np.abs(grown) @ (dot + relative + 8.0 + 4.0 * terms))
        linear = loss * (dot + 8.0 + 4.0 * terms + relative)
        slope = missed + float(left @ loss) + 2.0 * UNIT * float(tilted @ linear)
        return Nodes(0.0, float(grown.sum()) + found.conj(), np.zeros_like(found), error, slope, 0.0, 0.0)
