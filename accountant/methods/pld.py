"""Numerical composition of privacy loss distributions, two-sided (see ``affidavit.accountant.pld``)."""

from __future__ import annotations

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.methods.base import Interval, Target
from affidavit.accountant.plan import ZeroConcentrated
from affidavit.accountant.scenario import Scenario
from affidavit.accountant.validate import Relation

__all__ = ["PldMethod", "PldProfile"]


class PldProfile:
    """Brackets from the PLD engine, one composition a question."""

    def __init__(self, scenario: Scenario, relation: Relation, tolerance: float) -> None:
        from affidavit.accountant.pld.engine import one_step  # noqa: PLC0415  (numpy and scipy)

        self._parts = [(one_step(node, relation), count) for node, count in scenario.fixed]
        self._tolerance = tolerance

    def delta(self, epsilon: float) -> Interval:
        """Larger direction at ``epsilon``."""
        from affidavit.accountant.pld.engine import delta_bracket  # noqa: PLC0415

        return Interval(*delta_bracket(self._parts, epsilon=epsilon, tolerance=self._tolerance))

    def epsilon(self, delta: float) -> Interval:
        """Larger direction at ``delta``."""
        from affidavit.accountant.pld.engine import epsilon_bracket  # noqa: PLC0415

        return Interval(*epsilon_bracket(self._parts, delta=delta, tolerance=self._tolerance))


class PldMethod:
    """Everything that has a dominating pair."""

    name = "pld"
    exact = True

    def why_not(self, scenario: Scenario, relation: Relation) -> str:
        """Applies unless a mechanism has no single dominating pair."""
        if scenario.exponentials:
            return "an exponential mechanism has no single dominating pair"
        if any(isinstance(node, ZeroConcentrated) for node, _ in scenario.fixed):
            return "a zCDP guarantee has no dominating pair"
        try:
            PldProfile(scenario, relation, 1e-3)
        except NotSupported as error:
            return error.message
        return ""

    def profile(self, scenario: Scenario, relation: Relation, target: Target) -> PldProfile:
        """The engine's brackets."""
        return PldProfile(scenario, relation, target.tolerance)
