r"""A composition as a law over its whole range, not only near one target.

Two uses: a sample reused for several steps is composed first and amplified once, which needs the
composed profile at every loss; and a composition of parts with a dominating pair may be the
outermost expectation around an adaptive recursion (THEORY 3).

The convolution is done under several tilts, each accurate around its own mean. At each loss the
upper side takes the least of the masses (r + E) e^{K − θ l}, the lower side the greatest of
(r − E − F) e^{K − θ l}, E the transform's error and F a bound on the mass folded in from outside the
window. Mass above the window goes to +inf (upper) or is dropped (lower).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from affidavit.accountant.pld.atomic import Atomic
from affidavit.accountant.pld.compose import window
from affidavit.accountant.pld.curve import Array, Curve, Direction, OneStep
from affidavit.accountant.pld.discretise import Side
from affidavit.accountant.pld.grid import CurveParts, aligned, lattice, masses, merged
from affidavit.accountant.pld.saddle import Sketch, cumulants, sketch
from affidavit.accountant.pld.transform import beyond_mass, convolve, loss_shift, mass_at_infinity

__all__ = ["Law", "composed_law", "composed_step"]

POINTS = 2**15
LOG_NOTHING = -240.0
"""ln of the mass beyond which a nested composition is truncated."""
SPACING = 5.0
"""Standard deviations between the means of neighbouring tilts."""


class Law(NamedTuple):
    """Ascending finite losses, their P-masses, and P's mass at +inf."""

    losses: Array
    masses: Array
    infinity: float


@lru_cache(maxsize=128)
def composed_step(parts: tuple[tuple[OneStep, int], ...]) -> OneStep:
    """``parts``, run one after another on the same data, as one step."""
    forward = _direction([(step.forward, count) for step, count in parts])
    if all(step.symmetric for step, _ in parts):
        return OneStep(forward, forward)
    return OneStep(forward, _direction([(step.backward, count) for step, count in parts]))


def _direction(parts: Sequence[tuple[Direction, int]]) -> Direction:
    upper = merged([(direction.upper, count) for direction, count in parts])
    lower = merged([(direction.lower, count) for direction, count in parts if direction.lower is not None])
    if len(upper) == 1 and upper[0][1] == 1:
        return Direction(upper[0][0], upper[0][0] if upper == lower else None)
    law = composed_law(upper, side="upper", log_nothing=LOG_NOTHING)
    below = composed_law(lower, side="lower", log_nothing=LOG_NOTHING) if lower else None
    return Direction(_curve(law), None if below is None else _curve(below))


def _curve(law: Law) -> Curve:
    kept = law.masses > 0.0
    return Atomic(law.losses[kept], np.log(law.masses[kept]), infinity=law.infinity, atoms=())


