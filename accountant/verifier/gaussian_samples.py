"""Compositions of Gaussians, sampled and not, by one contour integral (``contour``): no lattice.

The losses and what they dominate: ``smooth``. Each direction of a pair of data sets is composed apart. σ is rounded
to the safe side (less noise dominates: Blackwell 1953, scale the output and add noise).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from affidavit.accountant.verifier.added_samples import added_profile
from affidavit.accountant.verifier.bracket import Bracket, Falling, Profile, epsilon_bracket
from affidavit.accountant.verifier.cases import Fixed, Sampled
from affidavit.accountant.verifier.contour import contour_profile
from affidavit.accountant.verifier.loss_cells import Kind
from affidavit.accountant.verifier.profile import Target
from affidavit.accountant.verifier.rare_samples import rare_profile
from affidavit.accountant.verifier.smooth import SmoothLaw, diluted_pair, removal_pair, replaced_curve

__all__ = ["gaussian_samples"]

_ACCURACY, _SHARP, _WIDE = 1e-7, 1e-10, 1e-3
"""Relative, of ε: where δ is given, and where ε is; of a curve's δ."""

Laws = tuple[tuple[SmoothLaw, int], ...]
Part = tuple[Laws, float]
"""Sampled Gaussians with their counts, and Σ 1/σ² of the others: one direction."""


@dataclass(frozen=True, slots=True)
class GaussianSamples:
    """The largest of both directions, sharp near one δ or ε."""

    upper: Sequence[Profile]
    lower: Sequence[Profile]
    method: str = "contour integral"

    def delta(self, epsilon: float) -> Bracket:
        profiles = {id(profile): profile for profile in (*self.upper, *self.lower)}
        found = {key: profile.delta(epsilon) for key, profile in profiles.items()}
        return Bracket(
            max(found[id(profile)][0] for profile in self.lower), max(found[id(profile)][1] for profile in self.upper)
        )


@dataclass(frozen=True, slots=True)
class GaussianCurve:
    """A curve: each integral that was ``found`` is valid at any ε, and another is taken where the last one is wide."""

    fixed: Fixed
    found: list[GaussianSamples]
    method: str = "contour integral"

    def delta(self, epsilon: float) -> Bracket:
        lower, upper = self.found[-1].delta(epsilon)
        if upper - lower <= _WIDE * upper:
            return Bracket(lower, upper)
        own = gaussian_samples(self.fixed, Target(epsilon=epsilon))
        if not isinstance(own, GaussianSamples):
            return Bracket(lower, upper)
        self.found.append(own)
        return own.delta(epsilon)


def _profile(part: Part, target: Target, others: Iterable[Profile]) -> Profile | None:
    laws, precision = part
    if precision == 0.0 and len(laws) == 1 and laws[0][1] == 1:
        return laws[0][0]  # closed form
    kinds = None if precision else _kinds(laws)
    if kinds is not None and _is_addition(part):
        for removed in others:
            aim = epsilon_bracket(removed, target.delta).lower if target.delta is not None else target.epsilon or 0.0
            least = target.delta or max(removed.delta(aim)[0], 1e-300)
            added = added_profile(kinds, aim=aim, delta=least, is_epsilon=target.delta is not None)
            if added is not None and (isinstance(removed, Falling) or added.delta(aim)[1] <= least):
                return added
    elif kinds is not None:
        profile = rare_profile(kinds, delta=target.expected or target.delta, epsilon=target.epsilon)
        if profile is not None:
            return profile
    accuracy = _ACCURACY if target.delta is not None else _SHARP
    delta = target.expected or target.delta or 1e-300
    return contour_profile(laws, precision=precision, delta=delta, epsilon=target.epsilon, accuracy=accuracy)


def _is_addition(part: Part) -> bool:
    """Whether the record is added: the mixture stands second."""
    return part[0][0][0].pieces[0].p.share == 0.0


