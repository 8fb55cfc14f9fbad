"""Which method a branch gets."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import cycle
from typing import Literal, NamedTuple

import numpy as np

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Approximate, Laplace, Pure
from affidavit.accountant.verifier.adaptive import (
    AdaptiveCurve,
    Side,
    adaptive_curve,
    cost_in_seconds,
    lattice_points,
    spacing,
)
from affidavit.accountant.verifier.balls import ball, precision
from affidavit.accountant.verifier.blocks import BLOCK, exponential_blocks
from affidavit.accountant.verifier.blocks import CELLS as CELLS_IN_BLOCK
from affidavit.accountant.verifier.branches import Branch, Fixed, Sampled, Steps, Use, by_range, rho_of
from affidavit.accountant.verifier.ceiling import most_taken
from affidavit.accountant.verifier.exponential_samples import exponential_samples
from affidavit.accountant.verifier.exponential_use import LEAST_RANGE, Lines
from affidavit.accountant.verifier.failure import failure, is_unbounded
from affidavit.accountant.verifier.finite_losses import losses_of, most_atoms
from affidavit.accountant.verifier.front import Front, Kept
from affidavit.accountant.verifier.gaussian_samples import gaussian_samples
from affidavit.accountant.verifier.lattice_profiles import sampled_profile
from affidavit.accountant.verifier.memoryless import MOST_USES, memoryless_profile
from affidavit.accountant.verifier.mixture import LossMasses, MixtureProfile, begun, gaussian_masses, two_point_masses
from affidavit.accountant.verifier.product import ProductProfile, two_point_product
from affidavit.accountant.verifier.profile import (
    LOUD,
    TAIL,
    Beside,
    Best,
    Blatant,
    Goal,
    OneSide,
    Profile,
    Untaken,
    worst,
)
from affidavit.accountant.verifier.sampled import fronts
from affidavit.accountant.verifier.single import one_exponential
from affidavit.accountant.verifier.staged import MOST_USES as MOST_STAGED
from affidavit.accountant.verifier.staged import best_share, staged_curve
from affidavit.accountant.verifier.zcdp import zcdp_curve, zcdp_top

__all__ = ["profile_of"]

BITS = 256
CELLS = (96, 80, 64, 56, 48, 40, 32, 28, 24, 20, 16, 12, 8, 6)
ENOUGH, LOUD_ENOUGH, FINER = 40, 16, 2.5
"""Cells to a range for a relative width of about 5e-4 to 8e-4 (it falls with their square), for less than 1e-2, where
all of it costs more than ``LOUD``; times these for 1e-4."""
QUICK, AFFORDABLE = 0.5, 2.0
"""Seconds: more than ``ENOUGH`` cells if they fit the first, up to ``ENOUGH`` if they fit the second."""
FAR = 1_000
"""An ε of so many times what exponential steps lose is far beyond their lattice."""
WEAK = 1e-4
"""Share of the cost that exponential mechanisms have, below which pure ones in their place cost hardly more."""
LARGEST_RANGE = 690
"""Larger ranges leave float64: such a mechanism counts as pure."""
SECONDS_PER_TAIL = 3e-5
"""Of what runs after all steps, at one lattice point."""
FRONT_WIDTH = 4e-4
"""Relative bracket width of lattices in front of exponential steps."""
UNRESOLVED = 0.4
"""Of the places that a lattice may have at most."""
START_TERMS, START_BITS, PER_DEVIATION = 200_000, 96, 40
MANY_STEPS, MANY_BESIDE = 250, 600
"""Exponential steps from which on blocks of them are as sharp as the recursion over all of them; the second where
others run between or after them, which blocks have in front."""
SHORTEST_RUN = 100
"""Steps of one range from which on a block of them is nearly as sharp."""
SPARE = 0.9
"""Of δ: what samples may take for the others' cost to be looked at alone."""
LEAST_TILT = 1e-6
NEGLIGIBLE_COST = Fraction(1, 1_000)
"""Of a range's steps, of the sum of squared ranges: a lower side does without them."""


def _two_point(fixed: Fixed) -> list[tuple[Pure | Approximate, int]]:
    return [(use, count) for use, count in fixed.uses if isinstance(use, (Pure, Approximate))]


