r"""Mechanisms that add noise and have a pair of their own, and what the verifier knows of each kind (``NOISES``).

Laplace noise has its pair among the others (``pairs``). The rest is the discrete Gaussian of one scalar release.

Noise on the grid gZ with mass proportional to e^{-x²/(2σ²)} (Canonne, Kamath, Steinke 2020), σ and g in units of
the sensitivity, s = σ/g. Neighbours' values, both on the grid, differ by at most k = 1/g steps; the noise is
log-concave, so the largest shift dominates: P = N_Z(k, s²), Q = N_Z(0, s²), with loss (2x - k) k/(2s²) at grid index x,
increasing in x, an arithmetic progression of spacing k/s². The pair is symmetric (x -> k - x). Where 1/g is not
whole the upper side takes the next whole number and the lower side the one before. The continuous Gaussian
is not an upper bound: at s = 2 the discrete δ exceeds it by 35 %.

Tails are sums of e^{-x²/(2s²)} from the far end; what lies beyond the summed terms, at most
e^{-R²/(2s²)}/(1 - e^{-R/s²}), is in the radius.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from flint import arb

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import DiscreteGaussian, Laplace, Leaf
from affidavit.accountant.verifier.balls import Ball, ball
from affidavit.accountant.verifier.pairs import LaplacePair, Pair
from affidavit.accountant.verifier.product import Tails

__all__ = ["NOISES", "DiscretePair", "Noise", "discrete_pairs"]

WIDEST = 5_000
"""Largest s for which the tails are tabulated."""
NEARLY_WHOLE = 1e-9
"""1/g this close to a whole number is meant to be it: g is written in decimals."""


@dataclass(frozen=True, slots=True)
class DiscretePair(Pair):
    """P = N_Z(shift, variance) against Q = N_Z(0, variance); ``tails[i]`` is P(N_Z(0) > i - reach)."""

    variance: Fraction
    shift: int
    reach: int
    tails: tuple[Ball, ...]

    @property
    def spacing(self) -> Fraction:
        return self.shift / self.variance

    @property
    def finite(self) -> Ball:
        """All of it, however far."""
        return arb(1)

    def tail(self, index: int) -> Ball:
        """P(N_Z(0, variance) > index)."""
        if index >= self.reach:
            return self.tails[-1].union(arb(0))
        return self.tails[index + self.reach] if index >= -self.reach else self.tails[0].union(arb(1))

    def above(self, loss: Ball) -> Tails:
        """See ``Pair``; the event is x > loss s²/k + k/2. What may be an atom gives balls that hold both cases."""
        place: Ball = loss / ball(self.spacing) + ball(Fraction(self.shift, 2))
        beyond = self.reach + self.shift
        if abs(place) > beyond:  # all tails are alike there
            place = ball(beyond if place > 0 else -beyond - 1)
        low, high = (int(end.floor().unique_fmpz()) for end in (place.lower(), place.upper()))
        p, q = self.tail(low - self.shift), self.tail(low)
        return (p, q) if low == high else (p.union(self.tail(high - self.shift)), q.union(self.tail(high)))


def _pair(variance: Fraction, shift: int, bits: int) -> DiscretePair:
    if variance > WIDEST**2:
        raise NotSupported(
            f"a discrete Gaussian of {float(variance) ** 0.5:g} grid steps in certified arithmetic",
            hint=f"a granularity of at least noise_multiplier/{WIDEST}, or float64: `affidavit epsilon PLAN.json`",
        )
    reach = math.isqrt(int(2 * bits * variance)) + 2
    half = 1 / (2 * ball(variance))
    edge = (-(reach**2) * half).exp() / (1 - (-2 * reach * half).exp())
    sums = [edge.union(arb(0))]
    for x in range(reach, -reach - 1, -1):
        sums.append(sums[-1] + (-(x**2) * half).exp())
    whole = sums[-1] + edge.union(arb(0))
    return DiscretePair(variance, shift, reach, tuple(value / whole for value in reversed(sums[:-1])))


def discrete_pairs(leaf: DiscreteGaussian, bits: int) -> tuple[DiscretePair, DiscretePair | None]:
    """(upper, lower) pair of a leaf with noise; the same object where 1/g is whole; None: no loss at all."""
    steps = 1 / Fraction(leaf.granularity)
    whole = round(steps)
    if abs(steps - whole) <= NEARLY_WHOLE * steps:
        pair = _pair((Fraction(leaf.noise_multiplier) * whole) ** 2, whole, bits)
        return pair, pair
    variance = (Fraction(leaf.noise_multiplier) * steps) ** 2
    low = math.floor(steps)
    return _pair(variance, low + 1, bits), _pair(variance, low, bits) if low else None


class Noise(NamedTuple):
    """A kind of leaf whose noise is in units of its sensitivity, in a field ``noise_multiplier``; 0 is no noise."""

    pairs: Callable[[Any, int], tuple[Pair, Pair | None]]
    """(upper, lower) pair of a leaf with noise, at so many bits; the same object where it is exact; None: no loss."""
    endless: bool
    """Whether it loses more than any ε, where it ``hides`` nothing."""
    hides: Callable[[Any], bool]
    """Whether it may have nothing to tell, whatever the noise: then nothing is reached."""
    dearer: Mapping[str, int]
    """What makes it cost more: the larger value (+1) or the smaller one (−1) of a field."""

    def shows_all(self, leaf: Any) -> bool:
        """Whether there is no noise."""
        return bool(leaf.noise_multiplier == 0.0)


def _laplace_pairs(leaf: Laplace, _bits: int) -> tuple[Pair, Pair]:
    pair = LaplacePair(ball(1 / Fraction(leaf.noise_multiplier)))
    return pair, pair


NOISES: Mapping[type[Leaf], Noise] = {
    Laplace: Noise(_laplace_pairs, False, lambda _leaf: False, {"noise_multiplier": -1}),
    DiscreteGaussian: Noise(discrete_pairs, True, lambda leaf: leaf.is_coarse, {}),
}
