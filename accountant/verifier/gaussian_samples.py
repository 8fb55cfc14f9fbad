"""Compositions of Gaussians, sampled and not, by one contour integral (``contour``): no lattice.

The losses and what they dominate: ``smooth``. Each direction of a pair of data sets is composed apart. σ is rounded
to the safe side (less noise dominates: Blackwell 1953, scale the output and add noise).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from affidavit.accountant.verifier.bracket import Profile, epsilon_bracket
from affidavit.accountant.verifier.branches import Branch, Fixed, Sampled
from affidavit.accountant.verifier.combine import Goal
from affidavit.accountant.verifier.contour import contour_profile
from affidavit.accountant.verifier.search import Sides
from affidavit.accountant.verifier.smooth import SmoothLaw, diluted_pair, removal_pair, replacement_curve

__all__ = ["gaussian_samples"]

_ACCURACY, _SHARP = 1e-7, 1e-10
"""Relative, of ε: where δ is given, and where ε is."""

Laws = tuple[tuple[SmoothLaw, int], ...]
Part = tuple[Laws, float]
"""Sampled Gaussians with their counts, and Σ 1/σ² of the others: one direction."""


@dataclass(frozen=True, slots=True)
class GaussianSamples:
    """The largest of both directions, sharp near one δ or ε."""

    upper: Sequence[Profile]
    lower: Sequence[Profile]
    method: str = "contour integral"

    def delta(self, epsilon: float) -> Sides:
        """(lower, upper) δ at ε."""
        above, below = ([profile.delta(epsilon) for profile in side] for side in (self.upper, self.lower))
        return max(side.lower for side in below), max(side.upper for side in above)

    def epsilon(self, delta: float) -> Sides:
        """(lower, upper) ε at δ."""
        above, below = (
            [epsilon_bracket(profile, delta, start=1.0) for profile in side] for side in (self.upper, self.lower)
        )
        return max(side.lower for side in below), max(side.upper for side in above)


def _profile(part: Part, goal: Goal) -> Profile | None:
    laws, precision = part
    if precision == 0.0 and len(laws) == 1 and laws[0][1] == 1:
        return laws[0][0]  # closed form
    accuracy = _ACCURACY if goal.delta is not None else _SHARP
    delta = goal.expected or goal.delta or 1e-300
    return contour_profile(laws, precision=precision, delta=delta, epsilon=goal.epsilon, accuracy=accuracy)


def gaussian_samples(fixed: Fixed, goal: Goal) -> GaussianSamples | None:
    """The profile of Gaussians and samples of Gaussians.

    None if there is something else or no sample, or if a lattice is quicker.
    """
    sampled = [(use, count) for use, count in fixed.uses if isinstance(use, Sampled) and _mu_squared(use)]
    if not sampled or len(sampled) < len(fixed.uses) or goal.rough:
        return None
    known: dict[Part, Profile] = {}
    sides: list[list[Profile]] = []
    for upper in (True, False):
        parts = dict.fromkeys(_part(fixed.mu_squared, sampled, forward=way, upper=upper) for way in (True, False))
        for part in parts:
            if part not in known:
                profile = _profile(part, goal)
                if profile is None:
                    return None
                known[part] = profile
        sides.append([known[part] for part in parts])
    return GaussianSamples(sides[0], sides[1])


def _part(mu_squared: Fraction, sampled: Sequence[tuple[Sampled, int]], *, forward: bool, upper: bool) -> Part:
    precision = float(mu_squared)
    if Fraction(precision) != mu_squared:
        precision = math.nextafter(precision, math.inf if upper else 0.0)
    return tuple((_law(use, forward=forward, upper=upper), count) for use, count in sampled), precision


def _mu_squared(use: Sampled) -> Fraction | None:
    """Σ 1/σ² of what runs on the sample, if it is Gaussian and the cost without the record not stated."""
    match use:
        case Sampled(
            of=Branch(first=Fixed(mu_squared=mu_squared, rho=0, uses=()), steps=(), blatant=False), absent=None
        ):
            return mu_squared
    return None


def _law(use: Sampled, *, forward: bool, upper: bool) -> SmoothLaw:
    mu_squared = _mu_squared(use) or Fraction(0)
    sigma = 1.0 / math.sqrt(mu_squared)
    if Fraction(sigma) ** 2 * mu_squared != 1:
        for _ in range(2):
            sigma = math.nextafter(sigma, 0.0 if upper else math.inf)
    rate = float(use.rate)
    if Fraction(rate) != use.rate:  # a larger rate dominates
        rate = math.nextafter(rate, 1.0 if upper else 0.0)
    replaced = use.scheme == "without-replacement" and use.relation != "add-remove"
    if use.scheme == "poisson" and use.relation == "substitution":
        return diluted_pair(rate=rate, sigma=sigma)
    if replaced and upper:
        return replacement_curve(rate=rate, sigma=sigma)
    return removal_pair(rate=rate, sigma=sigma, removed=forward != use.mirrored)
