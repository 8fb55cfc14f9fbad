"""Numerical composition of privacy loss distributions, two-sided (see ``affidavit.accountant.pld``)."""

from __future__ import annotations

from affidavit.accountant.cases.scenario import Scenario
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.methods.base import Interval, Target
from affidavit.accountant.plan import ZeroConcentrated
from affidavit.accountant.validate import Relation

__all__ = ["PldMethod", "PldProfile"]

ROUNDING = 4e-12


class PldProfile:
    """Brackets from the PLD engine, one composition a question.

    ``explicit``: the lower side is reached by stated neighbouring data sets. Otherwise it is that of
    the dominating curve (see ``pld.steps.one_step``); the two differ where ``attained`` is False.
    """

    def __init__(self, scenario: Scenario, relation: Relation, target: Target) -> None:
        from affidavit.accountant.pld.steps import one_step

        nodes = list(scenario.nodes())
        explicit = [(one_step(node, relation, explicit=True), count) for node, count in nodes]
        self.attained = all(step.tight for step, _ in explicit)
        self._parts = explicit if target.explicit else [(one_step(node, relation), count) for node, count in nodes]
        self._tolerance = target.tolerance

    def delta(self, epsilon: float) -> Interval:
        from affidavit.accountant.pld.engine import delta_bracket

        lower, upper = _widened(*delta_bracket(self._parts, epsilon=epsilon, tolerance=self._tolerance))
        return Interval(lower, min(1.0, upper))

    def epsilon(self, delta: float) -> Interval:
        from affidavit.accountant.pld.engine import epsilon_bracket

        return _widened(*epsilon_bracket(self._parts, delta=delta, tolerance=self._tolerance))


def _widened(lower: float, upper: float) -> Interval:
    """Room for the last digits of float64, which the engine charges only in the mass it moves."""
    return Interval(lower * (1.0 - ROUNDING), upper * (1.0 + ROUNDING))


class PldMethod:
    """Everything that has a dominating pair; of exponential mechanisms the envelope, which has no lower side."""

    name = "pld"
    exact = True

    def why_not(self, scenario: Scenario, relation: Relation) -> str:
        """Applies unless a mechanism has no dominating pair."""
        if any(isinstance(node, ZeroConcentrated) for node, _ in scenario.fixed):
            return "a zCDP guarantee has no dominating pair"
        try:
            PldProfile(scenario, relation, Target())
        except NotSupported as error:
            return error.message
        return ""

    def profile(self, scenario: Scenario, relation: Relation, target: Target) -> PldProfile:
        return PldProfile(scenario, relation, target)
