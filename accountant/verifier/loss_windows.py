r"""One kind of sampled Gaussian, cut by smooth windows into common, middle and big losses.

Let x ~ N(0, 1) be the noise in units of σ, μ = 1/σ, ρ = γ/(1−γ) and a(x) = ρ e^{μx − μ²/2}. The pair of
``smooth.removal_pair``, record removed, has

    P = (1−γ)(1 + a(x)) φ(x) dx,   Q = φ(x) dx,   log P/Q = log(1−γ) + l(x),   l(x) = log(1 + a(x)) >= 0.

With two points c < b, a width w and χ_m(x) = Φ((x−m)/w), P is the sum of *common* (1 − χ_c) P, *middle* (χ_c − χ_b) P
and *big* χ_b P. Common and middle are cut at x = ``end``, ``CUT`` widths beyond b; what lies beyond is charged.

Facts used below, for a real lift h with |h| μ <= π/2 and a > 0:
- |Φ(u+iv)| <= e^{v²/2} Φ(u), and the same for a difference Φ(u+iv) − Φ(u'+iv), u > u': it is the integral of φ over a
  horizontal half-line or path, and |φ(r+iv)| = e^{v²/2} φ(r);
- |1 + a e^{iμh}| <= 1 + a; its argument atan2(a sin μh, 1 + a cos μh) is between 0 and min(1, a) μh, and rises in a;
- |log(1+z)| <= |z| for Re z >= 0, and |e^z − 1| <= |z| max(1, e^{Re z}).

*Transforms*. Gauss–Legendre panels of 64 nodes. On the ellipse of parameter 2 around a panel of
half-width r, |Im x| <= 3r/4, so by the facts above the integrand of the middle is at most e^G times that of t = 0 on
the real axis, G <= (3r/4)²/2 + (3r/4w)²/2 + |t| μ (3r/4) min(1, a) with a at the far end; the panels keep it below
``GROWTH``. The quadrature misses at most (64/15) 2^{−126}/(1 − 1/4) e^G r max (Trefethen 2008, Theorem 4.5), the
largest value being bounded by cells. The common part's is its mass, in closed form as ∫ Φ((x−m)/w) φ(x−k) dx =
Φ((k−m)/√(1+w²)), and the integral of e^{sl} − 1: its error is as small as the rate, however many uses there are.
e^{i(t+t')l} − 1 = e + e' + ee' makes all t at once a product of two matrices.

Where b = c there is no middle. Far below b panels may then be as wide as their distance allows: with r <= (b−x)/3 the
ellipse ends u >= v = 3r/4w widths below b, and |1 − Φ(−u+iv)| <= 1 + e^{v²/2} Φ(−u) <= 3/2 <= 3 (1 − Φ(−u)).

*Bounds* (``common_bound``, ``middle_bound``, ``Lifted``). Sums over cells (``loss_cells``), χ and the argument at their
worse ends. |middle(θ+it)| is bounded on the line x + ih and, at ``end``, on the way up to it; all that is not big on
the line up to a point two lifts below b, on the way down from there, and on the axis beyond: with h² n/2 an
``EXPONENTS``, what a lift adds in all uses is known beforehand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr

from affidavit.accountant.verifier.balls import Array, Ball, ball, normal_tail
from affidavit.accountant.verifier.loss_cells import START, SWAY, Cells, Kind, Panels, cells_of
from affidavit.accountant.verifier.loss_integral import Lifted, Transforms, turned
from affidavit.accountant.verifier.rounding import MISSED, UNIT

__all__ = ["APART", "CUT", "Windowed", "lifts"]

WIDEST = 0.3
"""Of windows."""
APART, CUT = 6.0, 9.0
"""Widths between the loss that is enough alone and the big window, and from there to the end."""
CELL, LEAST_CELLS, MOST_CELLS, LIFTED_CELLS = 0.05, 800, 6_000, 2_000
GROWTH = 36.0
"""The exponent on the ellipse in all."""
LIFTS: Array = np.arange(1.0, 13.0)
"""Of the path, in widths of the window."""
EXPONENTS: Array = np.array([0.0, 0.1, 0.3, 1.0, 3.0, 6.0, 12.0, 20.0, 30.0, 45.0, 60.0, 80.0, 110.0, 160.0, 300.0])
"""What a lift of all that is not big adds to the exponent of all uses."""
STEEPEST = 1.5
"""Lift, in σ."""


def lifts(kind: Kind) -> Array:
    """Of all that is not big, a column."""
    heights = np.sqrt(2.0 * EXPONENTS / kind.uses)
    column: Array = heights[heights * kind.mu <= STEEPEST][:, None]
    return column


@dataclass(frozen=True, slots=True)
class Windowed:
    """A kind with its windows, of one width, at ``common`` < ``big``."""

    kind: Kind
    common: float
    big: float
    width: float

    @staticmethod
    def of(kind: Kind, *, alone: float, depth: float, ramp: float) -> Windowed:
        """``APART`` widths beyond x = ``alone``, and ``depth`` below that in log a; the width is ``ramp`` of log a."""
        width = min(ramp / kind.mu, WIDEST)
        big = alone + APART * width
        return Windowed(kind, big - depth / kind.mu, big, width)

    @property
    def is_whole(self) -> bool:
        """Whether what is not big is common: there is no middle."""
        return self.common == self.big

    @property
    def end(self) -> float:
        return self.big + CUT * self.width

    def log_window(self, x: Array, at: float, *, above: bool) -> Array:
        """log χ at x, or of 1 − χ."""
        z = (x - at) / self.width
        result: Array = log_ndtr(z if above else -z)
        return result

    def log_middle(self, x: Array) -> Array:
        """log(χ_c − χ_b): of the tails where both are nearly 1."""
        high, low = (x - self.common) / self.width, (x - self.big) / self.width
        turned = low > 0.0
        more, less = log_ndtr(np.where(turned, -low, high)), log_ndtr(np.where(turned, -high, low))
        result: Array = more + np.log1p(-np.exp(np.minimum(less - more, -1e-300)))
        return result

    def log_beyond(self) -> float:
        """log of P's mass beyond ``end`` that is not big, of all uses."""
        escaped = float(log_ndtr(-CUT)) + self.kind.log_tails(self.end)[0]
        return escaped + math.log(self.kind.uses) + 1e-9

    def big_masses(self) -> tuple[Ball, Ball]:
        """P- and Q-mass of the big part."""
        mu, rate, width = 1 / ball(self.kind.sigma), ball(self.kind.rate), ball(self.width)
        spread = (1 + width * width).sqrt()
        near = normal_tail(ball(self.big) / spread)
        far = normal_tail((ball(self.big) - mu) / spread)
        return (1 - rate) * near + rate * far, near

    def log_below(self, x: float) -> float:
        """log of Q's mass of the big part below x < ``big``.

        log Φ((y−b)/w) is concave with slope >= (b−x)/w² at x, and log φ(y) <= log φ(x) + x (x − y): one exponential
        below x, where that falls. At most all of the big part.
        """
        whole = float(log_ndtr(-self.big / math.hypot(1.0, self.width))) + 1e-9
        slope = (self.big - x) / self.width**2 - x
        if x >= self.big or slope <= 0.0:
            return whole
        density = -0.5 * x * x - 0.5 * math.log(2.0 * math.pi)
        return min(whole, float(log_ndtr((x - self.big) / self.width)) + density - math.log(slope) + 1e-9)

    def cells(self) -> Cells:
        step = min(CELL, CELL / self.kind.mu)
        count = int(min(max((self.end - START) / step, LEAST_CELLS), MOST_CELLS))
        return cells_of(self.kind, self.end + self.width, count)

    @property
    def below(self) -> Windowed:
        """The same common part, as all there is."""
        return replace(self, big=self.common)

    def common_bound(self, thetas: Array) -> Array:
        """log of at least ∫ e^{θl} over the common part, at each θ."""
        cells = self.cells()
        return cells.log_sum(thetas + 1.0, self._log_outside(cells, self.common)) + self.kind.log_kept

    def middle_bound(self, thetas: Array) -> Array:
        """The same of the middle."""
        cells = self.cells()
        return cells.log_sum(thetas + 1.0, self._log_middle_cells(cells)) + self.kind.log_kept

    def _log_outside(self, cells: Cells, at: float) -> Array:
        return np.concatenate(([0.0], self.log_window(cells.low[1:], at, above=False)))

    def _log_middle_cells(self, cells: Cells) -> Array:
        inside = self.log_window(cells.high, self.common, above=True)
        result: Array = np.minimum(inside, self._log_outside(cells, self.big)) + 1e-12
        return result

    def lifted(self, theta: float) -> Lifted:
        """Of the middle; of all that is not big where there is no middle."""
        return self._lifted_whole(theta) if self.is_whole else self._lifted_middle(theta)

    def _lifted_middle(self, theta: float) -> Lifted:
        cells = self.cells()
        heights = LIFTS * self.width
        heights = heights[heights * self.kind.mu <= STEEPEST]
        growth = 0.5 * heights**2 + 0.5 * (heights / self.width) ** 2
        base = cells.log_chord(theta + 1.0) + self.kind.log_kept + self._log_middle_cells(cells)
        edge = np.array([self.end])
        log_end = (
            -0.5 * self.end**2 + (theta + 1.0) * self.kind.loss(edge) + self.log_window(edge, self.big, above=False)
        )
        floor = heights * np.exp(growth + float(log_end[0]) + self.kind.log_kept)
        return Lifted(growth[:, None] + base, self._argument(cells, heights), floor)

    def _lifted_whole(self, theta: float) -> Lifted:
        cells = cells_of(self.kind, self.end + self.width, LIFTED_CELLS)
        heights = lifts(self.kind)
        outside = self._log_outside(cells, self.big)
        rise = 0.5 * (heights / self.width) ** 2
        inside = self.log_window(cells.high, self.big, above=True)
        share = np.minimum(rise + outside, np.logaddexp(0.0, rise + inside))
        is_lifted = cells.high <= self.big - 2.0 * heights
        base = cells.log_chord(theta + 1.0) + self.kind.log_kept
        size = base + np.where(is_lifted, 0.5 * heights**2 + share, outside)
        argument = np.where(is_lifted, self._argument(cells, heights[:, 0]), 0.0)
        # The way down, at the last edge of what is lifted.
        last = np.maximum(is_lifted.sum(axis=1) - 1, 0)
        log_down = 0.5 * heights[:, 0] ** 2 + np.take_along_axis(share, last[:, None], axis=1)[:, 0]
        log_down += -0.5 * cells.high[last] ** 2 + (theta + 1.0) * cells.loss_high[last] + self.kind.log_kept
        return Lifted(size, argument, heights[:, 0] * np.exp(log_down))

    def _argument(self, cells: Cells, heights: Array) -> Array:
        """At least that of 1 + a(x + ih), in each cell."""
        a = np.exp(np.minimum(self.kind.log_a(cells.low[1:]), 300.0))
        angle = (heights * self.kind.mu)[:, None]
        argument = np.arctan2(a * np.sin(angle), 1.0 + a * np.cos(angle)) * (1.0 - 1e-9)
        return np.concatenate((np.zeros((len(heights), 1)), argument), axis=1)

    def panels(self, frequency: float) -> Panels:

        def most(x: float) -> float:
            return max(4.0 * self.width, (self.big - x) / 3.0 if self.is_whole else 0.0)

        # At the smallest r that is taken any slope of the loss, at most μ, is slow enough.
        least = SWAY / (0.7501 * frequency * self.kind.mu)
        return self.kind.panels(self.end, frequency, most=most, least=least)

    def transforms(self, theta: float, step: float, count: int) -> Transforms:
        """Both at θ + ikτ for k < ``count``, τ = ``step``, and what they may miss."""
        kind, cells = self.kind, self.cells()
        nodes = kind.nodes(self.panels(step * count))
        x, loss = nodes.x, nodes.loss
        log_base = nodes.log_weight + (loss + kind.log_kept)
        log_low = self.log_window(x, self.common, above=False)
        low, tilted_low = np.exp(log_base + log_low), np.exp(log_base + log_low + theta * loss)
        # Relative errors, in units in the last place: of nodes, windows' arguments; of l by a's.
        terms, pointwise = nodes.terms, nodes.rounding(theta + 1.0)
        of_loss = loss * (8.0 + 4.0 * terms)

        def window_rounding(log_share: Array) -> Array:
            z = np.minimum(np.abs(x - self.common), np.abs(x - self.big)) / self.width
            hazard = np.exp(np.minimum(-0.5 * z * z - log_share, 60.0))
            return 8.0 * np.abs(log_share) + 4.0 * hazard * (np.abs(x) + abs(self.common) + abs(self.big)) / self.width

        relative_low = pointwise + window_rounding(log_low)
        turned_low, left_low = turned(tilted_low, loss, step, count)
        grown = np.where(theta * loss < 1.0, low * np.expm1(np.minimum(theta * loss, 1.0)), tilted_low - low)
        common = float(grown.sum()) + turned_low
        # The common part's mass; P's mass beyond ``end`` was never in it.
        mu, spread = kind.mu, math.hypot(1.0, self.width)
        cut = np.logaddexp(
            kind.log_kept + log_ndtr(-self.common / spread), math.log(kind.rate) + log_ndtr((mu - self.common) / spread)
        )
        missing = math.exp(float(cut)) * UNIT * 64.0 * (1.0 + self.common**2 + mu**2)
        missing += math.exp(self.log_beyond() - math.log(kind.uses))
        # Quadrature, with the largest value on the axis; and what lies below the nodes.
        scale = MISSED * math.exp(GROWTH) * 0.5 * (self.end - START)
        high = cells.log_height + (theta + 1.0) * cells.loss_high + kind.log_kept
        log_a = kind.log_a(cells.high)
        common_missed = scale * float(np.exp((high + self._log_outside(cells, self.common) + log_a).max()))
        under = np.array([START])
        least = float(log_ndtr(START)) + float((theta + 1.0) * kind.loss(under)[0])
        common_missed += float(np.exp(least + kind.log_a(under)[0]))
        dot = 3.0 * (len(x) + 32.0)
        linear = loss * dot + of_loss
        of_common = (
            missing + theta * common_missed + UNIT * float(np.abs(grown) @ (dot + relative_low + 8.0 + 4.0 * terms)),
            common_missed + float(left_low @ loss) + 2.0 * UNIT * float(tilted_low @ (linear + loss * relative_low)),
        )
        if self.is_whole:
            return Transforms(-math.exp(float(cut)), common, np.zeros_like(common), *of_common, 0.0, 0.0)
        log_mid = self.log_middle(x)
        tilted_mid, relative_mid = np.exp(log_base + log_mid + theta * loss), pointwise + window_rounding(log_mid)
        turned_mid, left_mid = turned(tilted_mid, loss, step, count)
        middle = float(tilted_mid.sum()) + turned_mid
        middle_missed = scale * float(np.exp((high + self._log_middle_cells(cells)).max()))
        middle_missed += float(np.exp(least + self.log_window(under, self.common, above=True)[0]))
        of_middle = (
            middle_missed + UNIT * float(tilted_mid @ (4.0 * dot + 2.0 * relative_mid)),
            float(left_mid @ loss) + 2.0 * UNIT * float(tilted_mid @ of_loss),
        )
        return Transforms(-math.exp(float(cut)), common, middle, *of_common, *of_middle)
