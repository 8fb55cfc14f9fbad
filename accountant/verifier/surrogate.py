"""One pair in place of each of very many uses of an exponential mechanism, from above.

Let M turn a convex function G of α into the largest mean of G over one more use (the recursion of
``exponential_samples``; a rate of 1 is no sample). M is monotone, positively homogeneous, subadditive, keeps constants
and commutes with dilations of α. Write w.G for the mean of G(α e^{-L}) with a loss L of law w >= 0; then M(w.G) <=
w.MG. If F lies above the curve of the last m uses and MF <= g w.F + c with g >= 1, induction gives, for T = m + r,
    H_T <= M^r F <= g^r (w^r.F + r c).
So one inequality about one use is enough for all r. It can be narrow where the envelope of one use is not, because F is
smooth: an adversary who adapts gains little against it, and that is made good by a law w that now and then makes none
or several uses, at one or several u, so that its variance and its fourth cumulant are a little larger. Which mixture
has the least moment at the answer's tilt is a linear program over lattice points; any mixture is valid.

The longer F, the less an adversary gains against it: beside what m uses have summed up, one use is small and even. As
g^r (w^r.F + r c) lies above the curve of m + r uses, it serves as the next F.

F is the sum of a block, as a law on the lattice e^{ih}, and of a narrow normal law, which only adds (Jensen) and
smooths the kinks. F is piecewise straight in α, and so is w.F, with kinks on the lattice only; MF is convex. Hence the
inequality at lattice points gives it in between, and left of the first mass all three are straight. At the lattice
points ``exponential_use.raised`` bounds MF.

Rounding. Masses are floats, taken as exact: each sum of products is raised by more than its rounding error, which makes
it the law of a larger F. Scaled up, masses may add up to a little more than 1; nothing above needs them to be 1. Values
of F are sums of positive terms, good to 8 n units for n masses; their upper enclosure goes into M, their lower one into
w.F. The normal law is rounded too, by less than ``SMOOTHED``, by which F is raised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from affidavit.accountant.least_cost import cheapest_shares
from affidavit.accountant.verifier.balls import Array, ball
from affidavit.accountant.verifier.convolve import Masses, convolved, sum_of
from affidavit.accountant.verifier.exponential_use import Indices, Way, raised
from affidavit.accountant.verifier.rounding import FLOOR, STEP, UNIT

__all__ = ["Surrogate", "refined", "surrogate", "values_of"]

SMOOTHED = 2.0**-36
REACH = 8.0
"""Deviations of the normal law that are kept."""
CHOICES, MOST_TIMES = 5, 4
"""Choices that are tried: the best at so many places, and so many others; most uses at once."""
ROWS, ROUNDS, SPARE = 60, 4, 1e-6
"""Of the linear program: inequalities at first, how often more are added, and how much more they ask, in uses, so that
others are met too."""
RESOLVED, FAR = 1e-9, 1e3
"""Where a use moves F by a smaller share, and where F is not so many times its mass on +inf, g and c have to do."""


_NO_USE = Masses(0, 1, np.ones(1), 0.0)


def _moment(law: Masses, tilt: float, step: float) -> float:
    """About E e^{tilt x loss}."""
    return float(law.masses @ np.exp(tilt * step * (law.first + np.arange(len(law.masses)))))


def _both(one: Masses, other: Masses) -> Masses:
    """About the sum of two that are small: any law is valid."""
    return Masses(one.first + other.first, 1, convolved(one.masses, other.masses), 0.0)


def _sum(laws: Sequence[tuple[Masses, int]], step: float, small: float) -> Masses:
    """At least the sum, on the same places."""
    return sum_of(laws, ball(step), negligible=small, upward=True, exact=sum(count for _, count in laws))


class _Function(NamedTuple):
    """Σ m_i (1 - α/α_i)+ + m_inf of a law, at its places, to a relative ``error``; ``top`` is its value at α = 0."""

    law: Masses
    values: Array
    top: float
    error: float

    @classmethod
    def of(cls, law: Masses, step: float) -> _Function:
        fall, rise = math.exp(-step), -math.expm1(-step)
        value = above = 0.0
        values = []
        for mass in law.masses[::-1].tolist():
            value = fall * value + rise * above
            values.append(value + law.infinite)
            above += mass
        return cls(law, np.array(values[::-1]), above + law.infinite, (8.0 * len(values) + 64.0) * UNIT)

    def at(self, low: int, count: int, step: float) -> Array:
        """On places from ``low``: straight on the left, constant on the right."""
        before = self.law.first - low
        after = count - before - len(self.values)
        alpha = np.exp(-step * np.arange(before, 0, -1))
        left = self.top * (1.0 - alpha) + self.values[0] * alpha
        return np.concatenate([left, self.values, np.full(after, self.law.infinite)])


def values_of(law: Masses, step: float) -> Array:
    """At least the curve at places 0, 1, ... to its last."""
    function, low = _Function.of(law, step), min(law.first, 0)
    return function.at(low, law.first + len(law.masses) - low, step)[-low:] * (1.0 + function.error)


class Surrogate(NamedTuple):
    """M F <= (1 + ``growth``) law.F + ``constant``."""

    law: Masses
    growth: float
    constant: float

    def after(self, start: Masses, uses: int, step: float, small: float) -> Masses:
        """At least the curve of F and so many uses before it."""
        whole = _sum([(start, 1), (self.law, uses)], step, small)
        grown = math.exp(self.growth * uses) * (1.0 + 8.0 * STEP)
        return whole._replace(masses=whole.masses * grown, infinite=(whole.infinite + self.constant * uses) * grown)


def refined(block: Masses, step: float, parts: int, small: float) -> Masses:
    """F on a lattice ``parts`` times as fine: a block on one of ``step``, smoothed over a cell of it."""
    masses = np.zeros((len(block.masses) - 1) * parts + 1)
    masses[::parts] = block.masses
    most = math.ceil(REACH * parts)
    x = np.arange(-most, most + 1) / parts
    normal = np.exp(-0.5 * x * x + 0.5 * x * step)
    smooth = Masses(-most, 1, normal / normal.sum() * (1.0 + SMOOTHED), 0.0)
    fine = Masses(block.first * parts, 1, masses, block.infinite * (1.0 + SMOOTHED))
    return _sum([(fine, 1), (smooth, 1)], step / parts, small)


def surrogate(start: Masses, way: Way, step: float, tilt: float, *, taken: float = 1.0) -> Surrogate:
    """A law for each use before ``start``, on the lattice of ``way``; ``taken``: the chance that it is made."""
    function = _Function.of(start, step)
    margin = 2 + max(way.reach)
    low, count = start.first - margin, len(start.masses) + 2 * margin
    reach = MOST_TIMES * margin
    everywhere = function.at(low - reach, count + 2 * reach, step)

    def seen(law: Masses, places: Indices | None = None) -> Array:
        """At most law.F on the places, or on some of them."""
        kept = np.flatnonzero(law.masses)
        if places is None:
            total = np.zeros(count)
            for i in kept:
                begin = reach - law.first - int(i)
                total += law.masses[i] * everywhere[begin : begin + count]
        else:
            total = law.masses[kept] @ everywhere[places[None, :] + (reach - law.first - kept)[:, None]]
        return total * (1.0 - function.error - (len(law.masses) + 8) * 2.0 * UNIT)

    about = everywhere[reach - margin : reach + count + margin] * (1.0 + function.error)
    upper, best = raised(about, count, margin, way)
    upper = (taken * upper + (1.0 - taken) * about[margin : margin + count]) * (1.0 + STEP)
    none = seen(_NO_USE)
    centre = margin + int(np.argmax(start.masses))
    law = once = _one_choice(way, int(best[centre]), taken)
    near = none > FAR * start.infinite
    error = 4.0 * (function.error + STEP * (count + 64))
    gain = seen(_both(once, once)) - seen(once)
    asked = np.flatnonzero(near & (gain > RESOLVED * none))
    if len(asked):
        cuts = {int(best[i]) for i in (centre, *np.linspace(asked[0], asked[-1], CHOICES).astype(int))}
        cuts.update(np.linspace(0, len(way.chance_down) - 1, CHOICES + 2)[1:-1].astype(int).tolist())
        cuts.add(_largest_moment(way, tilt * step))
        laws = [_NO_USE, *(_one_choice(way, cut, taken) for cut in cuts)]
        laws += [_both(one, other) for i, one in enumerate(laws[1:]) for other in laws[i + 1 :]]
        power = _both(once, once)
        for _ in range(2, MOST_TIMES):
            power = _both(power, once)
            laws.append(power)

        def rise(law: Masses, places: Indices) -> Array:
            return (seen(law, places) - none[places]) / gain[places]

        cost = np.array([_moment(law, tilt, step) - 1.0 for law in laws])
        needed = upper * (1.0 - error)
        rows = asked[np.unique(np.linspace(0, len(asked) - 1, ROWS).astype(int))]
        for _ in range(ROUNDS):
            need = (needed[rows] - none[rows]) / gain[rows] + SPARE
            law = _mixed(laws, cheapest_shares(np.array([rise(law, rows) for law in laws]), need, cost))
            missing = (needed - seen(law))[asked] / gain[asked]
            worst = np.setdiff1d(asked[np.argsort(missing)[-ROWS:]], rows)
            if missing.max() <= 0.0 or not len(worst):
                break
            rows = np.union1d(rows, worst)
    mixed = seen(law)
    growth = float(np.max(upper[near] / mixed[near], initial=1.0)) * (1.0 + STEP) - 1.0
    constant = float(np.max((upper - mixed)[~near], initial=0.0)) * (1.0 + STEP) + FLOOR
    return Surrogate(law, growth, constant)


def _mixed(laws: list[Masses], weights: Array) -> Masses:
    """One of them at random; any weights are valid."""
    first = min(law.first for law in laws)
    masses = np.zeros(max(law.first + len(law.masses) for law in laws) - first)
    for part, weight in zip(laws, weights, strict=True):
        masses[part.first - first : part.first - first + len(part.masses)] += weight * part.masses
    return Masses(first, 1, masses, 0.0)


def _largest_moment(way: Way, tilt: float) -> int:
    """About the best cut where the function is α^-tilt, in units of the lattice."""
    near, far = (np.expm1(-tilt * (look.at + look.share)) for look in (way.near, way.far))
    return int(np.argmax(way.fine.chance[:, 0] * near + way.fine.other[:, 0] * far))


def _one_choice(way: Way, cut: int, taken: float) -> Masses:
    """One use with u at a cut; a loss between two places is split between them."""
    atoms = {0: 1.0 - taken}
    for look, mass in ((way.near, way.fine.chance[cut, 0]), (way.far, way.fine.other[cut, 0])):
        at, share = int(look.at[cut]), float(look.share[cut])
        for place, part in ((-at, 1.0 - share), (-at - 1, share)):
            atoms[place] = atoms.get(place, 0.0) + taken * float(mass) * part
    first = min(atoms)
    masses = np.zeros(max(atoms) - first + 1)
    for place, mass in atoms.items():
        masses[place - first] = mass
    return Masses(first, 1, masses, 0.0)
