"""Numerical composition of privacy loss distributions, two-sided (see ``affidavit.accountant.pld``).

All of which only zCDP is known is one pair together, from above (``pld.concentrated``). Exponential mechanisms beside
it count as concentrated, where that is less than their envelope.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from affidavit.accountant.cases.case import Case
from affidavit.accountant.cases.choices import concentrated
from affidavit.accountant.cases.nodes import OneOf
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.methods.base import LEAST_RANGE, Bracket, Target
from affidavit.accountant.methods.stages import together
from affidavit.accountant.nodes import (
    Compose,
    Exponential,
    Plan,
    Poisson,
    Repeat,
    WithoutReplacement,
    ZeroConcentrated,
    walk,
)
from affidavit.accountant.rounding import COMPOSED
from affidavit.accountant.validate import Relation

if TYPE_CHECKING:
    from affidavit.accountant.pld.curve import OneStep

__all__ = ["PldMethod", "PldProfile", "has_zcdp", "holds_zcdp", "log_nothing", "pair_gap", "step_of"]

NEGLIGIBLE = 21.0
"""ln of the share of δ that truncation may cost."""
NEAR, NEARLY, TRIES, LEAST_ORDER = 1e-3, 5e-3, 6, 0.1
"""A lower side that is so near, relatively, is not looked for further, the second where looking takes longer; how often
else; the least order × range."""

Parts = list[tuple["OneStep", int]]
Ask = Callable[..., tuple[float, float]]
"""What the engine is asked of parts; both sides are its answer."""


def step_of(node: Plan, relation: Relation, *, deep: float, explicit: bool = True, tilt: float = 0.0) -> OneStep:
    """``one_step``, with exponential mechanisms that run together on a sample as sharp as is known.

    ``deep``: its ``log_nothing``.
    """
    from affidavit.accountant.pld.steps import one_step

    return one_step(node, relation, explicit=explicit, log_nothing=deep, tilt=tilt, together=together)


class PldProfile:
    """Brackets from the PLD engine, one composition a question.

    ``explicit``: the lower side is reached by stated neighbouring data sets. Otherwise it is that of
    the dominating curve (see ``pld.steps.one_step``); the two differ where ``attained`` is False.
    """

    def __init__(self, case: Case, relation: Relation, target: Target) -> None:
        from affidavit.accountant.pld.concentrated import concentrated_step

        rho, self._nodes = concentrated(case.nodes())
        self._relation: Relation = relation
        self._deep = log_nothing(target, case.uses)
        explicit = self._steps(explicit=True)
        self.attained = all(step.tight for step, _ in explicit)
        self._parts = explicit if target.explicit else self._steps()
        if rho > 0.0:
            self._parts = [*self._parts, (concentrated_step(rho), 1)]
        self._tolerance, self._enough = target.tolerance, target.enough
        # A composition on a sample takes long; a statement of zCDP keeps the sides apart, whatever is tried.
        nested = any(isinstance(one, (Compose, Repeat)) for node, _ in self._nodes for one in walk(node))
        self._near = 1.0 if target.above else NEARLY if nested else NEAR
        self._tries = 0 if holds_zcdp(case) else TRIES

    def delta(self, epsilon: float) -> Bracket:
        from affidavit.accountant.pld.engine import delta_bracket

        found = self._bracket(partial(delta_bracket, epsilon=epsilon), lambda upper: (epsilon, upper))
        return Bracket(found.lower, min(1.0, found.upper))

    def epsilon(self, delta: float) -> Bracket:
        from affidavit.accountant.pld.engine import epsilon_bracket

        return self._bracket(partial(epsilon_bracket, delta=delta), lambda upper: (upper, delta))

    def _bracket(self, ask: Ask, point: Callable[[float], tuple[float, float]]) -> Bracket:
        """Both sides; ``point`` is the (ε, δ) of an upper side. Room for the last digits of float64, which the engine
        charges only in the mass it moves."""
        lower, upper = ask(self._parts, tolerance=self._tolerance, enough=self._enough)
        if self._enough < upper < math.inf and lower < (1.0 - self._near) * upper:
            lower = max(lower, self._chosen(partial(ask, tolerance=self._tolerance), *point(upper), wanted=upper))
        return Bracket(lower * (1.0 - COMPOSED), upper * (1.0 + COMPOSED))

    def _steps(self, *, explicit: bool = False, tilt: float = 0.0) -> Parts:
        return [
            (step_of(node, self._relation, deep=self._deep, explicit=explicit, tilt=tilt), count)
            for node, count in self._nodes
        ]

    def _chosen(self, ask: Ask, epsilon: float, delta: float, *, wanted: float) -> float:
        """A lower side: each exponential mechanism is the choice of one order of moments, near the best for (ε, δ).

        That is about −d ln δ/dε, on a sample as often less as the rate, where losses are small; of few uses, less.
        """
        from affidavit.accountant.pld.engine import slope

        orders = {order for node, _ in self._nodes for order in _orders(node)}
        tilt = slope(self._parts, epsilon=epsilon, delta=delta) if orders else 0.0
        if tilt <= 0.0:
            return 0.0

        def reached(order: float) -> float:
            steps = self._steps(explicit=True, tilt=order)
            return ask([(step.reached, count) for step, count in steps])[0]

        def missed(log: float) -> float:
            found.append(reached(math.exp(log)))
            return -found[-1]

        found = [reached(order * tilt) for order in sorted(orders)]
        if self._tries and max(found) < (1.0 - self._near) * wanted:
            from scipy.optimize import minimize_scalar

            largest = max(one.range for node, _ in self._nodes for one in walk(node) if isinstance(one, Exponential))
            bounds = math.log(LEAST_ORDER / largest), math.log(max(tilt, 1.0 / largest))
            minimize_scalar(missed, bounds=bounds, method="bounded", options={"maxiter": self._tries})
        return max(found)


def _orders(node: Plan) -> set[float]:
    """Of the moments that may decide on a node's exponential mechanisms, in units of that of the whole."""
    if isinstance(node, Exponential):
        return {1.0} if node.range >= LEAST_RANGE else set()
    found = {order for below in node.below for order in _orders(below)}
    match node:
        case Poisson() | WithoutReplacement():
            return found | {node.rate * order for order in found}
    return found


