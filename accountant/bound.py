"""``bound``: the ε (or δ) of a plan, from both sides, by the best valid method.

What a plan means: docs/theory/semantics.md. Every case of the plan (``case``) is bounded by every method that
applies; the plan's ε is at most the largest over cases_of, at least the largest over those that data sets
reach. ``bound`` computes the best method alone; ``Bound.methods`` computes the whole table when it is read. A
method that yields only an upper side has lower side 0, or, in a plan with ``zcdp`` leaves, what the Gaussian of
equal ρ costs in their place (``methods.zcdp.stand_in``).

ε is reported in [0, ∞], for the larger of the two directions. Tolerance is relative to ε, with
an absolute floor of a thousandth of it; an ε above 500 is of no use, and ten times coarser.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from affidavit.accountant import validate
from affidavit.accountant.cases.case import Cases, cases_of
from affidavit.accountant.errors import NotSupported, PlanError
from affidavit.accountant.methods.base import Bracket, Method, Target
from affidavit.accountant.methods.best import ALL, METHODS, Found, admitted, ask, candidates, edge, seen
from affidavit.accountant.methods.costliest import costliest
from affidavit.accountant.plan import Plan, canonical_json, core, parse_plan
from affidavit.accountant.show import Facts, Shown, between, lower, table, upper
from affidavit.accountant.validate import Relation

__all__ = ["METHODS", "Bound", "MethodResult", "Methods", "bound", "profile_points"]


@dataclass(frozen=True, slots=True, repr=False)
class MethodResult(Shown):
    """One row of the table of methods; ``why`` says why a method does not apply."""

    name: str
    applies: bool
    why: str
    epsilon_lower: float
    epsilon_upper: float
    delta_lower: float
    delta_upper: float

    def facts(self) -> Facts:
        """Its bracket, or why it has none."""
        if not self.applies:
            return Facts(f"{self.name} does not apply: {self.why}")
        return Facts(f"{self.name}: {between(self)}")


class Methods(tuple[MethodResult, ...]):
    """Every method side by side; a table in notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return table(f"{len(self)} methods", ("method", "at least", "at most", ""), tuple(map(_cells, self)))


def _cells(row: MethodResult) -> tuple[str, ...]:
    if not row.applies:
        return (row.name, "", "", row.why)
    if row.delta_lower == row.delta_upper and row.epsilon_lower == row.epsilon_upper:
        return (row.name, "", "", row.facts().line.partition(": ")[2])
    of_epsilon = row.delta_lower == row.delta_upper
    low, high = (row.epsilon_lower, row.epsilon_upper) if of_epsilon else (row.delta_lower, row.delta_upper)
    return (row.name, lower(low) if low else "", upper(high), "")


@dataclass(frozen=True, repr=False)
class Bound(Shown):
    """``epsilon_lower <= ε of the plan <= epsilon_upper`` at ``delta``, or the same for δ at ``epsilon``.

    Of the two pairs, the one that was asked for is a bracket; the other repeats the question.
    ``attained``: whether the lower side is reached by stated neighbouring data sets and strategies.
    False for sampling without replacement under substitution and zero-out, where no single pair of
    data sets is known to reach the dominating curve: there the lower side is the curve's own and
    says how exactly the best provable number is computed (``bound(..., explicit=True)`` asks for the
    smaller one of an explicit pair).
    """

    plan: Plan
    relation: Relation
    epsilon_lower: float
    epsilon_upper: float
    delta_lower: float
    delta_upper: float
    method: str
    tolerance: float
    attained: bool
    _table: Callable[[], Methods] = field(repr=False, compare=False)

    @property
    def methods(self) -> Methods:
        """Every method side by side (computed when first read)."""
        return self._table()

    def facts(self) -> Facts:
        """The bracket and what it rests on, without the table of methods, which may take a while."""
        reached = "reached by stated data sets" if self.attained else "the curve's own; explicit=True for a stated pair"
        rows = (("relation", self.relation), ("method", self.method), ("lower side", reached))
        return Facts(
            f"{between(self)}, {self.relation}, by {self.method}", (), (*rows, ("plan", canonical_json(self.plan)))
        )


