"""One exponential mechanism on each of many fresh samples: which lattice the recursion (``adaptive``) runs on.

Beyond some thousand uses, blocks above (``blocks``) and one choice at every use below (``memoryless``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from affidavit.accountant.verifier.adaptive import AdaptiveCurve, Side, after_another, after_one, mirror_of
from affidavit.accountant.verifier.balls import precision
from affidavit.accountant.verifier.blocks import Run, block_lengths, composed_blocks
from affidavit.accountant.verifier.bracket import epsilon_bracket
from affidavit.accountant.verifier.branches import Branch, Fixed, Sampled
from affidavit.accountant.verifier.exponential_use import LEAST_RANGE, Way, ways_of
from affidavit.accountant.verifier.memoryless import UnderSampling, memoryless_profile
from affidavit.accountant.verifier.mixture import MixtureProfile
from affidavit.accountant.verifier.profile import SMALLEST, TAIL, Best, Goal, OneSide, Profile, worst

__all__ = ["exponential_samples"]

FEW_USES, MOST_USES, LARGEST_RANGE, LARGEST_IN_BLOCKS = 400, 2_000, 40, 4
"""Uses from which on blocks serve (``blocks``), of small ranges and of any; ranges beyond which the envelope does."""
BLOCK, IN_BLOCKS, SHARP_IN_BLOCKS, MANY = 200, 0.15, 0.08, 20_000
"""Uses of a block, and the spacing of its lattice, in deviations of one use's loss; the second up to so many uses."""
PER_DEVIATION, ROUGH = 0.025, 0.15
"""The spacing, in deviations of one use's loss: a relative width of about 3e-4, or of some 3e-3."""
FEWEST, MOST = 12, 800
"""Cuts, at least and at most."""
MOST_WORK = 1.5e8
"""Lattice points times cuts times uses: some three seconds."""
NARROW, NARROW_DELTA = 8e-4, 1e-2
"""Relative widths of ε and of δ from which on the recursion is run once more, on a lattice ``FINER`` times as fine."""
FINER, ROUNDS = 2.5, 3

METHOD = "exact adaptive composition of exponential mechanisms on samples"


def _curves(
    eta: Fraction, rate: Fraction, uses: int, step: Fraction, top: float, negligible: float
) -> list[AdaptiveCurve]:
    """The record removed, and added, after ``uses``."""
    *_, sides = islice(_recursion(eta, rate, step, top, negligible), uses)
    return [AdaptiveCurve(float(step), *side) for side in sides]


def _recursion(
    eta: Fraction, rate: Fraction, step: Fraction, top: float, negligible: float
) -> Iterator[tuple[Side, ...]]:
    """The record removed, and added, after one use, after two, ..., on lattice points 0 .. ``top``."""
    with precision():
        ways = ways_of(eta, rate, step)
        mirror = mirror_of(ways, step)
        points = max(math.ceil(top / float(step)), 2 * len(mirror.fall)) + 1
        sides = after_one(eta, rate, step, points)
    while True:
        yield sides
        sides = after_another(sides, ways, mirror, negligible)


class _Estimate(NamedTuple):
    """Where one direction's answer lies, in floats: it sizes the lattice, never a bound."""

    epsilon: float
    log_delta: float
    tilt: float
    deviation: float
    gap: float
    """How far the two losses are apart."""
    t: float
    """The choice of the largest moment."""


def _estimate(eta: float, rate: float, uses: int, goal: Goal, *, removed: bool) -> _Estimate:
    """By Chernoff's bound: the largest moment of one use over u, to the power ``uses``."""
    u = np.exp(eta * np.linspace(0.0, 1.0, 202)[1:-1])
    chance = (1.0 / u - math.exp(-eta)) / -math.expm1(-eta)
    losses = np.stack([np.log1p(rate * (u - 1.0)), np.log1p(rate * (u * math.exp(-eta) - 1.0))])
    tilts = np.geomspace(1e-2, 1e6, 240)
    power = 1.0 + tilts if removed else -tilts
    terms = np.multiply.outer(power, losses) + np.log(np.stack([chance, 1.0 - chance]))
    logs = np.logaddexp(terms[:, 0], terms[:, 1])
    best = logs.argmax(axis=1)
    places = np.arange(len(tilts))
    moment = uses * logs[places, best] + tilts * np.log(tilts) - (1.0 + tilts) * np.log1p(tilts)
    log_delta = min(0.0, math.log(goal.expected or goal.delta or 1.0))
    if goal.delta is None:
        epsilon = goal.epsilon or 0.0
        at = int(np.argmin(moment - tilts * epsilon))
        log_delta = max(math.log(SMALLEST), float(moment[at]) - float(tilts[at]) * epsilon)
    else:
        crossed = (moment - log_delta) / tilts
        at = int(np.argmin(crossed))
        epsilon = max(0.0, float(crossed[at]))
    share = float(np.exp(terms[at, 0, best[at]] - logs[at, best[at]]))
    gap = float(losses[0, best[at]] - losses[1, best[at]])
    tilt = min(float(tilts[at]), 300.0 / float(losses.max()))
    deviation = gap * math.sqrt(share * (1.0 - share))
    return _Estimate(epsilon, log_delta, tilt, deviation, gap, math.log(u[best[at]]))


