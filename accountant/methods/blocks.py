r"""Very many uses of exponential mechanisms: a block, then one law for each use more, composed numerically.

The recursions (``recursion``, ``sampled_recursion``) are exact and take time in proportion to T^{3/2}. The last uses
are a block. The recursion gives the largest hockey-stick curve H of a block, whatever came before it; such a curve is
that of a pair (convex in α, H(0) = 1, H >= 1 − α), which dominates the block, and dominating pairs compose (Zhu, Dong
and Wang 2022, theorem 10). H is kept as chords between lattice points, finitely many losses, so its composition is
exact on the same lattice. The strategy may differ at each α, which adds about half a use a block. So all uses before
the last block are charged by one law each, which is valid above what it leaves (``one_law``).

Mechanisms beside them that have a dominating pair may be taken to run first, which never costs less
(docs/theory/exponential.md), so no block is interrupted. Nor does the order of unlike ranges matter here: if V(a, b) is
the most that a uses of one and b of another reach in any order, also one that the adversary chooses as it goes, then by
induction V(a, b) <= H_a∗H′_b of their curves, because one use more of the first makes at most (MH_a)∗H′_b of it.

The lower side is a strategy without memory, one t at every use, a mechanism with two losses: the t of the largest
moment where the answer lies, or η/2. Adapting gains where few uses are still to come, so the last ones are the
recursion's where they may all run last (measured: all adapting gains 1e-4 of ε more at 700 uses).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from affidavit.accountant.cases.choices import likely_size
from affidavit.accountant.cases.scenario import Scenario
from affidavit.accountant.methods.adaptive import likely, recursion_points, tail_bound, typical_range
from affidavit.accountant.methods.base import LEAST_RANGE, LOUD, Interval, Target
from affidavit.accountant.methods.discrete import DiscreteProfile, curve_above, curve_below
from affidavit.accountant.methods.one_law import Law, law_above, longer, start_of
from affidavit.accountant.methods.recursion import Corridor, lower_profile, upper_profile, whole
from affidavit.accountant.methods.sampled_adaptive import SampledAdaptiveProfile, are_weak, few_uses
from affidavit.accountant.methods.sampled_use import SampledUse
from affidavit.accountant.methods.zcdp import ZcdpProfile
from affidavit.accountant.plan import Exponential, Plan, Poisson, leaves
from affidavit.accountant.validate import Relation

if TYPE_CHECKING:
    from affidavit.accountant.pld.curve import Curve, OneStep

__all__ = ["BlocksMethod", "BlocksProfile"]

MANY_POINTS, MANY_BESIDE = 7e4, 3e5
"""Lattice points from which on the recursion over all uses takes long; the second where others run after or between,
whose profile is no sharper than blocks are."""
BLOCK = 50
"""Uses of a block."""
SPACING = 0.15
"""Of a block's lattice on samples, in deviations of one use's loss."""
STAGE, LAST_STAGE, ENOUGH, MOST_BEHIND = 2.0, 3.0, 40.0, 1_000
"""Uses that are added to one behind them, and in the end; all of them where √(``ENOUGH`` × uses) are behind, or so
many, or as much less as they are less of all that is costly."""
LOOSE = 0.05
"""ln of how much all growth may raise δ; beyond, all uses are in blocks."""
SHORTEST_RUN = 100
"""Uses of one range from which on blocks and a law are nearly as sharp as the recursion."""
CELLS = 24
"""Lattice spacings to a range in a block: the chords add 1.5/cells² to its ρ."""
LARGEST_RANGE = 4.0
LEAST_TILT = 1e-6
COARSE = 1.0 / 32.0
"""Ranges this much smaller than the root of their mean square are lost in the cells of a recursion."""
ADAPTED = 100
"""Uses that adapt, below."""
TAIL = 1e-6
"""What all blocks may leave out, in units of δ."""
ROUNDING = 1e-10

Parts = list[tuple["OneStep", int]]


class BlocksProfile:
    """Both sides, one composition a question; blocks reach as far as the target needs."""

    attained = True

    def __init__(self, scenario: Scenario, relation: Relation, target: Target) -> None:
        from affidavit.accountant.pld.steps import one_step

        self._tolerance = target.tolerance
        self._total = math.inf
        small = _smallest(scenario, target) * TAIL
        rest = [(node, count) for node, count in scenario.fixed if not _is_sampled(node)]
        others = [(one_step(node, relation, explicit=True), count) for node, count in rest]
        self.attained = all(step.tight for step, _ in others)
        if not scenario.fixed:
            self._total = sum(eta * uses for eta, uses in scenario.exponentials) * (1.0 + 1e-14)
        each = _by_range(scenario)
        runs: list[tuple[float, float, int, float]] = []
        strategies: list[Parts] = []
        tilt = 1.0
        if scenario.exponentials:
            tilt = likely(scenario, target).slope
            own, beside = tail_bound(scenario).rho, math.fsum(count * likely_size(node) for node, count in rest)
            tilt = max(tilt * math.sqrt(own / (own + beside)), LEAST_TILT)
            runs = [(eta, 1.0, uses, eta * eta / 8.0 * uses / (own + beside)) for eta, uses in each]
            best = [SampledUse(eta, 1.0, "forward").best_share(tilt) for eta, _ in each]
            last = min(each[0][1], ADAPTED) if len(each) == 1 and (not rest or scenario.order == "fixed-first") else 0
            loud = sum(eta * eta / 8.0 * uses for eta, uses in each) > LOUD
            for shares in (best,) if loud or last else ([0.5] * len(best), best):
                pairs = zip(each, shares, strict=True)
                strategies.append([(_one_choice(eta, 1.0, share), uses - last) for (eta, uses), share in pairs])
            if last:
                strategies[0].append((_adapted(each[0][0], last, small), 1))
        for node, uses in scenario.fixed:
            if isinstance(node, Poisson) and isinstance(node.of, Exponential):
                runs.append((node.of.range, node.rate, uses, 1.0))
                alone = SampledAdaptiveProfile(Scenario(fixed=((node, uses),)), target)
                strategies = [[(_one_choice(node.of.range, node.rate, share), uses)] for share in alone.shares()]
                tilt = alone.tilt
        tilt = float(f"{tilt:.1e}")
        self._runs = [
            (eta, rate, uses, small / len(runs), tilt, 2.0 ** math.ceil(math.log2(share)))
            for eta, rate, uses, share in runs
        ]
        self._others = others
        self._lower = [[*strategy, *others] for strategy in strategies]

    def _bound(self) -> _Above:
        """Above all of it."""
        each = [_above(*run) for run in self._runs]
        parts = (*(part for one in each for part in one.parts), *self._others)
        return _Above(parts, sum(one.growth for one in each), sum(one.constant for one in each))

    def least(self, target: Target) -> float:
        """The lower side alone."""
        from affidavit.accountant.pld.engine import delta_bracket, epsilon_bracket

        if target.delta is not None:
            found = [epsilon_bracket(one, delta=target.delta, tolerance=self._tolerance) for one in self._lower]
        else:
            asked = target.epsilon or 0.0
            found = [delta_bracket(one, epsilon=asked, tolerance=self._tolerance) for one in self._lower]
        return max(lower for lower, _ in found) * (1.0 - ROUNDING)

    def epsilon(self, delta: float) -> Interval:
        """Larger direction at ``delta``."""
        from affidavit.accountant.pld.engine import epsilon_bracket

        parts, growth, constant = self._bound()
        left, most = delta * math.exp(-growth) * (1.0 - ROUNDING) - constant, math.inf
        if left > 0.0:
            most = epsilon_bracket(parts, delta=left, tolerance=0.5 * self._tolerance)[1] * (1.0 + ROUNDING)
        return Interval(self.least(Target(delta=delta)), min(most, self._total))

    def delta(self, epsilon: float) -> Interval:
        """Larger direction at ``epsilon``."""
        from affidavit.accountant.pld.engine import delta_bracket

        parts, growth, constant = self._bound()
        most = delta_bracket(parts, epsilon=epsilon, tolerance=0.5 * self._tolerance)[1] + constant
        most *= math.exp(growth) * (1.0 + ROUNDING)
        return Interval(self.least(Target(epsilon=epsilon)), min(1.0, most))


class BlocksMethod:
    """Exponential mechanisms too many for the recursion, beside others or not; or one of them on Poisson samples."""

    name = "blocks"
    exact = True

    def why_not(self, scenario: Scenario, relation: Relation) -> str:
        """Applies where the recursion over all uses takes long, and the order of the exponential ones is known."""
        sampled = [(node, count) for node, count in scenario.fixed if _is_sampled(node)]
        if not scenario.exponentials and not sampled:
            return "needs an exponential leaf"
        if sampled and (len(sampled) > 1 or scenario.exponentials or relation == "substitution"):
            return "exponential leaves on samples: one of them, not under substitution"
        if scenario.exponentials and scenario.order != "any":
            sums = scenario.fixed and scenario.order != "fixed-first"
            if recursion_points(scenario) <= (MANY_BESIDE if sums else MANY_POINTS):
                return "few enough uses for the recursion"
            short = any(uses < SHORTEST_RUN for _, uses in _by_range(scenario))
            if short and min(eta for eta, _ in scenario.exponentials) > COARSE * typical_range(scenario):
                return f"a range of fewer than {SHORTEST_RUN} uses: blocks would be loose"
        ranges = [eta for eta, _ in scenario.exponentials]
        for node, uses in sampled:
            if isinstance(node, Poisson) and isinstance(node.of, Exponential):
                ranges.append(eta := node.of.range)
                if uses <= few_uses(eta):
                    return "few enough uses for the recursion on samples"
                if are_weak(eta, node.rate, BLOCK):
                    return "too weak uses for the recursion on samples"
        if max(ranges) > LARGEST_RANGE:
            return f"a range above {LARGEST_RANGE:g}: a block of uses reaches too far"
        if min(ranges) < LEAST_RANGE:
            return f"a range below {LEAST_RANGE:g}: a lattice of its losses is beyond float64"
        return _gap(Scenario(fixed=tuple(pair for pair in scenario.fixed if pair not in sampled)), relation)

    def profile(self, scenario: Scenario, relation: Relation, target: Target) -> BlocksProfile:
        """Blocks for ``target``."""
        return BlocksProfile(scenario, relation, target)


def _by_range(scenario: Scenario) -> list[tuple[float, int]]:
    """(range, uses) in all."""
    uses: dict[float, int] = {}
    for eta, count in scenario.exponentials:
        uses[eta] = uses.get(eta, 0) + count
    return sorted(uses.items())


def _gap(others: Scenario, relation: Relation) -> str:
    from affidavit.accountant.methods.pld import pair_gap

    if any(isinstance(leaf, Exponential) for node, _ in others.fixed for _, leaf, _ in leaves(node)):
        return "an exponential leaf below another node"
    return pair_gap(others, relation) if others.fixed else ""


def _is_sampled(node: Plan) -> bool:
    return isinstance(node, Poisson) and isinstance(node.of, Exponential)


def _smallest(scenario: Scenario, target: Target) -> float:
    """About the δ in question."""
    if target.delta is not None:
        return max(target.delta, 1e-270)
    rho = sum(eta * eta / 8.0 * uses for eta, uses in scenario.exponentials) or 1.0
    return max(ZcdpProfile(rho).delta(max(target.epsilon or 0.0, 0.0)).upper, 1e-270)


class _Above(NamedTuple):
    """δ of the uses is at most e^``growth`` × (that of ``parts`` + ``constant``)."""

    parts: tuple[tuple[OneStep, int], ...]
    growth: float = 0.0
    constant: float = 0.0


@lru_cache(maxsize=32)
def _adapted(eta: float, uses: int, small: float) -> OneStep:
    """The recursion's strategy."""
    from affidavit.accountant.pld.curve import OneStep

    return OneStep.attained(curve_below(lower_profile(((eta, uses),), _window(eta, uses, small))), symmetric=True)


