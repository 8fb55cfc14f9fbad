"""One use of an exponential mechanism and nothing else: the call price in closed form, with 60 decimal digits.

In the words of ``envelope``: V_1(m) is the highest secant of (m − 1)₊ of log-width η at m. Through a <= 1 <= aE,
E = e^η, it has height (aE − 1)(m − a)/(a (E − 1)) at m = e^{−ε}, which is greatest at a = √(m/E); hence

    δ(ε) = V_1(m)/m = (√E − e^{ε/2})² / (E − 1),      |ε| <= η,

δ = 0 above and 1 − e^ε below. The secant is that of a mechanism with two outcomes, so the value is attained
(the same number as Dong, Durfee and Rogers 2020, Lemma 3.3, by another way).
"""

from __future__ import annotations

from dataclasses import dataclass

import mpmath

from affidavit.accountant.recompute.bracket import Bracket, rounded_down, rounded_up

__all__ = ["OneExponential"]

_DIGITS = 60


@dataclass(frozen=True, slots=True)
class OneExponential:
    """δ(ε) of one use of bounded range ``range`` > 0."""

    range: float

    def delta(self, epsilon: float) -> Bracket:
        """δ at ``epsilon``: the floats next to the value on either side."""
        if epsilon >= self.range:
            return Bracket(0.0, 0.0)
        with mpmath.workdps(_DIGITS):
            if epsilon <= -self.range:
                value = -mpmath.expm1(epsilon)
            else:
                # √E − e^{ε/2}, without the cancellation near ε = η.
                gap = mpmath.exp(mpmath.mpf(epsilon) / 2) * mpmath.expm1((mpmath.mpf(self.range) - epsilon) / 2)
                value = gap**2 / mpmath.expm1(self.range)
            nearest = float(value)
            low = nearest if nearest <= value else rounded_down(nearest)
            high = nearest if nearest >= value else rounded_up(nearest)
        return Bracket(low, min(1.0, high))
