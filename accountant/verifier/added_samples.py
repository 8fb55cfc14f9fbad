r"""Sampled Gaussians where the record is added: by a bound below what removing it costs, or by their integral.

L = m − S under Q, S = Σ l and m = −Σ log(1−γ), the largest loss (``loss_added``). So δ(ε) is 0 from m on, and at most
1 − e^{ε−m} and Chernoff's bound with (1 − e^{−z})₊ <= θ^θ/(1+θ)^{1+θ} e^{θz}. Where samples are rare that is mostly far
less than what it costs that the record is removed (``rare_samples``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from affidavit.accountant.verifier.bracket import Bracket, epsilon_bracket
from affidavit.accountant.verifier.loss_added import Added
from affidavit.accountant.verifier.loss_cells import Kind
from affidavit.accountant.verifier.loss_integral import Integral, Outline, log_c

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["SPREADS", "AddedBound", "AddedProfile", "added_profile", "largest_loss", "short_of"]

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
class AddedBound:
    """An upper side."""

    largest: float
    tilts: Array
    log_moments: Array
    """log of c(θ) E_Q e^{−θS}."""

    @staticmethod
    def of(kinds: Sequence[Kind]) -> AddedBound:
        """Of uses to which the record is added."""
        largest = largest_loss(kinds)
        tilts = SPREADS / (largest - short_of(kinds, largest, BULK)[0])
        logs = log_c(tilts) + sum(kind.uses * kind.log_falling(tilts) for kind in kinds) + 1e-12
        return AddedBound(largest * (1.0 + 1e-14), tilts, logs)

    def delta(self, epsilon: float) -> Bracket:
        """δ at ``epsilon``."""
        gap = self.largest - epsilon
        if gap <= 0.0:
            return Bracket(0.0, 0.0)
        log_chernoff = float((self.log_moments + self.tilts * gap).min())
        return Bracket(0.0, min(-math.expm1(-gap), math.exp(min(log_chernoff, 0.0))) * (1.0 + 1e-9))


@dataclass(frozen=True, slots=True)
class AddedProfile:
    """Sharp near one ε."""

    bound: AddedBound
    largest: float
    integral: Integral

    def delta(self, epsilon: float) -> Bracket:
        """δ at ``epsilon``."""
        most = self.bound.delta(epsilon).upper
        if epsilon >= self.largest:
            return Bracket(0.0, most)
        lower, upper = self.integral.delta(epsilon - self.largest, 2.0 * self.largest)
        return Bracket(min(lower, most), min(upper, most))


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what is beyond float64 ends in None
def added_profile(
    kinds: Sequence[Kind], *, aim: float, delta: float, is_epsilon: bool
) -> AddedBound | AddedProfile | None:
    """The profile near ``aim``, where δ is to be compared with ``delta``: the bound, if it is at most that there.

    Else, where an ε is asked for and is larger, near that ε. None where the transform decays too slowly, or is so small
    at the tilt that 1 + (M − 1) loses it, as of few uses that nearly all have a large loss.
    """
    bound = AddedBound.of(kinds)
    if bound.delta(aim).upper <= delta:
        return bound
    for _ in range(ROUNDS):
        found = _near(kinds, bound, aim, delta)
        if found is None:
            return None
        here = found.delta(aim)
        sides = epsilon_bracket(found, delta, start=aim) if is_epsilon else here
        if here.upper <= delta or sides.upper - sides.lower <= SHARP * sides.upper:
            return found
        if not is_epsilon:
            return None
        aim = sides.upper
    return None


def _near(kinds: Sequence[Kind], bound: AddedBound, aim: float, delta: float) -> AddedProfile | None:
    largest = largest_loss(kinds)
    log_goal = math.log(max(delta, 1e-300)) + math.log(ACCURACY)
    parts = tuple(Added(kind) for kind in kinds)
    outline = Outline.of(parts, aim - largest, bound.tilts, log_goal) if aim < largest else None
    integral = outline.summed() if outline else None
    return AddedProfile(bound, largest, integral) if integral else None
