"""The pair of one use that is any one of several mechanisms: the largest of their curves."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flint import arb, ctx

from affidavit.accountant.plan import Approximate, DiscreteGaussian, Laplace, Pure
from affidavit.accountant.verifier.balls import Ball, ball
from affidavit.accountant.verifier.branches import Either, Fixed, Sampled
from affidavit.accountant.verifier.discrete import discrete_pairs
from affidavit.accountant.verifier.on_sample import sampled_pairs
from affidavit.accountant.verifier.pairs import Finite, GaussianPair, LaplacePair, Pair
from affidavit.accountant.verifier.product import Tails, two_point_product

__all__ = ["Largest", "largest_pair"]

BUDGET = 1e-300


@dataclass(frozen=True, slots=True)
class Largest(Pair):
    """The pair whose curve is the largest of several: a maximum of convex curves is convex, and a pair's curve again.

    Where one is the largest, its tails are the pair's; where two cannot be told apart, the balls hold both.
    """

    pairs: tuple[Pair, ...]

    @property
    def bottom(self) -> Ball | None:
        """The smallest of theirs; None for -inf."""
        bottoms = [pair.bottom for pair in self.pairs]
        known = [bottom for bottom in bottoms if bottom is not None]
        return min(known, key=float) if len(known) == len(bottoms) else None

    @property
    def infinite(self) -> Ball:
        """The largest."""
        found = arb(0)
        for pair in self.pairs:
            found = found.max(pair.infinite)
        return found

    def above(self, loss: Ball) -> Tails:
        """See ``Pair``."""
        (p, q), *others = (pair.above(loss) for pair in self.pairs)
        growth = loss.exp()
        for r, s in others:
            gain = (r - p) - growth * (s - q)
            if gain > 0:
                p, q = r, s
            elif not gain <= 0:
                p, q = p.union(r), q.union(s)
        return p, q


def largest_pair(kinds: tuple[Fixed, ...], *, forward: bool) -> Pair:
    """Of one use of any of these, each a single mechanism with a pair."""
    pairs = tuple(_pair(kind, forward=forward) for one in kinds for kind in _single(one))
    return pairs[0] if len(pairs) == 1 else Largest(pairs)


def _single(kind: Fixed) -> tuple[Fixed, ...]:
    match kind.uses:
        case ((Either(of=kinds), 1),):
            return tuple(single for one in kinds for single in _single(one))
    return (kind,)


def _pair(kind: Fixed, *, forward: bool) -> Pair:
    match kind.uses:
        case ((Laplace(noise_multiplier=scale), 1),):
            return LaplacePair(ball(1 / Fraction(scale)))
        case ((Pure() | Approximate() as use, 1),):
            return Finite(two_point_product([(use, 1)], budget=BUDGET))
        case ((Sampled() as sample, 1),):
            return sampled_pairs(sample, forward=forward)[0]
        case ((DiscreteGaussian() as grid, 1),):
            return discrete_pairs(grid, ctx.prec)[0]
        case ():
            return GaussianPair(ball(kind.mu_squared).sqrt())
    raise TypeError(repr(kind))
