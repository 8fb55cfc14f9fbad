"""Which certified method a branch gets, and how several are combined.

A ``Profile`` answers both questions, δ at ε and ε at δ, with a pair (lower, upper). It is built for
a ``Goal``, because lattices are cut where nothing matters for it any more (every cut is charged).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np

from affidavit.accountant.certified.adaptive import (
    AdaptiveCurve,
    Lines,
    Start,
    adaptive_curve,
    cost_in_seconds,
    lattice_points,
    spacing,
)
from affidavit.accountant.certified.balls import ball, down_array, precision, up_array
from affidavit.accountant.certified.branches import Branch, Fixed, Steps, Use
from affidavit.accountant.certified.laplace import LaplaceProfile
from affidavit.accountant.certified.mixture import LossMasses, MixtureProfile, gaussian_masses, two_point_masses
from affidavit.accountant.certified.product import ProductProfile, two_point_product
from affidavit.accountant.certified.search import Sides
from affidavit.accountant.certified.zcdp import zcdp_curve, zcdp_top
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Approximate, Laplace, Pure

__all__ = ["Goal", "Profile", "profile_of"]

BITS = 256
CELLS = (96, 80, 64, 56, 48, 40, 32, 28, 24, 20, 16, 12, 8, 6)
ENOUGH = 32
"""Cells to a range for a relative width of about 8e-4 (it falls with their square)."""
QUICK, AFFORDABLE = 0.5, 4.0
"""Seconds: more than ``ENOUGH`` cells if they fit the first, up to ``ENOUGH`` if they fit the second."""
TAIL = 1e-7
"""What is cut off, relative to the δ asked for."""
SMALLEST = 1e-280
START_TERMS = 200_000


@dataclass(frozen=True, slots=True)
class Goal:
    """What will be asked: ε at ``delta``, or δ at values of ε up to ``epsilon``.

    ``expected`` is an earlier, too coarse δ at that ε.
    """

    delta: float | None = None
    epsilon: float | None = None
    expected: float | None = None

    def tail(self, rho: float) -> float:
        """A mass that is negligible beside the δ in question, for a plan of about ρ-zCDP."""
        delta = self.delta or self.expected
        if delta is None:
            gap = max(0.0, (self.epsilon or 0.0) - rho)
            delta = math.exp(-gap * gap / (4 * rho)) if gap < 50 * math.sqrt(rho) else SMALLEST
        return max(SMALLEST, delta * TAIL)


class Profile(Protocol):
    """A two-sided privacy profile."""

    @property
    def method(self) -> str:
        """How it is computed."""

    def delta(self, epsilon: float) -> Sides:
        """(lower, upper) δ at ε."""

    def epsilon(self, delta: float) -> Sides:
        """(lower, upper) ε at δ."""


@dataclass(frozen=True, slots=True)
class Blatant:
    """No noise: δ(ε) = 1 for every ε."""

    method: str = "no noise"

    def delta(self, epsilon: float) -> Sides:  # noqa: ARG002
        """(1, 1)."""
        return 1.0, 1.0

    def epsilon(self, delta: float) -> Sides:
        """inf, except at δ = 1."""
        return (0.0, 0.0) if delta >= 1.0 else (math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Best:
    """Several valid profiles of the same thing: the largest lower and the smallest upper side."""

    profiles: tuple[Profile, ...]

    @property
    def method(self) -> str:
        """All of them."""
        return " + ".join(dict.fromkeys(profile.method for profile in self.profiles))

    def delta(self, epsilon: float) -> Sides:
        """(lower, upper) δ at ε."""
        lower, upper = zip(*(profile.delta(epsilon) for profile in self.profiles), strict=True)
        return max(lower), min(upper)

    def epsilon(self, delta: float) -> Sides:
        """(lower, upper) ε at δ."""
        lower, upper = zip(*(profile.epsilon(delta) for profile in self.profiles), strict=True)
        return max(lower), min(upper)


@dataclass(frozen=True, slots=True)
class OneSide:
    """Only the lower or only the upper side of a profile is valid for the thing at hand."""

    profile: Profile
    keep: str

    @property
    def method(self) -> str:
        """The profile's, and which side."""
        return f"{self.profile.method} ({self.keep} side)"

    def delta(self, epsilon: float) -> Sides:
        """(lower, upper) δ at ε."""
        lower, upper = self.profile.delta(epsilon)
        return (lower, 1.0) if self.keep == "lower" else (0.0, upper)

    def epsilon(self, delta: float) -> Sides:
        """(lower, upper) ε at δ."""
        lower, upper = self.profile.epsilon(delta)
        return (lower, math.inf) if self.keep == "lower" else (0.0, upper)


