r"""Choices by softmax, several at once, at a cost that every engine composes: a Gaussian's.

*The leaf.* ``exponential`` is composed exactly where it stands alone (docs/theory/exponential.md), but the
recursion that does so knows no random samples. ``bounded-range`` states the same fact about a mechanism, a range η:

    for every event, the log-odds of neighbours differ by at most η,

and costs one Gaussian of multiplier 1/μ(η), μ(η) = 2 Φ^{-1}(1/(1 + e^{−η/2})). So it may stand under any
node. What is given up: μ(η)²/2 ≈ 0.196 η² where one exponential is η²/8-zCDP; a ``pure`` leaf costs η²/2.

*Theorem.* A mechanism of bounded range η is μ(η)-GDP, and no smaller μ does.
*Proof.* Let ln dP/dQ lie in [a, a + η]. For an event (or test) of mass p under P and q under Q, p ≤ e^{a+η} q
and 1 − p ≥ e^a (1 − q), so logit p − logit q ≤ η. μ-GDP asks Φ^{-1}(p) − Φ^{-1}(q) ≤ μ of every test (Dong,
Roth and Su 2022). With F the logistic distribution function, p = F(x + η/2) and q = F(x − η/2) at most, so μ
is the largest h(x + η/2) − h(x − η/2), h = Φ^{-1} ∘ F. h is odd, and its slope Φ(z)Φ(−z)/φ(z), z = h(x), falls
for z > 0: with m(z) = φ(z)/Φ(−z), its logarithm has the derivative z − (m(z) − m(−z)), and m(z) − m(−z) − z is
0 at 0 and rises, because m′(z) + m′(−z) ≥ 2 m′(0) = 4/π > 1 by the convexity of m (Sampford 1953). An even slope
that falls away from 0 makes x = 0 the worst: μ = 2 h(η/2), reached by the two outcomes with losses ±η/2. ∎

*Several choices in one use.* Independent softmax draws over disjoint parts of the records are one draw over
the tuples of their outcomes, with the sum of the scores: the spreads of the changes add. So ``width`` is the
largest *sum of spreads*, over all the choices, that one record can cause. Arithmetic and sampler are those
of ``exponential``; a record that touches two choices doubles the rounding, still under its slack.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from affidavit.accountant import validate
from affidavit.accountant.decimals import float_at_least
from affidavit.accountant.plan import Gaussian, Leaf, Plan, Pure, register_leaf
from affidavit.mechanisms.base import (
    Mechanism,
    Permit,
    Rational,
    Statistic,
    charge,
    positive,
    watched,
)
from affidavit.mechanisms.exponential import ARITHMETIC_SLACK, Scores, sample

__all__ = ["ASSUMPTIONS", "MECHANISM", "BoundedRange", "JointSelection", "costs", "gaussian_multiplier"]

ASSUMPTIONS = (
    "bounded-range: float64 exp is accurate to 2^-44 relative; everything after it is exact integer arithmetic, "
    "and the certified range of a generator's plan includes 2^-36 for the rounding before it",
    "bounded-range: the noise source yields independent uniform bits",
)

_SMALL, _LARGE = 1e-3, 1400.0
_MARGIN = 1e-9
"""Relative; far more than Φ^{-1} in float64 can be off between ``_SMALL`` and ``_LARGE``."""


@dataclass(frozen=True, slots=True)
class BoundedRange(Leaf):
    """One use of a mechanism of bounded range, or of several at once whose ranges add up to ``range``."""

    range: float
    kind: ClassVar[str] = "bounded-range"


def gaussian_multiplier(eta: float) -> float:
    """1/μ(η), rounded down: the noise multiplier of the Gaussian that dominates a range of ``eta`` > 0.

    Outside [1e-3, 1400] by bounds: h is concave on the right of 0, so μ(η) ≤ η h′(0) = η √(2π)/4; and
    Φ(−z) ≤ e^{−z²/2}/2 gives μ(η) ≤ 2 √η.
    """
    from scipy.special import expit, ndtri

    if eta < _SMALL:
        mu = eta * math.sqrt(2.0 * math.pi) / 4.0
    elif eta > _LARGE:
        mu = 2.0 * math.sqrt(eta)
    else:
        mu = -2.0 * float(ndtri(expit(-0.5 * eta)))
    return (1.0 - _MARGIN) / mu


def costs(leaf: BoundedRange) -> Plan:
    """What one use costs, in core leaves."""
    return Gaussian(min(gaussian_multiplier(leaf.range), validate.MOST)) if leaf.range > 0.0 else Pure(0.0)


register_leaf(BoundedRange, {"range": validate.size}, costs=costs)


@dataclass(frozen=True, slots=True)
class JointSelection:
    """``width``: the largest sum, over the choices of one use, of the spreads that one record causes in their
    scores; ``temperature`` in the same units."""

    width: Rational
    temperature: Rational

    def leaf(self) -> BoundedRange:
        """The ``bounded-range`` leaf of one use: width/temperature, plus the slack, rounded up."""
        ratio = positive(self.width, name="width") / positive(self.temperature, name="temperature")
        return BoundedRange(float_at_least(ratio + ARITHMETIC_SLACK))

    def release(self, permit: Permit, path: str, values: Sequence[Scores]) -> tuple[int, ...]:
        """For each list of scores, one index drawn ∝ exp(score/temperature); all charged as one use.

        Whoever computes the scores guarantees that neighbouring data change them by spreads that add up to at
        most ``width``. Raises ``PermitViolation`` as ``SoftmaxSampling.release``.
        """
        asked, ratio = self.leaf(), Fraction(self.width) / Fraction(self.temperature)
        charge(permit, path, asked, lambda certified: ratio <= certified.range)
        return watched(
            permit,
            path,
            Statistic("spread", tuple(values), (Fraction(self.temperature),)),
            lambda: tuple(sample(scores, temperature=self.temperature, noise=permit.noise) for scores in values),
        )


MECHANISM = Mechanism(BoundedRange.kind, JointSelection, "inverse CDF over integer weights", ASSUMPTIONS)
