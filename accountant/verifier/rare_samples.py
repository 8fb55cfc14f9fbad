r"""Where samples are rare: what big losses cost in closed form, the others by contour integrals.

Of rare samples nearly every use costs nearly nothing. The transform M of ``contour`` then hardly decays, as that
near-atom is as narrow as the rate; and rare, large losses allow no tilt that brings out those that matter. Here every
use is cut into common, middle and big losses (``loss_windows``; M = M_c + M_m + M_b), as a sum of measures. With l >= 0
a use's loss above its least one, S = Σ l and c = ε − Σ log(1−γ) > 0, δ(ε) = E_P (1 − e^{c−S})₊ is the sum of

1. *some use is big*, E. That adds P(E) − e^ε Q(E), in balls, and at most e^ε (1 − e^{−c}) Q(E, S < c) more, because
   P = e^{ε−c+S} Q and S >= 0. With any r >= 0, S < c only where the big loss is below c − r (``log_below``) or all
   others together are below r: their sum is independent of it, and Chernoff's bound of E_Q e^{−θS} keeps that small
   (``short_of``). r = 0 where samples are so rare that the others may well add nothing; where many uses share the
   record, r is nearly all of c, and big is what stands out of their sum.
2. *none is big, not all are common*: Π(M_c + M_m) − ΠM_c, by its integral (``loss_integral``).
3. *all are common*: ΠM_c, by another one with a tilt of its own; or, where the windows are kept so far from c that it
   is nothing, by Chernoff's bound. Where there is no middle, that is all that is not big.
4. *one is beyond where parts were cut*: at most the mass there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from flint import arb

from affidavit.accountant.verifier.added_samples import SPREADS, largest_loss, short_of
from affidavit.accountant.verifier.balls import Array, Ball, ball, down, precision, up
from affidavit.accountant.verifier.bracket import Bracket, Falling, epsilon_bracket
from affidavit.accountant.verifier.loss_cells import Kind
from affidavit.accountant.verifier.loss_integral import Integral, Outline, log_c
from affidavit.accountant.verifier.loss_windows import APART, CUT, Windowed

__all__ = ["RareProfile", "rare_profile"]

FIRST_LOOK, ACCURACY = 1e-3, 1e-10
"""Of δ, relative: what each cut may miss."""
RAMP, HEIGHT = 0.08, 40.0
"""A window's width in log a: this, or less where tilts would lift the end of the middle by more than e to this."""
NEAREST, FURTHEST = -6.0, 45.0
"""Where big windows stand, in σ: below, hardly anything is common; beyond there is no noise."""
LEAST_LOG = -690.0
LIFT = 10.0
"""Of log δ: how far above it Chernoff's bound of what a sum is for may be."""
SHORT = 4e6
"""Work of a sum that is short enough not to look for a middle."""
SPARE = 5.0
"""Of the logarithm of what may be missed: the share of big losses that do not reach far enough with the others."""
PASSES, SHARP, ROUGH = 6, 5e-7, 1e-3
"""Looks at most; relative widths at which they end, and beyond which a lattice may be sharper."""
BESIDE, FAR = 1.01, 0.5
LOWEST, HALVINGS = 30.0, 10
"""How far (in ln a) below the big window the common one may stand, and how well that is searched."""


