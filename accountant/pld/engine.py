r"""Two-sided ε and δ of a composition: grids, refinement, directions.

Each direction is composed apart and the larger δ counts. A direction with one use left is answered by its curve's
closed form; Gaussians, their samples, Laplace noise and few atoms by a contour integral (``contour``), as far as the
transform of all of them fades. Otherwise the saddle point of the target gives the tilt and the window; a cheap grid
gives a first bracket, and its width the next step, since both sides converge like the square of the step. Where the
bracket shows that the saddle point was guessed badly or the window is too narrow, these are corrected. It ends when
the bracket is narrow enough, when a longer lattice kept little of its promise, or when there would be too many points;
it is valid either way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np

from affidavit.accountant.pld.contour import Contour, chernoff, contour
from affidavit.accountant.pld.curve import Curve, OneStep
from affidavit.accountant.pld.discretise import Side
from affidavit.accountant.pld.grid import MAX_POINTS, CurveParts, aligned, merged
from affidavit.accountant.pld.inverse import inverse
from affidavit.accountant.pld.nested import Law, composed_curve, composed_law
from affidavit.accountant.pld.problem import Problem, Target
from affidavit.accountant.pld.two_uses import two_uses

__all__ = ["composed_losses", "delta_bracket", "epsilon_bracket"]

ROUNDS = 20
HUGE, FURTHEST = 1e12, 1e300
"""Losses beyond which float64 has no digits left for a grid; beyond which no ε of one use is sought."""
ROUNDED = 1e-4
"""Widths of a contour integral that a lattice hardly improves."""
CHEAP, APART = 1e-5, 1e-4
"""Tolerances of the upper side of two uses, without a lattice; of a lower side that is not the upper side's own."""
NARROW, FINE_POINTS = 1e-3, 2**18
"""Relative width of a bracket that is narrow enough for lattices of more than so many points not to be worth it."""
LONG, FAIR, WORTH, AGAIN = 2**16, 1e-2, 0.5, 0.85
"""From so many points, and such a relative width on, what share of its promise a finer lattice must keep; what is no
finer one."""
LARGE = 2**24
"""Largest count that one transform composes."""
LOUD, LOUD_SHARE = 500.0, 10.0
"""An ε above the first may be this much wider."""
SAFETY, POOR, NO_STEP = 2.0, 0.1, (0.0, math.inf)
"""Where one side alone is refined: of the distance that is left, how far off a guess may be, and no step so far."""
Parts = Sequence[tuple[OneStep, int]]


def epsilon_bracket(parts: Parts, *, delta: float, tolerance: float = 1e-3) -> tuple[float, float]:
    """(lower, upper) with lower <= ε(δ) <= upper for the composition of ``parts``.

    ``parts`` are one-step curves with their counts; ``delta`` in [0, 1]; ``tolerance`` is relative to ε with
    an absolute floor of a thousandth of it. The lower side is 0 where no part has an attained pair.
    """
    return _both(parts, Target(delta=delta), tolerance)


def delta_bracket(parts: Parts, *, epsilon: float, tolerance: float = 1e-3) -> tuple[float, float]:
    """(lower, upper) with lower <= δ(ε) <= upper; ``tolerance`` is relative to δ."""
    return _both(parts, Target(epsilon=epsilon), tolerance)


def _both(parts: Parts, target: Target, tolerance: float) -> tuple[float, float]:
    forward = _direction(parts, "forward")
    backward = _direction(parts, "backward")
    lower, upper = _bracket(*forward, target, tolerance)
    if backward == forward:
        return lower, upper
    if backward[0] == forward[0]:
        return max(lower, _lower_only(backward[1], target, tolerance)), upper
    other_lower, other_upper = _bracket(*backward, target, tolerance, enough=lower)
    return max(lower, other_lower), max(upper, other_upper)