def log_nothing(target: Target, uses: int) -> float:
    """ln of a mass that is nothing beside δ, in each of so many uses."""
    return math.log(max(target.delta or 0.0, 1e-300) / max(uses, 1)) - NEGLIGIBLE


def has_zcdp(case: Case) -> bool:
    """Whether only zCDP is known of some mechanism, outside samples."""
    return any(
        isinstance(one, ZeroConcentrated)
        for node, _ in case.fixed
        for one in (node.options if isinstance(node, OneOf) else (node,))
    )


def holds_zcdp(case: Case) -> bool:
    """Whether only zCDP is known of some mechanism, on samples too: no pair of it is reached."""
    return any(isinstance(below, ZeroConcentrated) for node, _ in case.fixed for below in walk(node))


def pair_gap(case: Case, relation: Relation) -> str:
    """Empty if each mechanism has a dominating pair of its own, else why not."""
    return "a zCDP guarantee has no dominating pair" if holds_zcdp(case) else PldMethod().why_not(case, relation)


class PldMethod:
    """Everything that has a dominating pair; of exponential mechanisms the envelope, which has no lower side."""

    name = "pld"
    exact = True

    def why_not(self, case: Case, relation: Relation) -> str:
        """Applies unless a mechanism has no dominating pair."""
        rho, rest = concentrated(case.nodes())
        if rho > 0.0 and not rest:
            return "of zCDP guarantees alone the pair is that of the zcdp method"
        from affidavit.accountant.pld.steps import one_step

        try:
            for node, _ in rest:
                one_step(node, relation, log_nothing=0.0)
        except NotSupported as error:
            return error.message
        return ""

    def profile(self, case: Case, relation: Relation, target: Target) -> PldProfile:
        return PldProfile(case, relation, target)
