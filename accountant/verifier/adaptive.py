"""Exact adaptive composition of bounded-range (exponential) mechanisms, also on fresh samples, from both sides.

Theorem (Dong, Durfee, Rogers 2020, Lemma 3.3 and Section 5; docs/theory/exponential.md). The worst single use
of a mechanism of bounded range η has, for some t in [0, η], two losses: t with P-mass p_t = (E - u)/(E - 1) and t - η
with the rest, where u = e^t and E = e^η. An adversary who picks t before each step, knowing what came
before, makes the hockey-stick H_k(α) after k steps obey
    H_0(α) = max(0, 1 - α),   H_k(α) = max over t of p_t H_{k-1}(α e^{-t}) + (1 - p_t) H_{k-1}(α e^{η-t}),
and δ(ε) = H_T(e^ε). Attained: two tokens and suitable logits realise any t. Unequal ranges: the operator of the *last*
step in time is applied first.

On a sample of rate q the likelihood ratio is m = 1 - q + qy, and a convex function of m is one of y: two ratios remain
the worst. So is it for a Poisson sample under add-remove and zero-out (Zhu, Dong, Wang 2022, Theorem 11), and for one
without replacement under add-remove: the m-subsets of the others, each with its last member displaced by the new
record, are pairs of substitutions, of which the mixture's ratio is no more spread (joint convexity). Then
    removed: F_k(α) = max over u of E_Q[m F_{k-1}(α/m)],    added: B_k(α) = max over u of E_Q[B_{k-1}(αm)],
F_0 = B_0 = H_0, and δ(ε) is the larger one. The two are one recursion: F_k(α) = 1 - α + α B_k(1/α), as E_Q m = 1. So
each is kept for α >= 1 only, on the lattice α_i = e^{ih}, and is the other's continuation to the left: no value is a
difference of large numbers. Without a sample F = B = H.

Where a record is replaced and a Poisson sample may tell whether it holds one, a use sees it with chance q only, and
loses nothing else: H_k(α) = (1 - q) H_{k-1}(α) + q (what a use without a sample makes of H_{k-1})(α). It is one
direction, as H is.

In closed form, h(α) = (√E - √α)²/(E - 1) for 1 <= α <= E: H_1 = h, F_1(α) = q h(1 + (α-1)/q) and
B_1(α) = (1 - α(1-q)) h(αq/(1 - α(1-q))); the recursion starts there.

The curves are convex in α, so their chords lie above them: a function that is at least H_k on the lattice is, chord by
chord, at least H_k everywhere; beyond the last point H is at most its value there. ``exponential_use`` bounds one use
from both sides. NumPy's exp and expm1, used off the lattice only, are trusted to a relative 2^-40; they are good to
2^-51.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from affidavit.accountant.verifier.balls import Array, ball, down, precision, up, up_array
from affidavit.accountant.verifier.cases import Steps
from affidavit.accountant.verifier.exponential_use import Lines, Way, extended_by, lowered, raised, ways_of
from affidavit.accountant.verifier.rounding import FLOOR, LIBM, STEP

__all__ = [
    "AdaptiveCurve",
    "Side",
    "adaptive_curve",
    "cost_in_seconds",
    "recursion",
    "spacing",
]

MOST_PARTS = 2_000
"""Lattice points to a range beyond which none is looked for that suits the other ranges."""
KEPT = 16
"""Every so many uses what a recursion found is kept."""
SECONDS_PER_CELL = 1.8e-8
"""Measured on one core: time of one (lattice point, piece, step)."""


class Side(NamedTuple):
    """One direction's curve at α >= 1: from above, and lines below it."""

    upper: Array
    lines: Lines

    def padded(self, points: int) -> Side:
        """On so many lattice points at least, continued."""
        more = max(0, points - len(self.upper))
        lines = Lines(*(np.pad(values, (0, more)) for values in self.lines))
        return Side(np.pad(self.upper, (0, more), mode="edge"), lines) if more else self

    def thinned(self, taken: Fraction, before: Side) -> Side:
        """That of a use that is made with a chance, from that of the use, and of what was before it."""
        most, rest = up(ball(taken)), up(ball(1 - taken))
        upper = (most * self.upper + rest * before.upper) * (1 + STEP)
        inside = down(ball(taken)) * self.lines.inside + down(ball(1 - taken)) * before.lines.inside
        weight = most * self.lines.weight + rest * before.lines.weight
        return Side(np.maximum(upper, FLOOR), Lines(inside * (1 - STEP), weight * (1 + STEP) + FLOOR))


