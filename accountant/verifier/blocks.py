"""Very many uses of exponential mechanisms: a block, then a pair for each use more, summed on a lattice.

Let H(α) bound the hockey-stick curve of a block of uses from above, whatever came before it (``adaptive``,
``exponential_samples``). The chords of points on it, from (0, 1) on, are convex where those below a chord of their
neighbours are kept, and lie above the true curve, which is convex. With slopes s_i between points α_i they are the
curve of a pair with loss log α_i of P-mass α_i (s_i - s_{i-1}): it dominates the block, and dominating pairs
compose (Zhu, Dong, Wang 2022, Theorem 10). The choice may differ at each α, which adds about half a use a block; so
one block is taken, and a pair for each use before it (``surrogate``). All are summed by ``convolve``.
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
    spacing,
)
from affidavit.accountant.verifier.balls import Array, Ball, ball, precision, up
from affidavit.accountant.verifier.cases import Steps, by_range, rho_of
from affidavit.accountant.verifier.convolve import Masses, compose, sum_of
from affidavit.accountant.verifier.exponential_use import Lines, Way, ways_of
from affidavit.accountant.verifier.lattice import LatticeMasses
from affidavit.accountant.verifier.pairs import Finite
from affidavit.accountant.verifier.product import Atoms
from affidavit.accountant.verifier.profile import SMALLEST
from affidavit.accountant.verifier.rounding import STEP
from affidavit.accountant.verifier.surrogate import Surrogate, refined, surrogate, values_of
from affidavit.accountant.verifier.zcdp import zcdp_curve, zcdp_top

__all__ = ["BLOCK", "Directions", "Run", "block_lengths", "composed_blocks", "exponential_blocks", "pair_of"]

BLOCK, CELLS = 50, 24
"""Uses of a block, lattice points to a range in it; of fewer uses more."""
STAGE, LAST, ENOUGH, MOST_BEHIND = 2.0, 3.0, 40.0, 1_000
"""Uses of a stage to one behind it, of the last one at most; the rest at once where √(``ENOUGH`` × uses) are behind, or
so many, or as much less as they are less of all that is costly."""
FINE = 32
"""Lattice points to the deviation of one use, where the pair is looked for."""
LOOSE = 0.05
"""How much the pair's slack may raise ln δ; beyond, there is none."""
SUMMED, PLACES = 400, 40_000
"""Lattice points to the deviation of all ranges together; fewer where so many do not reach all that is lost."""
LEAST_BITS, BITS_A_BIT = 64, 1.2
"""Working precision: at least, and more for each bit of the smallest mass that matters."""
PARTS = 2
"""Points of a curve to a spacing of its law."""
POINTS = 3_000
"""Of a curve that becomes a pair, about, on either side."""
PER_DEVIATION = 40
"""Lattice points at least to the deviation of what is summed, of blocks and of ranges."""
TAIL = 1e-3
"""What all blocks may leave out, relative to what is negligible."""

Directions = tuple[Array, Array]
"""Upper values at e^{ih}, i = 0, 1, ...: of one direction, and of the other, which continues it to the left."""


