"""How the lattice of everything with a dominating pair is fitted: quick looks, refinement, directions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from affidavit.accountant.verifier.bracket import Sides, epsilon_bracket
from affidavit.accountant.verifier.branches import Fixed
from affidavit.accountant.verifier.mixture import MixtureProfile, NoSteps
from affidavit.accountant.verifier.profile import LOUD, LOUD_WIDTH, SMALLEST, TAIL, Best, Goal, OneSide, Profile, worst
from affidavit.accountant.verifier.sampled import Front, Kept, expected_delta, fronts

__all__ = ["lattice_above", "sampled_profile"]

COARSE_WIDTH, NARROW = 2e-3, 8e-4
"""Relative bracket widths: of a first look, and aimed at."""
NARROW_DELTA, ROUGH_DELTA = 5e-3, 3e-2
REFINEMENTS, HALVINGS, MAX_WORK = 4, 4, 128 << 15
"""Refinements and halvings at most; places times bits of a refined sum."""
QUICK = 4_000
"""Places up to which another refinement is tried though the last one did not help much."""


def sampled_profile(fixed: Fixed, goal: Goal) -> Profile:
    """Everything on one lattice, refined until the bracket is narrow or stops shrinking."""
    delta = goal.expected or goal.delta or expected_delta(fixed, goal.epsilon or 0.0)
    tail = max(SMALLEST, delta * TAIL)
    found: list[Profile] = []
    pending: list[tuple[float, Front, _Look | None]] = []
    forward, backward = fronts(fixed, negligible=tail)
    for front in (forward, backward) if forward.directed else (forward,):
        exact = front.closed_form() or front.single()
        if exact is not None:
            found.append(exact)
        elif not forward.directed:
            pending.append((0.0, front, None))
        else:
            # A quick look at the upper side: it may show that this direction does not matter.
            step = front.spacing(COARSE_WIDTH, resolve=False)
            quick = _lattice_profile(front, step, keep="upper")
            pending.append((_asked(quick, goal)[1], front, _Look(step, quick)))
    if not (forward.attained or forward.directed or found):
        return _two_lattices(forward, backward, goal)
    floor = max((_asked(profile, goal)[0] for profile in found), default=0.0)
    for upper, front, look in sorted(pending, key=lambda item: -item[0]):
        if look is not None and upper <= floor:
            found.append(look.profile)
            continue
        found.append(_refined(front, goal, floor, look))
        floor = max(floor, _asked(found[-1], goal)[0])
    result = worst(found)
    if forward.attained or forward.single() is not None:
        return result
    other = _lattice_profile(backward, backward.spacing(NARROW / 2), keep="lower")
    return Best((result, OneSide(other, "lower")))


def _two_lattices(forward: Front, backward: Front, goal: Goal) -> Profile:
    """One upper side for both directions, and the explicit pairs below it, which need a finer lattice.

    Those differ by direction; a quick look from above may show that the second one does not matter. A rough curve is an
    upper side only.
    """
    sides: list[Profile] = []
    step = forward.spacing(NARROW / 2, resolve=False)
    above = _lattice_profile(forward, step, keep="upper")
    for _ in range(
        0 if goal.rough else HALVINGS
    ):  # O(spacing²): the step to half of it shows three quarters of the error
        if _places(above) * forward.bits > MAX_WORK:
            break
        step /= 2
        finer = _lattice_profile(forward, step, keep="upper")
        before, after = _asked(above, goal)[1], _asked(finer, goal)[1]
        above = finer if after < before else above
        if before - after <= (2 * NARROW if goal.delta is not None else NARROW_DELTA) * after:
            break
    sides.append(OneSide(above, "upper"))
    reached = 0.0
    for front in () if goal.rough or goal.keep == "upper" else (forward, backward):
        if len(sides) > 1:
            if not front.direction.lower:  # nothing that the first direction does not have
                break
            alone = replace(front, direction=replace(front.direction, upper=front.direction.lower))
            wide = max(step, alone.spacing(COARSE_WIDTH, resolve=False))
            look = _lattice_profile(alone, wide, keep="upper")
            if _asked(look, goal)[1] <= reached:
                break
        below = _lattice_profile(front, front.spacing(NARROW / 2), keep="lower")
        reached = max(reached, _asked(below, goal)[0])
        sides.append(OneSide(below, "lower"))
    return Best(tuple(sides))


def lattice_above(front: Front) -> Profile:
    """An upper side alone, at a first look's width."""
    return OneSide(_lattice_profile(front, front.spacing(NARROW, resolve=False), keep="upper"), "upper")


def _lattice_profile(front: Front, step: float, *, keep: Kept = "both") -> MixtureProfile:
    masses = front.masses(step, keep=keep)
    method = "privacy loss distribution, connect the dots and grouped cells"
    return MixtureProfile(NoSteps(), masses, NoSteps(), masses, method)


def _asked(profile: Profile, goal: Goal) -> Sides:
    return epsilon_bracket(profile, goal.delta) if goal.delta is not None else profile.delta(goal.epsilon or 0.0)


def _places(profile: MixtureProfile) -> int:
    masses = profile.masses
    return 1 if masses is None else max(len(masses.upper_mass), len(masses.lower_mass))


class _Look(NamedTuple):
    """A quick look from above."""

    step: float
    profile: MixtureProfile

    def with_lower(self, front: Front) -> MixtureProfile:
        """The same with a lower side."""
        lower = front.masses(self.step, keep="lower")
        return replace(self.profile, lower_masses=lower)


def _refined(front: Front, goal: Goal, floor: float, look: _Look | None) -> Profile:
    """The profile on finer and finer lattices, until it is narrow or another direction costs more (``floor``)."""
    aim = NARROW if goal.delta is not None else ROUGH_DELTA if goal.rough else NARROW_DELTA
    step = front.spacing(COARSE_WIDTH if front.attained else NARROW / 2)
    profile = _lattice_profile(front, step) if look is None or step < look.step else look.with_lower(front)
    lower, upper = _asked(profile, goal)
    for _ in range(REFINEMENTS if front.attained else 0):
        width = upper - lower
        if goal.delta is not None and lower > LOUD and width <= LOUD_WIDTH * upper:
            break
        if upper <= floor or width <= max(aim * upper, 1e-7 if goal.delta is not None else 0.0):
            break
        # The bracket is O(spacing²) wide.
        finest = max(_places(profile) * front.bits / MAX_WORK, front.tails(step) / 2.0)
        factor = max(0.15, finest, math.sqrt(0.6 * aim * upper / width) if width < math.inf else 0.5)
        if factor > 0.8:
            break
        step *= factor
        profile = _lattice_profile(front, step)
        again = _asked(profile, goal)
        shrunk = again[1] - again[0] < 0.7 * width
        lower, upper = again
        if not shrunk and _places(profile) > QUICK:
            break
    return profile
