"""Very many uses of exponential mechanisms: few blocks, then a pair for each use more, summed on a lattice, from above.

Let H(α) bound the hockey-stick curve of a block of uses from above, whatever came before it (``adaptive``,
``exponential_samples``). The chords of points on it, from (0, 1) on, are convex where those below a chord of their
neighbours are kept, and lie above the true curve, which is convex. With slopes s_i between points α_i they are the
curve of a pair with loss log α_i of P-mass α_i (s_i - s_{i-1}): it dominates the block, and dominating pairs
compose (Zhu, Dong, Wang 2022, Theorem 10). The choice may differ at each α, which adds about half a use a block; so
few blocks are taken, and a pair for each use before them (``surrogate``). All are summed by ``convolve``.
Fixed pairs in front of all uses interrupt no block (``mixture``).

Uses of several ranges are summed range by range, each on a lattice of its own, and the sums on one for the whole: its
chords cost one cell's width once, however small a range is. Their order does not matter: with V(a, b) the most that a
uses of one range and b of another can reach in any order, also a chosen one, and H, H' their curves, by induction
V(a, b) <= H_a∗H'_b, since one use more of the first makes at most (M H_a)∗H'_b of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from flint import arb

from affidavit.accountant.verifier.adaptive import (
    AdaptiveCurve,
    adaptive_curve,
    cost_in_seconds,
    spacing,
)
from affidavit.accountant.verifier.balls import Array, Ball, ball, precision, up
from affidavit.accountant.verifier.branches import Steps
from affidavit.accountant.verifier.convolve import compose
from affidavit.accountant.verifier.exponential_use import STEP, Lines, Way, ways_of
from affidavit.accountant.verifier.lattice import LatticeMasses
from affidavit.accountant.verifier.profile import SMALLEST
from affidavit.accountant.verifier.surrogate import Law, law_of, refined, surrogate, values_of
from affidavit.accountant.verifier.zcdp import zcdp_top

__all__ = ["SMALL_RANGE", "Run", "block_lengths", "composed_blocks", "exponential_blocks"]

SMALL_RANGE = Fraction(7, 10)
"""Above it a block has to be long for a pair to be sharp, and the recursion over all uses is quick."""
BLOCK, LONG_BLOCK, CELLS = 200, 500, 24
"""Uses of a block, the second of ranges above ``SMALL_RANGE``; lattice points to a range."""
AFFORDABLE = 3.0
"""Seconds for the recursion over a block; where it takes more, as of large ranges, blocks are shorter."""
SHORTEST = 100
"""Uses of a block from which on it is smooth enough for a pair."""
COPIES, MOST_COPIES, POWER = 0.2, 8, 100
"""About √(``COPIES`` × uses/block) blocks are taken; uses of the pair before them that are summed in floats."""
FINE = 32
"""Lattice points to the deviation of one use, where the pair is looked for."""
UNEVEN, COPIES_IN_STAGES, STAGE, CELLS_TO_GAP = 4.0, 3, 0.5, 50
"""A gap between two losses, in deviations, from which on uses are added in stages; blocks before the first one; how
much longer each makes what is behind; lattice points to the gap."""
LOOSE = 0.05
"""How much the pair's slack may raise ln δ; beyond, all uses are in blocks."""
SUMMED = 400
"""Lattice points to the deviation of all ranges together."""
LEAST_BITS, BITS_A_BIT = 64, 1.2
"""Working precision: at least, and more for each bit of the smallest mass that matters."""
PER_DEVIATION = 40
"""Lattice points to a block's deviation when blocks are summed."""
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
    small = max(SMALLEST, TAIL * tail / sum(-(-count // BLOCK) for _, count in steps))
    uses: dict[Fraction, int] = {}
    for spread, count in steps:
        uses[spread] = uses.get(spread, 0) + count
    runs = sorted(uses.items())
    curves = [_one_range(spread, count, small) for spread, count in runs]
    if len(curves) == 1:
        return curves[0]
    deviation = 0.5 * math.sqrt(sum(count * float(spread) ** 2 for spread, count in runs))
    step = Fraction(deviation / SUMMED)
    summed: list[tuple[Sides, int]] = []
    for curve in curves:
        points = np.arange(math.ceil(curve.top / float(step)) + 2, dtype=np.float64)
        values = curve.upper(points * (float(step) * (1.0 - STEP)))
        summed.append(((values, values), 1))
    return composed_blocks(summed, step, deviation=0.0, negligible=small)


def _one_range(spread: Fraction, count: int, small: float) -> AdaptiveCurve:
    step, length = spacing(((spread, 1),), CELLS), min(count, BLOCK if spread <= SMALL_RANGE else LONG_BLOCK)

    def block(size: int) -> tuple[Steps, float]:
        rho = Fraction(size) * spread * spread / 8
        return ((spread, size),), min(float(size * spread), zcdp_top(float(rho), small))

    while length > 1 and cost_in_seconds(block(length)[0], step, block(length)[1]) > AFFORDABLE:
        length //= 2
    steps, top = block(length)
    values, deviation = adaptive_curve(steps, step, top, negligible=small).upper_values, 0.5 * float(spread)
    run = Run((values, values), step, length, count, deviation, 1.0)
    if (found := run.charged(lambda fine: ways_of(spread, Fraction(1), fine)[0], small)) is not None:
        return found
    uses: list[tuple[Sides, int]] = []
    for size, number in block_lengths(count, length):
        if size != length:
            steps, top = block(size)
            values = adaptive_curve(steps, step, top, negligible=small).upper_values
        uses.append(((values, values), number))
    return composed_blocks(uses, step, deviation=deviation * math.sqrt(length), negligible=small)


@dataclass(frozen=True, slots=True)
class Run:
    """``uses`` of one kind, seen in one direction: the upper values of a block of ``length`` of them, ``step`` apart.

    ``deviation`` is about that of one use's loss, ``tilt`` about −d ln δ/dε where the answer lies. ``gap``: how far its
    two losses are apart there, ``near``: how far the likelier one is from 0.
    """

    sides: Sides
    step: Fraction
    length: int
    uses: int
    deviation: float
    tilt: float
    gap: float = 0.0
    near: float = 0.0

    def charged(self, way_of: Callable[[Fraction], Way], small: float) -> AdaptiveCurve | None:
        """Few blocks and a pair for each use before them; None where there is no such use, or no such pair.

        Uses of very unequal losses in stages, on a lattice that has about the likelier loss on it.
        """
        is_uneven = self.gap > UNEVEN * self.deviation
        wanted = COPIES_IN_STAGES if is_uneven else max(1, round(math.sqrt(COPIES * self.uses / self.length)))
        copies = min(self.uses // self.length, MOST_COPIES, wanted)
        if (rest := self.uses - copies * self.length) <= 0 or self.length < SHORTEST:
            return None
        with precision():
            block = law_of(_masses(*self.sides, self.step))
        if is_uneven:
            fine = Fraction(self.near) / max(1, round(self.near * CELLS_TO_GAP / self.gap))
            start = refined(block.moved(float(self.step), float(fine)), copies, float(fine), 1, small)
        else:
            parts = max(1, round(float(self.step) * FINE / self.deviation))
            fine = self.step / parts
            start = refined(block, copies, float(self.step), parts, small)
        with precision():
            way = way_of(fine)
        while True:
            found = surrogate(start, way, float(fine), self.tilt)
            if found is None or found.growth * rest > LOOSE:
                return None
            if not is_uneven or rest <= self.uses - rest:
                break
            taken = math.floor(STAGE * (self.uses - rest))
            start, rest = found.after(start, taken, small), rest - taken
        every = max(1, math.floor(self.deviation * math.sqrt(min(rest, POWER)) / PER_DEVIATION / float(fine)))
        laws = [(start.on_every(every, fine), 1)]
        for size, number in block_lengths(rest, POWER):
            laws.append((found.law.times(size, small).on_every(every, fine), number))
        curve = _composed(laws, every * fine, small)
        grown = math.exp(found.growth * rest) * (1.0 + 4.0 * STEP)
        values = (curve.upper_values + found.constant * rest) * grown
        return replace(curve, upper_values=np.minimum(values, 1.0))


def composed_blocks(
    uses: Sequence[tuple[Sides, int]], step: Fraction, *, deviation: float, negligible: float
) -> AdaptiveCurve:
    """An upper curve at ε >= 0 of blocks, given at points ``step`` apart; ``deviation`` is about that of the least."""
    every = max(1, math.floor(deviation / PER_DEVIATION / float(step)))
    coarse = every * step
    with precision(_bits(negligible)):
        parts = [(_masses(right[::every], left[::every], coarse), count) for (right, left), count in uses]
    return _composed(parts, coarse, negligible)


def _bits(negligible: float) -> int:
    return LEAST_BITS - math.floor(BITS_A_BIT * math.log2(negligible))


def _composed(parts: Sequence[tuple[LatticeMasses, int]], step: Fraction, negligible: float) -> AdaptiveCurve:
    """The curve of the sum at ε >= 0, see ``convolve``."""
    with precision():
        found = compose(parts, ball(step), negligible=negligible, upward=True)
        first, beyond = divmod(found.first, found.stride)
        wide = found.stride * ball(step)
        share = (1 - (-beyond * ball(step)).exp()) / (1 - (-wide).exp())
        right, left = found.masses * up(share), found.masses * up(1 - share)
    # On multiples of the final spacing, P and Q kept.
    masses = (np.append(left, 0.0) + np.append(0.0, right)) * (1.0 + STEP)
    apart = float(step * found.stride)
    values = values_of(Law(first, masses, found.infinite), apart)
    zeros = np.zeros(len(values))
    return AdaptiveCurve(apart, np.minimum.accumulate(np.minimum(values, 1.0)), Lines(zeros, zeros))


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