@dataclass(frozen=True, slots=True)
class RareProfile:
    """The four summands; sharp near one ε."""

    parts: tuple[Windowed, ...]
    integrals: tuple[Integral, ...]
    common: tuple[float, float]  # tilt, and log of Chernoff's constant
    rest: tuple[float, float]  # what the other uses add up to, but for a share of log
    outside: float
    event: tuple[Ball, Ball]
    """P and Q of: some use is big."""

    def delta(self, epsilon: float) -> Bracket:
        """δ at ``epsilon`` >= 0."""
        shift = epsilon + largest_loss([part.kind for part in self.parts])
        with precision():
            linear = self.event[0] - ball(epsilon).exp() * self.event[1]
            low, high = down(linear), up(linear)
        enough, log_short = shift - self.rest[0], self.rest[1]
        alone = math.log(math.expm1(enough)) if 0.0 < enough < 600.0 else -math.inf if enough <= 0.0 else math.inf
        log_missing = -math.inf
        for part in self.parts:
            at = part.kind.place(alone) if math.isfinite(alone) else alone
            below = part.log_below(at + 1e-12 * (1.0 + abs(at))) if at > -math.inf else -math.inf
            missing = np.logaddexp(below, part.log_below(math.inf) + log_short)
            log_missing = float(np.logaddexp(log_missing, missing + math.log(part.kind.uses)))
        log_missing += epsilon + math.log(-math.expm1(-shift))
        sums = [integral.delta(shift, 2.0 * shift + epsilon) for integral in self.integrals]
        least, most = math.fsum(side[0] for side in sums), math.fsum(side[1] for side in sums)
        lower = (max(low, 0.0) + least) * (1.0 - 1e-14)
        theta, constant = self.common
        log_common = constant - theta * shift
        if log_missing > 0.0 or log_common > 0.0:
            return Bracket(lower, 1.0)
        more = (math.exp(log_common) + math.exp(log_missing)) * (1.0 + 1e-9) + self.outside
        return Bracket(lower, min(1.0, max(0.0, high + most + more) * (1.0 + 1e-14)))


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what is beyond float64 ends in None
def rare_profile(kinds: Sequence[Kind], *, delta: float | None, epsilon: float | None) -> Falling | None:
    """The profile near ``epsilon``, or near the ε of ``delta``; None where the windows do not stand apart enough."""
    aim, largest = epsilon if epsilon is not None else _guess(kinds, delta or 0.0), largest_loss(kinds)
    log_delta = math.log(delta) if delta else _log_guess(kinds, aim, short_of(kinds, aim + largest, -1.0)[0])
    best: tuple[float, Falling] | None = None
    low, high, last, is_lost = 0.0, math.inf, aim, False
    for turn in range(PASSES):
        accuracy = FIRST_LOOK if turn == 0 else ACCURACY
        found = _near(kinds, aim, log_delta, accuracy) if log_delta > LEAST_LOG else None
        if found is None:
            if turn == 0 or epsilon is not None or is_lost:
                break
            aim, is_lost = math.sqrt(aim * last), True  # too far from where it was
            continue
        last = aim
        if epsilon is not None or delta is None:
            sides = found.delta(aim)
            log_delta = math.log(max(sides.upper, 1e-300))
        else:
            sides = epsilon_bracket(found, delta, start=aim)
            low, high = max(low, sides.lower), min(high, sides.upper)
            if low == 0.0 and high == math.inf:
                break
        width = (sides.upper - sides.lower) / max(sides.upper, 1e-300) if sides.upper < math.inf else math.inf
        if math.isfinite(width) and (best is None or width < 0.5 * best[0]):
            best = (width, Falling.of(found, sides.upper if epsilon is None else aim))
        elif best is not None and best[0] <= ROUGH:
            break
        if width <= SHARP:
            break
        if epsilon is None and delta:
            aim = _closer(found, aim, delta, low, high)
    return None if best is None or best[0] > ROUGH else best[1]


def _closer(found: Falling, aim: float, delta: float, low: float, high: float) -> float:
    """Where the line through log δ at ``aim``, over log ε, meets ``delta``; else between what is known of ε."""
    here, further = found.delta(aim).upper, found.delta(BESIDE * aim).upper
    if 0.0 < further < here:
        power = math.log(here / delta) * math.log(BESIDE) / math.log(here / further)
        if (guess := aim * math.exp(max(-FAR, min(power, FAR)))) == min(max(guess, low), high):
            return guess
    return 0.5 * (low + high) if high < math.inf else 2.0 * low


def _log_guess(kinds: Sequence[Kind], epsilon: float, rest: float) -> float:
    """About log δ: one loss that is enough with ``rest``, or Chernoff's bound of what is less."""
    enough = epsilon + largest_loss(kinds) - rest
    if not 0.0 < enough < 600.0:
        return 0.0 if enough <= 0.0 else -math.inf
    total, tilts = -math.inf, SPREADS[::2] / enough
    chernoff = log_c(tilts) - tilts * (enough + rest)
    for kind in kinds:
        at = kind.place(math.log(math.expm1(enough)))
        log_p, log_q = kind.log_tails(at)
        gap = min(epsilon + log_q - log_p, -1e-12)
        total = float(np.logaddexp(total, math.log(kind.uses) + log_p + math.log(-math.expm1(gap))))
        chernoff += kind.uses * Windowed.of(kind, alone=min(at, FURTHEST), depth=0.0, ramp=1e-3).common_bound(tilts)
    return float(np.logaddexp(total, chernoff.min()))


def _guess(kinds: Sequence[Kind], delta: float) -> float:
    """The ε at which that is ``delta``."""
    rest = short_of(kinds, largest_loss(kinds), -1.0)[0]
    low, high = math.log(1e-9), math.log(500.0)
    while high - low > 0.02:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _log_guess(kinds, math.exp(middle), rest) > math.log(delta) else (low, middle)
    return math.exp(low)