def _rho(fixed: Fixed, steps: Steps) -> float:
    """About how much zCDP all of it is: sizes lattices, never a bound."""
    exact = fixed.rho + fixed.mu_squared / 2 + rho_of(steps)
    try:
        return float(exact) + sum(count * float(use.epsilon) ** 2 / 2 for use, count in _two_point(fixed))
    except OverflowError:
        return math.inf


def _product(fixed: Fixed, tail: float) -> ProductProfile:
    with precision(BITS):
        mu = ball(fixed.mu_squared).sqrt() if fixed.mu_squared else None
        atoms = two_point_product(_two_point(fixed), budget=tail)
    method = "Gaussian closed form" + ("" if atoms.trivial else " x two-point product")
    return ProductProfile(mu, atoms, method if mu is not None else "optimal composition (two-point product)", BITS)


def _on_lattice(fixed: Fixed) -> bool:
    """Whether there is no exact product."""
    most = most_atoms(gaussian=fixed.mu_squared > 0, lattice=False)
    return len(_two_point(fixed)) < len(fixed.uses) or losses_of(_two_point(fixed)) > most


@lru_cache(maxsize=4)
def _masses(fixed: Fixed, tail: float, keep: Kept = "both") -> tuple[LossMasses | None, ...]:
    """The loss distribution of fixed pairs, in each direction where the two differ."""
    if fixed.empty:
        return (None,)
    if _on_lattice(fixed):
        forward, backward = fronts(fixed, negligible=tail)
        found = (forward, backward) if forward.directed else (forward,)
        closed = [front.closed_form() for front in found]
        return tuple(
            front.masses(_front_spacing(front), keep=keep) if form is None else _times_gaussian(form, tail)
            for front, form in zip(found, closed, strict=True)
        )
    return (_times_gaussian(_product(fixed, tail), tail),)


def _front_spacing(front: Front) -> float:
    """Where even the finest lattice would not tell apart what a rare sample takes, one that does not try to."""
    step = front.spacing(FRONT_WIDTH)
    return front.spacing(FRONT_WIDTH / 8, resolve=False) if front.tails(step) > UNRESOLVED else step


def _times_gaussian(product: ProductProfile, tail: float) -> LossMasses:
    points = two_point_masses(product.atoms)
    return points if product.mu is None else gaussian_masses(product.mu, budget=tail).times(points)


def _lattice(branch: Branch, tail: float) -> Fraction | None:
    """The finest affordable spacing, or None. The less of the cost the steps are, the fewer cells are enough."""
    steps, after = branch.steps, branch.between.plus(branch.last)
    top = zcdp_top(_rho(Fixed(), steps), tail)
    end = 0.0 if after.empty or _on_lattice(after) else zcdp_top(_rho(after, steps), tail)
    whole = _rho(branch.fixed, steps)
    most = LOUD_ENOUGH if zcdp_top(whole, 0.5) > 2.0 * LOUD else ENOUGH
    enough = most * math.sqrt(_rho(Fixed(), steps) / whole) if 0.0 < whole < math.inf else most
    for cells in CELLS:
        if cells > FINER * enough and cells > CELLS[-1]:
            continue
        step = spacing(steps, cells)
        seconds = cost_in_seconds(steps, step, max(top, end)) + SECONDS_PER_TAIL * end / float(step)
        if seconds <= (QUICK if cells > enough else AFFORDABLE):
            return step
    return None


def _start(last: Fixed, steps: Steps, step: Fraction, top: float, tail: float) -> Side | None:
    """The recursion's start: ``last``, after all steps; None if it is empty, costs too much, or is not symmetric."""
    if last.empty or _on_lattice(last):
        return None
    product = _product(last, tail)
    every = 1
    if product.mu is not None:  # nothing in it is narrower
        every = max(1, math.floor(float(product.mu) / PER_DEVIATION / float(step)))
    points = math.ceil(lattice_points(steps, step, top) / every) + 1
    if product.mu is not None and points * len(product.atoms.losses) > START_TERMS:
        return None
    bits = min(BITS, START_BITS - math.floor(math.log2(tail)))
    inside, weight, upper = begun(product, every * step, points, bits)
    side = Side(np.minimum.accumulate(np.clip(upper, 0.0, 1.0)), Lines(inside, weight))
    return side if every == 1 else AdaptiveCurve(float(every * step), *side).on(step, every * (points - 1) + 1)


