r"""Two-sided ε and δ of a composition: grids, refinement, directions.

Each direction is composed apart and the larger δ counts. A direction with one use left is answered by its curve's
closed form, one with two uses by their losses merged (``two_uses``); Gaussians, their samples, Laplace noise and few
atoms by a contour integral (``contour``), as far as the transform of all of them fades. Otherwise the saddle point of
the target gives the tilt and the window; a cheap grid gives a first bracket, and its width the next step, since both
sides converge like the square of the step. Where a side shows that the saddle point was guessed badly or the window is
too narrow, these are corrected. It ends when the bracket is narrow enough, or when there would be too many points; it
is valid either way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

from affidavit.accountant.pld.contour import contour
from affidavit.accountant.pld.curve import Curve, OneStep, ever
from affidavit.accountant.pld.discretise import Side
from affidavit.accountant.pld.grid import MAX_POINTS, CurveParts, aligned, merged
from affidavit.accountant.pld.inverse import inverse
from affidavit.accountant.pld.nested import LOG_NOTHING, composed_curve
from affidavit.accountant.pld.problem import HUGE, Problem, Target
from affidavit.accountant.pld.two_uses import two_uses
from affidavit.accountant.rounding import STATED

__all__ = ["Way", "delta_bracket", "epsilon_bracket", "one_way", "slope"]

ROUNDS = 20
FURTHEST, SMALLEST = 1e300, 1e-300
"""Beyond it no ε of one use is sought; a δ that is divided by."""
SETTLED = 1e-4
"""Widths of a contour integral that a lattice hardly improves: rounding, not a grid, is what keeps it this wide."""
CHEAP, APART = 0.02, 1e-3
"""How sharp the upper side of two uses is, in units of the tolerance; the tolerance of a lower side that is not the
upper side's own."""
NARROW, FINE_POINTS = 1e-3, 2**18
"""Relative width of a bracket that is narrow enough for lattices of many points, at least so many, not to be worth it:
of as many as one law, transformed, may have, all laws together."""
NARROWER, FEW_POINTS = 0.2, 2**14
"""In units of the tolerance, how narrow lattices of so few points make a bracket, as they cost little."""
AGAIN = 0.85
"""What is no finer lattice."""
LARGE, LOG_NEGLIGIBLE = 2**24, -21.0
"""Largest count that one transform composes; ln of the share of δ that more may lose to truncation."""
LOUD, LOUD_SHARE = 500.0, 10.0
"""An ε above the first may be this much wider."""
SAFETY, JUMP, NO_STEP = {False: 2.0, True: 4.0}, 4.0, (0.0, math.inf)
"""Of the distance that the upper side has left, what is guessed to be it, and a whole bracket; a ratio of steps from
which on nothing is guessed; no step so far."""
Parts = Sequence[tuple[OneStep, int]]
Way = Literal["forward", "backward"]


def epsilon_bracket(parts: Parts, *, delta: float, tolerance: float = 1e-3, enough: float = 0.0) -> tuple[float, float]:
    """(lower, upper) with lower <= ε(δ) <= upper for the composition of ``parts``.

    ``parts`` are one-step curves with their counts; ``delta`` in [0, 1]; ``tolerance`` is relative to ε with
    an absolute floor of a thousandth of it. The lower side is 0 where no part has an attained pair. An upper side of
    ``enough`` or less need not be sharper, and what is below it then need not be known.
    """
    return _both(parts, Target(delta=delta), tolerance, enough)


def delta_bracket(parts: Parts, *, epsilon: float, tolerance: float = 1e-3, enough: float = 0.0) -> tuple[float, float]:
    """(lower, upper) with lower <= δ(ε) <= upper; ``tolerance`` is relative to δ, ``enough`` as for ε."""
    return _both(parts, Target(epsilon=epsilon), tolerance, enough)


def slope(parts: Parts, *, epsilon: float, delta: float) -> float:
    """About −d ln δ/dε of the composition where its upper side is (``epsilon``, ``delta``): (P(L > ε) − δ)/δ."""
    found = 0.0
    for above, _ in {one_way(parts, "forward"), one_way(parts, "backward")}:
        if not above or _infinity(above) >= 1.0:  # nothing lies between
            continue
        if len(above) == 1 and above[0][1] == 1:
            tail = math.exp(above[0][0].logs(np.array([epsilon])).p_tail[0])
            found = max(found, tail / max(delta, SMALLEST) - 1.0)
        else:
            found = max(found, Problem.of(above, Target(epsilon=epsilon)).saddle.theta)
    return found


def _both(parts: Parts, target: Target, tolerance: float, enough: float) -> tuple[float, float]:
    forward = one_way(parts, "forward")
    backward = one_way(parts, "backward")
    lower, upper = _bracket(*forward, target, tolerance, upper=enough)
    if backward == forward:
        return lower, upper
    other_lower, other_upper = _bracket(*backward, target, tolerance, lower=lower, upper=max(upper, enough))
    return max(lower, other_lower), max(upper, other_upper)


