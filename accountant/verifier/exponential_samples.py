"""One exponential mechanism on each of many fresh samples: which lattice the recursion (``adaptive``) runs on.

Beyond some thousand uses, blocks above (``blocks``) and one choice at every use below (``memoryless``).
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

from affidavit.accountant.verifier.adaptive import AdaptiveCurve, recursion
from affidavit.accountant.verifier.blocks import BLOCK, Directions, Run, block_lengths, composed_blocks
from affidavit.accountant.verifier.cases import Case, Fixed, Sampled
from affidavit.accountant.verifier.exponential_use import LEAST_RANGE, Way, ways_of
from affidavit.accountant.verifier.lattice_profiles import sampled_profile
from affidavit.accountant.verifier.memoryless import Estimate, Kind, estimate, memoryless_profile
from affidavit.accountant.verifier.mixture import MixtureProfile
from affidavit.accountant.verifier.profile import SMALLEST, TAIL, AtMost, Best, Blatant, OneSide, Profile, Target, worst

__all__ = ["exponential_samples"]

FEW_USES, MOST_USES, LARGEST_RANGE, LARGEST_IN_BLOCKS = 400, 2_000, 40, 4
"""Uses from which on blocks serve (``blocks``), of small ranges and of any; ranges beyond which the envelope does."""
PER_DEVIATION, THIN, ROUGH = 0.03, 0.08, 0.15
"""The spacing, in deviations of one use's loss: a relative width of about 4e-4, of 1e-3 where a use is not always made,
or of some 3e-3, as in a block."""
RARE = 5
"""Uses that see the record, on average, below which a rougher lattice does as well."""
FEWEST, MOST = 12, 800
"""Cuts, at least and at most."""
MOST_WORK = 1.5e8
"""Lattice points times cuts times uses: some three seconds."""
NARROW, NARROW_DELTA = 8e-4, 1e-2
"""Relative widths of ε and of δ from which on the recursion is run once more, on a lattice ``FINER`` times as fine."""
FINER, ROUNDS = 2.5, 3

METHOD = "exact adaptive composition of exponential mechanisms on samples"


def _spacing(kind: Kind, near: Estimate, top: float, *, share: float) -> Fraction:
    """About ``share`` deviations."""
    reach = _most(kind)
    affordable = math.sqrt(kind.uses * top * reach / MOST_WORK)
    return Fraction(min(max(share * near.deviations[0], affordable, reach / MOST), reach / FEWEST))


def _most(kind: Kind) -> float:
    """The largest loss of one use."""
    return math.log1p(float(kind.rate) * math.expm1(float(kind.range)))


def exponential_samples(fixed: Fixed, target: Target) -> Profile | None:
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
                        of=Case(steps=((eta, 1),), blatant=False) as inner,
                        absent=None,
                    ),
                    uses,
                ),
            ),
        ) if inner.fixed.empty and (relation == "add-remove" or scheme == "poisson"):
            taken = Fraction(1)
            if relation == "substitution":
                rate, taken = taken, rate
        case _:
            return None
    if uses == 1 or not LEAST_RANGE <= eta <= LARGEST_RANGE:
        return None
    few = uses <= MOST_USES if taken < 1 else uses <= min(float(MOST_USES), FEW_USES * max(1.0, float(eta) ** 2))
    if not few and eta > LARGEST_IN_BLOCKS:
        return None
    length = uses if few else max(length for length, _ in block_lengths(uses, BLOCK))
    whole, kind = (Kind(eta, rate, count, taken) for count in (uses, length))
    directions = (True,) if rate == 1 else (True, False)
    found = [estimate([whole], target, removed=removed) for removed in directions]
    near = max(found, key=lambda one: (one.log_delta, one.epsilon))
    tail = max(SMALLEST, TAIL * math.exp(near.log_delta) * (1.0 if target.delta else 1e-2))
    small = max(SMALLEST, tail * BLOCK / uses) if length < uses else tail
    edges = [estimate([kind], Target(delta=small), removed=removed).epsilon for removed in directions]
    top = min(length * _most(kind), max(edges))
    if few:
        return _exact(kind, target, near, top, tail)
    step = _spacing(kind, near, top, share=ROUGH)
    run = recursion(eta, rate, step, small, top, taken=taken)
    blocks = [(run.after(size), number) for size, number in block_lengths(uses, BLOCK)]
    deviation, method = near.deviations[0], "blocks of exponential mechanisms on samples, each by its largest curve"
    profiles: list[Profile] = []
    for way, one in enumerate(found):
        every: list[tuple[Directions, int]] = [((state[way].upper, state[-1 - way].upper), n) for state, n in blocks]
        charged = Run(every[-1][0], step, length, uses, deviation, near.tilt, taken=taken)
        curve = charged.charged(partial(_way, eta, rate, way), small)
        if curve is None:
            curve = composed_blocks(every, step, deviation=deviation * math.sqrt(length), negligible=small)
        above = OneSide(MixtureProfile(curve, None, curve, None, method), "upper")
        if taken < 1:  # below, randomised response of half the range
            below: Profile = AtMost(math.inf)
            if target.keep != "upper":
                below = sampled_profile(fixed, replace(target, keep="lower"))
            return Best((above, OneSide(below, "lower")))
        below = memoryless_profile(whole, one.choices[0], budget=tail, removed=way == 0)
        profiles.append(Best((above, OneSide(below, "lower"))))
    return worst(profiles)


def _exact(kind: Kind, target: Target, near: Estimate, top: float, negligible: float) -> Profile:
    """The recursion over all uses, on finer lattices until it is narrow."""
    once = target.rough or kind.taken < 1
    rough = target.rough or kind.uses * kind.taken < RARE
    share, last = ROUGH if rough else THIN if once else PER_DEVIATION, math.inf
    profile: Profile = Blatant()
    for _ in range(1 if once else ROUNDS):
        step = _spacing(kind, near, top, share=share)
        if step > 0.8 * last:
            break
        sides = recursion(kind.range, kind.rate, step, negligible, top, taken=kind.taken).after(kind.uses)
        curves = [AdaptiveCurve(float(step), *side) for side in sides]
        profile = worst([MixtureProfile(curve, None, curve, None, METHOD) for curve in curves])
        if _narrow(profile, target):
            break
        last, share = float(step), share / FINER
    return profile


def _way(eta: Fraction, rate: Fraction, way: int, step: Fraction) -> Way:
    return ways_of(eta, rate, step)[way]


def _narrow(profile: Profile, target: Target) -> bool:
    lower, upper = target.asked(profile)
    return upper - lower <= (NARROW * upper + 1e-7 if target.delta is not None else NARROW_DELTA * upper)