def _direction(parts: Parts, name: str) -> tuple[CurveParts, CurveParts]:
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
    if any(curve.infinity >= 1.0 for curve, _ in parts):
        return 1.0
    return -math.expm1(math.fsum(count * math.log1p(-curve.infinity) for curve, count in parts))


def _bracket(
    upper: CurveParts, lower: CurveParts, target: Target, tolerance: float, *, enough: float = 0.0
) -> tuple[float, float]:
    """Both sides of one direction; an upper side at or below ``enough`` need not be sharper."""
    if enough > 0.0 and target.delta is not None and chernoff(upper, delta=target.delta) <= enough:
        return 0.0, enough
    found = _inverted(upper, target) if upper == lower else None
    if found is not None and _narrow(found, target, tolerance):
        return found
    if upper != lower or max((count for _, count in upper), default=0) > LARGE:
        above = _upper_only(_split(upper, "upper"), target, 0.5 * tolerance, enough)
        return _lower_only(lower, target, tolerance), above
    below, above = _refine(upper, target, tolerance, enough)
    return (below, above) if found is None else (max(below, found[0]), min(above, found[1]))


def _lower_only(lower: CurveParts, target: Target, tolerance: float) -> float:
    """A lower side that the upper one is far from, whatever is computed: as sharp as a lattice is at little cost."""
    tolerance = max(tolerance, APART)
    found = _refine(_split(lower, "lower"), target, 0.5 * tolerance, 0.0)
    if found[1] - found[0] <= _goal(found, target, tolerance):
        return found[0]
    sharper = _inverted(lower, target)
    return found[0] if sharper is None else max(found[0], sharper[0])


def _inverted(parts: CurveParts, target: Target) -> tuple[float, float] | None:
    """Both sides by the contour integral, where it applies; None for one use."""
    if sum(count for _, count in parts) <= 1 or _trivial(parts, target) is not None or (target.epsilon or 0.0) < 0.0:
        return None
    found = _contour(parts, target)
    if found is None:
        return None
    return found.delta(target.epsilon) if target.epsilon is not None else found.epsilon(target.delta or 0.0)


def _narrow(bracket: tuple[float, float], target: Target, tolerance: float) -> bool:
    """Whether a lattice would say no more; rounding, not the grid, is what keeps a contour integral this wide."""
    return bracket[1] - bracket[0] <= max(1.0, ROUNDED / tolerance) * target.goal(bracket, tolerance)


@lru_cache(maxsize=64)
def _contour(parts: CurveParts, target: Target) -> Contour | None:
    return contour(parts, delta=target.delta, epsilon=target.epsilon)


