r"""Very many uses of exponential mechanisms: blocks of uses, each with one dominating curve, composed numerically.

The recursions (``recursion``, ``sampled_recursion``) are exact and take time in proportion to T^{3/2}. Here T uses are
cut into blocks. The recursion gives the largest hockey-stick curve H of a block, whatever came before it; such a curve
is that of a pair (convex in α, H(0) = 1, H >= 1 − α), which dominates the block, and dominating pairs compose (Zhu,
Dong and Wang 2022, theorem 10). H is kept as chords between lattice points, finitely many losses, so its
composition is exact on the same lattice. The strategy may differ at each α: what that adds falls with a block's length.

Mechanisms beside them that have a dominating pair may be taken to run first, which never costs less
(docs/theory/exponential.md), so no block is interrupted.

The lower side is a strategy without memory: one t at every use (t = η/2 unsampled), a mechanism with two losses.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from affidavit.accountant.cases.scenario import Scenario
from affidavit.accountant.methods.adaptive import recursion_points
from affidavit.accountant.methods.base import Interval, Target
from affidavit.accountant.methods.discrete import DiscreteProfile
from affidavit.accountant.methods.recursion import upper_profile
from affidavit.accountant.methods.recursion_window import whole
from affidavit.accountant.methods.sampled_adaptive import MOST_USES, SampledAdaptiveProfile
from affidavit.accountant.methods.zcdp import ZcdpProfile
from affidavit.accountant.plan import Exponential, Plan, Poisson, leaves
from affidavit.accountant.validate import Relation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from affidavit.accountant.pld.curve import Curve, OneStep

__all__ = ["BlocksMethod", "BlocksProfile"]

MANY_POINTS = 1e6
"""Lattice points from which on the recursion over all uses takes seconds."""
BLOCK, SAMPLED_BLOCK = 1000, 200
"""Uses of a block."""
SHORTEST = 100
"""Uses of one range in a row from which on a block of them is nearly as sharp as the recursion."""
CELLS = 48
"""Lattice spacings to a range: the chords add 1.5/cells² to ρ."""
LARGEST_RANGE = 4.0
TAIL = 1e-6
"""What all blocks may leave out, in units of δ."""
SHARES = (0.5, 0.55, 0.6, 0.65, 0.7, 0.8)
"""t of the strategies that are tried on samples, in units of the range."""
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
        blocks: Parts = []
        strategies: list[Parts] = []
        for eta, uses in scenario.exponentials:
            blocks += [(_block(eta, length, small / count), count) for length, count in _lengths(uses, BLOCK)]
        if scenario.exponentials:
            strategies = [[(_memoryless(eta), uses) for eta, uses in scenario.exponentials]]
        for node, uses in scenario.fixed:
            if isinstance(node, Poisson) and isinstance(node.of, Exponential):
                for length, count in _lengths(uses, SAMPLED_BLOCK):
                    blocks.append((_sampled_block(node.of.range, node.rate, length, small / count), count))
                strategies = [[(_sampled_memoryless(node.of.range, node.rate, share), uses)] for share in SHARES]
        self._upper = [*blocks, *others]
        self._lower = [[*strategy, *others] for strategy in strategies]

    def epsilon(self, delta: float) -> Interval:
        """Larger direction at ``delta``."""
        from affidavit.accountant.pld.engine import epsilon_bracket

        above = epsilon_bracket(self._upper, delta=delta, tolerance=0.5 * self._tolerance)[1] * (1.0 + ROUNDING)
        below = max(epsilon_bracket(parts, delta=delta, tolerance=self._tolerance)[0] for parts in self._lower)
        return Interval(below * (1.0 - ROUNDING), min(above, self._total))

    def delta(self, epsilon: float) -> Interval:
        """Larger direction at ``epsilon``."""
        from affidavit.accountant.pld.engine import delta_bracket

        above = delta_bracket(self._upper, epsilon=epsilon, tolerance=0.5 * self._tolerance)[1] * (1.0 + ROUNDING)
        below = max(delta_bracket(parts, epsilon=epsilon, tolerance=self._tolerance)[0] for parts in self._lower)
        return Interval(below * (1.0 - ROUNDING), min(1.0, above))


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
        if scenario.order == "any":
            return "exponential mechanisms of unlike ranges in any order: no blocks"
        if sampled and sampled[0][1] <= MOST_USES:
            return "few enough uses for the recursion on samples"
        if scenario.exponentials and recursion_points(scenario) <= MANY_POINTS:
            return "few enough uses for the recursion"
        if any(uses < SHORTEST for _, uses in scenario.exponentials):
            return f"ranges that change after fewer than {SHORTEST} uses: blocks would be loose"
        ranges = [eta for eta, _ in scenario.exponentials]
        ranges += [
            node.of.range for node, _ in sampled if isinstance(node, Poisson) and isinstance(node.of, Exponential)
        ]
        if max(ranges) > LARGEST_RANGE:
            return f"a range above {LARGEST_RANGE:g}: a block of uses reaches too far"
        return _gap(Scenario(fixed=tuple(pair for pair in scenario.fixed if pair not in sampled)), relation)

    def profile(self, scenario: Scenario, relation: Relation, target: Target) -> BlocksProfile:
        """Blocks for ``target``."""
        return BlocksProfile(scenario, relation, target)


def _gap(others: Scenario, relation: Relation) -> str:
    from affidavit.accountant.methods.pld import PldMethod

    if any(isinstance(leaf, Exponential) for node, _ in others.fixed for _, leaf, _ in leaves(node)):
        return "an exponential leaf below another node"
    return PldMethod().why_not(others, relation) if others.fixed else ""


def _is_sampled(node: Plan) -> bool:
    return isinstance(node, Poisson) and isinstance(node.of, Exponential)


def _smallest(scenario: Scenario, target: Target) -> float:
    """About the δ in question."""
    if target.delta is not None:
        return max(target.delta, 1e-270)
    rho = sum(eta * eta / 8.0 * uses for eta, uses in scenario.exponentials) or 1.0
    return max(ZcdpProfile(rho).delta(max(target.epsilon or 0.0, 0.0)).upper, 1e-270)


def _lengths(uses: int, most: int) -> Iterator[tuple[int, int]]:
    """(length, blocks of it): as few blocks as there may be, of two lengths at most."""
    blocks = -(-uses // most)
    length, longer = divmod(uses, blocks)
    if longer:
        yield length + 1, longer
    if blocks > longer:
        yield length, blocks - longer


@lru_cache(maxsize=32)
def _block(eta: float, uses: int, small: float) -> OneStep:
    """``uses`` of range ``eta``; mass ``small`` may be left out."""
    from affidavit.accountant.pld.curve import Direction, OneStep

    width = ZcdpProfile(eta * eta / 8.0 * uses).epsilon(small).upper
    spacing = eta / CELLS
    window = whole(((eta, uses),), spacing, width=width, bounded=True, slope=1.0)
    direction = Direction(_curve(upper_profile(((eta, uses),), window), spacing), None)
    return OneStep(direction, direction)  # the family is closed under exchanging P and Q


@lru_cache(maxsize=32)
def _sampled_block(eta: float, rate: float, uses: int, small: float) -> OneStep:
    """The same on fresh Poisson samples."""
    from affidavit.accountant.pld.curve import Direction, OneStep

    alone = Scenario(fixed=((Poisson(rate, Exponential(eta)), uses),))
    both = (_curve(*side) for side in SampledAdaptiveProfile(alone, Target(delta=small)).curves())
    forward, backward = (Direction(curve, None) for curve in both)
    return OneStep(forward, backward)


def _curve(profile: DiscreteProfile, spacing: float) -> Curve:
    """A profile on a lattice as losses."""
    import numpy as np

    from affidavit.accountant.pld.atomic import Atomic

    kept = profile.masses > 0.0
    losses, masses = profile.losses[kept], profile.masses[kept]
    masses[0] += max(0.0, 1.0 - profile.infinite - float(masses.sum()))
    atoms = (float(losses[0]), float(losses[0]) + spacing)
    curve = Atomic(losses, np.log(masses), infinity=profile.infinite, atoms=atoms)
    curve.accuracy = ROUNDING
    return curve


def _memoryless(eta: float) -> OneStep:
    """t = η/2 at every use: losses ±η/2."""
    from affidavit.accountant.pld.atomic import pure
    from affidavit.accountant.pld.curve import OneStep

    return OneStep.attained(pure(0.5 * eta), symmetric=True)


def _sampled_memoryless(eta: float, rate: float, share: float) -> OneStep:
    """t = ``share`` η at every use."""
    import numpy as np

    from affidavit.accountant.pld.atomic import Atomic
    from affidavit.accountant.pld.curve import OneStep
    from affidavit.accountant.pld.subsample import Mixed

    t = share * eta
    chance = -math.expm1(t - eta) / -math.expm1(-eta)
    pair = Mixed(Atomic(np.array([t - eta, t]), np.array([math.log1p(-chance), math.log(chance)])), rate)
    return OneStep.attained(pair)
