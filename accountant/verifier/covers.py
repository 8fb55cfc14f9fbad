"""Many branches at once: one composition that costs at least as much as each of them.

Every branch is what all have in common, and a rest. Two ways to bound the rest:

- Uses with one pair each, of kinds 1, 2, …; m_j is the most uses of the first j kinds in one rest. In order of their
  kinds, the uses at places m_{j-1} + 1 … m_j are of kinds from j on (or missing), so the pair with the ``Largest`` of
  these kinds' curves dominates them, and m_j - m_{j-1} uses of it for each j dominate every rest (Zhu, Dong, Wang 2022,
  Theorem 10). A Gaussian of μ² is at most ⌈μ²/u⌉ of one unit u.
- Where zCDP or exponential mechanisms are among them: any one of them, once (``choices``), what has a ρ as zCDP.

An upper side; ``branch_profiles`` has the sharper ones for a branch alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from affidavit.accountant.verifier.balls import precision
from affidavit.accountant.verifier.branch_profiles import zcdp_profile
from affidavit.accountant.verifier.branches import Branch, Either, Fixed, Sampled, Use
from affidavit.accountant.verifier.ceiling import likely_cost
from affidavit.accountant.verifier.choices import any_of, common_of
from affidavit.accountant.verifier.lattice_profiles import lattice_above
from affidavit.accountant.verifier.pairs import Pair
from affidavit.accountant.verifier.profile import SMALLEST, TAIL, Goal, Profile, worst
from affidavit.accountant.verifier.sampled import expected_delta, fronts, largest_pair

__all__ = ["FEW", "HARDLY", "WIDER", "groups_of", "together"]

ALONE, RATIO = 3, 4
"""So many branches are bounded each alone, of the others groups that grow by this factor."""
WIDER, HARDLY, FEW = 1.0005, 1.0005, 3
"""A group of more than so few branches is halved where its upper side is the first above that of the costliest branch,
and the second above the plan's that is known; fewer are bounded one by one."""
MOST_UNITS = 4_000


def groups_of(branches: Sequence[Branch]) -> tuple[Sequence[Branch], list[Sequence[Branch]]]:
    """Those that are bounded alone, the costliest first, and the groups of the others."""
    groups, end = [], ALONE
    while end < len(branches):
        groups.append(branches[end : end * RATIO])
        end *= RATIO
    return branches[:ALONE], groups


def together(branches: Sequence[Branch], goal: Goal) -> Profile | None:
    """An upper side of all of them; None where something has no noise."""
    goal = replace(goal, keep="upper")
    if any(branch.blatant for branch in branches):
        return None
    if any(branch.steps or branch.fixed.rho for branch in branches):
        return zcdp_profile(any_of(branches, 1), goal)
    return _on_one_lattice(branches, goal)


def _rest(fixed: Fixed, common: Fixed) -> Counter[Use]:
    return Counter(dict(fixed.uses)) - Counter(dict(common.uses))


def _on_one_lattice(branches: Sequence[Branch], goal: Goal) -> Profile:
    common = common_of([branch.fixed for branch in branches])
    delta = goal.expected or goal.delta or expected_delta(branches[0].fixed, goal.epsilon or 0.0)
    tail = max(SMALLEST, delta * TAIL)
    excess = [branch.fixed.mu_squared - common.mu_squared for branch in branches]
    unit = _unit(excess)
    rests = [_rest(branch.fixed, common) for branch in branches]
    units = [math.ceil(mu / unit) if unit else 0 for mu in excess]
    kinds: list[Use | None] = [*dict.fromkeys(use for rest in rests for use in rest)]
    kinds += [None] if unit else []  # None: a unit of Gaussian
    kinds.sort(key=lambda use: (-_likely_size(use, unit), repr(use)))
    found: list[Profile] = []
    for forward, front in zip((True, False), fronts(common, negligible=tail, lattice=True), strict=True):
        with precision(front.bits):
            kept = [Fixed(mu_squared=unit) if use is None else Fixed(uses=((use, 1),)) for use in kinds]
            before = 0
            parts: list[tuple[Pair, int]] = []
            for j in range(len(kinds)):
                most = max(
                    sum(count if use is None else rest[use] for use in kinds[: j + 1])
                    for rest, count in zip(rests, units, strict=True)
                )
                if most > before:
                    parts.append((largest_pair(kept[j:], forward=forward, negligible=tail), most - before))
                before = most
        found.append(lattice_above(front.beside(parts)))
        if not any(map(_is_directed, (*kinds, *dict(common.uses)))):
            break  # both directions are alike
    return worst(found)


def _is_directed(use: Use | None) -> bool:
    match use:
        case Either(of=kinds):
            return any(_is_directed(one) for kind in kinds for one, _ in kind.uses)
    return isinstance(use, Sampled)


def _likely_size(use: Use | None, unit: Fraction) -> float:
    fixed = Fixed(mu_squared=unit) if use is None else Fixed(uses=((use, 1),))
    return likely_cost(Branch(first=fixed))[1]


def _unit(excess: Sequence[Fraction]) -> Fraction:
    """What Gaussians are counted in; 0 where there are none."""
    sizes = sorted({Fraction(0), *excess})
    if len(sizes) == 1:
        return Fraction(0)
    return max(min(after - before for before, after in pairwise(sizes)), sizes[-1] / MOST_UNITS)