def _row(method: Method, cases: Cases, relation: Relation, target: Target) -> MethodResult:
    least, most = 0.0, 0.0
    for case in cases.all:
        known = edge(case, relation, target)
        why = "" if known is not None else method.why_not(case, relation)
        if why and case in cases.upper:
            return MethodResult(method.name, False, why, *(math.nan,) * 4)
        if why:
            continue
        found = known or seen(case, relation, target, ask(method.profile(case, relation, target), target))
        if case in cases.lower:
            least = max(least, found.lower, 0.0 if known else admitted(case, relation, target))
        if case in cases.upper:
            most = max(most, found.upper)
    return MethodResult(method.name, True, "", *_sides(Bracket(least, most), target))


def _sides(found: Bracket, target: Target) -> tuple[float, float, float, float]:
    """Of ε, then of δ: what was asked for, and the question twice."""
    if target.delta is not None:
        return found.lower, found.upper, target.delta, target.delta
    asked = target.epsilon or 0.0
    return asked, asked, found.lower, found.upper


def bound(
    plan: Plan | Mapping[str, Any],
    *,
    relation: Relation,
    delta: float | None = None,
    epsilon: float | None = None,
    tolerance: float = 1e-3,
    method: str | None = None,
    explicit: bool = False,
) -> Bound:
    """Bracket ε at ``delta``, or δ at ``epsilon`` (give exactly one).

    ``plan`` is the inner node (dict or ``Plan``), ``relation`` the one its parameters are stated
    for. ``method`` asks for one method instead of the best, ``explicit`` for a lower side that stated
    data sets reach. Raises ``PlanError`` on malformed
    input, ``NotSupported`` where no theorem covers the plan or the asked method.
    """
    checked = parse_plan(plan)
    checked_relation = validate.relation(relation)
    if (delta is None) == (epsilon is None):
        raise PlanError(
            "delta",
            "give exactly one of delta and epsilon",
            allowed="delta in [0, 1] or epsilon >= 0",
            hint="For example `delta = 1e-05` and `epsilon = None`.",
        )
    target = Target(
        delta=None if delta is None else validate.fraction(delta, path="delta"),
        epsilon=None if epsilon is None else validate.real(epsilon, path="epsilon"),
        tolerance=validate.real(tolerance, path="tolerance", minimum=1e-9),
        explicit=explicit,
    )
    cases = cases_of(core(checked), checked_relation)

    @lru_cache(maxsize=1)
    def rows() -> Methods:
        return Methods(_row(m, cases, checked_relation, target) for m in ALL)

    if method is None:
        found = costliest(cases, checked_relation, target)
    else:
        name = validate.choice(method, path="method", options=METHODS)
        row = _row(next(m for m in ALL if m.name == name), cases, checked_relation, target)
        if not row.applies:
            raise NotSupported(
                f"method {name} does not apply: {row.why}", hint="Remove `--method`: the best one is taken."
            )
        asked = (row.epsilon_lower, row.epsilon_upper) if epsilon is None else (row.delta_lower, row.delta_upper)
        found = Found(Bracket(*asked), name)
    sides = _sides(found.bracket, target)
    return Bound(checked, checked_relation, *sides, found.method, target.tolerance, found.attained, rows)


def profile_points(
    plan: Plan | Mapping[str, Any],
    *,
    relation: Relation,
    delta: float,
    epsilons: Sequence[float],
    tolerance: float = 1e-2,
) -> tuple[tuple[float, float], ...]:
    """(ε, upper side of δ) for each of ``epsilons``, by the method that is best near ``delta``.

    One profile serves all points: it is composed once, near ``delta``. Errors as in ``bound``.
    """
    checked_relation = validate.relation(relation)
    target = Target(delta=validate.fraction(delta, path="delta"), tolerance=tolerance)
    uppers = [0.0] * len(epsilons)
    for case in cases_of(core(parse_plan(plan)), checked_relation).upper:
        profiles = [m.profile(case, checked_relation, target) for m in candidates(case, checked_relation)]
        for i, epsilon in enumerate(epsilons):
            at = Target(epsilon=epsilon)
            found = edge(case, checked_relation, at) or Bracket(0.0, min(p.delta(epsilon).upper for p in profiles))
            uppers[i] = max(uppers[i], seen(case, checked_relation, at, found).upper)
    return tuple(zip(map(float, epsilons), uppers, strict=True))