def one_way(parts: Parts, name: Way) -> tuple[CurveParts, CurveParts]:
    """Upper and lower curves of one direction, merged; parts without a lower curve cost nothing there."""
    directions = [(getattr(step, name), count) for step, count in parts if count > 0]
    upper = merged([(direction.upper, count) for direction, count in directions])
    lower = merged([(direction.lower, count) for direction, count in directions if direction.lower is not None])
    return upper, lower


def _trivial(parts: CurveParts, target: Target) -> float | None:
    """Answers that need no composition."""
    infinity = _infinity(parts)
    if target.epsilon is not None:
        if not parts:
            return 0.0
        return 1.0 if infinity >= 1.0 else None
    delta = target.delta or 0.0
    if not parts or delta >= 1.0:
        return 0.0
    if infinity >= 1.0 or (infinity > 0.0 and delta < infinity * (1.0 - 1e-13)):
        return math.inf
    if _total_variation(parts) <= delta:
        return 0.0
    highest = math.fsum(count * curve.high for curve, count in parts)
    if delta == 0.0:
        return max(0.0, highest)
    return None


def _infinity(parts: CurveParts) -> float:
    return ever((curve.infinity, count) for curve, count in parts)


def _bracket(
    above: CurveParts, below: CurveParts, target: Target, tolerance: float, *, lower: float = 0.0, upper: float = 0.0
) -> tuple[float, float]:
    """Both sides of one direction; neither need be sharper than what is said of the other one, ``lower`` and ``upper``.

    A lower side that the upper one is far from, whatever is computed, is as sharp as a lattice is at little cost.
    """
    if above == below and (max((n for _, n in above), default=0) <= LARGE or _inverted(above, target) is not None):
        return _reached(above, target, tolerance, upper)
    nothing = LOG_NOTHING if target.delta is None else math.log(target.delta or math.ulp(0.0)) + LOG_NEGLIGIBLE
    most = _refine(_split(above, "upper", nothing), target, 0.5 * tolerance, upper, reached=False)[1]
    least = _reached(_split(below, "lower", nothing), target, max(tolerance, APART), lower)[0]
    return least, min(most, _limit(above, target))


def _reached(parts: CurveParts, target: Target, tolerance: float, enough: float) -> tuple[float, float]:
    """Both sides of one set of curves: by the contour integral and, unless that is as narrow as can be, a lattice."""
    lower, upper = _inverted(parts, target) or (0.0, math.inf)
    goal = max(target.goal((lower, upper), SETTLED), _goal((lower, upper), target, tolerance))
    if upper - lower <= goal < math.inf:
        return lower, upper
    found = _refine(parts, target, tolerance, enough)
    return max(found[0], lower), min(found[1], upper)


@lru_cache(maxsize=64)
def _inverted(parts: CurveParts, target: Target) -> tuple[float, float] | None:
    """Both sides by the contour integral, where it applies; None for one use."""
    if sum(count for _, count in parts) <= 1 or _trivial(parts, target) is not None or (target.epsilon or 0.0) < 0.0:
        return None
    found = contour(parts, delta=target.delta, epsilon=target.epsilon)
    if found is None:
        return None
    return found.delta(target.epsilon) if target.epsilon is not None else found.epsilon(target.delta or 0.0)


