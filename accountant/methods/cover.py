"""Compositions that cost at least as much as each of many cases (``cases.choices`` has the theorem).

Cases of a repeated parallel node differ in how often each of its parts is met. Two ways to cover them, both upper
sides: use by use, or what has a ρ, and is not common to all, by the largest Σρ, as one statement of zCDP.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from affidavit.accountant.cases.case import Case
from affidavit.accountant.cases.choices import by_rho, concentrated, together
from affidavit.accountant.plan import Exponential, Plan, ZeroConcentrated

__all__ = ["FEW", "WIDER", "covering", "groups_of"]

ALONE, RATIO = 8, 4
"""So many cases are bounded each alone, of the others groups that grow by this factor: the less a case is likely to
cost, the less it matters how sharply it is bounded."""
WIDER, FEW = 1.0003, 3
"""A group whose upper side is this much above that of the costliest is bounded in halves, so few cases one by one."""


def groups_of(cases: Sequence[Case]) -> tuple[Sequence[Case], list[Sequence[Case]]]:
    """Those that are bounded alone, the costliest first, and the groups of the others."""
    groups, end = [], ALONE
    while end < len(cases):
        groups.append(cases[end : end * RATIO])
        end *= RATIO
    return cases[:ALONE], groups


def covering(cases: Sequence[Case]) -> list[Case]:
    """Cases of which each costs at least what every one of ``cases`` does."""
    options = [Counter[Plan]() for _ in cases]
    for option, case in zip(options, cases, strict=True):
        for node, count in case.nodes():
            option[node] += count
    found = [_case(together(options).items())]
    common = options[0].copy()
    for option in options:
        common &= option
    rest = [option - common for option in options]
    if any(isinstance(node, (Exponential, ZeroConcentrated)) for option in rest for node in option):
        stated = by_rho(rest)
        found += [] if stated is None else [_case((common + stated).items())]
    laws: dict[tuple[str, frozenset[tuple[Plan, int]]], Case] = {}
    for case in found:  # often Σρ and the rest are the same both ways, but for rounding
        rho, others = concentrated(case.nodes())
        laws.setdefault((f"{rho:.12g}", frozenset(others)), case)
    return [*laws.values()]


def _case(uses: Iterable[tuple[Plan, int]]) -> Case:
    """All of them, in whatever order."""
    fixed: list[tuple[Plan, int]] = []
    ranges: list[tuple[float, int]] = []
    for node, count in uses:
        if isinstance(node, Exponential):
            ranges.append((node.range, count))
        else:
            fixed.append((node, count))
    return Case(tuple(fixed), tuple(sorted(ranges)), "any" if len(ranges) > 1 else "fixed-first")
