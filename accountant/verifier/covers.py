"""Many branches at once: one composition that costs at least as much as each of them.

That is any one of them, once (``choices``): on a lattice where all of it has pairs, as zCDP otherwise. An upper side;
``branch_profiles`` has the sharper ones for a branch alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from affidavit.accountant.verifier.branch_profiles import zcdp_profile
from affidavit.accountant.verifier.branches import Branch
from affidavit.accountant.verifier.choices import any_of
from affidavit.accountant.verifier.lattice_profiles import lattice_above
from affidavit.accountant.verifier.profile import SMALLEST, TAIL, Goal, Profile, worst
from affidavit.accountant.verifier.sampled import expected_delta, fronts

__all__ = ["FEW", "HARDLY", "WIDER", "groups_of", "together"]

ALONE, RATIO = 3, 4
"""So many branches are bounded each alone, of the others groups that grow by this factor."""
WIDER, HARDLY, FEW = 1.0005, 1.0005, 3
"""A group of more than so few branches is halved where its upper side is the first above that of the costliest branch,
and the second above the plan's that is known; fewer are bounded one by one."""


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
    whole = any_of(branches, 1)
    if whole.steps or whole.fixed.rho:
        return zcdp_profile(whole, goal)
    delta = goal.expected or goal.delta or expected_delta(whole.first, goal.epsilon or 0.0)
    forward, backward = fronts(whole.first, negligible=max(SMALLEST, delta * TAIL))
    found = (forward, backward) if forward.directed else (forward,)
    return worst([front.closed_form() or lattice_above(front) for front in found])
