r"""Poisson sampling under substitution of a pure mechanism: the exact curve, from two costs on the sample.

Let X, A, A' be the outputs without the place, with the old record and with the new one. Known: A and A' are each
(a, 0)-indistinguishable from X (``absent``), and (r, 0)-indistinguishable from each other. With E = e^a and
R = e^min(r, 2a) (by way of X, the two are never further apart than 2a) consider P = (1-γ)X + γA, Q = (1-γ)X + γA'.

Theorem. The largest hockey-stick of (P, Q) over all such triples is, for α >= 1,
    H(α) = max(0, c_1 - α d_1, c_2 - α d_2),    c_i = (1-γ) x_i + γ A_i,    d_i = (1-γ) x_i + γ A_i/R,
    A_2 = min(R/(R+1), R(E-1)/(E(R-1))),    A_1 = min(A_2, E/(E+1)),    x_i = max(A_i/E, 1 - E(1-A_i)),
and H(α) = 1 - α + α H(1/α) below 1.

Proof. H_α(P‖Q) is the largest P(S) - α Q(S) = (1-γ)(1-α) x + γ(A - αA') of any event S, of probabilities x, A, A'
under the three. S and its complement obey A <= E x, 1-x <= E(1-A), A <= R A', 1-A' <= R(1-A), x <= E A'. For α >= 1
the objective falls in x and in A', which are therefore best at
    x(A) = max(A/E, 1 - E(1-A)),    A'(A) = max(A/R, 1 - R(1-A), x(A)/E),
or above. Both are convex in A, so what is left is concave in A and piecewise linear: 0 at A = 0, with kinks where
x(A) turns, at E/(E+1), and where A/R ceases to be the largest, at A_2: with 1 - R(1-A) at R/(R+1), with
(1 - E(1-A))/E at the other. Beyond A_2 it falls, as A'(A) rises there at least as fast as A. So the largest value is
at 0, A_1 or A_2. These points obey the remaining constraints (1-x <= E(1-A'), A' <= R A, A' <= E x, ...) too, so
some mechanism of two outcomes has these probabilities. Exchanging A and A' gives the other order, hence the values
below 1. A supremum of convex curves is convex, so H is the curve of a pair (Zhu, Dong, Wang 2022, Proposition 9).

The pair has five losses: 0, ± log(c_1/d_1), where H becomes 0, and ± log((c_2-c_1)/(d_2-d_1)), where the lines cross;
three for r <= a and for r >= 2a, as A_1 = A_2. It dominates every use, whatever came before, so it composes. For
r >= 2a one mechanism reaches all of H, and the bracket closes (so for report noisy max):
    X = (1, E-1, 1)/(E+1),    A = (E, (E-1)/E, 1/E)/(E+1),    A' = A read backwards.
Otherwise each point is reached by a mechanism of its own. Composed, the lower side is the better of
- A' = X: randomised response of min(a, r), sampled;
- X = (x, 1-2x, x), A = (Ex, 1 - Ex - Ex/R, Ex/R), A' = A read backwards, x = (E-1)/(E² + E²/R - 2): the largest
  loss, and as much of it as the middle outcome allows.

Several pure and exponential mechanisms on one sample are charged as one of the sum of their ε's and ranges (sound:
indistinguishability adds up; loose: mostly they reveal less).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from flint import arb

from affidavit.accountant.plan import Pure
from affidavit.accountant.verifier.balls import Ball, ball
from affidavit.accountant.verifier.cases import Case
from affidavit.accountant.verifier.pairs import Atom, Finite, Mixed, Pair, Reversed
from affidavit.accountant.verifier.product import Atoms, Tails, two_point_product

__all__ = ["PureCost", "ReplacedPair", "largest_loss", "replaced_pairs"]

LEAST = Fraction(1, 1 << 36)
"""Costs below it are charged as this much, and as nothing below: a lattice cannot tell such losses from 0."""

Outcomes = Sequence[tuple[Ball, Ball]]
"""P- and Q-masses, losses falling; the losses are positive and each outcome has a mirror image."""


@dataclass(frozen=True, slots=True)
class PureCost:
    """Pure DP on one sample: ``total`` of all of it, ``single`` of one mechanism in it that is fully as revealing.

    A mechanism of bounded range is (range, 0)-DP, and randomised response of ε = range/2 is one.
    """

    total: Fraction = Fraction(0)
    single: Fraction = Fraction(0)

    @property
    def exact(self) -> bool:
        return self.total == self.single

    @staticmethod
    def of(case: Case) -> PureCost | None:
        """None where something is neither pure nor exponential."""
        fixed = case.fixed
        leaves = [(Fraction(use.epsilon), n) for use, n in fixed.uses if isinstance(use, Pure)]
        if case.blatant or fixed.mu_squared or fixed.rho or len(leaves) < len(fixed.uses):
            return None
        total = sum((cost * n for cost, n in (*leaves, *case.steps)), Fraction(0))
        single = max((cost for cost, _ in leaves), default=Fraction(0))
        widest = max((spread for spread, _ in case.steps), default=Fraction(0))
        return PureCost(total, max(single, widest / 2))


@dataclass(frozen=True, slots=True)
class ReplacedPair(Pair):
    """A symmetric pair of few losses. ``reached``: each point of its curve is that of some mechanism."""

    stairs: Finite
    idle: Ball
    reached: bool

    @staticmethod
    def of(revealing: Outcomes, *, reached: bool) -> ReplacedPair:
        """``revealing``, their mirror images, and the rest at loss 0."""
        idle = 1 - sum((p + q for p, q in revealing), arb(0))
        losses = [(p / q).log() for p, q in revealing]
        masses = [p for p, _ in revealing], [q for _, q in reversed(revealing)]
        atoms = Atoms(
            (*losses, arb(0), *(-loss for loss in reversed(losses))), (*masses[0], idle, *masses[1]), arb(0), arb(0)
        )
        return ReplacedPair(Finite(atoms), idle, reached)

    @property
    def atoms(self) -> tuple[Atom, ...]:
        return (Atom(arb(0), self.idle),)

    @property
    def bottom(self) -> Ball | None:
        return self.stairs.bottom

    def above(self, loss: Ball) -> Tails:
        return self.stairs.above(loss)


def replaced_pairs(replaced: PureCost, absent: PureCost, rate: Fraction, *, forward: bool) -> tuple[Pair, Pair]:
    """(upper, lower) pair in one direction, all costs > 0; one object where a mechanism reaches all of the curve."""
    exact, share = replaced.exact and absent.exact and min(replaced.total, absent.total) >= LEAST, ball(rate)
    corners = _corners(max(replaced.total, LEAST), max(absent.total, LEAST), share)
    upper = ReplacedPair.of(corners, reached=exact)
    if exact and replaced.total >= 2 * absent.total:
        return upper, upper
    if min(replaced.single, absent.single) < LEAST:
        return upper, ReplacedPair.of([], reached=True)
    both_ways = _mirrored(replaced.single, absent.single, share)
    response = two_point_product([(Pure(float(min(replaced.single, absent.single))), 1)], budget=1.0)
    alone = Finite(response)
    mixture = [(share * p + (1 - share) * q, q) for p, q in zip(response.masses, response.weights, strict=True)]
    if _squared_loss([*both_ways, *((q, p) for p, q in both_ways)]) >= _squared_loss(mixture):
        return upper, ReplacedPair.of(both_ways, reached=True)
    return upper, (Mixed if forward else Reversed)(alone, share)


def largest_loss(replaced: PureCost, absent: PureCost, rate: Fraction) -> Ball:
    """log(c_1/d_1), reached or (exponential mechanisms) approached."""
    share, e, r = ball(rate), ball(absent.total).exp(), _apart(replaced.total, absent.total)
    return ((1 - share + share * e) / (1 - share + share * e / r)).log()


def _apart(replaced: Fraction, absent: Fraction) -> Ball:
    """R of the theorem."""
    return ball(min(replaced, 2 * absent)).exp()


def _corners(replaced: Fraction, absent: Fraction, rate: Ball) -> Outcomes:
    """(c_1, d_1) and, where the second line counts, (c_2 - c_1, d_2 - d_1)."""
    e, r = ball(absent).exp(), _apart(replaced, absent)
    kinks = [e / (e + 1) if replaced > absent else r / (r + 1)]
    if absent < replaced < 2 * absent:
        kinks.append((r / (r + 1)).min(r * ball(absent).expm1() / (e * ball(replaced).expm1())))
    found = [(arb(0), arb(0))]
    for old in kinks:
        gone = (1 - rate) * (old / e).max(1 - e * (1 - old))
        found.append((gone + rate * old, gone + rate * old / r))
    return [(p - before_p, q - before_q) for (before_p, before_q), (p, q) in pairwise(found)]


def _mirrored(replaced: Fraction, absent: Fraction, rate: Ball) -> Outcomes:
    """The second mechanism below: its one revealing outcome."""
    e, r = ball(absent).exp(), _apart(replaced, absent)
    gone = ball(absent).expm1() / (e * e + e * e / r - 2)
    return [((1 - rate) * gone + rate * e * gone, (1 - rate) * gone + rate * e * gone / r)]


def _squared_loss(outcomes: Outcomes) -> float:
    """E_P[loss²], by which lower sides are ranked: what many uses add up to."""
    return float(sum((p * (p / q).log() ** 2 for p, q in outcomes), arb(0)))