@dataclass(frozen=True, slots=True)
class AdaptiveCurve:
    """Two-sided H(e^x) at any x; lattice point i is x = i * spacing, i = 0 ... len - 1."""

    spacing: float
    upper_values: Array
    lines: Lines

    @property
    def top(self) -> float:
        """The last lattice point (rounded)."""
        return self.spacing * (len(self.upper_values) - 1)

    def upper(self, x: Array) -> Array:
        """At least H(e^x); x of any sign."""
        far = np.abs(x)
        last = len(self.upper_values) - 1
        # Rounded down, so that x is at or to the right of its cell's left end.
        position = np.minimum(np.minimum(far, self.top) / self.spacing * (1 - STEP), float(last))
        cell = np.minimum(position.astype(np.int64), last - 1)
        inside = np.minimum(far, self.top) - cell * self.spacing
        share = np.expm1(-inside) / math.expm1(-self.spacing) * np.exp(np.minimum(inside - self.spacing, 0.0))
        share = np.clip(share, 0.0, 1.0)
        left, right = self.upper_values[cell], self.upper_values[cell + 1]
        # x is known to 3 x 2^-53 relative, so the share to STEP (cell + 2)(1 + spacing).
        value = left - share * (left - right) + left * (LIBM + STEP * (1 + self.spacing) * (cell + 2))
        mirrored = (np.exp(-far) * value - np.expm1(-far)) * (1 + LIBM)
        raised: Array = np.where(x >= 0, value, mirrored) * (1 + STEP) + FLOOR
        return raised

    def lower(self, x: Array) -> Array:
        """At most H(e^x), by the better of the lines of the two nearest lattice points."""
        far = np.abs(x)
        last = len(self.lines.inside) - 1
        cell = np.minimum(np.minimum(far, self.spacing * last) / self.spacing, float(last)).astype(np.int64)
        best = np.zeros_like(far)
        for index in (cell, np.minimum(cell + 1, last)):
            offset = far - index * self.spacing + STEP * far
            lost = self.lines.weight[index] * np.exp(np.minimum(offset, 700.0)) * (1 + LIBM)
            best = np.maximum(best, np.where(offset < 700.0, self.lines.inside[index] - lost, 0.0))
        best = np.maximum(best * (1 - STEP) - FLOOR, 0.0)
        mirrored = (np.exp(-far) * best - np.expm1(-far)) * (1 - LIBM)
        return np.where(x >= 0, best, np.maximum(mirrored, 0.0))


