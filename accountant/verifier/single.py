"""One use of one pair: no composition, hence no lattice.

δ(ε) = P(L > ε) - e^ε Q(L > ε), evaluated in balls; ε by a search whose endpoints are verified.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from affidavit.accountant.verifier.balls import BITS, Ball, ball, precision
from affidavit.accountant.verifier.envelope import ExponentialPair
from affidavit.accountant.verifier.pairs import LaplacePair, Pair
from affidavit.accountant.verifier.product import two_point_product
from affidavit.accountant.verifier.search import Sides, clipped, crossing

__all__ = ["SingleProfile", "one_exponential", "one_laplace"]


@dataclass(frozen=True, slots=True)
class SingleProfile:
    """One direction of one use; ``lower`` differs from ``upper`` where the latter is not attained."""

    upper: Pair
    lower: Pair
    bits: int
    method: str = "closed form of one use"

    def delta(self, epsilon: float) -> Sides:
        """(lower, upper) δ at ε."""
        with precision(self.bits):
            low, high = _stick(self.lower, epsilon), _stick(self.upper, epsilon)
            return clipped(low)[0], clipped(high)[1]

    def epsilon(self, delta: float) -> Sides:
        """(lower, upper) ε at δ."""
        with precision(self.bits):
            target = ball(delta)
            low = crossing(lambda epsilon: _stick(self.lower, epsilon), target, start=1.0)[0]
            return low, crossing(lambda epsilon: _stick(self.upper, epsilon), target, start=1.0)[1]


def _stick(pair: Pair, epsilon: float) -> Ball:
    p, q = pair.above(ball(epsilon))
    return p - ball(epsilon).exp() * q


def one_laplace(noise_multiplier: float) -> SingleProfile:
    """One Laplace mechanism (Balle, Barthe, Gaboardi 2018, Theorem 3: δ = 1 - e^{(ε - 1/b)/2}), attained."""
    with precision():
        pair = LaplacePair(ball(1 / Fraction(noise_multiplier)))
    return SingleProfile(pair, pair, BITS, "Laplace closed form")


def one_exponential(spread: Fraction) -> SingleProfile:
    """One exponential mechanism: each point of its envelope is reached (Dong, Durfee, Rogers 2020, Lemma 3.3)."""
    with precision():
        pair = ExponentialPair(ball(spread), two_point_product([], budget=1.0))
    return SingleProfile(pair, pair, BITS, "closed form of one exponential mechanism")
