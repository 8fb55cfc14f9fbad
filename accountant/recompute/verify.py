"""``recompute`` and ``check_claim``: the verifier's two questions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from affidavit.accountant import validate
from affidavit.accountant.plan import Approximate, Laplace, Plan, Pure, core, parse_plan
from affidavit.accountant.recompute.bracket import Bracket, rounded_down, rounded_up
from affidavit.accountant.recompute.compose import delta_of, epsilon_of, unbounded
from affidavit.accountant.recompute.reading import Case, cases
from affidavit.accountant.validate import Relation

__all__ = ["ClaimCheck", "Recomputed", "check_claim", "recompute"]

_FEW_USES = 64

Answer = Literal["holds", "does not hold", "undecided"]


@dataclass(frozen=True, slots=True)
class Recomputed:
    """Bracket of the plan's ε at ``delta`` under ``relation``; ``how`` names the formulas."""

    epsilon_lower: float
    epsilon_upper: float
    relation: Relation
    delta: float
    how: str


@dataclass(frozen=True, slots=True)
class ClaimCheck:
    """The answer to "is the plan (epsilon, delta)-DP?" with the recomputed bracket of δ at ``epsilon``.

    ``holds``: delta_upper <= delta. ``does not hold``: delta_lower > delta. ``undecided``: the claim
    lies inside the verifier's own bracket, at its finest resolution.
    """

    answer: Answer
    epsilon: float
    delta: float
    delta_lower: float
    delta_upper: float
    recomputed: Recomputed


def recompute(plan: object, *, relation: Relation, delta: float) -> Recomputed:
    """ε of ``plan`` (a node as dict or ``Plan``) at ``delta`` in [0, 1], from both sides.

    Relative width at most 1e-3 at 100 exponential uses, float64 or better elsewhere.
    Raises ``PlanError`` on bad input and ``NotSupported`` where there is no second formula.
    """
    plan, relation, delta = _read(plan, relation, delta)
    low = high = 0.0
    how: dict[str, None] = {}
    for case in cases(plan, relation):
        bracket, name = _epsilon(case, relation, delta)
        low = max(low, bracket.lower if case.lower else 0.0)
        high = max(high, bracket.upper if case.upper else 0.0)
        how[name] = None
    return Recomputed(low, high, relation, delta, "; ".join(how))


def check_claim(plan: object, *, relation: Relation, epsilon: float, delta: float) -> ClaimCheck:
    """Whether ``plan`` is (``epsilon``, ``delta``)-DP under ``relation``, by δ at ``epsilon``.

    The grid is refined until the question is decided. Raises as ``recompute`` does.
    """
    plan, relation, delta = _read(plan, relation, delta)
    epsilon = validate.real(epsilon, path="epsilon")
    recomputed = recompute(plan, relation=relation, delta=delta)
    found = Bracket(0.0, 0.0)
    for case in cases(plan, relation):
        bracket = _delta(case, relation, epsilon, delta)
        lower, upper = bracket.lower if case.lower else 0.0, bracket.upper if case.upper else 0.0
        found = Bracket(max(found.lower, lower), max(found.upper, upper))
    answer: Answer = "holds" if found.upper <= delta else "does not hold" if found.lower > delta else "undecided"
    return ClaimCheck(answer, epsilon, delta, found.lower, found.upper, recomputed)


def _read(plan: object, relation: object, delta: object) -> tuple[Plan, Relation, float]:
    return core(parse_plan(plan)), validate.relation(relation), validate.fraction(delta, path="delta")


def _epsilon(case: Case, relation: Relation, delta: float) -> tuple[Bracket, str]:
    if delta == 1.0:
        return Bracket(0.0, 0.0), "any mechanism is (0, 1)-DP"
    if delta == 0.0:
        value = _largest_loss(case)
        return Bracket(value, value), "largest privacy loss"
    if unbounded(case):
        return Bracket(math.inf, math.inf), "no noise"
    found, how = epsilon_of(case, relation, delta)
    if (stated := _stated(case)) is not None and stated[1] <= Fraction(delta):
        found = Bracket(min(found.lower, stated[0]), min(found.upper, stated[0]))
    return found, how


def _delta(case: Case, relation: Relation, epsilon: float, delta: float) -> Bracket:
    if delta == 0.0:
        held = _largest_loss(case) <= epsilon
        return Bracket(0.0, 0.0) if held else Bracket(math.ulp(0.0), 1.0)
    if unbounded(case):
        return Bracket(1.0, 1.0)
    if (stated := _stated(case)) is not None and epsilon >= stated[0]:
        nearest = float(stated[1])
        return Bracket(min(nearest, rounded_down(nearest)), nearest if nearest >= stated[1] else rounded_up(nearest))
    return delta_of(case, relation, epsilon, delta)


def _stated(case: Case) -> tuple[float, Fraction] | None:
    """(Σ ε, 1 − Π(1 − δ)) where that is all that is stated, of a few uses: the largest loss, and what exceeds it."""
    if case.ranges or sum(uses for _, uses in case.fixed) > _FEW_USES:
        return None
    total, kept = Fraction(0), Fraction(1)
    for node, uses in case.fixed:
        match node:
            case Pure(epsilon=epsilon):
                total += uses * Fraction(epsilon)
            case Approximate(epsilon=epsilon, delta=failure):
                total += uses * Fraction(epsilon)
                kept *= (1 - Fraction(failure)) ** uses
            case _:
                return None
    nearest = float(total)
    return nearest if nearest >= total else math.nextafter(nearest, math.inf), 1 - kept


def _largest_loss(case: Case) -> float:
    """ε at δ = 0: the essential supremum of the loss."""
    terms = [eta * uses for eta, uses in case.ranges]
    for node, uses in case.fixed:
        match node:
            case Pure(epsilon=epsilon) | Approximate(epsilon=epsilon, delta=0.0):
                terms.append(epsilon * uses)
            case Laplace(noise_multiplier=scale) if scale > 0.0:
                terms.append(uses / scale)
            case _:
                return math.inf
    total = math.fsum(terms)
    return math.nextafter(total, math.inf) if total > 0.0 else 0.0