def _spacing(eta: float, rate: float, uses: int, near: _Estimate, top: float, *, share: float) -> Fraction:
    """About ``share`` deviations."""
    reach = math.log1p(rate * math.expm1(eta))
    affordable = math.sqrt(uses * top * reach / MOST_WORK)
    return Fraction(min(max(share * near.deviation, affordable, reach / MOST), reach / FEWEST))


def exponential_samples(fixed: Fixed, goal: Goal) -> Profile | None:
    """The profile of one exponential mechanism on each of many samples of one kind; None for anything else."""
    match fixed:
        case Fixed(
            mu_squared=0,
            rho=0,
            uses=(
                (
                    Sampled(
                        scheme=scheme,
                        rate=rate,
                        relation=relation,
                        of=Branch(steps=((eta, 1),), blatant=False) as inner,
                        absent=None,
                    ),
                    uses,
                ),
            ),
        ) if inner.fixed.empty and (relation == "add-remove" or (scheme, relation) == ("poisson", "zero-out")):
            pass
        case _:
            return None
    if uses == 1 or not LEAST_RANGE <= eta <= LARGEST_RANGE:
        return None
    if uses > min(float(MOST_USES), FEW_USES * max(1.0, float(eta) ** 2)):
        return _in_blocks(eta, rate, uses, goal) if eta <= LARGEST_IN_BLOCKS else None
    found = [_estimate(float(eta), float(rate), uses, goal, removed=removed) for removed in (True, False)]
    tail = max(SMALLEST, TAIL * math.exp(max(one.log_delta for one in found)) * (1.0 if goal.delta else 1e-2))
    reach = uses * math.log1p(float(rate) * math.expm1(float(eta)))
    edges = [
        _estimate(float(eta), float(rate), uses, Goal(delta=tail), removed=removed).epsilon for removed in (True, False)
    ]
    top = min(reach, max(*edges, 1.01 * (goal.epsilon or 0.0)))
    near = max(found, key=lambda one: (one.log_delta, one.epsilon))
    share = ROUGH if goal.rough else PER_DEVIATION
    found_step: Fraction | None = None
    profile: Profile
    for _ in range(1 if goal.rough else ROUNDS):
        step = _spacing(float(eta), float(rate), uses, near, top, share=share)
        if found_step is not None and step > 0.8 * found_step:
            break
        curves = _curves(eta, rate, uses, step, top, tail)
        profile = worst([MixtureProfile(curve, None, curve, None, METHOD) for curve in curves])
        if _narrow(profile, goal):
            break
        found_step, share = step, share / FINER
    return profile


def _in_blocks(eta: Fraction, rate: Fraction, uses: int, goal: Goal) -> Profile:
    """Very many uses: blocks of them above, one choice at every use below."""
    found = [_estimate(float(eta), float(rate), uses, goal, removed=removed) for removed in (True, False)]
    tail = max(SMALLEST, TAIL * math.exp(max(one.log_delta for one in found)) * (1.0 if goal.delta else 1e-2))
    small = max(SMALLEST, tail * BLOCK / uses)
    longest = max(length for length, _ in block_lengths(uses, BLOCK))
    at_most = Goal(delta=small)
    edges = [_estimate(float(eta), float(rate), longest, at_most, removed=removed) for removed in (True, False)]
    top = min(longest * math.log1p(float(rate) * math.expm1(float(eta))), max(one.epsilon for one in edges))
    near = max(found, key=lambda one: (one.log_delta, one.epsilon))
    step = _spacing(float(eta), float(rate), longest, near, top, share=IN_BLOCKS if uses > MANY else SHARP_IN_BLOCKS)
    states = dict(enumerate(islice(_recursion(eta, rate, step, top, small), longest), start=1))
    method = "blocks of exponential mechanisms on samples, each by its largest curve"
    profiles: list[Profile] = []
    for way, one in enumerate(found):
        sides = {length: (state[way].upper, state[1 - way].upper) for length, state in states.items()}
        run = Run(sides[longest], step, longest, uses, near.deviation, near.tilt, near.gap)
        curve = run.charged(partial(_way, eta, rate, way), small)
        if curve is None:
            every = [(sides[length], count) for length, count in block_lengths(uses, BLOCK)]
            deviation = near.deviation * math.sqrt(longest)
            curve = composed_blocks(every, step, deviation=deviation, negligible=small)
        above = OneSide(MixtureProfile(curve, None, curve, None, method), "upper")
        sampled = UnderSampling(rate, removed=way == 0)
        below = OneSide(memoryless_profile(eta, uses, one.t, budget=tail, sampled=sampled), "lower")
        profiles.append(Best((above, below)))
    return worst(profiles)


def _way(eta: Fraction, rate: Fraction, way: int, step: Fraction) -> Way:
    return ways_of(eta, rate, step)[way]


def _narrow(profile: Profile, goal: Goal) -> bool:
    if goal.delta is not None:
        lower, upper = epsilon_bracket(profile, goal.delta)
        return upper - lower <= NARROW * upper + 1e-7
    lower, upper = profile.delta(goal.epsilon or 0.0)
    return upper - lower <= NARROW_DELTA * upper
