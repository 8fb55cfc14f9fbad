"""One use of one pair: no composition, hence no lattice.

δ(ε) = P(L > ε) - e^ε Q(L > ε), evaluated in balls.
"""

from __future__ import annotations

from dataclasses import dataclass

from affidavit.accountant.verifier.balls import ball, precision, up
from affidavit.accountant.verifier.bracket import Bracket, clipped
from affidavit.accountant.verifier.pairs import Pair

__all__ = ["SingleProfile"]

FEW_BITS, SHARP = 128, 1e-14
"""Bits that are tried first, and the relative width with which they are enough."""


@dataclass(frozen=True, slots=True)
class SingleProfile:
    """One direction of one use; ``lower`` differs from ``upper`` where the latter is not attained."""

    upper: Pair
    lower: Pair
    bits: int
    method: str = "closed form of one use"

    def delta(self, epsilon: float) -> Bracket:
        high = _stick(self.upper, epsilon, self.bits)
        low = high if self.lower is self.upper else _stick(self.lower, epsilon, self.bits)
        return Bracket(low.lower, high.upper)


def _stick(pair: Pair, epsilon: float, bits: int) -> Bracket:
    """With few bits, or all where those lose it.

    At most P(L > ε), too: times e^ε, a Q that may be 0 or 1e-77 is anything.
    """
    found = Bracket(0.0, 1.0)
    for enough in (min(FEW_BITS, bits), bits):
        with precision(enough):
            p, q = pair.above(ball(epsilon))
            found = clipped(p - ball(epsilon).exp() * q)
            found = Bracket(found.lower, min(found.upper, up(p)))
        if found.upper - found.lower <= SHARP * found.upper:
            break
    return found
