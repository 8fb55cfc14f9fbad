"""One use of the Laplace mechanism, in closed form.

Theorem. With b = scale / (l1 sensitivity), δ(ε) = max(0, 1 - e^{(ε - 1/b)/2}) for ε >= 0 (Balle, Barthe, Gaboardi 2018,
Theorem 3), attained by two inputs at distance 1 in one coordinate. Inverse: ε = max(0, 1/b + 2 log(1 - δ)).
Relation: the one the leaf is stated for.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from affidavit.accountant.verifier.balls import ball, down, precision, up
from affidavit.accountant.verifier.search import Sides, clipped

__all__ = ["LaplaceProfile"]


@dataclass(frozen=True, slots=True)
class LaplaceProfile:
    """δ(ε) of one Laplace mechanism of the given noise multiplier b > 0."""

    noise_multiplier: float
    method: str = "Laplace closed form"

    def delta(self, epsilon: float) -> Sides:
        """(lower, upper) δ at ε."""
        with precision():
            gap = Fraction(epsilon) - 1 / Fraction(self.noise_multiplier)
            return (0.0, 0.0) if gap >= 0 else clipped(-(ball(gap) / 2).expm1())

    def epsilon(self, delta: float) -> Sides:
        """(lower, upper) ε at δ < 1."""
        with precision():
            value = ball(1 / Fraction(self.noise_multiplier)) + 2 * (-ball(delta)).log1p()
            return max(0.0, down(value)), max(0.0, up(value))
