"""``bound``: the ε (or δ) of a plan, from both sides, by the best valid method.

What a plan means: docs/theory/semantics.md. Every scenario of the plan (``scenario``) is bounded by every method that
applies; the plan's ε is at most the largest over scenarios, at least the largest over those that data sets
reach. ``bound`` computes the best method alone; ``Bound.methods`` computes the whole table when it is read. A
method that yields only an upper side has lower side 0, or, in a plan with ``zcdp`` leaves, what the Gaussian of
equal ρ costs in their place (``methods.zcdp.stand_in``).

ε is reported in [0, ∞], for the larger of the two directions. Tolerance is relative to ε, with
an absolute floor of a thousandth of it; an ε above 500 is of no use, and ten times coarser.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from affidavit.accountant import validate
from affidavit.accountant.cases.choices import likely_size
from affidavit.accountant.cases.scenario import Scenario, Scenarios, scenarios
from affidavit.accountant.errors import NotSupported, PlanError
from affidavit.accountant.methods.base import Interval, Method, Target
from affidavit.accountant.methods.best import ALL, METHODS, Found, admitted, ask, best, candidates, edge, lowest, seen
from affidavit.accountant.methods.ceiling import costs_at_most
from affidavit.accountant.methods.cover import FEW, WIDER, covering, groups_of
from affidavit.accountant.methods.failure import certain_failure
from affidavit.accountant.methods.pld import PldMethod
from affidavit.accountant.methods.pure import pure_epsilon
from affidavit.accountant.methods.rdp import RenyiMethod
from affidavit.accountant.plan import Plan, canonical_json, core, parse_plan
from affidavit.accountant.show import Facts, Shown, between, lower, table, upper
from affidavit.accountant.validate import Relation

__all__ = ["METHODS", "Bound", "MethodResult", "Methods", "bound", "profile_points"]


COARSE = 3e-2
"""Tolerance of a first look at several scenarios."""
COVERING: tuple[Method, ...] = (RenyiMethod(), PldMethod())
"""What is asked about a group of cases."""
LIKELY_LOG, LEAST_DELTA = 14.0, 1e-300
"""ln 1/δ where no δ is given, and the least δ."""
UNLIKE = 3e-3
"""By how much lower sides of first looks differ where sharp ones keep their order: they miss much the same share."""
ADMITTED = 4
"""Of so many cases with ``zcdp``, the likely costliest, it is looked at what Gaussians in their place cost."""


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


def _worst(cases: Scenarios, relation: Relation, target: Target) -> Found:
    """The largest upper side of all scenarios, the largest lower side of those that are reached.

    Of several, each is looked at coarsely first, and only those sharply, the costliest first, whose coarse upper side
    is above all lower sides that are known: the others change neither. Nor do those that cost less by zCDP alone, nor
    those whose coarse upper side is below a sharp one and whose coarse lower side is clearly below the largest.
    """
    several = max(len(cases.upper), len(cases.lower)) > 1
    coarse = replace(target, tolerance=max(target.tolerance, COARSE if several else 0.0))
    looks: dict[Scenario, Found] = {}
    skipped: list[Scenario] = []
    least, above_seen = 0.0, False
    order = [*cases.all]
    if len(order) > 1:
        order.sort(key=lambda case: _likely_cost(case, relation, target), reverse=True)
    alone, groups = groups_of(order)
    if not any(one in cases.upper for one in alone):
        alone, groups = order, []
    waiting: list[Scenario] = [*reversed(alone)]
    groups.reverse()
    most = Found(Interval(0.0, 0.0), "")  # of the groups
    while waiting or groups:
        if not waiting:
            group = [one for one in groups.pop() if one in cases.upper]
            left = [one for one in group if not _stays_below(one, relation, target, least)]
            skipped += [one for one in group if one not in left]
            together, enough = None, most.interval.upper
            if len(left) > FEW:
                costliest = max((one for one in looks if one in cases.upper), key=lambda one: looks[one].interval.upper)
                enough = max(WIDER * best(costliest, relation, target).interval.upper, enough)
                together = _together(left, relation, replace(target, enough=enough))
            if together is None:
                waiting = [*reversed(left)]
            elif together.interval.upper > enough:
                half = len(left) // 2
                groups += [left[half:], left[:half]]
            else:
                most = max(most, together, key=_upper)
            continue
        scenario = waiting.pop()
        if above_seen and _stays_below(scenario, relation, target, least):
            skipped.append(scenario)
            continue
        try:
            admit = scenario in cases.lower and sum(one in cases.lower for one in looks) < ADMITTED
            looks[scenario] = found = _looked_at(scenario, cases, relation, replace(coarse, enough=least), admit=admit)
        except NotSupported:
            if scenario in cases.upper:
                raise
            continue
        above_seen = above_seen or scenario in cases.upper
        if scenario in cases.lower:
            least = max(least, found.interval.lower)
    above: dict[Scenario, Found] = {}
    below: dict[Scenario, Found] = {}
    lowest_look = max((look.interval.lower for scenario, look in looks.items() if scenario in cases.lower), default=0.0)
    for scenario, look in sorted(
        looks.items(), key=lambda item: (item[0] in cases.upper, _upper(item[1])), reverse=True
    ):
        low, high = look.interval
        most_known = max((f.interval.upper for f in above.values()), default=0.0)
        bounds = scenario in cases.upper and high > most_known
        no_matter = high <= least or (not bounds and low <= (1.0 - UNLIKE) * lowest_look)
        if coarse == target or (above and no_matter):
            found = look
        else:
            admit = low > 0.0 and len(below) < ADMITTED
            found = _looked_at(scenario, cases, relation, target, admit=admit)
        if scenario in cases.upper:
            above[scenario] = found
        if scenario in cases.lower:
            below[scenario] = found
            least = max(least, found.interval.lower)
    if least > max(map(_upper, (most, *above.values()))):
        # A lower side that nothing reaches: what was skipped for it has to be bounded after all.
        above |= {scenario: best(scenario, relation, target) for scenario in skipped if scenario in cases.upper}
    worst = max((*above.values(), most), key=_upper)
    if least > worst.interval.upper and not target.explicit:
        explicit = replace(target, explicit=True)
        below = {scenario: best(scenario, relation, explicit) for scenario in below}
        least = max(f.interval.lower for f in below.values())
    attained = bool(below) and all(f.attained for f in (*above.values(), *below.values()))
    return Found(Interval(least, worst.interval.upper), worst.method, attained)


def _looked_at(scenario: Scenario, cases: Scenarios, relation: Relation, target: Target, *, admit: bool) -> Found:
    """A case, without an upper side where that bounds nothing."""
    if scenario in cases.upper:
        return best(scenario, relation, target, admit=admit)
    return lowest(scenario, relation, target, admit=admit)


def _upper(found: Found) -> float:
    return found.interval.upper


def _together(group: Sequence[Scenario], relation: Relation, target: Target) -> Found | None:
    """An upper side of all of them; None where no method covers what costs as much."""
    found: Found | None = None
    for case in covering(group):
        for method in COVERING:
            if not method.why_not(case, relation) and (found is None or _upper(found) > target.enough):
                interval = seen(case, relation, target, ask(method.profile(case, relation, target), target))
                found = min(found or Found(interval, method.name), Found(interval, method.name), key=_upper)
    return found


def _likely_cost(scenario: Scenario, relation: Relation, target: Target) -> tuple[float, float]:
    """What surely fails, where that may be all that counts; then about Σρ, no more than the largest losses allow."""
    failure, log = certain_failure(scenario), LIKELY_LOG
    if target.delta is not None and failure <= 0.5 * target.delta:
        failure, log = 0.0, -math.log(min(max(target.delta, LEAST_DELTA), 0.5))
    size, bounded = 0.0, 0.0
    for node, count in scenario.nodes():
        likely, most = count * likely_size(node), pure_epsilon(Scenario(((node, count),)), relation).upper
        if _size_of_loss(most, log) < likely:
            bounded += most
        else:
            size += likely
    return failure, size + _size_of_loss(bounded, log)


def _size_of_loss(most: float, log: float) -> float:
    """The ρ with ρ + 2 √(ρ ln 1/δ) = ``most``."""
    return (most / (math.sqrt(most + log) + math.sqrt(log))) ** 2 if most < math.inf else math.inf


def _stays_below(scenario: Scenario, relation: Relation, target: Target, least: float) -> bool:
    """Whether this scenario costs no more than ``least``: nothing costs more than infinity; of others, at a glance."""
    if least == math.inf or least <= 0.0:
        return least == math.inf
    if target.delta is not None:
        return costs_at_most(scenario, relation, epsilon=least, delta=target.delta)
    return costs_at_most(scenario, relation, epsilon=target.epsilon or 0.0, delta=least)


def _row(method: Method, cases: Scenarios, relation: Relation, target: Target) -> MethodResult:
    least, most = 0.0, 0.0
    for scenario in cases.all:
        known = edge(scenario, relation, target)
        why = "" if known is not None else method.why_not(scenario, relation)
        if why and scenario in cases.upper:
            return MethodResult(method.name, False, why, *(math.nan,) * 4)
        if why:
            continue
        found = known or seen(scenario, relation, target, ask(method.profile(scenario, relation, target), target))
        if scenario in cases.lower:
            least = max(least, found.lower, 0.0 if known else admitted(scenario, relation, target))
        if scenario in cases.upper:
            most = max(most, found.upper)
    return MethodResult(method.name, True, "", *_sides(Interval(least, most), target))


def _sides(found: Interval, target: Target) -> tuple[float, float, float, float]:
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
    cases = scenarios(core(checked), checked_relation)

    @lru_cache(maxsize=1)
    def rows() -> Methods:
        return Methods(_row(m, cases, checked_relation, target) for m in ALL)

    if method is None:
        found = _worst(cases, checked_relation, target)
    else:
        name = validate.choice(method, path="method", options=METHODS)
        row = _row(next(m for m in ALL if m.name == name), cases, checked_relation, target)
        if not row.applies:
            raise NotSupported(
                f"method {name} does not apply: {row.why}", hint="Remove `--method`: the best one is taken."
            )
        asked = (row.epsilon_lower, row.epsilon_upper) if epsilon is None else (row.delta_lower, row.delta_upper)
        found = Found(Interval(*asked), name)
    sides = _sides(found.interval, target)
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
    for scenario in scenarios(core(parse_plan(plan)), checked_relation).upper:
        profiles = [m.profile(scenario, checked_relation, target) for m in candidates(scenario, checked_relation)]
        for i, epsilon in enumerate(epsilons):
            at = Target(epsilon=epsilon)
            found = edge(scenario, checked_relation, at) or Interval(0.0, min(p.delta(epsilon).upper for p in profiles))
            uppers[i] = max(uppers[i], seen(scenario, checked_relation, at, found).upper)
    return tuple(zip(map(float, epsilons), uppers, strict=True))
