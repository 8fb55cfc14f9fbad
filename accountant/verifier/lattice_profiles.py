"""How the lattice of everything with a dominating pair is fitted: quick looks, refinement, directions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from affidavit.accountant.verifier.beside import beside_others
from affidavit.accountant.verifier.cases import Fixed
from affidavit.accountant.verifier.front import Front
from affidavit.accountant.verifier.mixture import Kept, MixtureProfile, NoSteps
from affidavit.accountant.verifier.profile import (
    LOUD,
    LOUD_WIDTH,
    NARROW,
    NARROW_DELTA,
    SMALLEST,
    TAIL,
    AtMost,
    Best,
    OneSide,
    Profile,
    Target,
    worst,
)
from affidavit.accountant.verifier.sampled import expected_delta, fronts

__all__ = ["lattice_above", "sampled_profile"]

COARSE_WIDTH, ROUGH_DELTA, SHARP = 2e-3, 3e-2, 5e-5
"""Relative bracket widths: of a first look, of a rough curve, and what needs no lattice."""
REFINEMENTS, HALVINGS, MAX_WORK = 4, 4, 128 << 15
"""Refinements and halvings at most; places times bits of a refined sum."""
QUICK = 4_000
"""Places up to which another refinement is tried though the last one did not help much; four times of it itself."""
CHEAPLY = 16.0
"""How much narrower a bracket is to be that takes no more than ``QUICK`` places."""
HARDLY, LITTLE = 0.1, 0.25
"""Shares of the bracket of both directions: what the cheaper one's lower side may add to it and is not looked for, and
what it may add and is not refined."""


def sampled_profile(fixed: Fixed, target: Target) -> Profile:
    """Everything on one lattice, refined until the bracket is narrow or stops shrinking."""
    delta = target.expected or target.delta or expected_delta(fixed, target.epsilon or 0.0)
    tail = max(SMALLEST, delta * TAIL)
    found: list[Profile] = []
    pending: list[_Look] = []
    forward, backward = fronts(fixed, negligible=tail)
    looks = forward.directed or target.keep != "both"
    for front in (forward, backward) if forward.directed else (forward,):
        exact = front.closed_form() or front.single() or _sharp(beside_others(front), target)
        if exact is not None:
            found.append(exact)
        else:
            pending.append(
                _Look(front, math.inf, None, front.largest if looks and target.delta is not None else math.inf)
            )
    if not (forward.attained or forward.directed or found):
        return _two_lattices(forward, backward, target)
    known = [target.asked(profile) for profile in found] if pending else []
    while pending:
        pending.sort(key=lambda look: look.upper)
        look = pending.pop()
        floor, top = (max((sides[i] for sides in known), default=0.0) for i in (0, 1))
        most = top if target.keep == "upper" else min(top, floor + HARDLY * (top - floor))
        if target.delta is not None and look.front.largest <= max(most, target.enough):
            found.append(AtMost(look.front.largest))
        elif looks and look.profile is None:  # it may show that this direction does not matter
            pending.append(_Look.at(look.front, target))
        elif look.profile is not None and look.upper <= max(most, target.enough):
            found.append(look.profile)
        else:
            found.append(_refined(look, target, max(floor, target.enough), top))
            known.append(target.asked(found[-1]))
    return worst(found)


def _sharp(profile: Profile | None, target: Target) -> Profile | None:
    """The profile if it is enough, or a lattice is hardly narrower."""
    if profile is None or target.met(profile):
        return profile
    lower, upper = target.asked(profile)
    return profile if upper - lower <= SHARP * upper else None


def _two_lattices(forward: Front, backward: Front, target: Target) -> Profile:
    """One upper side for both directions, and the explicit pairs of each below it, which need a finer lattice.

    A rough curve is an upper side only.
    """
    step = forward.spacing(NARROW / 2, resolve=False)
    above = _lattice_profile(forward, step, keep="upper")
    above = above if target.rough else _halved(forward, step, above, target)
    sides: list[Profile] = [OneSide(above, "upper")]
    if not (target.rough or target.keep == "upper" or target.met(above)):
        for front in (forward, backward):
            sides.append(OneSide(_lattice_profile(front, front.spacing(NARROW / 2), keep="lower"), "lower"))
    return Best(tuple(sides))


def _halved(front: Front, step: float, above: MixtureProfile, target: Target) -> MixtureProfile:
    """An upper side on finer lattices, as long as it falls.

    It is O(spacing²) above the truth, so the step to half of it shows three quarters of the error.
    """
    upper = target.asked(above)[1]
    for _ in range(HALVINGS):
        if upper <= target.enough or _places(above) * front.bits > MAX_WORK:
            break
        step /= 2
        finer = _lattice_profile(front, step, keep="upper")
        before, upper = upper, target.asked(finer)[1]
        if upper < before:
            above = finer
        if before - upper <= (2 * NARROW if target.delta is not None else NARROW_DELTA) * upper:
            break
    return above


def lattice_above(front: Front) -> Profile:
    """An upper side alone, at a first look's width."""
    return OneSide(_lattice_profile(front, front.spacing(NARROW, resolve=False), keep="upper"), "upper")


