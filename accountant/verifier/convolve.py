r"""Many independent losses on one lattice, summed.

Masses are non-negative floats, so those of a sum of two losses are sums of products without cancellation: n of them are
off by a relative (n + 1) 2^-53 in any order. Whatever is rounded or cut is so on the side that is asked for:

- Upper side: masses are rounded up. Mass at the right end goes to +inf, mass at the left end up to the first place that
  is kept: the loss only rises.
- Lower side: masses are rounded down. Mass at the right end goes down to the last place that is kept, mass at the left
  end is dropped.

A law with masses p_i at losses l_i has the curve H(α) = f + Σ p_i (1 - α e^{-l_i})⁺, f its mass on +inf; that of a sum
of two is f + Σ p_i H'(α e^{-l_i}). So a law in a sum may be replaced by any law whose curve lies above it (below it) at
each α. All that is done above is such a replacement, and f + f' - ff' rises with f and f'.

Coarser places. A law of many uses is broad, so every other place can go (step h, places 0, 2, 4, ... are kept).
- Upper side: mass p at an odd place is split between its neighbours, p/(1 + e^{-h}) to the right and the rest to the
  left; that keeps P and Q, and spreads the likelihood ratio: the curve rises (Jensen).
- Lower side: of what is at odd places, an even place l takes A from the left and B >= e^h A from the right. Merging
  outcomes is post-processing, and the merged Q-mass e^{-l}(A e^h + B e^{-h}) is at most e^{-l}(A + B), so mass A + B at
  l has a lower curve. A and B are chosen outwards in, from both ends to the largest mass: there e^h A = B can nearly
  always be met, and nothing is lost to first order.
Either adds (takes) about h²/2 to the variance of a law, where connecting the dots adds h²/6 for each use. So a law that
ends up in the sum M times may take places of step h while M h² is a small share of n h_1²/3, h_1 the step that n uses
began with: a sum has as many places as one use, however many uses there are.

Powers are squared from the right; a law that ends up in the sum M times may lose 1/M of what is negligible.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from flint import arb

from affidavit.accountant.verifier.balls import Array, Ball, down, up
from affidavit.accountant.verifier.lattice import LatticeMasses
from affidavit.accountant.verifier.rounding import FLOOR, STEP, UNIT

__all__ = [
    "GROWN",
    "Composed",
    "Masses",
    "TooLong",
    "Window",
    "compose",
    "convolved",
    "log_tail_bound",
    "losses",
    "sum_of",
    "window_of",
]

Uses = Sequence[tuple[LatticeMasses, int]]

GROWN = 1.5
"""Places of two uses to those of one, about."""
DIRECT = 2e7
"""Products of masses from which on they are added up in blocks."""
BLOCK, PIECE, SPARSE = 128, 4096, 0.1
LIGHT = 2.0**-10
"""Of what may be cut at an end: masses that together are less go to +inf (above) or are left out (below)."""
FEWEST_PLACES = 300
SHARE = 1.0
"""What coarser places may add, relative to what the lattice adds to each use; not where there are so few."""
IDLE = 0.5
"""Mass that may move down by a step for nothing, in steps, over 1 + θ: ε moves by the mean, and θ/2 of the variance."""


class Window(NamedTuple):
    """Places ``first`` to ``last`` of a lattice."""

    first: int
    last: int


class TooLong(Exception):
    """A law on more places than are worth it."""


@dataclass(frozen=True, slots=True)
class Composed:
    """P-masses of the sum at losses (first + i * stride) * spacing + offset; all rounded to one side."""

    first: int
    stride: int
    masses: Array
    infinite: float  # the mass on +inf
    offset: Ball


def losses(found: Composed, step: Ball, *, upward: bool) -> Array:
    """The losses, rounded."""
    toward = math.inf if upward else -math.inf
    low, high = (down(step), up(step)) if not upward else (up(step), down(step))
    places = found.first + found.stride * np.arange(len(found.masses), dtype=np.float64)
    rounded = np.where(places == 0.0, 0.0, np.nextafter(places * np.where(places > 0.0, low, high), toward))
    shift = up(found.offset) if upward else down(found.offset)
    return np.nextafter(rounded + shift, toward) if shift else rounded


def _log_moments(uses: Uses, step: float, thetas: Array) -> Array:
    """log E[e^{θ L}] of the sum at each θ, in floats (search only)."""
    total = np.zeros_like(thetas)
    for part, count in uses:
        # With the radii: a θ so large that it lifts the rounding errors of empty places would show nothing.
        masses = part.upper[0]
        places = step * (part.first + np.arange(len(masses)))
        keep = masses > 0
        logs = np.log(masses[keep])[None, :] + thetas[:, None] * places[keep][None, :]
        peak = logs.max(axis=1)
        total += count * (peak + np.log(np.exp(logs - peak[:, None]).sum(axis=1)))
    return total


def log_tail_bound(uses: Uses, step: float, epsilon: float) -> float:
    """log of the Chernoff bound on P(L > ε), in floats (search only)."""
    thetas = _thetas(uses, step)
    return float(np.min(_log_moments(uses, step, thetas) - thetas * epsilon))


def _thetas(uses: Uses, step: float) -> Array:
    return np.geomspace(1e-3, 1e4, 120) / (step * max(len(part.masses) for part, _ in uses))


def window_of(uses: Uses, step: float, negligible: float) -> tuple[Window, float]:
    """Where all but about ``negligible`` lies at each end, by Chernoff in floats, and the θ of the right end."""
    thetas = _thetas(uses, step)
    limit = -math.log(negligible)
    with np.errstate(over="ignore", invalid="ignore"):  # beyond float64 a θ shows nothing
        tops = np.nan_to_num((_log_moments(uses, step, thetas) + limit) / thetas / step, nan=math.inf)
        bottoms = np.nan_to_num(-(_log_moments(uses, step, -thetas) + limit) / thetas / step, nan=-math.inf)
    above = int(np.argmin(tops))
    greatest = sum(count * (part.first + len(part.masses) - 1) for part, count in uses)
    least = sum(count * part.first for part, count in uses)
    first = math.floor(max(least, float(bottoms.max())))
    last = math.ceil(min(greatest, float(tops[above])))
    return Window(first, last), float(thetas[above])


class Masses(NamedTuple):
    """Masses at places ``first``, ``first`` + ``stride``, ..., and on +inf."""

    first: int
    stride: int
    masses: Array
    infinite: float

    def stretched(self, stride: int) -> Array:
        """Masses at places ``stride`` apart."""
        every = self.stride // stride
        if every == 1:
            return self.masses
        found = np.zeros((len(self.masses) - 1) * every + 1)
        found[::every] = self.masses
        return found

    @property
    def halves(self) -> tuple[int, Array, Array]:
        """Every other place, those of more mass, from one at or before the first to one behind the last; the others."""
        before = int(self.masses[1::2].sum() > self.masses[::2].sum())
        after = (len(self.masses) + before + 1) % 2
        masses = np.concatenate([np.zeros(before), self.masses, np.zeros(after)])
        return self.first - before * self.stride, masses[::2].copy(), masses[1::2]


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums of laws on a lattice of ``step``, rounded up or down.

    ``cut``: what a law that occurs once may lose at each end; ``room``: the largest M stride² of coarser places.
    """

    step: Ball
    upward: bool
    cut: float
    room: float

    def sum(self, one: Masses, other: Masses, times: int) -> Masses:
        """Of two; the sum ends up in the whole so many times."""
        stride = min(one.stride, other.stride)
        masses, more = one.stretched(stride), other.stretched(stride)
        error = (min(len(masses), len(more)) + 4) * 2.0 * UNIT
        masses = convolved(masses, more) * (1.0 + error if self.upward else 1.0 - error)
        either = one.infinite + other.infinite * (1.0 - one.infinite)
        small = masses < max(FLOOR, LIGHT * self.cut / times / len(masses))
        if self.upward:  # FLOOR is more than what may have been lost of a product
            either += float(masses[small].sum()) * (1.0 + STEP) + FLOOR * len(masses)
        masses[small] = 0.0
        infinite = min(either * (1.0 + STEP), 1.0) if self.upward else either * (1.0 - STEP)
        below, above = np.cumsum(masses), np.cumsum(masses[::-1])
        begin, end = (int(np.count_nonzero(ends <= self.cut / times)) for ends in (below, above))
        if begin + end >= len(masses):
            begin = end = 0
        kept = masses[begin : len(masses) - end]
        slack = len(masses) * UNIT * (2.0 if self.upward else -2.0)
        low, high = float(below[begin - 1]) if begin else 0.0, float(above[end - 1]) if end else 0.0
        if self.upward:
            kept[0] += low * (1.0 + slack)
            kept[0] *= 1.0 + STEP
            infinite = (infinite + high * (1.0 + slack)) * (1.0 + STEP)
        else:
            kept[-1] += high * (1.0 + slack)
            kept[-1] *= 1.0 - STEP
        return self._coarser(Masses(one.first + other.first + begin * stride, stride, kept, infinite), times)

    def _coarser(self, law: Masses, times: int) -> Masses:
        """On every other place, as long as there is room."""
        while len(law.masses) > FEWEST_PLACES and times * law.stride**2 <= self.room:
            first, kept, others = law.halves
            step = self.step * law.stride
            if self.upward:
                kept[:-1] += others * up(1 / (1 + step.exp())) * (1.0 + STEP)
                kept[1:] += others * up(1 / (1 + (-step).exp())) * (1.0 + STEP)
                kept *= 1.0 + STEP
            else:
                raised = _raised(others.tolist(), up(step.exp()) * (1.0 + STEP), down((-step).exp()) * (1.0 - STEP))
                tilt = -2.0 * math.log(self.cut) / (len(law.masses) * float(step) * math.sqrt(times))
                if float(np.sum(others - 2.0 * raised)) > IDLE * float(step) * (1.0 + tilt):
                    break  # much mass would move down for nothing
                kept[:-1] += others - raised
                kept[1:] += raised
                kept *= 1.0 - STEP
            law = Masses(first, 2 * law.stride, kept, law.infinite)
        return law


