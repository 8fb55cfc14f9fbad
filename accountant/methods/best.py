"""The best method for one scenario: the exact one if there is one, else the smallest upper side of all that apply.

A method that yields only an upper side has lower side 0, or, with ``zcdp`` leaves, what the Gaussian of equal ρ costs
in their place (``methods.zcdp.stand_in``).
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from affidavit.accountant import nodes
from affidavit.accountant.cases.case import OneOf
from affidavit.accountant.cases.choices import likely_size
from affidavit.accountant.cases.scenario import Scenario
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.methods.adaptive import AdaptiveMethod, recursion_points
from affidavit.accountant.methods.advanced import AdvancedMethod
from affidavit.accountant.methods.base import LOUD, LOUD_WIDTH, Interval, Method, Profile, Target, certain_delta
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
from affidavit.accountant.validate import Relation

__all__ = ["ALL", "METHODS", "Found", "admitted", "ask", "best", "candidates", "edge", "lowest", "seen"]


EXACT: tuple[Method, ...] = (GaussianMethod(), OptimalMethod(), BlocksMethod(), AdaptiveMethod(), PldMethod())
"""From the cheapest to the most general; the first that is exact for a scenario is its best."""

WORTH_A_LOOK = 2e5
"""Points of the adaptive recursion above which the envelope of its exponential mechanisms is asked first; where what
runs beside them has to be composed, finely and everywhere, before the recursion begins, it always is."""
APART = 0.125
"""At least how far apart, relatively, the envelopes of exponential mechanisms and randomised responses are."""
RANGE_ROUNDING = 1e-15
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


def _is_exact(method: Method, scenario: Scenario, relation: Relation) -> bool:
    match method:
        case OptimalMethod():
            return all(isinstance(node, (nodes.Pure, nodes.Approximate)) for node, _ in scenario.nodes())
        case BlocksMethod() if not method.is_sharp(scenario, relation):
            return False
        case PldMethod():
            enveloped = (
                isinstance(one, (nodes.Exponential, OneOf)) for node, _ in scenario.nodes() for one in nodes.walk(node)
            )
            return not (holds_zcdp(scenario) or any(enveloped))
    return method.exact and not holds_zcdp(scenario)


@dataclass(frozen=True, slots=True)
class Found:
    """A bracket, the method that decided it, and whether stated data sets reach the lower side."""

    interval: Interval
    method: str
    attained: bool = True


def edge(scenario: Scenario, relation: Relation, target: Target) -> Interval | None:
    """Cases that need no method: nothing released, δ = 0, δ = 1."""
    if target.delta is not None:
        if scenario.uses == 0 or target.delta >= 1.0:
            return Interval(0.0, 0.0)
        if target.delta <= 0.0:
            return pure_epsilon(scenario, relation)
        if costs_infinity(scenario, target.delta):
            return Interval(math.inf, math.inf)
        if most_taken(scenario) <= target.delta:
            return Interval(0.0, 0.0)
    elif scenario.uses == 0:
        certain = certain_delta(target.epsilon or 0.0)
        return Interval(certain, certain)
    elif (target.epsilon or 0.0) >= pure_epsilon(scenario, relation).upper:
        return Interval(0.0, 0.0)
    return None


def ask(profile: Profile, target: Target) -> Interval:
    """The bracket of what the target asks for."""
    if target.delta is not None:
        return profile.epsilon(target.delta)
    return profile.delta(target.epsilon or 0.0)


def candidates(scenario: Scenario, relation: Relation) -> list[Method]:
    """The one exact method if there is one, else everything that applies: what has no pair is zCDP alone."""
    applicable: list[Method] = []
    for method in EXACT:
        if not method.why_not(scenario, relation):
            if _is_exact(method, scenario, relation):
                return [method]
            applicable.append(method)
    return applicable + [method for method in (*UPPER, BASIC) if not method.why_not(scenario, relation)]


@lru_cache(maxsize=64)
def best(scenario: Scenario, relation: Relation, target: Target, *, admit: bool = True) -> Found:
    """The exact method if one applies, else the smallest upper side; ``admit``: with what ``zcdp`` leaves admit."""
    known = edge(scenario, relation, target)
    if known is not None:
        return Found(known, "definition")
    if (far := _far_out(scenario, relation, target)) is not None:
        return far
    if (envelope := _close_envelope(scenario, relation, target)) is not None:
        return envelope
    methods = candidates(scenario, relation)
    # Where each mechanism has a pair, their product costs no more than the sum.
    pairs = not scenario.exponentials and (_samples_zcdp(scenario) or any(isinstance(m, PldMethod) for m in methods))
    spared = {BASIC} if len(methods) > 1 and pairs else set[Method]()
    found: list[Found] = []
    for method in methods if target.enough == 0.0 else sorted(methods, key=lambda one: one in EXACT):
        if method not in spared:
            found.append(_found(method, scenario, relation, target))
            if found[-1].interval.upper <= target.enough:
                return replace(found[-1], interval=Interval(0.0, found[-1].interval.upper))
    if spared and all(one.interval.upper in (1.0, math.inf) for one in found):
        found += [_found(method, scenario, relation, target) for method in spared]
    if all(one.interval.upper == math.inf for one in found) and not PldMethod().why_not(scenario, relation):
        found.append(_found(PldMethod(), scenario, relation, target))
    if not all(one.attained for one in found):
        others = [m for m in UPPER if m not in methods and not m.why_not(scenario, relation)]
        found += [_found(method, scenario, relation, target) for method in others]
    smallest = min(found, key=lambda one: one.interval.upper)
    enough = CLOSE * smallest.interval.upper
    chosen = admitted(scenario, relation, target, enough=enough) if admit else 0.0
    if max(one.interval.lower for one in found) < enough:
        chosen = max(chosen, _of_like_records(scenario, relation, target))
    found += [Found(Interval(chosen, math.inf), "")] if chosen else []
    largest = max(found, key=lambda one: one.interval.lower)
    if largest.interval.lower > smallest.interval.upper:
        # Another theorem is below the curve that no pair reaches: of that curve only the explicit pair is left.
        explicit = [_found(method, scenario, relation, replace(target, explicit=True)) for method in methods]
        largest = max(explicit, key=lambda one: one.interval.lower)
    return Found(Interval(largest.interval.lower, smallest.interval.upper), smallest.method, largest.attained)


@lru_cache(maxsize=64)
def admitted(scenario: Scenario, relation: Relation, target: Target, *, enough: float = math.inf) -> float:
    """A lower side by what the ``zcdp`` leaves admit: Gaussians in their place, on stated data sets. 0 without any.

    No sharper than ``enough`` where that saves a recursion over exponential mechanisms beside samples of ``zcdp``,
    which have to be composed: randomised response of half the range in their place is one choice.
    """
    gaussian = stand_in(scenario)
    if gaussian is None:
        return 0.0
    alone = _one_statement(scenario, target)
    if alone >= enough:
        return alone
    explicit = replace(target, explicit=True)
    if enough < math.inf and gaussian.exponentials and _samples_zcdp(scenario):
        least = _found(PldMethod(), gaussian, relation, explicit).interval.lower
        if least >= enough:
            return least
    return max(alone, lowest(gaussian, relation, explicit).interval.lower)


def lowest(scenario: Scenario, relation: Relation, target: Target, *, admit: bool = True) -> Found:
    """The same for a lower side alone; of very many exponential mechanisms it is known without an upper one."""
    if edge(scenario, relation, target) is not None or BlocksMethod().why_not(scenario, relation):
        return best(scenario, relation, target, admit=admit)
    profile = BlocksProfile(scenario, relation, target)
    return Found(Interval(profile.least(target), math.inf), BlocksMethod.name, profile.attained)


def _one_statement(scenario: Scenario, target: Target) -> float:
    """A lower side by the largest statement of ``zcdp``, the others being idle: it admits a mechanism of two losses."""
    largest = max((node.rho for node, _ in scenario.fixed if isinstance(node, nodes.ZeroConcentrated)), default=0.0)
    return two_losses(largest, epsilon=target.epsilon, delta=target.delta)


def _samples_zcdp(scenario: Scenario) -> bool:
    """Whether only zCDP is known of something on a sample."""
    return holds_zcdp(Scenario(tuple(use for use in scenario.fixed if not isinstance(use[0], nodes.ZeroConcentrated))))


def _of_like_records(scenario: Scenario, relation: Relation, target: Target) -> float:
    """A lower side for samples without replacement of exponential mechanisms; 0 without any.

    On data in which every record but the changed one says the same, and so does what it is replaced by, a sample that
    misses it is one that holds its replacement: the pair of a Poisson sample of the same rate under add-remove, which
    the recursion knows. Other samples are left out there, which costs no more.
    """
    kept: dict[nodes.Plan, int] = {}
    for node, count in scenario.fixed:
        match node:
            case nodes.Leaf():
                kept[node] = kept.get(node, 0) + count
            case nodes.WithoutReplacement(population=population, sample=sample, of=nodes.Exponential() as of):
                known = nodes.Poisson(math.nextafter(sample / population, 0.0), of)
                kept[known] = kept.get(known, 0) + count
    if relation == "add-remove" or all(isinstance(node, nodes.Leaf) for node in kept):
        return 0.0
    rough = replace(target, tolerance=max(target.tolerance, ALIKE), explicit=True)
    chosen = replace(scenario, fixed=tuple(kept.items()))
    with suppress(NotSupported):
        return lowest(stand_in(chosen) or chosen, "add-remove", rough).interval.lower
    return 0.0


def _far_out(scenario: Scenario, relation: Relation, target: Target) -> Found | None:
    """δ at an ε far above what all exponential mechanisms lose, W: that of the others, at ε − W at most.

    Any order: of the joint loss of both, W at most is the exponential ones'. A lattice out to ε would be long.
    """
    epsilon = target.epsilon or 0.0
    most = math.fsum(eta * uses for eta, uses in scenario.exponentials)
    if epsilon <= FAR * max(most, LOUD) or most == 0.0:
        return None
    others = Scenario(fixed=scenario.fixed)
    upper = best(others, relation, replace(target, epsilon=(epsilon - most) * (1.0 - RANGE_ROUNDING)))
    lower = best(others, relation, target)
    return replace(upper, interval=Interval(min(lower.interval.lower, upper.interval.upper), upper.interval.upper))


def _close_envelope(scenario: Scenario, relation: Relation, target: Target) -> Found | None:
    """What the PLD engine says, where weak exponential mechanisms beside others leave its bracket narrow enough.

    Its upper side is that of their envelopes, its lower side that of one choice. The recursion, whose grid follows the
    smallest ranges while its ends follow the largest loss, would take long to say little more.
    """
    method = PldMethod()
    if not scenario.exponentials or not scenario.fixed or has_zcdp(scenario) or method.why_not(scenario, relation):
        return None
    if scenario.order == "fixed-first" and recursion_points(scenario) <= WORTH_A_LOOK and target.enough == 0.0:
        return None
    own = math.fsum(eta * eta / 8.0 * uses for eta, uses in scenario.exponentials)
    beside = math.fsum(likely_size(node) * count for node, count in scenario.fixed)
    if own * APART > max(target.tolerance, LOUD_WIDTH) * (own + beside):
        return None
    found = _found(method, scenario, relation, target)
    return found if found.interval.upper <= target.enough or not _wide(found.interval, target) else None


def _wide(interval: Interval, target: Target) -> bool:
    loud = LOUD_WIDTH if target.delta is not None and interval.lower > LOUD else 0.0
    return interval.upper - interval.lower > max(target.tolerance, loud) * interval.upper


LEAST = 2.3e-308
"""No upper side of δ is smaller, unless it is nothing: below, float64 loses what is left of a sum."""


def seen(scenario: Scenario, relation: Relation, target: Target, interval: Interval) -> Interval:
    """Without what float64 lost: an upper side of δ, where some loss exceeds ε, and a lower one of few digits."""
    if target.delta is not None or interval.upper >= LEAST:
        return interval
    lost = (target.epsilon or 0.0) < pure_epsilon(scenario, relation).upper
    return Interval(0.0, LEAST if lost else interval.upper)


def _found(method: Method, scenario: Scenario, relation: Relation, target: Target) -> Found:
    profile = method.profile(scenario, relation, target)
    interval = seen(scenario, relation, target, ask(profile, target))
    return Found(interval, method.name, target.explicit or getattr(profile, "attained", True))