def _two_point(fixed: Fixed) -> list[tuple[Pure | Approximate, int]]:
    return [(use, count) for use, count in fixed.uses if isinstance(use, (Pure, Approximate))]


def _rho(fixed: Fixed, steps: Steps) -> float:
    """About how much zCDP all of it is: sizes lattices, never a bound."""
    pure = sum(count * float(use.epsilon) ** 2 / 2 for use, count in _two_point(fixed))
    exact = fixed.rho + fixed.mu_squared / 2 + sum((count * r * r for r, count in steps), Fraction(0)) / 8
    try:
        return float(exact) + pure
    except OverflowError:
        return math.inf


def _product(fixed: Fixed, tail: float) -> ProductProfile:
    with precision(BITS):
        mu = ball(fixed.mu_squared).sqrt() if fixed.mu_squared else None
        atoms = two_point_product(_two_point(fixed), budget=tail)
    if mu is None:
        method = "optimal composition (two-point product)"
    else:
        method = "Gaussian closed form" + ("" if atoms.trivial else " x two-point product")
    return ProductProfile(mu, atoms, method, BITS)


def _masses(fixed: Fixed, tail: float) -> LossMasses | None:
    if fixed.empty:
        return None
    parts = []
    if fixed.mu_squared:
        with precision(BITS):
            mu = ball(fixed.mu_squared).sqrt()
        parts.append(gaussian_masses(mu, budget=tail))
    if _two_point(fixed):
        with precision(BITS):
            parts.append(two_point_masses(two_point_product(_two_point(fixed), budget=tail)))
    result = parts[0]
    for part in parts[1:]:
        result = result.times(part)
    return result


def _lattice(steps: Steps, top: float) -> Fraction | None:
    """The finest affordable spacing, or None."""
    for cells in CELLS:
        step = spacing(steps, cells)
        if cost_in_seconds(steps, step, top) <= (QUICK if cells > ENOUGH else AFFORDABLE):
            return step
    return None


def _start(last: Fixed, steps: Steps, step: Fraction, top: float, tail: float) -> Start | None:
    """The recursion's start when ``last`` runs after all steps; None if there is none or it costs too much."""
    if last.empty:
        return None
    product = _product(last, tail)
    points = lattice_points(steps, step, top)
    if product.mu is not None and points * len(product.atoms.losses) > START_TERMS:
        return None
    with precision(BITS):
        events = [product.event(i * step) for i in range(points)]
        growth = [ball(i * step).exp() for i in range(points)]
        inside = np.maximum(down_array([p for p, _ in events]), 0.0)
        weight = up_array([q * g for (_, q), g in zip(events, growth, strict=True)])
        rest = product.atoms.rest
        upper = up_array([p - q * g + rest for (p, q), g in zip(events, growth, strict=True)])
    return Start(np.minimum.accumulate(np.clip(upper, 0.0, 1.0)), Lines(inside, weight))


def _ended(steps: Steps, step: Fraction, last: Fixed, tail: float) -> tuple[AdaptiveCurve, bool]:
    """The curve of all steps followed by ``last``, and whether ``last`` is really in it."""
    whole = float(sum(count * spread for spread, count in steps))
    if not last.empty:
        top = zcdp_top(_rho(last, steps), tail)
        start = _start(last, steps, step, top, tail) if cost_in_seconds(steps, step, top) <= 2 * AFFORDABLE else None
        if start is not None:
            return adaptive_curve(steps, step, top, negligible=tail, start=start), True
    top = min(whole, zcdp_top(_rho(Fixed(), steps), tail))
    return adaptive_curve(steps, step, top, negligible=tail), last.empty


def _adaptive(branch: Branch, goal: Goal) -> Profile | None:
    """Exponential steps between fixed pairs; None when no lattice is affordable."""
    steps = branch.steps
    tail = goal.tail(_rho(branch.fixed, steps))
    step = _lattice(steps, zcdp_top(_rho(Fixed(), steps), tail))
    if step is None:
        return None
    curve, ended = _ended(steps, step, Fixed() if branch.interleaved else branch.last, tail)
    front = branch.first.plus(branch.between)
    masses = _masses(front if ended and not branch.interleaved else branch.fixed, tail)
    lower_curve, lower_masses = curve, masses
    if not branch.between.empty or not ended or (branch.interleaved and not branch.last.empty):
        lower_curve, _ = _ended(steps, step, branch.between.plus(branch.last), tail)
        lower_masses = _masses(branch.first, tail)
    reach = curve.top + float(step) + (0.0 if masses is None else max(0.0, float(masses.upper_loss.max())))
    name = "exact adaptive composition of exponential mechanisms"
    return MixtureProfile(
        curve, masses, lower_curve, lower_masses, reach, name if branch.fixed.empty else f"{name} with fixed pairs"
    )


