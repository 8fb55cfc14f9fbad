r"""One pair on a uniform loss lattice l = offset + i h, from above and from below, in balls.

Upper side: connect the dots (Doroshenko et al. 2022, Theorem 4.1). Between lattice losses a < b the
masses (P, Q) of the interval are split between its ends so that both are kept: the right end gets
(P - e^a Q)/(1 - e^{-h}). That replaces the hockey-stick curve between the lattice points by its chord, which lies
above it. Mass above the lattice becomes +inf, mass below it moves up to its lowest point.

Lower side: a post-processing. Atoms on the lattice are groups of their own. Cut the other losses
into cells around the lattice points, a little below centre, so that the ratio P/Q of each cell is a
little below e^l. Going up, the group of lattice point l gets what is left of its own cell and just so
much of the next one (or ones, where they are light) as makes its ratio e^l. Groups are (randomised)
functions of the outcome, so their pair is dominated by (P, Q) (data processing), and both sides are
O(h²) from the truth. What is left at the upper end goes to a lattice point below its loss, which only
lowers every hockey-stick. A pair whose loss is bounded above (``Reversed``) is grouped from the
other end: it is the mirror image of the groups of its reverse, losses negated and P and Q exchanged.

A lattice that begins just below a heavy loss (``anchors``) meets it from the safe side: mass p at a loss l' <= l has
more Q-mass, which lowers every hockey-stick. In the mirror image, P and Q exchanged, Q is kept and P is enlarged.

Everything is an enclosure of exact real masses, and a lattice mass p has Q-mass e^{-l} p exactly. A Gaussian's cells
are integrated in float64 instead, each mass rounded to its side (``gaussian_cells``), unless they are wide, and so few.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from flint import arb

from affidavit.accountant.verifier.balls import Array, Ball, ball, down, up
from affidavit.accountant.verifier.gaussian_cells import grouped, places, split
from affidavit.accountant.verifier.noises import DiscretePair
from affidavit.accountant.verifier.pairs import (
    Diluted,
    Finite,
    GaussianPair,
    LaplacePair,
    Mixed,
    Pair,
    Reflected,
    Reversed,
)
from affidavit.accountant.verifier.product import Atoms, Tails

__all__ = ["LEAST", "LatticeMasses", "anchors", "from_above", "from_below", "on_grid", "reach"]

TINY = 1e-12
HALVINGS = 8
"""Of how far the least loss of weight is from 0 where all of them are positive."""
ALMOST = 1e-6
"""How far from its place an atom may be, on the safe side, in units of the spacing."""
NEARLY = 1e-9
"""Mass that may be left out, relative to what it is taken from: n uses lose n times as much of δ."""
LEAST = 1e-6
"""Mass at the lower end of all uses that is of no weight."""
BELOW_CENTRE = 0.03
"""How far cells are moved down, in units of the spacing; must exceed the drift of a cell's ratio, O(h)."""
JUST = 2.0**-40
"""How far below a heavy loss its place is, relative to the gap: far enough to tell them apart."""

ZERO = arb(0)


@dataclass(frozen=True)
class LatticeMasses:
    """P-masses at losses (first + i) * spacing + offset, and the mass on +inf; floats are rounded to their side."""

    first: int
    masses: tuple[Ball, ...] | Array
    infinite: Ball
    offset: Ball = ZERO

    @cached_property
    def upper(self) -> tuple[Array, float]:
        """All masses as floats in [0, 1], rounded up; what is not finite says nothing."""
        return self._rounded(up)

    @cached_property
    def lower(self) -> tuple[Array, float]:
        """All masses as floats in [0, 1], rounded down."""
        return self._rounded(down)

    def _rounded(self, away: Callable[[Ball], float]) -> tuple[Array, float]:
        masses = self.masses if isinstance(self.masses, np.ndarray) else np.array([away(mass) for mass in self.masses])
        return np.clip(masses, 0.0, 1.0), min(max(away(self.infinite), 0.0), 1.0)


def anchors(pair: Pair) -> tuple[Ball, Ball | None]:
    """Where a lattice of the pair should begin, just below a heavy loss, and how far the next heavy one is away.

    Two losses on a sample are two again; a Gaussian's lie in a heap beside log(1 - γ).
    """
    match pair:
        case Diluted(on_sample=LaplacePair(width=width)):
            return ZERO, width
        case Mixed() | Reversed():
            sign = -1 if isinstance(pair, Reversed) else 1
            if any(atom.loss.is_zero() for atom in pair.on_sample.atoms):
                return ZERO, None
            ends = _ends(pair.on_sample, pair.rate)
            if ends is None:
                return sign * (-pair.rate).log1p() - pair.rate * JUST, None
            gap = ends[1] - ends[0]
            return sign * ends[0] - gap * JUST, gap
        case Finite(product=Atoms(losses=losses)) if len(losses) > 1 and type(pair) is Finite:
            gap = losses[-2] - losses[-1]
            even = all(abs(one - other - gap) < gap / 2**40 for one, other in pairwise(losses))
            return (losses[-1] - gap * JUST, gap) if even else (ZERO, None)
    return ZERO, None


