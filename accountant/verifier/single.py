"""One use of one pair: no composition, hence no lattice.

δ(ε) = P(L > ε) - e^ε Q(L > ε), evaluated in balls.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from affidavit.accountant.verifier.balls import BITS, ball, precision, up
from affidavit.accountant.verifier.bracket import Bracket, Sides, clipped
from affidavit.accountant.verifier.envelope import ExponentialPair
from affidavit.accountant.verifier.pairs import Pair

__all__ = ["SingleProfile", "one_exponential"]


@dataclass(frozen=True, slots=True)
class SingleProfile:
    """One direction of one use; ``lower`` differs from ``upper`` where the latter is not attained."""

    upper: Pair
    lower: Pair
    bits: int
    method: str = "closed form of one use"

    def delta(self, epsilon: float) -> Sides:
        with precision(self.bits):
            high = _stick(self.upper, epsilon)
            low = high if self.lower is self.upper else _stick(self.lower, epsilon)
            return low.lower, high.upper


def _stick(pair: Pair, epsilon: float) -> Bracket:
    """At most P(L > ε), too: times e^ε, a Q that may be 0 or 1e-77 is anything."""
    p, q = pair.above(ball(epsilon))
    found = clipped(p - ball(epsilon).exp() * q)
    return Bracket(found.lower, min(found.upper, up(p)))


def one_exponential(spread: Fraction) -> SingleProfile:
    """One exponential mechanism: each point of its envelope is reached (Dong, Durfee, Rogers 2020, Lemma 3.3)."""
    with precision():
        pair = ExponentialPair(ball(spread))
    return SingleProfile(pair, pair, BITS, "closed form of one exponential mechanism")