def _zcdp(branch: Branch, goal: Goal) -> Profile:
    """Upper side from zCDP of the leaves and steps; fixed pairs in front."""
    rho = branch.fixed.rho + sum((count * r * r for r, count in branch.steps), Fraction(0)) / 8
    rest = replace(branch.fixed, rho=Fraction(0))
    tail = goal.tail(_rho(rest, ()) + float(rho))
    top = max(zcdp_top(float(rho), tail), float(goal.epsilon or 0.0))
    curve = zcdp_curve(rho, top)
    masses = _masses(rest, tail)
    reach = top + (0.0 if masses is None else max(0.0, float(masses.upper_loss.max())))
    nothing = AdaptiveCurve(curve.spacing, np.ones_like(curve.upper_values), curve.lines)
    return OneSide(MixtureProfile(curve, masses, nothing, None, reach, "zCDP conversion"), "upper")


def _pure_steps(branch: Branch, share: int) -> Branch:
    """The steps replaced by pure mechanisms of ε = range/share."""
    uses: dict[Use, int] = {}
    for spread, count in branch.steps:
        # Rounded to the safe side of each use: outwards for share 1 (upper), inwards for 2 (lower).
        epsilon = float(spread / share)
        if share == 1 and Fraction(epsilon) < spread:
            epsilon = math.nextafter(epsilon, math.inf)
        if share == 2 and Fraction(epsilon) * 2 > spread:
            epsilon = math.nextafter(epsilon, 0.0)
        leaf = Pure(epsilon)
        uses[leaf] = uses.get(leaf, 0) + count
    extra = Fixed(uses=tuple(sorted(uses.items(), key=repr)))
    return Branch(first=branch.fixed.plus(extra))


def _coarse(branch: Branch, goal: Goal) -> Profile:
    """Order-free bounds: zCDP and optimal pure composition above, the strategy t = range/2 at every
    step (two-point losses ±range/2) below. For too many steps, or unequal ones in unknown order.
    """
    options: list[Profile] = [
        _zcdp(branch, goal),
        OneSide(profile_of(_pure_steps(branch, 2), goal), "lower"),
    ]
    try:
        options.append(OneSide(profile_of(_pure_steps(branch, 1), goal), "upper"))
    except NotSupported:
        return Best(tuple(options))
    return Best(tuple(options))


def profile_of(branch: Branch, goal: Goal) -> Profile:
    """The certified profile of a branch.

    Raises ``NotSupported`` when no certified method covers it.
    """
    if branch.blatant:
        return Blatant()
    fixed = branch.fixed
    others: Sequence[tuple[Use, int]] = [u for u in fixed.uses if not isinstance(u[0], (Pure, Approximate))]
    if others:
        only, count = others[0]
        alone = len(fixed.uses) == 1 and not (fixed.mu_squared or fixed.rho or branch.steps)
        if alone and count == 1 and isinstance(only, Laplace):
            return LaplaceProfile(only.noise_multiplier)
        kind = getattr(only, "kind", "subsample")
        raise NotSupported(
            f"certified arithmetic does not compose the kind {kind!r} yet",
            hint="affidavit epsilon (float64, two-sided) covers it",
        )
    if fixed.rho:
        gaussian = replace(
            branch,
            first=_as_gaussian(branch.first),
            between=_as_gaussian(branch.between),
            last=_as_gaussian(branch.last),
        )
        return Best((_zcdp(branch, goal), OneSide(profile_of(gaussian, goal), "lower")))
    if branch.steps:
        ordered = not branch.interleaved or len({spread for spread, _ in branch.steps}) == 1
        return (_adaptive(branch, goal) if ordered else None) or _coarse(branch, goal)
    return _product(fixed, goal.tail(_rho(fixed, ())) * 1e-6)


def _as_gaussian(fixed: Fixed) -> Fixed:
    """zCDP leaves replaced by the Gaussian that is as private: a strategy, hence a lower side."""
    return replace(fixed, mu_squared=fixed.mu_squared + 2 * fixed.rho, rho=Fraction(0))
