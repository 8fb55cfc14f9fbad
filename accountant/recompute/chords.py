r"""A curve that is known in closed form, joined by chords: a law of finitely many losses that dominates it.

δ is convex in α = e^ε, so the chord between two of its points lies above it. The chords' kinks are losses: of
Q-mass the change of slope, of P-mass α times that. Below the first point the curve starts at δ(α = 0) = 1, above the
last one it stays.

``SampledExponential``. One exponential use of range η costs h(α) = (√E − √α)²/(E − 1) (``one_exponential``): attained
at each α, by no one pair at all of them, so the law is an upper side. With h for the cost on the sample, at rate γ
(docs/theory/sampling.md; h is its own reflection, as exchanging the data sets keeps the range):

removed   γ h(1 + (α−1)/γ), and 1 − α below 1 − γ: E|mixture − α nothing|₊ of the record present with probability γ
added     its reflection 1 − α + α δ(1/α): the same two laws the other way round
replaced  the first above 1, the second below: without replacement, but for add-remove
diluted   (1−γ)(1−α)₊ + γ h(α): Poisson under substitution

The lower side is randomised response of ε = η/2, which has range η, sampled likewise (``sampled``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import mpmath
import numpy as np

from affidavit.accountant.recompute.atoms import AtomicLaw, binomial_law
from affidavit.accountant.recompute.bracket import Bracket, rounded_up

__all__ = ["Curve", "SampledExponential", "Seen", "chord_law", "exponential_law"]

_DIGITS = 60
_CELLS = 1000
"""Of a sampled exponential use: ε comes out within 1e-5 of itself."""
_UNIT = 2.0**-53

Seen = Literal["removed", "added", "replaced", "diluted"]
Curve = Callable[[mpmath.mpf], mpmath.mpf]
"""δ by loss, convex in e^loss, evaluated with ``_DIGITS`` digits."""


def chord_law(curve: Curve, *, low: mpmath.mpf, high: mpmath.mpf, cells: int) -> AtomicLaw:
    """An upper side of ``curve``, exact at ``cells`` + 1 losses from ``low`` to ``high``."""
    with mpmath.workdps(_DIGITS):
        grid = [low + (high - low) * i / cells for i in range(cells + 1)]
        places = [mpmath.exp(loss) for loss in grid]
        heights = [mpmath.mpf(1), *(curve(loss) for loss in grid)]
        joints = [mpmath.mpf(0), *places]
        slopes = [(heights[i + 1] - heights[i]) / (joints[i + 1] - joints[i]) for i in range(cells + 1)]
        slopes.append(mpmath.mpf(0))
        masses = [float((slopes[i + 1] - slopes[i]) * places[i]) for i in range(cells + 1)]
        losses = np.array([float(loss) for loss in grid])
        return AtomicLaw(losses, np.maximum(np.array(masses), 0.0), float(heights[-1]), 16.0 * _UNIT)


@dataclass(frozen=True, slots=True)
class SampledExponential:
    """One use of range ``range`` > 0 on a sample, 0 < ``rate`` < 1; an upper side."""

    range: float
    rate: float
    seen: Seen

    def delta(self, epsilon: float) -> Bracket:
        """0 and δ at ``epsilon``, without chords."""
        with mpmath.workdps(_DIGITS):
            value = float(self._curve(mpmath.mpf(epsilon)))
        return Bracket(0.0, min(1.0, rounded_up(value)) if value > 0.0 else 0.0)

    @property
    def law(self) -> AtomicLaw:
        """The chords' law, to be composed."""
        return _sampled_law(self)

    def _curve(self, loss: mpmath.mpf) -> mpmath.mpf:
        match self.seen:
            case "removed":
                return self._removed(loss)
            case "replaced" if loss >= 0:
                return self._removed(loss)
            case "added" | "replaced":
                return -mpmath.expm1(loss) + mpmath.exp(loss) * self._removed(-loss)
        return (1 - mpmath.mpf(self.rate)) * max(mpmath.mpf(0), -mpmath.expm1(loss)) + self.rate * _alone(
            self.range, loss
        )

    def _removed(self, loss: mpmath.mpf) -> mpmath.mpf:
        inner = 1 + mpmath.expm1(loss) / self.rate
        return -mpmath.expm1(loss) if inner <= 0 else self.rate * _alone(self.range, mpmath.log(inner))

    def _ends(self) -> tuple[mpmath.mpf, mpmath.mpf]:
        eta = mpmath.mpf(self.range)
        low, high = (mpmath.log1p(self.rate * mpmath.expm1(end)) for end in (-eta, eta))
        ends = {"removed": (low, high), "added": (-high, -low), "replaced": (-high, high), "diluted": (-eta, eta)}
        return ends[self.seen]


def _alone(eta: float, loss: mpmath.mpf) -> mpmath.mpf:
    """h, without cancellation near ``loss`` = ``eta``."""
    if loss >= eta:
        return mpmath.mpf(0)
    if loss <= -eta:
        return -mpmath.expm1(loss)
    gap = mpmath.exp(loss / 2) * mpmath.expm1((eta - loss) / 2)
    return gap**2 / mpmath.expm1(eta)


@lru_cache(maxsize=16)
def _sampled_law(use: SampledExponential) -> AtomicLaw:
    with mpmath.workdps(_DIGITS):
        low, high = use._ends()
        return chord_law(use._curve, low=low, high=high, cells=_CELLS)


@lru_cache(maxsize=8)
def exponential_law(eta: float, *, upper: bool) -> AtomicLaw:
    """One use of range ``eta`` > 0 by itself: chords of h, or randomised response of half the range."""
    if not upper:
        return binomial_law(epsilon=eta / 2.0, delta=0.0, uses=1)
    with mpmath.workdps(_DIGITS):
        return chord_law(lambda loss: _alone(eta, loss), low=-mpmath.mpf(eta), high=mpmath.mpf(eta), cells=_CELLS)
