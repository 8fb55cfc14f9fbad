r"""Sampled Gaussians where the record is added: by a bound below what removing it costs, or by their integral.

L = m − S under Q, S = Σ l and m = −Σ log(1−γ), the largest loss. So δ(ε) = E_Q (1 − e^{S−g})₊, g = m − ε, is 0 from m
on, and at most 1 − e^{−g} and Chernoff's bound with (1 − e^{−z})₊ <= θ^θ/(1+θ)^{1+θ} e^{θz}. Where samples are rare
that is mostly far less than what it costs that the record is removed (``rare_samples``).

No loss is large here, so there are no windows: M(s) = E_Q e^{−sl} for each use; δ is the integral of ``loss_integral``
at c = −g. Beside the facts of ``loss_windows``, for a > 0 and 0 <= v <= π/2:

- |1 + a e^{iv}|² = (1+a)² (1 − 2 (1 − cos v) a/(1+a)²) >= 1, so that |(1+z)^{−s}| <= e^{|t| arg} for z = a e^{iv}, and
  |(1+z)^{−s} − 1| <= |s| a e^{|t| arg}: the quadrature's error is as small as the rate;
- a/(1+a)² <= min(1/4, a₂/(1+a₁)²) where a is between a₁ and a₂.

On the line x − ih, t >= 0, |(1+z)^{−s}| is (1+a)^{−θ} times the first of these to the −θ/2, times e^{−t arg}.
Above −``START`` two times Q's mass is charged, |e^{−sl} − 1| <= 2; below ``START`` |s| a.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import log_ndtr

from affidavit.accountant.verifier.balls import Array
from affidavit.accountant.verifier.bracket import Bracket, Falling, Profile, epsilon_bracket
from affidavit.accountant.verifier.loss_cells import FALLING_CELLS, START, Kind, Panels, cells_of
from affidavit.accountant.verifier.loss_integral import Integral, Lifted, Outline, Transforms, log_c, turned
from affidavit.accountant.verifier.loss_windows import GROWTH, lifts
from affidavit.accountant.verifier.rounding import MISSED, UNIT

__all__ = ["SPREADS", "Added", "AddedProfile", "added_profile", "largest_loss", "short_of"]

SPREADS: Array = np.geomspace(0.05, 3e3, 70)
"""Tilts, in units of 1/(what matters of S)."""
ACCURACY, SHARP, ROUNDS = 1e-10, 1e-6, 3
"""Of δ, relative: what the sum may miss; of ε or δ, what is sharp; how often it is tried."""
BULK = -14.0
"""log of the share of S that falls short of what matters, where tilts are laid out."""


def largest_loss(kinds: Sequence[Kind]) -> float:
    """m."""
    return math.fsum(-kind.uses * kind.log_kept for kind in kinds)


def short_of(kinds: Sequence[Kind], shift: float, log_share: float) -> tuple[float, float]:
    """A sum r that the other uses' losses fall short of with at most that probability under Q, and its logarithm."""
    tilts = SPREADS / shift
    falls = [kind.log_falling(tilts) for kind in kinds]
    others = sum(kind.uses * fall for kind, fall in zip(kinds, falls, strict=True)) - np.minimum.reduce(falls) + 1e-9
    sums = (log_share - others) / tilts
    best = int(np.argmax(sums))
    return (float(sums[best]), log_share + 1e-9) if 0.0 < sums[best] < shift else (0.0, -math.inf)


