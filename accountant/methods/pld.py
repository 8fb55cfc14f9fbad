"""Numerical composition of privacy loss distributions, two-sided (see ``affidavit.accountant.pld``).

All of which only zCDP is known is one pair together, from above (``pld.concentrated``). Exponential mechanisms beside
it count as concentrated, where that is less than their envelope.
"""

from __future__ import annotations

import math

from affidavit.accountant.cases.case import OneOf
from affidavit.accountant.cases.choices import concentrated
from affidavit.accountant.cases.scenario import Scenario
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.methods.base import Interval, Target
from affidavit.accountant.nodes import ZeroConcentrated, walk
from affidavit.accountant.validate import Relation

__all__ = ["PldMethod", "PldProfile", "has_zcdp", "holds_zcdp", "pair_gap"]

ROUNDING = 4e-12
NEGLIGIBLE = 21.0
"""ln of the share of δ that truncation may cost."""


class PldProfile:
    """Brackets from the PLD engine, one composition a question.

    ``explicit``: the lower side is reached by stated neighbouring data sets. Otherwise it is that of
    the dominating curve (see ``pld.steps.one_step``); the two differ where ``attained`` is False.
    """

    def __init__(self, scenario: Scenario, relation: Relation, target: Target) -> None:
        from affidavit.accountant.pld.concentrated import concentrated_step
        from affidavit.accountant.pld.steps import one_step

        rho, nodes = concentrated(scenario.nodes())
        deep = _log_nothing(target, scenario.uses)
        explicit = [(one_step(node, relation, explicit=True, log_nothing=deep), count) for node, count in nodes]
        self.attained = all(step.tight for step, _ in explicit)
        if not target.explicit:
            self._parts = [(one_step(node, relation, log_nothing=deep), count) for node, count in nodes]
        else:
            self._parts = explicit
        if rho > 0.0:
            self._parts = [*self._parts, (concentrated_step(rho), 1)]
        self._tolerance, self._enough = target.tolerance, target.enough

    def delta(self, epsilon: float) -> Interval:
        from affidavit.accountant.pld.engine import delta_bracket

        found = delta_bracket(self._parts, epsilon=epsilon, tolerance=self._tolerance, enough=self._enough)
        lower, upper = _widened(*found)
        return Interval(lower, min(1.0, upper))

    def epsilon(self, delta: float) -> Interval:
        from affidavit.accountant.pld.engine import epsilon_bracket

        found = epsilon_bracket(self._parts, delta=delta, tolerance=self._tolerance, enough=self._enough)
        return _widened(*found)


def _log_nothing(target: Target, uses: int) -> float:
    """ln of a mass that is nothing beside δ, in each of so many uses."""
    return math.log(max(target.delta or 0.0, 1e-300) / max(uses, 1)) - NEGLIGIBLE


def has_zcdp(scenario: Scenario) -> bool:
    """Whether only zCDP is known of some mechanism, outside samples."""
    return any(
        isinstance(one, ZeroConcentrated)
        for node, _ in scenario.fixed
        for one in (node.options if isinstance(node, OneOf) else (node,))
    )


def holds_zcdp(scenario: Scenario) -> bool:
    """Whether only zCDP is known of some mechanism, on samples too: no pair of it is reached."""
    return any(isinstance(below, ZeroConcentrated) for node, _ in scenario.fixed for below in walk(node))


def pair_gap(scenario: Scenario, relation: Relation) -> str:
    """Empty if each mechanism has a dominating pair of its own, else why not."""
    return (
        "a zCDP guarantee has no dominating pair" if holds_zcdp(scenario) else PldMethod().why_not(scenario, relation)
    )


def _widened(lower: float, upper: float) -> Interval:
    """Room for the last digits of float64, which the engine charges only in the mass it moves."""
    return Interval(lower * (1.0 - ROUNDING), upper * (1.0 + ROUNDING))


class PldMethod:
    """Everything that has a dominating pair; of exponential mechanisms the envelope, which has no lower side."""

    name = "pld"
    exact = True

    def why_not(self, scenario: Scenario, relation: Relation) -> str:
        """Applies unless a mechanism has no dominating pair."""
        rho, rest = concentrated(scenario.nodes())
        if rho > 0.0 and not rest:
            return "of zCDP guarantees alone the pair is that of the zcdp method"
        from affidavit.accountant.pld.steps import one_step

        try:
            for node, _ in rest:
                one_step(node, relation, log_nothing=0.0)
        except NotSupported as error:
            return error.message
        return ""

    def profile(self, scenario: Scenario, relation: Relation, target: Target) -> PldProfile:
        return PldProfile(scenario, relation, target)
