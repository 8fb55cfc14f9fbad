"""Several pairs, of which it is not known which one it is: one that dominates each."""

from __future__ import annotations

from dataclasses import dataclass

from flint import arb

from affidavit.accountant.verifier.balls import Ball
from affidavit.accountant.verifier.pairs import Pair
from affidavit.accountant.verifier.product import Tails

__all__ = ["Largest"]


@dataclass(frozen=True, slots=True)
class Largest(Pair):
    """The pair whose curve is the largest of several: a maximum of convex curves is convex, and a pair's curve again.

    Where one is the largest, its tails are the pair's; where two cannot be told apart, the balls hold both.
    """

    pairs: tuple[Pair, ...]

    @property
    def directed(self) -> bool:
        """Whether any of them is."""
        return any(pair.directed for pair in self.pairs)

    def reverse(self) -> Pair:
        """See ``Pair``."""
        return Largest(tuple(pair.reverse() for pair in self.pairs))

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
