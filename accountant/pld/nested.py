r"""A composition as a law over its whole range, not only near one target.

Two uses: a sample reused for several steps is composed first and amplified once, which needs the
composed profile at every loss; and a composition of parts with a dominating pair may be the
outermost expectation around an adaptive recursion (docs/theory/exponential.md).

The convolution is done under several tilts, each accurate around its own mean. At each loss the
upper side takes the least of the masses (r + E) e^{K − θ l}, the lower side the greatest of
(r − E − F) e^{K − θ l}, E the transform's error and F a bound on the mass folded in from outside the
window. Mass above the window goes to +inf (upper) or is dropped (lower).

Pure and approximate mechanisms have two losses each, so a few of them are multiplied out instead (``atomic``): exact
from both sides, whatever the size of their losses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from affidavit.accountant.pld.atomic import Atomic, product
from affidavit.accountant.pld.compose import window
from affidavit.accountant.pld.concentrated import Concentrated
from affidavit.accountant.pld.curve import Array, Curve, Direction, FullLoss, NoLoss, OneStep, ever
from affidavit.accountant.pld.discretise import LEAST, Side
from affidavit.accountant.pld.grid import CurveParts, aligned, lattice, masses, merged
from affidavit.accountant.pld.saddle import Sketch, cumulants, sketch
from affidavit.accountant.pld.transform import beyond_mass, convolve, log_moments, loss_shift
from affidavit.accountant.rounding import STATED

__all__ = ["LOG_NOTHING", "Law", "composed_curve", "composed_law", "composed_step"]

POINTS = 2**15
LOWER_POINTS = 2**13
"""A lower side on a sample is hardly less for so few."""
FINER = 4.0
"""How much finer than that a grid may be, to resolve one use."""
LOG_NOTHING = -240.0
"""ln of the mass beyond which a nested composition is truncated, where no δ says better; ``POINTS`` are for that."""
SPACING, ROOM = 5.0, 6.0
"""Standard deviations between the means of neighbouring tilts; beyond the window of a lower side."""
FINEST = 2.0**-40
"""A grid's step, at least, beside the largest loss: finer ones have points that float64 cannot tell apart."""
MAX_TILTS = 1000
"""Tilts tried before the choice."""


class Law(NamedTuple):
    """Ascending finite losses, their P-masses, and P's mass at +inf."""

    losses: Array
    masses: Array
    infinity: float


@lru_cache(maxsize=32)
def composed_step(parts: tuple[tuple[OneStep, int], ...], log_nothing: float = LOG_NOTHING) -> OneStep:
    """``parts``, run one after another on the same data, as one step."""
    forward = _direction([(step.forward, count) for step, count in parts], log_nothing)
    if all(step.symmetric for step, _ in parts):
        return OneStep(forward, forward)
    return OneStep(forward, _direction([(step.backward, count) for step, count in parts], log_nothing))


def _direction(parts: Sequence[tuple[Direction, int]], log_nothing: float) -> Direction:
    def composed(curves: CurveParts, side: Side) -> Curve:
        once = len(curves) == 1 and curves[0][1] == 1
        return curves[0][0] if once else composed_curve(curves, side=side, log_nothing=log_nothing)

    upper = merged([(direction.upper, count) for direction, count in parts])
    lower = merged([(direction.lower, count) for direction, count in parts if direction.lower is not None])
    if any(isinstance(curve, Concentrated) for curve, _ in upper) or not lower:
        # What is reached is asked with other leaves in the place of zcdp ones (``methods.zcdp.stand_in``).
        return Direction(composed(upper, "upper"), None)
    return Direction(composed(upper, "upper"), composed(lower, "lower"))


_exact = lru_cache(maxsize=16)(product)
"""One object, where it is asked from both sides."""


@lru_cache(maxsize=16)
def composed_curve(parts: CurveParts, *, side: Side, log_nothing: float = LOG_NOTHING, ordered: bool = False) -> Curve:
    """The composition of ``parts`` as a curve, from one side; ``ordered`` as in ``composed_law``."""
    if any(curve.infinity >= 1.0 for curve, _ in parts):
        return FullLoss()
    exact = _exact(parts)
    if exact is not None:
        return exact
    law = composed_law(parts, side=side, log_nothing=log_nothing, ordered=ordered)
    kept = law.masses > 0.0
    if not kept.any():
        # Only a lower side can be left with nothing.
        return NoLoss()
    curve = Atomic(law.losses[kept], np.log(law.masses[kept]), infinity=law.infinity, atoms=())
    # Q's mass at −inf is certain where the parts' is; the rest of what Q lacks is truncation.
    curve.bottom = ever((part.bottom, count) for part, count in parts) * (1.0 - STATED)
    return curve


