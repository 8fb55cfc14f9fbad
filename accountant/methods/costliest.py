"""The costliest of a plan's cases: which of them are looked at, and how sharply.

The plan costs at most the largest upper side of all cases that bound it, at least the largest lower side of those that
data sets reach. A sharp bracket of each would tell, and take long; most cases are far from both. So each is looked at
coarsely first, the likely costliest before the others, and no longer than until its upper side is below a lower side
that is known. Many that are likely to cost less are covered by one law (``cover``). Only those are looked at sharply
that a coarse look leaves a chance to be the largest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from affidavit.accountant.cases.case import Case, Cases
from affidavit.accountant.cases.choices import likely_size
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.methods.base import Bracket, Method, Target
from affidavit.accountant.methods.best import Found, ask, best, lowest, seen
from affidavit.accountant.methods.ceiling import costs_at_most
from affidavit.accountant.methods.cover import FEW, WIDER, covering, groups_of
from affidavit.accountant.methods.failure import certain_failure
from affidavit.accountant.methods.pld import PldMethod
from affidavit.accountant.methods.pure import pure_epsilon
from affidavit.accountant.methods.rdp import RenyiMethod
from affidavit.accountant.validate import Relation

__all__ = ["costliest", "together"]

COARSE = 3e-2
"""Tolerance of a first look at several cases."""
COVERING: tuple[Method, ...] = (RenyiMethod(), PldMethod())
"""What is asked about a group of cases."""
LIKELY_LOG, LEAST_DELTA = 14.0, 1e-300
"""ln 1/δ where no δ is given, and the least δ."""
UNLIKE = 3e-3
"""By how much lower sides of first looks differ where sharp ones keep their order: they miss much the same share."""
ADMITTED = 4
"""Of so many cases with ``zcdp``, the likely costliest, it is looked at what Gaussians in their place cost."""


def costliest(cases: Cases, relation: Relation, target: Target) -> Found:
    """The largest upper side of all cases, the largest lower side of those that are reached."""
    search = _Search(cases, relation, target)
    search.look()
    return search.settle()


@dataclass(slots=True)
class _Search:
    """``least``: the largest lower side so far; ``most``: the largest upper side of what was covered together."""

    cases: Cases
    relation: Relation
    target: Target
    looks: dict[Case, Found] = field(default_factory=dict)
    skipped: list[Case] = field(default_factory=list)
    least: float = 0.0
    most: Found = field(default_factory=lambda: Found(Bracket(0.0, 0.0), ""))

    @property
    def coarse(self) -> Target:
        """What a first look is for."""
        several = max(len(self.cases.upper), len(self.cases.lower)) > 1
        return replace(self.target, tolerance=max(self.target.tolerance, COARSE)) if several else self.target

    def look(self) -> None:
        """At each case coarsely, the likely costliest first; those that are likely to cost little in groups."""
        order = [*self.cases.all]
        if len(order) > 1:
            order.sort(key=lambda case: _likely_cost(case, self.relation, self.target), reverse=True)
        alone, groups = groups_of(order)
        if not any(one in self.cases.upper for one in alone):
            alone, groups = order, []
        for case in alone:
            self._look_at(case)
        groups.reverse()
        while groups:
            groups += self._cover(groups.pop())

    def settle(self) -> Found:
        """Sharply, the costliest first: those that may be the largest from above, or from below."""
        above: dict[Case, Found] = {}
        below: dict[Case, Found] = {}
        upper, lower = self.cases.upper, self.cases.lower
        highest_low = max((look.bracket.lower for case, look in self.looks.items() if case in lower), default=0.0)
        for case, look in sorted(self.looks.items(), key=lambda one: (one[0] in upper, _upper(one[1])), reverse=True):
            low, high = look.bracket
            raises = case in upper and high > max(map(_upper, above.values()), default=0.0)
            matters = high > self.least and (raises or low > (1.0 - UNLIKE) * highest_low)
            found = look
            if self.coarse != self.target and (matters or not above):
                found = self._found(case, self.target, admit=low > 0.0 and len(below) < ADMITTED)
            if case in upper:
                above[case] = found
            if case in lower:
                below[case] = found
                self.least = max(self.least, found.bracket.lower)
        if self.least > max(map(_upper, (self.most, *above.values()))):
            # A lower side that nothing reaches: what was skipped for it has to be bounded after all.
            above |= {case: best(case, self.relation, self.target) for case in self.skipped if case in upper}
        worst = max((*above.values(), self.most), key=_upper)
        if self.least > worst.bracket.upper and not self.target.explicit:
            explicit = replace(self.target, explicit=True)
            below = {case: best(case, self.relation, explicit) for case in below}
            self.least = max(found.bracket.lower for found in below.values())
        attained = bool(below) and all(found.attained for found in (*above.values(), *below.values()))
        return Found(Bracket(self.least, worst.bracket.upper), worst.method, attained)

    def _look_at(self, case: Case) -> None:
        if any(one in self.cases.upper for one in self.looks) and self._stays_below(case):
            self.skipped.append(case)
            return
        is_reached = case in self.cases.lower
        admit = is_reached and sum(one in self.cases.lower for one in self.looks) < ADMITTED
        try:
            found = self._found(case, replace(self.coarse, enough=self.least), admit=admit)
        except NotSupported:
            if case in self.cases.upper:
                raise
            return
        self.looks[case] = found
        if is_reached:
            self.least = max(self.least, found.bracket.lower)

    def _cover(self, group: Sequence[Case]) -> list[Sequence[Case]]:
        """Bound a group by what costs as much as each of it; its halves, where that is too much."""
        bounding = [case for case in group if case in self.cases.upper]
        left = [case for case in bounding if not self._stays_below(case)]
        self.skipped += [case for case in bounding if case not in left]
        if len(left) > FEW:
            first = max((case for case in self.looks if case in self.cases.upper), key=lambda c: _upper(self.looks[c]))
            known = best(first, self.relation, self.target).bracket.upper
            enough = max(WIDER * known, _upper(self.most))
            found = together(left, self.relation, replace(self.target, enough=enough))
            if found is not None and _upper(found) > enough:
                half = len(left) // 2
                return [left[half:], left[:half]]
            if found is not None:
                self.most = max(self.most, found, key=_upper)
                return []
        for case in left:
            self._look_at(case)
        return []

    def _found(self, case: Case, target: Target, *, admit: bool) -> Found:
        """A case, without an upper side where that bounds nothing."""
        ask_for = best if case in self.cases.upper else lowest
        return ask_for(case, self.relation, target, admit=admit)

    def _stays_below(self, case: Case) -> bool:
        """Whether it costs no more than ``least``: nothing costs more than infinity; of others, at a glance."""
        if self.least == math.inf or self.least <= 0.0:
            return self.least == math.inf
        if self.target.delta is not None:
            return costs_at_most(case, self.relation, epsilon=self.least, delta=self.target.delta)
        return costs_at_most(case, self.relation, epsilon=self.target.epsilon or 0.0, delta=self.least)


def _upper(found: Found) -> float:
    return found.bracket.upper


def together(group: Sequence[Case], relation: Relation, target: Target) -> Found | None:
    """An upper side of all of them; None where no method covers what costs as much."""
    found: Found | None = None
    for case in covering(group):
        for method in COVERING:
            if not method.why_not(case, relation) and (found is None or _upper(found) > target.enough):
                profile = method.profile(case, relation, replace(target, above=True))
                bracket = seen(case, relation, target, ask(profile, target))
                found = min(found or Found(bracket, method.name), Found(bracket, method.name), key=_upper)
    return found


def _likely_cost(case: Case, relation: Relation, target: Target) -> tuple[float, float]:
    """What surely fails, where that may be all that counts; then about Σρ, no more than the largest losses allow."""
    failure, log = certain_failure(case), LIKELY_LOG
    if target.delta is not None and failure <= 0.5 * target.delta:
        failure, log = 0.0, -math.log(min(max(target.delta, LEAST_DELTA), 0.5))
    size, bounded = 0.0, 0.0
    for node, count in case.nodes():
        likely, most = count * likely_size(node), pure_epsilon(Case(((node, count),)), relation).upper
        if _size_of_loss(most, log) < likely:
            bounded += most
        else:
            size += likely
    return failure, size + _size_of_loss(bounded, log)


def _size_of_loss(most: float, log: float) -> float:
    """The ρ with ρ + 2 √(ρ ln 1/δ) = ``most``."""
    return (most / (math.sqrt(most + log) + math.sqrt(log))) ** 2 if most < math.inf else math.inf