def _split(parts: CurveParts, side: Side, log_nothing: float) -> CurveParts:
    """Counts beyond ``LARGE`` in two levels: a grid fine enough for one use has too many points for all.

    √count uses are composed first, but for a mass of e^``log_nothing`` in all; their law, far wider, is composed √count
    times.
    """
    result: list[tuple[Curve, int]] = []
    for curve, count in parts:
        if count <= LARGE:
            result.append((curve, count))
            continue
        inner = math.isqrt(count)
        once = composed_curve(((curve, inner),), side=side, log_nothing=log_nothing - math.log(count), ordered=True)
        result.append((once, count // inner))
        if count % inner:
            result.append((curve, count % inner))
    return tuple(result)


@lru_cache(maxsize=256)
def _refine(
    parts: CurveParts, target: Target, tolerance: float, enough: float, *, reached: bool = True
) -> tuple[float, float]:
    """Both sides of one direction, one set of curves; without a lower side where the upper one is ``enough`` or less.

    How far the upper side is from the curves' own is judged by the first bracket, and then by how far it fell when the
    step was last refined, like its square. Then the lower side is looked at, if the curves are ``reached``.
    """
    found = _at_once(parts, target, tolerance if reached else CHEAP * tolerance, enough)
    if found is not None:
        return found
    below, above = 0.0, _limit(parts, target)
    problem, limit = Problem.of(parts, target), above
    if not problem.is_resolved:
        return below, above
    step, outside, before = problem.first_step(), math.inf, NO_STEP
    for _ in range(ROUNDS):
        here, share = problem.look("upper", step)
        above = min(above, here)
        if above <= enough:
            return 0.0, above
        # A poor guess is improved together with the grid: a coarse upper side is no good guide.
        moved = problem.moved(above) if above < limit else problem
        if moved is not problem:
            problem, step = moved, max(aligned(parts, 0.5 * min(step, moved.first_step())), moved.least_step())
            before = NO_STEP
            continue
        coarser, higher = before
        width, goal = math.inf, _goal((above, above), target, tolerance)
        wanted = NARROWER * goal, goal, goal
        if coarser > step:
            width = SAFETY[reached] * abs(higher - here) / ((coarser / step) ** 2 - 1.0)
            # Until the losses are resolved it falls more slowly: without a lower side a long jump is not believed.
            width = max(width, 2.0 * goal) if coarser > JUMP * step and not reached else width
        looked = before is NO_STEP or width <= goal
        if looked and (reached or before is NO_STEP):
            low, charged = problem.look("lower", step, here)
            below, share = max(below, low), max(share, charged)
            width, goal = above - below, _goal((below, above), target, tolerance)
            narrow = max(goal, target.goal((below, above), NARROW))
            wanted = NARROWER * goal, goal if before is NO_STEP else narrow, narrow
        # Where widening does not help, the side that is charged is too coarse to say anything.
        if problem.wants_room(share, goal) and share < 0.5 * outside:
            problem, outside = problem.widened(), share
            step, before = max(step, problem.least_step()), NO_STEP
            continue
        outside = math.inf
        finer = _finer(problem, step, width, wanted, above > LOUD and target.epsilon is None)
        if finer > AGAIN * step:
            if reached and not looked:
                below = max(below, problem.look("lower", step, here)[0])
            break
        before, step = (step, here) if math.isfinite(here) else NO_STEP, finer
    return below, above


def _at_once(parts: CurveParts, target: Target, tolerance: float, enough: float) -> tuple[float, float] | None:
    """Both sides where no composition is needed, or none can be had."""
    known = _trivial(parts, target)
    if known is not None:
        return _widened(known)
    if len(parts) == 1 and parts[0][1] == 1:
        return _single(parts[0][0], target)
    found = two_uses(parts, delta=target.delta, epsilon=target.epsilon, tolerance=tolerance, enough=enough)
    if found is not None:
        return found[0], min(found[1], _limit(parts, target))
    if any(curve.low < -HUGE or HUGE < curve.high < math.inf for curve, _ in parts if math.isfinite(curve.low)):
        return 0.0, _limit(parts, target)
    return None


def _limit(parts: CurveParts, target: Target) -> float:
    """No ε beyond the largest loss is needed, unless there is mass at +inf."""
    if target.delta is None:
        return 1.0
    highest = math.fsum(count * max(curve.high, 0.0) for curve, count in parts) * (1.0 + STATED)
    return highest if _infinity(parts) == 0.0 else math.inf


def _goal(bracket: tuple[float, float], target: Target, tolerance: float) -> float:
    """How wide a bracket may be; an ε that is of no use to anyone need not be as sharp."""
    loud = target.delta is not None and bracket[0] > LOUD
    return target.goal(bracket, tolerance * (LOUD_SHARE if loud else 1.0))


def _finer(problem: Problem, step: float, width: float, wanted: tuple[float, float, float], loud: bool) -> float:
    """The next step: the width falls like its square once it resolves the losses; more points for a larger width."""
    fine = max(MAX_POINTS // len(problem.parts), FINE_POINTS)
    result = step
    for most, points in zip(wanted, (FEW_POINTS, fine, FINE_POINTS if loud else MAX_POINTS), strict=True):
        if width > most:
            ratio = math.sqrt(0.7 * most / width) if math.isfinite(width) else 0.25
            ratio *= 0.85 if ratio < 0.125 else 1.0
            finer = aligned(problem.parts, step * min(max(ratio, 0.03), 0.8))
            result = min(result, max(finer, problem.least_step(points)))
    return result


def _total_variation(parts: CurveParts) -> float:
    """At least δ(0) of the composition, 1 − Π (1 − δ_j(0)).

    δ(0) is the distance in total variation. Pairs that are coupled each as well as they can be agree in all uses with
    probability Π (1 − δ_j(0)). So what runs on a sample of rate q has a δ(0) of q at most, n uses of 1 − (1 − q)^n.
    """
    return ever((curve.delta(0.0)[1], count) for curve, count in parts) * (1.0 + 2e-15)


def _widened(value: float) -> tuple[float, float]:
    if value == 0.0 or math.isinf(value):
        return value, value
    return value * (1.0 - STATED), value * (1.0 + STATED)


def _single(curve: Curve, target: Target) -> tuple[float, float]:
    """One use: the closed form, inverted."""
    if target.epsilon is not None:
        return curve.delta(target.epsilon)
    delta = target.delta or 0.0
    lower, upper = inverse(curve.delta, delta, furthest=min(curve.high, FURTHEST))
    return lower, math.inf if delta < curve.infinity else min(upper, max(curve.high, 0.0))
