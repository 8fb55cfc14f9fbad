"""ε again, by other formulas, other code and other arithmetic than what issued it.

    >>> from affidavit.accountant.verifier import recompute
    >>> found = recompute({"kind": "gaussian", "noise_multiplier": 1.0}, relation="add-remove", delta=1e-5)
    >>> round(found.epsilon_upper, 6)
    4.377178

Both sides are computed in outward-rounded arithmetic (docs/theory/arithmetic.md): python-flint balls; where a
recursion, a sum of losses or a contour integral would be too slow in balls, float64 with a proven allowance for every
rounding. A plan is read here in the verifier's own way (``reading``); only the plan's parser, the errors, the border
checks and a search of which any answer is valid (``least_cost``) are shared with the issuing engine.

    what                               how
    gaussian                           closed form
    samples of gaussians               contour integral of the transform of the loss
    pure, approximate                  product of binomials, on a lattice where there are too many losses
    laplace, discrete gaussian         closed form once, else a lattice
    samples of these, and mixtures     lattice: connect the dots above, merged outcomes below
    exponential                        recursion over the likelihood ratio; closed form once
    samples of one exponential         the same over the sample's ratio; else the envelope of one use, on a lattice
    zcdp                               conversion above, the Gaussian of equal ρ below
    parallel                           every case of the changed record (``reading``)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import flint

from affidavit.accountant import validate
from affidavit.accountant.errors import NotSupported, UsageError
from affidavit.accountant.plan import Plan, core, parse_plan
from affidavit.accountant.show import Facts, Shown, between
from affidavit.accountant.validate import Relation
from affidavit.accountant.verifier.balls import BITS
from affidavit.accountant.verifier.bracket import Bracket
from affidavit.accountant.verifier.case_profiles import profile_of, zcdp_profile
from affidavit.accountant.verifier.cases import Case
from affidavit.accountant.verifier.ceiling import costs_at_most, likely_cost, most_taken, pure_epsilon
from affidavit.accountant.verifier.choices import any_of
from affidavit.accountant.verifier.lattice_profiles import lattice_above
from affidavit.accountant.verifier.mixture import Kept
from affidavit.accountant.verifier.profile import (
    NARROW,
    NARROW_DELTA,
    SMALLEST,
    TAIL,
    Profile,
    Target,
    epsilon_of,
    worst,
)
from affidavit.accountant.verifier.reading import read
from affidavit.accountant.verifier.sampled import expected_delta, fronts, words_of_samples
from affidavit.accountant.verifier.zcdp import zcdp_top

ROUNDS, STRIDE = 4, 1e-12
"""A δ whose lower side is lost is computed again, on lattices cut at ``STRIDE`` times its upper side."""

FORGIVEN = 0.1
"""Of δ."""
ALONE, FEW, WIDER, HARDLY = 3, 3, 1.0005, 1.0005
"""So many cases are bounded each alone, the others in groups. A group of more than so few is halved where its upper
side is so much above that of the costliest case, and so much above the plan's that is known."""
LEAST = math.ulp(0.0)
"""No upper side of δ is smaller where some loss may exceed ε: float64 loses what is."""

__all__ = ["Answer", "ClaimCheck", "Recomputed", "check_claim", "recompute", "recomputed_curve"]

Answer = Literal["holds", "does not hold", "undecided"]


@dataclass(frozen=True, slots=True, repr=False)
class Recomputed(Shown):
    """A two-sided bound in outward-rounded arithmetic.

    When δ was given, ``delta_lower`` = ``delta_upper`` is that δ and the plan's ε is in
    [epsilon_lower, epsilon_upper]; when ε was given, the other way round. ``method`` names the theorems,
    ``arithmetic`` how rounding is controlled.
    """

    epsilon_lower: float
    epsilon_upper: float
    delta_lower: float
    delta_upper: float
    method: str
    arithmetic: str
    relation: Relation

    def facts(self) -> Facts:
        """The bracket, the theorems and the arithmetic."""
        rows = (("relation", self.relation), ("method", self.method), ("arithmetic", self.arithmetic))
        return Facts(f"{between(self)}, {self.relation}, recomputed", (), rows)

    @property
    def searched(self) -> bool:
        """Whether a law was searched for, as for blocks: any is valid, and which one is found hangs on last digits."""
        return "blocks" in self.method

    @property
    def delta(self) -> float:
        """The δ that ``epsilon_upper`` holds at."""
        return self.delta_upper


