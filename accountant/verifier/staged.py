"""A strategy for many uses of one exponential mechanism that chooses at few times: a lower side.

With x = ε - (losses so far), the t of ``adaptive`` that is best depends on x and on the uses still to come, k, mostly
where k is small. So the last uses are the recursion's, and what runs before them is cut into stages that grow with
k; at the begin of each, one of few t is chosen by x and kept for the stage. That is a strategy the plan admits.

The loss of r uses at t is r(t - η) + iη with i binomial. A stage tries t_0 + jη/(cr) for some j, whose losses are all
on one lattice of spacing h = η/c, moved by r(t_0 - η): the places of all stages are known exactly, as fractions, and
begin where the last of them ends at multiples of h. Each place carries a line A - W α/α_x below the curve
(``exponential_use``). A stage makes of them the sums of A and W over the places its loss leads to, both by P's
masses, as α_x e^{-l} is the α of x - l. Left of the places the line is 1 - α, right of them 0; at the start, where
places lie between those of the recursion, W is its neighbour's, moved.

Rounding. P's masses are a ball in the middle and products of n ratios from there on, each ratio good to 2^-50; a sum of
n products is off by n 2^-53. A is lowered and W raised by (n + 8) 2^-48 a stage.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from flint import arb

from affidavit.accountant.verifier.adaptive import AdaptiveCurve
from affidavit.accountant.verifier.balls import Array, ball, precision
from affidavit.accountant.verifier.exponential_use import FLOOR, LIBM, Lines

__all__ = ["MOST_USES", "best_share", "staged_curve"]

MOST_USES = 10_000
"""Uses beyond which choosing gains next to nothing."""
CELLS, GROWTH = 4, 1.5
"""Places to a range; how much longer than the one behind it a stage makes what is behind, about."""
CHOICES, SPREAD = np.linspace(-2.0, 2.0, 5), 12
"""The best t at a mean x and so many deviations beside it are tried; in parts of 2^-12 of η."""
WIDTH, SIDE = 9.0, 6.0
"""Deviations of all losses that the places reach beyond the answer, and, of fewer uses, to each side."""
NO_MASS = 1e-22


class _Lines(NamedTuple):
    """Lines at x = (first + i) h + ``offset``."""

    first: int
    offset: Fraction
    inside: Array
    weight: Array

    def between(self, first: int, last: int, step: Fraction) -> tuple[Array, Array]:
        """At places ``first`` to ``last``, continued."""
        x = (np.arange(first, self.first) * float(step) + float(self.offset)) * (1.0 - LIBM)
        after = max(0, last + 1 - self.first - len(self.inside))
        begin, end = max(0, first - self.first), last + 1 - self.first
        left = np.where(x < 0.0, 1.0, 0.0), np.exp(np.minimum(x, 0.0)) * (1.0 + LIBM) + FLOOR
        inside = np.concatenate([left[0], self.inside[begin : max(begin, end)], np.zeros(after)])
        weight = np.concatenate([left[1], self.weight[begin : max(begin, end)], np.full(after, FLOOR)])
        return inside, weight


def best_share(eta: float, tilt: float) -> Fraction:
    """About the t of the largest E e^{tilt L}, in η."""
    tilt = max(tilt, -0.9) if abs(tilt) > 1e-9 else 1e-9
    # log u, u = tilt (E - E^-tilt) / ((1 + tilt)(1 - E^-tilt)).
    top = eta + math.log(-math.expm1(-(1.0 + tilt) * eta)) - math.log1p(tilt)
    share = (top + math.log(tilt / -math.expm1(-tilt * eta))) / eta
    return Fraction(round(min(max(share, 0.05), 0.95) * 2**SPREAD), 2**SPREAD)


def _binomial(spread: Fraction, t: Fraction, uses: int) -> tuple[int, Array]:
    """P-masses of i, i + 1, ... losses t among ``uses``; what is far below all others is left out."""
    with precision():
        top = ball(spread).exp()
        share, rest = (top - ball(t).exp()) / (top - 1), (ball(t).exp() - 1) / (top - 1)
        middle = min(uses, max(0, round(uses * float(share))))
        mass = float(arb.bin_uiui(uses, middle) * share**middle * rest ** (uses - middle))
        odds = float(share / rest)
    above, below = np.arange(middle, uses, dtype=np.float64), np.arange(middle, 0, -1, dtype=np.float64)
    up = np.cumprod((uses - above) / (above + 1.0) * odds)
    down = np.cumprod(below / ((uses - below + 1.0) * odds))
    up, down = up[: np.count_nonzero(up > NO_MASS)], down[: np.count_nonzero(down > NO_MASS)]
    return middle - len(down), mass * np.concatenate([down[::-1], [1.0], up])


def _counts(behind: int, uses: int) -> list[int]:
    """Uses still to come between stages: from ``behind`` to ``uses``."""
    stages = max(1, round(math.log(uses / behind) / math.log(GROWTH)))
    return sorted({behind, uses, *(round(behind * (uses / behind) ** (i / stages)) for i in range(1, stages))})


def staged_curve(
    spread: Fraction, uses: int, start: AdaptiveCurve, behind: int, *, tilt: float, beside: float = 0.0
) -> AdaptiveCurve:
    """Lines below the curve of ``uses`` of range ``spread``, from those of the last ``behind`` (``start``).

    ``tilt``: about -d ln δ/dε where the answer lies; ``beside``: about the zCDP of what else ``start`` has. Nothing is
    said from above.
    """
    eta, step, counts = float(spread), spread / CELLS, _counts(behind, uses)
    costs = {count: eta * eta / 8.0 * count + beside for count in counts}
    deviation = math.sqrt(2.0 * costs[uses])
    top = costs[uses] * (1.0 + 2.0 * tilt) + WIDTH * deviation  # x is near the middle of it, and falls like the cost
    middles = [spread * best_share(eta, tilt)] * (len(counts) - 1)
    moves = [(after - before) * (t - spread) for (before, after), t in zip(pairwise(counts), middles, strict=True)]
    offset = -sum(moves, Fraction(0)) % step
    side = SIDE * deviation + eta
    first, last = _places(-side, top * costs[behind] / costs[uses] + side, step)
    lines = _started(start, first, last, offset, step)
    for (before, after), t, move in zip(pairwise(counts), middles, moves, strict=True):
        first, last = _places(-side, top * costs[after] / costs[uses] + side, step)
        if after == uses:
            first, last = 0, math.ceil(top / float(step))
        apart = CHOICES * math.sqrt((1.0 - costs[after] / costs[uses] + 1e-3) / (2.0 * costs[after]))
        tilts = (tilt + apart).tolist()
        lines = _stage(lines, spread, after - before, t, move, [best_share(eta, one) for one in tilts], first, last)
    return AdaptiveCurve(float(step), np.ones(len(lines.inside)), Lines(lines.inside, lines.weight))


def _places(low: float, high: float, step: Fraction) -> tuple[int, int]:
    return math.floor(low / float(step)), math.ceil(high / float(step))


def _started(start: AdaptiveCurve, first: int, last: int, offset: Fraction, step: Fraction) -> _Lines:
    """The recursion's lines at places between its own."""
    x = np.arange(first, last + 1) * float(step) + float(offset)
    far = np.abs(x)
    inside, weight = start.lines_at(far)
    # H(α) = 1 - α + α H(1/α).
    shrink = np.exp(-far) * (1.0 + LIBM)
    mirrored = np.maximum((1.0 - weight * shrink) * (1.0 - LIBM), 0.0), (1.0 - inside * (1.0 - LIBM)) * shrink
    inside, weight = np.where(x < 0.0, mirrored[0], inside), np.where(x < 0.0, mirrored[1], weight)
    return _Lines(first, offset, inside, weight * (1.0 + LIBM))


