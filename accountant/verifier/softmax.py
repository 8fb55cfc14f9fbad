"""One use of an exponential mechanism, in closed form.

Theorem. With bounded range η, δ(ε) = (e^{η/2} - e^{ε/2})²/(e^η - 1) for 0 <= ε <= η: the maximum over t of
p_t (1 - e^{ε-t}), at t = (ε + η)/2 (Dong, Durfee, Rogers 2020, Lemma 3.3; see ``adaptive``). Hence
ε = max(0, 2 log(e^{η/2} - √(δ (e^η - 1)))). Relation: the one the range is stated for.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from affidavit.accountant.verifier.adaptive import one_step
from affidavit.accountant.verifier.balls import ball, down, precision, up
from affidavit.accountant.verifier.search import Sides, clipped

__all__ = ["SoftmaxProfile"]


@dataclass(frozen=True, slots=True)
class SoftmaxProfile:
    """δ(ε) of one exponential mechanism of the given range."""

    range: Fraction
    method: str = "closed form of one exponential mechanism"

    def delta(self, epsilon: float) -> Sides:
        """(lower, upper) δ at ε."""
        with precision():
            return clipped(one_step(self.range, ball(epsilon)))

    def epsilon(self, delta: float) -> Sides:
        """(lower, upper) ε at δ."""
        with precision():
            half = (ball(self.range) / 2).exp() - (ball(delta) * ball(self.range).expm1()).sqrt()
            if half <= 1:
                return 0.0, 0.0
            value = 2 * half.max(arb(1)).log()
            return max(0.0, down(value)), max(0.0, up(value))
