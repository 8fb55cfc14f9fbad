"""Numerical composition of privacy loss distributions, two-sided (see ``affidavit.accountant.pld``).

All of which only zCDP is known is one pair together, from above (``pld.concentrated``). Exponential mechanisms beside
it count as concentrated, where that is less than their envelope.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from affidavit.accountant.cases.case import OneOf
from affidavit.accountant.cases.choices import mean_loss, rho_of
from affidavit.accountant.cases.scenario import Scenario
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.methods.base import Interval, Target
from affidavit.accountant.plan import Exponential, Plan, ZeroConcentrated
from affidavit.accountant.validate import Relation

__all__ = ["PldMethod", "PldProfile", "has_zcdp", "pair_gap"]

ROUNDING = 4e-12
WEAK = 2.0
"""Range of an exponential mechanism up to which η²/8-zCDP (Cesar and Rogers 2021, lemma 3.4) says more than η-DP."""
MOST_RHO = 1e6
"""Beyond it the pair has few digits, and ε is of no use to anyone."""
NEARLY = 1.2
"""A ρ that is so much more than the mean loss says hardly less than the pair."""


class PldProfile:
    """Brackets from the PLD engine, one composition a question.

    ``explicit``: the lower side is reached by stated neighbouring data sets. Otherwise it is that of
    the dominating curve (see ``pld.steps.one_step``); the two differ where ``attained`` is False.
    """

    def __init__(self, scenario: Scenario, relation: Relation, target: Target) -> None:
        from affidavit.accountant.pld.concentrated import Concentrated
        from affidavit.accountant.pld.curve import OneStep
        from affidavit.accountant.pld.steps import one_step

        rho, nodes = _concentrated(scenario)
        explicit = [(one_step(node, relation, explicit=True), count) for node, count in nodes]
        self.attained = all(step.tight for step, _ in explicit)
        self._parts = explicit if target.explicit else [(one_step(node, relation), count) for node, count in nodes]
        if rho > 0.0:
            self._parts = [*self._parts, (OneStep.dominated(Concentrated(rho), symmetric=True), 1)]
        self._tolerance = target.tolerance

    def delta(self, epsilon: float) -> Interval:
        from affidavit.accountant.pld.engine import delta_bracket

        lower, upper = _widened(*delta_bracket(self._parts, epsilon=epsilon, tolerance=self._tolerance))
        return Interval(lower, min(1.0, upper))

    def epsilon(self, delta: float) -> Interval:
        from affidavit.accountant.pld.engine import epsilon_bracket

        return _widened(*epsilon_bracket(self._parts, delta=delta, tolerance=self._tolerance))


def _concentrated(scenario: Scenario) -> tuple[float, list[tuple[Plan, int]]]:
    """Σρ of what is concentrated, rounded up, and the rest."""
    if not has_zcdp(scenario):
        return 0.0, list(scenario.nodes())
    costs: list[float] = []
    rest: list[tuple[Plan, int]] = []
    for node, count in scenario.nodes():
        match node:
            case ZeroConcentrated(rho=rho):
                costs.append(count * rho)
            case Exponential(range=eta) if eta <= WEAK:
                costs.append(count * eta * eta / 8.0)
            case OneOf(options=options) if (any_rho := _rho_of_any(options)) is not None:
                costs.append(count * any_rho)
            case _:
                rest.append((node, count))
    return math.fsum(costs) * (1.0 + 1e-15), rest


def _rho_of_any(options: Sequence[Plan]) -> float | None:
    """The largest ρ; None where something has none, or where that says less of it than its pair does."""
    rho = rho_of(OneOf(tuple(options)))
    if rho is None or not any(isinstance(option, ZeroConcentrated) for option in options):
        return None
    return rho if rho <= NEARLY * max(map(mean_loss, options)) else None


def has_zcdp(scenario: Scenario) -> bool:
    """Whether only zCDP is known of some mechanism."""
    return any(
        isinstance(one, ZeroConcentrated)
        for node, _ in scenario.fixed
        for one in (node.options if isinstance(node, OneOf) else (node,))
    )


def pair_gap(scenario: Scenario, relation: Relation) -> str:
    """Empty if each mechanism has a dominating pair of its own, else why not."""
    return "a zCDP guarantee has no dominating pair" if has_zcdp(scenario) else PldMethod().why_not(scenario, relation)


def _widened(lower: float, upper: float) -> Interval:
    """Room for the last digits of float64, which the engine charges only in the mass it moves."""
    return Interval(lower * (1.0 - ROUNDING), upper * (1.0 + ROUNDING))


class PldMethod:
    """Everything that has a dominating pair; of exponential mechanisms the envelope, which has no lower side."""

    name = "pld"
    exact = True

    def why_not(self, scenario: Scenario, relation: Relation) -> str:
        """Applies unless a mechanism has no dominating pair."""
        rho, rest = _concentrated(scenario)
        if rho > 0.0 and not rest:
            return "of zCDP guarantees alone the pair is that of the zcdp method"
        if rho > MOST_RHO:
            return f"the pair of more than {MOST_RHO:g}-zCDP has few digits"
        try:
            PldProfile(scenario, relation, Target())
        except NotSupported as error:
            return error.message
        return ""

    def profile(self, scenario: Scenario, relation: Relation, target: Target) -> PldProfile:
        return PldProfile(scenario, relation, target)
