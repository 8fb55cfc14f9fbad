r"""One law above each of very many uses of an exponential mechanism, on fresh Poisson samples or not.

Let M take a function G of α to what one more use makes of it (``recursion``; a rate of 1 is no sample): the
largest E_Q[m G(α/m)], or E_Q[G(αm)], over the worst pairs. M is monotone, commutes with a change of α's unit, keeps
constants, and M(G + G′) <= MG + MG′. So for a law w of losses, w∗G(α) = Σ w_i G(α e^{−l_i}), M(w∗G) <= w∗MG.

**Theorem.** If F >= H_m and MF <= (1 + ρ) w∗F + c, then H_{m+r} <= (1 + ρ)^r (w^{∗r}∗F + rc).

*Proof.* By induction M^r F <= (1 + ρ)^r (w^{∗r}∗F + rc): one use more makes of the right side at most
(1 + ρ)^r (w^{∗r}∗MF + rc) <= (1 + ρ)^{r+1} (w^{∗(r+1)}∗F + (r + 1)c). And H_{m+r} = M^r H_m <= M^r F. ∎

The pointwise largest curve of one use is such a w for every F, and a loose one: it stands for a choice at every kink of
(1 − α)₊. F = H_m has no kinks. Where it falls like a normal tail, with z deviations and m uses behind it, adapting
gains a share z²/(9m) of a use's variance, and a law w that now and then makes two uses, or none, pays for that with a
little more variance and kurtosis. So w is a mixture of none, one use at one of several t, and two or more at once: that
of the least moment at the answer's tilt, by a linear program over F's lattice points.

(1 + ρ)^r (w^{∗r}∗F + rc) lies above H_{m+r}, so the sum w^{∗r}∗F is the next F, the factor and rc being charged in the
end: the uses are added in *stages*. The longer F, the closer is w to the best single choice. That matters where the two
losses of a use are very unequal, as at ranges of 3 and more.

F is a block of uses, with the largest curve of the recursion, and a narrow normal pair that smooths the kinks of its
lattice. F and w lie on one fine lattice. There the recursion's upper side bounds MF at each point;
between points MF is convex and w∗F straight in α, beyond the last mass both are straight. So the inequality is checked
at finitely many points, whatever the mixture: a bad choice costs width, never validity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate, combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.least_cost import cheapest_shares
from affidavit.accountant.methods.discrete import DiscreteProfile
from affidavit.accountant.methods.recursion import OneMore
from affidavit.accountant.methods.sampled_use import SampledUse
from affidavit.accountant.rounding import UNIT

__all__ = ["Bound", "Law", "Start", "law_above", "longer", "start_of"]

Array = NDArray[np.float64]

FINE = 32
"""Lattice points to the deviation of one use."""
CUTS, MOST_TIMES = 5, 4
"""Choices of t that are mixed: the best at so many places, and so many others; most uses at once."""
FEW, ROUNDS, SPARE = 80, 4, 1e-6
"""Needs of the linear program, how often the worst are added, and what is asked beyond them, in uses, so that others
are met too."""
REACH = 8.0
"""Deviations of the smoothing pair that are kept."""
FAR = 1e3
"""Values of F, in units of its mass at +∞, up to which c covers what ρ does not: F ends there."""
NEGLIGIBLE, NOISES = 1e-9, 1e4
"""Left of the centre, where F is nearly straight, a use's effect is lost in the rounding of F: ρ covers it. The second
in units of the rounding that is added."""


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """P-masses of losses ``spacing`` × (``first`` + i), and ``infinite`` at +∞; they add up to 1."""

    spacing: float
    first: int
    masses: Array
    infinite: float

    def losses(self) -> Array:
        """In nats."""
        losses: Array = np.arange(self.first, self.first + len(self.masses), dtype=np.float64) * self.spacing
        return losses

    def trimmed(self, small: float) -> Law:
        """The last mass of ``small`` to +∞, the first up to the least loss that is kept: a law above."""
        above = np.cumsum(self.masses[::-1])[::-1]
        last = int(np.count_nonzero(above > small))
        below = np.cumsum(self.masses)
        first = min(int(np.count_nonzero(below <= small)), last - 1)
        masses = self.masses[first:last].copy()
        infinite = self.infinite + (float(above[last]) if last < len(above) else 0.0)
        masses[0] = max(0.0, 1.0 - infinite - float(masses[1:].sum()))
        return Law(self.spacing, self.first + first, masses, infinite)


class Start(NamedTuple):
    """F: as a law, as values and slopes −α dF/dα at its lattice points, and the relative error of the values."""

    law: Law
    values: Array
    slopes: Array
    error: float


class Bound(NamedTuple):
    """MF <= (1 + ``growth``) w∗F + ``constant``."""

    law: Law
    growth: float
    constant: float


def start_of(use: SampledUse, block: DiscreteProfile, spacing: float, *, small: float) -> Start:
    """A block, whose losses lie on a lattice; mass of about ``small`` goes to +∞."""
    chance, near, far = (float(part[0]) for part in use.pair(np.array([0.5 * use.eta])))
    parts = max(1, round(spacing * FINE / (abs(near - far) * math.sqrt(chance * (1.0 - chance)))))
    law = _on_lattice(block, spacing)
    masses = np.zeros((len(law.masses) - 1) * parts + 1)
    masses[::parts] = law.masses
    fine = Law(spacing / parts, law.first * parts, masses, law.infinite)
    smooth = _sum(fine, _normal(fine.spacing, spacing)).trimmed(small)
    return Start(smooth, *_curve(smooth))


def longer(start: Start, law: Law, uses: int, small: float) -> Start:
    """The sum of ``start`` and so many of ``law``."""
    total, power = start.law, law
    small /= 100.0 * uses  # what a power sends to +∞ is there in every copy of it
    while uses:
        if uses & 1:
            total = _sum(total, power).trimmed(small)
        uses >>= 1
        power = _sum(power, power).trimmed(small) if uses else power
    return Start(total, *_curve(total))


def law_above(use: SampledUse, start: Start, *, tilt: float) -> Bound:
    """w, ρ and c for each use more after ``start``: w of least moment at ``tilt``, about −d ln δ/dε at the answer."""
    law, h = start.law, start.law.spacing
    centre = int(np.argmax(law.masses))
    deviation = math.sqrt(float(law.masses @ (law.losses() - law.losses()[centre]) ** 2))
    one = OneMore(use, h, slope=REACH / deviation)
    cuts, margin = one.cuts, one.cuts.margin
    low, points = law.first - margin, len(law.masses) + 2 * margin
    lines = _continued(start, low - margin, points + 2 * margin)
    # Without a sample the bound is not about a choice; all its rounding is such as to hide a use's effect.
    found_best = cuts.best(lines) if use.rate < 1.0 else np.empty(0, dtype=np.int64)
    noise = one.rounding if use.rate == 1.0 else 0.0
    upper = one.upper(lines[0], low - margin, found_best)
    alone = Law(h, *cuts.law(cuts.best_at(lines, centre + margin)), 0.0)
    none = lines[0, margin:-margin]
    once = _applied(alone, start, low, points)
    slack = 2.0 * (start.error + one.rounding + 1e3 * UNIT)
    far = none <= FAR * law.infinite
    gain = _applied(_sum(alone, alone), start, low, points) - once
    kept = np.flatnonzero((gain > max(NEGLIGIBLE, NOISES * noise) * none) & ~far)
    mixed = alone
    if len(kept):
        chosen = {cuts.best_at(lines, int(place)) for place in kept[np.linspace(0, len(kept) - 1, CUTS).astype(int)]}
        chosen.update(np.linspace(0, len(cuts.times) - 1, CUTS + 2)[1:-1].astype(int).tolist())
        chosen.add(int(np.abs(cuts.times - use.best_share(tilt) * use.eta).argmin()))
        single = [Law(h, *cuts.law(cut), 0.0) for cut in sorted(chosen)]
        tried = [Law(h, 0, np.ones(1), 0.0), alone, *single, *(_sum(*pair) for pair in combinations(single, 2))]
        many = alone
        for _ in range(MOST_TIMES - 1):
            many = _sum(many, alone)
            tried.append(many)
        less = max(0.0, max(tilt * float(np.max(each.losses())) for each in tried) - 600.0)
        cost = np.array(
            [float(each.masses @ (np.expm1(tilt * each.losses() - less) - math.expm1(-less))) for each in tried]
        )
        needs = upper / (1.0 + 2.0 * slack) - none
        asked = kept[:: max(1, len(kept) // FEW)]
        for _ in range(ROUNDS):
            effects = [(_applied_at(each, start, low + asked) - none[asked]) / gain[asked] for each in tried]
            mixed = _at_random(tried, cheapest_shares(np.stack(effects), needs[asked] / gain[asked] + SPARE, cost))
            short = (needs + none - _applied(mixed, start, low, points))[kept] / gain[kept]
            if short.max() <= 0.0:
                break
            worst = kept[np.argpartition(short, -min(FEW, len(kept)))[-min(FEW, len(kept)) :]]
            asked = np.union1d(asked, worst)
    found = _applied(mixed, start, low, points)
    growth = float(np.max(upper[~far] / found[~far], initial=1.0)) - 1.0 + slack
    constant = float(np.max(upper[far] - found[far], initial=0.0)) + slack * float(np.max(upper[far], initial=0.0))
    return Bound(mixed, growth, constant)


def _at_random(laws: list[Law], shares: Array) -> Law:
    lowest, highest = min(law.first for law in laws), max(law.first + len(law.masses) for law in laws)
    masses = np.zeros(highest - lowest)
    for law, share in zip(laws, shares, strict=True):
        masses[law.first - lowest : law.first - lowest + len(law.masses)] += share * law.masses
    return Law(laws[0].spacing, lowest, masses, 0.0)


def _on_lattice(block: DiscreteProfile, spacing: float) -> Law:
    places = np.round(block.losses / spacing).astype(np.int64)
    masses = np.zeros(int(places[-1] - places[0]) + 1)
    np.add.at(masses, places - places[0], block.masses)
    masses[0] += max(0.0, 1.0 - block.infinite - float(masses.sum()))
    return Law(spacing, int(places[0]), masses, block.infinite)


def _sum(one: Law, other: Law) -> Law:
    masses = np.convolve(one.masses, other.masses)
    return Law(one.spacing, one.first + other.first, masses, one.infinite + other.infinite)


def _normal(spacing: float, deviation: float) -> Law:
    """P-masses as of a normal loss of mean half its variance, on the lattice; Q's are its mirror."""
    most = math.ceil(REACH * deviation / spacing)
    x = np.arange(-most, most + 1) * spacing
    masses = np.exp(-0.5 * (x / deviation) ** 2 + 0.5 * x)
    return Law(spacing, -most, masses / masses.sum(), 0.0)