def _stage(
    lines: _Lines,
    spread: Fraction,
    uses: int,
    middle: Fraction,
    move: Fraction,
    shares: list[Fraction],
    first: int,
    last: int,
) -> _Lines:
    """The lines after ``uses`` more at one t, at places ``first`` to ``last``."""
    step, count = spread / CELLS, last - first + 1
    offset = lines.offset + move
    turns = math.floor(offset / step)  # in places
    # x - loss = (n + shift - j - c i) h + lines.offset
    shift = -turns
    offset -= turns * step
    inside, weight = np.zeros(count), np.full(count, FLOOR)
    for j in sorted({round((share * spread - middle) * uses / step) for share in shares}):
        t = middle + j * step / uses
        least, masses = _binomial(spread, t, uses)
        most = least + len(masses) - 1
        begin = first + shift - j - CELLS * most
        found = []
        for values in lines.between(begin, last + shift - j - CELLS * least, step):
            sums = np.empty(count)
            for residue in range(CELLS):
                sums[residue::CELLS] = np.convolve(values[residue::CELLS], masses, "valid")
            found.append(sums)
        slack = (len(masses) + 8) * 2.0**-48
        a, w = found[0] * (1.0 - slack), found[1] * (1.0 + slack) + FLOOR
        better = a - w > inside - weight
        inside, weight = np.where(better, a, inside), np.where(better, w, weight)
    return _Lines(first, offset, inside, weight)