def spacing(steps: Steps, cells: int) -> Fraction:
    """A lattice spacing that divides the most used range, about ``cells`` points to the largest.

    Of the spacings somewhat finer than needed, the one that all ranges are nearest to being multiples of.
    """
    uses: dict[Fraction, int] = {}
    for spread, count in steps:
        uses[spread] = uses.get(spread, 0) + count
    wanted = min(max(uses) / cells, min(uses) / 8, Fraction(1, 8))
    common = max(uses, key=lambda spread: uses[spread])

    def misfit(parts: int) -> float:
        return max(abs((turns := float(spread * parts / common)) - round(turns)) for spread in uses)

    fewest = math.ceil(common / wanted)
    if fewest > MOST_PARTS:
        return common / fewest
    choices = range(fewest, fewest + (fewest // 2 if len(uses) > 1 else 0) + 1)
    return common / min(choices, key=lambda parts: (round(misfit(parts), 6), parts))


def cost_in_seconds(steps: Steps, step: Fraction, top: float) -> float:
    """The recursion's predicted time."""
    points = top / float(step)
    return SECONDS_PER_CELL * sum(count * (points + float(r / step)) * float(r / step) for r, count in steps)


def adaptive_curve(
    steps: Steps, step: Fraction, *, negligible: float = 0.0, start: Side | None = None
) -> AdaptiveCurve:
    """The recursion over ``steps`` (in time order).

    ``negligible``: where the upper side falls below this value, the lattice ends: the curve is continued by its value
    there (above) and by 0 (below). ``start``: what runs after all the steps, in place of H_0, as far as it matters; its
    pair must be symmetric (as Gaussians and two-point pairs are).
    """
    *before, (spread, count) = steps
    if start is None:
        sides, done = recursion(spread, Fraction(1), step, negligible).after(count), [(spread, count)]
    else:
        sides, before, done = (start,), [*steps], []
    for spread, count in reversed(before):
        ways, mirror = _use(spread, Fraction(1), step)
        for i in range(count):
            top = _top_of((*done, (spread, i + 1)), negligible)
            most = math.ceil(top / step) + 1 if start is None else len(start.upper)
            sides = _after_another(sides, ways, mirror, negligible, most)
        done.append((spread, count))
    return AdaptiveCurve(float(step), *sides[0])


def _top_of(steps: Sequence[tuple[Fraction, int]], negligible: float) -> float:
    """An ε at which these have at most a negligible δ: all they lose, or by the zCDP of bounded range (``zcdp``)."""
    whole = math.fsum(float(spread) * count for spread, count in steps)
    if negligible <= 0.0:
        return whole
    rho = math.fsum(float(spread) ** 2 * count for spread, count in steps) / 8.0
    return min(whole, rho + 2.0 * math.sqrt(-rho * math.log(negligible)))


@dataclass(frozen=True, slots=True)
class Recursion:
    """Uses of one kind: both directions after so many of them; ``states`` keeps some, for cases with other numbers.

    On lattice points up to ``top`` at most; what it returns does not depend on what was asked before.
    """

    range: Fraction
    taken: Fraction
    ways: tuple[Way, ...]
    mirror: Mirror
    step: Fraction
    negligible: float
    top: float
    states: dict[int, tuple[Side, ...]]

    def after(self, count: int) -> tuple[Side, ...]:
        """The record removed, and added, after ``count`` >= 1 uses; without a sample they are one."""
        known = max(done for done in tuple(self.states) if done <= count)
        sides = self.states[known]
        for done in range(known, count):
            top = min(self.top, _top_of([(self.range, done + 1)], self.negligible))
            most = math.ceil(top / self.step) + 1
            sides = _after_another(sides, self.ways, self.mirror, self.negligible, most, self.taken)
            if (done + 1) % KEPT == 0:
                self.states.setdefault(done + 1, sides)
        return self.states.setdefault(count, sides)


@lru_cache(maxsize=2)
def recursion(
    spread: Fraction,
    rate: Fraction,
    step: Fraction,
    negligible: float,
    top: float = math.inf,
    *,
    taken: Fraction = Fraction(1),
) -> Recursion:
    """Of range ``spread`` on fresh samples of this rate; ``taken``: the chance that a use sees the record at all."""
    ways, mirror = _use(spread, rate, step)
    first = _after_one(spread, rate, step, len(mirror.fall) + 2)
    if taken < 1:
        first = tuple(side.thinned(taken, _nothing(len(side.upper))) for side in first)
    return Recursion(spread, taken, ways, mirror, step, negligible, top, {1: first})


def _nothing(points: int) -> Side:
    """H_0 at α >= 1."""
    return Side(np.zeros(points), Lines(np.zeros(points), np.zeros(points)))


@lru_cache(maxsize=64)
def _use(spread: Fraction, rate: Fraction, step: Fraction) -> tuple[tuple[Way, ...], Mirror]:
    with precision():
        ways = ways_of(spread, rate, step)
        return ways, _mirror_of(ways, step)


class Mirror(NamedTuple):
    """1 - α and α at α = e^{-ih} (rounded up), i = 0 .. as many places as the arguments of a use may lie away."""

    rise: Array
    fall: Array


def _mirror_of(ways: Sequence[Way], step: Fraction) -> Mirror:
    """For uses of all these ways."""
    shrink = [ball(-i * step).exp() for i in range(3 + max(max(way.reach) for way in ways))]
    return Mirror(up_array([1 - value for value in shrink]), up_array(shrink))


def _after_another(
    sides: tuple[Side, ...],
    ways: Sequence[Way],
    mirror: Mirror,
    negligible: float,
    most: int,
    taken: Fraction = Fraction(1),
) -> tuple[Side, ...]:
    """After one use more, each direction on so many points at ``most``; the other one continues it to the left."""
    rise, fall = mirror
    margin = len(fall) - 1
    sides = tuple(side.padded(margin + 1) for side in sides)
    made = []
    for way, one, other in zip(ways, sides, reversed(sides), strict=True):
        # Beyond this width every value, old or new, is negligible.
        width = min(int(np.count_nonzero(one.upper > negligible)), max(most - margin, 0)) + margin
        known, below = one.padded(width)
        mirrored = np.minimum((rise + fall * other.upper[: margin + 1]) * (1 + STEP), 1.0)
        extended = extended_by(known[:width], mirrored, margin, float(known[width - 1]))
        values, best = raised(extended, width, margin, way)
        upper = np.minimum(np.minimum.accumulate(values), 1.0)
        inside = (1 - other.lines.weight[: margin + 1] * fall * (1 + STEP)) * (1 - STEP)
        weight = (1 - other.lines.inside[: margin + 1]) * fall * (1 + STEP)
        lines = Lines(extended_by(below.inside, inside, margin, 0.0), extended_by(below.weight, weight, margin, 0.0))
        made.append(Side(upper, lowered(lines, best, margin, way)))
        if taken < 1:
            made[-1] = made[-1].thinned(taken, Side(known[:width], Lines(*(part[:width] for part in below))))
    return tuple(made)


def _after_one(spread: Fraction, share: Fraction, step: Fraction, points: int) -> tuple[Side, ...]:
    """F_1 and B_1 of a sample of rate ``share`` on the lattice, with the lines of their best u; H_1 without one."""
    upper = np.full((2, points), FLOOR)
    inside, weight = np.zeros((2, points)), np.full((2, points), FLOOR)
    rate, top = ball(share), ball(spread).exp()
    root, rise = top.sqrt(), top - 1
    for i in range(points):
        alpha = ball(i * step).exp()
        outer = 1 + (alpha - 1) / rate
        if not outer < top:
            break
        u = (top * outer).sqrt()
        chance = (top / u - 1) / rise
        upper[0, i] = up(rate * (root - outer.sqrt()).nonnegative_part() ** 2 / rise)
        inside[0, i], weight[0, i] = down(chance * (1 + rate * (u - 1))), up(chance * alpha)
    for i in range(points):
        alpha = ball(i * step).exp()
        rest = 1 - alpha * (1 - rate)
        if not rest > 0 or not (outer := alpha * rate / rest) < top:
            break
        u = (top / outer).sqrt()
        chance = (top - top / u) / rise
        upper[1, i] = up(rest * (root - outer.sqrt()).nonnegative_part() ** 2 / rise)
        inside[1, i], weight[1, i] = down(chance), up(chance * alpha * (1 + rate * (u / top - 1)))
    return tuple(
        Side(
            np.minimum.accumulate(np.clip(upper[n], FLOOR, 1.0)),
            Lines(np.maximum(inside[n], 0.0), np.maximum(weight[n], FLOOR)),
        )
        for n in range(1 if share == 1 else 2)
    )