def _curve(law: Law) -> tuple[Array, Array, float]:
    """Values and slopes at the law's places, and the relative error of the values: sums of positive terms."""
    shrink, share = math.exp(-law.spacing), -math.expm1(-law.spacing)
    above = np.append(np.cumsum(law.masses[:0:-1])[::-1], 0.0)
    found = np.array(list(accumulate((share * above[::-1]).tolist(), lambda sum_, term: shrink * sum_ + term)))[::-1]
    return law.infinite + found, above - found, 8.0 * len(above) * UNIT


def _continued(start: Start, low: int, points: int) -> Array:
    """Values and slopes on ``points`` points from ``low``: straight in α on the left, constant on the right."""
    law = start.law
    result = np.zeros((2, points))
    before, inside = law.first - low, len(law.masses)
    alpha = np.exp((np.arange(low, law.first) - law.first) * law.spacing)
    fall = (1.0 - start.values[0]) * alpha
    result[:, :before] = 1.0 - fall, fall
    result[:, before : before + inside] = start.values, start.slopes
    result[0, before + inside :] = law.infinite
    return result


def _applied_at(law: Law, start: Start, places: NDArray[np.intp]) -> Array:
    """w∗F at some places."""
    own = start.law
    kept = np.flatnonzero(law.masses)
    at = places[None, :] - (law.first + kept)[:, None]
    alpha = np.exp(np.minimum(at - own.first, 0) * own.spacing)
    inside = np.clip(at - own.first, 0, len(own.masses) - 1)
    values = np.where(at < own.first, 1.0 - (1.0 - start.values[0]) * alpha, start.values[inside])
    values[at > own.first + len(own.masses) - 1] = own.infinite
    found: Array = law.masses[kept] @ values
    return found


def _applied(law: Law, start: Start, low: int, points: int) -> Array:
    """w∗F on ``points`` points from ``low``: a sum of positive terms."""
    last = law.first + len(law.masses) - 1
    values = _continued(start, low - last, points + last - law.first)[0]
    result = np.zeros(points)
    for place in np.flatnonzero(law.masses):
        begin = last - law.first - int(place)
        result += law.masses[place] * values[begin : begin + points]
    return result