def composed_law(parts: CurveParts, *, side: Side, log_nothing: float, ordered: bool = True) -> Law:
    """The composed loss of ``parts``, dominating (upper) or dominated (lower).

    ``log_nothing`` is ln of the mass that may be truncated at either end, of P where the law is asked in this order
    alone (``ordered``), else of Q too. About ``POINTS`` points cover the range, without an order the one of
    ``LOG_NOTHING``: a sample may magnify what is far out.
    Upper: P-masses on the grid whose tail sums, with ``infinity``, are at least the true ones; lower: at most.
    """
    upper = side == "upper"
    sketches = [(sketch(curve), count) for curve, count in parts]
    cut, reaches, (bottom, top, exponents), span = _cut(parts, sketches, log_nothing, ordered=ordered)
    if not ordered:
        span = max(span, _cut(parts, sketches, LOG_NOTHING, ordered=False)[-1])
    step = span / (POINTS if upper or ordered else LOWER_POINTS)
    # Many uses of small losses: the grid must resolve one use, as far as the size allows.
    deviation = math.sqrt(float(cumulants(cut, np.zeros(1))[2][0]) / sum(count for _, count in cut))
    step = max(min(step, 0.1 * deviation), step / FINER)
    widest = max((gap for curve, _ in parts if (gap := lattice(curve)) > step), default=0.0)
    step = widest if widest > 0.0 and len(parts) == 1 and parts[0][0].polygon else aligned(parts, step)
    discretised = masses(parts, reaches, side=side, step=step)
    thetas = _tilts(cut, bottom, top)
    room = 0.0
    if not upper:  # what is folded in from outside, under the last tilts, is charged everywhere
        room = ROOM * math.sqrt(float(cumulants(cut, np.array([thetas[0], thetas[-1]]))[2].max()))
    around = window(discretised, bottom=bottom - room, top=top + room, limit=32 * POINTS)
    losses = around.losses
    ends = (False, around.below, float(losses[0])), (True, around.above, around.end)
    best = np.full(losses.size, math.inf if upper else 0.0)
    exponents = [*exponents, *thetas]
    moments = log_moments(discretised, exponents)
    for theta in thetas:
        composed = convolve(discretised, theta, around.size)
        if composed.relative > 1.0:  # losses so large that nothing is left of their digits
            continue
        tilted = around.unfolded(composed.tilted)
        untilt = np.exp(np.minimum(composed.log_moment - theta * losses, 700.0))
        if upper:
            mass = (np.maximum(tilted, 0.0) + composed.error) * untilt * math.exp(composed.relative)
            best = np.minimum(best, np.maximum(mass, LEAST))
        else:
            folded = sum(
                beyond_mass(exponents, moments, end, above=above, theta=theta, log_moment=composed.log_moment)
                for above, outside, end in ends
                if outside
            )
            mass = (tilted - composed.error - folded) * untilt * math.exp(-composed.relative)
            best = np.maximum(best, np.where(mass < LEAST, 0.0, mass))
    infinity = ever((part.infinity, n) for part, n in discretised) * (1.0 + STATED if upper else 1.0 - STATED)
    if upper and infinity > 0.0:
        infinity += LEAST * sum(count for _, count in discretised)
    if upper and around.above:
        infinity += beyond_mass(exponents, moments, around.end)
    if upper:
        # All that lies below is raised to the first loss: the tail sums then start at 1 or more.
        best[0] = max(float(best[0]), 1.0 - infinity - float(best[1:].sum()))
    shift = loss_shift(discretised)
    return Law(losses + (shift if upper else -shift), best, min(infinity, 1.0))