def _ends(on_sample: Pair, rate: Ball) -> tuple[Ball, Ball] | None:
    """The two heavy losses of a mixture."""
    match on_sample:
        case LaplacePair(width=width):
            inner = -width, width
        case Finite(product=Atoms(losses=(most, least))):
            inner = least, most
        case _:
            return None
    least, most = ((rate * loss.expm1()).log1p() for loss in inner)
    return least, most


def _index(loss: Ball, step: Ball) -> int:
    return int(float((loss / step).floor().mid()))


def reach(pair: Pair, negligible: float, light: float = 0.0) -> tuple[float, float]:
    """Losses between which all but about ``negligible`` of P lies (a search: sizes lattices only).

    Below them there may be ``light``, which goes up to the lowest place (above) or is left out (below).
    """
    finite = pair.finite

    def above(loss: float) -> bool:
        return float(pair.above(arb(loss))[0] - pair.infinite) <= negligible

    def below(loss: float) -> bool:
        return float(finite - pair.above(arb(loss))[0]) <= max(negligible, light)

    top = _edge(above, 1.0)
    low = _closer(below, 0.0, top, HALVINGS) if below(0.0) else _edge(below, -1.0)
    return (low if pair.bottom is None else max(low, float(pair.bottom))), top


def _edge(beyond: Callable[[float], bool], loss: float) -> float:
    """A loss of the given sign that is beyond, but not by more than about a tenth."""
    while not beyond(loss):
        loss *= 2.0
    while abs(loss) > TINY and beyond(loss / 2):
        loss /= 2.0
    return _closer(beyond, loss, loss / 2, 4)


def _closer(beyond: Callable[[float], bool], loss: float, inner: float, halvings: int) -> float:
    """The loss, which is beyond, moved towards one that is not."""
    for _ in range(halvings):
        middle = (inner + loss) / 2
        inner, loss = (inner, middle) if beyond(middle) else (middle, loss)
    return loss


def from_above(pair: Pair, step: Ball, low: float, high: float, offset: Ball = ZERO) -> LatticeMasses:
    """A pair at losses i step + ``offset`` that dominates ``pair``; ``low``, ``high`` as from ``reach``."""
    first, last = _index(low - offset, step) - 1, _index(high - offset, step) + 1
    if isinstance(pair, GaussianPair) and offset.is_zero():
        mu = up(pair.mu)
        found = split(mu, places(mu, step, first, last, upward=False))
        if found is not None:
            return LatticeMasses(first, found[0], arb(found[1]))
    losses = [i * step + offset for i in range(first, last + 1)]
    tails = _tails(pair, step, first, last) if isinstance(pair, Reflected) else [pair.above(loss) for loss in losses]
    masses = [arb(0)] * len(losses)
    masses[0] = 1 - tails[0][0]
    shrink = 1 - (-step).exp()
    for i in range(len(losses) - 1):
        p, q = _between(tails[i], tails[i + 1])
        right = (p - losses[i].exp() * q) / shrink
        masses[i] += p - right
        masses[i + 1] += right
    return LatticeMasses(first, tuple(masses), tails[-1][0], offset)


def _tails(pair: Reflected, step: Ball, first: int, last: int) -> list[Tails]:
    """``above`` at lattice points, from the positive ones."""
    if first >= 0:
        return [pair.above(i * step) for i in range(first, last + 1)]
    right = [pair.above(i * step) for i in range(max(-first, last) + 1)]
    return [(1 - right[-i][1], 1 - right[-i][0]) for i in range(first, 0)] + right[: last + 1]


def on_grid(pair: DiscretePair, parts: int, *, upward: bool) -> LatticeMasses:
    """A discrete Gaussian on the lattice of spacing (its own spacing)/parts, as it is."""
    first, last = pair.shift - pair.reach, pair.shift + pair.reach
    tails = [pair.tail(x - pair.shift) for x in range(first - 1, last + 1)]
    masses = [arb(0)] * ((last - first) * parts + 1)
    for i, (lower, upper) in enumerate(pairwise(tails)):
        masses[i * parts] = (lower - upper).nonnegative_part()
    if upward:
        masses[0] += 1 - tails[0]
    offset = -ball(pair.spacing * pair.shift / 2)
    return LatticeMasses(first * parts, tuple(masses), tails[-1] if upward else arb(0), offset)


def _between(lower: Tails, upper: Tails) -> Tails:
    return lower[0] - upper[0], lower[1] - upper[1]