def _split(parts: CurveParts, side: Side) -> CurveParts:
    """Counts beyond ``LARGE`` in two levels: a grid fine enough for one use has too many points for all.

    √count uses are composed first; their law, far wider, is composed √count times.
    """
    result: list[tuple[Curve, int]] = []
    for curve, count in parts:
        if count <= LARGE:
            result.append((curve, count))
            continue
        inner = math.isqrt(count)
        result.append((composed_curve(((curve, inner),), side=side), count // inner))
        if count % inner:
            result.append((curve, count % inner))
    return tuple(result)


@lru_cache(maxsize=256)
def _refine(parts: CurveParts, target: Target, tolerance: float, enough: float) -> tuple[float, float]:
    """Both sides of one direction, one set of curves."""
    found = _at_once(parts, target, tolerance, enough)
    if found is not None:
        return found
    limit = _limit(parts, target)
    best = 0.0, limit
    problem = Problem.of(parts, target)
    if any(max(-bottom, top) > HUGE for bottom, top in problem.reaches):
        return best
    step, outside, before = problem.first_step(), math.inf, NO_STEP
    for _ in range(ROUNDS):
        sides = problem.solve(step, enough=enough)
        best = max(best[0], sides.lower), min(best[1], sides.upper)
        width, goal = best[1] - best[0], _goal(best, target, tolerance)
        if width <= goal or best[1] <= enough or _in_vain(problem, before, step, width, best[1]):
            break
        before = step, width
        # A poor guess is improved together with the grid: a coarse upper side is no good guide.
        moved = problem.moved(best) if best[1] < limit else problem
        if moved is not problem:
            problem, step = moved, max(aligned(parts, 0.5 * min(step, moved.first_step())), moved.least_step())
            before = NO_STEP
            continue
        relative = goal / max(best[1], 1e-300) if target.epsilon is not None else goal
        # Where widening does not help, the side that is charged is too coarse to say anything.
        if problem.wants_room(sides.outside, relative) and sides.outside < 0.5 * outside:
            problem, outside = problem.widened(), sides.outside
            step, before = max(step, problem.least_step()), NO_STEP
            continue
        outside = math.inf
        finer = _finer(problem, step, width, goal, target.goal(best, NARROW))
        if finer > AGAIN * step:
            break
        step = finer
    return best


@lru_cache(maxsize=256)
def _upper_only(parts: CurveParts, target: Target, tolerance: float, enough: float) -> float:
    """The upper side of ε of curves that no data set reaches: what their grids say from below is of no use.

    How far it is from the curves' own is judged by how far it fell when the step was last refined, like its square.
    """
    found = _at_once(parts, target, min(tolerance, CHEAP), enough)
    if found is not None:
        return found[1]
    problem = None if target.delta is None else Problem.of(parts, target)
    if problem is None or any(max(-bottom, top) > HUGE for bottom, top in problem.reaches):
        return _refine(parts, target, tolerance, enough)[1]
    best = limit = _limit(parts, target)
    step, before, outside = problem.first_step(), NO_STEP, math.inf
    for _ in range(ROUNDS):
        tail = problem.tail("upper", step)
        above = tail.epsilon(target.delta or 0.0)
        best = min(best, above)
        if best <= enough:
            break
        far = best < limit and abs(best - problem.saddle.epsilon) > POOR * best
        moved = problem.moved((0.0, best)) if far else problem
        if moved is not problem:
            problem, step = moved, max(aligned(parts, 0.5 * min(step, moved.first_step())), moved.least_step())
            before = NO_STEP
            continue
        goal = _goal((best, best), target, tolerance)
        share = tail.outside_share(above) if math.isfinite(above) else 0.0
        if problem.wants_room(share, goal) and share < 0.5 * outside:
            problem, outside = problem.widened(), share
            step = max(step, problem.least_step())
            continue
        outside = math.inf
        coarser, higher = before
        if coarser > step and math.isfinite(above):
            width = SAFETY * abs(higher - above) / ((coarser / step) ** 2 - 1.0)
            if width <= goal:
                break
            finer = _finer(problem, step, width, goal, target.goal((best, best), NARROW))
        else:
            finer = max(aligned(parts, 0.5 * step), problem.least_step())
        if finer > AGAIN * step:
            break
        before, step = (step, above) if math.isfinite(above) else NO_STEP, finer
    return best


def _at_once(parts: CurveParts, target: Target, tolerance: float, enough: float) -> tuple[float, float] | None:
    """Both sides where no composition is needed, or none can be had."""
    known = _trivial(parts, target)
    if known is not None:
        return _widened(known)
    if len(parts) == 1 and parts[0][1] == 1:
        return _single(parts[0][0], target)
    found = two_uses(
        parts,
        delta=target.delta,
        epsilon=target.epsilon,
        tolerance=tolerance,
        enough=enough,
    )
    if found is not None:
        return found[0], min(found[1], _limit(parts, target))
    if any(curve.low < -HUGE or HUGE < curve.high < math.inf for curve, _ in parts if math.isfinite(curve.low)):
        return 0.0, _limit(parts, target)
    return None


def _limit(parts: CurveParts, target: Target) -> float:
    """No ε beyond the largest loss is needed, unless there is mass at +inf."""
    if target.delta is None:
        return 1.0
    highest = math.fsum(count * max(curve.high, 0.0) for curve, count in parts) * (1.0 + 1e-14)
    return highest if _infinity(parts) == 0.0 else math.inf


def _goal(bracket: tuple[float, float], target: Target, tolerance: float) -> float:
    """How wide a bracket may be; an ε that is of no use to anyone need not be as sharp."""
    if target.delta is not None and bracket[0] > LOUD:
        tolerance *= LOUD_SHARE
    return target.goal(bracket, tolerance)


def _in_vain(problem: Problem, before: tuple[float, float], step: float, width: float, most: float) -> bool:
    """Whether a long lattice made a bracket much less narrow than it promised: rounding or far atoms keep it wide."""
    coarser, wider = before
    if coarser <= step or width > FAIR * most or problem.least_step(LONG) < step:
        return False
    return wider - width < WORTH * wider * (1.0 - (step / coarser) ** 2)


def _finer(problem: Problem, step: float, width: float, goal: float, narrow: float) -> float:
    """The next step: the width falls like its square once it resolves the losses; long lattices make it ``narrow``."""

    def towards(wanted: float, points: int) -> float:
        ratio = math.sqrt(0.7 * wanted / width) if math.isfinite(width) else 0.25
        ratio *= 0.85 if ratio < 0.125 else 1.0
        return max(aligned(problem.parts, step * min(max(ratio, 0.03), 0.8)), problem.least_step(points))

    finer = towards(goal, FINE_POINTS)
    return finer if width <= narrow else min(finer, towards(max(goal, narrow), MAX_POINTS))


def _total_variation(parts: CurveParts) -> float:
    """At least δ(0) of the composition, 1 − Π (1 − δ_j(0)).

    δ(0) is the distance in total variation. Pairs that are coupled each as well as they can be agree in all uses with
    probability Π (1 − δ_j(0)). So what runs on a sample of rate q has a δ(0) of q at most, n uses of 1 − (1 − q)^n.
    """
    each = [(curve.delta(0.0)[1], count) for curve, count in parts]
    if any(delta >= 1.0 for delta, _ in each):
        return 1.0
    return -math.expm1(math.fsum(count * math.log1p(-delta) for delta, count in each)) * (1.0 + 2e-15)


def _widened(value: float) -> tuple[float, float]:
    if value == 0.0 or math.isinf(value):
        return value, value
    return value * (1.0 - 1e-14), value * (1.0 + 1e-14)


def _single(curve: Curve, target: Target) -> tuple[float, float]:
    """One use: the closed form, inverted."""
    if target.epsilon is not None:
        return curve.delta(target.epsilon)
    delta = target.delta or 0.0
    if delta < curve.infinity:
        return math.inf, math.inf
    lower, upper = inverse(curve.delta, delta, furthest=min(curve.high, FURTHEST))
    return lower, min(upper, max(curve.high, 0.0))


def composed_losses(
    parts: Parts,
    *,
    direction: Literal["forward", "backward"],
    side: Side,
    log_nothing: float = -80.0,
    step: float | None = None,
) -> Law:
    """The composed law of the loss itself, for use as an outermost expectation (docs/theory/exponential.md).

    Upper: P-masses on a grid whose tails, with the mass at +inf, are at least the true ones; lower:
    at most, over the parts that have an attained pair. ``log_nothing`` is ln of the mass that may
    be truncated: take at most ln δ − 15. ``step`` defaults to 1/32768 of the range.
    """
    upper, lower = _direction(parts, direction)
    chosen = upper if side == "upper" else lower
    if not chosen:
        return Law(np.zeros(1), np.ones(1), 0.0)
    if _infinity(chosen) >= 1.0:
        return Law(np.zeros(1), np.zeros(1), 1.0)
    return composed_law(chosen, side=side, log_nothing=log_nothing, step=step)
