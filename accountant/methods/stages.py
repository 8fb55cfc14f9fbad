r"""Above very many uses of one exponential mechanism: a block, and one law for each use before it (``one_law``).

The last uses are a block, whose largest hockey-stick curve the recursion gives (``blocks``). The uses before it are
added in stages, each charged by the law that is valid above all that it leaves.

Of exponential mechanisms that run together on one sample this is a curve from above (``together``): that of all of
them in any order, whatever runs beside them, as their laws add up. Such a curve is that of a pair, which the sample
amplifies like any other.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from affidavit.accountant.methods.base import LEAST_RANGE, Target
from affidavit.accountant.methods.discrete import DiscreteProfile, curve_above
from affidavit.accountant.methods.one_law import Law, law_above, longer, start_of
from affidavit.accountant.methods.recursion import Window, compose, whole
from affidavit.accountant.methods.sampled_adaptive import Sample, SampledAdaptiveProfile
from affidavit.accountant.methods.sampled_use import Moments, SampledUse, estimate
from affidavit.accountant.rounding import POWER

if TYPE_CHECKING:
    from affidavit.accountant.pld.curve import Curve, OneStep

__all__ = ["BLOCK", "LARGEST_RANGE", "Above", "above", "together", "window"]

BLOCK = 50
"""Uses of a block."""
SPACING = 0.15
"""Of a block's lattice on samples, in deviations of one use's loss."""
STAGE, LAST_STAGE, ENOUGH, MOST_BEHIND = 2.0, 3.0, 40.0, 1_000
"""Uses that are added to one behind them, and in the end; all of them where √(``ENOUGH`` × uses) are behind, or so
many, or as much less as they are less of all that is costly."""
LOOSE = 0.05
"""ln of how much all growth may raise δ; beyond, all uses are in blocks."""
CELLS = 24
"""Lattice spacings to a range in a block: the chords add 1.5/cells² to its ρ."""
LARGEST_RANGE = 4.0
"""Of a block."""
MOST_GROWTH = 1e-3
"""An engine's curve may have little more mass than 1."""
NEGLIGIBLE, TAIL = 21.0, 1e-6
"""ln of δ, beside that of a mass that is nothing; what may be left out here, in units of it."""


class Above(NamedTuple):
    """δ of the uses is at most e^``growth`` × (that of ``parts`` + ``constant``)."""

    parts: tuple[tuple[OneStep, int], ...]
    growth: float = 0.0
    constant: float = 0.0


def window(use: SampledUse, uses: int, small: float) -> Window:
    """The lattice of a block without a sample."""
    runs = ((use, uses),)
    return whole(runs, use.eta / CELLS, width=Moments.of(runs).epsilon(small), mirrored=True)


@lru_cache(maxsize=32)
def above(sample: Sample, uses: int, small: float, tilt: float, share: float) -> Above:
    """Above ``uses`` of one kind; about mass ``small`` may be left out.

    ``share``: what they are of all that is costly.
    """
    length = min(uses, BLOCK)
    enough = share * min(math.sqrt(ENOUGH * uses / sample.taken), MOST_BEHIND / sample.taken)
    if (rest := uses - length) > 0:
        sides = _sides(sample, length, small)
        starts = [start_of(use, block, spacing, small=small) for use, block, spacing in sides]
        growth = constant = 0.0
        while True:
            laws = [law_above(side[0], start, tilt=tilt) for side, start in zip(sides, starts, strict=True)]
            behind = uses - rest
            taken = rest if rest <= LAST_STAGE * behind or behind >= enough else math.floor(STAGE * behind)
            growth += max(law.growth for law in laws) * taken
            constant += max(law.constant for law in laws) * taken
            if taken == rest or growth > LOOSE:
                break
            starts = [longer(start, one.law, taken, small) for start, one in zip(starts, laws, strict=True)]
            rest -= taken
        if growth <= LOOSE:
            first = _step([_atoms(start.law) for start in starts])
            return Above(((first, 1), (_step([_atoms(law.law) for law in laws]), rest)), growth, constant)
    parts = []
    blocks = -(-uses // length)  # as few as there may be, of two lengths at most
    short, longer_ones = divmod(uses, blocks)
    for size, count in ((short + 1, longer_ones), (short, blocks - longer_ones)):
        if not count:
            continue
        sides = _sides(sample, size, small / count)
        parts.append((_step([curve_above(block, spacing) for _, block, spacing in sides]), count))
    return Above(tuple(parts))


def _sides(sample: Sample, uses: int, small: float) -> list[tuple[SampledUse, DiscreteProfile, float]]:
    """A block's upper side and its lattice, by direction; one where both are the same."""
    if sample.rate < 1.0:
        windows = SampledAdaptiveProfile(sample, uses, Target(delta=small)).windows(SPACING)
    else:
        windows = [(use, window(use, uses, small)) for use in sample.ways]
    return [(use, compose(((use, uses),), each, below=False).above(), each.spacing) for use, each in windows]


def _step(curves: list[Curve]) -> OneStep:
    from affidavit.accountant.pld.curve import Direction, OneStep

    forward = Direction(curves[0], None)
    return OneStep(forward, Direction(curves[1], None) if len(curves) > 1 else forward)


def _atoms(law: Law) -> Curve:
    """A law as losses."""
    return curve_above(DiscreteProfile(law.losses(), law.masses, law.infinite), law.spacing)


@lru_cache(maxsize=32)
def together(runs: tuple[tuple[float, int], ...], log_nothing: float) -> OneStep | None:
    """(range, uses) that run on one sample, as one pair above; None where blocks are not for them.

    ``log_nothing`` is ln of the mass that may be left out.
    """
    from affidavit.accountant.pld.atomic import Atomic
    from affidavit.accountant.pld.curve import Direction, OneStep
    from affidavit.accountant.pld.nested import composed_curve

    if sum(uses for _, uses in runs) < 2 or runs[0][0] < LEAST_RANGE or runs[-1][0] > LARGEST_RANGE:
        return None
    delta = min(math.exp(log_nothing + NEGLIGIBLE), 0.5)
    small = TAIL * delta
    tilt = estimate(((SampledUse(eta, 1.0, "forward"), uses) for eta, uses in runs), delta=delta, epsilon=0.0).slope
    size = math.fsum(eta * eta * uses for eta, uses in runs)
    every = [
        above(Sample(eta, 1.0, 1.0), uses, small / len(runs), float(f"{tilt:.1e}"), eta * eta * uses / size)
        for eta, uses in runs
    ]
    growth, constant = sum(one.growth for one in every), sum(one.constant for one in every)
    if growth > MOST_GROWTH:
        return None
    parts = [(step.forward.upper, uses) for one in every for step, uses in one.parts]
    (curve, count), *others = parts
    if others or count > 1:
        curve = composed_curve(tuple(parts), side="upper", log_nothing=log_nothing)
    if growth + constant > 0.0 and isinstance(curve, Atomic):
        factor = math.exp(growth) * (1.0 + POWER)
        infinity = (curve.infinity + constant) * factor
        curve = Atomic(curve.losses, curve.log_p + math.log(factor), infinity=infinity, atoms=())
    pair = Direction(curve, None)
    return OneStep(pair, pair)
