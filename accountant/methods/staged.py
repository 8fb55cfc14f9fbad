"""An explicit strategy for many exponential uses of one range: t is chosen anew at a few times only.

How the best t of ``recursion`` depends on x = ε − (losses so far) matters where few uses are still to come. So the last
ones are the recursion's, and before them one t, chosen by x, serves for each of a few longer stages. r uses of t lose
r(t − η) + iη, i binomial. With t = t_0 + jη/(Cr), j = …, −1, 0, 1, …, all that is on a lattice of spacing η/C, shifted
by r(t_0 − η), so values and slopes at lattice points become those of one stage more by sums over i, without a chord.
The lattices are shifted so that the last one begins at 0; left of a lattice stands 1 − α, right of it 0.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from affidavit.accountant.methods.discrete import DiscreteProfile, tangent_profile

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    Array = NDArray[float64]

__all__ = ["staged_profile"]

CELLS = 4
"""C above."""
LONGER = 1.5
"""About the uses from a stage on, to those behind it."""
BESIDE = (-2.0, -1.0, 0.0, 1.0, 2.0)
"""Where x may be, in deviations, at the begin of a stage: the best t at each is tried."""
ABOVE, AROUND = 9.0, 6.0
"""Deviations of the whole loss: how far the lattice reaches beyond about the answer, and to both sides on the way."""
RARE = 1e-22
"""Of the likeliest i: less is left out."""
SHIFTED = 1e-9
"""More than what rounding may have moved a lattice by, in spacings."""


class _Lattice(NamedTuple):
    """Values and slopes −α dH/dα at x = (first + n + shift) × spacing, 0 <= shift < 1."""

    first: int
    shift: float
    rows: Array

    def at(self, first: int, last: int, spacing: float) -> Array:
        """At points ``first`` to ``last``."""
        import numpy as np

        x = np.minimum((np.arange(first, self.first) + self.shift) * spacing, 0.0)
        begin, end = max(0, first - self.first), max(0, last + 1 - self.first)
        right = np.zeros((2, max(0, end - self.rows.shape[1])))
        return np.hstack((np.stack((-np.expm1(x), np.exp(x))), self.rows[:, begin:end], right))


def staged_profile(eta: float, uses: int, last: DiscreteProfile, behind: int, *, tilt: float) -> DiscreteProfile:
    """A profile that a strategy for ``uses`` of range ``eta`` reaches, ``last`` that of its last ``behind`` uses.

    ``tilt``: about −d ln δ/dε at the answer, where the strategy is good.
    """
    import numpy as np

    spacing, drift = eta / CELLS, eta * eta / 8.0 * (1.0 + 2.0 * tilt)
    deviation = 0.5 * eta * math.sqrt(uses)
    top, around = drift * uses + ABOVE * deviation, AROUND * deviation + eta
    stages = max(1, round(math.log(uses / behind) / math.log(LONGER)))
    counts = sorted({round(behind * (uses / behind) ** (n / stages)) for n in range(stages + 1)})
    centre = _best(eta, tilt)
    # In spacings; what is subtracted here is added stage by stage.
    shift = sum(((after - before) * (centre - CELLS)) % 1.0 for before, after in pairwise(counts))
    lattice = _begun(last, math.floor(-around / spacing), top * behind / uses + around, -shift % 1.0, spacing)
    for before, after in pairwise(counts):
        spread = 0.5 * eta * math.sqrt(after) / math.sqrt(1.0 - after / (uses + 1.0))
        times = [_best(eta, tilt + deviations / spread) for deviations in BESIDE]
        ends = math.floor(-around / spacing), math.ceil((top * after / uses + around) / spacing)
        if after == uses:
            ends = 0, math.ceil(top / spacing)
        lattice = _stage(lattice, eta, after - before, centre, times, ends)
    # The end lies at 0 but for rounding: to the left of it, where less is said.
    rest = min(lattice.shift, lattice.shift - 1.0, key=abs)
    points: Array = np.arange(lattice.rows.shape[1], dtype=np.float64) + (lattice.first + rest - SHIFTED)
    return tangent_profile(points * spacing, *lattice.rows)


def _best(eta: float, tilt: float) -> float:
    """About the t of the largest E[e^{θL}] at θ = ``tilt``, in spacings: u = θ(E − E^{−θ})/((1 + θ)(1 − E^{−θ}))."""
    theta = max(tilt, -0.9)
    if abs(theta) < 1e-9:
        theta = 1e-9
    logs = eta + math.log(-math.expm1(-(1.0 + theta) * eta)) - math.log1p(theta)
    share = (logs + math.log(theta / -math.expm1(-theta * eta))) / eta
    return CELLS * min(max(share, 0.05), 0.95)


def _begun(last: DiscreteProfile, first: int, top: float, shift: float, spacing: float) -> _Lattice:
    import numpy as np

    x = (np.arange(first, math.ceil(top / spacing) + 1) + shift) * spacing
    above = np.searchsorted(last.losses, x, side="right")
    sums = np.cumsum(np.stack((last.masses, last.masses * np.exp(-last.losses)))[:, ::-1], axis=1)[:, ::-1]
    masses, weights = np.append(sums, np.zeros((2, 1)), axis=1)
    slopes = weights[above] * np.exp(np.minimum(x, last.losses[-1]))
    return _Lattice(first, shift, np.stack((np.maximum(masses[above] - slopes, 0.0), slopes)))


def _binomial(uses: int, chance: float) -> tuple[int, Array]:
    """The first i, and the probabilities from there on."""
    import numpy as np

    mode, odds = min(uses, int((uses + 1) * chance)), chance / (1.0 - chance)
    up, down = np.arange(mode, uses, dtype=np.float64), np.arange(mode, 0, -1, dtype=np.float64)
    above = np.cumprod(odds * (uses - up) / (up + 1.0))
    below = np.cumprod(down / (odds * (uses + 1.0 - down)))
    above, below = above[above > RARE], below[below > RARE]
    every = np.concatenate((below[::-1], [1.0], above))
    return mode - len(below), every / every.sum()


def _stage(
    lattice: _Lattice, eta: float, uses: int, centre: float, times: list[float], ends: tuple[int, int]
) -> _Lattice:
    """After ``uses`` more at the best of ``times`` for each x, at points from the one of ``ends`` to the other."""
    import numpy as np

    spacing, count = eta / CELLS, ends[1] - ends[0] + 1
    found = np.zeros((2, count))
    moved = lattice.shift + (uses * (centre - CELLS)) % 1.0
    whole = math.floor(uses * (centre - CELLS)) + math.floor(moved)
    for j in sorted({round((time - centre) * uses) for time in times}):
        t = (centre + j / uses) * spacing
        least, chances = _binomial(uses, math.exp(t) * math.expm1(eta - t) / math.expm1(eta))
        most = least + len(chances) - 1
        first, last = ends[0] - whole - j - CELLS * most, ends[1] - whole - j - CELLS * least
        rows = lattice.at(first, last, spacing)
        tried = np.empty((2, count))
        for side in (0, 1):
            for residue in range(CELLS):
                tried[side, residue::CELLS] = np.convolve(rows[side, residue::CELLS], chances, "valid")
        better = tried[0] > found[0]
        found[:, better] = tried[:, better]
    return _Lattice(ends[0], moved - math.floor(moved), found)