def _ended(steps: Steps, step: Fraction, last: Fixed, tail: float) -> tuple[AdaptiveCurve, bool]:
    """The curve of all steps followed by ``last``, and whether ``last`` is really in it."""
    whole = float(sum(count * spread for spread, count in steps))
    if not last.empty:
        top = zcdp_top(_rho(last, steps), tail)
        start = _start(last, steps, step, top, tail) if cost_in_seconds(steps, step, top) <= 2 * AFFORDABLE else None
        if start is not None:
            return adaptive_curve(steps, step, top, negligible=tail, start=start), True
    top = min(whole, zcdp_top(_rho(Fixed(), steps), tail))
    return adaptive_curve(steps, step, top, negligible=tail), last.empty


def _adaptive(branch: Branch, goal: Goal) -> Profile | None:
    """Exponential steps between fixed pairs; None when no lattice is affordable."""
    steps = branch.steps
    tail = goal.tail(_rho(branch.fixed, steps))
    step = _lattice(branch, tail)
    if step is None:
        return None
    apart = not branch.between.empty or (branch.interleaved and not branch.last.empty)
    below = _in_the_end(branch, step, tail) if apart and goal.keep != "upper" else None
    above = _in_front(branch, step, tail) if goal.keep != "lower" or below is None else below
    if below is None:
        below = above if above.exact or goal.keep == "upper" else _in_the_end(branch, step, tail)
    method = f"exact adaptive composition of exponential mechanisms{'' if branch.fixed.empty else ' with fixed pairs'}"
    pairs = zip(above.masses, cycle(below.masses), strict=False)
    found = worst([MixtureProfile(above.curve, one, below.curve, other, method) for one, other in pairs])
    if goal.keep != "both":
        found = OneSide(found, goal.keep)
    if goal.keep == "upper" or not _on_lattice(branch.between.plus(branch.last)):
        return found
    # Pairs that are not symmetric cannot start the recursion; a strategy without memory can wait for them.
    below_it = profile_of(_pure_steps(branch, 2), replace(goal, keep="lower"))
    return Best((found, OneSide(below_it, "lower")))


class _Ordered(NamedTuple):
    """The curve of the steps and what runs after them, the losses of what runs before; ``exact``: nothing was moved."""

    curve: AdaptiveCurve
    masses: tuple[LossMasses | None, ...]
    exact: bool


def _in_front(branch: Branch, step: Fraction, tail: float) -> _Ordered:
    """An upper side: what runs between the steps is moved before them."""
    curve, ended = _ended(branch.steps, step, Fixed() if branch.interleaved else branch.last, tail)
    front = branch.first.plus(branch.between)
    return _Ordered(curve, _masses(front if ended and not branch.interleaved else branch.fixed, tail), ended)


def _in_the_end(branch: Branch, step: Fraction, tail: float) -> _Ordered:
    """A lower side: what runs between the steps is moved after them, as far as its pairs are symmetric."""
    after = branch.between.plus(branch.last)
    curve, _ = _ended(branch.steps, step, replace(after, uses=tuple(_two_point(after))), tail)
    return _Ordered(curve, _masses(branch.first, tail), exact=False)


def zcdp_profile(branch: Branch, goal: Goal) -> Profile:
    """Upper side from zCDP of the leaves and steps; fixed pairs in front."""
    rho = branch.fixed.rho + rho_of(branch.steps)
    rest = replace(branch.fixed, rho=Fraction(0))
    tail = goal.tail(_rho(rest, ()) + float(rho))
    top = max(zcdp_top(float(rho), tail), float(goal.epsilon or 0.0))
    curve = zcdp_curve(rho, top)
    sides = [MixtureProfile(curve, masses, curve, None, "zCDP conversion") for masses in _masses(rest, tail, "upper")]
    return OneSide(worst(sides), "upper")


