"""Rényi DP as a method: ρ(α) adds up over uses, then the best order is converted (see ``rdp``)."""

from __future__ import annotations

from affidavit.accountant.cases.scenario import Scenario
from affidavit.accountant.methods.base import Interval, Target
from affidavit.accountant.plan import Compose, Exponential, Plan, Repeat
from affidavit.accountant.validate import Relation

__all__ = ["RenyiMethod", "RenyiProfile"]


def _as_plan(scenario: Scenario) -> Plan:
    exponentials = tuple(Repeat(count, Exponential(eta)) for eta, count in scenario.exponentials)
    return Compose((*(Repeat(count, node) for node, count in scenario.fixed), *exponentials))


class RenyiProfile:
    """Upper sides from Rényi divergences."""

    def __init__(self, plan: Plan, relation: Relation) -> None:
        self._plan = plan
        self._relation: Relation = relation

    def epsilon(self, delta: float) -> Interval:
        """Best order's conversion at ``delta``."""
        from affidavit.accountant.methods.rdp import epsilon_upper

        return Interval(0.0, epsilon_upper(self._plan, relation=self._relation, delta=delta))

    def delta(self, epsilon: float) -> Interval:
        """Best order's conversion at ``epsilon``."""
        from affidavit.accountant.methods.rdp import delta_upper

        return Interval(0.0, delta_upper(self._plan, relation=self._relation, epsilon=epsilon))


class RenyiMethod:
    """Everything with a Rényi bound, sampled mechanisms included."""

    name = "rdp"
    exact = False

    def why_not(self, scenario: Scenario, relation: Relation) -> str:
        """As ``rdp.applies`` says."""
        from affidavit.accountant.methods.rdp import applies

        return applies(_as_plan(scenario), relation)

    def profile(self, scenario: Scenario, relation: Relation, target: Target) -> RenyiProfile:
        """Conversions at the best order."""
        del target
        return RenyiProfile(_as_plan(scenario), relation)
