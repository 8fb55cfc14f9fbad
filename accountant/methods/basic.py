"""Basic composition: ε and δ add up (Dwork and Lei 2009; Dwork, McSherry, Nissim and Smith 2006).

Mechanisms with an (ε, δ) guarantee contribute it as it stands; the others (Gaussian, sampled,
zCDP) have a curve, and each use gets an equal share of the δ that is left and the ε of that
share. Valid for adaptive composition; an upper side only. Any relation.
"""

from __future__ import annotations

import math
from functools import lru_cache

from affidavit.accountant.cases.case import Case
from affidavit.accountant.methods.base import Bracket, Method, Target
from affidavit.accountant.methods.optimal import pure_cost
from affidavit.accountant.methods.pld import PldMethod
from affidavit.accountant.methods.rdp import RenyiMethod
from affidavit.accountant.methods.zcdp import ZcdpMethod
from affidavit.accountant.plan import Plan
from affidavit.accountant.rounding import FORMULA
from affidavit.accountant.validate import Relation

__all__ = ["BasicMethod"]

LEAST_LOG, HALVINGS = -700.0, 30
"""Where ln δ is sought, and how closely."""


class BasicProfile:
    """Σ ε_i at Σ δ_i."""

    def __init__(self, case: Case, relation: Relation) -> None:
        self._relation: Relation = relation
        self._stated_epsilon = 0.0
        self._stated_delta = 0.0
        self._curves: list[tuple[Plan, int]] = []
        for node, count in case.nodes():
            cost = pure_cost(node)
            if cost is None:
                self._curves.append((node, count))
            elif count:
                self._stated_epsilon += count * cost[0]
                self._stated_delta += count * cost[1]

    def epsilon(self, delta: float) -> Bracket:
        """An upper side; infinite if the stated δs already exceed ``delta``."""
        left = delta - self._stated_delta * (1.0 + FORMULA)
        if left < 0.0:
            return Bracket(0.0, math.inf)
        total = self._stated_epsilon
        uses = sum(count for _, count in self._curves)
        for node, count in self._curves:
            share = left / uses * (1.0 - FORMULA)
            total += count * (_one_use(node, self._relation, share) if share > 0.0 else math.inf)
        return Bracket(0.0, total * (1.0 + FORMULA))

    def delta(self, epsilon: float) -> Bracket:
        """An upper side, by bisection over log δ."""
        low, high = LEAST_LOG, 0.0
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.epsilon(math.exp(middle)).upper <= epsilon else (middle, high)
        return Bracket(0.0, math.exp(high))


class BasicMethod:
    """Applies to everything for which the ε of one use is known."""

    name = "basic"
    exact = False

    def why_not(self, case: Case, relation: Relation) -> str:
        nodes = (node for node, count in case.nodes() if count and pure_cost(node) is None)
        return next((why for node in nodes if (why := _gap(node, relation))), "")

    def profile(self, case: Case, relation: Relation, _target: Target) -> BasicProfile:
        return BasicProfile(case, relation)


_ALONE: tuple[Method, ...] = (ZcdpMethod(), PldMethod(), RenyiMethod())
"""Whose ε of one use is taken."""


@lru_cache(maxsize=256)
def _gap(node: Plan, relation: Relation) -> str:
    """Empty if the ε of one use of the node is known, else why not."""
    whys = [method.why_not(Case(fixed=((node, 1),)), relation) for method in _ALONE]
    return "" if not all(whys) else f"no theorem for one use of a {node.kind} node: {whys[-1]}"


@lru_cache(maxsize=256)
def _one_use(node: Plan, relation: Relation, delta: float) -> float:
    """An upper side of ε for one use."""
    case = Case(fixed=((node, 1),))
    usable = [method for method in _ALONE if not method.why_not(case, relation)]
    return min(m.profile(case, relation, Target(delta=delta)).epsilon(delta).upper for m in usable)
