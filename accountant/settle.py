"""The one number: what is shown, signed and verified is the smallest ε, or δ, that both engines confirm.

``bound`` issues a bracket in float64 with every error charged; ``verifier`` computes another one, in its own reading
of the plan, by other formulas and in outward-rounded arithmetic. A plan's ε (or δ) is at most the smaller of the two
upper sides, but only the larger is confirmed by both: that is the settled one. So whoever recomputes a certificate
finds that it holds. Sides that contradict each other settle nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from affidavit.accountant import validate
from affidavit.accountant.bound import Bound, bound
from affidavit.accountant.cases.case import cases_of
from affidavit.accountant.errors import DisagreementError, NotSupported
from affidavit.accountant.methods.adaptive import recursion_points
from affidavit.accountant.methods.base import LOUD, LOUD_WIDTH
from affidavit.accountant.methods.pld import holds_zcdp
from affidavit.accountant.plan import Plan, core, parse_plan
from affidavit.accountant.show import Facts
from affidavit.accountant.validate import Relation
from affidavit.accountant.verifier import Recomputed, recompute

__all__ = ["Settled", "issue", "known", "settle"]

LATTICE, RECURSION = 1e-6, 1e-4
"""Tolerances where a finer bracket costs some tenths of a second: one lattice, or exponential mechanisms alone."""
FEW_POINTS = 2e6
"""Lattice points of the coarsest recursion up to which a finer one is that cheap: some 2,500 uses."""
MARGIN, SEARCHED = 1e-11, {"epsilon": 2e-5, "delta": 2e-3}
"""Room above what the verifier says, relative: its float64 parts may differ in the last digits on another processor,
and so may the law that it finds where it searches for one (seen: 4e-6 of ε, 1.3e-3 of δ)."""
CONTRADICTION = 1e-9


@dataclass(frozen=True, repr=False)
class Settled(Bound):
    """``bound`` with the settled ε, or δ, as its upper side, and what the verifier said."""

    recomputed: Recomputed

    @property
    def theorems(self) -> str:
        """How it was issued, and confirmed."""
        return f"{self.method}, confirmed by {self.recomputed.method}"

    @property
    def arithmetic(self) -> str:
        """How rounding is controlled, in both."""
        return f"float64 with every error charged, confirmed in {self.recomputed.arithmetic}"

    def facts(self) -> Facts:
        """The bracket, and both engines' words."""
        found = super().facts()
        rows = (*found.rows, ("confirmed by", self.recomputed.method), ("arithmetic", self.arithmetic))
        return Facts(f"{found.line}, confirmed", found.columns, rows)


def settle(
    plan: Plan | Mapping[str, Any], *, relation: Relation, delta: float | None = None, epsilon: float | None = None
) -> Settled:
    """The settled ε of ``plan`` at ``delta``, or its settled δ at ``epsilon`` (give exactly one).

    Raises ``PlanError`` on bad input, ``UsageError`` unless one of the two is given, ``NotSupported`` where either
    engine has no theorem for the plan, ``DisagreementError`` where the two contradict each other.
    """
    return _settled(
        parse_plan(plan),
        validate.relation(relation),
        None if delta is None else validate.fraction(delta, path="delta"),
        None if epsilon is None else validate.real(epsilon, path="epsilon"),
    )


def known(
    plan: Plan | Mapping[str, Any], *, relation: Relation, delta: float | None = None, epsilon: float | None = None
) -> tuple[Bound, str]:
    """The settled bracket, and nothing; or what the issuing engine says alone, and why the verifier says nothing.

    Raises as ``settle``; ``NotSupported`` where the issuing engine has no theorem either.
    """
    try:
        return settle(plan, relation=relation, delta=delta, epsilon=epsilon), ""
    except NotSupported as error:
        return bound(plan, relation=relation, delta=delta, epsilon=epsilon), error.message


@lru_cache(maxsize=64)
def _settled(plan: Plan, relation: Relation, delta: float | None, epsilon: float | None) -> Settled:
    cases_of(core(plan), relation)  # raises where no theorem applies, before any work
    found = recompute(plan, relation=relation, delta=delta, epsilon=epsilon)  # it refuses more, and at once
    issued = issue(plan, relation=relation, delta=delta, epsilon=epsilon, found=found)
    (least, most), (low, high) = _sides(issued, epsilon), _sides(found, epsilon)
    _check((least, high), (low, most))
    side, largest = ("epsilon", math.inf) if epsilon is None else ("delta", 1.0)
    roomy = high * (1.0 + (SEARCHED[side] if found.searched else MARGIN))
    upper = min(most if high == most or roomy <= most else roomy, largest)
    facts: dict[str, Any] = {field.name: getattr(issued, field.name) for field in fields(issued)}
    facts.update({f"{side}_lower": min(max(least, low), upper), f"{side}_upper": upper})
    return Settled(**facts, recomputed=found)


def issue(
    plan: Plan,
    *,
    relation: Relation,
    delta: float | None = None,
    epsilon: float | None = None,
    found: Recomputed | None = None,
) -> Bound:
    """What the issuing engine says, as finely as is cheap; no finer than ``found`` can confirm. Raises as ``bound``."""
    first = bound(plan, relation=relation, delta=delta, epsilon=epsilon)
    finer = _tolerance(plan, relation, first)
    if finer is None or (found is not None and _settles(_sides(first, epsilon), _sides(found, epsilon))):
        return first
    return bound(plan, relation=relation, delta=delta, epsilon=epsilon, tolerance=finer)


def _sides(found: Bound | Recomputed, epsilon: float | None) -> tuple[float, float]:
    """Of what was asked for: of δ where ``epsilon`` was given."""
    if epsilon is None:
        return found.epsilon_lower, found.epsilon_upper
    return found.delta_lower, found.delta_upper


def _tolerance(plan: Plan, relation: Relation, first: Bound) -> float | None:
    """What a second look may be as fine as; None where it would take long."""
    cases = cases_of(core(plan), relation).upper
    if first.method == "pld" and not any(one.exponentials or holds_zcdp(one) for one in cases):
        return LATTICE
    long = (bool(one.fixed) or recursion_points(one) > FEW_POINTS for one in cases if one.uses)
    if first.method == "adaptive" and not any(long):
        return RECURSION
    return None


def _settles(first: tuple[float, float], found: tuple[float, float]) -> bool:
    """Whether a finer bracket would change nothing that matters: what is settled is the verifier's upper side."""
    low, high = max(first[0], found[0]), max(first[1], found[1])
    return first[1] <= found[1] or (low > LOUD and high - low <= LOUD_WIDTH * high)


def _check(*sides: tuple[float, float]) -> None:
    """Raises ``DisagreementError`` where one engine's lower side is above the other's upper side."""
    for below, above in sides:
        if below * (1.0 - CONTRADICTION) > above and math.isfinite(above):
            raise DisagreementError(
                f"the two engines contradict each other about this plan: at least {below!r} and at most {above!r}",
                hint="Nothing is certified. Please report the plan: `affidavit epsilon` with `--show-plan` prints it.",
            )
