"""From a case to a profile: which of the verifier's formulas apply.

Pure and approximate leaves become atoms, Gaussians add up to one, exponential ranges become an upper
law (envelope of secants) and a lower law (a strategy played forward), and the rest is multiplied.
Fixed mechanisms are taken *before* the exponential ones on the upper side: an expectation of suprema
is at least the supremum of the expectation, so this covers every order. The lower side's strategy
does not look at the fixed outcomes, so it is available in every order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import mpmath

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Approximate, Gaussian, Plan, Pure
from affidavit.accountant.recompute.atoms import POINT_MASS, AtomicLaw, binomial_law
from affidavit.accountant.recompute.bracket import Profile, epsilon_bracket
from affidavit.accountant.recompute.envelope import envelope
from affidavit.accountant.recompute.gaussian import GaussianProfile
from affidavit.accountant.recompute.mixed import MixedProfile
from affidavit.accountant.recompute.reading import Case
from affidavit.accountant.recompute.strategy import strategy_law

__all__ = ["Aim", "Composition", "composition"]

_COARSE_CELLS = 16
_COST_LIMIT = 6e9


@dataclass(frozen=True, slots=True)
class Aim:
    """What a profile is wanted for: ε at ``delta``; ``epsilon`` if the value to check is known."""

    delta: float
    epsilon: float | None = None


class _Fixed(Protocol):
    def profile(self, lower: AtomicLaw, upper: AtomicLaw) -> Profile: ...


@dataclass(frozen=True, slots=True)
class Composition:
    """One case, sorted by formula."""

    precision: mpmath.mpf
    lower: AtomicLaw
    upper: AtomicLaw
    ranges: tuple[tuple[float, int], ...]
    how: str

    def profile(self, aim: Aim, cells: int) -> Profile:
        """The profile, sharp near ``aim``; ``cells`` is the resolution of the exponential part."""
        if not self.ranges:
            return self._with(POINT_MASS, POINT_MASS)
        spacing = max(eta for eta, _ in self.ranges) / cells
        left, right = self._window(aim)
        cost = sum(n for _, n in self.ranges) * (right - left) / spacing * cells * 20
        if cost > _COST_LIMIT * 20:
            raise NotSupported(
                "so many exponential uses are out of the verifier's reach", hint="verify without --recompute"
            )
        above = envelope(self.ranges, spacing=spacing, left=left, right=right).law()
        epsilon = aim.epsilon
        if epsilon is None:
            epsilon = self._epsilon_of_exponentials(above, aim.delta)
        below = strategy_law(self.ranges, epsilon=epsilon, spacing=spacing, left=left, right=right)
        return self._with(below, above)

    def _with(self, below: AtomicLaw, above: AtomicLaw) -> Profile:
        if self.precision > 0 and self.lower is self.upper is POINT_MASS and above is POINT_MASS:
            return GaussianProfile(self.precision)
        lower = self.lower.compose(below, upper=False)
        upper = self.upper.compose(above, upper=True)
        return MixedProfile(lower, upper, float(self.precision))

    def _epsilon_of_exponentials(self, above: AtomicLaw, delta: float) -> float:
        """Where the strategy aims: the exponential part's share of ε, on its own scale."""
        if self.precision == 0 and self.upper is POINT_MASS:
            return epsilon_bracket(MixedProfile(above, above), delta, start=1.0).upper
        whole = epsilon_bracket(self._with(above, above), delta, start=1.0).upper
        return whole * 0.5

    def _window(self, aim: Aim) -> tuple[float, float]:
        """Bounds of log m: wide enough that truncation costs less than the grid."""
        reach = math.fsum(eta * n for eta, n in self.ranges)
        widest = max(eta for eta, _ in self.ranges)
        rho = math.fsum(eta * eta * n / 8.0 for eta, n in self.ranges)
        deviation = math.sqrt(2.0 * rho)
        tail = math.sqrt(2.0 * math.log(1.0 / min(aim.delta, 0.1)))
        left = max(aim.epsilon or 0.0, rho + deviation * tail) + 3.0 * deviation + 2.0 * widest
        right = (tail + 3.0) * deviation + 2.0 * widest
        return -min(left, reach + widest), min(right, reach + widest)


def composition(case: Case) -> Composition:
    """Sort the case's mechanisms by formula. Raises ``NotSupported`` for what has none here."""
    precision = mpmath.mpf(0)
    lower = upper = POINT_MASS
    used: dict[str, None] = {}
    for node, uses in case.fixed:
        if isinstance(node, Gaussian):
            with mpmath.workdps(60):
                sigma = mpmath.mpf(node.noise_multiplier)
                precision = precision + (mpmath.mpf(uses) / sigma**2 if sigma > 0 else mpmath.inf)
            used["Gaussian closed form (60 digits)"] = None
            continue
        law, name = _atoms(node, uses)
        used[name] = None
        lower, upper = lower.compose(law, upper=False), upper.compose(law, upper=True)
    if case.ranges:
        used["secant envelope above, played strategy below"] = None
    return Composition(precision, lower, upper, case.ranges, " x ".join(used) or "nothing released")


def _atoms(node: Plan, uses: int) -> tuple[AtomicLaw, str]:
    match node:
        case Pure(epsilon=epsilon):
            return binomial_law(epsilon=epsilon, delta=0.0, uses=uses), "binomial sum"
        case Approximate(epsilon=epsilon, delta=delta):
            return binomial_law(epsilon=epsilon, delta=delta, uses=uses), "binomial sum"
        case _:
            raise NotSupported(
                f"the verifier has no second formula for {node.kind!r}", hint="verify without --recompute"
            )