def block_lengths(uses: int, most: int) -> Iterator[tuple[int, int]]:
    """(length, blocks of it), the shorter first; the two lengths differ by one."""
    blocks = -(-uses // most)
    length, longer = divmod(uses, blocks)
    if blocks > longer:
        yield length, blocks - longer
    if longer:
        yield length + 1, longer


def exponential_blocks(steps: Steps, tail: float, tilt: float) -> AdaptiveCurve:
    """An upper curve of ``steps`` in any order.

    Mass of about ``tail`` may be left out (it is charged).
    ``tilt``: about −d ln δ/dε where the answer lies.
    """
    runs = sorted(by_range(steps).items())
    small = max(SMALLEST, TAIL * tail / sum(-(-count // BLOCK) for _, count in runs))
    if len(runs) == 1:
        return _one_range(*runs[0], small, tilt)
    deviation = 0.5 * math.sqrt(sum(count * float(spread) ** 2 for spread, count in runs))
    top = zcdp_top(float(rho_of(steps)), small)
    step = Fraction(max(deviation / SUMMED, min(deviation / PER_DEVIATION, top / PLACES)))
    summed: list[tuple[Directions, int]] = []
    for spread, count in runs:
        share = float(count * spread * spread / (8 * rho_of(steps)))
        curve = _one_range(spread, count, small, tilt, share)
        points = np.arange(math.ceil(curve.top / float(step)) + 2, dtype=np.float64)
        values = curve.upper(points * (float(step) * (1.0 - STEP)))
        summed.append(((values, values), 1))
    return composed_blocks(summed, step, deviation=0.0, negligible=small)


def _one_range(spread: Fraction, count: int, small: float, tilt: float, share: float = 1.0) -> AdaptiveCurve:
    length = min(count, BLOCK)
    step = spacing(((spread, 1),), round(CELLS * math.sqrt(BLOCK / length)))
    first = adaptive_curve(((spread, length),), step, negligible=small)
    if count == length:
        return first
    run = Run((first.upper_values, first.upper_values), step, length, count, 0.5 * float(spread), tilt, share=share)
    above = run.charged(lambda fine: ways_of(spread, Fraction(1), fine)[0], small)
    if above is None:
        return zcdp_curve(Fraction(0), zcdp_top(float(rho_of(((spread, count),))), small), ((spread, count),))
    return above


@dataclass(frozen=True, slots=True)
class Run:
    """``uses`` of one kind, seen in one direction: the upper values of a block of ``length`` of them, ``step`` apart.

    ``deviation`` is about that of one use's loss, ``tilt`` about −d ln δ/dε where the answer lies. ``share``: what all
    of them are of what is costly; ``taken`` as in ``adaptive.recursion``.
    """

    sides: Directions
    step: Fraction
    length: int
    uses: int
    deviation: float
    tilt: float
    share: float = 1.0
    taken: Fraction = Fraction(1)

    def charged(self, way_of: Callable[[Fraction], Way], small: float) -> AdaptiveCurve | None:
        """A block and a pair for each use before it; None where there is no such pair."""
        chance = float(self.taken)
        enough = self.share * min(math.sqrt(ENOUGH * self.uses / chance), MOST_BEHIND / chance)
        parts = max(1, round(float(self.step) * FINE / self.deviation))
        fine = self.step / parts
        with precision():
            block = _masses(*self.sides, self.step)
            law = Masses(block.first, 1, *block.upper)
        start = refined(law, float(self.step), parts, small)
        behind, slack = self.length, 0.0
        with precision():
            way = way_of(fine)
        while True:
            rest = self.uses - behind
            found = surrogate(start, way, float(fine), self.tilt, taken=chance)
            if (slack := slack + found.growth * rest) > LOOSE:
                return None
            if rest <= LAST * behind or behind >= enough:
                with precision():
                    return self._summed(start, behind, found, fine, small)
            taken = math.floor(STAGE * behind)
            start, behind = found.after(start, taken, float(fine), small), behind + taken

    def _summed(self, start: Masses, behind: int, found: Surrogate, fine: Fraction, small: float) -> AdaptiveCurve:
        """All the rest at once, on coarser places."""
        rest = self.uses - behind
        parts = [(start, 1), (found.law, rest)]
        curve = _on_multiples(sum_of(parts, ball(fine), negligible=small, upward=True), fine)
        grown = math.exp(found.growth * rest) * (1.0 + 4.0 * STEP)
        values = (curve.upper_values + found.constant * rest) * grown
        return replace(curve, upper_values=np.minimum(values, 1.0))


def composed_blocks(
    uses: Sequence[tuple[Directions, int]], step: Fraction, *, deviation: float, negligible: float
) -> AdaptiveCurve:
    """An upper curve at ε >= 0 of blocks, given at points ``step`` apart; ``deviation`` is about that of the least."""
    every = max(1, math.floor(deviation / PER_DEVIATION / float(step)))
    coarse = every * step
    with precision(LEAST_BITS - math.floor(BITS_A_BIT * math.log2(negligible))):
        parts = [(_masses(right[::every], left[::every], coarse), count) for (right, left), count in uses]
    with precision():
        found = compose(parts, ball(coarse), negligible=negligible, upward=True)
    return _on_multiples(Masses(found.first, found.stride, found.masses, found.infinite), coarse)


def _on_multiples(law: Masses, step: Fraction) -> AdaptiveCurve:
    """The curve of a law at ε >= 0, on multiples of a part of its spacing: P and Q are kept."""
    stride = max(1, law.stride // PARTS)
    apart = stride * step
    with precision():
        first, beyond = divmod(law.first, stride)
        share = (1 - (-beyond * ball(step)).exp()) / (1 - (-ball(apart)).exp())
        right, left = (law.stretched(stride) * up(part) for part in (share, 1 - share))
    masses = (np.append(left, 0.0) + np.append(0.0, right)) * (1.0 + STEP)
    return _curve(Masses(first, 1, masses, law.infinite), float(apart))


def _curve(law: Masses, apart: float) -> AdaptiveCurve:
    """The curve of a law at ε >= 0."""
    values = np.minimum.accumulate(np.minimum(values_of(law, apart), 1.0))
    return AdaptiveCurve(apart, values, Lines(np.zeros(len(values)), np.zeros(len(values))))


def pair_of(curve: AdaptiveCurve) -> Finite:
    """The pair of a curve's chords, on a lattice that is no finer: from above, of all that the curve is of."""
    every = -(-len(curve.upper_values) // POINTS)
    step, values = every * Fraction(math.nextafter(curve.spacing, math.inf)), curve.upper_values[::every]
    law = _masses(values, values, step)
    kept, places = 1 - law.infinite, range(len(law.masses) - 1, -1, -1)
    losses = tuple((law.first + i) * ball(step) for i in places)
    return Finite(Atoms(losses, tuple(law.masses[i] / kept for i in places), law.infinite, arb(0)))


def _masses(right: Array, left: Array, step: Fraction) -> LatticeMasses:
    """The chords as a pair; each kept point is where the slope provably grows, which it is not where a value is 1."""
    points: list[tuple[int, Ball, Ball]] = []  # place, α, value
    apart = ball(step)
    for i in np.flatnonzero(left[1:] < 1.0)[::-1].tolist():
        alpha = (-(i + 1) * apart).exp()
        points.append((-(i + 1), alpha, 1 - alpha + alpha * ball(float(left[i + 1]))))
    points += [
        (i, (i * apart).exp(), ball(float(right[i]))) for i in np.flatnonzero(right < 1.0).tolist() or [len(right) - 1]
    ]
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