def _kinds(laws: Laws) -> tuple[Kind, ...] | None:
    """Removal pairs of one direction; None with anything else."""
    found, removed = [], laws[0][0].pieces[0].q.share == 0.0
    for law, count in laws:
        piece = law.pieces[0]
        kind = Kind((piece.p if removed else piece.q).share, piece.sigma, count)
        if not 0.0 < kind.rate < 1.0 or law != removal_pair(rate=kind.rate, sigma=kind.sigma, removed=removed):
            return None
        found.append(kind)
    return tuple(found)


def gaussian_samples(fixed: Fixed, target: Target) -> GaussianSamples | GaussianCurve | None:
    """The profile of Gaussians and samples of Gaussians.

    None if there is something else or no sample, or if a lattice is quicker.
    """
    sampled = [(use, count) for use, count in fixed.uses if isinstance(use, Sampled) and _smooth(use)]
    if not sampled or len(sampled) < len(fixed.uses):
        return None
    known: dict[Part, Profile] = {}
    sides: list[list[Profile]] = []
    for is_upper in (True, False):
        parts = dict.fromkeys(_part(fixed.mu_squared, sampled, forward=way, upper=is_upper) for way in (True, False))
        for part in sorted(parts, key=_is_addition):
            if part not in known:
                profile = _profile(part, target, known.values())
                if profile is None:
                    return None
                known[part] = profile
        sides.append([known[part] for part in parts])
    found = GaussianSamples(sides[0], sides[1])
    return GaussianCurve(fixed, [found]) if target.rough else found


def _part(mu_squared: Fraction, sampled: Sequence[tuple[Sampled, int]], *, forward: bool, upper: bool) -> Part:
    precision = float(mu_squared)
    if Fraction(precision) != mu_squared:
        precision = math.nextafter(precision, math.inf if upper else 0.0)
    return tuple((_law(use, forward=forward, upper=upper), count) for use, count in sampled), precision


def _smooth(use: Sampled) -> bool:
    """Whether what runs on the sample is Gaussian, and costs no less than what it costs without the record."""
    on_sample = use.of.gaussian
    if use.absent is None or not on_sample:
        return bool(on_sample)
    return use.in_proportion and 0 < (use.absent.gaussian or 0) <= on_sample


def _law(use: Sampled, *, forward: bool, upper: bool) -> SmoothLaw:
    rate = float(use.rate)
    if Fraction(rate) != use.rate:  # a larger rate dominates
        rate = math.nextafter(rate, 1.0 if upper else 0.0)
    mu_squared, presence = use.of.gaussian or Fraction(0), use.absent and use.absent.gaussian
    before, has_curve = 1.0, use.scheme == "without-replacement" and use.relation != "add-remove"
    if presence:
        before = 0.5
        if mu_squared < 4 * presence:
            before = 1.0 if presence == mu_squared else math.nextafter(math.sqrt(presence / mu_squared), 0.0)
        mu_squared, has_curve = min(mu_squared, 4 * presence), before != 0.5
    sigma = _noise(mu_squared, upper=upper)
    if not presence and use.scheme == "poisson" and use.relation == "substitution":
        return diluted_pair(rate=rate, sigma=sigma)
    if upper and has_curve:
        return replaced_curve(rate=rate, sigma=sigma, before=before)
    return removal_pair(rate=rate, sigma=sigma, before=before, removed=forward != use.mirrored)


def _noise(mu_squared: Fraction, *, upper: bool) -> float:
    """1/μ, four units in the last place to the safe side unless it is exact."""
    sigma = 1.0 / math.sqrt(mu_squared)
    for exact in (sigma, math.nextafter(sigma, 0.0), math.nextafter(sigma, math.inf)):
        if Fraction(exact) ** 2 * mu_squared == 1:
            return exact
    for _ in range(4):
        sigma = math.nextafter(sigma, 0.0 if upper else math.inf)
    return sigma
