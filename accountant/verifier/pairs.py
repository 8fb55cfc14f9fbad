r"""Dominating pairs of one use, as tail functions in balls.

A pair (P, Q) is known by ``above(l)`` = (P(L > l), Q(L > l)), L = log dP/dQ the privacy loss. A symmetric pair
has the same loss in both directions: P(L > l) = Q(L < -l).

Sampling (docs/theory/sampling.md), for a pair (P, Q) that dominates the mechanism *on the sample*, rate γ:

- ``Mixed``: (γP + (1-γ)Q, Q). Poisson sampling under add-remove and zero-out (Zhu, Dong, Wang 2022, Theorem 11);
  sampling without replacement under add-remove, with (P, Q) dominating *substitutions* on the sample, γ = m/n and
  n of the larger data set (couple the new record with the one it displaces; attained, Lebeda et al. 2024).
  The mixture's loss is log(1 - γ + γ e^{L}), so it exceeds l iff L exceeds λ(l) = log(1 + (e^l - 1)/γ).
- ``Reversed``: (Q, γP + (1-γ)Q), the other direction of the same pair of data sets.
- ``Combined``: without replacement under substitution. δ at α >= 1 is γ h(1 + (α-1)/γ), below 1 its
  reflection 1 - α + α δ(1/α), h the curve of (P, Q) (Balle, Barthe, Gaboardi 2018, Theorem 2; Zhu, Dong,
  Wang 2022). Under zero-out an unsampled record's place is taken by another record, so the same
  curve holds, h over zero-out *and* substitution pairs: the leaf's substitution sensitivity covers both.
  An upper side: each half is attained by a ``Mixed`` pair, both together by none.
- ``Diluted``: Poisson sampling under substitution, where only substitution costs are known. The outputs without
  the place have probability 1-γ under both, so δ(α) <= (1-γ) max(0, 1-α) + γ h(α); attained when they are disjoint
  from the others.
- ``PresentOrAbsent``: the same where k, the curve of taking the record away from the sample, is known too. With
  α' = 1 + γ(α-1) >= 1 and β = α'/α, advanced joint convexity gives H(α') = γ[(1-β) k(α) + β h(α)], and reflection
  below 1. With β = γ + (1-γ)/α, H/γ = (1-γ) k + γ h + (1-γ)(h-k)/α, whose second derivative in α is
  (1-γ)(1-1/α) k'' + (γ + (1-γ)/α) h'' + 2(1-γ)(P_h - P_k)/α³, P the probabilities of losses above log α: H is
  convex where h's exceeds k's for α >= 1, which for Gaussians is that h's is the more revealing. Then H is
  the curve of the pair with Q(L > l) = -H'(e^l), P(L > l) = H + e^l Q.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

from flint import arb

from affidavit.accountant.verifier.balls import Ball, normal_tail
from affidavit.accountant.verifier.product import Atoms, Tails

__all__ = [
    "Atom",
    "Beside",
    "Combined",
    "Diluted",
    "Finite",
    "GaussianPair",
    "LaplacePair",
    "Mixed",
    "Pair",
    "PresentOrAbsent",
    "Reflected",
    "Reversed",
    "plain",
]

NEARLY = 1e-6
"""A Laplace width this close to a whole number of lattice cells is moved onto the lattice."""
FARTHEST = 2.0**60
"""What is farther below counts as -inf."""


class Atom(NamedTuple):
    """A single loss with P-mass ``mass`` and Q-mass e^{-loss} ``mass``."""

    loss: Ball
    mass: Ball


class Pair(ABC):
    """One direction of one use. No atoms, no smallest loss and no mass on +inf, unless a pair says otherwise."""

    __slots__ = ()

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """Losses of positive mass that are worth keeping apart (not all need be named)."""
        return ()

    @property
    def bottom(self) -> Ball | None:
        """The essential infimum of the loss, or None for -inf."""
        return None

    @property
    def infinite(self) -> Ball:
        """P(L = inf)."""
        return arb(0)

    @property
    def finite(self) -> Ball:
        """P(L > -inf)."""
        return arb(1) if self.bottom is not None else self.above(arb(-FARTHEST))[0]

    @property
    def directed(self) -> bool:
        """Whether it is one pair in one direction and another in the other."""
        return False

    def reverse(self) -> Pair:
        """The two laws exchanged."""
        return self

    @abstractmethod
    def above(self, loss: Ball) -> Tails:
        """(P(L > loss), Q(L > loss))."""


@dataclass(frozen=True, slots=True)
class GaussianPair(Pair):
    """N(μ, 1) against N(0, 1)."""

    mu: Ball

    def above(self, loss: Ball) -> Tails:
        place = loss / self.mu
        return normal_tail(place - self.mu / 2), normal_tail(place + self.mu / 2)


@dataclass(frozen=True, slots=True)
class Finite(Pair):
    """Finitely many losses, too many to be kept apart; what was cut off may be on +inf."""

    product: Atoms

    @property
    def bottom(self) -> Ball | None:
        """The smallest loss; -inf under Q only, with a failure."""
        return self.product.losses[-1] if self.infinite.is_zero() else None

    @property
    def infinite(self) -> Ball:
        return self.product.lost

    def above(self, loss: Ball) -> Tails:
        return self.product.above(loss)


@dataclass(frozen=True, slots=True)
class Beside(Finite):
    """A pair with no mass on +inf, composed with finitely many losses."""

    of: Pair

    @property
    def bottom(self) -> Ball | None:
        """Both smallest losses; -inf with a failure."""
        of, beside = self.of.bottom, Finite(self.product).bottom
        return None if of is None or beside is None else of + beside

    @property
    def infinite(self) -> Ball:
        lost = self.product.lost
        return lost + (1 - lost) * self.of.infinite

    @property
    def directed(self) -> bool:
        return self.of.directed

    def reverse(self) -> Pair:
        """See ``Pair``."""
        return Beside(self.product, self.of.reverse())

    def above(self, loss: Ball) -> Tails:
        p, q, kept = arb(0), arb(0), 1 - self.product.failure
        for other, mass, weight in zip(self.product.losses, self.product.masses, self.product.weights, strict=True):
            inside, outside = self.of.above(loss - other)
            p, q = p + mass * inside, q + weight * outside
        return self.product.lost + kept * p, kept * q


def plain(mu: Ball | None, product: Atoms) -> Pair:
    """Gaussians and two-point pairs together."""
    return Finite(product) if mu is None else Beside(product, GaussianPair(mu))


@dataclass(frozen=True, slots=True)
class LaplacePair(Pair):
    """Laplace noise of scale b against itself moved by 1, ``width`` = 1/b: the loss is (1 - 2x)/b cut to ±1/b.

    The pair is the more revealing the wider it is, so a width rounded up (down) is an upper (lower) side.
    """

    width: Ball

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """Half of P at 1/b, half of Q at -1/b."""
        return Atom(self.width, arb(0.5)), Atom(-self.width, (-self.width).exp() / 2)

    @property
    def bottom(self) -> Ball | None:
        return -self.width

    def above(self, loss: Ball) -> Tails:
        """See ``Pair``; on [-1/b, 1/b) the event is x < (1 - loss b)/2. Undecided ends give balls that hold both."""
        if loss < -self.width:
            return arb(1), arb(1)
        if loss >= self.width:
            return arb(0), arb(0)
        place = (1 - loss / self.width) / 2
        p, q = 1 - (-place * self.width).exp() / 2, ((place - 1) * self.width).exp() / 2
        if not loss >= -self.width:
            p, q = p.union(arb(1)), q.union(arb(1))
        if not loss < self.width:
            p, q = p.union(arb(0)), q.union(arb(0))
        return p, q

    def aligned(self, step: Ball, *, upward: bool) -> LaplacePair:
        """The pair with its ends on the lattice, if they are all but there."""
        cells = (self.width / step + (NEARLY if not upward else -NEARLY)).floor() + (1 if upward else 0)
        whole = cells.unique_fmpz()
        if whole is None or not abs(whole * step - self.width) <= 2 * NEARLY * step:
            return self
        rounded = whole * step
        return LaplacePair(rounded) if (rounded >= self.width if upward else rounded <= self.width) else self


def _through(pair: Pair, loss: Ball, rate: Ball, *, turned: bool = False) -> Tails:
    """The tails of ``pair`` at λ, log(1 - rate + rate e^λ) = loss, or (``turned``) at -λ.

    Where the mixture's loss always exceeds ``loss``, λ is -inf.
    """
    argument = 1 + loss.expm1() / rate
    everything, nothing = (arb(1), arb(1)), (arb(0), arb(0))
    limit = nothing if turned else everything
    if argument <= 0:
        return limit
    top = argument if argument > 0 else argument.upper()
    inner = top.log()
    p, q = pair.above(-inner if turned else inner)
    return (p, q) if argument > 0 else (p.union(limit[0]), q.union(limit[1]))


@dataclass(frozen=True, slots=True)
class OnSample(Pair):
    """What becomes of the pair (P, Q) on a sample of rate γ."""

    on_sample: Pair
    rate: Ball

    @property
    def directed(self) -> bool:
        return self.on_sample.directed

    @property
    def infinite(self) -> Ball:
        return self.rate * self.on_sample.infinite


@dataclass(frozen=True, slots=True)
class Mixed(OnSample):
    """(γP + (1-γ)Q, Q)."""

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """Those on the sample."""
        return tuple(
            Atom(
                (self.rate * atom.loss.expm1()).log1p(),
                (self.rate + (1 - self.rate) * (-atom.loss).exp()) * atom.mass,
            )
            for atom in self.on_sample.atoms
        )

    @property
    def directed(self) -> bool:
        return True

    def reverse(self) -> Pair:
        """See ``Pair``."""
        return Reversed(self.on_sample.reverse(), self.rate)

    @property
    def bottom(self) -> Ball | None:
        """log(1 - γ + γ e^(smallest loss))."""
        floor = (-self.rate).log1p()
        inner = self.on_sample.bottom
        return floor if inner is None else (1 - self.rate + self.rate * inner.exp()).log()

    def above(self, loss: Ball) -> Tails:
        p, q = _through(self.on_sample, loss, self.rate)
        return self.rate * p + (1 - self.rate) * q, q


@dataclass(frozen=True, slots=True)
class Reversed(OnSample):
    """(P, γQ + (1-γ)P), (P, Q) on the sample: the loss exceeds l iff the mixture's is below -l, iff L > -λ(-l).

    With a symmetric pair that is (Q, γP + (1-γ)Q), the other direction of ``Mixed``; any other is given in the other
    direction here.
    """

    @property
    def directed(self) -> bool:
        return True

    def reverse(self) -> Pair:
        """See ``Pair``."""
        return Mixed(self.on_sample.reverse(), self.rate)

    @property
    def bottom(self) -> Ball | None:
        """-log(1 - γ + γ e^-(smallest loss))."""
        inner = self.on_sample.bottom
        return None if inner is None else -((1 - self.rate + self.rate * (-inner).exp()).log())

    @property
    def infinite(self) -> Ball:
        """None: the mixture has all of P in it."""
        return arb(0)

    def above(self, loss: Ball) -> Tails:
        """See ``Pair``."""
        p, q = _through(self.on_sample, -loss, self.rate, turned=True)
        return p, (1 - self.rate) * p + self.rate * q


class Reflected(Pair):
    """A symmetric pair known at losses >= 0; an atom may sit at 0, and is not kept apart."""

    __slots__ = ()

    @abstractmethod
    def right(self, loss: Ball) -> Tails:
        """As ``above``, of a loss >= 0."""

    def above(self, loss: Ball) -> Tails:
        """See ``Pair``; below 0 by P(L > l) = 1 - Q(L >= -l)."""
        if loss >= 0:
            return self.right(loss)
        if loss < 0:
            p, q = self.right(-loss)
            return 1 - q, 1 - p
        (p, q), (r, s) = self.right(loss.nonnegative_part()), self.right((-loss).nonnegative_part())
        return p.union(1 - s), q.union(1 - r)


@dataclass(frozen=True, slots=True)
class Combined(Reflected, OnSample):
    """The symmetric pair whose curve is the larger one of ``Mixed`` and of its reverse's reflection."""

    @property
    def bottom(self) -> Ball | None:
        return Reversed(self.on_sample, self.rate).bottom

    def right(self, loss: Ball) -> Tails:
        return Mixed(self.on_sample, self.rate).above(loss)