def _arithmetic(methods: Sequence[str]) -> str:
    balls = f"balls of {BITS} bits (python-flint {flint.__version__})"
    if any(word in method for method in methods for word in ("adaptive", "blocks", "privacy loss", "zCDP")):
        return f"{balls}; float64 with outward rounding"
    return balls


_Found = tuple[Bracket, str]
"""Both sides of one case, and the theorems."""


class _Answers:
    """The largest lower side of the cases that are reached, the largest upper side of those that bound the plan."""

    def __init__(self, plan: Plan | Mapping[str, Any], relation: Relation, target: Target) -> None:
        found = read(core(parse_plan(plan)), validate.relation(relation))
        self.target, self.upper, self.lower = target, dict.fromkeys(found.upper), dict.fromkeys(found.lower)
        self.low = self.alone = self.high = 0.0
        self.methods: list[str] = []
        cases = [*dict.fromkeys((*found.upper, *found.lower))]
        order = self.in_order(cases) if len(cases) > 1 else cases
        alone = ALONE if any(case in self.upper for case in order[:ALONE]) else len(order)
        for case in order[:alone]:
            self.add(case)
        self.add_group([one for one in order[alone:] if one in self.upper])

    def in_order(self, cases: Sequence[Case]) -> list[Case]:
        """Those that fail too often, the largest, then those that fail most often, unless that is unlikely beside δ."""
        costs, delta = {case: likely_cost(case) for case in cases}, self.target.delta or 0.0
        largest, most = max(size for _, size in costs.values()), self.target.delta or 1.0

        def key(case: Case) -> tuple[bool, bool, float, float]:
            failures, size = costs[case]
            return failures > most, size == largest, failures if failures >= FORGIVEN * delta else 0.0, size

        return sorted(cases, key=key, reverse=True)

    def stays_below(self, case: Case) -> bool:
        """Whether it costs, at a glance, no more than a lower side that is known: then it changes neither side."""
        if not self.methods or self.low in {0.0, math.inf}:
            return bool(self.methods) and self.low == math.inf
        if self.target.delta is not None:
            return costs_at_most(case, epsilon=self.low, delta=self.target.delta)
        return costs_at_most(case, epsilon=self.target.epsilon or 0.0, delta=self.low)

    def add(self, case: Case) -> None:
        """A case alone."""
        if self.stays_below(case):
            self.high = max(self.high, self.low)
            return
        keep: Kept = "both" if case in self.lower else "upper"
        keep = keep if case in self.upper else "lower"
        try:
            sides, method = self.one(case, keep)
        except NotSupported:
            if keep != "lower":
                raise
            return
        if keep != "lower":
            self.alone, self.high = max(self.alone, sides[1]), max(self.high, sides[1])
            self.methods.append(method)
        if keep != "upper":
            self.low = max(self.low, sides[0])

    def one(self, case: Case, keep: Kept) -> _Found:
        """Both sides of one; an upper side alone where the bracket is narrow, and stays so with it."""
        ask = _epsilon if self.target.delta is not None else _delta
        if keep != "lower" and 0.0 < self.high < math.inf and self.is_narrow(self.high):
            found = ask(case, replace(self.target, keep="upper", enough=self.high))
            if found[0][1] <= self.high or self.is_narrow(found[0][1]):
                return found
        return ask(case, replace(self.target, keep=keep, enough=self.low))

    def is_narrow(self, upper: float) -> bool:
        return upper - self.low <= (NARROW if self.target.delta is not None else NARROW_DELTA) * upper

    def add_group(self, group: Sequence[Case]) -> None:
        """An upper side of all, or of either half where that is too wide."""
        left = [case for case in group if not self.stays_below(case)]
        if len(left) < len(group):
            self.high = max(self.high, self.low)
        covered = _together(left, replace(self.target, keep="upper", enough=self.high)) if len(left) > FEW else None
        if covered is None:
            for case in left:
                self.add(case)
        elif covered[0][1] > max(WIDER * self.alone, HARDLY * self.high):
            self.add_group(left[: len(left) // 2])
            self.add_group(left[len(left) // 2 :])
        else:
            self.high = max(self.high, covered[0][1])
            self.methods.append(covered[1])


def recompute(
    plan: Plan | Mapping[str, Any],
    *,
    relation: Relation,
    delta: float | None = None,
    epsilon: float | None = None,
) -> Recomputed:
    """Bounds on ε at ``delta``, or on δ at ``epsilon`` (give exactly one).

    The upper side holds for every pair of neighbours under ``relation`` and every adaptive choice
    the plan admits; the lower side is reached by an explicit strategy, up to what the method's
    docstring states.

    Raises ``PlanError`` for a malformed plan, relation, δ or ε; ``UsageError`` unless exactly one
    of δ and ε is given; ``NotSupported`` where there is no second formula for the plan.
    """
    if (delta is None) == (epsilon is None):
        raise UsageError("give either delta or epsilon", hint="For example `delta = 1e-05` and `epsilon = None`.")
    if delta is not None:
        delta = validate.fraction(delta, path="delta")
    else:
        epsilon = validate.real(epsilon, path="epsilon")
    found = _Answers(plan, relation, Target(delta=delta, epsilon=epsilon))
    low, high, method = found.low, found.high, "; ".join(dict.fromkeys(found.methods))
    lower, upper = (low, high) if epsilon is None else (epsilon, epsilon)
    least, most = (low, high) if delta is None else (delta, delta)
    return Recomputed(lower, upper, least, most, method, _arithmetic(found.methods), relation)


def _epsilon(case: Case, target: Target) -> _Found:
    """ε of one case: at most that at δ = 0, where δ is too small for the profile to resolve."""
    delta = target.delta or 0.0
    if delta == 1.0:
        return Bracket(0.0, 0.0), "every mechanism is (0, 1)-DP"
    largest = pure_epsilon(case)
    if delta == 0.0:
        return Bracket(*largest), "largest loss"
    if most_taken(case) <= delta:  # samples are (1-p)M + p(...) on both sides, p = 1 - Π(1-q): δ(0) <= p
        return Bracket(0.0, 0.0), "no sample takes the record, but for a share of δ"
    profile = profile_of(case, target)
    if target.met(profile):
        return Bracket(0.0, target.enough), _words(profile, case)
    rho = likely_cost(case)[1]
    start = zcdp_top(rho, delta) if 0.0 < rho < math.inf else 1.0
    lower, upper = epsilon_of(profile, delta, start=start)
    return Bracket(lower, min(upper, largest[1])), _words(profile, case)


def _words(profile: Profile, case: Case) -> str:
    return " with ".join((profile.method, *words_of_samples(case.fixed)))


def _together(group: Sequence[Case], target: Target) -> _Found | None:
    """One upper side of a group of cases, as that of any one of them once; None where something has no noise.

    On a lattice where all of it has pairs, as zCDP otherwise; ``case_profiles`` has the sharper ones for one alone.
    """
    if target.delta in {0.0, 1.0} or any(case.blatant for case in group):
        return None
    whole = any_of(group, 1)
    if whole.steps or whole.fixed.rho:
        profile = zcdp_profile(whole, target)
    else:
        delta = target.expected or target.delta or expected_delta(whole.first, target.epsilon or 0.0)
        forward, backward = fronts(whole.first, negligible=max(SMALLEST, delta * TAIL))
        found = (forward, backward) if forward.directed else (forward,)
        profile = worst([front.closed_form() or lattice_above(front) for front in found])
    if target.delta is not None:
        return epsilon_of(profile, target.delta, start=1.0), _words(profile, whole)
    lower, upper = profile.delta(target.epsilon or 0.0)
    return Bracket(lower, max(upper, LEAST)), _words(profile, whole)


def _delta(case: Case, target: Target) -> _Found:
    """δ of one case at ε; lattices are fitted to the answer once or twice, as it is not known before."""
    epsilon = target.epsilon or 0.0
    if epsilon >= pure_epsilon(case)[1]:
        return Bracket(0.0, 0.0), "largest loss"
    profile = profile_of(case, target)
    lower, upper = profile.delta(epsilon)
    for _ in range(ROUNDS):
        if lower > 0.0 or upper < max(SMALLEST, target.enough):
            break
        profile = profile_of(case, replace(target, expected=upper * STRIDE))
        again = profile.delta(epsilon)
        lower, upper = max(lower, again[0]), min(upper, again[1])
    return Bracket(lower, max(upper, LEAST)), _words(profile, case)


def _upper_curve(case: Case, grid: Sequence[float]) -> list[float]:
    """δ_upper of one case at rising ε's; 0 from its largest loss on, to which no lattice could be fitted."""
    largest = pure_epsilon(case)[1]
    inside = [point for point in grid if point < largest]
    profile = profile_of(case, Target(epsilon=inside[-1], rough=True)) if inside else None
    return [max(profile.delta(point)[1], LEAST) if profile and point < largest else 0.0 for point in grid]


def recomputed_curve(
    plan: Plan | Mapping[str, Any], *, relation: Relation, points: Sequence[float]
) -> tuple[tuple[float, float], ...]:
    """An upper profile: (ε, δ_upper) for each ε >= 0 in ``points``, in rising order.

    Each pair holds for both directions of every pair of neighbours, so all of them together
    bound the trade-off curve. The profile is computed once for all points.
    Raises as ``recompute``.
    """
    grid = sorted({validate.real(point, path=f"points[{i}]") for i, point in enumerate(points)})
    cases = read(core(parse_plan(plan)), validate.relation(relation)).upper
    if not grid:
        return ()
    curves = [_upper_curve(case, grid) for case in cases]
    best = 1.0
    curve = []
    for point, *deltas in zip(grid, *curves, strict=True):
        best = min(best, max(deltas))
        curve.append((point, best))
    return tuple(curve)


@dataclass(frozen=True, slots=True, repr=False)
class ClaimCheck(Shown):
    """What a claim (``epsilon``, ``delta``) looks like after recomputing.

    "does not hold": the lower side of ε at ``delta`` is above ``epsilon``, or that of δ at ``epsilon`` above ``delta``;
    "undecided": the claim is between the sides of both.
    """

    answer: Answer
    epsilon: float
    delta: float
    recomputed: Recomputed

    def facts(self) -> Facts:
        """The answer and the bracket."""
        sides = self.recomputed.facts()
        return Facts(f"{self.answer}: claimed ε <= {self.epsilon:.12g} at δ = {self.delta:g}; {sides.line}", (), ())


def check_claim(plan: Plan | Mapping[str, Any], *, relation: Relation, epsilon: float, delta: float) -> ClaimCheck:
    """Whether ``plan`` is (``epsilon``, ``delta``)-DP under ``relation``. Raises as ``recompute``."""
    epsilon = validate.real(epsilon, path="epsilon")
    found = recompute(plan, relation=relation, delta=delta)
    answer: Answer = "undecided"
    if found.epsilon_upper <= epsilon:
        answer = "holds"
    elif found.epsilon_lower > epsilon:
        answer = "does not hold"
    else:
        at_claim = recompute(plan, relation=relation, epsilon=epsilon)
        if at_claim.delta_upper <= delta:
            answer = "holds"
        elif at_claim.delta_lower > delta:
            answer = "does not hold"
    return ClaimCheck(answer, epsilon, found.delta, found)