def _cut(
    parts: CurveParts, sketches: Sequence[tuple[Sketch, int]], log_nothing: float, *, ordered: bool
) -> tuple[list[tuple[Sketch, int]], list[tuple[float, float]], tuple[float, float, list[float]], float]:
    """The sketches without what is nothing, their reaches, what ``_range`` says, and how wide that is."""
    log_share = log_nothing - math.log(sum(count for _, count in parts))
    reaches = [part.reach(log_low=log_share, log_tail=log_share) for part, _ in sketches]
    cut = [(part.within(*reach), count) for (part, count), reach in zip(sketches, reaches, strict=True)]
    lowest = math.fsum(count * low for (low, _), (_, count) in zip(reaches, parts, strict=True))
    highest = math.fsum(count * high for (_, high), (_, count) in zip(reaches, parts, strict=True))
    ends = _range(cut, log_nothing, lowest, highest, ordered=ordered)
    span = max(min(ends[1], highest) - max(ends[0], lowest), POINTS * FINEST * max(abs(lowest), abs(highest)), 1e-280)
    return cut, reaches, ends, span


def _range(
    parts: Sequence[tuple[Sketch, int]], log_nothing: float, lowest: float, highest: float, *, ordered: bool
) -> tuple[float, float, list[float]]:
    """Losses outside which less than e^{log_nothing} of P, and below of Q, is composed; exponents that show it.

    ``ordered``: of P alone.

    Infinite where the sums ``lowest`` and ``highest`` of the one-step reaches are the limit.
    """
    t = np.geomspace(1e-6, 1e9, 240)
    tops = (cumulants(parts, t)[0] - log_nothing) / t
    # Q is P tilted by −1, so ln E_Q e^{−t L} = K(−1 − t); below 0 that also bounds P, above it does not.
    q_bottoms, p_bottoms = (-(cumulants(parts, shift - t)[0] - log_nothing) / t for shift in (-1.0, 0.0))
    i, j, k = int(np.argmin(tops)), int(np.argmax(q_bottoms)), int(np.argmax(p_bottoms))
    top, bottom = float(tops[i]), float(q_bottoms[j])
    near = [*t[max(i - 12, 0) : i + 2 : 2], *(-1.0 - t[max(j - 12, 0) : j + 2 : 2])]
    if bottom > 0.0 or ordered:
        bottom = float(p_bottoms[k]) if ordered else min(bottom, max(float(p_bottoms[k]), 0.0))
        near += [*(-t[max(k - 12, 0) : k + 2 : 2])]
    # The sketch is rough: room beyond, and smaller exponents too.
    room = 0.02 * (top - bottom)
    bottom, top = bottom - room, top + room
    # Close to the limits the sketch's moments say little, and all of the range costs little more.
    margin = 0.1 * (highest - lowest)
    return (
        -math.inf if bottom <= lowest + margin else bottom,
        math.inf if top >= highest - margin else top,
        [float(x) for x in near],
    )


def _tilts(parts: Sequence[tuple[Sketch, int]], bottom: float, top: float) -> list[float]:
    """Tilts whose means are a few deviations apart from ``bottom`` to ``top``."""
    t = np.concatenate((-np.geomspace(1e-3, 1e7, 60)[::-1], [0.0], np.geomspace(1e-3, 1e7, 60)))
    _, mean, spread = cumulants(parts, t)
    floor = (1e-3 * (min(float(mean[-1]), top) - max(float(mean[0]), bottom))) ** 2 + 1e-300
    for _ in range(45):
        # Where rare large losses take over, the mean jumps within a tiny change of the tilt.
        wide = np.diff(mean) > 0.5 * SPACING * np.sqrt(np.maximum(np.minimum(spread[:-1], spread[1:]), floor))
        wide &= (mean[1:] > bottom) & (mean[:-1] < top)
        new = 0.5 * (t[:-1] + t[1:])[wide]
        if new.size == 0 or t.size > MAX_TILTS:
            break
        _, new_mean, new_spread = cumulants(parts, new)
        order = np.argsort(np.concatenate((t, new)), kind="stable")
        t, mean, spread = (np.concatenate(pair)[order] for pair in ((t, new), (mean, new_mean), (spread, new_spread)))
    zero = int(np.searchsorted(t, 0.0))
    chosen = {zero}
    for direction, end in ((1, top), (-1, bottom)):
        at = i = zero
        while 0 <= i + direction < t.size and direction * (mean[i] - end) < 0.0:
            i += direction
            if abs(mean[i] - mean[at]) >= SPACING * math.sqrt(max(min(float(spread[at]), float(spread[i])), floor)):
                chosen.add(i)
                at = i
    return [float(t[i]) for i in sorted(chosen)]
