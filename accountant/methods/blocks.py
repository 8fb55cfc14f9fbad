r"""Very many uses of exponential mechanisms: a block, then one law for each use more, composed numerically.

The recursion (``recursion``) is exact and takes time in proportion to T^{3/2}. The last uses are a block. It gives the
largest hockey-stick curve H of a block, whatever came before it; such a curve is that of a pair (convex in α, H(0) = 1,
H >= 1 − α), which dominates the block, and dominating pairs compose (Zhu, Dong and Wang 2022, theorem 10). H is kept as
chords between lattice points, finitely many losses, so its composition is exact on the same lattice. The strategy may
differ at each α, which adds about half a use a block. So all uses before the last block are charged by one law each,
which is valid above what it leaves (``one_law``).

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
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from affidavit.accountant.cases.case import Case
from affidavit.accountant.cases.choices import likely_size
from affidavit.accountant.methods.adaptive import AdaptiveMethod, recursion_points, typical_range
from affidavit.accountant.methods.base import LEAST_RANGE, LOUD, Bracket, Target
from affidavit.accountant.methods.discrete import curve_below
from affidavit.accountant.methods.pld import log_nothing, pair_gap, step_of
from affidavit.accountant.methods.recursion import compose
from affidavit.accountant.methods.sampled_adaptive import Sample
from affidavit.accountant.methods.sampled_use import SampledUse, estimate
from affidavit.accountant.methods.stages import BLOCK, LARGEST_RANGE, Above, above, window
from affidavit.accountant.methods.zcdp import ZcdpProfile
from affidavit.accountant.nodes import walk
from affidavit.accountant.plan import Exponential, Plan
from affidavit.accountant.rounding import RECURSION, STATED
from affidavit.accountant.validate import Relation

if TYPE_CHECKING:
    from affidavit.accountant.pld.curve import Curve, OneStep

__all__ = ["BlocksMethod", "BlocksProfile"]

MANY_POINTS, MANY_BESIDE = 7e4, 3e5
"""Lattice points from which on the recursion over all uses takes long; the second where others run after or between,
whose profile is no sharper than blocks are."""
SHORTEST_RUN = 100
"""Uses of one range from which on blocks and a law are nearly as sharp as the recursion."""
LEAST_TILT = 1e-6
COARSE = 1.0 / 32.0
"""Ranges this much smaller than the root of their mean square are lost in the cells of a recursion."""
ADAPTED = 100
"""Uses that adapt, below."""
TAIL = 1e-6
"""What all blocks may leave out, in units of δ."""

Parts = list[tuple["OneStep", int]]


class _Kind(NamedTuple):
    """``uses`` of an exponential mechanism, together of about ``size``-zCDP."""

    sample: Sample
    uses: int
    size: float

    def step(self, share: float, last: int) -> tuple[OneStep, int]:
        """t = ``share`` η at every use but the ``last``."""
        from affidavit.accountant.pld.bounded_range import one_choice
        from affidavit.accountant.pld.curve import OneStep
        from affidavit.accountant.pld.subsample import Diluted, Mixed

        eta, rate, taken = self.sample
        pair: Curve = one_choice(eta, share)
        if taken < 1.0:
            pair = Diluted(pair, taken)
        return OneStep.attained(pair if rate == 1.0 else Mixed(pair, rate), symmetric=rate == 1.0), self.uses - last


class BlocksProfile:
    """Both sides, one composition a question; blocks reach as far as the target needs."""

    attained = True

    def __init__(self, case: Case, relation: Relation, target: Target) -> None:
        self._tolerance = target.tolerance
        self._total = math.inf
        if not case.fixed:
            self._total = sum(eta * uses for eta, uses in case.exponentials) * (1.0 + STATED)
        small = _smallest(case, target) * TAIL
        samples, rest = _split(case, relation)
        kinds = [*_unsampled(case), *samples]
        own = math.fsum(kind.size for kind in kinds)
        size = math.fsum(likely_size(node) * count for node, count in case.nodes())
        tilts, choices = zip(*(_strategy(uses, target, math.sqrt(own / size)) for uses in _ways(kinds)), strict=True)
        tilt = float(f"{max(tilts):.1e}")
        self._runs = [
            (kind.sample, kind.uses, small / len(kinds), tilt, 2.0 ** math.ceil(math.log2(kind.size / size)))
            for kind in kinds
        ]
        deep = log_nothing(target, case.uses)
        self._others = [(step_of(node, relation, deep=deep, tilt=tilt), count) for node, count in rest]
        self.attained = all(step.tight for step, _ in self._others)
        alone = len(kinds) == 1 and not samples and (not rest or case.order == "fixed-first")
        last = min(kinds[0].uses, ADAPTED) if alone else 0
        adapted = [(_adapted(kinds[0].sample.ways[0], last, small), 1)] if last else []
        if not samples and not last and own <= LOUD:
            choices = (*choices, [0.5] * len(kinds))
        beside = [*adapted, *((step.reached, count) for step, count in self._others)]
        self._lower = [
            [*(kind.step(share, last) for kind, share in zip(kinds, shares, strict=True)), *beside]
            for shares in choices
        ]

    def _bound(self) -> Above:
        """Above all of it."""
        each = [above(*run) for run in self._runs]
        parts = (*(part for one in each for part in one.parts), *self._others)
        return Above(parts, sum(one.growth for one in each), sum(one.constant for one in each))

    def least(self, target: Target) -> float:
        """The lower side alone."""
        from affidavit.accountant.pld.engine import delta_bracket, epsilon_bracket

        if target.delta is not None:
            found = [epsilon_bracket(one, delta=target.delta, tolerance=self._tolerance) for one in self._lower]
        else:
            asked = target.epsilon or 0.0
            found = [delta_bracket(one, epsilon=asked, tolerance=self._tolerance) for one in self._lower]
        return max(lower for lower, _ in found) * (1.0 - RECURSION)

    def epsilon(self, delta: float) -> Bracket:
        """Larger direction at ``delta``."""
        from affidavit.accountant.pld.engine import epsilon_bracket

        parts, growth, constant = self._bound()
        left, most = delta * math.exp(-growth) * (1.0 - RECURSION) - constant, math.inf
        if left > 0.0:
            most = epsilon_bracket(parts, delta=left, tolerance=0.5 * self._tolerance)[1] * (1.0 + RECURSION)
        return Bracket(self.least(Target(delta=delta)), min(most, self._total))

    def delta(self, epsilon: float) -> Bracket:
        """Larger direction at ``epsilon``."""
        from affidavit.accountant.pld.engine import delta_bracket

        parts, growth, constant = self._bound()
        most = delta_bracket(parts, epsilon=epsilon, tolerance=0.5 * self._tolerance)[1] + constant
        most *= math.exp(growth) * (1.0 + RECURSION)
        return Bracket(self.least(Target(epsilon=epsilon)), min(1.0, most))


class BlocksMethod:
    """Exponential mechanisms too many for the recursion, on samples or not, beside others or not."""

    name = "blocks"
    exact = True

    @staticmethod
    def is_sharp(case: Case, relation: Relation) -> bool:
        """Whether no exponential mechanism beside the blocks has its envelope only, and no block is hardly a use."""
        samples, rest = _split(case, relation)
        enveloped = any(isinstance(one, Exponential) for node, _ in rest for one in walk(node))
        return not enveloped and all(kind.sample.taken == 1.0 for kind in samples)

    def why_not(self, case: Case, relation: Relation) -> str:
        """Applies where the recursion over all uses takes long, and the order of the exponential ones is known."""
        samples, rest = _split(case, relation)
        if not case.exponentials and not samples:
            return "needs an exponential leaf"
        if not case.exponentials and not AdaptiveMethod().why_not(case, relation):
            return "few enough uses for the recursion on samples"
        if case.exponentials and not samples and case.order != "any":
            sums = case.fixed and case.order != "fixed-first"
            if recursion_points(case) <= (MANY_BESIDE if sums else MANY_POINTS):
                return "few enough uses for the recursion"
            each = _unsampled(case)
            loose = SHORTEST_RUN * sum(kind.size / kind.uses for kind in each) > sum(kind.size for kind in each)
            if loose and min(kind.sample.eta for kind in each) > COARSE * typical_range(case):
                return f"ranges of fewer than {SHORTEST_RUN} uses: blocks would be loose"
        ranges = [kind.sample.eta for kind in (*_unsampled(case), *samples)]
        if max(ranges) > LARGEST_RANGE:
            return f"a range above {LARGEST_RANGE:g}: a block of uses reaches too far"
        if min(ranges) < LEAST_RANGE:
            return f"a range below {LEAST_RANGE:g}: a lattice of its losses is beyond float64"
        return _gap(Case(fixed=rest), relation)

    def profile(self, case: Case, relation: Relation, target: Target) -> BlocksProfile:
        """Blocks for ``target``."""
        return BlocksProfile(case, relation, target)


def _unsampled(case: Case) -> list[_Kind]:
    uses: dict[float, int] = {}
    for eta, count in case.exponentials:
        uses[eta] = uses.get(eta, 0) + count
    return [_Kind(Sample(eta, 1.0, 1.0), count, eta * eta / 8.0 * count) for eta, count in sorted(uses.items())]


def _ways(kinds: Sequence[_Kind]) -> list[list[tuple[SampledUse, int]]]:
    """Their uses, in each direction where the two differ."""
    most = max(len(kind.sample.ways) for kind in kinds)
    return [[(kind.sample.ways[way % len(kind.sample.ways)], kind.uses) for kind in kinds] for way in range(most)]


def _strategy(uses: list[tuple[SampledUse, int]], target: Target, part: float) -> tuple[float, list[float]]:
    """About −d ln δ/dε at the answer, of which these are a part, and the t/η that are best there."""
    tilt = estimate(uses, delta=target.delta, epsilon=target.epsilon or 0.0).slope * part
    return max(tilt, LEAST_TILT), [use.best_share(max(tilt, LEAST_TILT)) for use, _ in uses]


def _split(case: Case, relation: Relation) -> tuple[list[_Kind], tuple[tuple[Plan, int], ...]]:
    """What runs on samples so often that blocks serve, and all else but exponential mechanisms."""
    kinds: list[_Kind] = []
    rest: list[tuple[Plan, int]] = []
    for node, uses in case.fixed:
        sample = Sample.of(node, relation)
        known = sample is not None and LEAST_RANGE <= sample.eta <= LARGEST_RANGE and not sample.is_weak(BLOCK)
        if sample is not None and known and uses >= SHORTEST_RUN:
            kinds.append(_Kind(sample, uses, likely_size(node) * uses))
        else:
            rest.append((node, uses))
    return kinds, tuple(rest)


def _gap(others: Case, relation: Relation) -> str:
    return pair_gap(others, relation) if others.fixed else ""


def _smallest(case: Case, target: Target) -> float:
    """About the δ in question."""
    if target.delta is not None:
        return max(target.delta, 1e-270)
    rho = sum(eta * eta / 8.0 * uses for eta, uses in case.exponentials) or 1.0
    return max(ZcdpProfile(rho).delta(max(target.epsilon or 0.0, 0.0)).upper, 1e-270)


@lru_cache(maxsize=32)
def _adapted(use: SampledUse, uses: int, small: float) -> OneStep:
    """The recursion's strategy."""
    from affidavit.accountant.pld.curve import OneStep

    found = compose(((use, uses),), window(use, uses, small), above=False)
    return OneStep.attained(curve_below(found.below()), symmetric=True)
