"""Many branches at once: one composition that costs at least as much as each of them.

Every branch is what all have in common, and a rest. Two ways to bound the rest:

- Uses with one pair each, of kinds 1, 2, …; m_j is the most uses of the first j kinds in one rest. In order of their
  kinds, the uses at places m_{j-1} + 1 … m_j are of kinds from j on (or missing), so the pair with the ``Largest`` of
  these kinds' curves dominates them, and m_j - m_{j-1} uses of it for each j dominate every rest (Zhu, Dong, Wang 2022,
  Theorem 10). A Gaussian of μ² is at most ⌈μ²/u⌉ of one unit u.
- Where zCDP or exponential mechanisms are among them: every rest is ρ-zCDP for the largest of their ρ.

An upper side; ``branch_profiles`` has the sharper ones for a branch alone.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

from affidavit.accountant.plan import Approximate, Laplace, Pure
from affidavit.accountant.verifier.balls import ball, precision
from affidavit.accountant.verifier.branch_profiles import zcdp_profile
from affidavit.accountant.verifier.branches import Branch, Fixed, Sampled, Use
from affidavit.accountant.verifier.ceiling import likely_cost
from affidavit.accountant.verifier.choices import common_of
from affidavit.accountant.verifier.largest import Largest
from affidavit.accountant.verifier.lattice_profiles import lattice_above
from affidavit.accountant.verifier.on_sample import sampled_pairs
from affidavit.accountant.verifier.pairs import Finite, GaussianPair, LaplacePair, Pair
from affidavit.accountant.verifier.product import two_point_product
from affidavit.accountant.verifier.profile import SMALLEST, TAIL, Goal, Profile, worst
from affidavit.accountant.verifier.sampled import expected_delta, fronts

__all__ = ["FEW", "HARDLY", "WIDER", "Largest", "groups_of", "together"]

ALONE, RATIO = 3, 4
"""So many branches are bounded each alone, of the others groups that grow by this factor."""
WIDER, HARDLY, FEW = 1.01, 1.0005, 12
"""A group of so few branches is halved where its upper side is the first above that of the costliest branch, and the
second above the plan's that is known."""
MOST_UNITS = 4_000


def groups_of(branches: Sequence[Branch]) -> tuple[Sequence[Branch], list[Sequence[Branch]]]:
    """Those that are bounded alone, the costliest first, and the groups of the others."""
    groups, end = [], ALONE
    while end < len(branches):
        groups.append(branches[end : end * RATIO])
        end *= RATIO
    return branches[:ALONE], groups


def together(branches: Sequence[Branch], goal: Goal) -> Profile | None:
    """An upper side of all of them; None where neither way is open."""
    goal = replace(goal, keep="upper")
    common = common_of([branch.fixed for branch in branches])
    if any(branch.blatant for branch in branches):
        return None
    if any(branch.steps or branch.fixed.rho for branch in branches):
        rhos = [_rho(branch, common) for branch in branches]
        known = [rho for rho in rhos if rho is not None]
        if len(known) < len(rhos):
            return None
        return zcdp_profile(Branch(first=replace(common, rho=common.rho + max(known))), goal)
    return _on_one_lattice(branches, common, goal)


def _rest(fixed: Fixed, common: Fixed) -> Counter[Use]:
    return Counter(dict(fixed.uses)) - Counter(dict(common.uses))


def _rho(branch: Branch, common: Fixed) -> Fraction | None:
    """The ρ of what is left; None if something has none (ε²/2 of pure ones: Bun and Steinke 2016)."""
    fixed = branch.fixed
    total = fixed.rho - common.rho + (fixed.mu_squared - common.mu_squared) / 2
    total += sum((count * spread * spread for spread, count in branch.steps), Fraction(0)) / 8
    for use, count in _rest(fixed, common).items():
        match use:
            case Pure(epsilon=size) | Approximate(epsilon=size, delta=0.0):
                total += count * Fraction(size) ** 2 / 2
            case Laplace(noise_multiplier=scale):
                total += count / Fraction(scale) ** 2 / 2
            case _:
                return None
    return total


def _on_one_lattice(branches: Sequence[Branch], common: Fixed, goal: Goal) -> Profile | None:
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
            pairs = [GaussianPair(ball(unit).sqrt()) if use is None else _pair(use, forward=forward) for use in kinds]
            if any(pair is None for pair in pairs):
                return None
            kept = tuple(pair for pair in pairs if pair is not None)
            before = 0
            parts: list[tuple[Pair, int]] = []
            for j in range(len(kinds)):
                most = max(
                    sum(count if use is None else rest[use] for use in kinds[: j + 1])
                    for rest, count in zip(rests, units, strict=True)
                )
                if most > before:
                    parts.append((_largest(kept[j:]), most - before))
                before = most
        found.append(lattice_above(front.beside(parts)))
        if not any(isinstance(use, Sampled) for use in (*kinds, *dict(common.uses))):
            break  # both directions are alike
    return worst(found)


def _likely_size(use: Use | None, unit: Fraction) -> float:
    fixed = Fixed(mu_squared=unit) if use is None else Fixed(uses=((use, 1),))
    return likely_cost(Branch(first=fixed))[1]


def _largest(pairs: tuple[Pair, ...]) -> Pair:
    return pairs[0] if len(pairs) == 1 else Largest(pairs)


def _unit(excess: Sequence[Fraction]) -> Fraction:
    """What Gaussians are counted in; 0 where there are none."""
    sizes = sorted({Fraction(0), *excess})
    if len(sizes) == 1:
        return Fraction(0)
    return max(min(after - before for before, after in pairwise(sizes)), sizes[-1] / MOST_UNITS)


def _pair(use: Use, *, forward: bool) -> Pair | None:
    match use:
        case Laplace(noise_multiplier=scale):
            return LaplacePair(ball(1 / Fraction(scale)))
        case Pure() | Approximate():
            return Finite(two_point_product([(use, 1)], budget=1e-300))
        case Sampled():
            return sampled_pairs(use, forward=forward)[0]
    return None
