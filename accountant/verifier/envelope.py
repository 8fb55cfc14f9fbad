r"""One use of an exponential mechanism as a pair, to be sampled: the pointwise largest curve.

Of bounded range η no single pair dominates every use and is attained (``adaptive``), but the largest
hockey-stick of any of them, H(α) = (√E - √α)²/(E - 1) for 1/E <= α <= E = e^η, is convex, with H(α) = 1 - α
below and 0 above, hence the curve of a pair (Zhu, Dong, Wang 2022, Proposition 9): with α = e^l,
    Q(L > l) = -H'(α) = (√(E/α) - 1)/(E - 1),   P(L > l) = H(α) + α Q(L > l) = (E - √(Eα))/(E - 1).
It dominates every use, whatever the adversary chose before, so it may be sampled and composed as any dominating
pair. As H(1/α) = (H(α) - 1 + α)/α, it is its own reverse. An upper side only; a use that is attained is
t = η/2, the pure mechanism of ε = η/2.
"""

from __future__ import annotations

from dataclasses import dataclass

from flint import arb

from affidavit.accountant.verifier.balls import Ball
from affidavit.accountant.verifier.pairs import Pair
from affidavit.accountant.verifier.product import Tails

__all__ = ["ExponentialPair"]


@dataclass(frozen=True, slots=True)
class ExponentialPair(Pair):
    """The envelope of one use of range ``range`` > 0."""

    range: Ball

    @property
    def bottom(self) -> Ball | None:
        return -self.range

    def above(self, loss: Ball) -> Tails:
        """See ``Pair``; the formulas leave [0, 1] exactly where the loss leaves [-η, η]."""
        if loss >= self.range:
            return arb(0), arb(0)
        if loss <= -self.range:
            return arb(1), arb(1)
        rest = -(-self.range).expm1()
        p = -((loss - self.range) / 2).expm1() / rest
        q = (-self.range).exp() * ((self.range - loss) / 2).expm1() / rest
        return p.max(arb(0)).min(arb(1)), q.max(arb(0)).min(arb(1))
