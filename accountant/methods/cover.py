"""One composition that costs at least as much as each of many cases.

Cases of a repeated parallel node differ in how often each of its parts is met. What all of them have in common is
composed as it is. What is left has uses of kinds 1, 2, …, and m_j is the most uses of kinds up to j that a case has
left. Put each case's uses in order of their kinds: from place m_{j−1} + 1 to m_j every case has a use of a kind from j
on, or none. The largest of these kinds' hockey-stick curves is convex in α, 1 at α = 0 and at least (1 − α)₊, so it is
the curve of a pair, which dominates each of them, and doing nothing (``pld.largest``). Dominating pairs compose in
whatever order (Zhu, Dong and Wang 2022, theorem 10), so m_j − m_{j−1} uses of it, for each j, beside what is common
dominate every case. Only an upper side: no data set need reach it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from affidavit.accountant.cases.scenario import Scenario
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.methods.base import Target
from affidavit.accountant.methods.pld import ROUNDING, has_zcdp
from affidavit.accountant.methods.zcdp import rho_of
from affidavit.accountant.plan import Approximate, Compose, Plan, Poisson, Repeat, WithoutReplacement
from affidavit.accountant.validate import Relation

if TYPE_CHECKING:
    from affidavit.accountant.pld.curve import Curve, OneStep

__all__ = ["FEW", "WIDER", "cost_together", "groups_of", "likely_size"]

LEAST = 2.3e-308
"""No upper side of δ is smaller: float64 loses what is below."""
ALONE, RATIO = 8, 4
"""So many cases are bounded each alone, of the others groups that grow by this factor: the less a case is likely to
cost, the less it matters how sharply it is bounded."""
WIDER, FEW = 1.01, 24
"""A group of so few cases whose upper side is this much above that of the costliest is bounded one by one."""


def groups_of(cases: Sequence[Scenario]) -> tuple[Sequence[Scenario], list[Sequence[Scenario]]]:
    """Those that are bounded alone, the costliest first, and the groups of the others."""
    groups, end = [], ALONE
    while end < len(cases):
        groups.append(cases[end : end * RATIO])
        end *= RATIO
    return cases[:ALONE], groups


def likely_size(node: Plan) -> float:
    """About ρ; puts cases and kinds in order, nothing else."""
    match node:
        case Poisson(rate=rate, of=of):
            return rate * rate * likely_size(of)
        case WithoutReplacement(population=population, sample=sample, of=of):
            return (sample / max(population, 1)) ** 2 * likely_size(of)
        case Repeat(count=count, of=of):
            return count * likely_size(of) if count else 0.0
        case Compose(parts=parts):
            return math.fsum(map(likely_size, parts))
        case Approximate(epsilon=epsilon):
            return epsilon * epsilon / 2.0
    rho = rho_of(node)
    return math.inf if rho is None else rho


def cost_together(cases: Sequence[Scenario], relation: Relation, target: Target) -> float | None:
    """An upper side of what the costliest costs; None where some mechanism has no dominating pair."""
    from affidavit.accountant.pld.engine import delta_bracket, epsilon_bracket
    from affidavit.accountant.pld.steps import one_step

    uses = [Counter(dict(case.fixed)) + _exponentials(case) for case in cases]
    common = uses[0].copy()
    for one in uses:
        common &= one
    rest = [one - common for one in uses]
    kinds = sorted(dict.fromkeys(node for one in rest for node in one), key=likely_size, reverse=True)
    if any(map(has_zcdp, cases)):
        return None
    try:
        parts = [(one_step(node, relation), count) for node, count in common.items()]
        steps = [one_step(node, relation) for node in kinds]
    except NotSupported:
        return None
    before = 0
    for j in range(len(kinds)):
        most = max(sum(one[node] for node in kinds[: j + 1]) for one in rest)
        parts.append((_largest(tuple(steps[j:])), most - before))
        before = most
    if target.delta is not None:
        upper = epsilon_bracket(parts, delta=target.delta, tolerance=target.tolerance)[1]
    else:
        upper = max(LEAST, delta_bracket(parts, epsilon=target.epsilon or 0.0, tolerance=target.tolerance)[1])
    return upper * (1.0 + ROUNDING)


def _exponentials(case: Scenario) -> Counter[Plan]:
    found: Counter[Plan] = Counter()
    for node, count in Scenario(exponentials=case.exponentials).nodes():
        found[node] += count
    return found


@lru_cache(maxsize=32)
def _largest(steps: tuple[OneStep, ...]) -> OneStep:
    from affidavit.accountant.pld.curve import Direction, OneStep

    if len(steps) == 1:
        return steps[0]

    def side(curves: list[Curve]) -> Direction:
        from affidavit.accountant.pld.largest import Largest

        return Direction(Largest(tuple(curves)), None)

    forward = side([step.forward.upper for step in steps])
    if all(step.symmetric for step in steps):
        return OneStep(forward, forward)
    return OneStep(forward, side([step.backward.upper for step in steps]))