def _window(eta: float, uses: int, small: float) -> Corridor:
    width = ZcdpProfile(eta * eta / 8.0 * uses).epsilon(small).upper
    return whole(((eta, uses),), eta / CELLS, width=width, bounded=True)


@lru_cache(maxsize=32)
def _above(eta: float, rate: float, uses: int, small: float, tilt: float, share: float) -> _Above:
    """``uses`` of range ``eta`` on samples of a rate; about mass ``small`` may be left out.

    ``share``: what they are of all that is costly.
    """
    length = min(uses, BLOCK)
    enough = share * min(math.sqrt(ENOUGH * uses), MOST_BEHIND)
    if (rest := uses - length) > 0:
        sides = _sides(eta, rate, length, small)
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
            return _Above(((first, 1), (_step([_atoms(law.law) for law in laws]), rest)), growth, constant)
    parts = []
    blocks = -(-uses // length)  # as few as there may be, of two lengths at most
    short, longer_ones = divmod(uses, blocks)
    for size, count in ((short + 1, longer_ones), (short, blocks - longer_ones)):
        if not count:
            continue
        sides = _sides(eta, rate, size, small / count)
        parts.append((_step([curve_above(block, spacing) for _, block, spacing in sides]), count))
    return _Above(tuple(parts))


def _sides(eta: float, rate: float, uses: int, small: float) -> list[tuple[SampledUse, DiscreteProfile, float]]:
    """A block's upper side and its lattice, by direction; one where both are the same."""
    if rate < 1.0:
        alone = Scenario(fixed=((Poisson(rate, Exponential(eta)), uses),))
        return SampledAdaptiveProfile(alone, Target(delta=small)).curves(SPACING)
    # The family is closed under exchanging P and Q.
    block = upper_profile(((eta, uses),), _window(eta, uses, small))
    return [(SampledUse(eta, 1.0, "forward"), block, eta / CELLS)]


def _step(curves: list[Curve]) -> OneStep:
    from affidavit.accountant.pld.curve import Direction, OneStep

    return OneStep(Direction(curves[0], None), Direction(curves[-1], None))


def _atoms(law: Law) -> Curve:
    """A law as losses."""
    return curve_above(DiscreteProfile(law.losses(), law.masses, law.infinite), law.spacing)


def _one_choice(eta: float, rate: float, share: float) -> OneStep:
    """t = ``share`` η at every use on samples of a rate."""
    import numpy as np

    from affidavit.accountant.pld.atomic import Atomic, pure
    from affidavit.accountant.pld.curve import OneStep
    from affidavit.accountant.pld.subsample import Mixed

    if rate == 1.0 and share == 0.5:
        return OneStep.attained(pure(0.5 * eta), symmetric=True)
    t = share * eta
    chance = -math.expm1(t - eta) / -math.expm1(-eta)
    pair = Atomic(np.array([t - eta, t]), np.array([math.log1p(-chance), math.log(chance)]))
    return OneStep.attained(pair if rate == 1.0 else Mixed(pair, rate))