def _pure_steps(branch: Branch, share: int) -> Branch:
    """The steps replaced by pure mechanisms of ε = range/share."""
    uses: Counter[Use] = Counter()
    for spread, count in branch.steps:
        # Rounded to the safe side of each use: outwards for share 1 (upper), inwards for 2 (lower).
        epsilon = float(spread / share)
        if share == 1 and Fraction(epsilon) < spread:
            epsilon = math.nextafter(epsilon, math.inf)
        if share == 2 and Fraction(epsilon) * 2 > spread:
            epsilon = math.nextafter(epsilon, 0.0)
        uses[Pure(epsilon)] += count
    return Branch(first=branch.fixed.plus(Fixed(uses=tuple(sorted(uses.items(), key=repr)))))


def _in_blocks(branch: Branch, goal: Goal) -> Profile:
    """Very many steps: blocks of them above, everything else in front; below a strategy without memory."""
    tail = goal.tail(rho := _rho(branch.fixed, branch.steps))
    tilt = max(LEAST_TILT, math.sqrt(max(1.0, -math.log(tail / TAIL)) / rho))
    curve = exponential_blocks(branch.steps, tail, tilt)
    method = "blocks of exponential mechanisms, each by its largest curve"
    after = branch.between.plus(branch.last)
    below = _staged(branch.steps, replace(after, uses=tuple(_two_point(after))), tail, tilt)
    if below is not None:
        first, masses = _masses(branch.first, tail), _masses(branch.fixed, tail)
        pairs = zip(masses, cycle(first), strict=False)
        return worst([MixtureProfile(curve, one, below, other, method) for one, other in pairs])
    masses = _masses(branch.fixed, tail, "upper")
    above = worst([MixtureProfile(curve, one, curve, None, method) for one in masses])
    sides: list[Profile] = [OneSide(above, "upper")]
    without = _memoryless(branch, goal, tail, tilt) if goal.keep != "upper" else None
    if without is not None:
        sides.append(OneSide(without, "lower"))
    elif branch.fixed.empty:  # so many steps that zCDP may be sharper
        sides.append(zcdp_profile(branch, goal))
    return Best(tuple(sides))


def _staged(steps: Steps, after: Fixed, tail: float, tilt: float) -> AdaptiveCurve | None:
    """Lower lines of not too many steps of one range and then ``after``; None where they would take long, or its
    pairs cannot start them."""
    (spread, count), *others = by_range(steps).items()
    if others or count > MOST_STAGED:
        return None
    last = ((spread, min(count, BLOCK)),)
    step, top = spacing(last, CELLS_IN_BLOCK), zcdp_top(_rho(after, last), tail)
    if cost_in_seconds(last, step, top) + SECONDS_PER_TAIL * top / float(step) > QUICK:
        return None
    start = _start(after, last, step, top, tail)
    if start is None and not after.empty:
        return None
    curve = adaptive_curve(last, step, top, negligible=tail, start=start)
    if count == last[0][1]:
        return curve
    return staged_curve(spread, count, curve, last[0][1], tilt=tilt, beside=_rho(after, ()))


def _memoryless(branch: Branch, goal: Goal, tail: float, tilt: float) -> Profile | None:
    """The same choice at every step; t = range/2 unless there is nothing but one range. None: too many losses.

    Ranges that are a negligible part of the cost reveal nothing: that is a strategy too, and its lattice is coarser.
    """
    uses = by_range(branch.steps)
    cost = sum(count * spread * spread for spread, count in uses.items())
    steps = tuple(
        (spread, count) for spread, count in uses.items() if count * spread * spread > NEGLIGIBLE_COST * cost
    ) or tuple(uses.items())
    (spread, count), *others = steps
    try:
        if not others and branch.fixed.empty and count <= MOST_USES:
            return memoryless_profile(spread, count, float(spread * best_share(float(spread), tilt)), budget=tail)
        return profile_of(_pure_steps(replace(branch, steps=steps), 2), replace(goal, keep="lower"))
    except NotSupported:
        return None


def _weak(steps: Steps, fixed: Fixed) -> bool:
    """Whether the steps are so little of the cost that it hardly matters what is said of them."""
    losses = [(use.epsilon, n) for use, n in _two_point(fixed)]
    losses += [(1.0 / use.noise_multiplier, n) for use, n in fixed.uses if isinstance(use, Laplace)]
    alone = math.fsum(min(loss, loss * loss / 2) * n for loss, n in losses)
    return _rho(Fixed(), steps) < WEAK * (_rho(replace(fixed, uses=()), ()) + alone)