def _lattice_profile(front: Front, step: float, *, keep: Kept = "both") -> MixtureProfile:
    masses = front.masses(step, keep=keep)
    method = "privacy loss distribution, connect the dots and grouped cells"
    return MixtureProfile(NoSteps(), masses, NoSteps(), masses, method)


def _places(profile: MixtureProfile) -> int:
    masses = profile.masses
    return 1 if masses is None else max(len(masses.upper_mass), len(masses.lower_mass))


class _Look(NamedTuple):
    """A quick look at one direction from above: ``upper`` is what it says of what is asked."""

    front: Front
    step: float
    profile: MixtureProfile | None
    upper: float

    @staticmethod
    def at(front: Front, target: Target) -> _Look:
        step = front.spacing(COARSE_WIDTH, resolve=False)
        quick = _lattice_profile(front, step, keep="upper")
        return _Look(front, step, quick, target.asked(quick)[1])

    def started(self, step: float, keep: Kept) -> MixtureProfile:
        """The profile on a lattice of that step, or on that of the look where it is no coarser."""
        if self.profile is None or step < self.step or keep == "lower":
            return _lattice_profile(self.front, step, keep=keep)
        return replace(self.profile, lower_masses=self.front.masses(self.step, keep="lower"))


def _refined(look: _Look, target: Target, floor: float, top: float) -> Profile:
    """The profile on finer and finer lattices, until it is narrow or another direction's sides make it so."""
    front = look.front
    if target.keep == "upper" and look.profile is not None:
        return _halved(front, look.step, look.profile, target)
    aim = NARROW if target.delta is not None else ROUGH_DELTA if target.rough else NARROW_DELTA
    aim += COARSE_WIDTH if target.keep == "lower" else 0.0  # the upper side is that of the look
    step = front.spacing(COARSE_WIDTH if front.attained else NARROW / 2)
    last = look.started(step, target.keep)
    profile: Profile = last
    lower, upper = target.asked(profile)
    upper, shrunk = min(upper, look.upper), True
    for _ in range(REFINEMENTS if front.attained else 0):
        width = upper - lower
        cheap = target.delta is not None and target.keep == "both" and _places(last) <= QUICK
        wanted = aim / CHEAPLY if cheap else max(aim, LOUD_WIDTH) if target.delta is not None and lower > LOUD else aim
        if upper <= floor or width <= max(wanted * upper, 1e-7 if target.delta is not None else 0.0):
            break
        if upper <= top and width <= LITTLE * (top - lower):
            break
        # The bracket is O(spacing²) wide.
        finest = max(_places(last) * front.bits / MAX_WORK, front.tails(step) / 2.0)
        factor = max(0.15, finest, math.sqrt(0.6 * wanted * upper / width) if width < math.inf else 0.5)
        if factor > 0.8 or (not shrunk and _places(last) > QUICK * min(1.0, 4.0 * factor)):
            break
        step *= factor
        last = _lattice_profile(front, step, keep=target.keep)
        again = target.asked(last)
        better = again[0] >= lower, again[1] <= upper
        if all(better) or (target.keep == "lower" and better[0]):
            profile = last
        elif any(better):
            profile = Best((profile, last))
        lower, upper = max(lower, again[0]), min(upper, again[1])
        shrunk = upper - lower < 0.7 * width
    return profile