def _log_expm1(x: float) -> float:
    """ln(e^x − 1), x > 0."""
    return x + math.log(-math.expm1(-x))


def _near(kinds: Sequence[Kind], epsilon: float, log_delta: float, accuracy: float) -> Falling | None:
    shift, log_goal = epsilon + largest_loss(kinds), log_delta + math.log(accuracy)
    if not 0.0 < shift < 600.0:
        return None
    rest = short_of(kinds, shift, math.log(accuracy) - SPARE)
    enough = shift - rest[0]
    tilts = SPREADS / enough
    big = _log_expm1(enough)
    ramp = min(RAMP, (_log_expm1(enough * (1.0 + HEIGHT / (5.0 - log_delta))) - big) / (APART + CUT))
    bigs = [min(kind.place(big), FURTHEST) for kind in kinds]
    if min(bigs) < NEAREST:
        return None

    def windows(depth: float) -> tuple[Windowed, ...]:
        pairs = zip(kinds, bigs, strict=True)
        return tuple(Windowed.of(kind, alone=alone, depth=depth, ramp=ramp) for kind, alone in pairs)

    found = _least_work(windows, shift, tilts, log_delta, log_goal)
    sums = [outline.summed() for outline in found.outlines] if found else []
    if found is None or None in sums:
        return None
    with precision():
        p_none, q_none = arb(0), arb(0)
        for part in found.parts:
            p, q = part.big_masses()
            p_none += part.kind.uses * (-p).log1p()
            q_none += part.kind.uses * (-q).log1p()
        event = -p_none.expm1(), -q_none.expm1()
    cuts = dict.fromkeys((found.parts, *found.summed))
    outside = math.fsum(math.exp(part.log_beyond()) for parts in cuts for part in parts)
    integrals = tuple(one for one in sums if one)
    return Falling.of(RareProfile(found.parts, integrals, found.common, rest, outside, event), epsilon)


class _Cut(NamedTuple):
    """Windows, the sums that they take, and tilt and Chernoff constant of what is in none."""

    parts: tuple[Windowed, ...]
    summed: tuple[tuple[Windowed, ...], ...]
    outlines: tuple[Outline, ...]
    common: tuple[float, float]

    @property
    def work(self) -> float:
        return sum(outline.work for outline in self.outlines)


def _least_work(
    windows: Callable[[float], tuple[Windowed, ...]], shift: float, tilts: Array, log_delta: float, log_goal: float
) -> _Cut | None:
    """No middle, a middle and a sum for what is common, or a middle alone."""
    found: list[_Cut] = []
    for goal in (log_delta + LIFT, log_goal):
        apart = _apart(windows, shift, tilts, goal)
        if apart is None:
            continue
        parts, common = apart
        summed = [] if parts[0].is_whole else [parts]
        if goal > log_goal:
            summed.append(tuple(part.below for part in parts))
            common = (0.0, -math.inf)
        outlines = [Outline.of(one, shift, tilts, log_goal) for one in summed]
        if None not in outlines:
            found.append(_Cut(parts, tuple(summed), tuple(one for one in outlines if one), common))
            if found[0].work <= SHORT * len(parts):
                return found[0]
    return min(found, key=lambda cut: cut.work, default=None)


def _apart(
    windows: Callable[[float], tuple[Windowed, ...]], shift: float, tilts: Array, log_goal: float
) -> tuple[tuple[Windowed, ...], tuple[float, float]] | None:
    """The common windows as far out as keeps what they hold from mattering; its tilt and Chernoff constant."""

    def at(depth: float) -> tuple[tuple[Windowed, ...], tuple[float, float], float]:
        parts = windows(depth)
        logs = log_c(tilts) + sum(part.kind.uses * part.common_bound(tilts) for part in parts)
        best = int(np.argmin(logs - tilts * shift))
        constant = float(logs[best]) + 1e-12
        return parts, (float(tilts[best]), constant), constant - float(tilts[best]) * shift

    low, high = 0.1, LOWEST + shift
    if (found := at(0.0))[2] <= log_goal:
        return found[:2]
    found = at(high)
    if found[2] > log_goal:
        return None
    for _ in range(HALVINGS):
        depth = math.sqrt(low * high)
        if (here := at(depth))[2] <= log_goal:
            high, found = depth, here
        else:
            low = depth
    return found[:2]