def composed_law(
    parts: CurveParts, *, side: Side, log_nothing: float, step: float | None = None, points: int = POINTS
) -> Law:
    """The composed loss of ``parts``, dominating (upper) or dominated (lower).

    ``log_nothing`` is ln of the mass that may be truncated at either end; ``step`` is the grid's, by
    default such that about ``points`` points cover the range. Upper: P-masses on the grid
    whose tail sums, with ``infinity``, are at least the true ones; lower: at most.
    """
    upper = side == "upper"
    sketches = [(sketch(curve), count) for curve, count in parts]
    log_share = log_nothing - math.log(sum(count for _, count in parts))
    reaches = [part.reach(log_head=log_share, log_tail=log_share) for part, _ in sketches]
    cut = [(part.within(*ends), count) for (part, count), ends in zip(sketches, reaches, strict=True)]
    bottom, top = _range(cut, log_nothing)
    if step is None:
        step = max(top - bottom, 1e-300) / points
        widest = max((gap for curve, _ in parts if (gap := lattice(curve)) > step), default=0.0)
        lattice_only = widest > 0.0 and all(len(curve.atoms) == 2 and isinstance(curve, Atomic) for curve, _ in parts)
        step = widest if lattice_only and len(parts) == 1 else aligned(parts, step)
    discretised = masses(parts, reaches, side=side, step=step)
    first, length, origin = window(discretised, bottom=bottom, top=top, limit=4 * max(points, 1024))
    last = sum(count * (part.masses.size - 1) for part, count in discretised)
    size = _fast_length(max(length, 2))
    length = min(size, last - first + 1)
    losses = origin + step * (first + np.arange(length, dtype=np.float64))
    ends = (first > 0, float(losses[0])), (first + size <= last, origin + step * (first + size))
    best = np.full(length, math.inf if upper else 0.0)
    thetas = _tilts(cut, bottom, top)
    for theta in thetas:
        composed = convolve(discretised, theta, size)
        tilted = np.roll(composed.tilted, -(first % size))[:length]
        untilt = np.exp(np.clip(composed.log_moment - theta * losses, -745.0, 700.0))
        if upper:
            best = np.minimum(best, (np.maximum(tilted, 0.0) + composed.error) * untilt * math.exp(composed.relative))
        else:
            folded = 0.0
            for outside, end, choices in (
                (*ends[0], [t for t in thetas if t < theta]),
                (*ends[1], [t for t in thetas if t > theta]),
            ):
                if outside:
                    folded += beyond_mass(discretised, choices, end, theta=theta, log_moment=composed.log_moment)
            best = np.maximum(best, (tilted - composed.error - folded) * untilt * math.exp(-composed.relative))
    infinity = mass_at_infinity(discretised) * (1.0 + 1e-14 if upper else 1.0 - 1e-14)
    if upper and ends[1][0]:
        infinity += beyond_mass(discretised, [t for t in thetas if t > 0.0], ends[1][1])
    shift = loss_shift(discretised)
    if upper and first > 0:
        # What lies below the window is raised to its first loss.
        best[0] += beyond_mass(discretised, [t for t in thetas if t < 0.0], float(losses[0]))
    return Law(losses + (shift if upper else -shift), best, min(infinity, 1.0))


def _fast_length(length: int) -> int:
    from scipy.fft import next_fast_len

    return int(next_fast_len(length, real=True))


def _range(parts: Sequence[tuple[Sketch, int]], log_nothing: float) -> tuple[float, float]:
    """Chernoff: losses outside which less than e^{log_nothing} of P, and below of Q, is composed."""
    lowest = math.fsum(count * float(part.losses.min()) for part, count in parts)
    highest = math.fsum(count * float(part.losses.max()) for part, count in parts)
    t = np.geomspace(1e-6, 1e9, 120)
    tops = (cumulants(parts, t)[0] - log_nothing) / t
    # Q is P tilted by −1, so ln E_Q e^{−t L} = K(−1 − t).
    bottoms = -(cumulants(parts, -1.0 - t)[0] - log_nothing) / t
    return max(lowest, float(bottoms.max())), min(highest, float(tops.min()))


def _tilts(parts: Sequence[tuple[Sketch, int]], bottom: float, top: float) -> list[float]:
    """Tilts whose means are a few deviations apart from ``bottom`` to ``top``."""
    t = np.concatenate((-np.geomspace(1e-3, 1e7, 400)[::-1], [0.0], np.geomspace(1e-3, 1e7, 400)))
    _, mean, spread = cumulants(parts, t)
    zero = t.size // 2
    chosen = [zero]
    for direction, end in ((1, top), (-1, bottom)):
        at = zero
        for i in range(zero + direction, t.size if direction > 0 else -1, direction):
            gone = abs(mean[i] - mean[at]) / math.sqrt(max(spread[at], spread[i], 1e-300))
            if gone >= SPACING:
                chosen.append(i)
                at = i
            if direction * (mean[i] - end) >= 0.0:
                break
        # One further out, for Chernoff bounds beyond the ends.
        chosen.append(min(max(at + 8 * direction, 0), t.size - 1))
    return [float(t[i]) for i in sorted(set(chosen))]