@dataclass(frozen=True, slots=True)
class Added:
    """A kind to which the record is added."""

    kind: Kind
    is_whole: bool = True

    def common_bound(self, thetas: Array) -> Array:
        """log of at least M(θ) at each θ."""
        return self.kind.log_falling(thetas)

    def middle_bound(self, thetas: Array) -> Array:
        return np.full_like(thetas, -math.inf)

    def lifted(self, theta: float) -> Lifted:
        """|M(θ + iu)| for every u >= t."""
        cells, mu = cells_of(self.kind, -START, FALLING_CELLS), self.kind.mu
        heights = lifts(self.kind)
        turn = -2.0 * (1.0 - np.cos(heights * mu))
        a = np.exp(np.minimum(self.kind.log_a(cells.high), 300.0)) * (1.0 + 1e-9)
        least = np.concatenate(([0.0], a[:-1] * (1.0 - 2e-9)))
        bend = -0.5 * theta * np.log1p(turn * np.minimum(0.25, a / (1.0 + least) ** 2))
        argument = np.arctan2(least * np.sin(heights * mu), 1.0 + least * np.cos(heights * mu)) * (1.0 - 1e-9)
        rise = 0.5 * heights**2
        last = float(log_ndtr(START)) - theta * float(cells.loss_high[-1]) * (1.0 - 1e-9)
        beyond = np.exp(rise + last - 0.5 * theta * np.log1p(0.25 * turn))[:, 0]
        return Lifted(rise + bend + cells.log_chord(-theta), argument, beyond)

    def panels(self, frequency: float) -> Panels:
        return self.kind.panels(-START, frequency, most=lambda x: math.inf)  # noqa: ARG005

    def transforms(self, theta: float, step: float, count: int) -> Transforms:
        """M(θ + ikτ) − 1 for k < ``count``, τ = ``step``, and what it may miss."""
        kind = self.kind
        nodes = kind.nodes(self.panels(step * count))
        x, loss, low = nodes.x, nodes.loss, np.exp(nodes.log_weight)
        grown, tilted = low * np.expm1(-theta * loss), low * np.exp(-theta * loss)
        terms, relative = nodes.terms, nodes.rounding(theta)
        found, left = turned(tilted, loss, step, count)
        cells = cells_of(kind, -START, FALLING_CELLS)
        missed = MISSED * math.exp(GROWTH) * -START * float(np.exp((cells.log_height + kind.log_a(cells.high)).max()))
        missed += math.exp(float(log_ndtr(START))) * kind.a(START) * (1.0 + 1e-9)
        dot = 3.0 * (len(x) + 32.0)
        error = 2.1 * math.exp(float(log_ndtr(START))) + theta * missed
        error += UNIT * float(np.abs(grown) @ (dot + relative + 8.0 + 4.0 * terms))
        linear = loss * (dot + 8.0 + 4.0 * terms + relative)
        slope = missed + float(left @ loss) + 2.0 * UNIT * float(tilted @ linear)
        return Transforms(0.0, float(grown.sum()) + found.conj(), np.zeros_like(found), error, slope, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class AddedProfile:
    """An upper side; with an ``integral`` both sides, sharp near one ε."""

    largest: float
    tilts: Array
    log_moments: Array
    """log of c(θ) E_Q e^{−θS}."""
    integral: Integral | None = None

    @staticmethod
    def of(kinds: Sequence[Kind]) -> AddedProfile:
        """Of uses to which the record is added."""
        largest = largest_loss(kinds)
        tilts = SPREADS / (largest - short_of(kinds, largest, BULK)[0])
        each = [kind.uses * kind.log_falling(tilts) for kind in kinds]
        logs = log_c(tilts) + sum(each) + 1e-12 + 4.0 * UNIT * sum(map(np.abs, each))
        return AddedProfile(largest, tilts, logs)

    def delta(self, epsilon: float) -> Bracket:
        gap = self.largest * (1.0 + 1e-14) - epsilon
        if gap <= 0.0:
            return Bracket(0.0, 0.0)
        rounding = 4.0 * UNIT * (np.abs(self.log_moments) + self.tilts * (self.largest + epsilon))
        log_chernoff = float((self.log_moments + self.tilts * gap + rounding).min())
        most = min(-math.expm1(-gap), math.exp(min(log_chernoff, 0.0))) * (1.0 + 1e-9)
        if self.integral is None or epsilon >= self.largest:
            return Bracket(0.0, most)
        lower, upper = self.integral.delta(epsilon - self.largest, 2.0 * self.largest)
        return Bracket(min(lower, most), min(upper, most))


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what is beyond float64 ends in None
def added_profile(kinds: Sequence[Kind], *, aim: float, delta: float, is_epsilon: bool) -> Profile | None:
    """The profile near ``aim``, where δ is to be compared with ``delta``: the bound, if it is at most that there.

    Else, where an ε is asked for and is larger, near that ε. None where the transform decays too slowly, or is so small
    at the tilt that 1 + (M − 1) loses it, as of few uses that nearly all have a large loss.
    """
    bound = AddedProfile.of(kinds)
    if bound.delta(aim).upper <= delta:
        return bound
    parts, log_goal = [Added(kind) for kind in kinds], math.log(max(delta, 1e-300)) + math.log(ACCURACY)
    for turn in range(ROUNDS):
        outline = Outline.of(parts, aim - bound.largest, bound.tilts, log_goal) if aim < bound.largest else None
        integral = outline.summed() if outline else None
        if integral is None:
            return None
        found = replace(bound, integral=integral)
        here = found.delta(aim)
        sides = epsilon_bracket(found, delta, start=aim) if is_epsilon else here
        is_sharp = sides.upper - sides.lower <= SHARP * sides.upper
        if is_sharp or (turn == 0 and here.upper <= delta):
            return Falling.of(found, sides.upper if is_sharp and is_epsilon else aim)
        if not is_epsilon:
            return None
        aim = sides.upper
    return None
