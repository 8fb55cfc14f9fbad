"""The best method for one case: the exact one if there is one, else the smallest upper side of all that apply.

A method that yields only an upper side has lower side 0, or, with ``zcdp`` leaves, what the Gaussian of equal ρ costs
in their place (``methods.zcdp.stand_in``).
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from affidavit.accountant import nodes
from affidavit.accountant.cases.case import Case
from affidavit.accountant.cases.choices import likely_size
from affidavit.accountant.cases.nodes import OneOf
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.methods.adaptive import AdaptiveMethod, recursion_points
from affidavit.accountant.methods.advanced import AdvancedMethod
from affidavit.accountant.methods.base import LOUD, LOUD_WIDTH, Bracket, Method, Profile, Target, certain_delta
from affidavit.accountant.methods.basic import BasicMethod
from affidavit.accountant.methods.blocks import BlocksMethod, BlocksProfile
from affidavit.accountant.methods.failure import costs_infinity, most_taken
from affidavit.accountant.methods.gaussian import GaussianMethod
from affidavit.accountant.methods.optimal import OptimalMethod
from affidavit.accountant.methods.pld import PldMethod, has_zcdp, holds_zcdp
from affidavit.accountant.methods.pure import pure_epsilon
from affidavit.accountant.methods.rdp import RenyiMethod
from affidavit.accountant.methods.two_losses import two_losses
from affidavit.accountant.methods.zcdp import ZcdpMethod, stand_in
from affidavit.accountant.rounding import LAST_DIGITS
from affidavit.accountant.validate import Relation

__all__ = ["ALL", "METHODS", "Found", "admitted", "ask", "best", "candidates", "edge", "lowest", "seen"]


EXACT: tuple[Method, ...] = (GaussianMethod(), OptimalMethod(), BlocksMethod(), AdaptiveMethod(), PldMethod())
"""From the cheapest to the most general; the first that is exact for a case is its best."""

WORTH_A_LOOK = 2e5
"""Points of the adaptive recursion above which the envelope of its exponential mechanisms is asked first; where what
runs beside them has to be composed, finely and everywhere, before the recursion begins, it always is."""
SHORT, STEP = 7e5, 1e3
"""Points of a recursion that is asked as well where blocks are wider than asked; how many a use is worth besides."""
APART = 0.125
"""At least how far apart, relatively, the envelopes of exponential mechanisms and randomised responses are."""
ALIKE = 1e-2
"""A relative width that is enough where the envelope above is wider."""
CLOSE = 0.99
"""A lower side of what holds ``zcdp`` leaves, in units of the upper one, beside which no recursion is worth it."""
FAR = 1e3
"""An ε of so many times what exponential mechanisms lose, or ``LOUD``, is far out."""

UPPER: tuple[Method, ...] = (ZcdpMethod(), RenyiMethod(), AdvancedMethod())
BASIC = BasicMethod()

ALL: tuple[Method, ...] = (BASIC, *UPPER[::-1], *EXACT)
METHODS: tuple[str, ...] = tuple(method.name for method in ALL)


def _is_exact(method: Method, case: Case, relation: Relation) -> bool:
    match method:
        case OptimalMethod():
            return all(isinstance(node, (nodes.Pure, nodes.Approximate)) for node, _ in case.nodes())
        case BlocksMethod() if not method.is_sharp(case, relation):
            return False
        case PldMethod():
            enveloped = (
                isinstance(one, (nodes.Exponential, OneOf)) for node, _ in case.nodes() for one in nodes.walk(node)
            )
            return not (holds_zcdp(case) or any(enveloped))
    return method.exact and not holds_zcdp(case)


@dataclass(frozen=True, slots=True)
class Found:
    """A bracket, the method that decided it, and whether stated data sets reach the lower side."""

    bracket: Bracket
    method: str
    attained: bool = True


def edge(case: Case, relation: Relation, target: Target) -> Bracket | None:
    """Cases that need no method: nothing released, δ = 0, δ = 1."""
    if target.delta is not None:
        if case.uses == 0 or target.delta >= 1.0:
            return Bracket(0.0, 0.0)
        if target.delta <= 0.0:
            return pure_epsilon(case, relation)
        if costs_infinity(case, target.delta):
            return Bracket(math.inf, math.inf)
        if most_taken(case) <= target.delta:
            return Bracket(0.0, 0.0)
    elif case.uses == 0:
        certain = certain_delta(target.epsilon or 0.0)
        return Bracket(certain, certain)
    elif (target.epsilon or 0.0) >= pure_epsilon(case, relation).upper:
        return Bracket(0.0, 0.0)
    return None


def ask(profile: Profile, target: Target) -> Bracket:
    """The bracket of what the target asks for."""
    if target.delta is not None:
        return profile.epsilon(target.delta)
    return profile.delta(target.epsilon or 0.0)


def candidates(case: Case, relation: Relation) -> list[Method]:
    """The one exact method if there is one, else everything that applies: what has no pair is zCDP alone."""
    applicable: list[Method] = []
    for method in EXACT:
        if not method.why_not(case, relation):
            if _is_exact(method, case, relation):
                return [method]
            applicable.append(method)
    return applicable + [method for method in (*UPPER, BASIC) if not method.why_not(case, relation)]


@lru_cache(maxsize=64)
def best(case: Case, relation: Relation, target: Target, *, admit: bool = True) -> Found:
    """The exact method if one applies, else the smallest upper side; ``admit``: with what ``zcdp`` leaves admit."""
    known = edge(case, relation, target)
    if known is not None:
        return Found(known, "definition")
    if (far := _far_out(case, relation, target)) is not None:
        return far
    if (envelope := _close_envelope(case, relation, target)) is not None:
        return envelope
    methods = candidates(case, relation)
    # Where each mechanism has a pair, their product costs no more than the sum.
    pairs = not case.exponentials and (_samples_zcdp(case) or any(isinstance(m, PldMethod) for m in methods))
    spared = {BASIC} if len(methods) > 1 and pairs else set[Method]()
    found: list[Found] = []
    for method in methods if target.enough == 0.0 else sorted(methods, key=lambda one: one in EXACT):
        if method not in spared:
            found.append(_found(method, case, relation, target))
            if found[-1].bracket.upper <= target.enough:
                return replace(found[-1], bracket=Bracket(0.0, found[-1].bracket.upper))
    if spared and all(one.bracket.upper in (1.0, math.inf) for one in found):
        found += [_found(method, case, relation, target) for method in spared]
    if methods[0].name == "blocks" and _wide(found[0].bracket, target) and _is_short(case, relation):
        found.append(_found(AdaptiveMethod(), case, relation, target))
    if all(one.bracket.upper == math.inf for one in found) and not PldMethod().why_not(case, relation):
        found.append(_found(PldMethod(), case, relation, target))
    if not all(one.attained for one in found):
        others = [m for m in UPPER if m not in methods and not m.why_not(case, relation)]
        found += [_found(method, case, relation, target) for method in others]
    smallest = min(found, key=lambda one: one.bracket.upper)
    enough = CLOSE * smallest.bracket.upper
    chosen = admitted(case, relation, target, enough=enough) if admit else 0.0
    if max(one.bracket.lower for one in found) < enough:
        chosen = max(chosen, _of_like_records(case, relation, target))
    found += [Found(Bracket(chosen, math.inf), "")] if chosen else []
    largest = max(found, key=lambda one: one.bracket.lower)
    if largest.bracket.lower > smallest.bracket.upper:
        # Another theorem is below the curve that no pair reaches: of that curve only the explicit pair is left.
        explicit = [_found(method, case, relation, replace(target, explicit=True)) for method in methods]
        largest = max(explicit, key=lambda one: one.bracket.lower)
    return Found(Bracket(largest.bracket.lower, smallest.bracket.upper), smallest.method, largest.attained)


@lru_cache(maxsize=64)
def admitted(case: Case, relation: Relation, target: Target, *, enough: float = math.inf) -> float:
    """A lower side by what the ``zcdp`` leaves admit: Gaussians in their place, on stated data sets. 0 without any.

    No sharper than ``enough`` where that saves a recursion over exponential mechanisms beside samples of ``zcdp``,
    which have to be composed: randomised response of half the range in their place is one choice.
    """
    gaussian = stand_in(case)
    if gaussian is None:
        return 0.0
    alone = _one_statement(case, target)
    if alone >= enough:
        return alone
    explicit = replace(target, explicit=True)
    if enough < math.inf and gaussian.exponentials and _samples_zcdp(case):
        least = _found(PldMethod(), gaussian, relation, explicit).bracket.lower
        if least >= enough:
            return least
    return max(alone, lowest(gaussian, relation, explicit).bracket.lower)


def lowest(case: Case, relation: Relation, target: Target, *, admit: bool = True) -> Found:
    """The same for a lower side alone; of very many exponential mechanisms it is known without an upper one."""
    if edge(case, relation, target) is not None or BlocksMethod().why_not(case, relation):
        return best(case, relation, target, admit=admit)
    profile = BlocksProfile(case, relation, target)
    return Found(Bracket(profile.least(target), math.inf), BlocksMethod.name, profile.attained)


def _one_statement(case: Case, target: Target) -> float:
    """A lower side by the largest statement of ``zcdp``, the others being idle: it admits a mechanism of two losses."""
    largest = max((node.rho for node, _ in case.fixed if isinstance(node, nodes.ZeroConcentrated)), default=0.0)
    return two_losses(largest, epsilon=target.epsilon, delta=target.delta)


def _samples_zcdp(case: Case) -> bool:
    """Whether only zCDP is known of something on a sample."""
    return holds_zcdp(Case(tuple(use for use in case.fixed if not isinstance(use[0], nodes.ZeroConcentrated))))


def _of_like_records(case: Case, relation: Relation, target: Target) -> float:
    """A lower side for samples without replacement of exponential mechanisms; 0 without any.

    On data in which every record but the changed one says the same, and so does what it is replaced by, a sample that
    misses it is one that holds its replacement: the pair of a Poisson sample of the same rate under add-remove, which
    the recursion knows. Other samples are left out there, which costs no more.
    """
    kept: dict[nodes.Plan, int] = {}
    for node, count in case.fixed:
        match node:
            case nodes.Leaf():
                kept[node] = kept.get(node, 0) + count
            case nodes.WithoutReplacement(population=population, sample=sample, of=nodes.Exponential() as of):
                known = nodes.Poisson(math.nextafter(sample / population, 0.0), of)
                kept[known] = kept.get(known, 0) + count
    if relation == "add-remove" or all(isinstance(node, nodes.Leaf) for node in kept):
        return 0.0
    rough = replace(target, tolerance=max(target.tolerance, ALIKE), explicit=True)
    chosen = replace(case, fixed=tuple(kept.items()))
    with suppress(NotSupported):
        return lowest(stand_in(chosen) or chosen, "add-remove", rough).bracket.lower
    return 0.0


def _far_out(case: Case, relation: Relation, target: Target) -> Found | None:
    """δ at an ε far above what all exponential mechanisms lose, W: that of the others, at ε − W at most.

    Any order: of the joint loss of both, W at most is the exponential ones'. A lattice out to ε would be long.
    """
    epsilon = target.epsilon or 0.0
    most = math.fsum(eta * uses for eta, uses in case.exponentials)
    if epsilon <= FAR * max(most, LOUD) or most == 0.0:
        return None
    others = Case(fixed=case.fixed)
    upper = best(others, relation, replace(target, epsilon=(epsilon - most) * (1.0 - LAST_DIGITS)))
    lower = best(others, relation, target)
    return replace(upper, bracket=Bracket(min(lower.bracket.lower, upper.bracket.upper), upper.bracket.upper))


def _close_envelope(case: Case, relation: Relation, target: Target) -> Found | None:
    """What the PLD engine says, where weak exponential mechanisms beside others leave its bracket narrow enough.

    Its upper side is that of their envelopes, its lower side that of one choice. The recursion, whose grid follows the
    smallest ranges while its ends follow the largest loss, would take long to say little more.
    """
    method = PldMethod()
    if not case.exponentials or not case.fixed or has_zcdp(case) or method.why_not(case, relation):
        return None
    if case.order == "fixed-first" and recursion_points(case) <= WORTH_A_LOOK and target.enough == 0.0:
        return None
    own = math.fsum(eta * eta / 8.0 * uses for eta, uses in case.exponentials)
    beside = math.fsum(likely_size(node) * count for node, count in case.fixed)
    if own * APART > max(target.tolerance, LOUD_WIDTH) * (own + beside):
        return None
    found = _found(method, case, relation, target)
    return found if found.bracket.upper <= target.enough or not _wide(found.bracket, target) else None


def _wide(bracket: Bracket, target: Target) -> bool:
    loud = LOUD_WIDTH if target.delta is not None and bracket.lower > LOUD else 0.0
    return bracket.upper - bracket.lower > max(target.tolerance, loud) * bracket.upper


def _is_short(case: Case, relation: Relation) -> bool:
    """Whether the recursion over all uses, which is as sharp as is asked, is bearable beside the blocks."""
    in_front = bool(case.exponentials) and (not case.fixed or case.order == "fixed-first")
    points = recursion_points(case) + STEP * case.uses if in_front else math.inf
    return points <= SHORT and not AdaptiveMethod().why_not(case, relation)


LEAST = 2.3e-308
"""No upper side of δ is smaller, unless it is nothing: below, float64 loses what is left of a sum."""


def seen(case: Case, relation: Relation, target: Target, bracket: Bracket) -> Bracket:
    """Without what float64 lost: an upper side of δ, where some loss exceeds ε, and a lower one of few digits."""
    if target.delta is not None or bracket.upper >= LEAST:
        return bracket
    lost = (target.epsilon or 0.0) < pure_epsilon(case, relation).upper
    return Bracket(0.0, LEAST if lost else bracket.upper)


def _found(method: Method, case: Case, relation: Relation, target: Target) -> Found:
    profile = method.profile(case, relation, target)
    bracket = seen(case, relation, target, ask(profile, target))
    return Found(bracket, method.name, target.explicit or getattr(profile, "attained", True))