@dataclass(frozen=True, slots=True)
class Diluted(OnSample):
    """With probability γ the pair (P, Q), otherwise loss 0."""

    def reverse(self) -> Pair:
        """See ``Pair``."""
        return Diluted(self.on_sample.reverse(), self.rate)

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """Loss 0 for the records outside the sample, and what is on the sample."""
        inner = tuple(Atom(atom.loss, self.rate * atom.mass) for atom in self.on_sample.atoms)
        return (Atom(arb(0), 1 - self.rate), *inner)

    @property
    def bottom(self) -> Ball | None:
        return self.on_sample.bottom

    def above(self, loss: Ball) -> Tails:
        p, q = self.on_sample.above(loss)
        idle = arb(0) if loss >= 0 else 1 - self.rate
        return self.rate * p + idle, self.rate * q + idle


@dataclass(frozen=True, slots=True)
class PresentOrAbsent(Reflected):
    """Poisson sampling under substitution: ``replaced`` is h's Gaussian pair, ``absent`` k's, the less revealing."""

    replaced: GaussianPair
    absent: GaussianPair
    rate: Ball

    def right(self, loss: Ball) -> Tails:
        outer = loss.exp()
        inner = 1 + loss.expm1() / self.rate
        beta = outer / inner
        (ph, qh), (pk, qk) = self.replaced.above(inner.log()), self.absent.above(inner.log())
        h, k = ph - inner * qh, pk - inner * qk
        q = (1 - beta) * qk + beta * qh + (1 - self.rate) * (h - k) / inner**2
        return self.rate * ((1 - beta) * k + beta * h) + outer * q, q