def convolved(masses: Array, more: Array) -> Array:
    """Sums of products; of many as products of matrices, which keeps the masses at hand in the processor."""
    if len(masses) * len(more) < DIRECT:
        return np.convolve(masses, more)
    if masses is more and len(masses) > 1:  # what is on either side of the middle, and both together twice
        middle = len(masses) // 2
        low, high = masses[:middle], masses[middle:]
        total = np.zeros(2 * len(masses) - 1)
        total[: 2 * middle - 1] = convolved(low, low)
        total[2 * middle :] = convolved(high, high)
        total[middle : middle + len(masses) - 1] += 2.0 * convolved(low, high)
        return total
    if np.count_nonzero(masses) <= SPARSE * len(masses):
        total = np.zeros(len(masses) + len(more) - 1)
        for place in np.flatnonzero(masses):
            total[place : place + len(more)] += masses[place] * more
        return total
    rows = np.pad(masses, (0, -len(masses) % BLOCK)).reshape(-1, BLOCK)
    found = np.zeros(rows.size + len(more) + BLOCK)
    for begin in range(0, len(more), PIECE):
        piece = np.pad(more[begin : begin + PIECE], BLOCK - 1)
        width = len(piece) - BLOCK + 1
        shifted = np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(piece, width)[::-1])
        for i, row in enumerate(rows @ shifted):
            found[begin + i * BLOCK : begin + i * BLOCK + width] += row
    return found[: len(masses) + len(more) - 1]


