"""Closed forms: Gaussians, pure and approximate mechanisms, composed exactly.

Theorems
--------
- Gaussians compose to one Gaussian of mu^2 = sum of 1/sigma_i^2 (Dong, Roth, Su 2022, Cor. 3.3), with
  δ(ε) = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ) (Balle, Wang 2018, Theorem 8).
- Mechanisms of which only (ε_i, δ_i)-DP is known compose to the product of the two-point pairs
  with losses ±ε_i, P-masses e^ε_i/(1+e^ε_i) and 1/(1+e^ε_i), beside a failure of total mass
  1 - Π(1-δ_i) (Kairouz, Oh, Viswanath 2015, Theorems 3.3 and 3.5; Murtagh, Vadhan 2016). Both are
  attained, so the value is the supremum over what the plan admits and serves on both sides.
- Gaussian and two-point pairs together are dominated by their product:
  δ(ε) = f + (1-f) E_P[δ_Gauss(ε - L)], L the two-point loss, f the failure. Order and adaptivity
  are immaterial, as every conditional pair is dominated by the same one (Zhu, Dong, Wang 2022,
  Theorem 10).

Relation: any; every parameter is stated for the plan's relation. Arithmetic: balls; masses by the
binomial recurrence from the mode, so relative accuracy survives 1e5 uses.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import TypeAlias

import numpy as np
from flint import arb

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Approximate, Pure
from affidavit.accountant.verifier.balls import (
    Ball,
    ball,
    down,
    down_array,
    normal_tail,
    precision,
    up,
    up_array,
)
from affidavit.accountant.verifier.bracket import Bracket, clipped

__all__ = ["MAX_ATOMS", "Atoms", "ProductProfile", "Tails", "TwoValued", "gaussian_delta", "two_point_product"]

MAX_ATOMS = 100_000


Tails: TypeAlias = tuple[Ball, Ball]
"""P and Q of the losses above one."""


@dataclass(frozen=True)
class Atoms:
    """A finite loss distribution: losses, falling, and their P-masses; ``rest`` is unresolved mass.

    ``failure`` is the mass on loss +inf (a ball); the masses are conditional on no failure.
    ``rest`` bounds the mass that was cut off (0 when nothing was): the upper side counts it as
    +inf, the lower side drops it.
    """

    losses: tuple[Ball, ...]
    masses: tuple[Ball, ...]
    failure: Ball
    rest: Ball

    @property
    def trivial(self) -> bool:
        """All mass on loss 0."""
        return len(self.losses) == 1

    @cached_property
    def lost(self) -> Ball:
        """What is on +inf, and what may be."""
        return self.failure if self.rest.is_zero() else self.failure + (1 - self.failure) * self.rest.union(arb(0))

    @cached_property
    def weights(self) -> list[Ball]:
        """The Q-masses."""
        return [mass * (-loss).exp() for loss, mass in zip(self.losses, self.masses, strict=True)]

    @cached_property
    def _ranks(self) -> tuple[list[float], list[float], list[Tails]]:
        """Minus what is under every loss so far, above every one still to come; the sums of the first masses."""
        least = np.maximum.accumulate(-down_array(self.losses)).tolist()
        most = np.minimum.accumulate(-up_array(self.losses)[::-1])[::-1].tolist()
        sums = zip(accumulate(self.masses, initial=arb(0)), accumulate(self.weights, initial=arb(0)), strict=True)
        return least, most, list(sums)

    def _split(self, loss: Ball) -> tuple[Ball, Ball, list[int]]:
        """P and Q of what is surely above, and what may or may not be."""
        least, most, sums = self._ranks
        certain = bisect_left(least, -up(loss))
        inside, outside = sums[certain]
        open_ones = []
        for i in range(certain, bisect_left(most, -down(loss))):
            if self.losses[i] > loss:
                inside, outside = inside + self.masses[i], outside + self.weights[i]
            elif not self.losses[i] <= loss:
                open_ones.append(i)
        return inside, outside, open_ones

    def above(self, loss: Ball) -> Tails:
        """P and Q of the losses above ``loss``; the balls hold both cases of one that cannot be told from it."""
        inside, outside, open_ones = self._split(loss)
        for i in open_ones:
            inside, outside = inside + self.masses[i].union(arb(0)), outside + self.weights[i].union(arb(0))
        kept = 1 - self.failure
        return self.lost + kept * inside, kept * outside

    def stick(self, epsilon: Ball) -> Ball:
        """The hockey-stick at ``epsilon`` of the resolved mass, given no failure."""
        inside, outside, open_ones = self._split(epsilon)
        rest = (self.masses[i] * (-(epsilon - self.losses[i]).expm1()).nonnegative_part() for i in open_ones)
        return (inside - epsilon.exp() * outside).nonnegative_part() + sum(rest, arb(0))


def gaussian_delta(mu: Ball, epsilon: Ball) -> Ball:
    """δ(ε) of a Gaussian mechanism, ε of either sign, μ > 0 of any size.

    e^ε Φ(-b) is formed as e^(-a²/2) erfcx(b/√2)/2 when b is large, a = ε/μ - μ/2, b = ε/μ + μ/2, so that
    e^ε never overflows; then erfcx(z) lies in (1 - 1/(2z²), 1)/(z√π).
    """
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    z = far / arb(2).sqrt()
    if z > 2**40:
        scaled = (1 - (1 / (2 * z * z)).union(arb(0))) / (z * arb.pi().sqrt())
        lost = (-near * near / 2).exp() * scaled / 2
    else:
        lost = epsilon.exp() * z.erfc() / 2
    return normal_tail(near) - lost


@dataclass(frozen=True, slots=True)
class TwoValued:
    """``count`` uses of a pair with two losses: ``high`` of P-mass ``share``, ``low`` of P-mass ``other``."""

    high: Ball
    low: Ball
    share: Ball
    other: Ball
    count: int


def _binomial(pair: TwoValued, budget: Ball) -> tuple[list[tuple[int, Ball]], Ball]:
    """P-masses of k high losses among ``count``, k falling, and the mass cut off (at most about ``budget``)."""
    share, count = pair.share, pair.count
    odds = share / pair.other
    centre = min(count, max(0, int(count * float(share))))
    reach = math.isqrt(int(count * (1 - float(budget.log())) / 2)) + 2  # Hoeffding
    low, high = max(0, centre - reach), min(count, centre + reach)
    if high - low > MAX_ATOMS:
        raise NotSupported(
            f"{count} uses of a mechanism with two privacy losses: too many for exact composition",
            hint="state the mechanism itself (gaussian, laplace, exponential), or fewer uses",
        )
    choose = (arb(count + 1).lgamma() - arb(centre + 1).lgamma() - arb(count - centre + 1).lgamma()).exp()
    masses = {centre: choose * share**centre * pair.other ** (count - centre)}
    for k in range(centre, high):
        masses[k + 1] = masses[k] * (count - k) / (k + 1) * odds
    for k in range(centre, low, -1):
        masses[k - 1] = masses[k] * k / (count - k + 1) / odds
    rest = arb(0) if (low, high) == (0, count) else (1 - sum(masses.values(), arb(0))).max(arb(0))
    return [(k, masses[k]) for k in sorted(masses, reverse=True)], rest


def two_point_product(
    uses: Iterable[tuple[Pure | Approximate, int]], *, budget: float, others: Sequence[TwoValued] = ()
) -> Atoms:
    """The product of the two-point pairs of pure and approximate mechanisms, and of ``others``.

    ``budget`` is the mass that may be cut off per group (it is charged, see ``Atoms.rest``).
    Raises ``NotSupported`` when there are too many distinct losses.
    """
    counts: dict[Fraction, int] = {}
    failure = arb(0)
    for use, count in uses:
        epsilon = Fraction(use.epsilon)
        if epsilon > 0:
            counts[epsilon] = counts.get(epsilon, 0) + count
        if isinstance(use, Approximate) and use.delta > 0:
            delta = ball(use.delta)
            lost = delta if count == 1 else -(count * (-delta).log1p()).expm1()
            failure = lost if failure.is_zero() else failure + lost - failure * lost
    exact: dict[Fraction, Ball] = {Fraction(0): arb(1)}
    rest, work = arb(0), 0
    for epsilon, count in counts.items():
        high = ball(epsilon)
        group, cut = _binomial(
            TwoValued(high, -high, 1 / (1 + (-high).exp()), 1 / (1 + high.exp()), count), ball(budget)
        )
        work = _counted(work + len(exact) * len(group))
        rest = rest + cut
        product: dict[Fraction, Ball] = {}
        for loss, mass in exact.items():
            for k, weight in group:
                total = loss + (2 * k - count) * epsilon
                product[total] = product.get(total, arb(0)) + mass * weight
        exact = product
    atoms = [(ball(loss), exact[loss]) for loss in sorted(exact, reverse=True)]
    for pair in others:
        group, cut = _binomial(pair, ball(budget))
        work = _counted(work + len(atoms) * len(group))
        rest = rest + cut
        atoms = [
            (loss + k * pair.high + (pair.count - k) * pair.low, mass * weight)
            for loss, mass in atoms
            for k, weight in group
        ]
    atoms.sort(key=lambda atom: float(atom[0]), reverse=True)
    return Atoms(tuple(loss for loss, _ in atoms), tuple(mass for _, mass in atoms), failure, rest)


def _counted(work: int) -> int:
    if work > MAX_ATOMS:
        raise NotSupported(
            "mechanisms of many different two-point losses: the exact product has too many losses",
            hint="round the epsilons up to a few common values",
        )
    return work


@dataclass(frozen=True, slots=True)
class ProductProfile:
    """δ(ε) of Gaussians and two-point pairs together, exact up to ball radii.

    ``mu`` is None when there is no Gaussian; ``bits`` the working precision.
    """

    mu: Ball | None
    atoms: Atoms
    method: str
    bits: int

    def delta(self, epsilon: float) -> Bracket:
        """(lower, upper) δ at ε."""
        atoms = self.atoms
        with precision(self.bits):
            point = ball(epsilon)
            if self.mu is None:
                inner = atoms.stick(point)
            else:
                pairs = zip(atoms.losses, atoms.masses, strict=True)
                inner = sum((mass * gaussian_delta(self.mu, point - loss) for loss, mass in pairs), arb(0))
            value = atoms.failure + (1 - atoms.failure) * inner
            return clipped(value if atoms.rest.is_zero() else value.union(value + atoms.rest))
