"""Very many uses of exponential mechanisms: blocks whose largest curve is one pair's, summed on a lattice, from above.

Let H(α) bound the hockey-stick curve of a block of uses from above, whatever came before it (``adaptive``,
``exponential_samples``). The chords of points on it, from (0, 1) on, are convex where those below a chord of their
neighbours are kept, and lie above the true curve, which is convex. With slopes s_i between points α_i they are the
curve of a pair with loss log α_i of P-mass α_i (s_i - s_{i-1}): it dominates the block, and dominating pairs
compose (Zhu, Dong, Wang 2022, Theorem 10). Blocks are summed by ``convolve``, in balls. Fixed pairs in front of all
uses interrupt no block (``mixture``). The choice may differ at each α; what that adds falls with a block's length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from flint import arb

from affidavit.accountant.verifier.adaptive import AdaptiveCurve, Lines, Start, adaptive_curve, spacing
from affidavit.accountant.verifier.balls import Array, Ball, ball, precision, up_array
from affidavit.accountant.verifier.branches import Steps
from affidavit.accountant.verifier.convolve import compose, window_of
from affidavit.accountant.verifier.lattice import LatticeMasses
from affidavit.accountant.verifier.profile import SMALLEST
from affidavit.accountant.verifier.zcdp import zcdp_top

__all__ = ["block_lengths", "composed_blocks", "exponential_blocks"]

BLOCK, CELLS = 500, 32
"""Uses of a block; lattice points to a range."""
LEAST_BITS, BITS_A_BIT = 64, 1.2
"""Working precision: at least, and more for each bit of the smallest mass that matters."""
PER_DEVIATION = 40
"""Lattice points to a block's deviation when blocks are summed, if these fit into ``MAX_SIZE`` in all."""
MAX_SIZE = 1 << 16
TAIL = 1e-3
"""What all blocks may leave out, relative to what is negligible."""

Sides = tuple[Array, Array]
"""Upper values at e^{ih}, i = 0, 1, ...: of one direction, and of the other, which continues it to the left."""


def block_lengths(uses: int, most: int) -> Iterator[tuple[int, int]]:
    """(length, blocks of it), the shorter first; the two lengths differ by one."""
    blocks = -(-uses // most)
    length, longer = divmod(uses, blocks)
    if blocks > longer:
        yield length, blocks - longer
    if longer:
        yield length + 1, longer


def exponential_blocks(steps: Steps, tail: float) -> AdaptiveCurve:
    """An upper curve of ``steps`` in time order; mass of about ``tail`` may be left out (it is charged)."""
    step = spacing(steps, CELLS)
    uses: list[tuple[Sides, int]] = []
    deviation = math.inf
    blocks = sum(-(-count // BLOCK) for _, count in steps)
    small = max(SMALLEST, TAIL * tail / blocks)
    for spread, count in steps:
        curve: AdaptiveCurve | None = None
        for length, number in block_lengths(count, BLOCK):
            rho = Fraction(length) * spread * spread / 8
            top = min(float(length * spread), zcdp_top(float(rho), small))
            if curve is None:
                curve = adaptive_curve(((spread, length),), step, top, negligible=small)
            else:
                start = Start(curve.upper_values, curve.lines)
                top = curve.top - 0.5 * curve.spacing  # as many lattice points as before, however top/step is rounded
                curve = adaptive_curve(((spread, 1),), step, top, negligible=small, start=start)
            uses.append(((curve.upper_values, curve.upper_values), number))
            deviation = min(deviation, 0.5 * float(spread) * math.sqrt(length))
    return composed_blocks(uses, step, deviation=deviation, negligible=small)


def composed_blocks(
    uses: Sequence[tuple[Sides, int]], step: Fraction, *, deviation: float, negligible: float
) -> AdaptiveCurve:
    """An upper curve at ε >= 0 of blocks, given at points ``step`` apart; ``deviation`` is about that of the least."""
    every = max(1, math.floor(deviation / PER_DEVIATION / float(step)))
    coarse = every * step
    with precision(LEAST_BITS - math.floor(BITS_A_BIT * math.log2(negligible))):
        while True:
            parts = [(_masses(right[::every], left[::every], coarse), count) for (right, left), count in uses]
            window, theta, _ = window_of(parts, float(coarse), negligible)
            if window.size <= MAX_SIZE:
                break
            every, coarse = 2 * every, 2 * coarse
        width = ball(coarse)
        found = compose(parts, width, window, theta=theta)
        values = _curve(found.masses, found.first, found.infinite + found.outside, width)
    zeros = np.zeros(len(values))
    return AdaptiveCurve(float(coarse), np.minimum.accumulate(np.minimum(values, 1.0)), Lines(zeros, zeros))


def _masses(right: Array, left: Array, step: Fraction) -> LatticeMasses:
    """The chords as a pair; each kept point is where the slope provably grows."""
    points: list[tuple[int, Ball, Ball]] = []  # place, α, value
    for i in range(len(left) - 1, 0, -1):
        alpha = ball(-i * step).exp()
        points.append((-i, alpha, 1 - alpha + alpha * ball(float(left[i]))))
    points += [(i, ball(i * step).exp(), ball(float(value))) for i, value in enumerate(right)]
    kept: list[tuple[int, Ball, Ball]] = []
    slopes: list[Ball] = []  # of the chord that ends at each kept point
    for place, alpha, value in points:
        while True:
            before_alpha, before_value = (kept[-1][1], kept[-1][2]) if kept else (arb(0), arb(1))
            slope = (value - before_value) / (alpha - before_alpha)
            if not kept or slope > slopes[-1]:
                break
            kept.pop()
            slopes.pop()
        kept.append((place, alpha, value))
        slopes.append(slope)
    first, last = kept[0][0], kept[-1][0]
    masses = [arb(0)] * (last - first + 1)
    for (place, alpha, _), slope, after in zip(kept, slopes, [*slopes[1:], arb(0)], strict=True):
        masses[place - first] = (alpha * (after - slope)).nonnegative_part()
    return LatticeMasses(first, tuple(masses), kept[-1][2])


def _curve(masses: Sequence[Ball], first: int, lost: Ball, step: Ball) -> Array:
    """δ at i·step, i = 0, 1, ...: ``lost`` + Σ over j > i of p_j (1 - e^{(i-j) step}), from the right."""
    shrink = (-step).exp()
    above, scaled = arb(0), arb(0)
    values: list[Ball] = []
    for place in range(first + len(masses) - 1, -1, -1):
        values.append(lost + above - scaled)
        mass = masses[place - first] if place >= first else arb(0)
        above, scaled = above + mass, shrink * (scaled + mass)
    values.reverse()
    return up_array(values)