def _raised(masses: list[float], grow: float, shrink: float) -> Array:
    """What of each mass goes to its right neighbour (A in the module); the rest (B) goes to the left."""
    count = len(masses)
    found = [0.0] * count
    if grow == math.inf:
        return np.array(found)
    peak = max(range(count), key=masses.__getitem__)
    for i in range(count - 2, peak - 1, -1):
        found[i] = min(masses[i], (masses[i + 1] - found[i + 1]) * shrink)
    for i in range(peak):
        lowered = found[i - 1] * grow if i else 0.0
        if lowered > masses[i]:
            found[i - 1], lowered = masses[i] * shrink, masses[i]
        found[i] = (masses[i] - lowered) * (1.0 - STEP)
    if peak:
        found[peak - 1] = min(found[peak - 1], (masses[peak] - found[peak]) * shrink)
    # Less of any of them keeps B >= e^h A; so little that a product could underflow stays.
    return np.where(np.array(found) > FLOOR, found, 0.0)


def compose(
    uses: Uses, step: Ball, *, negligible: float, upward: bool, exact: int = 0, most: float = math.inf
) -> Composed:
    """The composition, from above or below (see the module).

    ``exact`` of the uses were put on the lattice without an error. Raises ``TooLong`` beyond about ``most`` places.
    """
    laws = [(Masses(part.first, 1, *(part.upper if upward else part.lower)), count) for part, count in uses]
    offset = sum((count * part.offset for part, count in uses), arb(0))
    found = sum_of(laws, step, negligible=negligible, upward=upward, exact=exact, most=most)
    return Composed(found.first, found.stride, found.masses, found.infinite, offset)


def sum_of(
    laws: Sequence[tuple[Masses, int]],
    step: Ball,
    *,
    negligible: float,
    upward: bool,
    exact: int = 0,
    most: float = math.inf,
) -> Masses:
    """``compose`` of masses that are floats, taken as exact."""
    turns = sum(count.bit_length() for _, count in laws)
    room = SHARE * (sum(count for _, count in laws) - exact) / (3.0 * turns)
    sums = _Sums(step, upward, negligible / (2 * turns), room)
    powers: list[Masses] = []
    for one, count in laws:
        law = one
        for turn in range(count.bit_length()):
            if turn:
                if GROWN * len(law.masses) > most:
                    raise TooLong
                law = sums.sum(law, law, count >> turn)
            if count >> turn & 1:
                powers.append(law)
    powers.sort(key=lambda law: (law.stride, len(law.masses)))
    while len(powers) > 1:
        least, more = powers.pop(0), powers.pop(0)
        powers.insert(0, sums.sum(least, more, 1))
        if len(powers[0].masses) > most:
            raise TooLong
    return powers[0]