def profile_of(branch: Branch, goal: Goal) -> Profile:
    """The certified profile of a branch.

    Raises ``NotSupported`` when no certified method covers it.
    """
    if branch.blatant:
        return Blatant()
    rare = _untaken(branch, goal) if goal.keep != "lower" else None
    if rare is None:
        return _composed(branch, goal)
    return rare if goal.delta is not None and rare.rest is None else Best((rare, _composed(branch, goal)))


def _untaken(branch: Branch, goal: Goal) -> Untaken | None:
    """An upper side where samples take the record so rarely that δ forgives it, or where there are samples only."""
    taken = most_taken(branch)
    if taken == 0.0 or (goal.delta is not None and taken > goal.delta):
        return None
    first, between, last = (
        replace(fixed, uses=tuple((use, count) for use, count in fixed.uses if not isinstance(use, Sampled)))
        for fixed in (branch.first, branch.between, branch.last)
    )
    rest = replace(branch, first=first, between=between, last=last)
    if not rest.steps and rest.fixed.empty:
        return Untaken(taken, None)
    if goal.delta is None or taken >= SPARE * goal.delta:
        return None
    return Untaken(taken, profile_of(rest, replace(goal, delta=goal.delta - taken, keep="upper")))


def _composed(branch: Branch, goal: Goal) -> Profile:
    """``profile_of`` by composing all of it."""
    fixed = branch.fixed
    if goal.delta is not None and (failed := failure(fixed)) > 0.0:
        if failed > goal.delta or (failed == goal.delta and is_unbounded(fixed)):
            return Blatant(f"mass above {goal.delta!r} on the largest losses")
        goal = replace(goal, expected=max(goal.delta - failed, 1e-9 * goal.delta))
    if fixed.rho or (fixed.concentrated and not branch.steps):
        above = (
            zcdp_profile(branch, goal)
            if fixed.rho
            else OneSide(sampled_profile(fixed, replace(goal, keep="upper")), "upper")
        )
        if goal.keep == "upper" or goal.met(above):
            return above
        return Best((above, OneSide(profile_of(branch.as_gaussian, replace(goal, keep="lower")), "lower")))
    if len(branch.steps) == 1 and branch.steps[0][1] == 1 and fixed.empty:
        return one_exponential(branch.steps[0][0])
    if branch.steps:
        most = sum(count * spread for spread, count in branch.steps)
        if (goal.epsilon or 0.0) > FAR * max(most, LOUD):
            return Beside(profile_of(Branch(first=fixed), goal), math.nextafter(float(most), math.inf))
        if goal.enough > 0.0 and goal.met(quick := zcdp_profile(branch, goal)):
            return quick
        spreads = [spread for spread, _ in branch.steps]
        if _weak(branch.steps, fixed) or min(spreads) < LEAST_RANGE or max(spreads) > LARGEST_RANGE:
            # Each exponential mechanism of range η is η-DP, and may be randomised response of ε = η/2.
            sides: tuple[tuple[Literal["upper", "lower"], int], ...] = ("upper", 1), ("lower", 2)
            return Best(
                tuple(
                    OneSide(profile_of(_pure_steps(branch, share), replace(goal, keep=side)), side)
                    for side, share in sides
                    if goal.keep in {"both", side}
                )
            )
        ordered = not branch.interleaved or len({spread for spread, _ in branch.steps}) == 1
        uses = by_range(branch.steps)
        many = MANY_STEPS if branch.between.plus(branch.last).empty else MANY_BESIDE
        if ordered and (uses.total() < many or min(uses.values()) < SHORTEST_RUN):
            return _adaptive(branch, goal) or _in_blocks(branch, goal)
        return _in_blocks(branch, goal)
    if samples := gaussian_samples(fixed, goal) or exponential_samples(fixed, goal):
        return samples
    if _on_lattice(fixed):
        return sampled_profile(fixed, goal)
    return _product(fixed, goal.tail(_rho(fixed, ())) * 1e-6)