def from_below(pair: Pair, step: Ball, low: float, high: float, offset: Ball = ZERO) -> LatticeMasses:
    """A pair at losses i step + ``offset`` that ``pair`` dominates."""
    if isinstance(pair, Reversed):
        first, masses, (p, q) = _grouped(
            Mixed(pair.on_sample.reverse(), pair.rate), step, -high, -low, -offset, mirrored=True
        )
        ceiling = ((first + len(masses) - 1) * step - offset).exp()
        if p <= ceiling * q:
            masses[-1] += ceiling * q
        mirrored = [mass * (offset - (first + i) * step).exp() for i, mass in enumerate(masses)]
        return LatticeMasses(-(first + len(masses) - 1), tuple(reversed(mirrored)), arb(0), offset)
    if isinstance(pair, GaussianPair) and offset.is_zero():
        mu, first = down(pair.mu), _index(low, step) - 1
        found = grouped(mu, places(mu, step, first, _index(high, step) + 1, upward=True)) if mu > 0.0 else None
        if found is not None:
            return LatticeMasses(first, found, arb(0))
    first, masses, left = _grouped(pair, step, low, high, offset)
    for i in range(len(masses) - 1, -1, -1):
        if left[0] >= ((first + i) * step + offset).exp() * left[1]:
            masses[i] += left[0]
            break
    return LatticeMasses(first, tuple(masses), pair.infinite, offset)


def _grouped(
    pair: Pair, step: Ball, low: float, high: float, offset: Ball, *, mirrored: bool = False
) -> tuple[int, list[Ball], Tails]:
    """The groups' P-masses on the lattice points from the first one up, and what is left above.

    Loss +inf is a group of its own, left out here; losses below the first cell are left out, but belong to it in the
    mirror image, where they are large ones. Where rounding keeps a group's ratio from being e^l, P is brought down to
    e^l Q; for the mirror image, of which Q is the P, the ratio is at most e^l instead, and Q is brought down.
    """
    first, last = _index(low - offset, step) - 1, _index(high - offset, step) + 1
    edge = step * (0.5 - BELOW_CENTRE) + offset
    atoms = {
        place: atom
        for atom in pair.atoms
        if (place := _place(atom.loss - offset, step, mirrored=mirrored)) is not None and first <= place <= last
    }
    tails = []
    for i in range(first - 1, last + 1):
        p, q = pair.above(i * step + edge)
        p = p - pair.infinite
        for place, atom in atoms.items():
            if place > i:
                p, q = p - atom.mass, q - atom.mass * (-atom.loss).exp()
        tails.append((p, q))
    whole = sum((atom.mass for atom in atoms.values()), arb(0))
    whole_q = sum((atom.mass * (-atom.loss).exp() for atom in atoms.values()), arb(0))
    grown = [(i * step + offset).exp() for i in range(first, last + 1)]
    masses = [arb(0)] * len(grown)
    for place, atom in atoms.items():  # Q-mass is kept where the pair is turned, P-mass otherwise
        masses[place - first] += atom.mass * (place * step + offset - atom.loss).exp() if mirrored else atom.mass
    if mirrored:
        tails[0] = 1 - pair.infinite - whole, 1 - whole_q
    share, cell = arb(1), _between(tails[0], tails[1])
    target = 0
    for i, (lower, upper) in enumerate(pairwise(tails[1:]), start=1):
        above = _between(lower, upper)
        lacking = share * (grown[target] * cell[1] - cell[0])
        if not mirrored and lacking < 0 and -lacking <= NEARLY * share * cell[0]:  # as good as at its place
            masses[target] += share * grown[target] * cell[1]
            share, cell, target = arb(1), above, i
            continue
        while (not lacking >= 0 if mirrored else lacking < 0) and target < i:
            target += 1
            lacking = share * (grown[target] * cell[1] - cell[0])
        surplus = above[0] - grown[target] * above[1]
        # Rounded to an exact number, by which errors do not travel upwards.
        taken = lacking.nonnegative_part() / surplus if surplus > 0 else arb.nan()
        taken = taken.nonnegative_part().lower() if mirrored else taken.upper()
        if lacking < 0 or (mirrored and not lacking >= 0) or not taken <= 1:
            share, cell = arb(1), (share * cell[0] + above[0], share * cell[1] + above[1])
            continue
        group = share * cell[0] + taken * above[0], share * cell[1] + taken * above[1]
        masses[target] += group[0] if mirrored else grown[target] * group[1]
        share, cell, target = 1 - taken, above, i
    return first, masses, (share * cell[0], share * cell[1])


def _place(loss: Ball, step: Ball, *, mirrored: bool) -> int | None:
    """The lattice index of a loss, if it is on the lattice or just above (``mirrored``: just below)."""
    cells = loss / step
    index = cells.unique_fmpz()
    if index is None:
        index = (cells.ceil() if mirrored else cells.floor()).unique_fmpz()
        if index is None or not abs(cells - index) <= ALMOST:
            return None
    return int(index)
